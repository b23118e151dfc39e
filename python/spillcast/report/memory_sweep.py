"""What a sweep of work memory found: a bar for each pair, one table, how it spills, the advice."""

from collections.abc import Sequence
from functools import partial

from spillcast.forecast.work_memory.cheapest import Advice
from spillcast.histogram import quantile
from spillcast.lab.memory_result import Point, Sweep, sweep_document
from spillcast.report.histogram import bar
from spillcast.report.memory_table import FORECAST, advice_text, memory_table
from spillcast.report.page import Drawn, Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.units import format_bytes, format_count, format_duration, interval_name

#: Columns that the longest bar has at least.
BAR_MIN = 10
_STATES = {
    "multi-pass": "the spill is multi-pass",
    "one-pass": "it is one-pass",
    "spills": "it spills",
    "none": "nothing is spilled",
}


def sweep_page(sweep: Sweep, advice: Advice | None) -> Page:
    """The whole answer."""
    first, last = format_bytes(sweep.sizes[0]), format_bytes(sweep.sizes[-1])
    parts: list[Part] = [
        Words([f"{sweep.engine}, {sweep.workload}: work memory from {first} to {last}"]),
        Drawn(partial(_chart, sweep)),
        memory_table([p.cell for p in sweep.points], advice, measured=True),
        _spill_table(sweep),
    ]
    latencies = _latency_table(sweep)
    if latencies.rows:
        parts.append(latencies)
    if lines := _sentences(sweep, advice):
        parts.append(Words([f"  {sentence}" for sentence in lines]))
    return Page(parts, _data(sweep))


def _chart(sweep: Sweep, width: int) -> str:
    """A group of bars for each size, one for each storage; forecasts with their intervals."""
    longest_s = max(point.elapsed_s for point in sweep.points)
    order = sorted(sweep.points, key=lambda p: (p.memory_bytes, sweep.storages.index(p.storage)))
    rows = [[format_bytes(p.memory_bytes), p.storage, *_figures(p)] for p in order]
    columns = [
        Column("memory", None),
        Column("storage", None),
        Column("elapsed", None, "raw"),
        Column(interval_name(sweep.confidence), None, "raw", spare=1),
    ]
    lines = Table(columns, rows, grouped=1).text(width - BAR_MIN - 2).splitlines()
    column = max(map(len, lines)) + 2
    room = width - column
    bars = ["", "", *(bar(point.elapsed_s / longest_s, room) for point in order)]
    return "\n".join(
        f"{line:<{column}}{drawn}".rstrip() for line, drawn in zip(lines, bars, strict=True)
    )


def _figures(point: Point) -> list[str | None]:
    if point.interval_s is None:
        return [format_duration(point.elapsed_s), None]
    bounds = " to ".join(map(format_duration, point.interval_s))
    return [f"{FORECAST} {format_duration(point.elapsed_s)}", bounds]


def _spill_table(sweep: Sweep) -> Table:
    """By size what is spilled, which is the same on every storage or nearly."""
    rows = []
    for point in (point for point in sweep.points if point.storage == sweep.storages[0]):
        mark = "" if point.state.measured else f"{FORECAST} "
        rows.append(
            [
                format_bytes(point.memory_bytes),
                mark + point.state.state,
                point.state.passes or None,
                point.state.batches or None,
                f"{mark}{point.count('read'):,}",
                f"{mark}{point.count('write'):,}",
                mark + format_bytes(point.spilled_bytes),
            ]
        )
    columns = [Column("memory", None, "raw"), Column("spill", None)]
    columns += [Column(name, None, "count") for name in ("passes", "batches")]
    columns += [Column(name, None, "raw") for name in ("reads", "writes", "written")]
    return Table(columns, rows)


def _latency_table(sweep: Sweep) -> Table:
    """Latencies of the least memory on each storage; all histograms are in the document."""
    rows = []
    for point in sweep.points:
        if point.memory_bytes != sweep.sizes[0] or point.run is None:
            continue
        for op, done in point.run.ops.items():
            low_s, high_s = (
                quantile(done.latency_ns, done.latency_count, share) / 1e9 for share in (0.5, 0.99)
            )
            rows.append([point.storage, op, done.bytes / done.count, low_s, done.mean_s, high_s])
    columns = [Column(f"{format_bytes(sweep.sizes[0])} on", None), Column("op", None)]
    columns += [Column("size", None, "bytes")]
    columns += [Column(name, None, "s") for name in ("p50", "mean", "p99")]
    return Table(columns, rows)


def _data(sweep: Sweep) -> Table:
    """A row for each storage and size."""
    keys = ("storage", "memory_bytes", "measured", "elapsed_s")
    more = ("reads", "writes", "spilled_bytes", "state", "passes", "batches")
    columns = [Column(None, key, "raw") for key in (*keys, "low_s", "high_s", *more)]
    rows = []
    for point in sweep_document(sweep)["points"]:
        low_s, high_s = point["interval_s"] or (None, None)
        rows.append([*(point[k] for k in keys), low_s, high_s, *(point[k] for k in more)])
    return Table(columns, rows)


def _sentences(sweep: Sweep, advice: Advice | None) -> list[str]:
    lines = []
    if any(point.between is not None for point in sweep.points):
        lines.append(f"{FORECAST} forecast from the sizes that were measured")
    for turn in sweep.turns:
        lines.append(f"From {format_bytes(turn.memory_bytes)} on {_STATES[turn.after]}.")
    lines += _errors(sweep.checked)
    if advice is not None:
        lines.append(advice_text(advice))
    return [*lines, *(f"warning: {warning.message}" for warning in sweep.warnings)]


def _errors(checked: Sequence[Point]) -> list[str]:
    if not checked:
        return []
    errors = sorted(abs(point.error or 0.0) for point in checked)
    middle = (errors[len(errors) // 2] + errors[(len(errors) - 1) // 2]) / 2
    held = sum(point.covered for point in checked)
    return [
        f"Measured afterwards: errors of {format_count(len(errors), 'forecast')} {middle:.1%} "
        f"(median) and {errors[-1]:.1%} (largest); {held} of {len(errors)} intervals held."
    ]
