"""A server: what spills and what a fix saves, what to do first, what changed over time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from spillcast.engines.ranking import History, Ranked, ServerRanking
from spillcast.report import servers as terminal
from spillcast.report.html import charts
from spillcast.report.html.axes import linear_sizes
from spillcast.report.html.documents import purchase
from spillcast.report.html.page import ROWS_MAX, Figure, Section, seconds, size, texts
from spillcast.report.page import Words
from spillcast.report.size import answer_text
from spillcast.text import one_line, sentence
from spillcast.units import format_count, format_setting

#: Statements that are drawn by name, those to begin with, and letters of their texts.
_DRAWN_MAX, _FIRST_MAX, _TEXT_MAX = 4, 3, 60


def sections(server: ServerRanking) -> list[Section]:
    """What to do, what changed, and all statements with their plans' nodes."""
    verdict, *parts = terminal.ranking_page(replace(server, history=None), ROWS_MAX).parts
    assert isinstance(verdict, Words)
    made = [Section("What to do first", _steps(server), answer=verdict.sentences)]
    if server.history is not None:
        made.append(_changes(server, server.history))
    figures = _costs(server.statements)
    section = Section.of(f"Statements that spill: {server.source}", parts, figures)
    full = [(_short(s), s.query) for s in server.statements[:ROWS_MAX] if s.query]
    cut = [(name, query) for name, query in full if name != query]
    made.append(replace(section, statements=[*section.statements, *cut]))
    rows = [
        [_short(statement), node.node, size(node.temp_bytes), node.detail]
        for statement in server.statements
        for node in statement.nodes
    ]
    if rows:
        words = ["Of the plan of each statement with the most temp I/O, by the server's log."]
        table = texts(("statement", "node", "temp I/O of a call", "memory"), rows)
        made.append(Section("Nodes that spill", words, tables=[("", table)]))
    if server.sizing is not None:
        made.append(purchase(server.sizing))
    return made


def _short(statement: Ranked) -> str:
    return one_line(statement.query or statement.queryid or "(hidden)", _TEXT_MAX)


def _steps(server: ServerRanking) -> list[str]:
    """The statements that gain most, each with its fixes; then what is new or spills more."""
    steps = []
    gaining = [s for s in server.statements if s.no_spill is not None and s.no_spill.saved_s > 0]
    for number, statement in enumerate(gaining[:_FIRST_MAX], 1):
        fixes = "; ".join(
            f"{name} saves {saved}"
            for name, saved in terminal.cure_texts(statement, server.memory).items()
        )
        memory = statement.work_mem_bytes
        how = "" if memory is None else f" Set work_mem to {format_setting(memory)} for its role."
        steps.append(f"{number}. {_short(statement)}: {fixes}.{how}")
    if server.history is not None:
        watched = [c for c in server.history.changes if c.kind != "less"][:_FIRST_MAX]
        for change in watched:
            more = (
                f"{change.ratio:.2g} times as much a call" if change.ratio else "for the first time"
            )
            name, since = terminal.change_statement(change), terminal.moment(change.after_s)
            steps.append(f"Look at the plan of {name}: since {since} it spills {more}.")
    if server.sizing is not None and server.sizing.chosen is not None:
        steps.append(f"Or buy storage for all of them. {answer_text(server.sizing)}")
    if not steps and server.statements:
        steps.append("No forecast is possible; the notes below the statements say what is missing.")
    return steps or ["Nothing: no statement spills."]


def _changes(server: ServerRanking, history: History) -> Section:
    """The sums by time, drawn by statement, and what happened."""
    words = [sentence(terminal.change_text(change)) for change in history.changes]
    words += [sentence(line.strip()) for line in terminal.history_notes(history)]
    if not history.buckets:
        return Section("What changed", words)
    names = {statement.queryid: _short(statement) for statement in server.statements}
    rows, totals = [], Counter[str]()
    drawn = {part.queryid: 0 for bucket in history.buckets for part in bucket.statements}
    for bucket in history.buckets:
        # A legend names the statements of all bars.
        parts = Counter({names.get(queryid, queryid): 0 for queryid in drawn})
        for part in bucket.statements:
            parts[names.get(part.queryid, part.queryid)] += part.temp_bytes
        totals += parts
        rows.append(charts.Bar(bucket.start, size(bucket.temp_bytes), parts))
    longest = [name for name, _ in totals.most_common(_DRAWN_MAX)]
    colours = dict(zip(longest, charts.SERIES, strict=False))
    chart = charts.bars(rows, colours, ticks_of=linear_sizes)
    shown = len(history.buckets)
    caption = f"Read and written, {format_count(shown, 'bar')} in UTC."
    figure = Figure("Temp I/O over time", caption, chart, terminal.bucket_table(server, history))
    return Section("What changed", words, [figure])


def _costs(statements: Sequence[Ranked]) -> list[Figure]:
    rows = []
    for statement in statements:
        temp_s, elapsed_s = statement.temp_mean_s, statement.elapsed_s
        if temp_s is not None and elapsed_s:
            temp_s = min(temp_s, elapsed_s)
            text = f"{seconds(elapsed_s)}, {seconds(temp_s)} in temp I/O"
            parts = {"temp I/O": temp_s, "everything else": elapsed_s - temp_s}
            rows.append(charts.Bar(_short(statement), text, parts))
    if not rows:
        return []
    shown = sorted(rows, key=lambda row: -row.parts["temp I/O"])[: 2 * _DRAWN_MAX]
    chart = charts.bars(shown, {"temp I/O": "read", "everything else": "grid"})
    caption = "Elapsed time of all calls; a statement without temp I/O would take the grey part."
    table = texts(("statement", "time"), [[row.name, row.text] for row in rows])
    return [Figure("What spilling costs", caption, chart, table)]
