"""What an engine is to spillcast: how it is called, and what it offers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from spillcast.engines.workload import Workload

if TYPE_CHECKING:
    from spillcast.engines.held import HeldQuery, Ran
    from spillcast.engines.move import Move
    from spillcast.engines.ranking import ServerRanking
    from spillcast.evidence.postgres.executed import Executed
    from spillcast.forecast.more_memory import Spill
    from spillcast.recording import Recording
    from spillcast.recording.meta import ObservedEngine
    from spillcast.recording.options import RecordOptions
    from spillcast.recording.recorder import Recorder
    from spillcast.recording.running import Running
    from spillcast.recording.server_recording import ServerRecording
    from spillcast.storage.rehearsal import Rehearsal


@dataclass(frozen=True)
class Engine:
    """An engine. What it does not offer is None; what it does is imported when it is called."""

    #: As the command line and meta.json have it.
    name: str
    #: As people have it.
    label: str
    #: What meta.json may call it besides.
    aliases: tuple[str, ...] = ()
    #: Settings that meta.json may hold of it and that affect spills.
    settings: tuple[str, ...] = ()
    #: What to set for temp I/Os of least and most bytes, and the statements, if there are any.
    io_size: Callable[[int, int], tuple[str, tuple[str, ...]]] | None = None
    #: The setting that a sweep of work memory turns.
    memory: "WorkMemory | None" = None
    #: Experiments on a server or a database of our own.
    lab: "Callable[[], type[Lab]] | None" = None
    #: Recording a query of a server that runs already.
    live: "Callable[[], RecordQuery] | None" = None
    #: Recording every query of such a server that spills.
    live_all: "Callable[[], RecordServer] | None" = None
    #: Running a recorded query of such a server again for a while, its temp files elsewhere.
    rehearse: "Callable[[], RehearseQuery] | None" = None
    #: Ranking what spills on such a server, or by its logs.
    rank: "Callable[[], RankServer] | None" = None
    #: What a query took on such a server, for who checks a forecast of it.
    took: "Callable[[], QueryTook] | None" = None
    #: The command that moves temp files elsewhere: its parameters are options of the command line.
    move: "Callable[[], Callable[..., Move]] | None" = None
    #: The command whose script a DBA runs to collect the evidence; its parameters as those of move.
    collect: Callable[[], Callable[..., str]] | None = None


def late(module: str, name: str) -> Callable[[], Any]:
    """What offers something of a module, which is imported only then."""
    return lambda: getattr(import_module(module), name)


@dataclass(frozen=True)
class WorkMemory:
    """The setting of the memory beyond which a query spills."""

    name: str
    #: From far too little to enough for the lab's queries.
    default_range: str
    #: How it writes KiB.
    unit: str
    #: What it takes; None where it says itself what is too little.
    bounds_bytes: tuple[int, int] | None = None
    #: Settings that make it tell what its buffers took.
    telling: Mapping[str, str] = field(default_factory=dict)

    def given(self, workload: Workload, size_bytes: int) -> Workload:
        """The query with so many bytes."""
        memory = f"{size_bytes >> 10}{self.unit}"
        return replace(workload, memory=memory, settings={**workload.settings, **self.telling})


class Lab(Protocol):
    """An engine in experiments, with a table ``t`` of its own in a directory."""

    #: The query of a demo.
    demo: ClassVar[Workload]

    def __init__(self, room: Path) -> None:
        """With its data in ``room``. InputError where a package is missing."""

    @staticmethod
    def verified(threads: int) -> Sequence[Workload]:
        """The queries that a verification runs, by so many threads or processes together."""

    @property
    def label(self) -> str:
        """Name and version, for people."""

    def build(self, rows: int) -> None:
        """Make the table of so many rows, if it is not there; seconds of work."""

    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> "AbstractContextManager[HeldQuery]":
        """A query made ready with its temp files in ``temp``; all of it ends with the context.

        ``environment`` is for the processes that do the query's work.
        """

    def describe(self, workload: Workload) -> "ObservedEngine":
        """Engine, version, query and settings, as a recording's meta.json keeps them."""


@runtime_checkable
class OpensOwn(Protocol):
    """A lab that also runs queries of the user's own."""

    @classmethod
    def on(cls, room: Path, database: Path | None) -> Self:
        """With their database, which is only read; without one the query finds its data itself."""


@runtime_checkable
class Explains(Protocol):
    """A lab whose engine's own plans count temp I/O."""

    def explaining(self, workload: Workload) -> Workload:
        """The same query, whose result is its plan."""

    def plan_of(self, ran: "Ran") -> "Recording":
        """What the plan counts that such a run returned."""

    def spills(self, workload: Workload, plan: "Recording") -> "Sequence[Spill]":
        """The nodes of such a plan that spill."""


@runtime_checkable
class Calibrates(Protocol):
    """A lab that has queries for measuring a machine."""

    #: Whether what it burns before a write depends on how long its writes take.
    compresses_writes: ClassVar[bool]

    @staticmethod
    def calibrating() -> "Sequence[Workload]":
        """Small ones that spill, none of them verified; all of a table of the same size."""


@dataclass(frozen=True)
class Wanted:
    """What session of a server is looked for; at least one of these is given."""

    backend: int | None = None
    #: A pattern that its query matches, whatever the case.
    query: str | None = None
    spilling: bool = False


Say = Callable[[str], None]
OnStatus = Callable[["Recorder", Mapping[str, Any]], None]


class RecordQuery(Protocol):
    """Records one query of a server from its beginning, or from now on, to its end."""

    def __call__(
        self,
        dsn: str,
        output: Path | None,
        wanted: Wanted | None = None,
        *,
        explain: str | None = None,
        settings: Mapping[str, str] | None = None,
        options: "RecordOptions | None" = None,
        say: Say = ...,
        on_status: OnStatus = ...,
        running: "Running | None" = None,
    ) -> "Recording":
        """Record the query of the session ``wanted``, or the statement ``explain``.

        A session of ours runs the latter with ``settings`` and takes back what it changes. Returns
        when the query has ended, after ``options.duration_s``, or upon KeyboardInterrupt, which
        keeps what there is. ``say`` is told what the user should know meanwhile; ``on_status`` gets
        the capture's counts with ``samples`` and ``processes`` a few times a second. Without an
        ``output`` nothing is written; ``running`` can be asked meanwhile what there is so far.

        InputError for a server, a session or a right that is not there, and where the query ended
        before anything was seen of it; SpillcastError where the server goes away, and where no
        query began within ``options.duration_s``.
        """


class RehearseQuery(Protocol):
    """Runs a recorded query of a server again for a while, with its temp files elsewhere."""

    def __call__(
        self,
        dsn: str,
        recording: "Recording",
        directory: Path,
        duration_s: float,
        folder: Path,
        *,
        statement: str | None = None,
        say: Say = ...,
    ) -> "Rehearsal":
        """Run it, or ``statement``, for so long at most with temp files in ``directory``.

        The recording of it is made in ``folder``; ``say`` is told what is about to be run. Nothing
        that could write is run. InputError for a server or a place for temp files that is not
        there, Refusal where the query cannot be rehearsed.
        """


class RecordServer(Protocol):
    """Records every query of a server that spills, each by itself."""

    def __call__(
        self,
        dsn: str,
        output: Path,
        *,
        options: "RecordOptions | None" = None,
        say: Say = ...,
        on_status: OnStatus = ...,
    ) -> "ServerRecording":
        """Observe all processes of the server at once; a recording in ``output`` for each query.

        ``output`` is new, or holds recordings alone, which stay. A recording is there some seconds
        after its query's end. Returns when the server has ended or our connection to it, after
        ``options.duration_s``, or upon Ctrl-C: queries that run then are kept as far as
        they were seen. ``on_status`` gets the capture's counts with ``active`` and ``spilling``
        queries and ``recordings`` made, a few times a second.

        InputError for a server or a right that is not there, for one that runs elsewhere, and for
        a folder that holds something else.
        """


class RankServer(Protocol):
    """Ranks what spills on a server, or in a folder of its logs."""

    def __call__(
        self,
        server: str,
        targets: Sequence[str],
        *,
        log: str | None = None,
        since: str | None = None,
        save_as: Path | None = None,
        origin: str | None = None,
        confidence: float = 0.9,
    ) -> "ServerRanking":
        """What each statement loses by spilling, and what ``targets`` would save of it.

        ``since`` is how long to wait between two looks, or a kept look's file; ``save_as`` keeps
        this one. ``origin`` is the storage of temp files where I/O was not timed. InputError where
        the server does not answer and for logs without spills.
        """


@dataclass(frozen=True, kw_only=True)
class Meant:
    """Which query of a server is meant: by its session, its identifier or its text."""

    #: Of what this session runs now, or next.
    backend: int | None = None
    queryid: str | None = None
    #: A pattern that its text matches, whatever the case.
    query: str | None = None
    #: Its text where neither is known, constants aside.
    text: str | None = None
    #: How long to wait between two looks, or a kept look's file: only calls between them count.
    since: str | None = None


class QueryTook(Protocol):
    """Tells what a query took on a server."""

    def __call__(self, dsn: str, meant: Meant, say: Say = ...) -> "Executed":
        """The mean of the calls that the server counted; of a session its query when it ends.

        ``say`` is told what is waited for. InputError where the server does not answer, has counted
        no such statement or several, and where the session is not there or may not be seen.
        """
