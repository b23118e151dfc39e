"""The parts of meta.json for a query of a server: address, query, workers, sampling."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillcast.document import key


@dataclass(frozen=True)
class Server:
    """Address and user of a connection to a server: the parts of a DSN that may be kept."""

    host: str = key("the server's; never a password", example="db01")
    port: int = key("its port", example=5432)
    dbname: str = key("the database", example="erp")
    user: str = key("who recorded", example="postgres")


@dataclass(frozen=True)
class Missed:
    """Holds the I/O of a worker on any file before it was attached."""

    reads: int = key("calls that read")
    writes: int = key("calls that wrote")
    bytes: int = key("bytes they moved", unit="bytes")

    @property
    def calls(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes


@dataclass(frozen=True)
class Worker:
    """Describes a parallel worker of the query."""

    pid: int = key("process id", example=4712)
    started_s: float | None = key(
        "its start since the run began, to within 10 ms; null if unknown",
        unit="s",
        signed=True,
    )
    attached_s: float = key("when it was attached, since then", unit="s", signed=True)
    missed: Missed | None = key("what it had done before that, on any file; null if not permitted")
    temp_files: int = key(
        "temp files it had open then: without any it had not begun its temp I/O",
        unit="files", example=0, default=0, later=True,
    )  # fmt: skip

    @property
    def late(self) -> bool:
        """Whether its temp I/O may have begun before it was attached.

        One that has written nothing and has no temp file open has not begun.
        """
        return self.temp_files > 0 or self.missed is None or self.missed.writes > 0


@dataclass(frozen=True)
class TempFiles:
    """Holds the largest temp usage of a tablespace in a sample."""

    tablespace: str = key("its name", example="pg_default")
    peak_bytes: int = key("largest value in one sample", unit="bytes")
    peak_files: int = key("largest value in one sample")


@dataclass(frozen=True)
class RecordedQuery:
    """Describes the recorded query; instants are by the server's clock."""

    backend: int = key("process id of the session", example=4711)
    query_started_at: str | None = key(
        "start of the query by the server's clock",
        unit="ISO 8601",
        example="2026-11-21T14:17:11.975+00:00",
    )
    query_elapsed_s: float | None = key(
        "from then until the query ended or was last observed", unit="s", example=773.2
    )
    before_recording_s: float = key(
        "how long it had run when the recording began", unit="s", example=12.5
    )
    ended_by: str = key(
        "`query`, its `error` (cancelled or failed), `duration`, `interrupt` or `failure` of the "
        "connection",
        example="query",
    )
    failure: str | None = key("what failed; null if nothing did", example=None)
    workers: Sequence[Worker] = key("parallel workers")
    workers_not_attached: int = key("workers that could not be attached", example=0)
    temp_files: Sequence[TempFiles] = key(
        "by tablespace, without the files that workers share; empty if not permitted to list them"
    )
    table_calls: int | None = key(
        "reads and writes of the session's temporary tables by all threads of the server while it "
        "was recorded, of all sessions if theirs are not told apart; null if they are not counted",
        later=True,
        example=1000,
    )


@dataclass(frozen=True)
class Sampling:
    """Describes the sampling of the session, and its cost."""

    rate_hz: int = key("samples per second", unit="1/s", example=50)
    samples: int = key("number of samples", example=3866)
    ticks: int = key("times that the session was sampled while the query ran", example=3866)
    discarded: int = key("samples discarded after gaps of `sampling.gap_from_s` or more", example=0)
    gap_s: float = key(
        "time of the gaps, including one before the end, which no sample represents",
        unit="s",
        example=0.0,
    )
    gap_from_s: float = key("minimum length of a gap", unit="s", example=0.1)
    client_cpu_s: float = key("CPU time of the sampler", unit="s", example=0.31)
    server_cpu_s: float | None = key(
        "CPU time of the server for it; null if it is on another host", unit="s", example=0.2
    )


@dataclass(frozen=True)
class Statement:
    """Identifies the statement of counts in a file with many; never on disk."""

    queryid: str | None = key("for counts, never on disk: the server's identifier of the statement")
    query: str | None = key("for counts, never on disk: its text, without secrets")
    calls: int = key("for counts, never on disk: calls that the counts are the mean of")
    most_of: int = key(
        "for counts, never on disk: it is the plan with the most temp I/O of this many"
    )
    spread: float | None = key(
        "for counts, never on disk: standard deviation of the calls' times over their mean",
        optional=True,
    )
