"""What is asked of evidence besides its targets, and which options fit which kind of evidence."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import OptionConflict
from spillcast.evidence.choice import Selection
from spillcast.evidence.find import Evidence
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

    def check(self, evidence: Evidence, *, events: bool, counts: bool = False) -> None:
        """InputError for an option of other evidence than this.

        Oracle's where ``events``; where ``counts`` PostgreSQL's, which a recording may hold alone.
        """
        identified = bool(evidence.statements or evidence.figures)
        _only_for("rows of statements and queries", identified, queryid=self.queryid)
        observed = bool(evidence.recordings) and not counts and not evidence.spark
        options = {"temp": self.temp_dirs or None, "cpus": self.cpus, "cpu_quota": self.cpu_quota}
        _only_for("recordings", observed, **options)
        _only_for("recordings", bool(evidence.recordings), rehearse=self.rehearse)
        estimate = self.known.user
        of_parts = {
            "history": self.known.history or None, "progress": estimate.progress,
            "written": estimate.written_bytes,
        }  # fmt: skip
        _only_for("recordings", observed, **of_parts)
        spark = {
            "sql": self.execution, "job": self.job, "page_cache": self.page_cache_bytes,
            "executors": self.executors, "cores": self.cores, "memory": self.memory_bytes,
        }  # fmt: skip
        _only_for("event logs of Spark", bool(evidence.spark), **spark)
        if self.execution is not None and self.job is not None:
            raise OptionConflict("--sql and --job both say which part of the application is meant")
        untimed = counts or bool(evidence.spark)
        _only_for("counts, as of plans and figures", untimed, **{"from": self.origin})
        method = None if self.method == "counts" else self.method
        _only_for("traces and ASH exports", events, temp_events=self.temp_events, method=method)
        reports = events or bool(evidence.figures)
        oracle = {"sql_id": self.sql_id, "block": self.block}
        _only_for("Oracle's traces, ASH exports and reports", reports, **oracle)
        ash = events and bool(evidence.ash)
        _only_for("ASH exports", ash, since=self.since, until=self.until)
        _only_for("ASH exports and reports", ash or bool(evidence.figures), exec_id=self.exec_id)
        several = bool(evidence.figures or evidence.plans)
        _only_for("plans and reports", several, item=self.item)


def _only_for(kind: str, given: bool, **options: object) -> None:
    for name, value in options.items():
        if value is not None and not given:
            raise OptionConflict(f"--{name.replace('_', '-')} is for {kind}")
