"""The actual time of a query after a move, from evidence of that run or the server's counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spillcast.evidence.figures.reading import read_figures
from spillcast.evidence.find import find_evidence
from spillcast.evidence.postgres.executed import Executed, executed_plan, executed_statement
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question
from spillcast.forecast.verdict import unknown_share
from spillcast.recording import Recording
from spillcast.recording.observed import TempPlace, named_temp_places
from spillcast.recording.postgres_meta import Statement
from spillcast.storage.target import resolve

#: The storage that something was recorded on, as a target.
_AS_IT_IS = "factor:1"


@dataclass(frozen=True)
class ActualRun:
    """Holds the actual time of a query: total, and by the terms of a forecast if known."""

    elapsed_s: float
    terms_s: Mapping[str, float]
    operations: int | None = None
    bytes: int | None = None
    #: Whose it is, and where its temp files were, as far as that is known.
    statement: Statement | None = None
    places: Sequence[TempPlace] = ()


def actual_run_of_evidence(paths: Sequence[str], question: Question) -> ActualRun:
    """From a recording, a plan, statement counts or a trace of the query after the move.

    A plan and counts need not spill; neither need they time their I/O, nor need figures. InputError
    or Refusal.
    """
    evidence = find_evidence(paths)
    kind = evidence.only_kind()
    elapsed_s, queryid = question.elapsed_s, question.queryid
    if kind == "plans" and len(evidence.plans) == 1:
        return actual_run(executed_plan(evidence.plans[0], queryid=queryid, elapsed_s=elapsed_s))
    if kind == "statements" and len(evidence.statements) == 1:
        [path] = evidence.statements
        return actual_run(executed_statement(path, queryid=queryid, elapsed_s=elapsed_s))
    if kind == "figures":
        figures = read_figures(evidence.figures, elapsed_s=elapsed_s, timed=False)
        if not figures.meta.temp.total_s:
            return ActualRun(figures.elapsed_s, {})
    [(forecast, _)] = ask(paths, [_AS_IT_IS], Question(elapsed_s=elapsed_s))
    actual = _of_terms(forecast)
    if len(evidence.recordings) != 1:
        return actual
    return replace(actual, places=named_temp_places(Recording.open(evidence.recordings[0]).meta))


def actual_run(executed: Executed) -> ActualRun:
    """From one call, its terms where its temp I/O was timed."""
    if executed.recording is None:
        return ActualRun(executed.elapsed_s, {}, executed.operations, executed.bytes)
    return _of_terms(forecast(executed.recording, resolve(_AS_IT_IS, executed.recording)))


def _of_terms(forecast: Forecast) -> ActualRun:
    terms_s: dict[str, float] = {}
    # Between bounds of the time of temp I/O no term is known, but the total is.
    for term in () if unknown_share(forecast) else forecast.terms:
        terms_s[term.name] = terms_s.get(term.name, 0.0) + term.baseline_s
    moved = [term for term in forecast.terms if term.op is not None]
    operations = sum(term.count or 0 for term in moved) or None
    size = sum(term.bytes or 0 for term in moved)
    return ActualRun(forecast.baseline_s, terms_s, operations, size, forecast.statement)
