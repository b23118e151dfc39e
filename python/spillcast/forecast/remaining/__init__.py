"""The rest of a query that was recorded in part: hints of the user, and the sources of estimates.

Most queries are recorded entirely, so the sources are imported only for those that were not.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import EvidenceUnknown, InputError, OptionInvalid, Refusal
from spillcast.evidence.counts import Counts
from spillcast.forecast.result import Remaining
from spillcast.gate import reading
from spillcast.recording import Recording
from spillcast.recording.completeness import went_on
from spillcast.recording.meta import ESTIMATE_FILE, FORMER_FILE
from spillcast.units import parse_bytes

if TYPE_CHECKING:
    from spillcast.forecast.remaining.estimate import Estimate
    from spillcast.forecast.remaining.model import RemainingWork
    from spillcast.forecast.remaining.progress import Progress
    from spillcast.forecast.threads.overlap import RecordedThreads

#: As FORMAT JSON gives it.
Plan = dict[str, object]


@dataclass(frozen=True)
class UserEstimate:
    """Figures of the entire query that the user gives; None for others."""

    elapsed_s: float | None = None
    progress: float | None = None
    written_bytes: float | None = None


@dataclass(frozen=True)
class Extrapolation:
    """The entire query by all sources; ``work`` is None without an estimate of it."""

    work: "RemainingWork | None" = None
    #: Hints that are not used, and why.
    unused: Sequence[str] = ()
    #: Lower bound of what remains, if there is no ``work``.
    lower: Remaining | None = None


@dataclass(frozen=True)
class RemainingWorkHints:
    """What is known about a query that was recorded in part, besides its recording.

    ``history`` are files: a previous run, or a plan that was not run. ``without`` names kinds of
    sources, for experiments that measure what each brings.
    """

    user: UserEstimate = UserEstimate()
    history: Sequence[Path] = ()
    without: Collection[str] = ()

    @property
    def options(self) -> str:
        """The options that gave the hints; empty for none."""
        named = {
            "--history": self.history,
            "--progress": self.user.progress,
            "--written": self.user.written_bytes,
        }
        return " and ".join(name for name, value in named.items() if value)

    @property
    def of_remaining(self) -> str:
        """The options that do not apply to an entire recording; other runs of the query do."""
        only_runs = self.user == UserEstimate() and len(self._runs) == len(self.history)
        return "" if only_runs else self.options

    def runs_of(self, recording: Recording) -> tuple[Sequence[Recording | Counts], Sequence[str]]:
        """The given runs that are of a recording's query, and why others are not."""
        from spillcast.forecast.remaining.sources import reason_against

        reasons = [(run, reason_against(run, recording)) for run in self._runs]
        unused = [f"{run.path.name}: {reason}" for run, reason in reasons if reason is not None]
        return [run for run, reason in reasons if reason is None], unused

    def extrapolate(
        self, recording: Recording, threads: "RecordedThreads", elapsed_s: float | None = None
    ) -> Extrapolation:
        """The entire query; ``elapsed_s`` is its elapsed time if known.

        InputError for a figure of the user that contradicts the recording.
        """
        from spillcast.forecast.remaining.model import extrapolate, lower_bound
        from spillcast.forecast.remaining.progress import progress_of

        progress = progress_of(recording, threads)
        if progress is None:
            reason = "needs the single waits of the recording, and they were not kept"
            return Extrapolation(unused=[f"{self.options}: {reason}"] if self.options else [])
        estimates, unused = list["Estimate"](), list[str]()
        for kind, name, result in self._sources(recording, progress, elapsed_s):
            if kind in self.without:
                continue
            if isinstance(result, str):
                unused.append(f"{name}: {result}")
            else:
                estimates += result
        work = extrapolate(progress, estimates, unused)
        if isinstance(work, str):
            unused += [work] if work else []
            return Extrapolation(None, unused, lower_bound(progress))
        return Extrapolation(work, work.unused)

    def instead_of(self, recording: Recording) -> Recording | Counts | None:
        """A previous run to forecast, if the recorded part has no temp I/O.

        None if it has some, or without a previous run of the same query text, which alone
        identifies the query then.
        """
        if recording.meta.temp.operations or not went_on(recording.meta):
            return None
        from spillcast.forecast.remaining.sources import reason_against, same_text

        same = [run for run in self._runs if same_text(run, recording)]
        if not self._runs and isinstance(calls := _previous_calls(recording), Counts):
            same = [calls]
        return next((run for run in same if reason_against(run, recording) is None), None)

    @cached_property
    def _files(self) -> list[tuple[Path, Plan | Recording | Counts]]:
        """The files of ``history`` with their contents."""
        return [(path, _read(path)) for path in self.history]

    @property
    def _runs(self) -> list[Recording | Counts]:
        contents = (content for _, content in self._files)
        return [content for content in contents if isinstance(content, Recording | Counts)]

    def _sources(
        self, recording: Recording, progress: "Progress", elapsed_s: float | None
    ) -> "Iterator[tuple[str, str, Sequence[Estimate] | str]]":
        """Sources by kind and file, with their estimates, or the reason why they are not used."""
        from spillcast.forecast.remaining import planned, sources

        user = replace(self.user, elapsed_s=elapsed_s)
        yield "user", "", sources.estimate_from_user(user, progress)
        yield "spill", "", sources.estimate_from_files(progress)
        yield "input", "", sources.estimate_from_scan(recording, progress)
        path, document = recording.path / ESTIMATE_FILE, recording.documents.get(ESTIMATE_FILE)
        files = [*self._files, *([(path, _read(path))] if path.is_file() else [])]
        # During a recording nothing is on disk yet.
        files += [(path, document)] if isinstance(document, dict) else []
        for path, content in files:
            if isinstance(content, Recording | Counts):
                run = sources.estimate_from_history(content, recording, progress)
                yield "history", path.name, run
                continue
            with reading(path, "make it with: EXPLAIN (SETTINGS, FORMAT JSON) SELECT ..."):
                plan = planned.estimate_from_plan(
                    content,
                    recording.meta.engine.settings,
                    progress,
                    in_recording=path.parent == recording.path,
                )
            yield "plan", path.name, plan
        calls = None if self._runs else _previous_calls(recording)
        if isinstance(calls, Counts):
            calls_estimates = sources.estimate_from_history(calls, recording, progress)
            yield "history", FORMER_FILE, calls_estimates
        elif calls is not None:
            yield "history", FORMER_FILE, calls


NO_HINTS = RemainingWorkHints()


def hints_of(
    history: Sequence[Path], progress: str | None = None, written: str | None = None
) -> RemainingWorkHints:
    """The hints given by options. InputError for invalid ones."""
    user = UserEstimate(
        progress=None if progress is None else parse_progress(progress),
        written_bytes=None if written is None else float(parse_bytes(written, "--written")),
    )
    return RemainingWorkHints(user, history)


def parse_progress(text: str) -> float:
    """A share of a query such as ``20%`` or ``0.2``. InputError for anything else."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise OptionInvalid(
            f"--progress {text} is not a share of a query",
            "give the share that was done when the recording ended, such as 20%",
        )
    return share


def _previous_calls(recording: Recording) -> Counts | str | None:
    """The mean of earlier calls of the statement, kept in the recording; or why it is not used."""
    from spillcast.evidence.postgres.statements import Row, chosen, counts_of_row, merged, read_rows

    path, kept = recording.path / FORMER_FILE, recording.documents.get(FORMER_FILE)
    try:
        if isinstance(kept, list):
            rows = merged([Row.of(row) for row in kept])
        elif path.is_file():
            rows = read_rows(path)
        else:
            return None
        # The kept row has no text, and the recording knows the processes.
        row = replace(
            chosen(path, rows, None),
            query=recording.meta.engine.query,
            looks=recording.samples.num_rows,
            workers_seen=len(recording.meta.server.workers) if recording.meta.server else 0,
        )
        return counts_of_row(path, row, timed=False)
    except (InputError, Refusal) as error:
        return error.message.removeprefix(f"{path}: ")


def _read(path: Path) -> Plan | Recording | Counts:
    """The content of a file: a plan without counts, or a previous run."""
    from spillcast.evidence.open import find_evidence
    from spillcast.evidence.postgres.document import read_documents
    from spillcast.evidence.postgres.plan import read_plan
    from spillcast.evidence.postgres.statements import read_statements

    kind = find_evidence([path]).only_kind()
    if kind == "recordings":
        return Recording.open(path)
    if kind == "plans":
        [document, *others] = read_documents(path)
        if others or "Actual Loops" in document["Plan"] or "Execution Time" in document:
            return read_plan(path, timed=False)
        return document
    if kind == "statements":
        return read_statements(path, timed=False)
    raise EvidenceUnknown(
        f"--history {path}: neither a recording, a plan nor a row of pg_stat_statements",
        "give an earlier run of the same query",
    )
