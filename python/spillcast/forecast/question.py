"""What is asked of evidence besides its targets, and which options fit which kind of evidence."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import OptionConflict
from spillcast.evidence.choice import Selection
from spillcast.evidence.find import WORDS, Evidence
from spillcast.evidence.recognise import KINDS, Kind, is_word, recognise
from spillcast.forecast.remaining import NO_HINTS, RemainingWorkHints
from spillcast.recording import Recording
from spillcast.storage.budget import Budget, parse_budget
from spillcast.storage.rehearse import Rehearsal

if TYPE_CHECKING:
    from spillcast.evidence.oracle.ash.reader import Chosen
    from spillcast.storage.probe import Progress

CONFIDENCE = 0.9
#: What watches a probe, given the name of what is probed.
Watch = Callable[[str], "AbstractContextManager[Progress]"]
#: What runs the query of a recording for a while on a directory.
Rehearse = Callable[[Recording, Path], Rehearsal]
#: What watches files being read, given them; it is told the bytes read so far.
Reading = Callable[[Sequence[str | Path]], AbstractContextManager[Callable[[int], None]]]


def _unwatched(_name: str) -> "AbstractContextManager[Progress]":
    return nullcontext(lambda _done, _total, _bytes: None)


def _unseen(_files: Sequence[str | Path]) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _bytes: None)


@dataclass(frozen=True, kw_only=True)
class Question:
    """The options of a forecast.

    ``elapsed_s`` is the wall time of the whole query, if the evidence covers only a part or has
    none. ``temp_events`` (a pattern), ``sql_id``, ``block`` (size of a block) and ``method``
    (``counts`` or ``seed``) are for Oracle's evidence, ``lenient`` for damaged traces; ``exec_id``,
    ``since`` and ``until`` choose samples of ASH; ``queryid`` picks a row of pg_stat_statements or
    system.query_log, ``item`` one of several runs in a file,
    ``origin`` is the storage of counts without times, and of an event log of Spark, of which
    ``execution`` is the SQL execution or ``job`` the job meant, and ``page_cache_bytes`` the memory
    of each node that temp files may occupy. ``executors`` of ``cores`` and ``memory_bytes`` each
    are supposed instead of those of the log. If ``temp_dirs`` are given, the temp files of
    a recording are those under them. The target has ``cpus`` CPUs and a quota of ``cpu_quota``
    CPUs, by default those of the recording. A directory is probed within ``budget``, a time, bytes
    or both (``60s,4G``).

    Before that ``rehearse`` runs the query there. ``known`` tells the whole of a query that was
    recorded in part. ``exact`` takes all waits of a large recording, not a sample. ``without``
    names estimators that experiments leave out (``projection.ESTIMATORS``, ``rest`` of Oracle).
    """

    elapsed_s: float | None = None
    temp_events: str | None = None
    sql_id: str | None = None
    exec_id: int | None = None
    item: int | None = None
    since: str | None = None
    until: str | None = None
    block: str | None = None
    method: str = "counts"
    queryid: str | None = None
    origin: str | None = None
    execution: int | None = None
    job: int | None = None
    page_cache_bytes: int | None = None
    executors: int | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    temp_dirs: Sequence[str | Path] = ()
    lenient: bool = False
    exact: bool = False
    cpus: int | None = None
    cpu_quota: float | None = None
    confidence: float = CONFIDENCE
    budget: str = "60s"
    without: Collection[str] = ()
    known: RemainingWorkHints = NO_HINTS
    rehearse: Rehearse | None = None
    watch: Watch = _unwatched
    reading: Reading = _unseen

    @cached_property
    def probe_budget(self) -> Budget:
        """What a probe may take. InputError where ``budget`` says nothing of the kind."""
        return parse_budget(self.budget)

    @property
    def selection(self) -> Selection:
        """Which run of the evidence is meant."""
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
    def chosen(self) -> "Chosen":
        """Which samples of ASH are meant."""
        from spillcast.evidence.oracle.ash.reader import Chosen

        return Chosen(sql_id=self.sql_id, exec_id=self.exec_id, since=self.since, until=self.until)

    def check(self, evidence: Evidence, *, of_plan: bool = False) -> None:
        """OptionConflict for an option that none of this evidence uses.

        ``of_plan``: the recording has only the counts of a plan.
        """
        if self.execution is not None and self.job is not None:
            raise OptionConflict("--sql and --job both say which part of the application is meant")
        kinds = ["spark"] if evidence.spark else evidence.kinds
        if of_plan:
            kinds = ["plans of recordings"]
        figures = _kinds_of_figures(evidence)
        usable = set(_GENERAL).union(*(_USED_BY.get(kind, _ORACLE) for kind in kinds or ["counts"]))
        usable.update(*(kind.selects for kind in figures))
        for field in fields(self):
            if field.name in usable or getattr(self, field.name) in (field.default, []):
                continue
            option = f"--{_OPTIONS.get(field.name, field.name.replace('_', '-'))}"
            words = [WORDS.get(kind, kind) for kind in kinds if kind != "figures" or not figures]
            words += dict.fromkeys(kind.words for kind in figures)
            raise OptionConflict(
                f"{self.known.options if field.name == 'known' else option} does not apply to "
                f"{' and '.join(words) or 'these counts'}",
                f"it applies to {', '.join(_applies_to(field.name))}",
            )


#: Fields whose options have other names, and fields for all evidence.
_OPTIONS = {
    "elapsed_s": "elapsed", "origin": "from", "execution": "sql", "memory_bytes": "memory",
    "page_cache_bytes": "page-cache", "temp_dirs": "temp",
}  # fmt: skip
_GENERAL = {"confidence", "budget", "without", "watch", "reading"}
#: Fields by the evidence that uses them; kinds of figures select by further ones.
_ORACLE = {"elapsed_s", "temp_events", "method", "sql_id", "block", "lenient"}
_USED_BY: Mapping[str, Set[str]] = {
    "recordings": {"elapsed_s", "temp_dirs", "cpus", "cpu_quota", "exact", "rehearse", "known"},
    "plans": {"elapsed_s", "origin", "item"},
    "plans of recordings": {"elapsed_s", "origin", "rehearse"},
    "statements": {"elapsed_s", "origin", "queryid"},
    "figures": {"elapsed_s", "origin"},
    "counts": {"origin"},
    "spark": {
        "origin", "execution", "job", "page_cache_bytes", "executors", "cores", "memory_bytes",
    },
    "traces": _ORACLE,
    "ash": {*_ORACLE, "since", "until", "exec_id"},
}  # fmt: skip


def _kinds_of_figures(evidence: Evidence) -> list[Kind]:
    files = (Path(path) for path in evidence.figures if not is_word(str(path)))
    return [recognised.kind for path in files if (recognised := recognise(path)) is not None]


def _applies_to(field: str) -> list[str]:
    """The evidence that uses a field, in words."""
    words = [WORDS[kind] for kind in WORDS if field in _USED_BY.get(kind, ())]
    return [*words, *dict.fromkeys(kind.words for kind in KINDS if field in kind.selects)]
