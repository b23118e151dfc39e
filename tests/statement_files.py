"""Exports of pg_stat_statements in the form of servers of versions 13 to 18."""

_TO_CALLS = (
    "userid dbid toplevel queryid query plans total_plan_time min_plan_time max_plan_time "
    "mean_plan_time stddev_plan_time calls total_exec_time min_exec_time max_exec_time "
    "mean_exec_time stddev_exec_time rows shared_blks_hit shared_blks_read shared_blks_dirtied "
    "shared_blks_written local_blks_hit local_blks_read local_blks_dirtied local_blks_written "
    "temp_blks_read temp_blks_written"
)
_JIT = (
    "jit_functions jit_generation_time jit_inlining_count jit_inlining_time "
    "jit_optimization_count jit_optimization_time jit_emission_count jit_emission_time"
)
_15 = (
    f"{_TO_CALLS} blk_read_time blk_write_time temp_blk_read_time temp_blk_write_time "
    f"wal_records wal_fpi wal_bytes {_JIT}"
)
_17 = (
    f"{_TO_CALLS} shared_blk_read_time shared_blk_write_time local_blk_read_time "
    "local_blk_write_time temp_blk_read_time temp_blk_write_time wal_records wal_fpi wal_bytes "
    f"{_JIT} jit_deform_count jit_deform_time stats_since minmax_stats_since"
)
_14 = f"{_TO_CALLS} blk_read_time blk_write_time wal_records wal_fpi wal_bytes"
#: Columns by version, in their order.
COLUMNS = {
    13: _14.replace("toplevel ", "").split(),
    14: _14.split(),
    15: _15.split(),
    16: _15.split(),
    17: _17.split(),
    18: _17.replace("wal_bytes", "wal_bytes wal_buffers_full")
    .replace("stats_since", "parallel_workers_to_launch parallel_workers_launched stats_since", 1)
    .split(),
}
VERSIONS = list(COLUMNS)
QUERY = "select * from big order by k"


def row(queryid=815, query=QUERY, *, calls=4, mean_ms=2000.0, temp_ms=3000.0, other_ms=0.0,
        blocks=1200, workers=0, **settings):  # fmt: skip
    """Averages of a call: a third of its blocks and of their time are reads."""
    return {
        "queryid": queryid, "query": query, "calls": calls, "total_exec_time": calls * mean_ms,
        "temp_blks_read": calls * blocks // 3, "temp_blks_written": calls * blocks * 2 // 3,
        "temp_blk_read_time": calls * temp_ms / 3, "temp_blk_write_time": calls * temp_ms * 2 / 3,
        "blk_read_time": calls * other_ms, "shared_blk_read_time": calls * other_ms,
        "parallel_workers_launched": calls * workers, **settings,
    }  # fmt: skip


def export(path, version, *rows):
    """A CSV file with the columns of a version, and any max_parallel settings of the rows."""
    columns = [*(name for name in rows[0] if name.startswith("max_parallel")), *COLUMNS[version]]
    lines = [",".join(columns)]
    for values in rows:
        cells = (values.get(name, 0) for name in columns)
        lines.append(",".join("" if cell is None else f'"{cell}"' for cell in cells))
    path.write_text("\n".join(lines) + "\n")
    return path
