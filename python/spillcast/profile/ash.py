"""Profiles of ASH and other samples, and of session statistics."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb

from spillcast.errors import EvidenceUnsuited, QueryInvalid, SelectionEmpty, first_line
from spillcast.evidence.oracle.ash import ALL, Ash, Chosen, read_ash
from spillcast.evidence.oracle.ash_profile import ON_CPU, executions, hints, profile_ash
from spillcast.evidence.oracle.collected import read_statistics
from spillcast.evidence.oracle.trace import Progress
from spillcast.profile.result import DIMENSIONS, QUANTILES, Profile, bare_row
from spillcast.profile.trace_tables import (
    check_keys,
    condition_of,
    confine,
    keys_of,
    named,
    order_of,
)
from spillcast.recording import Recording
from spillcast.tables import Table

_COLUMNS = {
    "event": f"coalesce(event::varchar, '{ON_CPU}')",
    "sql": "sql_id::varchar",
    "session": "session",
    "second": "time_ns // 1000000000",
}


def of_samples(recording: Recording, by: Sequence[str], where: str | None) -> Profile:
    """The time of all samples, summed over sessions.

    InputError for columns that samples lack, such as sizes and files, and for a wrong condition.
    """
    rows = grouped(recording.samples, by, where)
    whole_us = recording.samples["weight_us"].sum()
    why = recording.meta.capture.absent_because
    return Profile(by, whole_us / 1e6, rows, [], [f"samples of waits, no I/O: {why}"])


def grouped(samples: Table, by: Sequence[str], where: str | None) -> list[dict[str, Any]]:
    """Rows by names or expressions, the largest first; shares are of all samples."""
    for name in by:
        if name in DIMENSIONS and name not in _COLUMNS:
            known = ", ".join(_COLUMNS)
            raise EvidenceUnsuited(
                f"--by {name}: this evidence has only samples", f"ask by {known}"
            )
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        connection.register("samples", samples)
        confine(connection, Path(folder))
        check_keys(connection, "samples", by, _COLUMNS)
        query = (
            f"select {', '.join(keys_of(by, _COLUMNS))}, count(*) as count, "
            f"sum(weight_us)::bigint as total_us from samples where {condition_of(where)} "
            f"group by all order by total_us desc, {order_of(by)}"
        )
        try:
            relation = connection.sql(query)
            names = relation.columns
            records = [dict(zip(names, row, strict=True)) for row in relation.fetchall()]
        except duckdb.Error as error:
            columns = ", ".join(samples.column_names)
            reason = first_line(error)
            raise QueryInvalid(f"--where: {reason}", f"the columns are {columns}") from error
    if where is not None and not records:
        raise SelectionEmpty(f"--where: no sample meets '{where}'")
    whole_us = samples["weight_us"].sum()
    bare = [bare_row("", row["total_us"], whole_us) for row in records]
    for row in bare:
        del row["event"]
    return [{**row, **named(keys, by)} for row, keys in zip(bare, records, strict=True)]


def of_statistics(paths: Sequence[Path], by: Sequence[str], where: str | None) -> Profile:
    """One row a statistic; InputError for any other question."""
    if list(by) != ["event"] or where is not None:
        raise EvidenceUnsuited(
            "statistics are shown one by one only",
            'for more use: spillcast profile FILE --sql "select ... from statistics"',
        )
    read = read_statistics(paths)
    rows: dict[str, dict[str, object]] = {}
    for row in read.rows.to_pylist():
        name = row["name"]
        seen = rows.setdefault(name, {"event": name, "value": 0, "per_second_max": 0})
        seen["value"] = int(str(seen["value"])) + (row["value"] or 0)
        seen["per_second_max"] = max(int(str(seen["per_second_max"])), row["per_second"] or 0)
        seen["accumulated"] = row["accumulated"]
    damaged = [{"file": str(d.file), "line": d.line, "what": d.text} for d in read.damaged]
    return Profile(["event"], 0.0, list(rows.values()), damaged)


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
    total_s = ash.samples["weight_us"].sum() / 1e6
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
