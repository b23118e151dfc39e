"""Experiments on ClickHouse: queries that spill in chdb, with one folder per table size."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from spillcast.engines import Lab, LabQuery
from spillcast.engines.queries import QueryProcess, QuerySession
from spillcast.units import parse_bytes

#: About 40 bytes per row, as in other engines' experiments; a single part, so no merge follows.
TABLE = """
create table t engine = MergeTree order by tuple() as
select cityHash64(number) % {rows} as id,
       toDate('2020-01-01') + toUInt16(cityHash64(number + 1) % 1500) as business_date,
       (cityHash64(number + 2) % 1000000) / 100 as amount01,
       (cityHash64(number + 3) % 1000000) / 100 as amount02,
       (cityHash64(number + 4) % 1000000) / 100 as amount03
from numbers({rows});
optimize table t final
"""
JOIN = "select count(), max(b.business_date), sum(a.amount02) from t a join t b on a.id = b.id"
#: A merge join takes more CPU time than a hash join with the same number of rows.
SMALLER_JOIN = """
select count(), max(b.business_date), sum(a.amount02)
from (select * from t where id % 2 = 0) a join (select * from t where id % 2 = 0) b on a.id = b.id
"""
#: The offset is so large that all rows are sorted, not only the first ones.
SORT = "select amount01, id from t order by amount02, id, amount01 limit 5 offset 9900000"
GROUP_BY = """
select count(), max(total) from (
  select id, sum(amount01) as total, max(business_date), min(amount02) from t group by id
)
"""
DISTINCT = "select count() from (select distinct id, amount03 from t)"
WINDOW = """
select max(running) from (
  select sum(amount01) over (partition by business_date order by id, amount02) as running from t
)
"""
#: One table for all queries.
ROWS = 10_000_000
#: Set to 0, because a ratio of the server's memory takes precedence over a number of bytes.
RATIOS = {
    f"max_bytes_ratio_before_external_{operator}": "0"
    for operator in ("sort", "group_by", "distinct", "join")
}


class ClickHouseLab(Lab):
    """ClickHouse in a separate process, with the package chdb, and its tables in a directory."""

    engine: ClassVar[str] = "clickhouse"
    memory_spread: ClassVar[float] = 0.15

    def __init__(self, workdir: Path) -> None:
        import chdb

        self._workdir = workdir
        self.version = str(chdb.query("select version()", "TSV")).strip()
        self.label = f"ClickHouse {self.version} (chdb)"

    @staticmethod
    def verified(threads: int) -> Sequence[LabQuery]:
        """The queries of a verification: 1 to 4 s of CPU and 100 to 370 temp operations each."""

        def query(name: str, sql: str, memory: str, cpu_s: float, operations: int) -> LabQuery:
            algorithm = "partial_merge" if name == "partial merge join" else "grace_hash"
            settings = {"join_algorithm": algorithm}
            return LabQuery(
                name, sql, ROWS, memory, threads, settings,
                cpu_s=cpu_s, operations=operations, load_s=8.0,
            )  # fmt: skip

        return (
            query("sort", SORT, "40MB", 2.5, 210),
            query("group by", GROUP_BY, "60MB", 2.3, 210),
            query("grace hash join", JOIN, "40MB", 3.1, 370),
            query("partial merge join", SMALLER_JOIN, "4MB", 2.5, 200),
            query("distinct", DISTINCT, "60MB", 2.0, 100),
            query("window", WINDOW, "40MB", 2.9, 290),
        )

    demo: ClassVar[LabQuery] = verified(1)[2]

    def build(self, rows: int) -> None:
        """Creates the table in its own folder, unless it exists."""
        if not self._folder(rows).exists():
            self._make(rows, TABLE.format(rows=rows))

    def _make(self, rows: int, statements: str) -> None:
        query = {"folder": self._folder(rows), "sql": statements}
        with QueryProcess("ClickHouse", ChdbSession, query) as held:
            held.start()
            held.result()

    def hold(
        self, workload: LabQuery, temp: Path, environment: Mapping[str, str]
    ) -> AbstractContextManager[QueryProcess]:
        """A query in a separate process."""
        query = {
            "folder": self._folder(workload.rows),
            "sql": workload.sql,
            "temp": temp,
            "settings": self.settings_of(workload),
        }
        return QueryProcess("ClickHouse", ChdbSession, query, environment)

    def settings_of(self, workload: LabQuery) -> dict[str, Any]:
        """The settings of a query in ClickHouse: the memory beyond which each operator spills."""
        size_bytes = str(parse_bytes(workload.memory, "memory"))
        return {
            **RATIOS,
            "max_threads": str(workload.threads),
            "max_bytes_before_external_sort": size_bytes,
            "max_bytes_before_external_group_by": size_bytes,
            "max_bytes_before_external_distinct": size_bytes,
            "max_bytes_in_join": size_bytes,
            # Blocks of a sort below this size stay in memory.
            "min_external_sort_block_bytes": "1000000",
            **workload.settings,
        }

    def _folder(self, rows: int) -> Path:
        return self._workdir / f"clickhouse-{rows}"


class ChdbSession(QuerySession):
    """The query in a folder of tables, which only one process at a time may open."""

    def __init__(
        self,
        folder: str,
        sql: str,
        temp: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        from chdb import session

        self.pid, self._sql = os.getpid(), sql
        os.makedirs(folder, exist_ok=True)
        if temp is not None:
            # chdb puts its temp files into the folder, regardless of tmp_path.
            link = Path(folder, "tmp")
            if link.is_symlink():
                link.unlink()
            elif link.exists():
                link.rmdir()
            link.symlink_to(temp)
        self._connection = session.Session(folder)
        self._connection.query("create database if not exists lab")
        self._connection.query("use lab")
        for name, value in (settings or {}).items():
            self._connection.query(f"set {name} = '{value}'")

    def run(self) -> list[str]:
        """Runs the statements; returns the rows of the last one."""
        results = [self._connection.query(sql, "TSV") for sql in self._sql.split(";")]
        return str(results[-1]).splitlines()
