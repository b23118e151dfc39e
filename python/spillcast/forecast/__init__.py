"""Forecasts of the elapsed time of a run with its temp files on another storage."""

import sys
from types import ModuleType
from typing import Any
from warnings import warn

from spillcast.evidence.counts import Counts
from spillcast.forecast.ask import ask, forecast
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast, Term, Warned
from spillcast.forecast.verdict import Forecasts
from spillcast.recording import Recording

__all__ = ["Forecast", "Forecasts", "Term", "Warned", "forecast"]


class _Callable(ModuleType):
    """Makes ``spillcast.forecast`` both a package and a function."""

    def __call__(self, baseline: Any, to: Any, **options: Any) -> Forecast | Forecasts:
        """Forecast the elapsed time (s) of ``baseline`` with its temp files on each target ``to``.

        ``baseline`` is a recording, its path, or evidence of another kind: a plan of EXPLAIN, rows
        of pg_stat_statements, figures, traces, ASH exports; several files of one run as a list. A
        target is a storage or what ``--to`` takes; a directory is probed now. One target gives a
        ``Forecast``, a list of them ``Forecasts`` in the same order. InputError for evidence or
        targets that cannot be used; if the evidence does not allow a forecast, ``forecast_s`` is
        None and ``refused`` gives the reason.
        """
        single_path = not isinstance(baseline, Recording | Counts | list | tuple)
        evidence = [baseline] if single_path else baseline
        several = isinstance(to, list | tuple)
        if "boost" in options:
            warn("boost is deprecated: use temp_events", DeprecationWarning, stacklevel=2)
            options["temp_events"] = options.pop("boost")
        question = Question(**options)
        forecasts = [forecast for forecast, _ in ask(evidence, to if several else [to], question)]
        return Forecasts(forecasts) if several else forecasts[0]


sys.modules[__name__].__class__ = _Callable
