"""Sections about runs: time by state, latencies next to a target's, functions, measurement."""

import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise, product
from typing import Any

from spillcast.profile.functions import UNNAMED
from spillcast.profile.result import QUANTILES
from spillcast.profile.timeline import READ, STATES, WRITE
from spillcast.recording.capture import SOURCES
from spillcast.report import edge_s, latency_bins
from spillcast.report.forecast import STATEMENT_MAX
from spillcast.report.html import Figure, Section, charts, percent, percent1, seconds, texts
from spillcast.report.html.charts import Chart, Markup, legend_html
from spillcast.report.html.inputs import (
    Functions,
    Histogram,
    RunContents,
    StatementText,
    StorageLatencies,
)
from spillcast.report.profile import FUNCTIONS, profile_page
from spillcast.storage import Group
from spillcast.tabular import Column, PrintedTable
from spillcast.text import capitalized, one_line, sentence
from spillcast.units import format_count, format_duration

#: Maximum number of runs that are described at the top.
_SUBJECTS_MAX = 4
#: The name of time outside all states, and its smallest share that is shown.
REST, _REST_SHARE_MIN = "idle, or not accounted for", 0.005
_COLOURS = charts.STATE_COLOURS | {REST: "domain"}
#: Bars that differ by a larger factor are drawn as shares.
_RATIO_MAX = 5.0
_QUANTILES = QUANTILES | {"max_us": 1.0}
_STATES = Column("state", None), Column("time", None, "s"), Column("share", None, "percent1")
_OPERATIONS = (
    Column("operation", "operation"),
    Column("size", "size_class_bytes", "bytes"),
    Column("count", "count", "count"),
    Column("moved", "bytes", "bytes"),
    Column("total", "total_s", "s"),
    *(Column(name, f"{name}_us", "us") for name in ("mean", "p50", "p95", "p99", "max")),
)
_FUNCTIONS = (*(Column(name, name) for name in ("function", "module")), *FUNCTIONS)


def _answer(run: RunContents, subject: str) -> str:
    totals, sessions = run.timeline.totals_s, run.timeline.sessions
    temp_s, elapsed = totals.get(READ, 0.0) + totals.get(WRITE, 0.0), seconds(run.elapsed_s)
    if not temp_s:
        return f"{subject} took {elapsed}, and no temp I/O was seen."
    total = "it"
    if sessions > 1:
        total = f"the {seconds(run.time_s)} of its {sessions} {run.sessions_are}"
    share = percent(temp_s / run.time_s)
    return f"{subject} took {elapsed}, and {share} of {total} went into temp files."


def sections(runs: Sequence[RunContents], target: StorageLatencies | None) -> list[Section]:
    """The sections of each run; ``target`` has the latencies to compare with, if any."""
    parts = [_side_by_side(runs)] if len(runs) > 1 else []
    for run in runs:
        suffix = f": {run.name}" if len(runs) > 1 else ""
        answer = _answer(run, run.name if len(runs) > 1 else "This run")
        parts.append(_time_by_state(run, suffix, [answer] if run is runs[0] else []))
        if run.latencies:
            parts.append(_latencies(run, target, suffix))
        if run.timeline.busy:
            parts.append(_over_time(run, suffix))
        if run.functions is not None:
            parts.append(_functions(run.functions, suffix))
    return parts


def subjects(runs: Sequence[RunContents]) -> list[str]:
    """The query, host, start and elapsed time of each of the first runs."""
    sentences = []
    for run in runs[:_SUBJECTS_MAX]:
        about = {fact.label: fact.value for fact in run.about}
        statements = [statement.text for statement in run.statements if statement.text]
        subject = statements[0] if statements else about.get("command") or run.name
        parts = [f"{run.kind} of {seconds(run.elapsed_s)}"]
        parts += [f"on {about['host']}"] if "host" in about else []
        parts += [f"began {about['recorded']} UTC"] if "recorded" in about else []
        sentences.append(f"Measured: {one_line(subject, STATEMENT_MAX)} ({', '.join(parts)})")
    return sentences


def measured(runs: Sequence[RunContents]) -> list[Section]:
    """The measurement of each run, and its statements."""
    return [
        Section(
            "How it was measured" + (f": {run.name}" if len(runs) > 1 else ""),
            statements=[(_statement_title(s), s.text) for s in run.statements if s.text],
            facts=[(fact.label, fact.value) for fact in run.about],
        )
        for run in runs
    ]


def _statement_title(statement: StatementText) -> str:
    share = f", {percent1(statement.share)} of the time" if statement.share else ""
    return (statement.sql_id or "the query") + share


def _by_state(run: RunContents) -> dict[str, float]:
    """Seconds of each state that occurs, and of the rest unless it is small."""
    totals_s = run.timeline.totals_s
    states = {state: totals_s[state] for state in STATES if state in totals_s}
    rest_s = run.time_s - sum(totals_s.values())
    return states | ({REST: rest_s} if states and rest_s > _REST_SHARE_MIN * run.time_s else {})


def _time_by_state(run: RunContents, suffix: str, answer: Sequence[str]) -> Section:
    """Bars of the time in each state, temp I/O by size, and the time by wait event."""
    total_s, states, sessions = run.time_s or 1.0, _by_state(run), run.timeline.sessions
    total = f"{seconds(run.time_s)} elapsed"
    if sessions != 1:
        total = f"{seconds(run.time_s)} in {sessions:,} {run.sessions_are}"
    figures, tables = [], []
    if rows := [(state, s, s / total_s) for state, s in states.items()]:
        note = "Waits of sessions that do no temp I/O are left out: they may be idle."
        bars = [
            charts.Bar(state, f"{seconds(s)}, {percent(share)}", {state: s})
            for state, s, share in rows
        ]
        title = f"Time by what {run.sessions_are} did, of {total}"
        caption = note if run.kind == "recording" else ""
        figures.append(
            Figure(title, caption, charts.bars(bars, _COLOURS), PrintedTable(_STATES, rows))
        )
    if run.operations:
        tables.append(("Temp I/O by operation and size", _operations(run.operations)))
    if run.events is not None:
        by_event = Section.of("", profile_page(run.events).parts).tables
        tables += [(caption or "Wait events", table) for caption, table in by_event]
    return Section(f"Where the time goes{suffix}", (), figures, tables, answer=answer)


def _operations(groups: Sequence[Group]) -> PrintedTable:
    rows = [
        {
            **vars(group),
            "operation": f"temp {group.op}",
            "total_s": group.total_ns / 1e9,
            "mean_us": 1e6 * group.mean_s,
            **{key: 1e6 * group.quantile_s(share) for key, share in _QUANTILES.items()},
        }
        for group in sorted(groups, key=lambda group: -group.total_ns)
    ]
    return PrintedTable.of(_OPERATIONS, rows)


def _side_by_side(runs: Sequence[RunContents]) -> Section:
    """Bars of all runs by state, and the latencies of each run next to the following run's."""
    totals_s = [_by_state(run) for run in runs]
    states = [state for state in (*STATES, REST) if any(total.get(state) for total in totals_s)]
    sums_s = [sum(total.values()) for total in totals_s]
    bars = [
        charts.Bar(run.name, seconds(sum_s), {s: total.get(s, 0.0) for s in states})
        for run, total, sum_s in zip(runs, totals_s, sums_s, strict=True)
    ]
    rows = [
        [name, text, *(f"{seconds(s)}, {percent(s / (sum_s or 1.0))}" for s in parts.values())]
        for (name, text, parts, _), sum_s in zip(bars, sums_s, strict=True)
    ]
    # Otherwise the longest bar would make the shortest illegible.
    as_shares = max(sums_s) > _RATIO_MAX * min(sums_s)
    note = "In shares of each run's time, because the runs differ much in length."
    figure = Figure(
        "Time of all sessions by what they did",
        note if as_shares else "",
        charts.bars(bars, {state: _COLOURS[state] for state in states}, shares=as_shares),
        texts(["run", "time", *states], rows),
    )
    overlays = [
        histogram(group, beside, (run.name, other.name))
        for run, other in pairwise(runs)
        for group, beside in product(run.latencies, other.latencies)
        if group.label == beside.label
    ]
    return Section("Runs side by side", figures=[figure, *overlays])


def _latencies(run: RunContents, target: StorageLatencies | None, suffix: str) -> Section:
    beside = {} if target is None else {group.label: group for group in target.groups}
    names = "this run", "" if target is None else target.name
    figures = [histogram(group, beside.get(group.label), names) for group in run.latencies]
    return Section(f"How long operations take{suffix}", figures=figures)


def histogram(group: Histogram, beside: Histogram | None, names: tuple[str, str]) -> Figure:
    """Latencies of an operation, and those ``beside`` them, under the two ``names``."""
    parts, captions = [], []
    for name, measured in zip(names, [group, *([beside] if beside else [])], strict=False):
        operations = sum(measured.latency_count)
        total_ns = sum(map(operator.mul, measured.latency_ns, measured.latency_count))
        mean_s = total_ns / (operations or 1) / 1e9
        bins = latency_bins(measured.latency_ns, measured.latency_count)
        shares = {at: count / (operations or 1) for at, count in bins.items()}
        parts.append((name, shares, mean_s))
        count = format_count(operations, "operation")
        captions.append(f"{name}: {count}, mean {seconds(mean_s)}")
    rows = [
        [
            f"{seconds(edge_s(at))} to {seconds(edge_s(at + 1))}",
            *(f"{100 * shares.get(at, 0.0):.2f} %" for _, shares, _ in parts),
        ]
        for at in sorted(set[int]().union(*(shares for _, shares, _ in parts)))
    ]
    caption, table = "; ".join(captions), texts(["latency", *(name for name, *_ in parts)], rows)
    caption = sentence(caption) if names[0] == "this run" else f"{caption}."
    return Figure(capitalized(group.label), caption, charts.latencies(parts), table)


def _over_time(run: RunContents, suffix: str) -> Section:
    source = SOURCES.get(run.capture or "")
    missing = f" What is missing is {source.blind_spots}." if source and source.blind_spots else ""
    length = format_duration(run.timeline.length_s)
    caption = f"Mean number of sessions in intervals of {length}.{missing}"
    rows = [
        [seconds(at * run.timeline.length_s), *(f"{mean:.2f}" for mean in means)]
        for at, means in enumerate(zip(*run.timeline.busy.values(), strict=True))
    ]
    chart = charts.over_time(run.timeline.busy, run.timeline.length_s, charts.STATE_COLOURS)
    table = texts(["from", *run.timeline.busy], rows)
    figure = Figure("Sessions by what they did", caption, chart, table)
    return Section(f"Over time{suffix}", (), [figure])


#: Height of a row of the flame graph. Frames below this share are too narrow for any letter.
_ROW_PX, _NAMED_MIN = 18, 0.02
#: Number of modules with their own colour; the others share one.
_MODULES_MAX = 4
#: Maximum length of a name in a frame as wide as the page, in characters.
_NAME_MAX = 160
#: Arguments of templates, and namespaces of Rust and C++.
_ARGUMENTS = re.compile(r"(?<=\w)<[^<>]*>")
_NAMESPACES = re.compile(r"^(?:[a-z_]\w*::)+(?=[A-Z])")


def _functions(functions: Functions, suffix: str) -> Section:
    figure = Figure(
        f"Functions by CPU time, of {format_duration(functions.drawn_s)}",
        "A function is as wide as its share of the samples, and lies below its caller. The pointer "
        "shows its full name and time.",
        _flame_graph(functions.frames, functions.drawn_s),
        PrintedTable.of(_FUNCTIONS, functions.rows),
    )
    return Section(f"Functions on CPU{suffix}", list(map(sentence, functions.words)), [figure])


def _flame_graph(frames: Sequence[Mapping[str, Any]], drawn_s: float) -> Chart:
    rows = 1 + max(frame["depth"] for frame in frames)
    shares = Counter[str]()
    for frame in frames:
        shares[frame["module"]] += frame["share"]
    del shares[""]
    modules = [module for module, _ in shares.most_common(_MODULES_MAX)]
    colours = {module: f"series-{at}" for at, module in enumerate(modules, 1)}
    cells = "".join(_frame_html(frame, drawn_s, colours) for frame in frames)
    entries = [(module, colour, "square") for module, colour in colours.items()]
    entries += [("others", "domain", "square")] if len(shares) > len(modules) else []
    # A deep one scrolls, by keyboard too.
    flame = f'<div class="flame" tabindex="0" style="height:{rows * _ROW_PX}px">{cells}</div>'
    top = sorted(frames, key=lambda frame: (-frame["share"], frame["depth"]))[:5]
    label = "; ".join(f"{frame['function']} {frame['share']:.0%}" for frame in top)
    html = Markup(f"{legend_html(entries)}{flame}")
    return Chart(html, f"{len(frames)} frames, the widest: {label}")


def _frame_html(frame: Mapping[str, Any], drawn_s: float, colours: Mapping[str, str]) -> str:
    name, share = str(frame["function"]), frame["share"]
    title = f"{name}: {share:.1%}, {format_duration(share * drawn_s)}"
    colour = colours.get(frame["module"], "domain")
    style = (
        f"left:{100 * frame['start']:.2f}%;width:{100 * share:.2f}%;"
        f"top:{frame['depth'] * _ROW_PX}px;--of:var(--{colour})"
    )
    shown = UNNAMED if name == f"[{frame['module']}]" else _short(name)[:_NAME_MAX]
    text = escape(shown) if share >= _NAMED_MIN else ""
    return f'<i style="{style}" title="{escape(title)}">{text}</i>'


def _short(name: str) -> str:
    """A name without namespaces and arguments of templates; the frame's title has them."""
    name, shorter = "", _NAMESPACES.sub("", name)
    while shorter != name:
        name, shorter = shorter, _ARGUMENTS.sub("", shorter)
    return name
