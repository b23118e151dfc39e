"""Evidence -> the statements that a storage is bought for, each with its runs a day."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from spillcast.errors import (
    EvidenceUnsuited,
    NoTempIo,
    OptionInvalid,
    RecordingInsufficient,
    Refusal,
)
from spillcast.evidence.counts import Counts
from spillcast.evidence.open import find_evidence, open_evidence
from spillcast.evidence.postgres.statements import Row, counts_of_row, read_rows
from spillcast.forecast.ask import LIMIT, ask, with_origin
from spillcast.forecast.counted import workload_of_counts
from spillcast.forecast.project import Projector, interval_of
from spillcast.forecast.question import Question
from spillcast.forecast.recorded import read_workload
from spillcast.forecast.sizing.products import Sized
from spillcast.recording import Recording
from spillcast.storage.catalogue import lookup
from spillcast.text import shell_word
from spillcast.units import parse_duration_s

#: A recording of more waits than the first number is sampled to the second.
WHOLE_MAX, WAITS_MAX = 60_000, 20_000
#: Statements of an export that are simulated.
STATEMENTS_MAX = 20
DAY_S = 86_400.0
#: A statement without a forecast for this one has none for others.
TYPICAL = "aws-gp3"


def parse_runs_per_day(text: str) -> float:
    """``40/day``, ``2/h``, ``5/week`` or ``40``: runs a day. OptionInvalid for anything else."""
    count, _, period = (part.strip() for part in text.partition("/"))
    periods_s = {"": DAY_S, "day": DAY_S, "week": 7 * DAY_S, "hour": 3600.0, "month": 30.4 * DAY_S}
    try:
        runs = float(count.replace(",", ""))
        period_s = periods_s.get(period) or parse_duration_s(f"1{period}")
    except (ValueError, OptionInvalid):
        runs, period_s = 0.0, 1.0
    if not 0 < runs < float("inf"):
        raise OptionInvalid(f"--runs {text}: not a number of runs", "such as --runs 40/day")
    return runs * DAY_S / period_s


def statements_of(
    arguments: Sequence[str], question: Question, runs_per_day: float | None
) -> list[Sized]:
    """A statement for each recording, plan or report, and for each row of an export that spills.

    ``runs_per_day`` are those of each; of the rows of an export those of all, shared as their
    calls are. InputError for evidence without counts or waits, Refusal where none can be forecast.
    """
    files = find_evidence(arguments)
    of_plan = [Recording.open(path).plan_alone is not None for path in files.recordings]
    question.check(files, of_plan=any(of_plan))
    statements = list[Sized]()
    for argument in arguments:
        evidence = find_evidence([argument])
        if evidence.traces or evidence.ash or evidence.spark:
            kind = "event logs of Spark" if evidence.spark else "SQL traces and ASH exports"
            hint = (
                f"name storages and their prices: spillcast forecast {shell_word(argument)} "
                "--to A --to B --cost A=PRICE --cost B=PRICE"
            )
            raise EvidenceUnsuited(f"{argument}: size does not take {kind}", hint)
        if evidence.statements and question.queryid is None:
            path, timed = evidence.statements[0], question.origin is None
            statements += sized_rows(path, read_rows(path), timed=timed, runs_per_day=runs_per_day)
            continue
        run = with_origin(open_evidence(evidence, question.selection), question)
        limit = None
        if isinstance(run, Counts):
            workload = workload_of_counts(run)
        else:
            run.need_io()
            is_large = run.meta.raw.rows > WHOLE_MAX
            workload, _ = read_workload(run, question, WAITS_MAX if is_large else None)
            if is_large:
                [(limit, _)] = ask(run, [LIMIT], question)
        projector = Projector(workload)
        statements.append(Sized(projector, runs_per_day, workload.name, limit_of_all_waits=limit))
    return statements


def sized_rows(
    path: Path, rows: Sequence[Row], *, timed: bool = True, runs_per_day: float | None = None
) -> list[Sized]:
    """The statements of an export that do the most temp I/O; ``path`` is what an error names."""
    spilling = sorted((row for row in rows if row.spills), key=_temp, reverse=True)
    if not spilling:
        raise NoTempIo(f"{path}: its queries do not spill: there are no temp blocks")
    statements, refusals = list[Sized](), list[Refusal]()
    for row in spilling[:STATEMENTS_MAX]:
        try:
            counts = counts_of_row(path, row, timed=timed)
        except Refusal as refusal:
            refusals.append(refusal)
            continue
        projector = Projector(workload_of_counts(counts))
        forecast = projector.forecast(lookup(TYPICAL), explain=False)
        if interval_of(forecast) is None:
            refusals.append(RecordingInsufficient(f"{path}: {forecast.refused}"))
            continue
        statements.append(Sized(projector, None, row.queryid or "", row.calls))
    if not statements:
        raise refusals[0]
    if runs_per_day is None:
        return statements
    calls = sum(statement.weight for statement in statements)
    return [
        replace(statement, runs_per_day=runs_per_day * statement.weight / calls)
        for statement in statements
    ]


def _temp(row: Row) -> tuple[float, int]:
    return row.temp_s, row.blocks
