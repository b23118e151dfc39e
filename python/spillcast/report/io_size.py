"""A sweep of I/O sizes as a table, bars and sentences."""

from collections.abc import Sequence

from spillcast.lab.io_size.settings import setting_text
from spillcast.lab.io_size.sweep import Row, Sweep
from spillcast.lab.io_size.trial import OpTime
from spillcast.report.histogram import bar
from spillcast.report.table import paragraph, table_text
from spillcast.units import format_bytes, format_duration

#: Columns of the chart beside the bars, without the names of the rows.
_BESIDE = 34
RECORDED = "as recorded"
#: Up to so many rows each has a line.
ALL_ROWS = 12


def sweep_text(sweep: Sweep, width: int = 80) -> str:
    """The table of waits, the chart, the best setting, what to set, and what weakens it."""
    how = "measured on" if sweep.is_measured else "by the model of"
    head = paragraph(f"I/O size: {sweep.like}, {how} {sweep.storage}", "  ", width)
    shown = _shown(sweep)
    parts = [head, _table(shown), _chart(sweep, shown, width), _verdict(sweep, width)]
    for one in sweep.advice():
        lines = [paragraph(f"  {one.engine}: {one.text}.", "    ", width)]
        parts.append("\n".join([*lines, *(f"    {sql}" for sql in one.statements)]))
    parts += [paragraph(f"  note: {w['message']}", "    ", width) for w in sweep.warnings]
    return "\n\n".join(parts)


def _shown(sweep: Sweep) -> list[tuple[str, Row]]:
    """The rows with their names; of many that make the same I/O, one with the number of others."""
    named = [] if sweep.recorded is None else [(RECORDED, sweep.recorded)]
    best = sweep.best
    kept: dict[int, Row] = {}
    for row in sweep.rows:
        if row.io not in kept or row is best:
            kept[row.io] = row
    if len(sweep.rows) <= ALL_ROWS:
        return [*named, *((setting_text(row.setting), row) for row in sweep.rows)]
    for io, row in kept.items():
        others = sum(other.io == io for other in sweep.rows) - 1
        more = f" +{others}" if others else ""
        named.append((setting_text(row.setting) + more, row))
    return named


def _table(shown: Sequence[tuple[str, Row]]) -> str:
    """As many columns as are known: waits, mean and total of each op, levels, and the sum."""
    with_levels = shown[-1][1].levels is not None
    header = ["max/min", "reads", "mean", "sum s", "writes", "mean", "sum s"]
    header += [*(["levels"] if with_levels else []), "all s"]
    rows = []
    for name, row in shown:
        cells = [name, *_cells(row.trial.reads), *_cells(row.trial.writes)]
        cells += [str(row.levels)] if with_levels else []
        rows.append([*cells, _seconds(row.trial.total_s)])
    text = table_text(header, rows)
    if any("+" in name for name, _ in shown):
        text += "\n  +: and so many more settings, which make the same I/O"
    return text


def _cells(times: OpTime) -> list[str]:
    if times.mean_us is None:
        return ["-", "-", "-"]
    return [
        f"{round(times.count):,}",
        format_duration(times.mean_us / 1e6),
        _seconds(times.total_s),
    ]


def _seconds(seconds: float) -> str:
    """Three digits, so that a column can be compared at a glance."""
    return f"{seconds:,.0f}" if seconds >= 99.95 else f"{seconds:#.3g}"


def _chart(sweep: Sweep, shown: Sequence[tuple[str, Row]], width: int) -> str:
    """Bars of the time of all waits, with the interval, and the best marked."""
    most_s = max(row.trial.total_s for _, row in shown) or 1.0
    label = max(len(name) for name, _ in shown)
    best, as_good = sweep.best, {row.io for row in sweep.as_good()}
    lines = ["Time of all waits"]
    for name, row in shown:
        words = ""
        if name != RECORDED:
            same = "the same I/O" if row.io == best.io else ""
            words = "best" if row is best else same or ("as good" if row.io in as_good else "")
        drawn = bar(row.trial.total_s / most_s, max(width - _BESIDE - label, 10))
        cells = f"  {name:>{label}}  {format_duration(row.trial.total_s):>10} |{drawn}"
        lines.append(f"{cells} {words}".rstrip())
    return "\n".join(lines)


def _verdict(sweep: Sweep, width: int) -> str:
    best = sweep.best
    bounds = best.trial.interval_s
    text = (
        f"Best: {setting_text(best.setting)}, I/Os of {format_bytes(best.trial.mean_bytes)} in the "
        f"mean: {format_duration(best.trial.total_s)}"
    )
    if bounds is not None and bounds[1] > bounds[0]:
        text += f" ({format_duration(bounds[0])} to {format_duration(bounds[1])})"
    if sweep.recorded is not None and best.trial.total_s:
        before_s = sweep.recorded.trial.total_s
        text += f", {before_s / best.trial.total_s:.3g} times as fast as recorded"
    others = [row for row in sweep.as_good() if row.io != best.io]
    if others:
        names = ", ".join(dict.fromkeys(setting_text(row.setting) for row in _one_each(others)))
        text += f". As good, for the intervals overlap: {names}"
    return paragraph(text + ".", "  ", width)


def _one_each(rows: Sequence[Row]) -> list[Row]:
    """One row of each I/O."""
    return list({row.io: row for row in reversed(rows)}.values())[::-1]
