"""Runs: where their time goes, latencies here beside there, the time line, how it was measured."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.profile.timeline import STATES
from spillcast.recording.source import SOURCES
from spillcast.report.forecast import STATEMENT_MAX
from spillcast.report.html.charts import runs as charts
from spillcast.report.html.charts.bars import time_bars
from spillcast.report.html.page import Figure, Section, Table, figure
from spillcast.report.html.words import NOTHING, count, micros, number, percent, seconds, size
from spillcast.units import format_count, format_duration
from spillcast.visible import one_line

Run = Mapping[str, Any]
#: Rows of a profile that are drawn.
_DRAWN_MAX = 10
#: Runs that are named at the top.
_SUBJECTS_MAX = 4
#: Time that is in no state, where it is as much of all.
REST, _TOLD = "idle, or not accounted for", 0.005


def sections(runs: Sequence[Run], there: Mapping[str, Any] | None) -> list[Section]:
    """``there`` holds latencies of the target that the page is about."""
    found: list[Section] = []
    for run in runs:
        of = f": {run['name']}" if len(runs) > 1 else ""
        found.append(_where(run, of))
        if run["latencies"]:
            found.append(_latencies(run, there, of))
        if run["timeline"]["busy"]:
            found.append(_over_time(run, of))
    return found


def subjects(runs: Sequence[Run]) -> list[str]:
    """What each of the first runs was, on which host, when it began and how long it took."""
    return [_subject(run) for run in runs[:_SUBJECTS_MAX]]


def _subject(run: Run) -> str:
    about = {one["label"]: one["value"] for one in run["about"]}
    texts = [one["text"] for one in run["statements"] if one["text"]]
    named = texts[0] if texts else about.get("command") or run["name"]
    subject = one_line(str(named), STATEMENT_MAX)
    parts = [f"{run['kind']} of {seconds(run['elapsed_s'])}"]
    parts += [f"on {about['host']}"] if "host" in about else []
    parts += [f"began {about['recorded']} UTC"] if "recorded" in about else []
    return f"Measured: {subject} ({', '.join(parts)})"


def measured(runs: Sequence[Run]) -> list[Section]:
    """How each run was measured, and the statements that it ran."""
    return [
        Section(
            "How it was measured" + (f": {run['name']}" if len(runs) > 1 else ""),
            statements=[
                (_statement_title(one), one["text"]) for one in run["statements"] if one["text"]
            ],
            facts=[(one["label"], one["value"]) for one in run["about"]],
        )
        for run in runs
    ]


def _statement_title(statement: Mapping[str, Any]) -> str:
    parts = [statement["sql_id"] or "the query"]
    parts += [f"{percent(statement['share'])} of the time"] if statement["share"] else []
    return ", ".join(parts)


def _where(run: Run, of: str) -> Section:
    totals = run["timeline"]["totals_s"]
    whole_s = run["time_s"] or 1.0
    rows = [(state, totals[state]) for state in STATES if state in totals]
    rest_s = whole_s - sum(totals.values())
    if rows and rest_s > _TOLD * whole_s:
        rows.append((REST, rest_s))
    bars = [
        (name, s, f"{seconds(s)}, {percent(s / whole_s, 0)}", charts.SHADES.get(name, "domain"))
        for name, s in rows
    ]
    words = "; ".join(f"{name} {seconds(total_s)}" for name, total_s in rows)
    note = "Of sessions that do no temp I/O, waits are skipped: they may be idle."
    chart = figure(
        f"Time by what {run['sessions_are']} did, of {_of_all(run)}",
        note if run["kind"] == "recording" else "",
        f"Bars of the time of all sessions: {words}",
        partial(time_bars, bars),
        Table(
            ["state", "time", "share"],
            [[name, seconds(s), percent(s / whole_s)] for name, s in rows],
        ),
    )
    figures = [chart] if rows else []
    tables = []
    if run["operations"]:
        tables.append(_operations(run["operations"]))
    if run["events"]:
        tables.append(events_table(run["events"], "Wait events"))
    return Section(f"Where the time goes{of}", figures=figures, tables=tables)


def _of_all(run: Run) -> str:
    """The time that shares are of: of several sessions that is more than elapsed."""
    time, sessions = seconds(run["time_s"]), run["timeline"]["sessions"]
    if sessions == 1:
        return f"{time} elapsed"
    return f"{time} in {number(sessions)} {run['sessions_are']}"


def _operations(operations: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            f"temp {one['op']}",
            size(one["size_class_bytes"]) if one["size_class_bytes"] else "others",
            count(one["count"]),
            size(one["bytes"]),
            seconds(one["total_s"]),
            *(micros(one[key]) for key in ("mean_us", "p50_us", "p95_us", "p99_us", "max_us")),
        ]
        for one in sorted(operations, key=lambda one: -one["total_s"])
    ]
    header = ["", "size", "count", "moved", "total", "mean", "p50", "p95", "p99", "max"]
    return Table(header, rows, caption="Temp I/O by operation and size")


def events_table(events: Sequence[Mapping[str, Any]], caption: str) -> Table:
    """Rows of a profile; columns that hold nothing are left out."""
    figures: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "total": lambda row: seconds(row["total_us"] / 1e6),
        "share": lambda row: percent(row.get("share")),
        "count": lambda row: count(row.get("count")),
        "mean": lambda row: micros(row.get("mean_us") or None),
        "p50": lambda row: micros(row.get("p50_us")),
        "p95": lambda row: micros(row.get("p95_us")),
        "p99": lambda row: micros(row.get("p99_us")),
        "max": lambda row: micros(row.get("max_us") or None),
        "unbiased": lambda row: micros(row.get("latency_us")),
    }
    columns = {name: [say(row) for row in events] for name, say in figures.items()}
    columns = {name: cells for name, cells in columns.items() if set(cells) != {NOTHING}}
    names = [f"{row['event'] or NOTHING}{' (idle)' * bool(row.get('idle'))}" for row in events]
    rows = [[name, *(cells[at] for cells in columns.values())] for at, name in enumerate(names)]
    return Table(["event", *columns], rows, caption=caption)


def _latencies(run: Run, there: Mapping[str, Any] | None, of: str) -> Section:
    figures = [_histogram(group, there) for group in run["latencies"]]
    words = []
    if there is not None and there["groups"]:
        words = [f"The filled shape is this run, the outline is {there['name']}."]
    return Section(f"How long operations take{of}", words, figures)


def _histogram(group: Mapping[str, Any], there: Mapping[str, Any] | None) -> Figure:
    same = [
        other
        for other in (there or {}).get("groups", ())
        if other["label"] == group["label"] or (not other["label"] and other["op"] == group["op"])
    ]
    beside = same[0] if same else None
    return histogram(group, beside, ("This run", str(there["name"]) if there else ""))


def histogram(
    group: Mapping[str, Any], beside: Mapping[str, Any] | None, names: tuple[str, str]
) -> Figure:
    """Latencies of an operation of one name, and beside them those of the other."""
    parts = [(names[0], group)] + ([(names[1], beside)] if beside else [])
    said = []
    for name, one in parts:
        mean = charts.mean_us(one["latency_ns"], one["latency_count"])
        count = format_count(sum(one["latency_count"]), "operation")
        said.append(f"{name}: {count}, mean {micros(mean)}")
    bins = [charts.bins(one["latency_ns"], one["latency_count"]) for _, one in parts]
    rows = [
        [
            f"{format_duration(charts.edge_us(at) / 1e6)} to "
            f"{format_duration(charts.edge_us(at + 1) / 1e6)}",
            *(percent(found.get(at, 0.0), 2) for found in bins),
        ]
        for at in sorted(set().union(*bins))
    ]
    title = str(group["label"])
    return figure(
        f"{title[0].upper()}{title[1:]}",
        "; ".join(said) + ".",
        f"Histogram of the latency of {title} on a logarithmic scale. " + "; ".join(said),
        partial(charts.latencies, group, beside, names),
        Table(["latency", *(name for name, _ in parts)], rows),
    )


def _over_time(run: Run, of: str) -> Section:
    line = run["timeline"]
    states = list(line["busy"])
    stretches = len(line["busy"][states[0]])
    rows = [
        [seconds(at * line["length_s"]), *(f"{line['busy'][state][at]:.2f}" for state in states)]
        for at in range(stretches)
    ]
    length = format_duration(line["length_s"])
    source = SOURCES.get(run.get("capture", ""))
    chart = figure(
        "Sessions by what they did",
        f"The mean number of sessions in each stretch of {length}."
        + (f" What is missing is {source.blind_spots}." if source else ""),
        f"Time line in stretches of {length}, stacked: {', '.join(states)}; "
        + "; ".join(_peak(state, line) for state in states),
        partial(charts.timeline, line),
        Table(["from", *states], rows),
    )
    figures = [chart]
    if by_event := run.get("events_over_time"):
        figures.append(_events_over_time(by_event))
    return Section(f"Over time{of}", figures=figures)


def _events_over_time(line: Mapping[str, Any]) -> Figure:
    """Samples by wait event, as they were taken."""
    events, length = list(line["busy"]), format_duration(line["length_s"])
    stretches = len(next(iter(line["busy"].values()), []))
    rows = [
        [seconds(at * line["length_s"]), *(f"{line['busy'][event][at]:.2f}" for event in events)]
        for at in range(stretches)
    ]
    return figure(
        "Sessions by wait event",
        f"Samples of each stretch of {length}: the mean number of sessions in an event.",
        f"Time line in stretches of {length}, stacked: {', '.join(events)}; "
        + "; ".join(_peak(event, line) for event in events),
        partial(charts.timeline, line, colours=charts.shades_of_events(events)),
        Table(["from", *events], rows),
    )


def _peak(state: str, line: Mapping[str, Any]) -> str:
    busy = line["busy"][state]
    at = max(range(len(busy)), key=busy.__getitem__)
    return f"{state} most at {seconds(at * line['length_s'])}, {busy[at]:.2f} sessions"
