"""Questions in the words of the command line: files and names of storages -> forecasts."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from spillcast.errors import InputError, Refusal
from spillcast.forecast.result import Forecast
from spillcast.forecast.sum.baseline import Here
from spillcast.forecast.sum.estimate import CONFIDENCE, forecast_of, refused
from spillcast.recording import Recording
from spillcast.recording.evidence import Evidence, find_evidence
from spillcast.storage import Storage
from spillcast.storage.budget import Budget, parse_budget
from spillcast.storage.probe import Progress

#: A forecast, and the storage that it is for where it was not refused nor taken from traces.
Answer = tuple[Forecast, Storage | None]
#: What watches a probe, given the name of what is probed.
Watch = Callable[[str], AbstractContextManager[Progress]]
#: What watches files being read, given them; it is told the bytes read so far.
Reading = Callable[[Sequence[str | Path]], AbstractContextManager[Callable[[int], None]]]


def ask(
    baseline: Recording | Sequence[str | Path],
    to: Sequence[Storage | str | Path],
    *,
    elapsed_s: float | None = None,
    boost: str | None = None,
    sql_id: str | None = None,
    method: str = "counts",
    queryid: str | None = None,
    origin: str | None = None,
    lenient: bool = False,
    confidence: float = CONFIDENCE,
    budget: str = "60s",
    watch: Watch | None = None,
    reading: Reading | None = None,
) -> list[Answer]:
    """A forecast for each of ``to``, from a recording, Oracle's evidence, or PostgreSQL's counts.

    A target is a storage or a word for one: a directory (probed now, within ``budget``), a file,
    ``catalogue:NAME``, ``latency:150us`` and so on. ``origin`` is what a plan without times was
    made on. InputError for evidence or targets that cannot be used; where the evidence carries no
    number a forecast is refused and says why.
    """
    evidence = Evidence() if isinstance(baseline, Recording) else find_evidence(baseline)
    parsed = parse_budget(budget)
    watch = watch or (lambda _name: nullcontext(lambda _done, _total, _bytes: None))
    reading = reading or (lambda _files: nullcontext(lambda _bytes: None))
    _only_for("rows of pg_stat_statements", bool(evidence.statements), queryid=queryid)
    counts = bool(evidence.plans or evidence.statements)
    _only_for("plans and rows of pg_stat_statements", counts, **{"from": origin})
    if isinstance(baseline, Recording) or evidence.recordings or counts:
        asked = None if method == "counts" else method
        _only_for("traces and ASH exports", False, boost=boost, sql_id=sql_id, method=asked)
        if isinstance(baseline, Recording):
            recording = baseline
        else:
            recording = _recording(evidence, elapsed_s, queryid, origin, parsed, watch)
        # Counts are those of the whole query, however long it took.
        scaled_s = None if counts else elapsed_s
        return _from_recording(recording, to, scaled_s, confidence, parsed, watch)
    found = _from_oracle(
        evidence, to, elapsed_s, boost, sql_id, method, lenient, confidence, reading
    )
    return [(one, None) for one in found]


def _only_for(kind: str, given: bool, **options: str | None) -> None:
    for name, value in options.items():
        if value is not None and not given:
            raise InputError(f"--{name.replace('_', '-')} is for {kind}")


def _recording(
    evidence: Evidence,
    elapsed_s: float | None,
    queryid: str | None,
    origin: str | None,
    budget: Budget,
    watch: Watch,
) -> Recording:
    """The one recording, plan or export that is given."""
    from spillcast.forecast.sum.assumed import timed_on
    from spillcast.recording.explain import read_plan, read_statements
    from spillcast.storage.target import resolve

    kind = evidence.only_kind()
    if len(paths := getattr(evidence, kind)) > 1:
        raise InputError(f"{len(paths)} files are given", "forecast one query at a time")
    if kind == "recordings":
        return Recording.open(paths[0])
    if kind == "plans":
        recording = read_plan(paths[0], elapsed_s=elapsed_s, timed=origin is None)
    else:
        recording = read_statements(
            paths[0], queryid=queryid, elapsed_s=elapsed_s, timed=origin is None
        )
    if origin is None:
        return recording
    with watch(origin) as show:
        return timed_on(recording, resolve(origin, recording, budget=budget, on_progress=show))


def _from_recording(
    recording: Recording,
    to: Sequence[Storage | str | Path],
    elapsed_s: float | None,
    confidence: float,
    budget: Budget,
    watch: Watch,
) -> list[Answer]:
    from spillcast.storage.target import resolve

    recording.need_io()
    here: Here | None = None
    answers: list[Answer] = []
    for target in to:
        if isinstance(target, Storage):
            storage = target
        else:
            try:
                with watch(str(target)) as show:
                    storage = resolve(str(target), recording, budget=budget, on_progress=show)
            except Refusal as refusal:
                here = here or Here.of(recording, elapsed_s)
                answers.append((refused(here, str(target), str(refusal)), None))
                continue
        # What the recording says is worked out once for all targets.
        here = here or Here.of(recording, elapsed_s)
        answers.append((forecast_of(here, storage, confidence), storage))
    return answers


def _from_oracle(
    evidence: Evidence,
    to: Sequence[Storage | str | Path],
    elapsed_s: float | None,
    boost: str | None,
    sql_id: str | None,
    method: str,
    lenient: bool,
    confidence: float,
    reading: Reading,
) -> list[Forecast]:
    from spillcast.forecast.oracle.events import read_shares, read_traces
    from spillcast.forecast.oracle.forecast import forecast_events
    from spillcast.forecast.oracle.parts import Target, resolve_target
    from spillcast.recording.event_names import TEMP_EVENTS
    from spillcast.recording.statistics import read_statistics, temp_on_flash

    boost = boost or TEMP_EVENTS
    traces = ash = None
    if evidence.traces:
        # Beside ASH, traces tell latencies, and may be of another run.
        of_traces = None if evidence.ash else sql_id
        with reading(evidence.traces) as read:
            traces = read_traces(
                evidence.traces, sql_id=of_traces, lenient=lenient, on_progress=read
            )
    if evidence.ash:
        with reading(evidence.ash) as read:
            ash = read_shares(evidence.ash, boost, sql_id, read)
    statistics = evidence.statistics
    flash = temp_on_flash(read_statistics(statistics)) if statistics else None
    targets = [
        Target(target.name, storage=target)
        if isinstance(target, Storage)
        else resolve_target(str(target), lenient=lenient)
        for target in to
    ]
    return [
        forecast_events(
            target,
            boost,
            traces=traces,
            ash=ash,
            flash=flash,
            elapsed_s=elapsed_s,
            method=method,
            confidence=confidence,
        )
        for target in targets
    ]
