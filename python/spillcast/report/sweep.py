"""Sweeps of I/O sizes and of work memory: bars, tables, the best setting, advice."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from spillcast.forecast.result import Interval
from spillcast.forecast.work_memory import MemoryAdvice
from spillcast.lab.io_size import IoSizeSweep, SettingResult
from spillcast.lab.io_size.spill import setting_text
from spillcast.lab.io_size.trials import Operations
from spillcast.lab.memory_result import MemoryPoint, MemorySweep
from spillcast.recording import OPS
from spillcast.report import Commands, Drawing, Notes, Page, PagePart, Prose, bar, with_bars
from spillcast.report.work_memory import FORECAST, advice_text, memory_table
from spillcast.stats import merged, quantile
from spillcast.tabular import WIDTH, Column, PrintedTable
from spillcast.units import (
    format_bytes,
    format_count,
    format_duration,
    format_interval,
    interval_name,
)

#: Width of the chart without the bars and the names of the rows, in columns.
_MARGIN_COLUMNS = 34
RECORDED = "as recorded"
#: If there are more rows, rows with the same I/O share a line.
ALL_ROWS = 12


def io_size_page(sweep: IoSizeSweep) -> Page:
    """The table of waits, the chart, the best setting, how to set it, and warnings."""
    source = "measured on" if sweep.measured else "by the model of"
    shown = io_size_rows(sweep)
    legend = ["  +N: N more settings that make the same I/O"]
    parts: list[PagePart] = [
        Prose([f"I/O size: {sweep.like}, {source} {sweep.storage}"]),
        _io_size_table(sweep, shown),
        Prose(legend if any("+" in name for name, _ in shown) else []),
        Drawing(partial(_io_size_chart, sweep, shown)),
        Prose([f"  {io_size_verdict(sweep)}"]),
    ]
    for advice in sweep.advice:
        parts.append(Prose([f"  {advice.engine}: {advice.text}."]))
        if advice.statements:
            parts.append(Commands(advice.statements, "sql"))
    parts.append(Notes([f"  note: {warning['message']}" for warning in sweep.warnings]))
    return Page(parts, _io_size_data(sweep))


def io_size_rows(sweep: IoSizeSweep) -> list[tuple[str, SettingResult]]:
    """The rows with their names; if there are many, one row per I/O, with the number of others."""
    named = [] if sweep.recorded is None else [(RECORDED, sweep.recorded)]
    if len(sweep.rows) <= ALL_ROWS:
        return [*named, *((setting_text(row.setting), row) for row in sweep.rows)]
    counts = Counter(row.io for row in sweep.rows)
    best = sweep.row_of(sweep.best.setting)
    # The best row of each I/O, or else the first.
    row_of = {row.io: row for row in (*reversed(sweep.rows), best)}
    for io, settings in counts.items():
        row = row_of[io]
        more = f" +{settings - 1}" if settings > 1 else ""
        named.append((setting_text(row.setting) + more, row))
    return named


def _io_size_table(sweep: IoSizeSweep, shown: Sequence[tuple[str, SettingResult]]) -> PrintedTable:
    """The columns with values: waits, mean and total of each op, levels, and the sum."""
    columns = [
        Column("max/min", None),
        *(
            Column(name, None, unit, spare)
            for op in ("reads", "writes")
            for name, unit, spare in ((op, "integer", 1), ("mean", "us", 2), ("sum s", "raw", 0))
        ),
        Column("levels", None, "count"),
        Column("all s", None, "raw"),
        Column(interval_name(sweep.confidence), None, "interval", spare=3),
    ]
    rows = [
        [
            *(name, *_cells(row.reads), *_cells(row.writes)),
            *(row.levels, _seconds(row.total_s), _interval(row)),
        ]
        for name, row in shown
    ]
    return PrintedTable(columns, rows)


def _interval(row: SettingResult) -> Interval | None:
    """The interval of a row's time (s); None if it is unknown or has no width."""
    bounds_s = row.interval_s
    return bounds_s if bounds_s is not None and bounds_s[1] > bounds_s[0] else None


def _cells(times: Operations) -> list[Any]:
    if times.mean_us is None:
        return [None, None, None]
    return [times.count, times.mean_us, _seconds(times.total_s)]


def _seconds(seconds: float) -> str:
    """A time with three digits, so that the values of a column are easy to compare."""
    return f"{seconds:,.0f}" if seconds >= 99.95 else f"{seconds:#.3g}"


def _io_size_data(sweep: IoSizeSweep) -> PrintedTable:
    """A row for each setting, with count, mean and total of each op."""
    figures = [(op, figure) for op in OPS for figure in ("count", "mean_us", "total_s")]
    records = [
        vars(row) | {f"{op}_{name}": getattr(getattr(row, f"{op}s"), name) for op, name in figures}
        for row in sweep.rows
    ]
    keys = ["min_bytes", "max_bytes", "levels", "total_s"]
    keys += [f"{op}_{name}" for op, name in figures]
    return PrintedTable.of_records(records, [*keys, "low_s", "high_s"])


def _io_size_chart(
    sweep: IoSizeSweep, shown: Sequence[tuple[str, SettingResult]], width: int
) -> str:
    """Bars of the time of all waits, with intervals; the best is marked."""
    max_s = max(row.total_s for _, row in shown) or 1.0
    name_width = max(len(name) for name, _ in shown)
    best = sweep.row_of(sweep.best.setting)
    as_good = {sweep.row_of(setting).io for setting in sweep.as_good}
    lines = ["Time of all waits"]
    for name, row in shown:
        if name == RECORDED:
            remark = ""
        elif row is best:
            remark = "best"
        elif row.io == best.io:
            remark = "the same I/O"
        else:
            remark = "as good" if row.io in as_good else ""
        drawn_bar = bar(row.total_s / max_s, max(width - _MARGIN_COLUMNS - name_width, 10))
        line = f"  {name:>{name_width}}  {format_duration(row.total_s):>10} |{drawn_bar} {remark}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def io_size_verdict(sweep: IoSizeSweep) -> str:
    """The best setting with its time, and settings that may be as good."""
    best = sweep.row_of(sweep.best.setting)
    text = (
        f"Best on {sweep.storage}: {setting_text(best.setting)}, I/Os of "
        f"{format_bytes(best.mean_bytes)} in the mean: {format_duration(best.total_s)}"
    )
    if (bounds_s := _interval(best)) is not None:
        text += f" ({format_interval(bounds_s)})"
    if sweep.recorded is not None and best.total_s:
        before_s = sweep.recorded.total_s
        text += f", {before_s / best.total_s:.3g} times as fast as recorded"
    others = [row for row in map(sweep.row_of, sweep.as_good) if row.io != best.io]
    if others:
        # The first setting of each I/O.
        distinct = {row.io: setting_text(row.setting) for row in reversed(others)}
        names = ", ".join(dict.fromkeys(reversed(distinct.values())))
        text += f". As good, because the intervals overlap: {names}"
    return f"{text}."


_STATES = {
    "multi-pass": "the spill is multi-pass",
    "one-pass": "it is one-pass",
    "spills": "it spills",
    "none": "nothing is spilled",
}


def memory_page(sweep: MemorySweep, advice: MemoryAdvice | None) -> Page:
    """The page of a sweep of work memory."""
    first, last = format_bytes(sweep.sizes[0]), format_bytes(sweep.sizes[-1])
    elapsed_s = [point.elapsed_s for point in _by_memory(sweep)]
    parts: list[PagePart] = [
        Prose([f"{sweep.engine}, {sweep.workload}: work memory from {first} to {last}"]),
        Drawing(partial(with_bars, points_table(sweep), elapsed_s, WIDTH)),
        memory_table([p.cell for p in sweep.points], advice, measured=True),
        spill_table(sweep),
    ]
    if (latencies := _latency_table(sweep)).rows:
        parts.append(latencies)
    parts.append(Prose([f"  {sentence}" for sentence in memory_sentences(sweep, advice)]))
    parts.append(Notes([f"  warning: {warning['message']}" for warning in sweep.warnings]))
    keys = (
        *("storage", "memory_bytes", "measured", "elapsed_s", "low_s", "high_s"),
        *("reads", "writes", "spilled_bytes", "state", "passes", "batches"),
    )
    return Page(parts, PrintedTable.of_records(list(map(vars, sweep.points)), keys))


def points_table(sweep: MemorySweep) -> PrintedTable:
    """The elapsed time with each size of memory on each storage; forecasts are marked."""
    rows = [
        [
            *(format_bytes(p.memory_bytes), p.storage),
            ("" if p.interval_s is None else f"{FORECAST} ") + format_duration(p.elapsed_s),
            p.interval_s,
        ]
        for p in _by_memory(sweep)
    ]
    columns = [
        Column("memory", None),
        Column("storage", None),
        Column("elapsed", None, "raw"),
        Column(interval_name(sweep.confidence), None, "interval", spare=1),
    ]
    return PrintedTable(columns, rows, grouped=1)


def _by_memory(sweep: MemorySweep) -> list[MemoryPoint]:
    return sorted(sweep.points, key=lambda p: (p.memory_bytes, sweep.storages.index(p.storage)))


def spill_table(sweep: MemorySweep) -> PrintedTable:
    """The spill by size of memory, which is nearly the same on every storage."""
    rows = []
    for point in sweep.points:
        if point.storage != sweep.storages[0]:
            continue
        mark = "" if point.state_measured else f"{FORECAST} "
        counts = point.passes or None, point.batches or None
        moved = f"{point.reads:,}", f"{point.writes:,}", format_bytes(point.spilled_bytes)
        marked = [mark + text for text in moved]
        rows.append([format_bytes(point.memory_bytes), mark + point.state, *counts, *marked])
    columns = [Column("memory", None, "raw"), Column("spill", None)]
    columns += [Column(name, None, "count") for name in ("passes", "batches")]
    columns += [Column(name, None, "raw") for name in ("reads", "writes", "written")]
    return PrintedTable(columns, rows)


def _latency_table(sweep: MemorySweep) -> PrintedTable:
    """Latencies with the smallest memory on each storage; the document has all histograms."""
    rows = []
    for point in sweep.points:
        if point.memory_bytes != sweep.sizes[0] or point.run is None:
            continue
        for op, stats in point.run.ops.items():
            buckets = merged((g.latency_ns, g.latency_count) for g in stats.groups)
            p50_s, p99_s = (quantile(*buckets, share) / 1e9 for share in (0.5, 0.99))
            rows.append([point.storage, op, stats.bytes / stats.count, p50_s, stats.mean_s, p99_s])
    columns = [Column(f"{format_bytes(sweep.sizes[0])} on", None), Column("op", None)]
    columns += [Column("size", None, "bytes")]
    columns += [Column(name, None, "s") for name in ("p50", "mean", "p99")]
    return PrintedTable(columns, rows)


def memory_sentences(sweep: MemorySweep, advice: MemoryAdvice | None) -> list[str]:
    """Sentences: sizes with smaller spills, the errors of the forecasts, the cheapest size."""
    all_measured = all(point.measured for point in sweep.points)
    lines = [] if all_measured else [f"{FORECAST} forecast from the sizes that were measured"]
    for turn in sweep.turns:
        lines.append(f"From {format_bytes(turn.memory_bytes)} on {_STATES[turn.after]}.")
    if sweep.median_error is not None:
        largest = max(abs(checked.error) for checked in sweep.errors)
        count, covered = len(sweep.errors), sum(checked.covered for checked in sweep.errors)
        lines.append(
            f"Measured afterwards: errors of {format_count(count, 'forecast')} "
            f"{sweep.median_error:.1%} (median) and {largest:.1%} (largest); {covered} of {count} "
            "intervals contain the measured time."
        )
    return lines if advice is None else [*lines, advice_text(advice)]
