"""MySQL, and MariaDB which descends from it: sessions, statements, moves of temp files."""

from dataclasses import replace

from spillcast.engines.engine import Coverage, Engine, LikelyName

#: Settings of a session that decide whether a statement spills.
MEMORY_SETTINGS = ("sort_buffer_size", "tmp_table_size", "max_heap_table_size", "join_buffer_size")
IO_SIZE = (
    "there is no setting. A sort reads its runs in parts of sort_buffer_size; temporary tables on "
    "disk have pages of their storage engine: 8 KiB in Aria, 16 KiB in InnoDB"
)

COVERAGE = Coverage(
    live="record --mysql (the session's thread), record --pid, mysql DSN",
    evidence="digests of statements, summaries of file I/O",
    parallel="a statement has one thread; those of InnoDB with record --pid",
    cure="sort_buffer_size, tmp_table_size, max_heap_table_size",
)
SHARED_NAMES = {
    "sort": LikelyName("MY*"),
    "binary log cache": LikelyName("ML*"),
    "temporary table": LikelyName("#sql*.MY?"),
    "shared temporary tablespace": "ibtmp*",
}
MYSQL = Engine(
    name="mysql",
    label="MySQL",
    temp_names={
        **SHARED_NAMES,
        "temporary tables of a session": "temp_*.ibt",
        "overflow of TempTable": "mysql_temptable.*",
    },
    settings=MEMORY_SETTINGS,
    io_size=lambda _min_bytes, _max_bytes: (IO_SIZE, ()),
    record="spillcast.engines.mysql.record:record_mysql",
    move="spillcast.engines.mysql.move:move",
    lab="spillcast.engines.mysql.lab:MySqlLab",
    coverage=COVERAGE,
)
MARIADB = replace(
    MYSQL,
    name="mariadb",
    label="MariaDB",
    temp_names={**SHARED_NAMES, "temporary table in Aria": LikelyName("#sql*.MA?")},
    lab="spillcast.engines.mysql.lab:MariaDbLab",
    coverage=replace(
        COVERAGE,
        evidence=f"{COVERAGE.evidence}, ANALYZE FORMAT=JSON",
        cure=f"{COVERAGE.cure}, by the plan",
    ),
)
