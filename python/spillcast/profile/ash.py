"""ASH -> a profile with the columns of the usual ASH query, and latencies without its bias."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from spillcast.errors import InputError
from spillcast.profile.result import QUANTILES, Profile
from spillcast.recording.ash import ALL, Chosen, executions, hints, profile_ash, read_ash
from spillcast.recording.trace import Progress


def of_ash(
    paths: Sequence[Path],
    by: Sequence[str],
    where: str | None,
    chosen: Chosen = ALL,
    on_progress: Progress | None = None,
) -> Profile:
    """By statement and event; InputError for any other question. Several executions are named."""
    if list(by) != ["event"] or where is not None:
        raise InputError(
            "ASH exports are profiled by statement and event only",
            'ask for more with: spillcast sql "select ... from samples" EXPORT',
        )
    ash = read_ash(paths, chosen, on_progress=on_progress)
    table = profile_ash(ash).to_pylist()
    rows = [
        {
            "event": row["event"],
            "sql": row["sql_id"],
            "op": None,
            "idle": False,
            "count": row["count"],
            "total_us": row["total_us"],
            "share": row["share_of_all"],
            "share_of_sql": row["share_of_sql"],
            "min_us": row["min_wtime_us"],
            "mean_us": row["avg_wtime_us"],
            **dict.fromkeys(QUANTILES),
            "max_us": row["max_wtime_us"],
            "latency_us": row["latency_us"],
            "latency_error_us": row["latency_error_us"],
            "n_est": row["n_est"],
        }
        for row in table
    ]
    total_s = sum(row["total_us"] for row in rows) / 1e6
    damaged = [{"file": str(d.file), "line": d.line, "what": d.what} for d in ash.damaged]
    found = executions(ash)
    return Profile(
        ["event"],
        total_s,
        rows,
        damaged,
        [*ash.notes, *hints(ash)],
        executions=[asdict(one) for one in found] if len(found) > 1 else [],
    )
