"""Forecasts as a page of text: the verdict, a table of the targets, terms and warnings."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from operator import itemgetter
from typing import Any

from spillcast.forecast import Caveat, Forecast, Term
from spillcast.forecast.remaining.progress import FILES_SOURCE
from spillcast.forecast.result import (
    CHANGES,
    RECORDING,
    TERM_COLUMNS,
    WAIT,
    ZERO_LATENCY,
    Interval,
    Remaining,
    term_rows,
)
from spillcast.forecast.verdict import (
    forecasts_document,
    memory_fixes,
    rank,
    ranked,
    recommended,
    verdict,
)
from spillcast.forecast.work_memory import MemoryAdvice, MemoryCell
from spillcast.recording import Recording
from spillcast.report import Page, PagePart, Prose, TitledTable
from spillcast.report.work_memory import (
    advice_text,
    forecast_memory_parts,
    spilled_sentences,
    work_memory_text,
)
from spillcast.tabular import Column, PrintedTable
from spillcast.text import one_line
from spillcast.units import (
    format_bytes,
    format_count,
    format_duration,
    format_estimate,
    format_speedup,
    interval_name,
)

#: Maximum length of a statement's text, in characters.
STATEMENT_MAX = 200
#: Rows of the table of targets for today's storage and for the lower limit of any storage.
NOW, NO_LATENCY = "today", f"{ZERO_LATENCY} (limit)"
SUPPOSED_NOW = "these executors, today's storage"
#: The order of a table in which only bounds are known.
BOUNDS_ORDER = "in the order of the lower bound, then of the upper"
TARGETS_HINT = "For a storage: --to tmpfs, --to DIRECTORY, --to catalogue:aws-gp3."
DETAILS_HINT = "  --details: what the numbers are made of, and what to do about warnings"


def forecast_page(
    forecasts: Sequence[Forecast], notes: Sequence[str] = (), *, in_full: bool = False
) -> Page:
    """The verdict, ``notes``, the table of targets, advice and warnings.

    ``in_full`` adds the terms of each forecast and the remedies of warnings.
    """
    order = ranked(forecasts)
    first = order[0]
    lines = [*supposed_sentences(first), verdict(forecasts).text, *notes]
    parts: list[PagePart] = [Prose(lines, indent=""), Prose(statement_sentences(first))]
    parts += [*compared_parts(order), *remaining_parts(first)]
    parts.append(Prose([f"  to do: {step}" for step in advice(order)]))
    if warnings := _warning_lines(order):
        parts.append(Prose([*warnings, *([] if in_full else [DETAILS_HINT])]))
    return Page(
        [*parts, *(details(order) if in_full else [])],
        PrintedTable.of_records([forecast.figures() for forecast in forecasts]),
    )


def run_page(
    forecasts: Sequence[Forecast],
    cells: Sequence[MemoryCell],
    cheapest: MemoryAdvice | None,
    *,
    in_full: bool,
) -> Page:
    """The page of one run with the ``cheapest`` cell; ``in_full`` with a table of all ``cells``."""
    notes = [] if cheapest is None else [advice_text(cheapest)]
    is_limit = forecasts[0].target == ZERO_LATENCY
    if is_limit and verdict(forecasts).kind not in ("other", "none"):
        notes.append(TARGETS_HINT)
    page = forecast_page(forecasts, notes, in_full=in_full)
    if in_full and (cheapest is not None or len(forecasts) > 1):
        page = replace(page, parts=[*page.parts, *forecast_memory_parts(cells, cheapest)])
    return page


def compared_parts(order: Sequence[Forecast]) -> list[PagePart]:
    """The table of targets, the limit that each one reaches, and the spill of an Oracle plan."""
    parts: list[PagePart] = []
    if any(forecast.forecast_s is not None for forecast in order):
        parts.append(targets_table(order))
        if order[0].unknown_share is not None:
            parts.append(Prose([f"  {BOUNDS_ORDER}"]))
    limits = [f"  {f.target}: {f.binding.text}" for f in order if f.binding is not None]
    spilled = [] if order[0].spilled is None else spilled_sentences(order[0].spilled)
    return [*parts, Prose(limits), Prose([f"  {text}" for text in spilled])]


def supposed_sentences(forecast: Forecast) -> list[str]:
    """The elapsed time on today's storage with assumed executors; empty without any."""
    if (supposed := forecast.supposed) is None:
        return []
    simulated = format_duration(forecast.baseline_s)
    measured = format_duration(supposed.measured_s)
    return [
        f"As if it had {supposed.text}: about {simulated} on today's storage; with its own "
        f"executors it took {measured}."
    ]


def statement_sentences(forecast: Forecast) -> list[str]:
    """The statement: its identifier, the calls of the forecast, and its text; empty if unknown."""
    if (statement := forecast.statement) is None:
        return []
    text = one_line(statement.query or "its text is not known", STATEMENT_MAX)
    name = "" if statement.queryid is None else f" {statement.queryid}"
    calls = forecast.subject or "one call"
    if statement.most_of > 1:
        calls = f"the one with the most temp I/O of {statement.most_of:,} plans in the log"
    elif statement.calls != 1:
        calls = f"the mean of {format_count(statement.calls, 'call')}"
    return [f"Statement{name}, {calls}: {text}"]


def targets_table(order: Sequence[Forecast]) -> PrintedTable:
    """A row for each target, for more work memory, for today and for the limit; the best first."""
    first = next(forecast for forecast in order if forecast.forecast_s is not None)
    columns = [
        Column("target", None),
        Column("elapsed", None, "s"),
        Column(interval_name(first.confidence), None, "interval"),
        Column("speed-up", None, "ratio", spare=1),
        Column("cost", None, "number"),
        Column("", None, "words"),
    ]
    today_s = first.baseline_s
    is_bounded = first.unknown_share is not None

    def numbers(elapsed_s: float | None, interval_s: Interval | None) -> list[Any]:
        return [elapsed_s, interval_s, today_s / elapsed_s if elapsed_s else None]

    ranked_rows: list[tuple[Interval, list[Any]]] = []
    for f in order:
        if f.target != ZERO_LATENCY:
            times = numbers(None if f.bounds_only else f.forecast_s, f.interval_s)
            cells = [f.target, *times, f.cost, _remark(f)]
            ranked_rows.append((rank(f), cells))
    for fix in memory_fixes(first):
        cells = [fix.target, *numbers(fix.forecast_s, fix.interval_s), None, _memory_remark(first)]
        ranked_rows.append((fix.rank, cells))
    limit_s, limit_interval_s = first.ceiling_s, first.ceiling_interval_s
    limit_rank = limit_interval_s if is_bounded and limit_interval_s else (limit_s, limit_s)
    limit = numbers(None if is_bounded else limit_s, limit_interval_s)
    ranked_rows.append((limit_rank, [NO_LATENCY, *limit, None, ""]))
    today = NOW if first.supposed is None else SUPPOSED_NOW
    ranked_rows.append(((today_s, today_s), [today, today_s, None, None, None, ""]))
    return PrintedTable(columns, [cells for _, cells in sorted(ranked_rows, key=itemgetter(0))])


def advice(forecasts: Sequence[Forecast]) -> list[str]:
    """The steps for each target that the verdict recommends."""
    useful = recommended(forecasts)
    return [f"{f.target}: {step}" for f in forecasts if f.target in useful for step in f.advice]


def _remark(forecast: Forecast) -> str:
    if forecast.refused:
        return "no number"
    lines = ["best value"] if forecast.best_value else []
    if (without_s := forecast.without_cache_s) is not None:
        lines.append(f"{format_duration(without_s)} where memory is not free")
    return ", ".join(lines)


def _memory_remark(forecast: Forecast) -> str:
    """Whether the memory suffices for a run without spills, as far as known."""
    if (memory := forecast.work_memory) is not None:
        return "if the plan stays" if memory.fits else "more than is free"
    if (spills := forecast.without_spills) is None:
        return ""
    unsure = "" if spills.fits else ", if the nodes have it"
    return f"no spills; today {format_bytes(spills.current_bytes)}{unsure}"


def _warning_lines(order: Sequence[Forecast]) -> list[str]:
    """A line for each warning, with its targets unless all have it, and for each refused target."""
    common = {warning.code for warning in common_warnings(order)}
    warned = {warning.code: warning for forecast in order for warning in forecast.warnings}
    lines = []
    for code in sorted(warned, key=lambda code: code not in common):
        targets = [f.target for f in order if any(w.code == code for w in f.warnings)]
        is_general = code in common or len(targets) == len(order)
        of_targets = "" if is_general else f": {', '.join(dict.fromkeys(targets))}"
        lines.append(f"  warning: {warned[code].title or code} ({code}){of_targets}")
    if any(forecast.forecast_s is not None for forecast in order):
        lines += [f"  no number for {f.target}: {f.refused}" for f in order if f.refused]
    return lines


#: Terms of one op that are below this share of the elapsed time are summed.
_SMALL_SHARE = 0.005
#: The smallest spread of the spill that is shown, by its effect on the interval.
_SPREAD_MIN = 0.005
#: The share of a time that is lost by rounding to three digits.
_ROUNDED_SHARE = 0.0005


def details(forecasts: Sequence[Forecast]) -> list[PagePart]:
    """The terms and warnings of each target, the best first; then the warnings common to all."""
    common = common_warnings(forecasts) if len(forecasts) > 1 else []
    parts: list[PagePart] = []
    for forecast in forecasts:
        warnings = [warning for warning in forecast.warnings if warning not in common]
        parts += terms_parts(forecast, forecasts)
        if forecast.speedup is not None and not forecast.bounds_only:
            slower = ": the query gets slower" if forecast.speedup < 1 else ""
            parts.append(Prose([f"  speed-up {format_speedup(forecast.speedup)}{slower}"]))
        parts.append(Prose(_remarks(forecast, warnings)))
    parts.append(Prose([line for warning in common for line in _warning_in_full(warning)]))
    if forecasts[0].work_memory is not None:
        parts.append(Prose(work_memory_text(forecasts[0])))
    return parts


def common_warnings(forecasts: Sequence[Forecast]) -> list[Caveat]:
    """Warnings common to all forecasts."""
    first, *others = [f.warnings for f in forecasts if not f.refused] or [[]]
    return [warning for warning in first if all(warning in warnings for warnings in others)]


def _warning_in_full(warning: Caveat) -> list[str]:
    """The message of a warning, and the next step if it has one."""
    lines = [f"  warning: {warning.message} ({warning.code})"]
    return [*lines, f"    next: {warning.next_step}"] if warning.next_step else lines


def terms_parts(forecast: Forecast, beside: Sequence[Forecast]) -> list[PagePart]:
    """The forecast in a sentence, ``beside`` the others, its terms, and the stages of Spark."""
    if forecast.interval_s is not None and forecast.bounds_only:
        rows = [row[:3] for row in terms_table(forecast).rows if row[1] is not None]
        if not rows:
            return [Prose([forecast.sentence()], indent="")]
        title = f"{forecast.sentence()} Its temp I/O, whose time was not measured:"
        return [TitledTable(title, PrintedTable(TERM_COLUMNS[:3], rows), indent="")]
    if forecast.forecast_s is None:
        return [Prose([forecast.sentence(beside)], indent="")]
    stages = [stages_table(forecast)] if forecast.stages else []
    return [TitledTable(forecast.sentence(beside), terms_table(forecast), indent=""), *stages]


def _remarks(forecast: Forecast, warnings: Sequence[Caveat]) -> list[str]:
    """The rehearsal, the run with its data in memory, ``warnings``, and causes of the interval."""
    lines = []
    if (rehearsal := forecast.rehearsed) is not None:
        count = format_count(rehearsal.operations, "temp operation")
        part = f"{count}, {100 * rehearsal.share:.0f} % of the query's"
        extent = "the entire query, so its time is measured" if rehearsal.ended else part
        elapsed = format_duration(rehearsal.elapsed_s)
        lines.append(f"  rehearsed on the target for {elapsed}: {extent}")
    if (warm := forecast.warm) is not None and warm.forecast_s is not None:
        today, on_target = map(format_duration, (warm.baseline_s, warm.forecast_s))
        lines.append(f"  with its data in memory: {today} today, {on_target} on this target")
    lines += [line for warning in warnings for line in _warning_in_full(warning)]
    if (sample := forecast.sampled) is not None:
        lines.append(
            f"  estimated from {sample.waits:,} of {format_count(sample.of_waits, 'wait')}, spread "
            f"over the run: standard error {100 * sample.error:.1f} %; --exact takes all waits"
        )
    if (spread := forecast.spill_spread) is not None and spread.added >= _SPREAD_MIN:
        text = f"  in the interval: {spread.text}"
        lines.append(text if spread.runs > 1 else f"{text}; --history RUN measures it")
    return lines


_STAGES = (
    Column("stage", "id"),
    Column("tasks", "tasks", "count"),
    Column("read", "shuffle_read_bytes", "bytes"),
    Column("written", "shuffle_write_bytes", "bytes"),
    Column("spilled", "spill_bytes", "bytes"),
    Column("today", "baseline_s", "s"),
    Column("on target", "forecast_s", "s"),
    Column("mostly", "bound_by", "words", spare=1),
)


def stages_table(forecast: Forecast) -> PrintedTable:
    """The stages of a Spark application, in their order."""
    stages = [asdict(stage) | {"id": str(stage.id)} for stage in forecast.stages]
    return PrintedTable.of(_STAGES, stages)


def terms_table(forecast: Forecast) -> PrintedTable:
    """The terms of a forecast, and their sum."""
    return PrintedTable(TERM_COLUMNS, term_rows(forecast, _merged(forecast)))


def _merged(forecast: Forecast) -> list[Term]:
    """The terms to show. Sizes that take little time on either storage are summed by op.

    Terms of file changes and of recording are left out if three digits do not show them.
    """

    def is_below(term: Term, share: float) -> bool:
        is_small = term.baseline_s < share * forecast.baseline_s
        return is_small and term.forecast_s < share * (forecast.forecast_s or 0)

    kept: list[Term] = []
    small: dict[str, list[Term]] = {}
    for term in forecast.terms:
        if term.op and term.op != WAIT and is_below(term, _SMALL_SHARE):
            small.setdefault(term.op, []).append(term)
        elif term.name not in (CHANGES, RECORDING) or not is_below(term, _ROUNDED_SHARE):
            kept.append(term)
    for op, terms in small.items():
        name = terms[0].name if len(terms) == 1 else f"temp {op}, other sizes"
        kept.append(Term.sum_of(name, terms))
    return kept


_REMAINING = (
    Column("remaining", "figure"),
    Column("from", "low", "bytes"),
    Column("about", "centre", "bytes"),
    Column("to", "high", "bytes"),
    Column("known from", "source", "words"),
)


def remaining_parts(forecast: Forecast) -> list[PagePart]:
    """The remaining work of a partly recorded query; empty for an entire query."""
    if (remaining := forecast.to_come) is None:
        return []
    unused = [f"  not used: {reason}" for reason in remaining.unused]
    text = remaining_text(forecast, remaining)
    return [remaining_table(remaining), Prose([f"  {text}", *unused])]


def remaining_table(remaining: Remaining) -> PrintedTable:
    """The remaining bytes with their bounds and evidence."""
    quantities = {"temp reads": remaining.reads_bytes, "temp writes": remaining.writes_bytes}
    rows = [[name, q.low, q.centre, q.high, q.source] for name, q in quantities.items()]
    return PrintedTable(_REMAINING, rows)


def remaining_text(forecast: Forecast, remaining: Remaining) -> str:
    """The elapsed time if the query is moved and restarted now, and if it is left running."""
    elapsed = remaining.elapsed_s
    if elapsed.centre is None or elapsed.high is None:
        return f"left running it takes at least another {format_duration(elapsed.low)} to read them"
    if remaining.writes_bytes.source == FILES_SOURCE:
        low, centre = format_duration(elapsed.low), format_duration(elapsed.centre)
        left_running = (
            f"left running it takes at least another {low} to read its temp files, about {centre} "
            "if nothing follows: they do not show what it does after that"
        )
    else:
        estimate = format_estimate(elapsed.centre, (elapsed.low, elapsed.high))
        left_running = (
            f"left running it takes about another {estimate}: known from {elapsed.source}"
        )
    if forecast.forecast_s is None:
        return left_running
    return f"moved now and restarted: {format_duration(forecast.forecast_s)}; {left_running}"


#: A recording and its forecasts.
Forecasted = tuple[Recording, Sequence[Forecast]]
_RECORDING_COLUMNS = (
    Column("recording", "recording"),
    Column("query", "query", "words", spare=2),
    Column("today", "baseline_s", "s"),
    Column("target", "target"),
    Column("elapsed", "forecast_s", "s"),
    Column("interval", None, "interval"),
    Column("speed-up", "speedup", "ratio", spare=1),
    Column(None, "refused"),
)


def forecast_each_page(forecasted: Sequence[Forecasted]) -> Page:
    """The sum for each target, and a row for each recording and target; longest queries first."""
    order = sorted(forecasted, key=lambda pair: -pair[0].elapsed_s)
    rows = [
        [
            *(recording.path.name, " ".join((recording.meta.engine.query or "").split())),
            *(forecast.baseline_s, forecast.target, forecast.forecast_s, forecast.interval_s),
            *(forecast.speedup, forecast.refused or "", forecast.without_cache_s),
            _each_remark(forecast),
        ]
        for recording, forecasts in order
        for forecast in ranked(forecasts)
    ]
    is_cached = any(f.without_cache_s is not None for _, forecasts in order for f in forecasts)
    uncached = Column("uncached" if is_cached else None, "without_cache_s", "s", spare=1)
    table = PrintedTable([*_RECORDING_COLUMNS, uncached, Column("", None, "words")], rows)
    return Page([Prose(_sums(forecasted), indent=""), table], table)


def forecast_each_document(forecasted: Sequence[Forecasted]) -> dict[str, Any]:
    """The document of docs/schema.md for several recordings."""
    recordings = [
        {"recording": str(recording.path), "query": recording.meta.engine.query}
        | forecasts_document(forecasts)
        for recording, forecasts in forecasted
    ]
    return {"schema": Forecast.SCHEMA, "recordings": recordings}


def _each_remark(forecast: Forecast) -> str:
    """The reason for a refusal, or a note that the numbers are for a part of the query."""
    is_part = any(warning.code == "part-only" for warning in forecast.warnings)
    return forecast.refused or ("part only" if is_part else "")


def _sums(forecasted: Sequence[Forecasted]) -> list[str]:
    """A sentence for each target: the sum over all queries on it and today."""
    by_target: dict[str, list[Forecast]] = {}
    for forecast in [f for _, forecasts in forecasted for f in forecasts]:
        if forecast.forecast_s is not None:
            by_target.setdefault(forecast.target, []).append(forecast)
    lines = []
    for target, queries in by_target.items():
        target_s = sum(f.forecast_s or 0.0 for f in queries)
        uncached_s = sum(f.without_cache_s or f.forecast_s or 0.0 for f in queries)
        line = (
            f"On {target} {len(queries)} of {len(forecasted)} queries would take "
            f"{format_duration(target_s)} in all instead of "
            f"{format_duration(sum(f.baseline_s for f in queries))}"
        )
        if any(f.without_cache_s is not None for f in queries):
            line += f"; uncached, where memory is not free, {format_duration(uncached_s)}"
        lines.append(f"{line}.")
    return lines or ["No forecast for any of these queries."]
