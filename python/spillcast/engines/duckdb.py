"""Experiments on DuckDB: queries that spill, with one database per table size."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Self

from spillcast.engines import Calibrates, LabQuery, RunsSql
from spillcast.engines.queries import QueryProcess, QuerySession, end_with_parent
from spillcast.errors import ExperimentFailed, PathMissing
from spillcast.interruptible import run_interruptibly
from spillcast.text import sql_literal

#: About 40 bytes per row.
TABLE = """
create table t as
select hash(i) % {rows} as id,
       date '2020-01-01' + cast(hash(i + 1) % 1500 as integer) as business_date,
       (hash(i + 2) % 1000000) / 100.0 as amount01,
       (hash(i + 3) % 1000000) / 100.0 as amount02,
       (hash(i + 4) % 1000000) / 100.0 as amount03
from range({rows}) as r(i)
"""

HASH_JOIN = """
select max(c.business_date)
from (select a.*, b.amount01 from t a, t b where a.id = b.id) c
"""
#: An ASOF join sorts both sides and merges them.
MERGE_JOIN = "select count(*), sum(b.amount02) from t a asof join t b on a.id >= b.id"
#: The offset is so large that all rows are sorted, not only the first ones.
SORT = "select amount01, id from t order by amount02, id limit 5 offset 1900000"
GROUP_BY = """
select count(*), max(total) from (
  select id, sum(amount01) as total, max(business_date), min(amount02) from t group by id
)
"""
COUNT_DISTINCT = "select count(distinct (id, amount03)) from t"
WINDOW = """
select max(running) from (
  select sum(amount01) over (partition by business_date order by id) as running from t
)
"""

DEMO = LabQuery("hash join", HASH_JOIN, rows=45_000_000, memory="400MB")
#: The command-line client on the PATH.
PROGRAM = "duckdb"
CALIBRATION_ROWS = 1_500_000


def _query(name: str, sql: str, memory: str = "36MB", rows: int = CALIBRATION_ROWS) -> LabQuery:
    return LabQuery(name, sql, rows, memory)


CALIBRATION_QUERIES = (
    _query(
        "join of equal amounts",
        "select count(*), sum(a.amount02 - b.amount02) from t a join t b "
        "on a.amount03 = b.amount03 and a.amount01 <= b.amount01",
    ),
    _query(
        "anti join",
        "select count(*), max(a.amount02) from t a where not exists "
        "(select 1 from t b where b.id = a.id + 7 and b.amount01 > a.amount02)",
    ),
    _query(
        "sort of text",
        "select md5(id::varchar) as text, amount03 from t order by text, amount03 "
        "limit 2 offset 900000",
        "44MB",
    ),
    _query(
        "group by two amounts",
        "select count(*), max(total), sum(few) from (select amount02, amount03, "
        "sum(amount01) as total, min(id) as few from t group by amount02, amount03)",
    ),
    _query(
        "difference to the last",
        "select sum(step) from (select amount03 - lag(amount03) over "
        "(partition by id % 2000 order by amount01) as step from t)",
    ),
    # A hash table that exceeds the CPU caches.
    _query(
        "join of many rows",
        "select count(*), sum(a.amount01 - b.amount03) from t a join t b "
        "on a.id = b.id and a.amount02 >= b.amount01",
        "110MB",
        5_000_000,
    ),
)


class DuckDbLab(Calibrates, RunsSql):
    """DuckDB with its databases in a directory, or with a database of the user."""

    engine: ClassVar[str] = "duckdb"
    demo: ClassVar[LabQuery] = DEMO
    compresses_writes: ClassVar[bool] = True
    calibrating: ClassVar[Sequence[LabQuery]] = CALIBRATION_QUERIES
    #: The command-line client that runs queries; None for the library of this interpreter.
    _program: Path | None = None

    def __init__(self, workdir: Path, database: Path | None = None) -> None:
        import duckdb

        self._workdir = workdir
        self._given = database
        self.version = duckdb.__version__
        self.label = f"DuckDB {self.version}"

    @classmethod
    def on(cls, workdir: Path, database: Path | None) -> Self:
        """With the user's database, or with an empty one."""
        import duckdb

        if database is None:
            database = workdir / "empty.db"
            duckdb.connect(str(database)).close()
        elif not database.is_file():
            raise PathMissing(f"--database {database}: there is no such file")
        return cls(workdir, database)

    @staticmethod
    def verified(threads: int) -> Sequence[LabQuery]:
        """The queries of a verification: 1 to 2 s of CPU and 500 to 2,000 temp operations each."""
        return (
            LabQuery("hash join", HASH_JOIN, 8_000_000, "130MB", threads),
            LabQuery("merge join", MERGE_JOIN, 2_000_000, "80MB", threads),
            LabQuery("sort", SORT, 4_000_000, "70MB", threads),
            LabQuery("group by", GROUP_BY, 6_000_000, "100MB", threads),
            LabQuery("count distinct", COUNT_DISTINCT, 8_000_000, "130MB", threads),
            LabQuery("window", WINDOW, 3_000_000, "50MB", threads),
        )

    @classmethod
    def calibrators(cls, workdir: Path, server: str | None) -> Sequence[Calibrates]:  # noqa: ARG003
        """DuckDB of this interpreter, and the client on the PATH if its version differs."""
        labs: list[DuckDbLab] = [cls(workdir)]
        program = shutil.which(PROGRAM)
        if program is not None:
            command_line = DuckDbCli(workdir, Path(program))
            if command_line.version != labs[0].version:
                labs.append(command_line)
        return labs

    def build(self, rows: int) -> None:
        """Creates the table in a new database file, unless it exists."""
        import duckdb

        if self._given or self._database(rows).exists():
            return
        with duckdb.connect(str(self._database(rows))) as connection:
            # The progress bar would go to stdout, which is for data.
            connection.execute("set threads = 2; set enable_progress_bar = false")
            make = TABLE.format(rows=rows)
            run_interruptibly(lambda: connection.execute(make), connection.interrupt)

    def hold(
        self, workload: LabQuery, temp: Path, environment: Mapping[str, str]
    ) -> AbstractContextManager[QueryProcess]:
        """A query in a separate process."""
        query = {
            "sql": workload.sql,
            "database": self._database(workload.rows),
            "settings": {
                "temp_directory": temp,
                "memory_limit": workload.memory,
                "threads": workload.threads,
                **workload.settings,
            },
        }
        if self._program is None:
            return QueryProcess("DuckDB", DuckDbSession, query, environment)
        query["program"] = self._program
        return QueryProcess("DuckDB", CommandLineSession, query, environment)

    def settings_of(self, workload: LabQuery) -> dict[str, Any]:
        """The settings of a query that meta.json keeps."""
        return {"memory_limit": workload.memory, "threads": workload.threads}

    def _database(self, rows: int) -> Path:
        return self._given or self._workdir / f"{rows}.db"


class DuckDbCli(DuckDbLab):
    """DuckDB's command-line client, with its own databases: versions differ in their file format.

    ExperimentFailed if the program cannot be run.
    """

    def __init__(self, workdir: Path, program: Path) -> None:
        self._workdir = workdir / "duckdb-command-line"
        self._workdir.mkdir()
        self._given = None
        self._program = program
        words = self._ran("--version").split()
        self.version = words[0].removeprefix("v") if words else ""
        self.label = f"DuckDB {self.version} command line"

    def build(self, rows: int) -> None:
        """Creates the table in a new database file, unless it exists."""
        database = self._database(rows)
        if not database.exists():
            self._ran("-init", "/dev/null", str(database), TABLE.format(rows=rows))

    def _ran(self, *words: str) -> str:
        assert self._program is not None
        command = [str(self._program), *words]
        ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode:
            raise ExperimentFailed(f"{self._program}: {ran.stderr.strip() or ran.returncode}")
        return ran.stdout


#: The text that the client prints after the rows of a statement.
ANSWERED = "spillcast: answered"


class DuckDbSession(QuerySession):
    """The query in a connection of this process."""

    def __init__(self, sql: str, database: str, settings: Mapping[str, Any]) -> None:
        import duckdb

        self.pid, self._sql = os.getpid(), sql
        self._connection = duckdb.connect(database, read_only=True)
        for name, value in settings.items():
            self._connection.execute(f"set {name} = {sql_literal(str(value))}")
        self._connection.execute("set preserve_insertion_order = false")
        self._profiled = "enable_profiling" in settings

    def run(self) -> list[tuple[Any, ...]]:
        """Runs the query and returns its rows."""
        return self._connection.execute(self._sql).fetchall()

    def peak_buffer_bytes(self) -> int | None:
        """The peak buffer memory of the query; None if it was not profiled."""
        if not self._profiled:
            return None
        profile = self._connection.get_profiling_information()
        document: dict[str, Any] = json.loads(profile) if isinstance(profile, str) else profile
        return int(document["system"]["peak_buffer_memory"])


class CommandLineSession(QuerySession):
    """The query in DuckDB's command-line client, a process that reads statements from a pipe."""

    def __init__(self, sql: str, database: str, settings: Mapping[str, Any], program: str) -> None:
        self._sql = sql
        command = [program, "-init", "/dev/null", "-bail", "-readonly", "-csv", "-noheader"]
        self._process = subprocess.Popen(
            [*command, database],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=end_with_parent,
        )
        self.pid = self._process.pid
        values = {**settings, "preserve_insertion_order": "false"}
        statements = (
            f"set {name} = {sql_literal(str(value))};\n" for name, value in values.items()
        )
        self._output_of("".join(statements))

    def run(self) -> list[tuple[Any, ...]]:
        """Runs the query and returns its rows."""
        return [tuple(line.split(",")) for line in self._output_of(f"{self._sql};\n")]

    def _output_of(self, statements: str) -> list[str]:
        """The lines that statements print. RuntimeError if one fails, which ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statements}select '{ANSWERED}';\n")
        self._process.stdin.flush()
        lines = list[str]()
        for line in map(str.rstrip, self._process.stdout):
            if line == ANSWERED:
                return lines
            lines.append(line)
        raise RuntimeError("\n".join(lines) or "the command line ended")
