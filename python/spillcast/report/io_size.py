"""A sweep of I/O sizes as a table, bars and sentences."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from spillcast.lab.io_size.settings import setting_text
from spillcast.lab.io_size.sweep import Row, Sweep
from spillcast.lab.io_size.trial import OpTime
from spillcast.recording.event_names import OPS
from spillcast.report.histogram import bar
from spillcast.report.page import Drawn, Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.units import format_bytes, format_duration

#: Columns of the chart beside the bars, without the names of the rows.
_BESIDE = 34
RECORDED = "as recorded"
#: Up to so many rows each has a line.
ALL_ROWS = 12


def sweep_page(sweep: Sweep) -> Page:
    """The table of waits, the chart, the best setting, what to set, and what weakens it."""
    how = "measured on" if sweep.is_measured else "by the model of"
    shown = _shown(sweep)
    parts: list[Part] = [
        Words([f"I/O size: {sweep.like}, {how} {sweep.storage}"]),
        _table(shown),
        Drawn(partial(_chart, sweep, shown)),
        Words([f"  {_verdict(sweep)}"]),
    ]
    if any("+" in name for name, _ in shown):
        parts.insert(2, Words(["  +N: N more settings that make the same I/O"]))
    for advice in sweep.advice():
        parts.append(
            Words([f"  {advice.engine}: {advice.text}.", *(f"    {s}" for s in advice.statements)])
        )
    if sweep.warnings:
        parts.append(Words([f"  note: {warning['message']}" for warning in sweep.warnings]))
    return Page(parts, _data(sweep))


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


def _table(shown: Sequence[tuple[str, Row]]) -> Table:
    """As many columns as are known: waits, mean and total of each op, levels, and the sum."""
    columns = [
        Column("max/min", None),
        *(
            Column(name, None, unit, spare)
            for op in ("reads", "writes")
            for name, unit, spare in ((op, "whole", 1), ("mean", "us", 2), ("sum s", "raw", 0))
        ),
        Column("levels", None, "count"),
        Column("all s", None, "raw"),
    ]
    return Table(
        columns,
        [
            [
                name,
                *_cells(row.trial.reads),
                *_cells(row.trial.writes),
                row.levels,
                _seconds(row.trial.total_s),
            ]
            for name, row in shown
        ],
    )


def _cells(times: OpTime) -> list[Any]:
    if times.mean_us is None:
        return [None, None, None]
    return [times.count, times.mean_us, _seconds(times.total_s)]


def _seconds(seconds: float) -> str:
    """Three digits, so that a column can be compared at a glance."""
    return f"{seconds:,.0f}" if seconds >= 99.95 else f"{seconds:#.3g}"


def _data(sweep: Sweep) -> Table:
    """A row a setting."""
    keys = ("min_bytes", "max_bytes", "levels", "total_s")
    of_op = ("count", "mean_us", "total_s")
    columns = [Column(None, key, "raw") for key in keys]
    columns += [Column(None, f"{op}_{key}", "raw") for op in OPS for key in of_op]
    columns += [Column(None, key, "raw") for key in ("low_s", "high_s")]
    rows = []
    for row in sweep.to_json()["rows"]:
        waits = [row[f"{op}s"][key] for op in OPS for key in of_op]
        rows.append([*(row[key] for key in keys), *waits, *(row["interval_s"] or (None, None))])
    return Table(columns, rows)


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


def _verdict(sweep: Sweep) -> str:
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
        names = ", ".join(
            dict.fromkeys(setting_text(row.setting) for row in _distinct_settings(others))
        )
        text += f". As good, because the intervals overlap: {names}"
    return f"{text}."


def _distinct_settings(rows: Sequence[Row]) -> list[Row]:
    """One row of each I/O."""
    return list({row.io: row for row in reversed(rows)}.values())[::-1]
