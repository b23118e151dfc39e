"""The whole of a query that was seen in part, by every source there is.

Most queries were recorded as a whole, so the sources are imported where one was not.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import InputError, Refusal
from spillcast.forecast.to_come.told import (
    NO_ESTIMATE,
    UserEstimate,
    estimates_by_user,
    parse_progress,
    parse_written,
)
from spillcast.gate import reading
from spillcast.recording import Recording
from spillcast.recording.meta import ESTIMATE_FILE, FORMER_FILE
from spillcast.recording.part import went_on

if TYPE_CHECKING:
    from spillcast.forecast.threads.overlap import Threads
    from spillcast.forecast.to_come.said import QuantityEstimate
    from spillcast.forecast.to_come.seen import Seen
    from spillcast.forecast.to_come.to_come import ToCome

#: As FORMAT JSON gives it.
Plan = dict[str, object]


@dataclass(frozen=True)
class Answer:
    """What a source says, or why it is not used."""

    kind: str
    #: The file that it is from, if any.
    name: str
    said: "Sequence[QuantityEstimate] | str"


@dataclass(frozen=True)
class Whole:
    """What all sources make of a query; ``to_come`` is None where nothing tells the whole."""

    to_come: "ToCome | None" = None
    #: What was given and is not used, and why.
    unused: Sequence[str] = ()
    #: Bytes that were written and will be read, at the least.
    unread_bytes: float = 0.0


@dataclass(frozen=True)
class Known:
    """What is known besides of a query that was recorded in part.

    ``history`` are files: a previous run, or a plan that was not run. ``without`` names sources,
    for experiments that measure what each brings.
    """

    told: UserEstimate = NO_ESTIMATE
    history: Sequence[Path] = ()
    without: Collection[str] = ()

    @property
    def given(self) -> str:
        """The options that say it; empty for none."""
        named = {
            "--history": self.history,
            "--progress": self.told.progress,
            "--written": self.told.written_bytes,
        }
        return " and ".join(name for name, value in named.items() if value)

    def to_come(
        self, recording: Recording, threads: "Threads", elapsed_s: float | None = None
    ) -> Whole:
        """``elapsed_s`` is the time of the whole query where that is known.

        InputError for what the user says that cannot be.
        """
        from spillcast.forecast.to_come.inputs import estimates_by_input
        from spillcast.forecast.to_come.seen import seen_of
        from spillcast.forecast.to_come.spill import estimates_by_spill
        from spillcast.forecast.to_come.whole import whole_of

        seen = seen_of(recording, threads)
        if seen is None:
            reason = "needs the single waits of the recording, and they were not kept"
            return Whole(unused=[f"{self.given}: {reason}"] if self.given else [])
        by_user = replace(self.told, elapsed_s=elapsed_s)
        answers = [
            Answer("told", "", estimates_by_user(by_user, seen)),
            Answer("spill", "", estimates_by_spill(seen)),
            Answer("input", "", estimates_by_input(recording, seen)),
            *(_of_file(path, source, recording, seen) for path, source in self._files(recording)),
            *_of_document(recording, seen),
            *self._of_calls(recording, seen),
        ]
        used = [answer for answer in answers if answer.kind not in self.without]
        unused = [
            f"{answer.name}: {answer.said}" for answer in used if isinstance(answer.said, str)
        ]
        estimates = [
            each for answer in used if not isinstance(answer.said, str) for each in answer.said
        ]
        whole = whole_of(seen, estimates, unused)
        if isinstance(whole, str):
            return Whole(None, [*unused, *([whole] if whole else [])], seen.unread.low)
        return Whole(whole, whole.unused, seen.unread.low)

    def in_place_of(self, recording: Recording) -> Recording | None:
        """A previous run, where the recording is of a part in which there was no temp I/O.

        None where there was some, or where no previous run was given whose text is known to be the
        same: nothing else ties the two together.
        """
        if recording.meta.temp.operations or not went_on(recording.meta):
            return None
        from spillcast.forecast.to_come.history import reason_against, same_text

        same = [run for run in self._runs if same_text(run, recording)]
        if not self._runs and isinstance(calls := former_calls_of(recording), Recording):
            same = [calls]
        return next((run for run in same if reason_against(run, recording) is None), None)

    @cached_property
    def _given(self) -> list[tuple[Path, Plan | Recording]]:
        """Each file of ``history``, and what it holds."""
        return [(path, _read(path)) for path in self.history]

    @property
    def _runs(self) -> list[Recording]:
        """The previous runs that were given."""
        return [recording for _, recording in self._given if isinstance(recording, Recording)]

    def _of_calls(self, recording: Recording, seen: "Seen") -> list[Answer]:
        """What its server counted of earlier calls, where no previous run is given."""
        from spillcast.forecast.to_come.history import estimates_by_history

        calls = None if self._runs else former_calls_of(recording)
        if calls is None:
            return []
        answer = calls if isinstance(calls, str) else estimates_by_history(calls, recording, seen)
        return [Answer("history", FORMER_FILE, answer)]

    def _files(self, recording: Recording) -> list[tuple[Path, Plan | Recording]]:
        """The same, and the plan beside the recording."""
        kept = recording.path / ESTIMATE_FILE
        return [*self._given, *([(kept, _read(kept))] if kept.is_file() else [])]


def _of_file(path: Path, source: Plan | Recording, recording: Recording, seen: "Seen") -> Answer:
    from spillcast.forecast.to_come.history import estimates_by_history
    from spillcast.forecast.to_come.plan import estimates_by_plan

    if isinstance(source, Recording):
        return Answer("history", path.name, estimates_by_history(source, recording, seen))
    with reading(path, "make it with: EXPLAIN (SETTINGS, FORMAT JSON) SELECT ..."):
        in_recording = path.parent == recording.path
        answer = estimates_by_plan(
            source, recording.meta.engine.settings, seen, in_recording=in_recording
        )
        return Answer("plan", path.name, answer)


def _of_document(recording: Recording, seen: "Seen") -> list[Answer]:
    """What its plan says of a query that is recorded still, where nothing is on disk."""
    from spillcast.forecast.to_come.plan import estimates_by_plan

    estimate = recording.documents.get(ESTIMATE_FILE)
    if not isinstance(estimate, dict):
        return []
    answer = estimates_by_plan(estimate, recording.meta.engine.settings, seen, in_recording=True)
    return [Answer("plan", ESTIMATE_FILE, answer)]


def former_calls_of(recording: Recording) -> Recording | str | None:
    """The mean of earlier calls of its statement, as kept beside it; or why it is not used."""
    from spillcast.evidence.postgres.statement_choice import chosen
    from spillcast.evidence.postgres.statement_rows import Row, merged, read_rows
    from spillcast.evidence.postgres.statements import recording_of_row

    path, kept = recording.path / FORMER_FILE, recording.documents.get(FORMER_FILE)
    try:
        if isinstance(kept, list):
            rows = merged([Row.of(row) for row in kept])
        elif path.is_file():
            rows = read_rows(path)
        else:
            return None
        # What is kept has no text, and the recording has seen its processes.
        row = replace(
            chosen(path, rows, None),
            query=recording.meta.engine.query,
            looks=recording.samples.num_rows,
            workers_seen=len(recording.meta.postgres.workers) if recording.meta.postgres else 0,
        )
        return recording_of_row(path, row, timed=False)
    except (InputError, Refusal) as error:
        return error.message.removeprefix(f"{path}: ")


NOTHING = Known()


def known_of(
    history: Sequence[Path], progress: str | None = None, written: str | None = None
) -> Known:
    """As options give it. InputError for what cannot be read."""
    estimate = UserEstimate(
        progress=None if progress is None else parse_progress(progress),
        written_bytes=None if written is None else parse_written(written),
    )
    return Known(estimate, history)


def _read(path: Path) -> Plan | Recording:
    """A plan that was not run, or a previous run."""
    estimate = _estimate(path)
    return _run(path) if estimate is None else estimate


def _estimate(path: Path) -> Plan | None:
    """A plan that was not run; None of a file that holds anything else."""
    from spillcast.evidence.find import find_evidence
    from spillcast.evidence.postgres.document import read_documents

    if find_evidence([path]).only_kind() != "plans":
        return None
    [document, *others] = read_documents(path)
    if others or "Actual Loops" in document["Plan"] or "Execution Time" in document:
        return None
    return document


def _run(path: Path) -> Recording:
    """A previous run: a recording, a plan with its counts, or a row of pg_stat_statements."""
    from spillcast.evidence.find import find_evidence
    from spillcast.evidence.postgres import read_plan, read_statements

    evidence = find_evidence([path])
    kind = evidence.only_kind()
    if kind == "recordings":
        return Recording.open(path)
    if kind == "plans":
        return read_plan(path, timed=False)
    if kind == "statements":
        return read_statements(path, timed=False)
    raise InputError(
        f"--history {path}: neither a recording, a plan nor a row of pg_stat_statements",
        "give an earlier run of the same query",
    )
