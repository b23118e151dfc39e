"""What an engine is to spillcast: how it is called, what it offers, the queries of experiments."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from spillcast.engines.held import HeldQuery, RunResult
    from spillcast.evidence.counts import Counts
    from spillcast.recording.meta import ObservedEngine
    from spillcast.recording.record import Recorder

#: PostgreSQL has eight workers at most, and memory is divided among all.
THREADS_MAX = 8


@dataclass(frozen=True)
class Workload:
    """A query and the memory under which it spills well on a table of ``rows`` rows."""

    name: str
    sql: str
    rows: int
    #: As the engine writes it: ``memory_limit`` of DuckDB, ``work_mem`` of PostgreSQL.
    memory: str
    #: Threads or processes that work on it.
    threads: int = 1
    #: Further settings of the session.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The word for many queries at once; empty where there is none.
    suite: str = ""
    #: Whether its tables are dropped from the page cache before each run.
    cold: bool = False
    #: CPU time and temp operations of a run, roughly, for the time that a verification takes.
    cpu_s: float = 1.2
    operations: int = 2200
    #: What its tables take to make, once for all queries on them, roughly.
    load_s: float = 0.0

    @property
    def kind(self) -> str:
        """Its name, whether its tables are cold or warm."""
        return self.name.removesuffix(" cold")


class LikelyName(str):
    """A pattern that names of other files match, too: the use of such a file decides."""

    __slots__ = ()


#: How a query of any process is observed.
BY_PROCESS = "record --pid, record -- COMMAND"


@dataclass(frozen=True)
class Coverage:
    """What is known of an engine, in words: the rest of a row of docs/engines.md."""

    #: The verbs that observe a query while it runs; empty if it never runs on the same machine.
    live: str = BY_PROCESS
    #: What is read of a run on another machine.
    evidence: str = ""
    #: How threads or processes that share the temp I/O are known.
    parallel: str = "each thread is recorded"
    #: What avoids the spill instead, where no ``WorkMemory`` names it.
    cure: str = ""
    #: What shows that it works, if not ``verify``.
    verified: str = ""
    #: The first version with it.
    since: str = "0.1.0"


@dataclass(frozen=True)
class Engine:
    """Describes an engine. A feature that it lacks is None.

    Features are named as ``module:name``; ``registry`` imports them when they are used.
    """

    #: In options of the command line and in meta.json.
    name: str
    #: In messages and reports.
    label: str
    #: Further names in meta.json.
    aliases: tuple[str, ...] = ()
    #: Patterns of the names of its temp files, by what the file contains. A pattern that ends with
    #: a slash is of a folder. The recorder reads them from temp_names.tsv, which
    #: docs/generate_engines.py writes.
    temp_names: Mapping[str, str] = field(default_factory=dict)
    #: Tells of a process (by its id) what its user should know before it is recorded, or None.
    notice: str | None = None
    #: Settings in meta.json that affect spills.
    settings: tuple[str, ...] = ()
    #: What sets the size of a temp I/O, in words.
    io_size: str | None = None
    #: The statements that set its minimum and maximum (bytes).
    set_io_size: Callable[[int, int], tuple[str, ...]] | None = None
    #: The setting that a sweep of work memory changes.
    memory: "WorkMemory | None" = None
    #: Experiments on a server or a database of our own: a ``Lab``.
    lab: str | None = None
    #: Whether its queries run in a server, which options such as --postgres name.
    server: bool = False
    #: Records the query of a session; ``record_mysql`` shows its arguments.
    record: str | None = None
    #: The command that moves temp files elsewhere: its parameters are options of the command line.
    move: str | None = None
    #: The command whose script a DBA runs to collect the evidence; its parameters as those of move.
    collect: str | None = None
    #: The rest of its row in the table of engines.
    coverage: Coverage = field(default_factory=Coverage)


@dataclass(frozen=True)
class WorkMemory:
    """The setting of the memory beyond which a query spills."""

    name: str
    #: From far too little to enough for the queries of the lab.
    default_range: str
    #: The unit that follows a number of KiB.
    unit: str
    #: Its range; None if the engine itself reports a value that is too small.
    bounds_bytes: tuple[int, int] | None = None
    #: Settings with which it reports the peak size of its buffers.
    report_settings: Mapping[str, str] = field(default_factory=dict)

    def given(self, workload: Workload, size_bytes: int) -> Workload:
        """The query with ``size_bytes`` of work memory."""
        memory = f"{size_bytes >> 10}{self.unit}"
        return replace(
            workload, memory=memory, settings={**workload.settings, **self.report_settings}
        )


class Lab(Protocol):
    """An engine in experiments, with a table ``t`` of its own in a directory."""

    #: Its name and version in meta.json, for ``describe``.
    engine: ClassVar[str]
    version: str
    #: The query of a demo.
    demo: ClassVar[Workload]
    #: Name and version, for people.
    label: str
    #: How much more memory a run may take than another, as a share.
    memory_spread: ClassVar[float] = 0.0

    def __init__(self, room: Path) -> None:
        """With its data in ``room``. InputError where a package is missing."""

    @staticmethod
    def verified(threads: int) -> Sequence[Workload]:
        """The queries that a verification runs, by so many threads or processes together."""

    def build(self, rows: int) -> None:
        """Make the table of ``rows`` rows if it does not exist; takes seconds."""

    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> "AbstractContextManager[HeldQuery]":
        """Prepare a query with its temp files in ``temp``; it ends with the context.

        ``environment`` is for the processes that do the query's work.
        """

    def settings_of(self, workload: Workload) -> dict[str, Any]:
        """The settings of a query that meta.json keeps, for ``describe``."""

    def describe(self, workload: Workload) -> "ObservedEngine":
        """Engine, version, query and settings, as a recording's meta.json keeps them."""
        from spillcast.recording.meta import ObservedEngine

        settings, sql = self.settings_of(workload), workload.sql.strip()
        return ObservedEngine(name=self.engine, version=self.version, sql=sql, settings=settings)

    @classmethod
    def calibrators(
        cls,
        room: Path,  # noqa: ARG003
        server: str | None,  # noqa: ARG003
    ) -> "Sequence[Calibrates]":
        """The versions of the engine to calibrate with; none where it has no queries for that.

        They are those on this machine, or that of the server that the DSN ``server`` leads to.
        """
        return ()


@runtime_checkable
class OpensOwn(Protocol):
    """A lab that also runs the user's queries."""

    @classmethod
    def on(cls, room: Path, database: Path | None) -> Self:
        """Open the user's database read-only, or none if the query names its data."""


@runtime_checkable
class Explains(Protocol):
    """A lab whose engine counts temp I/O in its plans."""

    def explaining(self, workload: Workload) -> Workload:
        """The query that returns the plan of ``workload``."""

    def plan_of(self, ran: "RunResult") -> "Counts":
        """The temp I/O in the plan that such a run returned."""


@runtime_checkable
class Calibrates(Lab, Protocol):
    """A lab that has queries for measuring a machine."""

    #: Whether the CPU time before a write depends on how long writes take.
    compresses_writes: ClassVar[bool]

    @staticmethod
    def calibrating() -> "Sequence[Workload]":
        """Small queries that spill, on one table; none of them is verified."""


@dataclass(frozen=True)
class SessionSelector:
    """Selects a session of a server; at least one field is set."""

    backend: int | None = None
    #: A regular expression for its query, case-insensitive.
    query: str | None = None
    spilling: bool = False


Say = Callable[[str], None]
OnStatus = Callable[["Recorder", Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class StatementSelector:
    """Selects a query of a server by its session, its identifier or its text."""

    #: The query that this session runs now, or next.
    backend: int | None = None
    queryid: str | None = None
    #: A regular expression for its text, case-insensitive.
    query: str | None = None
    #: Its text if neither is known; constants are ignored.
    text: str | None = None
    #: Time between two snapshots, or the file of a saved one: only calls between them count.
    since: str | None = None
