"""Oracle: scripts for its administrator; spillcast itself never runs anything on it."""

from spillcast.engines.engine import Coverage, Engine

IO_SIZE = (
    "hidden parameters of automatic work areas (workarea_size_policy=auto), in KB. They are "
    "undocumented: change them only on Oracle Support's advice, and on a test system first. They "
    "take effect after a restart"
)


def _io_size(min_bytes: int, max_bytes: int) -> tuple[str, tuple[str, ...]]:
    min_kib, max_kib = (max(1, round(size / 1024)) for size in (min_bytes, max_bytes))
    return IO_SIZE, (
        f'ALTER SYSTEM SET "_smm_auto_max_io_size"={max_kib} SCOPE=SPFILE;',
        f'ALTER SYSTEM SET "_smm_auto_min_io_size"={min_kib} SCOPE=SPFILE;',
    )


ENGINE = Engine(
    name="oracle",
    label="Oracle",
    io_size=_io_size,
    move="spillcast.engines.oracle.move:move",
    collect="spillcast.engines.oracle.collect:collect",
    coverage=Coverage(
        live="record --pid",
        evidence="SQL traces, ASH, AWR, Statspack, SQL Monitor, tkprof, wait views",
        parallel="a trace for each parallel server, or samples of ASH",
        cure="work area sizes of V$SQL_WORKAREA",
        verified="published cases; no measured run",
    ),
)
