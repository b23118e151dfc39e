"""Verbs that show evidence: profile, report (an HTML page), export (Perfetto, OpenMetrics)."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spillcast.cli.options import (
    Block,
    ExecId,
    Json,
    Lenient,
    RecordedTemp,
    Since,
    SqlId,
    Until,
    Where,
    option,
    with_question,
)
from spillcast.cli.output import Answer, emit, notify, raw, terminal_columns
from spillcast.cli.usage import refuse
from spillcast.errors import EvidenceUnsuited, InputError, OptionConflict, Refusal
from spillcast.units import format_count

if TYPE_CHECKING:
    from spillcast.forecast.question import Question
    from spillcast.forecast.result import Forecast
    from spillcast.report.html.inputs import Inputs


def profile(
    evidence: Annotated[
        list[str],
        typer.Argument(help="Traces (files, folders, patterns, -), ASH exports, or a recording."),
    ],
    by: Annotated[
        str | None,
        option(
            "--by COLUMNS",
            "event (default), op, size, file, object, sql, session, second, minute, or any SQL "
            "over the columns of a wait; of recordings also kind of temp file, function, thread; "
            "of traces row-source, call, statement, caller, depth. Several with a comma.",
        ),
    ] = None,
    event: Annotated[
        str | None, option("--event PATTERN", "Only events like this; * stands for any text.")
    ] = None,
    where: Where = None,
    top: Annotated[int | None, option("--top N", "Maximum number of rows.", min=1)] = None,
    histogram: Annotated[
        bool, option("--histogram", "Show the distribution of latencies.")
    ] = False,
    folded: Annotated[
        bool, option("--folded", "With --by function: folded stacks, for flamegraph.pl.")
    ] = False,
    sql: Annotated[
        str | None,
        option(
            "--sql QUERY",
            "Instead of a profile: the result of this query for DuckDB. Tables are waits, calls "
            "and statements of traces, samples of ASH exports, waits, seconds and samples of a "
            "recording. The query can neither open nor write files.",
        ),
    ] = None,
    sql_id: SqlId = None,
    exec_id: ExecId = None,
    since: Since = None,
    until: Until = None,
    block: Block = None,
    temp: RecordedTemp = None,
    lenient: Lenient = False,
) -> Answer:
    """Show where the time goes: by event, or by any other column.

    --sql answers any other question; docs/schema.md describes the columns of its tables.

    Example: spillcast profile traces/ --by event,size --event 'direct path*'

    Example: spillcast profile run.spill --by function --top 20

    Example: spillcast profile *.trc --sql "select event, count(*) from waits group by all"
    """
    from spillcast.cli.progress import reading_bar
    from spillcast.evidence.selection import Filter, parse_block
    from spillcast.profile import profile as make
    from spillcast.profile.result import FUNCTION, split_by
    from spillcast.report.profile import folded_page, functions_page, profile_page

    if sql is not None:
        others = {
            "--by": by, "--event": event, "--where": where, "--top": top,
            "--histogram": histogram, "--folded": folded, "--sql-id": sql_id,
            "--exec-id": exec_id, "--since": since, "--until": until, "--block": block,
            "--temp": temp,
        }  # fmt: skip
        refuse(others, "does not go with --sql", "write it as part of the query")
        return _query(sql, evidence, lenient=lenient)
    chosen = Filter(sql_id=sql_id, exec_id=exec_id, since=since, until=until)
    with reading_bar(evidence) as bar:
        result = make(
            *evidence,
            by=split_by("event" if by is None else by),
            event=event,
            where=where,
            temp_dirs=temp or (),
            lenient=lenient,
            chosen=chosen,
            block_bytes=None if block is None else parse_block(block),
            on_progress=bar,
        )
    if histogram and not result.histograms:
        raise EvidenceUnsuited(
            "--histogram: samples are no single waits", "give a trace, or a recording of I/O"
        )
    by_function = FUNCTION in result.by
    if folded and not by_function:
        raise OptionConflict("--folded goes with --by function")
    if folded:
        return Answer(result.to_json, lambda: folded_page(evidence[0], result))
    result = result.top(top)
    if by_function:
        return Answer(result.to_json, lambda: functions_page(result, top))
    return Answer(result.to_json, lambda: profile_page(result, histograms=histogram))


def _query(query: str, evidence: list[str], *, lenient: bool) -> Answer:
    """The result of an SQL query on the evidence."""
    from spillcast.cli.progress import reading_bar
    from spillcast.profile.sql import run_sql
    from spillcast.report.profile import sql_page

    with reading_bar(evidence) as bar:
        columns, rows = run_sql(query, evidence, lenient=lenient, on_progress=bar, notify=notify)
    return Answer(
        lambda: {"schema": "spillcast.sql/1", "columns": columns, "rows": rows},
        lambda: sql_page(columns, rows),
    )


@with_question
def report(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="Evidence as for forecast and profile, folders that postgres --save made, and "
            "what other verbs print with --json; - for standard input.",
        ),
    ],
    output: Annotated[Path, option("--output, -o FILE", "The page.")],
    to: Annotated[
        list[str] | None, option("--to STORAGE", "Forecast the run for this target. Repeatable.")
    ] = None,
    redact: Annotated[
        bool, option("--redact", "Replace SQL text, bind values, paths and names by placeholders.")
    ] = False,
    each: Annotated[
        bool, option("--each", "Treat each input as a run of its own instead of combining traces.")
    ] = False,
    json: Json = False,
    *,
    question: "Question",
) -> None:
    """Write one self-contained page of answers, charts, tables and raw figures.

    Example: spillcast report run.spill --to nvme.json --to catalogue:aws-gp3 -o report.html

    Example: spillcast report ash.csv hdd.trc --to flash.trc --elapsed 773 -o report.html

    Example: spillcast report sweep.json cache.json --redact -o report.html
    """
    from spillcast.cli.ranking import TEN_TIMES, rankings_of_snapshots
    from spillcast.engines.postgres.rank import with_sizing
    from spillcast.engines.ranking import RankRequest, ServerRanking
    from spillcast.evidence.open import KIND_WORDS, TOTALS, EvidenceFiles, find_evidence
    from spillcast.fleet.dataset import is_dataset
    from spillcast.forecast.question import OF_EVIDENCE
    from spillcast.report.html.evidence import add_runs
    from spillcast.report.html.inputs import Inputs, split_inputs
    from spillcast.report.html.write import write_report
    from spillcast.workspace import check_output_file

    if to and each:
        raise OptionConflict(
            "--each compares runs", "a forecast is for one run: leave out --each or --to"
        )
    check_output_file(output)
    page = Inputs()
    documents, words = split_inputs(inputs)
    datasets = [word for word in words if is_dataset(word)]
    words = [word for word in words if word not in datasets]
    evidence = find_evidence(words) if words else EvidenceFiles()
    for name, document in documents:
        page.add_document(name, document)
    for dataset in datasets:
        request = RankRequest(to or [TEN_TIMES], confidence=question.confidence)
        for ranking in map(with_sizing, rankings_of_snapshots(dataset, request)):
            page.documents.append((Path(dataset).name, ranking))
    for part in [find_evidence([word]) for word in words] if each else [evidence]:
        add_runs(
            page, part, question.chosen, temp_dirs=question.temp_dirs, lenient=question.lenient
        )
    if to and not words and not page.of_type(ServerRanking):
        raise OptionConflict("--to is for evidence", "a forecast's document has its target already")
    if to and words:
        _add_forecasts(page, words, to, question)
    else:
        hint = "name a target with --to"
        for _, given in question.given_except(OF_EVIDENCE):
            raise OptionConflict(f"{given} is for a forecast", hint)
        for kind in [each for each in evidence.kinds if each in TOTALS or not page.runs]:
            raise EvidenceUnsuited(f"{KIND_WORDS[kind]} hold no waits", hint)
    summary = write_report(page, output, redact=redact)
    if json:
        emit(summary)
    else:
        _print_summary(summary, output)


def _print_summary(summary: Mapping[str, Any], output: Path) -> None:
    """Print the answer of a page, and where it is."""
    from spillcast.tabular import WIDTH, paragraph

    print(paragraph(" ".join(summary["answer"]), width=min(terminal_columns(), WIDTH)))
    charts = format_count(len(summary["charts"]), "chart")
    print(f"\n  {output}: {charts}, {summary['bytes'] / 1e3:,.0f} kB")


def _add_forecasts(
    page: "Inputs", words: Sequence[str], to: Sequence[str], question: "Question"
) -> None:
    """Add the forecasts of the evidence, the latencies of their targets, and what to buy."""
    from spillcast.forecast.ask import ask
    from spillcast.report.html.evidence import latencies_traced, target_latencies

    answers = ask(words, to, question)
    for word, (forecast, storage) in zip(to, answers, strict=True):
        page.documents.append((Path(words[0]).name, forecast))
        if storage is not None:
            page.latencies.append(replace(target_latencies(storage), name=forecast.target))
        elif Path(word).exists() and forecast.forecast_s is not None:
            traced = latencies_traced(forecast.target, word, lenient=question.lenient)
            page.latencies.append(traced)
    _add_sizing(page, words, question, answers[0][0])


def _add_sizing(
    page: "Inputs", words: Sequence[str], question: "Question", forecast: "Forecast"
) -> None:
    """Add the storage to buy for the run of a forecast, if its evidence suffices."""
    from spillcast.forecast.sizing import free_memory_bytes, size, statements_of
    from spillcast.storage.catalogue.prices import load_prices

    try:
        statements = statements_of(words, question, None, forecast)
        sizing = size(
            statements,
            load_prices(),
            confidence=question.confidence,
            free_memory_bytes=free_memory_bytes(statements),
        )
    except (InputError, Refusal):
        # The forecasts on the page give the reason, or the evidence is of another kind.
        return
    page.documents.append((Path(words[0]).name, sizing))


def export(
    evidence: Annotated[
        list[str],
        typer.Argument(
            help="A recording; for openmetrics also traces, ASH exports, or a folder that "
            "postgres --save made."
        ),
    ],
    format_: Annotated[
        Literal["perfetto", "openmetrics"], option("--format", "A time line, or metrics as text.")
    ],
    by: Annotated[
        str | None, option("--by COLUMNS", "Labels of metrics, as of profile (default: event).")
    ] = None,
    where: Where = None,
    output: Annotated[
        Path | None, option("--output, -o FILE", "File to write (default: stdout).")
    ] = None,
    json: Json = False,
) -> None:
    """Write a time line for Perfetto, or a profile as OpenMetrics.

    perfetto: Chrome trace events. Each thread is a track and each wait a slice with its bytes; an
    arrow leads from the thread that ended a wait. openmetrics: time and latency histograms by
    event.

    Example: spillcast export run.spill --format perfetto -o run.json

    Example: spillcast export hdd.trc --format openmetrics --by event,file

    Example: spillcast export /var/lib/spillcast --format openmetrics -o spillcast.prom
    """
    from spillcast.fleet.dataset import is_dataset
    from spillcast.workspace import check_output_file, whole_file

    if json and output is None:
        raise OptionConflict("--json: stdout is used by the export itself", "write it with -o FILE")
    check_output_file(output)
    if format_ == "perfetto":
        refuse({"--by": by}, "is for --format openmetrics")
        pieces = _time_line(evidence, where)
    elif len(evidence) == 1 and is_dataset(evidence[0]):
        refuse({"--by": by, "--where": where}, "is for a profile, not for a folder of snapshots")
        from spillcast.engines.postgres.rank.history import rank_snapshots
        from spillcast.engines.ranking import RankRequest
        from spillcast.report.export import servers_metrics

        pieces = servers_metrics(rank_snapshots(evidence[0], RankRequest([])))
    else:
        pieces = _metrics(evidence, by or "event", where)
    if output is None and sys.stdout.isatty():
        # ``sys.stdout`` makes control characters visible.
        sys.stdout.writelines(pieces)
        return
    # Both formats are UTF-8 in any locale.
    encoded = (piece.encode(errors="backslashreplace") for piece in pieces)
    if output is None:
        raw(sys.stdout).buffer.writelines(encoded)
        return
    with whole_file(output) as partial, partial.open("wb") as file:
        file.writelines(encoded)
    if json:
        about = {"format": format_, "path": str(output), "bytes": output.stat().st_size}
        emit({"schema": "spillcast.export/1", **about})


def _time_line(evidence: list[str], where: str | None) -> Iterator[str]:
    from spillcast.evidence.open import find_evidence
    from spillcast.recording import Recording
    from spillcast.report.export import trace_text

    opened = find_evidence(evidence)
    if opened.only_kind() != "recordings" or len(opened.recordings) != 1:
        hint = "make one with: spillcast record -- COMMAND"
        raise OptionConflict("--format perfetto is for one recording", hint)
    return trace_text(Recording.open(opened.recordings[0]), where)


def _metrics(evidence: list[str], by: str, where: str | None) -> Iterator[str]:
    from spillcast.cli.progress import reading_bar
    from spillcast.evidence.open import find_evidence
    from spillcast.profile import profile
    from spillcast.profile.result import split_by
    from spillcast.recording import Recording
    from spillcast.report.export import openmetrics_text

    with reading_bar(evidence) as bar:
        result = profile(*evidence, by=split_by(by), where=where, on_progress=bar)
    recordings = find_evidence(evidence).recordings if where is None else []
    return openmetrics_text(result, Recording.open(recordings[0]) if recordings else None)
