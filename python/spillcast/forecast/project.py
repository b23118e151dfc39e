"""The forecast of a workload on a storage.

If only bounds of a quantity are known, the forecast is for their middle, and its interval
contains the intervals at both bounds.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from itertools import repeat

from spillcast.errors import CpuTimeUnknown, IntervalTooWide, RecordingInsufficient, Refusal
from spillcast.forecast.binding import Binding, Outcome, binding_of
from spillcast.forecast.interval import Uncertainty, around, too_wide
from spillcast.forecast.projection import (
    ESTIMATORS,
    ZERO_LATENCY_STORAGE,
    Baseline,
    Projection,
    baseline_of,
    projection,
)
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.result import CHANGES, QUOTA, Forecast, Interval, Rehearsed, Term, WarmRun
from spillcast.forecast.uncertainty import elapsed_on
from spillcast.forecast.warnings import THROTTLED_REPORTED, warnings_of
from spillcast.forecast.work_memory import WorkMemoryEffect, more_work_memory
from spillcast.forecast.workload import SHARE_REPORTED, Workload
from spillcast.forecast.workload.load import operations
from spillcast.recording import WRITEBACK
from spillcast.recording.completeness import DIFFERENCE_MAX
from spillcast.storage.storage import Storage
from spillcast.units import format_duration, format_share

#: Temp I/O that takes more than this multiple of the elapsed time is of another run.
IO_MAX = 1.25
#: Least recorded share of a query that has not read its temp files yet. The smallest verified
#: share is a fifth.
SEEN_MIN = 0.15


class Projector:
    """Forecasts of a workload on storages. Values that fit all storages are computed once."""

    def __init__(self, workload: Workload, estimators: Collection[str] = ESTIMATORS) -> None:
        self.workload, self.baseline = workload, baseline_of(workload, estimators)
        #: Projectors of the workload at each bound of a quantity that has only bounds.
        self.at_bounds = [Projector(bound, estimators) for bound in workload.at_bounds]
        self._unusable = _unusable(self.baseline)

    @cached_property
    def zero_latency(self) -> Uncertainty:
        """The elapsed time on storage without latency, which no storage can beat."""
        return elapsed_on(projection(self.baseline, ZERO_LATENCY_STORAGE))[0]

    def forecast(
        self, storage: Storage, confidence: float = CONFIDENCE, *, explain: bool = True
    ) -> Forecast:
        """The forecast for temp files on a storage, with ``explain`` also the limits that bind."""
        forecast = self._between_bounds(storage, confidence, cached=storage.source.uncached)
        if forecast.forecast_s is None or forecast.interval_s is None:
            return forecast
        if self.workload.threads.counted and forecast.without_cache_s is not None:
            # Counts do not show how much memory was free, so the page cache may hold nothing.
            uncached = self._between_bounds(storage, confidence, cached=False, any_width=True)
            without = interval_of(uncached)
            if without is not None:
                either_s = around([forecast.interval_s, without])
                forecast = replace(forecast, interval_s=either_s, uncertainty=None)
        if explain and forecast.rehearsed is None and storage.limits:
            forecast = replace(forecast, binding=self.binding(storage))
        return forecast

    def binding(self, storage: Storage) -> Binding:
        """The limits of a storage that temp I/O waits for."""
        return binding_of(storage, self.outcome)

    def outcome(self, storage: Storage) -> Outcome:
        """The elapsed time on a storage without an interval, and its temp I/O by cause of waits."""
        projected = projection(self.baseline, storage, cached=storage.source.uncached)
        return projected.total_s, projected.causes_s

    def work_memory(self, confidence: float = CONFIDENCE) -> WorkMemoryEffect | None:
        """The effect of more work_mem; None without a plan that has counts."""
        workload = self.workload
        if workload.plan is None:
            return None
        zeros = [self.zero_latency, *(at.zero_latency for at in self.at_bounds)]
        return more_work_memory(workload.plan, workload.total_s, zeros, confidence)

    def refused(self, target: str, confidence: float, reason: Refusal) -> Forecast:
        """A forecast without a number for a target, with the reason."""
        return self._unanswered(target, confidence).refused_by(reason)

    def _between_bounds(
        self, storage: Storage, confidence: float, *, cached: bool, any_width: bool = False
    ) -> Forecast:
        """The forecast, with an interval from the lowest to the highest bound.

        It is refused for an interval that is too wide, except with ``any_width``.
        """
        intervals = list[Interval]()
        pairs = zip(self.at_bounds, storage.at_bounds or repeat(storage), strict=False)
        alone = [
            each._alone(place, confidence, cached=cached)
            for each, place in [(self, storage), *pairs]
        ]
        for forecast in alone:
            if (interval_s := interval_of(forecast)) is None:
                return forecast
            intervals.append(interval_s)
        central, *at_bounds = alone
        if not at_bounds:
            return central
        low_s, high_s = around(intervals)
        ceilings = [f.ceiling_interval_s for f in alone if f.ceiling_interval_s]
        at_ceilings_s = [forecast.ceiling_s for forecast in at_bounds]
        quality = self.workload.quality
        # If the time of temp I/O is unknown, its bounds are the answer, even if they are wide.
        unknown = None if any_width or quality.time_unknown else quality.unknown
        if unknown is None or too_wide(low_s, high_s) is None:
            forecast = replace(central, interval_s=(low_s, high_s), uncertainty=None)
        else:
            reason = (
                f"{unknown.text}, so that it may take {format_duration(low_s)} or "
                f"{format_duration(high_s)}; {unknown.remedy}"
            )
            forecast = self.refused(storage.name, confidence, IntervalTooWide(reason))
        return replace(
            forecast,
            ceiling_s=central.ceiling_s,
            ceiling_interval_s=around(ceilings),
            ceiling_bounds_s=(min(at_ceilings_s), max(at_ceilings_s)),
        )

    def _alone(self, storage: Storage, confidence: float, *, cached: bool) -> Forecast:
        """The forecast of this workload without its bounds, with or without the page cache."""
        workload, baseline = self.workload, self.baseline
        try:
            if self._unusable is not None:
                raise RecordingInsufficient(self._unusable)
            projected = projection(baseline, storage, cached=cached)
            _check_cpu_limits(workload, projected.throttled_share)
            rehearsed = _rehearsed(baseline, storage)
            measured = storage.rehearsal if rehearsed is not None and rehearsed.ended else None
            if measured is not None:
                projected = projected.with_total(measured.run_s)
            # Where the time of temp I/O has only bounds, it may be the whole run.
            if (forecast_s := projected.total_s) <= 0 and not workload.quality.time_unknown:
                raise RecordingInsufficient(
                    "all of the time recorded was temp I/O: nothing is left of it"
                )
        except Refusal as refusal:
            return self.refused(storage.name, confidence, refusal)
        ceiling_s = min(self.zero_latency.forecast_s, forecast_s)
        uncertainty, sample = elapsed_on(projected, measured)
        if rehearsed is not None:
            uncertainty = replace(uncertainty, residual_share=1 - rehearsed.share)
        without_cache_s, uncached_s = None, projected.uncached_s
        if uncached_s is not None and (projected.missed or 0.0) <= SHARE_REPORTED:
            # Memory is never slower than the storage behind it, even if a model says so.
            without_cache_s = max(forecast_s, uncached_s)
        low_s, high_s = uncertainty.bounds_s(confidence)
        unanswered = replace(
            self._unanswered(storage.name, confidence),
            uncertainty=uncertainty,
            sampled=sample,
            without_cache_s=without_cache_s,
            warnings=warnings_of(projected, ceiling_s),
        )
        # A forecast that is refused for its interval keeps the warnings, which explain the width.
        if (reason := too_wide(low_s, high_s, workload.total_s)) is not None:
            return unanswered.refused_by(reason)
        zero_latency = replace(self.zero_latency, forecast_s=ceiling_s)
        return replace(
            unanswered,
            forecast_s=forecast_s,
            rehearsed=rehearsed,
            interval_s=(low_s, high_s),
            ceiling_s=ceiling_s,
            ceiling_interval_s=zero_latency.interval_s(confidence, low_s),
            terms=_terms(projected),
            advice=storage.facts.get("advice", ()),
            warm=self._warm(forecast_s),
        )

    def _warm(self, forecast_s: float | None) -> WarmRun | None:
        """The same run with cached data files; None if it read almost nothing from storage."""
        if (cold := self.baseline.cold_data) is None:
            return None
        warm_s = None if forecast_s is None else max(forecast_s - cold.forecast_s, 0.0)
        return WarmRun(self.workload.total_s - cold.baseline_s, warm_s)

    def _unanswered(self, target: str, confidence: float) -> Forecast:
        """A forecast for a target without a number, and without the reason for its absence."""
        workload, baseline = self.workload, self.baseline
        ceiling_s, ceiling_interval_s = baseline.remainder_s, None
        if self._unusable is None:
            ceiling_s = self.zero_latency.forecast_s
            ceiling_interval_s = self.zero_latency.interval_s(confidence)
        return Forecast.unanswered(
            target,
            workload.total_s,
            confidence,
            ceiling_s=ceiling_s,
            ceiling_interval_s=ceiling_interval_s,
            terms=baseline.with_run_queue(baseline.rest),
            part=workload.part,
            recorded_s=workload.recorded_s,
            subject=workload.subject,
            to_come=workload.to_come,
            statement=workload.statement,
            warm=self._warm(None),
            spill_spread=workload.spill_spread,
            work_memory=self.work_memory(confidence),
        )


def interval_of(forecast: Forecast) -> Interval | None:
    """The interval, even if it is too wide for a number; None if unknown."""
    if forecast.interval_s is not None or forecast.uncertainty is None:
        return forecast.interval_s
    return forecast.uncertainty.bounds_s(forecast.confidence)


def _unusable(baseline: Baseline) -> str | None:
    """Why no storage can have a forecast; None if it can."""
    workload = baseline.workload
    quality, total_s = workload.quality, workload.total_s
    if quality.unseen.excessive:
        return f"{quality.unseen.text}; {quality.unseen.remedy}"
    for check in quality.contradictions:
        if check.difference > DIFFERENCE_MAX:
            return f"parts of the recording contradict each other: {check.text}; record again"
    if quality.io_uring_depth > 1:
        at_once = f"up to {quality.io_uring_depth:,} at once"
        return f"temp files are read or written through io_uring, {at_once}: their times overlap"
    if quality.io_uring_busy_s:
        busy = format_duration(quality.io_uring_busy_s)
        return f"while temp I/O was under way in io_uring, its threads did other work for {busy}"
    temp_s = baseline.temp_s / baseline.io_share
    if temp_s > IO_MAX * total_s:
        io, elapsed = format_duration(temp_s), format_duration(total_s)
        return (
            f"its temp I/O takes {io}, longer than the elapsed time of {elapsed}: give the time of "
            "the whole query with --elapsed"
        )
    share = workload.elapsed_s / total_s
    if workload.kind == "unread" and share < SEEN_MIN:
        return (
            f"only {format_share(share, 1)} of the query was recorded, and hardly any temp data "
            "had been read back"
        )
    return None


def _check_cpu_limits(workload: Workload, throttled_share: float) -> None:
    """CpuTimeUnknown if CPU limits need the CPU time of threads, which was not recorded."""
    threads = workload.threads
    if threads.trace.cpu_known:
        return
    unseen = "the recording does not contain the CPU time of the threads"
    if threads.source != threads.target:
        raise CpuTimeUnknown(
            f"--cpus or --cpu-quota differ from the recording, and {unseen}: record it again"
        )
    if not threads.source.quota_ns:
        return
    throttled_s = workload.cpu.throttled_s or 0.0
    if throttled_s > THROTTLED_REPORTED * workload.elapsed_s:
        throttled = f"{threads.source.quota_text} throttled it for {format_duration(throttled_s)}"
        raise CpuTimeUnknown(f"{throttled}, and {unseen}: record it again")
    if throttled_share > THROTTLED_REPORTED:
        quota = threads.target.quota_text
        raise CpuTimeUnknown(f"{quota} may throttle it there, and {unseen}: record it again")


def _rehearsed(baseline: Baseline, storage: Storage) -> Rehearsed | None:
    """The rehearsal on the target as part of a forecast; None if there is none to use."""
    rehearsal, workload = baseline.rehearsal_on(storage), baseline.workload
    if rehearsal is None:
        return None
    # A recording of an unknown part of a query is forecast as that part.
    ended = rehearsal.ended and workload.part is None
    total_operations = workload.io_scale * operations(workload.loads)
    share = 1.0 if ended else min(rehearsal.operations / total_operations, 1.0)
    return Rehearsed(rehearsal.elapsed_s, rehearsal.operations, share, ended)


def _terms(projected: Projection) -> list[Term]:
    """The terms that the elapsed time is the sum of, today and on the target."""
    workload, baseline = projected.workload, projected.baseline
    change_s, (cpu, *others) = projected.cpu_change_s, baseline.rest
    direct_change_s = change_s
    if any(term.name == QUOTA for term in others):
        # Less CPU time also shortens the wait for the quota.
        direct_change_s = max(change_s, -cpu.forecast_s / 2)
    terms = [replace(cpu, forecast_s=cpu.forecast_s + direct_change_s)]
    for term in others:
        more_s = change_s - direct_change_s if term.name == QUOTA else 0.0
        terms.append(replace(term, forecast_s=term.forecast_s + more_s))
    terms = baseline.with_run_queue(terms)
    for load, today_s, target_s in zip(workload.loads, baseline.io_s, projected.io_s, strict=True):
        name = f"temp {load.op}"
        terms.append(Term(name, load.op, load.bytes, load.count, today_s, target_s))
    changes = list(zip(workload.changes, baseline.changes_s, projected.changes_s, strict=True))
    for name in (WRITEBACK, CHANGES):
        named = [each for each in changes if (each[0].event == WRITEBACK) == (name == WRITEBACK)]
        if named:
            count = sum(change.count for change, _, _ in named)
            times_s = sum(s for _, s, _ in named), sum(s for *_, s in named)
            terms.append(Term(name, None, None, count, *times_s))
    return terms
