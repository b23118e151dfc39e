"""Forecasts of the elapsed time of a run with its temp files on another storage."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spillcast.errors import UsageInvalid
from spillcast.evidence.counts import Counts
from spillcast.forecast.ask import ask, forecast
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.verdict import Forecasts
from spillcast.public import as_package
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.text import near_names

__all__ = ["Caveat", "Forecast", "Forecasts", "Term", "forecast"]


@as_package(__name__)
def _forecast(
    baseline: Recording | Counts | str | Path | Iterable[str | Path],
    to: Storage | str | Path | Iterable[Storage | str | Path],
    **options: Any,
) -> Forecast | Forecasts:
    """Forecast the elapsed time (s) of ``baseline`` with its temp files on each target ``to``.

    ``baseline`` is a recording, its path, or evidence of another kind: a plan of EXPLAIN, rows
    of pg_stat_statements, figures, traces, ASH exports; several files of one run as a list. A
    target is a storage or what ``--to`` takes; a directory is probed now. One target gives a
    ``Forecast``, a list of them ``Forecasts`` in the same order. InputError for evidence or
    targets that cannot be used, Refusal for a recording without temp I/O; if the evidence does
    not allow a forecast for a target, ``forecast_s`` is None and ``refused`` gives the reason.
    """
    files = [baseline] if isinstance(baseline, str | Path) else baseline
    evidence = files if isinstance(files, Recording | Counts) else [*files]
    targets = [to] if isinstance(to, Storage | str | Path) else [*to]
    for name in options.keys() - Question.__annotations__.keys():
        known = near_names(name, sorted(Question.__annotations__))
        hint = f"do you mean {known[0]}?" if known else "docs/python-reference.md lists the options"
        raise UsageInvalid(f"forecast: no option {name}", hint)
    answers = ask(evidence, targets, Question(**options))
    forecasts = Forecasts(forecast for forecast, _ in answers)
    return forecasts[0] if isinstance(to, Storage | str | Path) else forecasts
