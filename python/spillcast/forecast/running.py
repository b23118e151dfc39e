"""The forecast of a run that goes on: made anew now and then, for a small share of a CPU."""

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

#: The least time between two forecasts, and the share of one CPU that they may take.
EVERY_S, SHARE = 3.0, 0.02


#: Forecasts of which it is kept how sure they were.
KEPT = 120


class RunningForecast:
    """How long the run would take on ``target``, which is not probed, by what was seen so far.

    Where nothing tells the whole run, it is for the time recorded so far. ``known`` is what the
    user knows of the whole. A probe would disturb what it is watched beside. InputError for a
    target that needs one, or that there is not.
    """

    def __init__(
        self, target: str, confidence: float = CONFIDENCE, known: RemainingWorkHints = NO_HINTS
    ) -> None:
        self._target, self._confidence, self._known = target, confidence, known
        self._storage = known_target(target)
        self._due_s, self._loaded = 0.0, False
        self.latest: Forecast | None = None
        #: Why there is none yet.
        self.because: str | None = "too little was seen"
        #: Of the forecasts of the whole so far, half the interval over the number; None where one
        #: was refused.
        self.half_widths: deque[float | None] = deque(maxlen=KEPT)

    def look(self, so_far: Callable[[], Recording | None], *, last: bool = False) -> None:
        """Forecast anew where it is time, or for the last time; an error is why there is none."""
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
        # What the first one takes is mostly the loading of what it needs.
        cost_s = time.thread_time() - began_s if self._loaded else 0.0
        self._loaded = recording is not None
        self._due_s = time.monotonic() + max(EVERY_S, cost_s / SHARE)


def _half_width(forecast: Forecast) -> float | None:
    if forecast.forecast_s is None or forecast.interval_s is None:
        return None
    low_s, high_s = forecast.interval_s
    return (high_s - low_s) / 2 / forecast.forecast_s


def known_target(target: str) -> Storage | None:
    """The storage, where it does not depend on what is recorded."""
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
