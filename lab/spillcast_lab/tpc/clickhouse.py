"""TPC-H on ClickHouse, by chdb: queries that spill."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from spillcast.engines.clickhouse.lab import ClickHouseLab
from spillcast.engines.engine import Workload
from spillcast.engines.held import HeldQuery
from spillcast_lab.tpc.suite import TPCH, Spilling, chill, warm, workloads

#: Q17 and Q20 exceed no limit at this size, and others hardly.
TPCH_SPILLING = (
    Spilling("Q9", 3_000, 0.7, 140),
    Spilling("Q13", 2_000, 0.2, 50),
    Spilling("Q18", 3_000, 0.5, 60),
    Spilling("Q21", 3_000, 0.7, 70),
)


class ClickHouseTpch(ClickHouseLab):
    """ClickHouse on a folder of TPC-H's tables."""

    rows: ClassVar[int] = 6_000_000
    #: Tables generated and loaded.
    load_s: ClassVar[float] = 25.0

    @classmethod
    def verified(cls, threads: int) -> Sequence[Workload]:
        """The queries of a verification."""
        settings = {"join_algorithm": "grace_hash"}
        return workloads(TPCH, TPCH_SPILLING, threads, settings, cls.rows, cls.load_s)

    def build(self, rows: int) -> None:
        """Load the tables with so many rows of the largest, if they are not there."""
        if self._folder(rows).exists():
            return
        folder = TPCH.generate(self._room, rows)
        tables = [f"{table} engine = MergeTree order by tuple()" for table in TPCH.definitions]
        for name in TPCH.tables:
            tables.append(
                f"insert into {name} select * from file('{folder / name}.csv', CSVWithNames)"
            )
            tables.append(f"optimize table {name} final")
        self._make(rows, ";".join(tables))

    @contextmanager
    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """A query in a process of its own, its tables cold or warm."""
        with super().hold(workload, temp, environment) as held:
            files = self._folder(workload.rows).glob("store/**/*.bin")
            (chill if workload.cold else warm)(files)
            yield held

    def _folder(self, rows: int) -> Path:
        return self._room / f"clickhouse-{TPCH.name}-{rows}"
