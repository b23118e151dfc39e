"""What a recording's meta.json says of a PostgreSQL query: engine, workers, sampling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spillcast.engines.postgres_explain import plan_summary
from spillcast.engines.postgres_query import QueryLife
from spillcast.engines.postgres_sampler import GAP_S, RATE_HZ, Sampled
from spillcast.engines.postgres_session import address
from spillcast.engines.postgres_settings import FROM_OUTSIDE, OWN
from spillcast.recording.machine import redact_text
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.postgres_meta import Missed, RecordedQuery, Sampling, TempFiles, Worker
from spillcast.recording.recorder import Joined

if TYPE_CHECKING:
    from spillcast.engines.postgres_connection import Connection


@dataclass(frozen=True)
class Observed:
    """What was seen of a query; instants are seconds since the epoch by the server's clock."""

    pid: int
    settings: Mapping[str, str]
    sampled: Sampled
    workers: Sequence[Joined]
    #: Workers that were seen and could not be attached.
    unattached: int
    life: QueryLife
    attached_s: float
    #: ``query``, ``duration``, ``interrupt`` or ``failure`` of the sampler's connection.
    ended_by: str
    #: What was explained; None for the query of another session.
    statement: str | None
    plan: Any


def account(connection: "Connection", observed: Observed) -> dict[str, Any]:
    """The fields ``engine``, ``postgres`` and ``sampling`` of a recording's ``Meta``."""
    return {
        "engine": _engine(connection, observed),
        "postgres": _query(observed),
        "sampling": _sampling(observed.sampled),
    }


def _engine(connection: "Connection", observed: Observed) -> ObservedEngine:
    own, plan = observed.statement is not None, observed.plan
    return ObservedEngine(
        name="postgres",
        version=connection.info.parameter_status("server_version"),
        server=address(connection),
        pid=observed.pid,
        query=redact_text(observed.statement or observed.sampled.query),
        settings={
            **observed.settings,
            "settings_of": OWN if own else FROM_OUTSIDE,
            "plan": None if plan is None else plan_summary(plan),
        },
    )


def _query(observed: Observed) -> RecordedQuery:
    began_s = observed.life.started_s
    began = None if began_s is None else datetime.fromtimestamp(began_s, UTC)
    return RecordedQuery(
        backend=observed.pid,
        query_started_at=None if began is None else began.isoformat(timespec="milliseconds"),
        query_elapsed_s=observed.life.elapsed_s,
        before_recording_s=max(0.0, observed.attached_s - (began_s or observed.attached_s)),
        ended_by=observed.ended_by,
        failure=observed.sampled.failure,
        workers=[
            Worker(
                worker.pid,
                worker.started_s,
                worker.attached_s,
                worker.before and Missed(*worker.before),
            )
            for worker in observed.workers
        ],
        workers_not_attached=observed.unattached,
        temp_files=[
            TempFiles(name, size, files)
            for name, (size, files) in sorted(observed.sampled.temp_peak.items())
        ],
    )


def _sampling(sampled: Sampled) -> Sampling:
    return Sampling(
        rate_hz=RATE_HZ,
        samples=sampled.samples,
        ticks=sampled.ticks,
        discarded=sampled.discarded,
        gap_s=sampled.gap_s,
        gap_from_s=GAP_S,
        client_cpu_s=sampled.client_cpu_s,
        server_cpu_s=sampled.server_cpu_s,
    )
