"""Several runs beside each other: time in reads, writes and CPU, and two runs' latencies."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from spillcast.profile.timeline import STATES
from spillcast.report.html.charts.runs import SHADES
from spillcast.report.html.charts.stacked import Bar, in_shares, stacked_bars
from spillcast.report.html.page import Figure, Section, Table, figure
from spillcast.report.html.sections.runs import REST, histogram
from spillcast.report.html.words import percent, seconds

Run = Mapping[str, Any]


def sections(runs: Sequence[Run]) -> list[Section]:
    """Nothing of a single run."""
    if len(runs) < 2:
        return []
    figures = [_time(runs)]
    for one, other in pairwise(runs):
        figures += _latencies(one, other)
    return [Section("Runs side by side", figures=figures)]


def _time(runs: Sequence[Run]) -> Figure:
    """A bar a run, of its states; what no state accounts for is the end of it."""
    shades = SHADES | {REST: "grid"}
    totals = [_by_state(run) for run in runs]
    states = [state for state in (*STATES, REST) if any(total.get(state) for total in totals)]
    bars = [
        Bar(run["name"], {state: total.get(state, 0.0) for state in states})
        for run, total in zip(runs, totals, strict=True)
    ]
    rows = [
        [bar.name, seconds(bar.whole_s), *(_cell(bar, state) for state in states)] for bar in bars
    ]
    said = "; ".join(
        f"{bar.name}: "
        + ", ".join(f"{state} {seconds(s)}" for state, s in bar.parts_s.items() if s)
        for bar in bars
    )
    return figure(
        "Time of all sessions by what they did",
        "In shares of each run's time, for they are of very different length."
        if in_shares(bars)
        else "",
        f"Stacked bars, one for each run. {said}",
        partial(stacked_bars, bars, {state: shades[state] for state in states}),
        Table(["run", "time", *states], rows),
    )


def _by_state(run: Run) -> dict[str, float]:
    totals = dict(run["timeline"]["totals_s"])
    return {**totals, REST: max(run["time_s"] - sum(totals.values()), 0.0)}


def _cell(bar: Bar, state: str) -> str:
    part_s = bar.parts_s[state]
    return f"{seconds(part_s)}, {percent(part_s / (bar.whole_s or 1.0), 0)}"


def _latencies(one: Run, other: Run) -> list[Figure]:
    """An overlay for each operation that both have."""
    beside = {group["label"]: group for group in other["latencies"]}
    return [
        histogram(group, beside[group["label"]], (str(one["name"]), str(other["name"])))
        for group in one["latencies"]
        if group["label"] in beside
    ]
