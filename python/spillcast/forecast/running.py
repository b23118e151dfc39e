"""The forecast of a run that goes on: made anew now and then, for a small share of a CPU."""

import time
from collections.abc import Callable
from pathlib import Path

from spillcast.errors import InputError, SpillcastError
from spillcast.forecast.ask import forecast
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.result import Forecast
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.meant import check_word
from spillcast.storage.target import FORMS, is_place, resolve, resolve_storage
from spillcast.units import parse_factor, parse_latency_s
from spillcast.visible import shell_word

#: The least time between two forecasts, and the share of one CPU that they may take.
EVERY_S, SHARE = 3.0, 0.02


class RunningForecast:
    """What the time recorded so far would have been on ``target``, which is not probed.

    A probe would disturb what it is watched beside. InputError for a target that needs one, or that
    there is not.
    """

    def __init__(self, target: str, confidence: float = CONFIDENCE) -> None:
        self._target, self._confidence = target, confidence
        self._storage = known_target(target)
        self._due_s, self._loaded = 0.0, False
        self.latest: Forecast | None = None
        #: Why there is none yet.
        self.because: str | None = "too little was seen"

    def look(self, so_far: Callable[[], Recording | None], *, last: bool = False) -> None:
        """Forecast anew where it is time, or for the last time; an error is why there is none."""
        if not last and time.monotonic() < self._due_s:
            return
        began_s = time.thread_time()
        recording = so_far()
        if recording is not None:
            try:
                storage = self._storage or resolve(self._target, recording)
                self.latest = forecast(recording, storage, confidence=self._confidence)
                self.because = self.latest.refused
            except SpillcastError as error:
                self.latest, self.because = None, error.message.removeprefix("so far: ")
        # What the first one takes is mostly the loading of what it needs.
        cost_s = time.thread_time() - began_s if self._loaded else 0.0
        self._loaded = recording is not None
        self._due_s = time.monotonic() + max(EVERY_S, cost_s / SHARE)


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
        raise InputError(
            f"--to {target}: a probe would disturb what is watched",
            f"probe before: spillcast probe {shell_word(target)} --grid -o storage.json",
        )
    return resolve_storage(target, f"--to {target}", FORMS)
