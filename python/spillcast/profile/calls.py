"""The own work of calls in a trace, without their callees: time, CPU, rows, blocks."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from spillcast.errors import QueryInvalid, SelectionEmpty, first_line
from spillcast.evidence.oracle.trace import Progress
from spillcast.evidence.oracle.trace_spool import spool_traces
from spillcast.evidence.oracle.trace_window import Window
from spillcast.exact_name import rows_of
from spillcast.profile.call_tree import add_call_tree
from spillcast.profile.expressions import check_keys, condition_of, confine, keys_of, named
from spillcast.profile.result import QUANTILES, Profile
from spillcast.profile.traces import trace_warnings

_COLUMNS = {
    "call": "call",
    "sql": "sql_id",
    "session": "session",
    "depth": "dep",
    "caller": "caller",
    "statement": "statement",
}


def of_calls(
    paths: Sequence[Path],
    by: Sequence[str],
    where: str | None,
    lenient: bool,
    on_progress: Progress | None,
    window: Window,
) -> Profile:
    """A row for each kind of call and further key; nothing counts twice.

    InputError for a wrong expression or condition, and for one that no call meets.
    """
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        read = spool_traces(
            paths, Path(folder), lenient=lenient, on_progress=on_progress, window=window
        )
        for name in ("calls", "statements"):
            table = rows_of(Path(folder) / f"{name}.parquet")
            connection.execute(f"create view {name} as from {table}")
        add_call_tree(connection)
        confine(connection, Path(folder))
        check_keys(connection, "call_tree", by, _COLUMNS)
        elapsed_us = sum(session["elapsed_us"] for session in read.sessions())
        records = _counted(connection, by, where)
    if where is not None and not records:
        raise SelectionEmpty(f"--where: no call meets '{where}'")
    rows = [_row(row, by, read.paths, elapsed_us) for row in records]
    return Profile(by, elapsed_us / 1e6, rows, read.damaged(), trace_warnings(read))


def _counted(
    connection: duckdb.DuckDBPyConnection, by: Sequence[str], where: str | None
) -> list[dict[str, Any]]:
    query = (
        f"select {', '.join(keys_of(by, _COLUMNS))}, count(*) as count, "
        "sum(self_e_us)::bigint as total_us, sum(self_c_us)::bigint as cpu_us, "
        "min(self_e_us) as min_us, avg(self_e_us) as mean_us, max(self_e_us) as max_us, "
        "max_by([source, line], (self_e_us, -source, -line)) as longest_at, "
        "sum(r)::bigint as rows, sum(self_p)::bigint as reads, "
        "sum(self_cr)::bigint as consistent_gets, "
        "sum(self_cu)::bigint as current_gets, sum(mis)::bigint as misses "
        f"from call_tree where {condition_of(where)} group by all order by total_us desc"
    )
    try:
        records: list[dict[str, Any]] = connection.sql(query).to_arrow_table().to_pylist()
    except duckdb.Error as error:
        columns = ", ".join(connection.sql("from call_tree limit 0").columns)
        raise QueryInvalid(f"--where: {first_line(error)}", f"the columns are {columns}") from error
    return records


def _row(
    row: dict[str, Any], by: Sequence[str], paths: Sequence[Path], elapsed_us: int
) -> dict[str, Any]:
    source, line = row["longest_at"]
    row |= {
        "op": None,
        "idle": False,
        "share": row["total_us"] / elapsed_us if elapsed_us else None,
        **dict.fromkeys(QUANTILES),
        "longest_at": f"{paths[source]}:{line}",
    }
    return named(row, by)
