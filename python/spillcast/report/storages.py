"""Pages of several storages: the catalogue, managed databases, and a comparison of storages."""

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from spillcast.report import Page, PagePart, Prose
from spillcast.report.storage import origin_text
from spillcast.storage.catalogue import MOVABLE, CatalogueEntry, Managed, figures
from spillcast.storage.description import Comparison, SpeedUp, StorageComparison
from spillcast.tabular import Column, PrintedTable
from spillcast.units import format_count, format_share, format_speedup

_CATALOGUE = (
    Column("catalogue:", "name"),
    Column("what it is", "what", spare=1),
    Column("8K read", "read_8k_s", "s"),
    Column("256K write", "write_256k_s", "s"),
    Column("MB/s", "write_bytes_per_s", "MB/s"),
    Column("IOPS", "reads_per_s", "integer"),
    Column(None, "spread", "number"),
)


def catalogue_page(rows: Sequence[CatalogueEntry]) -> Page:
    """A row for each storage: a random read, a sequential write, and the maximum rates."""
    table = PrintedTable.of(_CATALOGUE, list(map(_entry_document, rows)))
    notes = [
        "  Latency of a single random read and a single sequential write; then the maximum rates "
        "of sequential writes of 256 KiB and random reads of 8 KiB. Published figures, not "
        "measured; with bursts, while they last."
    ]
    for row in rows:
        if row.parameters:
            choice = ", ".join(f"{p.key} {p.allowed}" for p in row.parameters)
            notes.append(f"  {row.name}?... {choice}")
    return Page([table, Prose(notes, "  ")], table)


def managed_page(services: Sequence[Managed]) -> Page:
    """A paragraph for each managed database: its storage, and whether temp files can move."""
    parts = []
    for service in services:
        lines = [
            f"{service.service}: {service.storage}.",
            f"  limits: {service.limits}",
            f"  temp files: {service.temp_files or MOVABLE['unknown']}",
            f"  can they move: {MOVABLE[service.movable]}; {service.how}",
        ]
        if service.rows:
            rows = ", ".join(f"catalogue:{name}" for name in service.rows.split())
            lines.append(f"  like: {rows}")
        lines.append(f"  source, read {service.read}: {service.source}")
        parts.append(Prose(lines))
    return Page(parts, PrintedTable.of_records(list(map(vars, services))))


def managed_document(services: Sequence[Managed]) -> dict[str, Any]:
    """The document of managed databases."""
    return {"schema": "spillcast.managed/1", "services": list(map(vars, services))}


def catalogue_document(rows: Sequence[CatalogueEntry]) -> dict[str, Any]:
    """The document of the catalogue."""
    return {"schema": "spillcast.catalogue/1", "storages": [_entry_document(row) for row in rows]}


def _entry_document(row: CatalogueEntry) -> dict[str, Any]:
    storage = row.storage()
    return {
        "name": row.name,
        "what": row.title,
        "description": row.description,
        **figures(storage),
        "spread": storage.facts["spread"],
        "assumed": storage.facts["assumed"],
        "source": row.source,
        "parameters": [
            {"key": p.key, "unit": p.unit, "default": p.default, "min": p.low, "max": p.high}
            for p in row.parameters
        ],
    }


#: Smaller speed-ups are no difference; speed-ups by size are a range if their ratio is larger.
EQUAL_RATIO_MAX, RANGE_RATIO_MIN = 1.05, 1.3
#: Rows with a larger error are left out.
ERROR_MAX = 0.5
_COMPARED = (Column("", None), Column("p50", None, "s", spare=1), Column("mean", None, "s"),
          Column("p99", None, "s", spare=2), Column("speed-up", None, "ratio"))  # fmt: skip
#: Columns of CSV, which has a row for every size and storage, even if little is known of it.
_COMPARED_DATA = (
    *("op", "size_class_bytes", "pattern", "storage", "p50_s", "mean_s", "p99_s", "speedup"),
    *("measured", "extrapolated", "error"),
)


def comparison_page(comparison: Comparison) -> Page:
    """A legend, a line for each storage by op and size, and a sentence for each storage."""
    storages = zip(ascii_uppercase, comparison.names, comparison.storages, strict=False)
    legend = [f"{letter}  {name}: {origin_text(storage)}" for letter, name, storage in storages]
    rows = [
        row
        for row in comparison.rows
        if all(latency is None or latency.error <= ERROR_MAX for latency in row.storages)
    ]
    patterns = len({row.pattern for row in rows}) > 1
    keys = [Column("op", None), Column("size", None, "bytes")]
    keys += [Column("pattern", None)] if patterns else []
    lines = [
        _comparison_row(row, at, patterns) for row in rows for at in range(len(comparison.names))
    ]
    parts: list[PagePart] = [
        Prose(legend, "   "),
        PrintedTable([*keys, *_COMPARED], lines, grouped=len(keys)),
        Prose(_marks(rows, len(comparison.rows) - len(rows))),
        Prose([_verdict(comparison, at) for at in range(1, len(comparison.names))], "  "),
    ]
    document = comparison.to_json()
    records = [
        {**row, "storage": storage["name"], **(latency or {})}
        for row in document["rows"]
        for storage, latency in zip(document["storages"], row["storages"], strict=True)
    ]
    return Page(parts, PrintedTable.of_records(records, _COMPARED_DATA))


def _comparison_row(row: StorageComparison, at: int, patterns: bool) -> list[Any]:
    key = [row.op, row.size_class_bytes, *([row.pattern] if patterns else [])]
    if (latency := row.storages[at]) is None:
        return [*key, ascii_uppercase[at], None, None, None, None]
    mark = "" if latency.measured else " ?" if latency.extrapolated else " ~"
    times_s = latency.p50_s, latency.mean_s, latency.p99_s
    return [*key, ascii_uppercase[at] + mark, *times_s, latency.speedup if at else None]


def _marks(rows: Sequence[StorageComparison], left_out: int) -> list[str]:
    """The meaning of marks with their largest error, and the number of rows left out."""
    latencies = [latency for row in rows for latency in row.storages if latency is not None]
    unmeasured = [latency for latency in latencies if not latency.measured]
    notes = []
    for mark, extrapolated in (("~ interpolated", False), ("? extrapolated", True)):
        if errors := [e.error for e in unmeasured if e.extrapolated == extrapolated]:
            notes.append(f"  {mark}, +/- {_percent(max(errors))}")
    if left_out:
        count = format_count(left_out, "row")
        notes.append(f"  {count} left out, too far from measured sizes or depths: see --json")
    return notes


def _verdict(comparison: Comparison, at: int) -> str:
    """``B reads 12.3 times faster and writes 1.5 times slower than A.``"""
    first, name = comparison.names[0], comparison.names[at]
    verdicts = comparison.verdicts[at - 1]
    if not verdicts:
        return f"{name} has no figures for the operations of {first}."
    certain = [verdict for verdict in verdicts if verdict.error <= ERROR_MAX]
    if not certain:
        return f"{name} and {first} were measured at sizes or depths too different to compare."
    *clauses, last = map(_clause, certain)
    text = f"{', '.join(clauses)} and {last}" if clauses else last
    return f"{name} {text} {'as' if text.endswith(' as fast') else 'than'} {first}."


def _clause(verdict: SpeedUp) -> str:
    """``reads at random 12.3 times faster (8 to 20 by size, +/- 10 %)``."""
    order = {"random": " at random", "sequential": " in sequence"}.get(verdict.pattern, "")
    verb, speedup = f"{verdict.op}s{order}", verdict.speedup
    if 1 / EQUAL_RATIO_MAX < speedup < EQUAL_RATIO_MAX:
        return f"{verb} as fast"
    slowest, fastest = verdict.speedup_min, verdict.speedup_max
    low, high = sorted(max(ratio, 1 / ratio) for ratio in (slowest, fastest))
    remarks = []
    if slowest < 1 < fastest:
        remarks.append(f"{format_speedup(slowest)} to {format_speedup(fastest)} by size")
    elif high > RANGE_RATIO_MIN * low:
        remarks.append(f"{_times(low)} to {_times(high)} by size")
    if verdict.error > EQUAL_RATIO_MAX - 1:
        remarks.append(f"+/- {_percent(verdict.error)}")
    slower = f"{_times(1 / speedup)} times slower"
    text = slower if speedup < 1 else f"{_times(speedup)} times faster"
    return f"{verb} {text}" + (f" ({', '.join(remarks)})" if remarks else "")


def _times(ratio: float) -> str:
    return format_speedup(ratio).removesuffix("x")


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.01 else format_share(share)
