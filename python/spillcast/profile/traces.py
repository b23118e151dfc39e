"""Traces -> a profile, from groups that the core counted without keeping rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillcast import histogram
from spillcast.profile.result import DIMENSIONS, QUANTILES, LatencyCounts, Profile, bare_row
from spillcast.recording.same_file import repeated_words
from spillcast.recording.trace import Traces


def of_traces(read: Traces, by: Sequence[str]) -> Profile:
    """Groups by event, call and more, put together by what is asked for."""
    sessions = read.sessions()
    elapsed_us = sum(session["elapsed_us"] for session in sessions)
    first_second = read.first_second()
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in read.groups:
        group["event"] = group["event"] or f"CPU: {group['call']}"
        if "second" in group:
            group["second"] -= first_second
        if group.get("file") is not None:
            group["file"] = str(group["file"])
        keys = {name: group[DIMENSIONS[name] or "event"] for name in by}
        row = merged.setdefault(
            tuple(keys.values()), {**keys, "op": group["op"], "idle": True, "parts": []}
        )
        row["idle"] = row["idle"] and bool(group["idle"])
        row["op"] = row["op"] if row["op"] == group["op"] else None
        row["parts"].append(group)
    waits = read.waits()
    rows = [_trace_row(row, read.paths, elapsed_us, waits) for row in merged.values()]
    unaccounted_us = sum(session["unaccounted_us"] for session in sessions)
    if "event" in by and unaccounted_us > 0:
        keys = dict.fromkeys(by)
        bare = bare_row("unaccounted-for", unaccounted_us, elapsed_us)
        rows.append((keys | bare | {"count_share": None}, ([], [])))
    warnings = trace_warnings(read, unaccounted_us)
    ranked, histograms = [row for row, _ in rows], [histogram for _, histogram in rows]
    return Profile(by, elapsed_us / 1e6, ranked, read.damaged(), warnings, histograms).sorted()


def _trace_row(
    row: dict[str, Any], paths: Sequence[Path], elapsed_us: int, waits: int
) -> tuple[dict[str, Any], LatencyCounts]:
    parts = row.pop("parts")
    longest = max(parts, key=lambda part: part["max_us"])
    count, total_us = (sum(part[key] for part in parts) for key in ("count", "total_us"))
    least_us = min(part["min_us"] for part in parts)
    latency_ns, counts = histogram.merged((p["latency_ns"], p["latency_count"]) for p in parts)
    waited = sum(part["count"] for part in parts if part["call"] is None)
    row |= {
        "count": count,
        "count_share": waited / waits if waited else None,
        "total_us": total_us,
        "share": total_us / elapsed_us if elapsed_us else None,
        "min_us": least_us,
        "mean_us": total_us / count,
        **{
            name: min(max(quantile_us(latency_ns, counts, at), least_us), longest["max_us"])
            for name, at in QUANTILES.items()
        },
        "max_us": longest["max_us"],
        "longest_at": f"{paths[longest['max_file']]}:{longest['max_line']}",
    }
    return row, (latency_ns, counts)


def quantile_us(latency_ns: Sequence[int], counts: Sequence[int], quantile: float) -> float:
    """Latency (us) below which this share of a histogram lies, which holds something."""
    # Traces count whole microseconds; the histogram has no bucket for nothing.
    return histogram.quantile(latency_ns, counts, quantile) // 10 / 1e2


def trace_warnings(read: Traces, unaccounted_us: int) -> list[str]:
    """What a reader of a trace's profile should know."""
    warnings = repeated_words(read.repeated)
    unmeasured = read.unmeasured()
    if damaged := read.damaged_count() - unmeasured:
        warnings.append(f"{damaged:,} damaged lines are not in the profile")
    if unmeasured:
        text = "waits have a length that cannot be (ela= below zero): counted apart, in no row"
        warnings.append(f"{unmeasured:,} {text}")
    for path, file in zip(read.paths, read.files, strict=True):
        if file["size_limit_line"]:
            where = f"{path}:{file['size_limit_line']}"
            warnings.append(f"{where}: the trace stopped at its size limit (max_dump_file_size)")
        if file["waits_in_text"]:
            warnings.append(f"{path}: {file['waits_in_text']:,} waits stand in running text")
    if unaccounted_us < 0:
        warnings.append(
            f"waits and CPU overlap by {-unaccounted_us / 1e6:.2f} s: more than elapsed time"
        )
    return warnings
