"""What a sweep of work memory found: a bar for each pair, one table, how it spills, the advice."""

from collections.abc import Sequence
from itertools import groupby

from spillcast.forecast.cheapest import Advice
from spillcast.lab.memory_result import Point, Sweep
from spillcast.report.histogram import bar
from spillcast.report.memory_table import FORECAST, advice_text, memory_table_text
from spillcast.report.table import WIDTH, paragraph, table_text
from spillcast.storage.storage import histogram_quantile_s
from spillcast.units import format_bytes, format_duration

#: A name of a storage in the chart; longer ones lose their beginning.
NAME_MAX = 24
_STATES = {
    "multi-pass": "the spill is multi-pass",
    "one-pass": "it is one-pass",
    "spills": "it spills",
    "none": "nothing is spilled",
}


def sweep_text(sweep: Sweep, advice: Advice | None, width: int) -> str:
    """The whole answer, in at most ``width`` columns but for tables."""
    width = min(width, WIDTH)
    first, last = format_bytes(sweep.sizes[0]), format_bytes(sweep.sizes[-1])
    parts = [
        f"{sweep.engine}, {sweep.workload}: work memory from {first} to {last}",
        _chart(sweep, width),
        memory_table_text([p.cell for p in sweep.points], advice, measured=True),
        _spill_table(sweep),
    ]
    latencies = _latency_table(sweep)
    if latencies:
        parts.append(latencies)
    parts.append("\n".join(_sentences(sweep, advice, width)))
    return "\n\n".join(parts)


def _chart(sweep: Sweep, width: int) -> str:
    """A group of bars for each size, one for each storage; forecasts with their intervals."""
    longest_s = max(point.elapsed_s for point in sweep.points)
    rows = []
    order = sorted(sweep.points, key=lambda p: (p.memory_bytes, sweep.storages.index(p.storage)))
    for size, group in groupby(order, key=lambda p: p.memory_bytes):
        for number, point in enumerate(group):
            rows.append(
                ["" if number else format_bytes(size), _short(point.storage), *_figures(point)]
            )
    header = ["memory", "storage", "elapsed", f"{sweep.confidence:.0%} sure"]
    lines = table_text(header, rows, left=(1, 3)).splitlines()
    room = max(width - max(map(len, lines)) - 2, 8)
    column = max(map(len, lines)) + 2
    bars = ["", "", *(bar(point.elapsed_s / longest_s, room) for point in order)]
    return "\n".join(
        f"{line:<{column}}{drawn}".rstrip() for line, drawn in zip(lines, bars, strict=True)
    )


def _figures(point: Point) -> list[str]:
    if point.interval_s is None:
        return [format_duration(point.elapsed_s), ""]
    bounds = " to ".join(map(format_duration, point.interval_s))
    return [f"{FORECAST} {format_duration(point.elapsed_s)}", bounds]


def _spill_table(sweep: Sweep) -> str:
    """By size what is spilled, which is the same on every storage or nearly."""
    first = sweep.storages[0]
    points = [point for point in sweep.points if point.storage == first]
    columns = ["memory", "spill", "passes", "batches", "reads", "writes", "written"]
    known = [
        name
        for name in columns
        if name not in ("passes", "batches") or any(getattr(p.told, name) for p in points)
    ]
    rows = []
    for point in points:
        mark = "" if point.told.measured else f"{FORECAST} "
        cells = {
            "memory": format_bytes(point.memory_bytes),
            "spill": mark + point.told.state,
            "passes": _count(point.told.passes),
            "batches": _count(point.told.batches),
            "reads": f"{mark}{point.count('read'):,}",
            "writes": f"{mark}{point.count('write'):,}",
            "written": mark + format_bytes(point.spilled_bytes),
        }
        rows.append([cells[name] for name in known])
    return table_text(known, rows, left=(1,))


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _latency_table(sweep: Sweep) -> str:
    """Latencies of the least memory on each storage; all histograms are in the document."""
    rows = []
    for point in sweep.points:
        if point.memory_bytes != sweep.sizes[0] or point.run is None:
            continue
        for op, done in point.run.ops.items():
            quantiles = [
                histogram_quantile_s(done.latency_ns, done.latency_count, share)
                for share in (0.5, 0.99)
            ]
            times = [quantiles[0], done.mean_s, quantiles[1]]
            size = format_bytes(done.bytes / done.count)
            rows.append([_short(point.storage), op, size, *map(format_duration, times)])
    header = [f"{format_bytes(sweep.sizes[0])} on", "op", "size", "p50", "mean", "p99"]
    return table_text(header, rows, left=(0, 1)) if rows else ""


def _sentences(sweep: Sweep, advice: Advice | None, width: int) -> list[str]:
    lines = []
    if any(point.between is not None for point in sweep.points):
        lines.append(f"  {FORECAST} forecast from the sizes that were measured")
    for turn in sweep.turns:
        lines.append(f"  From {format_bytes(turn.memory_bytes)} on {_STATES[turn.after]}.")
    lines += [paragraph(f"  {text}", "    ", width) for text in _errors(sweep.checked)]
    if advice is not None:
        lines.append(f"  {advice_text(advice, width - 2)}".replace("\n", "\n  "))
    lines += [paragraph(f"  warning: {w.message}", "    ", width) for w in sweep.warnings]
    return lines


def _errors(checked: Sequence[Point]) -> list[str]:
    if not checked:
        return []
    errors = sorted(abs(point.error or 0.0) for point in checked)
    middle = (errors[len(errors) // 2] + errors[(len(errors) - 1) // 2]) / 2
    held = sum(point.covered for point in checked)
    return [
        f"Measured afterwards, the {len(errors)} forecasts were off by {middle:.1%} (median) and "
        f"{errors[-1]:.1%} (most); {held} of {len(errors)} intervals held."
    ]


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else "..." + name[3 - NAME_MAX :]
