"""Forecasts of the elapsed time of a run with its temp files on another storage."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from warnings import warn

from spillcast.evidence.counts import Counts
from spillcast.forecast.ask import ask, forecast
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast, Term, Warned
from spillcast.forecast.verdict import Forecasts
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.text import several

__all__ = ["Forecast", "Forecasts", "Term", "Warned", "forecast"]


class _Callable(ModuleType):
    """Makes ``spillcast.forecast`` both a package and a function."""

    def __call__(self, baseline: Any, to: Any, **options: Any) -> Forecast | Forecasts:
        """Forecast the elapsed time (s) of ``baseline`` with its temp files on each target ``to``.

        ``baseline`` is a recording, its path, or evidence of another kind: a plan of EXPLAIN, rows
        of pg_stat_statements, figures, traces, ASH exports; several files of one run as a list. A
        target is a storage or what ``--to`` takes; a directory is probed now. One target gives a
        ``Forecast``, a list of them ``Forecasts`` in the same order. InputError for evidence or
        targets that cannot be used, Refusal for a recording without temp I/O; if the evidence does
        not allow a forecast for a target, ``forecast_s`` is None and ``refused`` gives the reason.
        """
        evidence = baseline if isinstance(baseline, Recording | Counts) else [*several(baseline)]
        single = isinstance(to, Storage | str | Path)
        if "boost" in options:
            warn("boost is deprecated: use temp_events", DeprecationWarning, stacklevel=2)
            options["temp_events"] = options.pop("boost")
        answers = ask(evidence, [to] if single else [*to], Question(**options))
        forecasts = Forecasts(forecast for forecast, _ in answers)
        return forecasts[0] if single else forecasts


sys.modules[__name__].__class__ = _Callable
