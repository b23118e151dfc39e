"""A storage as a table of latencies."""

from spillcast.report.table import table_text
from spillcast.storage import Storage
from spillcast.units import format_bytes, format_duration

#: Columns that all figures take, and the figures that stand in fewer.
_WIDE, _ENOUGH = 72, ("op", "size", "count", "mean", "p50", "p99")


def storage_text(storage: Storage, *, width: int = 80) -> str:
    """One row per op and size; fewer quantiles where there is little width."""
    facts = storage.facts
    title = f"{storage.name} ({storage.source}"
    if "filesystem" in facts:
        title += f", {facts['filesystem']}, {facts['threads']} at once"
    rows = [
        [
            g.op,
            format_bytes(g.size_class_bytes),
            f"{g.count:,}",
            format_duration(g.mean_s),
            *(format_duration(g.quantile_s(q)) for q in (0.5, 0.95, 0.99, 1.0)),
        ]
        for op in ("read", "write")
        for g in storage.of(op)
    ]
    header = ["op", "size", "count", "mean", "p50", "p95", "p99", "max"]
    if width < _WIDE:
        kept = [header.index(name) for name in _ENOUGH]
        header, *rows = ([row[at] for at in kept] for row in (header, *rows))
    text = table_text(header, rows)
    if facts.get("steps_skipped"):
        done = facts["steps_replayed"]
        text += f"\n  {done:,} of {done + facts['steps_skipped']:,} operations fitted the budget"
    return f"{title})\n{text}"
