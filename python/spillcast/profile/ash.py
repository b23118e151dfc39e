"""ASH -> a profile with the columns of the usual ASH query, and latencies without its bias."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from spillcast.evidence.oracle.ash import ALL, Ash, Chosen, executions, hints, profile_ash, read_ash
from spillcast.evidence.oracle.trace import Progress
from spillcast.profile.result import QUANTILES, Profile
from spillcast.profile.samples import grouped


def of_ash(
    paths: Sequence[Path],
    by: Sequence[str],
    where: str | None,
    chosen: Chosen = ALL,
    on_progress: Progress | None = None,
) -> Profile:
    """By statement and event, or by ``by``. Lists the executions if there are several."""
    ash = read_ash(paths, chosen, on_progress=on_progress)
    if list(by) != ["event"] or where is not None:
        rows = grouped(ash.samples, by, where)
    else:
        rows = _by_event(ash)
    total_s = pc.sum(ash.samples["weight_us"]).as_py() / 1e6
    damaged = [{"file": str(d.file), "line": d.line, "what": d.text} for d in ash.damaged]
    matching = executions(ash)
    return Profile(
        by,
        total_s,
        rows,
        damaged,
        [*ash.notes, *hints(ash)],
        executions=[asdict(execution) for execution in matching] if len(matching) > 1 else [],
    )


def _by_event(ash: Ash) -> list[dict[str, Any]]:
    """Statement and event, with latencies corrected for the bias of samples."""
    return [
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
        for row in profile_ash(ash).to_pylist()
    ]
