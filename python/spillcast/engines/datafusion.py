"""Experiments on DataFusion: queries that spill from a fair memory pool; hash joins never spill."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from spillcast.engines import Lab, LabQuery
from spillcast.engines.queries import QueryProcess, QuerySession
from spillcast.errors import ProgramMissing
from spillcast.text import sql_literal
from spillcast.units import parse_bytes

TABLE = """
copy (select value as id, (value * 7919) % 1000003 as part, (value * 104729) % 1000033 as kind,
             ((value * 15485863) % 1000037) / 100.0 as amount from range({rows})) to {path}
"""
SORT = (
    "select count(*), max(step) from (select id - lag(id) over (order by part, id) as step from t)"
)
GROUP_BY = """
select count(*), max(total) from (select part, sum(amount) as total, min(id) from t group by part)
"""
WINDOW = """
select count(*), max(total) from (
  select sum(amount) over (partition by kind order by id) as total from t where id < 1000000)
"""
DISTINCT = "select count(*), max(part) from (select distinct kind, part from t)"
#: A short timeout, because threads may wait for each other's memory for ever.
TIMEOUT_S = 60.0
#: The share of a thread's memory that a sort reserves for merging, and its maximum in bytes; a sort
#: with less fails.
MERGE_SHARE, MERGE_BYTES_MAX = 1 / 3, 12_000_000
ROWS, MEMORY_MB = 6_000_000, 36
#: Name, statement, and the CPU time (s) and temp operations of a run.
QUERIES = (
    ("sort", SORT, 1.2, 5200),
    ("group by", GROUP_BY, 0.8, 5200),
    ("window", WINDOW, 2.0, 1200),
    ("distinct", DISTINCT, 1.5, 5200),
)
DEMO = LabQuery("distinct", DISTINCT, rows=12_000_000, memory="72M")


class DataFusionLab(Lab):
    """DataFusion of this interpreter. ProgramMissing if it is not installed."""

    engine: ClassVar[str] = "datafusion"
    demo: ClassVar[LabQuery] = DEMO
    memory_spread: ClassVar[float] = 0.15

    def __init__(self, workdir: Path) -> None:
        try:
            import datafusion
        except ImportError:
            raise ProgramMissing("datafusion is not installed", "pip install datafusion") from None
        self._workdir = workdir
        self.version = datafusion.__version__
        self.label = f"DataFusion {self.version}"

    @staticmethod
    def verified(threads: int) -> Sequence[LabQuery]:
        """The queries of a verification: each thread has its share of the pool."""
        memory = f"{MEMORY_MB * threads}M"
        return [
            LabQuery(name, sql, ROWS, memory, threads, cpu_s=cpu_s, operations=operations)
            for name, sql, cpu_s, operations in QUERIES
        ]

    def build(self, rows: int) -> None:
        """Writes the table if it does not exist."""
        import datafusion

        [file] = self._tables(rows).values()
        if not file.exists():
            table = TABLE.format(rows=rows, path=sql_literal(str(file)))
            datafusion.SessionContext().sql(table).collect()

    def hold(
        self, workload: LabQuery, temp: Path, environment: Mapping[str, str]
    ) -> AbstractContextManager[QueryProcess]:
        """A query in a separate process."""
        query = {
            "sql": workload.sql,
            "tables": self._tables(workload.rows),
            "temp": temp,
            "memory_bytes": parse_bytes(workload.memory, "memory"),
            "threads": workload.threads,
        }
        threads = {"TOKIO_WORKER_THREADS": str(workload.threads), **environment}
        return QueryProcess("DataFusion", DataFusionSession, query, threads, TIMEOUT_S)

    def settings_of(self, workload: LabQuery) -> dict[str, Any]:
        """The settings of a query that meta.json keeps."""
        return {"memory": workload.memory, "target_partitions": workload.threads}

    def _tables(self, rows: int) -> Mapping[str, Path]:
        return {"t": self._workdir / f"{rows}.parquet"}


class DataFusionSession(QuerySession):
    """The query in a session of this process."""

    def __init__(
        self, sql: str, tables: Mapping[str, str], temp: str, memory_bytes: int, threads: int
    ) -> None:
        from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

        self.pid, self._sql = os.getpid(), sql
        runtime = RuntimeEnvBuilder().with_fair_spill_pool(memory_bytes)
        config = SessionConfig().with_target_partitions(threads)
        merge_bytes = MERGE_SHARE * memory_bytes / threads
        reserved = str(round(min(merge_bytes, MERGE_BYTES_MAX)))
        config.set("datafusion.execution.sort_spill_reservation_bytes", reserved)
        self._context = SessionContext(config, runtime.with_disk_manager_specified(temp))
        for name, file in tables.items():
            self._context.register_parquet(name, file)

    def run(self) -> list[Any]:
        """Runs the query and returns its rows."""
        batches = self._context.sql(self._sql).collect()
        return [row for batch in batches for row in batch.to_pylist()]
