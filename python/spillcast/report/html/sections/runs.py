"""Runs: where their time goes, their latencies beside others', the time line, how measured."""

from collections.abc import Sequence
from itertools import pairwise

from spillcast.profile.timeline import READ, STATES, WRITE
from spillcast.recording.source import SOURCES
from spillcast.report.forecast import STATEMENT_MAX
from spillcast.report.html import bars, plots
from spillcast.report.html.page import (
    NOTHING,
    Column,
    Document,
    Figure,
    Section,
    Table,
    count,
    micros,
    percent,
    seconds,
    size,
    table_of,
    text,
)
from spillcast.units import format_count, format_duration
from spillcast.visible import one_line

#: Runs that are named at the top.
_SUBJECTS_MAX = 4
#: Time that is in no state, if it is a notable share of all.
REST, _NOTABLE = "idle, or not accounted for", 0.005
_COLOURS = plots.STATE_COLOURS | {REST: "domain"}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_LATENCIES: tuple[Column, ...] = (
    ("mean", "mean_us", micros),
    ("p50", "p50_us", micros),
    ("p95", "p95_us", micros),
    ("p99", "p99_us", micros),
    ("max", "max_us", micros),
)


def answers(runs: Sequence[Document]) -> list[str]:
    """How much of the first run's time went into temp files."""
    run = runs[0]
    totals, sessions = run["timeline"]["totals_s"], run["timeline"]["sessions"]
    temp_s, elapsed = totals.get(READ, 0.0) + totals.get(WRITE, 0.0), seconds(run["elapsed_s"])
    if not temp_s:
        return [f"This run took {elapsed}, and no temp I/O was seen."]
    of = "it"
    if sessions > 1:
        of = f"the {seconds(run['time_s'])} of its {sessions} {run['sessions_are']}"
    share = percent(temp_s / run["time_s"], 0)
    return [f"This run took {elapsed}, and {share} of {of} went into temp files."]


def sections(runs: Sequence[Document], target: Document | None) -> list[Section]:
    """``target`` holds latencies of the storage that the page is about."""
    parts: list[Section] = _side_by_side(runs) if len(runs) > 1 else []
    for run in runs:
        of = f": {run['name']}" if len(runs) > 1 else ""
        parts.append(_where(run, of))
        if run["latencies"]:
            parts.append(_latencies(run, target, of))
        if run["timeline"]["busy"]:
            parts.append(_over_time(run, of))
    return parts


def subjects(runs: Sequence[Document]) -> list[str]:
    """What each of the first runs was, on which host, when it began and how long it took."""
    return [_subject(run) for run in runs[:_SUBJECTS_MAX]]


def _subject(run: Document) -> str:
    about = {row["label"]: row["value"] for row in run["about"]}
    texts = [statement["text"] for statement in run["statements"] if statement["text"]]
    named = texts[0] if texts else about.get("command") or run["name"]
    parts = [f"{run['kind']} of {seconds(run['elapsed_s'])}"]
    parts += [f"on {about['host']}"] if "host" in about else []
    parts += [f"began {about['recorded']} UTC"] if "recorded" in about else []
    return f"Measured: {one_line(str(named), STATEMENT_MAX)} ({', '.join(parts)})"


def measured(runs: Sequence[Document]) -> list[Section]:
    """How each run was measured, and the statements that it ran."""
    return [
        Section(
            "How it was measured" + (f": {run['name']}" if len(runs) > 1 else ""),
            statements=[
                (_statement_title(row), row["text"]) for row in run["statements"] if row["text"]
            ],
            facts=[(row["label"], row["value"]) for row in run["about"]],
        )
        for run in runs
    ]


def _statement_title(statement: Document) -> str:
    share = f", {percent(statement['share'])} of the time" if statement["share"] else ""
    return (statement["sql_id"] or "the query") + share


def _by_state(run: Document) -> dict[str, float]:
    """Seconds of each state that occurs, and of the rest where it is notable."""
    totals_s = run["timeline"]["totals_s"]
    states = {state: totals_s[state] for state in STATES if state in totals_s}
    rest_s = run["time_s"] - sum(totals_s.values())
    return states | ({REST: rest_s} if states and rest_s > _NOTABLE * run["time_s"] else {})


def _where(run: Document, of: str) -> Section:
    whole_s = run["time_s"] or 1.0
    states = _by_state(run)
    rows = [{"state": state, "s": s, "share": s / whole_s} for state, s in states.items()]
    drawn = [
        (state, s, f"{seconds(s)}, {percent(s / whole_s, 0)}", _COLOURS[state])
        for state, s in states.items()
    ]
    sessions = run["timeline"]["sessions"]
    number = _NUMBERS[sessions] if sessions < len(_NUMBERS) else f"{sessions:,}"
    all_of_it = f"{seconds(run['time_s'])} elapsed"
    if sessions != 1:
        all_of_it = f"{seconds(run['time_s'])} in {number} {run['sessions_are']}"
    note = "Of sessions that do no temp I/O, waits are skipped: they may be idle."
    chart = Figure(
        f"Time by what {run['sessions_are']} did, of {all_of_it}",
        note if run["kind"] == "recording" else "",
        bars.time_bars(drawn),
        table_of(rows, (("state", "state", text), ("time", "s", seconds),
                        ("share", "share", percent))),
    )  # fmt: skip
    tables = [_operations(run["operations"])] if run["operations"] else []
    tables += [events_table(run["events"], "Wait events")] if run["events"] else []
    return Section(f"Where the time goes{of}", (), [chart] if rows else [], tables)


def _operations(operations: Sequence[Document]) -> Table:
    columns: tuple[Column, ...] = (
        ("", "op", "temp {}".format),
        ("size", "size_class_bytes", lambda value: size(value) if value else "others"),
        ("count", "count", count),
        ("moved", "bytes", size),
        ("total", "total_s", seconds),
        *_LATENCIES,
    )
    rows = sorted(operations, key=lambda row: -row["total_s"])
    return table_of(rows, columns, caption="Temp I/O by operation and size")


def events_table(events: Sequence[Document], caption: str) -> Table:
    """Rows of a profile; columns that hold nothing are left out."""
    columns: tuple[Column, ...] = (
        ("event", "event", text),
        ("total", "total_us", micros),
        ("share", "share", percent),
        ("count", "count", count),
        *_LATENCIES,
        ("unbiased", "latency_us", micros),
    )
    idle = (" (idle)", "")
    rows = [
        {
            **row,
            "event": f"{row['event'] or NOTHING}{idle[not row.get('idle')]}",
            **{key: row.get(key) or None for key in ("mean_us", "max_us")},
        }
        for row in events
    ]
    used = [
        column
        for column in columns
        if column[0] == "event" or any(row.get(column[1]) is not None for row in rows)
    ]
    return table_of(rows, used, caption=caption)


def _side_by_side(runs: Sequence[Document]) -> list[Section]:
    """A bar for each run, of its states, and the latencies of each two runs."""
    totals_s = [_by_state(run) for run in runs]
    states = [state for state in (*STATES, REST) if any(total.get(state) for total in totals_s)]
    stacks = [
        (str(run["name"]), {state: total.get(state, 0.0) for state in states})
        for run, total in zip(runs, totals_s, strict=True)
    ]
    wholes_s = [sum(parts.values()) for _, parts in stacks]
    rows = [
        [name, seconds(whole_s), *(
            f"{seconds(s)}, {percent(s / (whole_s or 1.0), 0)}" for s in parts.values()
        )]
        for (name, parts), whole_s in zip(stacks, wholes_s, strict=True)
    ]  # fmt: skip
    note = "In shares of each run's time, for they are of very different length."
    figure = Figure(
        "Time of all sessions by what they did",
        note if bars.drawn_as_shares(wholes_s) else "",
        bars.stacked(stacks, {state: _COLOURS[state] for state in states}),
        Table(["run", "time", *states], rows),
    )
    overlays = []
    for run, other in pairwise(runs):
        beside = {group["label"]: group for group in other["latencies"]}
        overlays += [
            histogram(group, beside[group["label"]], (str(run["name"]), str(other["name"])))
            for group in run["latencies"]
            if group["label"] in beside
        ]
    return [Section("Runs side by side", figures=[figure, *overlays])]


def _latencies(run: Document, target: Document | None, of: str) -> Section:
    words, groups, name = [], [], ""
    if target is not None and target["groups"]:
        groups, name = target["groups"], str(target["name"])
        words = [f"The filled shape is this run, the outline is {name}."]
    figures = []
    for group in run["latencies"]:
        same = (
            other
            for other in groups
            if other["label"] == group["label"]
            or (not other["label"] and other["op"] == group["op"])
        )
        figures.append(histogram(group, next(same, None), ("This run", name)))
    return Section(f"How long operations take{of}", words, figures)


def histogram(group: Document, beside: Document | None, names: tuple[str, str]) -> Figure:
    """Latencies of an operation of one name, and beside them those of the other."""
    groups = [(names[0], group)] + ([(names[1], beside)] if beside else [])
    captions = []
    for name, part in groups:
        mean = micros(plots.mean_us(part["latency_ns"], part["latency_count"]))
        operations = format_count(sum(part["latency_count"]), "operation")
        captions.append(f"{name}: {operations}, mean {mean}")
    title = str(group["label"])
    return Figure(
        f"{title[0].upper()}{title[1:]}",
        "; ".join(captions) + ".",
        plots.latencies(group, beside, names),
        latency_table(groups),
    )


def latency_table(groups: Sequence[tuple[str, Document]]) -> Table:
    """The shares of operations by bins of latency."""
    shares = [plots.bins(part["latency_ns"], part["latency_count"]) for _, part in groups]
    rows = [
        [
            f"{micros(plots.edge_us(at))} to {micros(plots.edge_us(at + 1))}",
            *(percent(share.get(at, 0.0), 2) for share in shares),
        ]
        for at in sorted(set().union(*shares))
    ]
    return Table(["latency", *(name for name, _ in groups)], rows)


def _over_time(run: Document, of: str) -> Section:
    source = SOURCES.get(run.get("capture", ""))
    missing = f" What is missing is {source.blind_spots}." if source else ""
    line, by_event = run["timeline"], run.get("events_over_time")
    length = format_duration(line["length_s"])
    caption = f"The mean number of sessions in each stretch of {length}.{missing}"
    figures = [Figure("Sessions by what they did", caption, plots.timeline(line), _busy(line))]
    if by_event:
        length = format_duration(by_event["length_s"])
        caption = f"Samples of each stretch of {length}: the mean number of sessions in an event."
        chart = plots.timeline(by_event, plots.event_colours(list(by_event["busy"])))
        figures.append(Figure("Sessions by wait event", caption, chart, _busy(by_event)))
    return Section(f"Over time{of}", (), figures)


def _busy(line: Document) -> Table:
    """The mean number of sessions in each state, or event, by stretch."""
    rows = [
        [seconds(at * line["length_s"]), *(f"{mean:.2f}" for mean in means)]
        for at, means in enumerate(zip(*line["busy"].values(), strict=True))
    ]
    return Table(["from", *line["busy"]], rows)
