"""Forecasts from evidence and targets as the command line names them, also during a run."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceMixed, OptionConflict, Refusal, SpillcastError, TargetUnsuited
from spillcast.evidence.counts import Counts
from spillcast.evidence.open import EvidenceFiles, find_evidence, open_evidence
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.previous_runs import run_instead_of
from spillcast.forecast.project import Projector
from spillcast.forecast.projection import ZERO_LATENCY_STORAGE, estimators_without
from spillcast.forecast.query import is_too_uncertain, read_workload
from spillcast.forecast.question import CONFIDENCE, Question
from spillcast.forecast.remaining import NO_HINTS, RemainingWorkHints
from spillcast.forecast.result import ZERO_LATENCY, Forecast
from spillcast.forecast.workload import Workload
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.free_space import check_free_space
from spillcast.storage.observed import Rehearsal, kept_rehearsal
from spillcast.storage.target import (
    FORMS,
    can_probe,
    parse_assumed,
    probe_command,
    resolve,
    resolve_storage,
)
from spillcast.units import format_duration

#: A forecast and its storage; None if the storage was refused or is known from traces only.
TargetForecast = tuple[Forecast, Storage | None]
#: A storage or its name: a directory (probed now), a file, ``catalogue:NAME``, ``latency:150us``.
Target = Storage | str | Path
#: The target whose forecast is the limit of any storage.
LIMIT = "limits:latency=0ms"


def as_limit(forecast: Forecast) -> Forecast:
    """The forecast for ``LIMIT``, renamed to zero-latency storage and without "not measured"."""
    warnings = [warning for warning in forecast.warnings if warning.code != "not-measured"]
    # If temp I/O has only bounds, the limit's interval reaches up to today's time.
    interval_s = forecast.interval_s and (forecast.ceiling_interval_s or forecast.interval_s)
    return replace(forecast, target=ZERO_LATENCY, interval_s=interval_s, warnings=warnings)


def forecast(evidence: Recording | Counts, target: Storage, **options: Any) -> Forecast:
    """The forecast of a run with temp files on ``target``; ``options`` are fields of ``Question``.

    InputError if there was no temp I/O, Refusal if it could not be recorded.
    """
    [(forecast, _)] = _forecasts(evidence, [target], Question(**options))
    return forecast


def ask(
    baseline: Recording | Counts | Sequence[str | Path],
    targets: Sequence[Target],
    question: Question | None = None,
) -> list[TargetForecast]:
    """A forecast for each target, from any evidence.

    InputError for evidence or targets that cannot be used. If the evidence does not allow a
    forecast, the forecasts are refused with the reason.
    """
    question = question or Question()
    if isinstance(baseline, Counts):
        question.check(EvidenceFiles())
        return _forecasts(baseline, targets, question)
    recording: Recording | None
    if isinstance(baseline, Recording):
        recording, files = baseline, EvidenceFiles(recordings=[baseline.path])
    else:
        files = find_evidence(baseline)
        recording = Recording.open(files.recordings[0]) if len(files.recordings) == 1 else None
    if len(files.traces) > 1:
        _check_apart(files.traces, targets)
    question.check(files, of_plan=recording is not None and recording.plan_alone is not None)
    if files.spark:
        return _of_application(files, targets, question)
    if files.recordings or files.plans or files.statements or files.figures:
        evidence = open_evidence(files, question.selection, recording)
        return _forecasts(evidence, targets, question)
    if not (files.traces or files.ash or files.statistics):
        files.only_kind()
    from spillcast.forecast.oracle import forecast_events, target_of
    from spillcast.forecast.oracle.evidence import EventTarget, read_evidence
    from spillcast.forecast.oracle.parts import NO_LATENCY_S

    places_named = any(
        not isinstance(target, Storage) and can_probe(Path(target)) for target in targets
    )
    events = read_evidence(files, question, name_statements=places_named)
    # ASH alone does not show the sizes of operations, which do not matter without latency.
    places = [
        EventTarget(LIMIT, latency_s=NO_LATENCY_S)
        if target == LIMIT
        else target_of(target, events, question)
        for target in targets
    ]
    return [(forecast_events(place, events, question), place.storage) for place in places]


def _check_apart(traces: Sequence[Path], targets: Sequence[Target]) -> None:
    """TargetUnsuited for a target that is also a trace of the evidence, as in a common folder."""
    places = {Path(target).resolve() for target in targets if not isinstance(target, Storage)}
    if both := next((trace for trace in traces if trace.resolve() in places), None):
        hint = "give the traces of today's storage alone"
        raise TargetUnsuited(f"--to {both}: it is among the evidence too", hint)


def _of_application(
    files: EvidenceFiles, targets: Sequence[Target], question: Question
) -> list[TargetForecast]:
    """Forecasts of a Spark application, with the waits of its tasks if executors were recorded."""
    from spillcast.evidence.spark import read_application
    from spillcast.forecast.spark import forecast_application

    replace(files, recordings=[]).only_kind()
    if files.recordings and question.origin is not None:
        raise OptionConflict(
            "--from does not go with recordings beside an event log",
            "leave it out: the recordings show how long tasks waited for the storage they ran on",
        )
    if len(files.spark) > 1:
        names = f"{files.spark[0]}, {files.spark[1]}{', ...' if len(files.spark) > 2 else ''}"
        raise EvidenceMixed(f"{len(files.spark)} event logs: {names}", "forecast one at a time")
    with question.reading(files.spark) as read:
        application = read_application(files.spark[0], read)
    if files.recordings:
        from spillcast.evidence.spark.observed import observed

        application = observed(application, list(map(Recording.open, files.recordings)))
        if application.observed is not None and question.page_cache_bytes is None:
            question = replace(question, page_cache_bytes=application.observed.page_cache_bytes)
    named = [target if isinstance(target, Storage) else str(target) for target in targets]
    return forecast_application(application, named, question)


def forecasts_of(
    recording: Recording, targets: Sequence[str], question: Question
) -> list[Forecast]:
    """Forecasts of a recording; a refusal becomes the reason in each forecast."""
    try:
        return [forecast for forecast, _ in ask([recording.path], targets, question)]
    except Refusal as refusal:
        elapsed_s, confidence = recording.elapsed_s, question.confidence
        unanswered = (Forecast.unanswered(name, elapsed_s, confidence) for name in targets)
        return [forecast.refused_by(refusal) for forecast in unanswered]


def _forecasts(
    evidence: Recording | Counts, targets: Sequence[Target], question: Question
) -> list[TargetForecast]:
    caveats = list[Caveat]()
    if isinstance(evidence, Recording):
        evidence.need_io()
        former = run_instead_of(evidence, question.known.runs)
        if former is not None and question.elapsed_s is None:
            message = (
                f"there was no temp I/O in the {format_duration(evidence.elapsed_s)} that were "
                f"recorded: the forecast is for the previous run, {former.path.name}"
            )
            caveats.append(Caveat("former-run", message))
            evidence, question = former, replace(question, known=NO_HINTS)
    # Evidence that cannot be used is refused before a target is probed.
    workload, like = read_workload(evidence, question)
    storages = [_resolved(target, like, question) for target in targets]
    answers = _answers(workload, storages, question)
    if any(is_too_uncertain(forecast) for forecast, _ in answers):
        workload, _ = read_workload(evidence, replace(question, exact=True))
        answers = _answers(workload, storages, question)
    return [(replace(f, warnings=[*f.warnings, *caveats]), storage) for f, storage in answers]


def _answers(
    workload: Workload, storages: Sequence[tuple[str, Storage | Refusal]], question: Question
) -> list[TargetForecast]:
    """A forecast, or a refused one, for each target by name.

    Storages with the same name, such as a directory probed twice, keep the name as given.
    """
    confidence = question.confidence
    named = Counter(storage.name for _, storage in storages if isinstance(storage, Storage))
    projector = Projector(workload, estimators_without(question.without))
    answers = list[TargetForecast]()
    for name, storage in storages:
        if isinstance(storage, Refusal):
            answers.append((projector.refused(name, confidence, storage), None))
            continue
        shown = replace(storage, name=name) if named[storage.name] > 1 else storage
        answers.append((projector.forecast(shown, confidence), shown))
    return answers


def _resolved(
    target: Target, like: Recording | Counts, question: Question
) -> tuple[str, Storage | Refusal]:
    """The name and storage of a target (a directory is probed now), or why it has no forecast."""
    if isinstance(target, Storage):
        return target.name, target
    if target == LIMIT:
        return LIMIT, replace(ZERO_LATENCY_STORAGE, name=LIMIT)
    place, rehearsed = Path(target), None
    try:
        if isinstance(like, Recording) and can_probe(place):
            if question.rehearse is None:
                rehearsed = kept_rehearsal(like, place)
            else:
                check_free_space(like, place)
                rehearsed = question.rehearse(like.whole, place)
        storage = question.storage(str(target), like)
        if rehearsed is not None:
            storage = replace(storage, rehearsal=Rehearsal.of(rehearsed))
    except Refusal as refusal:
        return str(target), refusal
    return str(target), storage


#: Least time between two forecasts, and the largest share of one CPU they may use.
INTERVAL_MIN_S, CPU_SHARE_MAX = 3.0, 0.02
#: The number of latest forecasts whose interval widths are kept.
WIDTHS_MAX = 120


class RunningForecast:
    """The forecast for ``target`` of a run in progress, or of its recorded time.

    ``known`` are hints about the entire run. InputError for a target that does not exist, or that
    needs a probe, which would disturb the recording.
    """

    def __init__(
        self, target: str, confidence: float = CONFIDENCE, known: RemainingWorkHints = NO_HINTS
    ) -> None:
        self._target, self._confidence, self._known = target, confidence, known
        self._storage = known_target(target)
        self._due_s, self._loaded = 0.0, False
        self.latest: Forecast | None = None
        #: Why there is no forecast yet.
        self.because: str | None = "too little was recorded"
        #: Half-widths of the intervals of the entire run over its forecasts; None if refused.
        self.half_widths: deque[float | None] = deque(maxlen=WIDTHS_MAX)

    def look(self, so_far: Callable[[], Recording | None], *, last: bool = False) -> None:
        """Renew the forecast if it is due or ``last``; an error becomes ``because``."""
        if not last and time.monotonic() < self._due_s:
            return
        cpu_begin_s = time.thread_time()
        recording = so_far()
        if recording is not None:
            try:
                storage = self._storage or resolve(self._target, recording)
                known = self._known if recording.meta.ended_early else NO_HINTS
                self.latest = forecast(recording, storage, confidence=self._confidence, known=known)
                self.because = self.latest.refused
                if self.latest.to_come is not None and not self.latest.to_come.open_ended:
                    self.half_widths.append(self.latest.half_width)
            except SpillcastError as error:
                self.latest, self.because = None, error.message.removeprefix("so far: ")
        # Most of the time of the first forecast is the import of modules.
        cost_s = time.thread_time() - cpu_begin_s if self._loaded else 0.0
        self._loaded = recording is not None
        self._due_s = time.monotonic() + max(INTERVAL_MIN_S, cost_s / CPU_SHARE_MAX)


def known_target(target: str, option: str = "--to") -> Storage | None:
    """The storage of a target; None if it depends on the recording.

    InputError for a target that does not exist, or that needs a probe.
    """
    if target.startswith("cache:"):
        from spillcast.storage.cached import parse_cache

        parse_cache(target, option)
        return None
    if parse_assumed(target, option) is not None:
        return None
    if target == "tmpfs" or can_probe(Path(target)):
        raise TargetUnsuited(
            f"{option} {target}: this verb does not probe: that may disturb what it observes",
            f"probe before: {probe_command(target)}; then {option} storage.json",
        )
    return resolve_storage(target, f"{option} {target}", FORMS)
