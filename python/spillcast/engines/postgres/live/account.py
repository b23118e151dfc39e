"""What a recording's meta.json says of a PostgreSQL query: engine, workers, sampling."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from spillcast.engines.postgres.connection import Connection
from spillcast.engines.postgres.live.explain import Explained, plan_summary
from spillcast.engines.postgres.live.query import QueryLife
from spillcast.engines.postgres.live.sampler import GAP_S, RATE_HZ, Sampled
from spillcast.engines.postgres.live.settings import FROM_OUTSIDE, OWN
from spillcast.recording.machine import redact_text
from spillcast.recording.recorder import Joined


def engine_meta(
    connection: Connection,
    pid: int,
    settings: Mapping[str, str],
    query: str,
    explained: Explained | None,
) -> dict[str, Any]:
    """The key ``engine``: server, session, settings and query; its plan where it was explained."""
    info, plan = connection.info, None if explained is None else explained.plan
    return {
        "name": "postgres",
        "version": info.parameter_status("server_version"),
        "server": {
            "host": info.host or info.hostaddr,
            "port": info.port,
            "dbname": info.dbname,
            "user": info.user,
        },
        "pid": pid,
        **settings,
        "settings_of": FROM_OUTSIDE if explained is None else OWN,
        "query": redact_text(query if explained is None else explained.statement),
        "plan": None if plan is None else plan_summary(plan),
    }


def query_meta(
    pid: int, life: QueryLife, attached_s: float, ended_by: str, sampled: Sampled
) -> dict[str, Any]:
    """The key ``postgres``, but for the workers; instants are by the server's clock.

    ``ended_by`` is ``query``, ``duration``, ``interrupt``, or ``failure`` of the sampler's
    connection.
    """
    began_s = life.started_s
    began = None if began_s is None else datetime.fromtimestamp(began_s, UTC)
    return {
        "backend": pid,
        "query_started_at": began and began.isoformat(timespec="milliseconds"),
        "query_elapsed_s": life.elapsed_s,
        "before_recording_s": max(0.0, attached_s - (began_s or attached_s)),
        "ended_by": ended_by,
        "failure": sampled.failure,
        "temp_files": [
            {"tablespace": name, "peak_bytes": size, "peak_files": files}
            for name, (size, files) in sorted(sampled.temp_peak.items())
        ],
    }


def workers_meta(workers: Sequence[Joined], unattached: int) -> dict[str, Any]:
    """What the key ``postgres`` says of parallel workers; some were seen and not attached."""
    return {
        "workers": [
            {
                "pid": worker.pid,
                "started_s": worker.started_s,
                "attached_s": worker.attached_s,
                "missed": worker.before and dict(zip(_MISSED, worker.before, strict=True)),
            }
            for worker in workers
        ],
        "workers_not_attached": unattached,
    }


_MISSED = ("reads", "writes", "bytes")


def sampling_meta(sampled: Sampled) -> dict[str, Any]:
    """The key ``sampling``: what it gave and what it cost."""
    return {
        "rate_hz": RATE_HZ,
        "samples": sampled.samples,
        "ticks": sampled.ticks,
        "discarded": sampled.discarded,
        "gap_s": sampled.gap_s,
        "gap_from_s": GAP_S,
        "client_cpu_s": sampled.client_cpu_s,
        "server_cpu_s": sampled.server_cpu_s,
    }
