"""The forecast of a run in progress, renewed from time to time for a small share of a CPU."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from spillcast.errors import SpillcastError, TargetUnsuited
from spillcast.forecast.ask import forecast
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.remaining import NO_HINTS, RemainingWorkHints
from spillcast.forecast.result import Forecast
from spillcast.recording import Recording
from spillcast.recording.completeness import went_on
from spillcast.storage import Storage
from spillcast.storage.target import FORMS, check_word, is_place, resolve, resolve_storage
from spillcast.text import shell_word
from spillcast.units import parse_factor, parse_latency_s

#: Least time between two forecasts, and the share of one CPU that they may take.
EVERY_S, SHARE = 3.0, 0.02
#: Number of last forecasts whose widths are kept.
KEPT = 120


class RunningForecast:
    """The forecast of a run in progress for ``target``, which is not probed.

    Without an estimate of the entire run, it is for the time recorded so far. ``known`` are hints
    about the entire run. InputError for a target that does not exist, or that needs a probe, which
    would disturb the recording.
    """

    def __init__(
        self, target: str, confidence: float = CONFIDENCE, known: RemainingWorkHints = NO_HINTS
    ) -> None:
        self._target, self._confidence, self._known = target, confidence, known
        self._storage = known_target(target)
        self._due_s, self._loaded = 0.0, False
        self.latest: Forecast | None = None
        #: Why there is no forecast yet.
        self.because: str | None = "too little was seen"
        #: Half-widths of the intervals of the entire run over its forecasts; None if refused.
        self.half_widths: deque[float | None] = deque(maxlen=KEPT)

    def look(self, so_far: Callable[[], Recording | None], *, last: bool = False) -> None:
        """Renew the forecast if it is due or the ``last``; an error becomes ``because``."""
        if not last and time.monotonic() < self._due_s:
            return
        began_s = time.thread_time()
        recording = so_far()
        if recording is not None:
            try:
                storage = self._storage or resolve(self._target, recording)
                known = self._known if went_on(recording.meta) else NO_HINTS
                self.latest = forecast(recording, storage, confidence=self._confidence, known=known)
                self.because = self.latest.refused
                if self.latest.to_come is not None and not self.latest.to_come.open_ended:
                    self.half_widths.append(_half_width(self.latest))
            except SpillcastError as error:
                self.latest, self.because = None, error.message.removeprefix("so far: ")
        # The first forecast mostly takes the time to load modules.
        cost_s = time.thread_time() - began_s if self._loaded else 0.0
        self._loaded = recording is not None
        self._due_s = time.monotonic() + max(EVERY_S, cost_s / SHARE)


def _half_width(forecast: Forecast) -> float | None:
    if forecast.forecast_s is None or forecast.interval_s is None:
        return None
    low_s, high_s = forecast.interval_s
    return (high_s - low_s) / 2 / forecast.forecast_s


def known_target(target: str) -> Storage | None:
    """The storage; None if it depends on the recording."""
    check_word(target, "--to")
    kind, colon, value = target.partition(":")
    if colon and kind == "latency":
        parse_latency_s(value, f"--to {target}")
        return None
    if colon and kind == "factor":
        parse_factor(target, value)
        return None
    if colon and kind == "cache":
        return None
    if target == "tmpfs" or is_place(Path(target)):
        raise TargetUnsuited(
            f"--to {target}: a probe would disturb what is watched",
            f"probe before: spillcast probe {shell_word(target)} --grid -o storage.json",
        )
    return resolve_storage(target, f"--to {target}", FORMS)
