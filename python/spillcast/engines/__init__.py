"""Declarations of engines: their names, their features, and the queries of experiments on them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from spillcast.engines.queries import QueryProcess, RunResult
    from spillcast.evidence.counts import Counts
    from spillcast.recording.meta import ObservedEngine
    from spillcast.recording.record import Recorder

#: The maximum number of threads of an experiment: by default, PostgreSQL starts up to 8 workers.
THREADS_MAX = 8


@dataclass(frozen=True)
class LabQuery:
    """A query that spills on a table of ``rows`` rows, and its work memory."""

    name: str
    sql: str
    rows: int
    #: The value of the engine's setting: ``memory_limit`` of DuckDB, ``work_mem`` of PostgreSQL.
    memory: str
    #: Threads or processes that execute the query.
    threads: int = 1
    #: Further settings of the session.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The suite by whose name it is selected with other queries; empty if it has none.
    suite: str = ""
    #: Whether its tables are dropped from the page cache before each run.
    cold: bool = False
    #: Estimated CPU time and temp operations of a run, to estimate the time of a verification.
    cpu_s: float = 1.2
    operations: int = 2200
    #: Estimated time to load its tables, once for all queries on them.
    load_s: float = 0.0

    @property
    def kind(self) -> str:
        """The name, which is the same for cold and warm tables."""
        return self.name.removesuffix(" cold")


class LikelyName(str):
    """A pattern that other files may also match: the recorder decides by how a file is used."""

    __slots__ = ()


#: The verbs that observe a query of any process.
BY_PROCESS = "record --pid, record -- COMMAND"


@dataclass(frozen=True)
class Coverage:
    """How well an engine is supported, as text for the columns of docs/engines.md."""

    #: The verbs that observe a query while it runs; empty if it never runs on the same machine.
    live: str = BY_PROCESS
    #: The files that describe a run on another machine.
    evidence: str = ""
    #: How the threads or processes of a parallel query are observed.
    parallel: str = "each thread is recorded"
    #: The setting that avoids the spill, if no ``MemorySetting`` names it.
    fix: str = ""
    #: What shows that the support works, if ``verify`` does not.
    verified: str = ""
    #: The first version of spillcast that supports the engine.
    since: str = "0.1.0"


@dataclass(frozen=True)
class Engine:
    """The declaration of an engine. A feature that the engine lacks is None.

    The features notice, lab, record, move and collect are references ``module:name``, which
    ``registry.feature_of`` imports when they are used.
    """

    #: The name in options and in meta.json.
    name: str
    #: The name in messages and reports.
    label: str
    #: Further names in meta.json.
    aliases: tuple[str, ...] = ()
    #: Patterns of the names of temp files, by what the files contain. A pattern that ends with a
    #: slash matches a folder. The recorder reads them from temp_names.tsv, which
    #: docs/generate_engines.py writes.
    temp_names: Mapping[str, str] = field(default_factory=dict)
    #: A function of a process ID that returns a notice to the user before the recording, or None.
    notice: str | None = None
    #: Settings in meta.json that affect spills.
    settings: tuple[str, ...] = ()
    #: What determines the size of a temp I/O, as text.
    io_size: str | None = None
    #: A function of the minimum and maximum size (bytes) that returns the statements to set them.
    set_io_size: Callable[[int, int], tuple[str, ...]] | None = None
    #: The setting that a sweep of work memory changes.
    memory: "MemorySetting | None" = None
    #: A class ``Lab``: experiments on a private server or database.
    lab: str | None = None
    #: Whether ``calibrate`` and ``record --explain`` take a server of the user: ``--NAME DSN``.
    server: bool = False
    #: A function that records the query of a session, with the arguments of ``record_mysql``.
    record: str | None = None
    #: The command ``move``; the parameters of the function are options of the command line.
    move: str | None = None
    #: The command ``collect``, which prints a script for a DBA; its parameters are options, too.
    collect: str | None = None
    #: The rest of its row in docs/engines.md.
    coverage: Coverage = field(default_factory=Coverage)


@dataclass(frozen=True)
class MemorySetting:
    """The setting of the memory beyond which a query spills."""

    name: str
    #: The default sizes of a sweep, from far too little to enough for the lab's queries.
    default_range: str
    #: The unit with which the engine writes KiB.
    unit: str
    #: The minimum and maximum value; None if the engine itself refuses other values.
    bounds_bytes: tuple[int, int] | None = None
    #: Settings that make the engine report the peak size of its buffers.
    report_settings: Mapping[str, str] = field(default_factory=dict)

    def given(self, workload: LabQuery, size_bytes: int) -> LabQuery:
        """``workload`` with ``size_bytes`` of work memory."""
        memory = f"{size_bytes >> 10}{self.unit}"
        return replace(
            workload, memory=memory, settings={**workload.settings, **self.report_settings}
        )


class Lab(Protocol):
    """Experiments on an engine, with their own table ``t`` in a directory."""

    #: The engine's name and version in meta.json.
    engine: ClassVar[str]
    version: str
    #: The query of a demo.
    demo: ClassVar[LabQuery]
    #: Name and version in messages.
    label: str
    #: The share by which memory use may differ between equal runs.
    memory_spread: ClassVar[float] = 0.0

    def __init__(self, workdir: Path) -> None:
        """Keeps the data in ``workdir``. InputError if a package is missing."""

    @staticmethod
    def verified(threads: int) -> Sequence[LabQuery]:
        """The queries of a verification, each executed by ``threads`` threads or processes."""

    def build(self, rows: int) -> None:
        """Creates the table of ``rows`` rows, unless it exists. Takes seconds."""

    def hold(
        self, workload: LabQuery, temp: Path, environment: Mapping[str, str]
    ) -> "AbstractContextManager[QueryProcess]":
        """Prepares a query with its temp files in ``temp``; its processes end with the context.

        The processes that execute the query get the variables of ``environment``.
        """

    def settings_of(self, workload: LabQuery) -> dict[str, Any]:
        """The query's settings for meta.json."""

    def describe(self, workload: LabQuery) -> "ObservedEngine":
        """The engine and the query for meta.json."""
        from spillcast.recording.meta import ObservedEngine

        settings, sql = self.settings_of(workload), workload.sql.strip()
        return ObservedEngine(name=self.engine, version=self.version, sql=sql, settings=settings)

    @classmethod
    def calibrators(cls, workdir: Path, server: str | None) -> "Sequence[Calibrates]":  # noqa: ARG003
        """The versions of the engine to calibrate with; empty if it has no queries for that.

        All versions on this machine, or only that of the server with the DSN ``server``.
        """
        return ()


@runtime_checkable
class RunsSql(Protocol):
    """A lab that also runs queries of the user."""

    @classmethod
    def on(cls, workdir: Path, database: Path | None) -> Self:
        """Opens the user's database read-only; None for a query that names its files itself."""


@runtime_checkable
class Explains(Protocol):
    """A lab whose engine counts temp I/O in its plans."""

    def explaining(self, workload: LabQuery) -> LabQuery:
        """The query that returns the plan of ``workload``."""

    def plan_of(self, ran: "RunResult") -> "Counts":
        """The temp I/O in the plan that such a query returned."""


@runtime_checkable
class Calibrates(Lab, Protocol):
    """A lab with queries that calibrate a machine."""

    #: Whether the CPU time before a write depends on how long writes take.
    compresses_writes: ClassVar[bool]
    #: Small queries that spill, on one table; none of them is in ``verified``.
    calibrating: ClassVar[Sequence[LabQuery]]


@dataclass(frozen=True)
class SessionSelector:
    """Selects a session of a server; at least one field is set."""

    backend: int | None = None
    #: A regular expression that the text of its query must match, case-insensitive.
    query: str | None = None
    #: Whether its query must be spilling.
    spilling: bool = False


#: Shows a message to the user.
Notify = Callable[[str], None]
#: Receives the recorder and the counts of its status line a few times a second.
OnStatus = Callable[["Recorder", Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class StatementSelector:
    """Selects a query of a server by its session, its identifier or its text."""

    #: The session that runs the query now, or will run it next.
    backend: int | None = None
    queryid: str | None = None
    #: A regular expression for the text of the query, case-insensitive.
    query: str | None = None
    #: The text of the query, if session and identifier are unknown; constants are ignored.
    text: str | None = None
    #: The time between two snapshots, or the file of a saved one: only calls between them count.
    since: str | None = None
