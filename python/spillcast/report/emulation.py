"""The mount of an emulated storage: description, progress and result."""

from collections.abc import Mapping
from typing import Any

from spillcast.recording.event_names import OPS
from spillcast.report.page import Page, Words
from spillcast.report.table import Column, Table, paragraph
from spillcast.stats import quantile
from spillcast.storage.emulation import Emulated, Mount
from spillcast.units import format_bytes, format_duration


def mounted_text(mount: Mount, *, temporary: bool, end: str) -> str:
    """The description of a new mount."""
    kept = "deleted at the end" if temporary else "kept"
    cache = ", through the page cache" if mount.page_cache else ""
    text = (
        f"mounted at {mount.mountpoint}: {described(mount)}{cache}. {end}; the files are in "
        f"{mount.backing} and are {kept}."
    )
    warnings = [f"warning: {words}" for words in mount.too_fast().values()]
    return "\n".join(paragraph(words) for words in (text, *warnings))


def described(mount: Mount) -> str:
    """The name of the storage, how many operations it serves at once, and its limits."""
    parts = [mount.behaviour.name]
    if mount.behaviour.servers is not None:
        parts.append(f"{mount.behaviour.servers} at once")
    parts += (f"limit {limit.name}" for limit in mount.behaviour.limits)
    return ", ".join(parts)


def status_line(result: Emulated, before: Emulated) -> str:
    """Operations so far, and their rate since ``before``."""
    elapsed_s = max(result.elapsed_s - before.elapsed_s, 1e-3)
    parts = []
    for now, then in zip(result.operations, before.operations, strict=True):
        rate = (now["count"] - then["count"]) / elapsed_s
        moved = format_bytes((now["bytes"] - then["bytes"]) / elapsed_s)
        parts.append(f"{now['count']:,} {now['op']}s ({rate:,.0f}/s, {moved}/s)")
    return f"{result.mount.mountpoint}: {', '.join(parts)}"


_COLUMNS = (
    Column("op", "op"),
    Column("count", "count", "count"),
    Column("bytes", "bytes", "bytes"),
    Column(None, "total_ns"),
    Column("mean", "mean_s", "s"),
    Column("p50", "p50_s", "s"),
    Column("p99", "p99_s", "s"),
    Column("sequential", None, "percent", spare=1),
    Column(None, "sequential"),
    Column("late", None, "percent1"),
    Column(None, "late"),
)


def emulation_page(result: Emulated) -> Page:
    """Operations with their latencies, and the latency of the mount itself."""
    data = Table(_COLUMNS, [_row(done) for done in result.operations])
    done = Table(_COLUMNS, [_row(done) for done in result.operations if done["count"]])
    title = f"{described(result.mount)}: {format_duration(result.elapsed_s)}"
    lines = [f"  {floor_sentence(result.mount)}"]
    lines += (f"  warning: {w['message']}" for w in result.warnings())
    table = done if done.rows else Words(["  nothing was read or written"])
    return Page([Words([title]), table, Words(lines, "  ")], data)


def floor_sentence(mount: Mount) -> str:
    """The latency of FUSE itself."""
    parts = []
    for op in OPS:
        of_op = [(size, ns) for of, size, ns in mount.floor if of == op]
        (small, least_ns), (large, most_ns) = of_op[0], of_op[-1]
        parts.append(
            f"{format_duration(least_ns / 1e9)} for a {op} of {format_bytes(small)} and "
            f"{format_duration(most_ns / 1e9)} for {format_bytes(large)}"
        )
    return f"The mount itself takes {', '.join(parts)}; this is subtracted."


def _row(done: Mapping[str, Any]) -> list[Any]:
    histogram, count = (done["latency_ns"], done["latency_count"]), done["count"]
    times: list[Any] = [None, None, None]
    if count:
        quantiles_s = (quantile(*histogram, q) / 1e9 for q in (0.5, 0.99))
        times = [done["total_ns"] / count / 1e9, *quantiles_s]
    return [
        *(done["op"], count, done["bytes"], done["total_ns"], *times),
        *(done["sequential"] / count if count else None, done["sequential"]),
        *(done["late"] / count if count else None, done["late"]),
    ]
