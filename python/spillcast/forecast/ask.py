"""Questions in the words of the command line: files and names of storages -> forecasts."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from spillcast.errors import EvidenceMixed, Refusal
from spillcast.evidence.find import Evidence, find_evidence
from spillcast.forecast.question import CONFIDENCE, Question
from spillcast.forecast.remaining import NO_HINTS, RemainingWorkHints
from spillcast.forecast.result import Forecast, Warned
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.estimate import forecast_of, refused
from spillcast.forecast.sum.page_cache import either_way, with_and_without
from spillcast.forecast.sum.sampling import sample_of, too_unsure
from spillcast.forecast.sum.shared import ends_of, forecast_between
from spillcast.forecast.threads.cpus import Cpus
from spillcast.forecast.work_memory.advice import work_memory
from spillcast.recording import Recording
from spillcast.recording.derived import read_back, with_temp
from spillcast.recording.sample import parts_of
from spillcast.storage import Storage
from spillcast.storage.rehearse import check_room, kept_rehearsal
from spillcast.units import format_duration

#: A forecast, and the storage that it is for where it was not refused nor taken from traces.
Answer = tuple[Forecast, Storage | None]
#: A storage, or a word for one: a directory (probed now), a file, ``catalogue:NAME``,
#: ``latency:150us`` and so on.
Target = Storage | str | Path


def forecast(
    recording: Recording,
    target: Storage,
    *,
    elapsed_s: float | None = None,
    confidence: float = CONFIDENCE,
    cpus: int | None = None,
    cpu_quota: float | None = None,
    without: Collection[str] = (),
    known: RemainingWorkHints = NO_HINTS,
    exact: bool = False,
) -> Forecast:
    """Forecast the elapsed time of ``recording`` with its temp files on ``target``.

    ``elapsed_s`` is the wall time of the whole query where the recording covers a part of it, and
    ``known`` what else tells of the rest. The target has ``cpus`` CPUs, and a quota of
    ``cpu_quota`` CPUs, where given, else those of the recording. ``without`` names what is not
    asked of the time outside temp I/O, for experiments that tell what each brings. A large
    recording is forecast from a sample of its waits unless ``exact``. InputError when there was no
    temp I/O, Refusal when none could be recorded.
    """
    question = Question(
        elapsed_s=elapsed_s,
        confidence=confidence,
        cpus=cpus,
        cpu_quota=cpu_quota,
        without=without,
        known=known,
        exact=exact,
    )
    [(forecast, _)] = _from_recording(recording, [target], question, elapsed_s)
    return forecast


def ask(
    baseline: Recording | Sequence[str | Path],
    targets: Sequence[Target],
    question: Question | None = None,
) -> list[Answer]:
    """A forecast for each target, from a recording, Oracle's evidence, or PostgreSQL's counts.

    InputError for evidence or targets that cannot be used; where the evidence carries no number a
    forecast is refused and says why.
    """
    question = question or Question()
    recorded: Recording | None
    if isinstance(baseline, Recording):
        recorded, evidence = baseline, Evidence(recordings=[baseline.path])
    else:
        evidence = find_evidence(baseline)
        recorded = Recording.open(evidence.recordings[0]) if len(evidence.recordings) == 1 else None
    afar = recorded is not None and recorded.plan_alone is not None
    counts = bool(evidence.plans or evidence.statements or evidence.figures) or afar
    question.check(evidence, events=not (evidence.recordings or counts), counts=counts)
    if evidence.recordings or counts:
        recording = _recording(evidence, recorded, question)
        # Counts are those of the whole query, however long it took.
        elapsed_s = None if counts else question.elapsed_s
        return _from_recording(recording, targets, question, elapsed_s)
    from spillcast.forecast.oracle.evidence import read_evidence
    from spillcast.forecast.oracle.forecast import forecast_events
    from spillcast.forecast.oracle.parts import target_of
    from spillcast.storage.target import is_place

    places_named = any(
        not isinstance(target_given, Storage) and is_place(Path(target_given))
        for target_given in targets
    )
    events = read_evidence(evidence, question, name_statements=places_named)
    places = [target_of(target, events, question) for target in targets]
    return [(forecast_events(place, events, question), None) for place in places]


def _recording(evidence: Evidence, recorded: Recording | None, question: Question) -> Recording:
    """The one recording, plan or export that is given; ``recorded`` is what was opened of it."""
    kind = evidence.only_kind()
    # Several figures may tell of one run, each a part.
    if len(paths := getattr(evidence, kind)) > 1 and kind != "figures":
        names = f"{paths[0]}, {paths[1]}{', ...' if len(paths) > 2 else ''}"
        raise EvidenceMixed(
            f"{len(paths)} files are given: {names}", "forecast one query at a time"
        )
    if recorded is not None and recorded.plan_alone is None:
        return with_temp(recorded, question.temp_dirs)
    from spillcast.evidence.figures.choice import Choice
    from spillcast.evidence.figures.reading import read_figures
    from spillcast.evidence.postgres import read_plan, read_statements, with_counts
    from spillcast.forecast.sum.assumed import timed_on
    from spillcast.storage.target import resolve

    elapsed_s, origin = question.elapsed_s, question.origin
    timed = origin is None
    if recorded is not None:
        recording = with_counts(recorded, elapsed_s=elapsed_s, timed=timed)
    elif kind == "plans":
        recording = read_plan(paths[0], elapsed_s=elapsed_s, timed=timed, item=question.item)
    elif kind == "figures":
        recording = read_figures(
            paths,
            Choice(question.sql_id, question.exec_id, question.block, question.item),
            elapsed_s=elapsed_s,
            timed=timed,
        )
    else:
        recording = read_statements(
            paths[0], queryid=question.queryid, elapsed_s=elapsed_s, timed=timed
        )
    if origin is None:
        return recording
    with question.watch(origin) as show:
        storage = resolve(origin, recording, budget=question.probe_budget, on_progress=show)
    return timed_on(recording, storage)


def forecasts_of(
    recording: Recording, targets: Sequence[str], question: Question
) -> list[Forecast]:
    """Forecasts of one recording of several: what refuses it is the reason of each of them."""
    try:
        return [forecast for forecast, _ in ask([recording.path], targets, question)]
    except Refusal as error:
        elapsed_s = recording.elapsed_s
        return [
            Forecast.refusal(target, elapsed_s, question.confidence, error.message, error.code)
            for target in targets
        ]


def _from_recording(
    recording: Recording, targets: Sequence[Target], question: Question, elapsed_s: float | None
) -> list[Answer]:
    recording.need_io()
    former = question.known.instead_of(recording)
    if former is not None and elapsed_s is None:
        return _from_former(former, recording, targets, question)
    # What the recording says is worked out once for all targets, and before any is probed.
    cpus = Cpus.of(recording).but(question.cpus, question.cpu_quota)
    of = partial(
        Baseline.of, elapsed_s=elapsed_s, without=question.without, cpus=cpus, known=question.known
    )
    exact = question.exact or question.rehearse is not None
    sample = recording if exact else sample_of(recording)
    baseline = replace(of(sample), parts=[of(part) for part in parts_of(sample)])
    # What is to come of a part is reads of what it wrote, where it has none itself.
    like = sample if baseline.to_come is None else read_back(recording)
    named = [(str(target), _resolved(target, like, question)) for target in targets]
    answers = _answers(baseline, named, question.confidence)
    if any(too_unsure(forecast) for forecast, _ in answers):
        return _answers(of(recording), named, question.confidence)
    return answers


def _answers(
    baseline: Baseline, targets: Sequence[tuple[str, Storage | Refusal]], confidence: float
) -> list[Answer]:
    """A forecast for each target, by its name; or why there is none."""
    ends, memory = ends_of(baseline), work_memory(baseline, confidence)
    answers: list[Answer] = []
    for name, storage in targets:
        if isinstance(storage, Refusal):
            forecast, target_storage = refused(baseline, name, storage), None
        else:
            on_it = partial(forecast_of, target=storage, confidence=confidence)
            forecast = forecast_between(baseline, ends, on_it)
            if either_way(baseline, forecast):
                without = forecast_between(baseline, ends, partial(on_it, cached=False))
                forecast = with_and_without(forecast, without)
            target_storage = storage
        forecast = replace(
            forecast, work_memory=memory, statement=baseline.recording.meta.of_statement
        )
        answers.append((forecast, target_storage))
    return answers


def _from_former(
    former: Recording, part: Recording, targets: Sequence[Target], question: Question
) -> list[Answer]:
    """Of a query that did no temp I/O while a part of it was recorded: for a previous run of it."""
    message = (
        f"there was no temp I/O in the {format_duration(part.elapsed_s)} that were recorded: "
        f"the forecast is for the previous run, {former.path.name}"
    )
    answers = _from_recording(former, targets, replace(question, known=NO_HINTS), None)
    warned = Warned("former-run", message)
    return [
        (replace(forecast, warnings=[*forecast.warnings, warned]), storage)
        for forecast, storage in answers
    ]


def _resolved(target: Target, recording: Recording, question: Question) -> Storage | Refusal:
    """The storage, probed now where it is a directory; or why no forecast for it is possible."""
    if isinstance(target, Storage):
        return target
    from spillcast.storage.target import is_place, resolve

    place, rehearsal = Path(target), None
    try:
        if question.rehearse is not None and is_place(place):
            check_room(recording, place)
            rehearsal = question.rehearse(recording.whole, place)
        elif is_place(place):
            rehearsal = kept_rehearsal(recording, place)
        with question.watch(str(target)) as show:
            storage = resolve(
                str(target), recording, budget=question.probe_budget, on_progress=show
            )
        return replace(storage, rehearsal=rehearsal)
    except Refusal as refusal:
        return refusal
