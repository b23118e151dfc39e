"""What cures save of a statement: each target storage, and no spill at all."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spillcast.engines.ranking import Gain, Ranked
from spillcast.evidence.counts import Counts
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.counted import timed_on
from spillcast.forecast.project import interval_of
from spillcast.forecast.running import known_target
from spillcast.recording.calibration import MachineCalibration
from spillcast.storage import Storage
from spillcast.storage.target import depends_on_recording, resolve

#: So many statements get a forecast; the rest are listed with their counts.
FORECAST_MAX = 12


@dataclass(frozen=True)
class RankRequest:
    """What is wanted to know of each statement."""

    targets: Sequence[str]
    #: The storage that temp files are on, where I/O was not timed.
    origin: str | None
    confidence: float
    #: What a wait costs on the server's machine; None where that is not known.
    calibration: MachineCalibration | None = None
    _known: dict[str, Storage] = field(default_factory=dict, compare=False, repr=False)

    def storage(self, target: str, counts: Counts) -> Storage:
        """A target's storage; what is the same for all statements is read once."""
        if depends_on_recording(target):
            return resolve(target, counts)
        if target not in self._known:
            self._known[target] = resolve(target, counts)
        return self._known[target]


def request_of(targets: Sequence[str], origin: str | None, confidence: float) -> RankRequest:
    """What is wanted to know of each statement. InputError for an unknown target."""
    for target in targets:
        known_target(target)
    return RankRequest(targets, origin, confidence)


def timed_counts(counts: Counts, request: RankRequest) -> Counts:
    """Return the counts with times of the storage that ``request`` says they were on."""
    if request.origin is None:
        return counts
    return timed_on(counts, request.storage(request.origin, counts))


def with_gains(
    ranked: Ranked, at_bounds: Sequence[Counts], calls: int, request: RankRequest
) -> Ranked:
    """What each target saves of all calls; what not spilling saves is as on no latency.

    From the smallest to the largest saving of any of ``at_bounds``: its bounds are useful even
    where those of the elapsed time are too wide for a forecast.
    """
    if not request.targets:
        return ranked
    gains: dict[str, Gain] = {}
    forecasts: list[Forecast] = []
    for target in request.targets:
        forecasts = [
            forecast(counts, request.storage(target, counts), confidence=request.confidence)
            for counts in at_bounds
        ]
        gain = _gain([_elapsed_s(f) for f in forecasts], forecasts, calls)
        if gain is not None:
            cached = [f.without_cache_s for f in forecasts if f.without_cache_s is not None]
            without_s = calls * max(cached) if cached else None
            gains[target] = replace(gain, without_cache_s=without_s)
    ceilings = [(f.ceiling_s, f.ceiling_interval_s) for f in forecasts]
    no_spill = _gain(ceilings, forecasts, calls)
    if no_spill is not None:
        # Without temp I/O nothing gets slower, however wide the interval.
        low_s, high_s = no_spill.interval_s
        no_spill = replace(no_spill, interval_s=(max(low_s, 0.0), high_s))
    refused = None if gains else next((f.refused for f in forecasts if f.refused), None)
    return replace(ranked, gains=gains, no_spill=no_spill, refused=refused)


def _elapsed_s(forecast: Forecast) -> tuple[float, tuple[float, float] | None]:
    """With its interval, however wide; without one where it was refused for another reason."""
    if forecast.uncertainty is None:
        return forecast.forecast_s or 0.0, forecast.interval_s
    return forecast.uncertainty.forecast_s, interval_of(forecast)


def _gain(
    then: Sequence[tuple[float, tuple[float, float] | None]],
    forecasts: Sequence[Forecast],
    calls: int,
) -> Gain | None:
    """The middle of what each saves, and the bounds of all; None where one of them is not known."""
    saved, ends = list[float](), list[float]()
    for (then_s, bounds), now in zip(then, forecasts, strict=True):
        if bounds is None:
            return None
        saved.append(now.baseline_s - then_s)
        ends += [now.baseline_s - s for s in bounds]
    return Gain(calls * sum(saved) / len(saved), (calls * min(ends), calls * max(ends)))
