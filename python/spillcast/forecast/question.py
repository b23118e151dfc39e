"""The options of a forecast besides evidence and targets, and the evidence that uses each."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import EvidenceContradictory, OptionConflict, OptionInvalid
from spillcast.evidence.counts import Counts
from spillcast.evidence.open import KIND_WORDS, EvidenceFiles
from spillcast.evidence.selection import Filter, Selection, is_stated
from spillcast.forecast.remaining import NO_HINTS, RemainingWorkHints
from spillcast.gate import COUNT_MAX
from spillcast.public import check_types
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.free_space import parse_budget
from spillcast.storage.target import resolve
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast.evidence.recognise import EvidenceKind
    from spillcast.storage.probe import ProbeProgress

CONFIDENCE = 0.9
#: Least elapsed time of another run of a query, as a share of the recorded time. A shorter time
#: probably has the wrong unit.
SHORTER_MIN = 0.5
METHODS = ("counts", "seed")
#: Shows the progress of a probe; the argument is the name of the storage.
Watch = Callable[[str], "AbstractContextManager[ProbeProgress]"]
#: Runs the query of a recording on a directory for a limited time, and records it.
Rehearse = Callable[[Recording, Path], Recording]
#: Shows the progress of reading files, from the bytes read so far.
Reading = Callable[[Sequence[str | Path]], AbstractContextManager[Callable[[int], None]]]


def _unshown(_of: object) -> AbstractContextManager[Callable[..., None]]:
    return nullcontext(lambda *_: None)


@dataclass(frozen=True, kw_only=True)
class Question:
    """The options of a forecast."""

    #: Wall time of the entire query, if the evidence covers only a part or has none.
    elapsed_s: float | None = None
    #: Oracle: pattern of the wait events that the target changes, the SQL_ID, one execution of it
    #: in ASH or a report, a time span of ASH, the block size, and ``counts`` or ``seed``.
    temp_events: str | None = None
    sql_id: str | None = None
    exec_id: int | None = None
    since: str | None = None
    until: str | None = None
    block: str | None = None
    method: str = "counts"
    #: Number of the run in a file of several.
    item: int | None = None
    #: A row of pg_stat_statements or system.query_log.
    queryid: str | None = None
    #: Today's storage of temp files, for counts without times and event logs of Spark.
    origin: str | None = None
    #: Spark: a SQL execution, a job, and the memory of each node that temp files may occupy.
    execution: int | None = None
    job: int | None = None
    page_cache_bytes: int | None = None
    #: Spark: executors, their cores and memory in place of those of the event log.
    executors: int | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    #: Directories of temp files of a recording; by default the recognised ones.
    temp_dirs: str | Path | Sequence[str | Path] = ()
    #: Whether damaged traces are read.
    lenient: bool = False
    #: Whether to use all waits of a large recording instead of a sample.
    exact: bool = False
    #: CPUs and CPU quota of the target; by default those of the recording.
    cpus: int | None = None
    cpu_quota: float | None = None
    confidence: float = CONFIDENCE
    #: Time and bytes that a probe of a directory may take (``60s,4G``).
    budget: str = "60s"
    #: Estimators that experiments leave out (``projection.ESTIMATORS``, ``rest`` of Oracle).
    without: Collection[str] = ()
    #: Hints about the entire query, if it was recorded in part.
    known: RemainingWorkHints = NO_HINTS
    #: Runs the query on a directory before that is probed.
    rehearse: Rehearse | None = None
    watch: Watch = _unshown
    reading: Reading = _unshown

    def __post_init__(self) -> None:
        """OptionInvalid for impossible values, such as a negative time."""
        check_types(vars(self), Question.__annotations__)
        if not 0 < self.confidence < 1:
            raise OptionInvalid(f"confidence {self.confidence:g}: not a share", "such as 0.9")
        if self.elapsed_s is not None and not 0 <= self.elapsed_s < inf:
            raise OptionInvalid(f"--elapsed {self.elapsed_s:g}: not a time", "such as 773s")
        if self.method not in METHODS:
            raise OptionInvalid(f"--method {self.method}: not known", " or ".join(METHODS))
        for name in ("cpus", "executors", "cores", "memory_bytes"):
            if (number := getattr(self, name)) is not None and not 1 <= number <= COUNT_MAX:
                option, problem = _OPTIONS.get(name, name), "few" if number < 1 else "many"
                raise OptionInvalid(f"--{option} {number}: too {problem}", "give 1 or more")

    def storage(self, word: str, like: Recording | Counts, option: str = "--to") -> Storage:
        """The storage that a word names; a directory is probed with the I/O of ``like``.

        InputError for a word that names no storage, and for an invalid ``budget``.
        """
        with self.watch(word) as show:
            budget = parse_budget(self.budget)
            return resolve(word, like, option, budget=budget, on_progress=show)

    @property
    def selection(self) -> Selection:
        """The run to select from the evidence."""
        return Selection(
            elapsed_s=self.elapsed_s,
            timed=self.origin is None,
            item=self.item,
            queryid=self.queryid,
            sql_id=self.sql_id,
            exec_id=self.exec_id,
            block=self.block,
            temp_dirs=self.temp_dirs,
        )

    @property
    def chosen(self) -> Filter:
        """The samples to select from ASH."""
        return Filter(sql_id=self.sql_id, exec_id=self.exec_id, since=self.since, until=self.until)

    def check(self, evidence: EvidenceFiles, *, of_plan: bool = False) -> None:
        """OptionConflict for an option that this evidence (``of_plan``: a plan) does not use."""
        if self.execution is not None and self.job is not None:
            raise OptionConflict(
                "--sql and --job both select a part of the application", "give one"
            )
        kinds = ["spark"] if evidence.spark else evidence.kinds
        if of_plan:
            kinds = ["plans of recordings"]
        usable = set[str]().union(*(_USED_BY.get(kind, _ORACLE) for kind in kinds or ["counts"]))
        # Recognising the kind of a file reads and unwraps its beginning.
        figures = _kinds_of(evidence.figures) if any(self.given_except(usable)) else []
        usable.update(*(kind.selects for kind in figures))
        for field, option in self.given_except(usable):
            from spillcast.evidence.recognise import KINDS

            named = [kind for kind in kinds if kind != "figures" or not figures]
            words = [KIND_WORDS.get(kind, kind) for kind in named]
            words += dict.fromkeys(kind.words for kind in figures)
            of = [KIND_WORDS[kind] for kind in KIND_WORDS if field in _USED_BY.get(kind, ())]
            of += dict.fromkeys(kind.words for kind in KINDS if field in kind.selects)
            raise OptionConflict(
                f"{option} does not apply to {' and '.join(words) or 'these counts'}",
                f"it applies to {', '.join(of)}",
            )

    def check_elapsed(self, seen_s: float, least: float = SHORTER_MIN) -> None:
        """EvidenceContradictory for an ``elapsed_s`` below the share ``least`` of the ``seen_s``.

        ``seen_s`` is the time that the evidence covers.
        """
        if self.elapsed_s is not None and 0 < self.elapsed_s < least * seen_s:
            raise EvidenceContradictory(
                f"an elapsed time of {format_duration(self.elapsed_s)} is less than the "
                f"{format_duration(seen_s)} that were recorded",
                "--elapsed is the time of the whole query: write minutes as 12m or 12:53",
            )

    def given_except(self, usable: Set[str]) -> Iterator[tuple[str, str]]:
        """The fields with a value, and their options, except ``usable`` fields and general ones."""
        for field in fields(self):
            value, name = getattr(self, field.name), field.name
            if name not in usable | _GENERAL and value not in (field.default, []):
                option = f"--{_OPTIONS.get(name, name.replace('_', '-'))}"
                yield name, self.known.options if name == "known" else option


#: Fields whose options have other names, and fields for all evidence.
_OPTIONS = {
    "elapsed_s": "elapsed", "origin": "from", "execution": "sql", "memory_bytes": "memory",
    "page_cache_bytes": "page-cache", "temp_dirs": "temp",
}  # fmt: skip
_GENERAL = {"confidence", "budget", "without", "watch", "reading"}
#: Fields that select what is shown of evidence without a forecast.
OF_EVIDENCE = {"temp_dirs", "lenient", "sql_id", "exec_id", "since", "until"}
#: Fields by the evidence that uses them; kinds of figures may add others.
_ORACLE = {"elapsed_s", "temp_events", "method", "sql_id", "block", "lenient"}
_USED_BY: Mapping[str, Set[str]] = {
    "recordings": {"elapsed_s", "temp_dirs", "cpus", "cpu_quota", "exact", "rehearse", "known"},
    "plans": {"elapsed_s", "origin", "item"},
    "plans of recordings": {"elapsed_s", "origin", "rehearse"},
    "statements": {"elapsed_s", "origin", "queryid", "item"},
    "figures": {"elapsed_s", "origin"},
    "counts": {"origin"},
    "spark": {
        "origin", "execution", "job", "page_cache_bytes", "executors", "cores", "memory_bytes",
    },
    "traces": _ORACLE,
    "ash": {*_ORACLE, "since", "until", "exec_id"},
}  # fmt: skip


def _kinds_of(figures: Sequence[Path | str]) -> "list[EvidenceKind]":
    files = [Path(path) for path in figures if not is_stated(str(path))]
    if not files:
        return []
    from spillcast.evidence.recognise import recognise

    return [kind for path in files if (kind := recognise(path)) is not None]
