"""Forecasts of a case made otherwise: without one of the estimates, or with a rehearsal."""

from collections.abc import Callable, Mapping

from spillcast.errors import InputError, Refusal
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.projection import ESTIMATORS, REHEARSAL
from spillcast.lab.case import Variant
from spillcast.recording import Recording
from spillcast.storage import Storage

#: What a forecast can be made without, and what each is.
LEFT_OUT: Mapping[str, str] = {
    estimator.name: estimator.summary for estimator in ESTIMATORS if estimator is not REHEARSAL
}
REHEARSED = "rehearsed"
#: A rehearsal is a part of the run: at most so long, and of its temp I/O such a share of it.
REHEARSED_S, REHEARSED_SHARE = 10.0, 0.1


def without(name: str) -> str:
    """The name of the variant that leaves an estimate out."""
    return f"without {name}"


def rehearsed_s(recording: Recording) -> float:
    """How long a query is rehearsed: until its first temp I/O, and for a share of it after that."""
    started_ns = recording.temp_waits["start_ns"].to_numpy().min(initial=recording.elapsed_s * 1e9)
    return min(REHEARSED_S, float(started_ns) / 1e9 + REHEARSED_SHARE * recording.elapsed_s)


def variants(
    recording: Recording,
    storage: Storage,
    answer: Forecast,
    rehearsed: Callable[[], Storage | None],
) -> dict[str, Variant]:
    """All that say anything else than ``said``, by name.

    ``rehearsed`` rehearses the query there and returns the storage with what it told, None where
    that cannot be done.
    """
    results = {}
    for name in LEFT_OUT:
        variant = _variant(recording, storage, answer, name)
        if variant != Variant.of(answer):
            results[without(name)] = variant
    rehearsal_storage = rehearsed()
    return (
        results
        if rehearsal_storage is None
        else {**results, REHEARSED: _variant(recording, rehearsal_storage, answer)}
    )


def _variant(recording: Recording, storage: Storage, answer: Forecast, *names: str) -> Variant:
    try:
        return Variant.of(forecast(recording, storage, without=names))
    except (InputError, Refusal):
        return Variant(None, None, answer.ceiling_s, None)
