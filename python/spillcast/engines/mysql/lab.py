"""Experiments on MariaDB and MySQL: queries that spill, each in a private server."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from spillcast.engines import Lab, LabQuery
from spillcast.engines.queries import QueryProcess, QuerySession, ending_with_us, running_server
from spillcast.errors import ExperimentFailed, PackageMissing, ProgramMissing

PROGRAM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
READY = ": ready for connections."
#: Rows of the wide table for each row of the narrow one.
WIDE_SHARE = 1 / 200
TABLES = (
    "drop table if exists t, wide",
    "create table t (id int, part int, amount01 decimal(10, 2), amount02 decimal(10, 2))",
    "insert into t select crc32(seq) % {rows}, crc32(concat('p', seq)) % 30000, "
    "crc32(concat('a', seq)) % 1000000 / 100, crc32(concat('b', seq)) % 1000000 / 100 "
    "from {rows_source}",
    "create table wide (id int, part int, pad varchar(6000) character set latin1)",
    "insert into wide select seq, crc32(seq) % 40, repeat(md5(seq), 180) from {wide_source}",
    "analyze table t, wide",
)
ROWS = 600_000
#: CPU work for each row that spills.
WORK = "sha2(repeat({text}, 100), 256)"
SORT = """
select max(sha2(concat(amount01, amount02), 256)) from (
  select amount01, amount02 from t order by amount02, id limit 590000
) s
"""
COUNT_DISTINCT = "select count(distinct id, amount01), max(sha2(amount02, 256)) from t"
GROUP_BY = f"""
select count(*), max({WORK.format(text="pad")}) from (
  select pad, count(*) as rows_of_pad from wide where id <= 400 group by pad
) s
"""
DISTINCT = f"""
select count(*), max({WORK.format(text="pad")}) from (
  select distinct part, pad from wide where id <= 400
) s
"""
WINDOW = f"""
select max({WORK.format(text="last_pad")}) from (
  select lag(pad) over (partition by part order by id) as last_pad from wide where id <= 350
) s
"""
WIDE_SORT = f"""
select max({WORK.format(text="pad")}) from (
  select pad from wide where id <= 2000 order by part, id limit 2000
) s
"""
SORTED_GROUP_BY = f"""
select count(*), max({WORK.format(text="pad")}) from (
  select sql_big_result pad, count(*) as rows_of_pad from wide where id <= 1500 group by pad
) s
"""
SORTED_WINDOW = """
select max(sha2(last_id, 256)) from (
  select lag(id) over (partition by part order by amount01) as last_id from t
) s
"""
SERVER = (
    "--skip-networking",
    "--skip-log-bin",
    "--performance-schema=OFF",
    "--innodb-buffer-pool-size=256M",
    "--innodb-use-native-aio=0",
    "--innodb-flush-log-at-trx-commit=0",
)
SMALL = {"max_heap_table_size": "1048576", "sort_buffer_size": "262144"}
LARGE = {"tmp_table_size": "1073741824", "max_heap_table_size": "1073741824"}


def _workload(name: str, sql: str, tmp_table_size: str = "1048576") -> LabQuery:
    return LabQuery(name, sql, ROWS, tmp_table_size, settings=SMALL, cpu_s=0.8)


def _sorted(name: str, sql: str, rows: int = ROWS, cpu_s: float = 1.2) -> LabQuery:
    """A query of which only the sort spills: its temporary tables stay in memory."""
    settings = {**SMALL, **LARGE}
    return LabQuery(name, sql, rows, LARGE["tmp_table_size"], settings=settings, cpu_s=cpu_s)


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


class ServerLab(Lab):
    """A server with its data in a directory. InputError if a program or package is missing."""

    #: Its name in messages.
    title: ClassVar[str]
    #: The server's program, how to install it, and the command that creates an empty data directory
    #: with a root user without password.
    program: ClassVar[str]
    hint: ClassVar[str]
    initialise: ClassVar[Sequence[str]]
    #: Options of the server besides ``SERVER``.
    options: ClassVar[Sequence[str]] = ()
    #: A table of the numbers ``seq`` from 1 to ``{count}``, and the statement to run before it.
    numbers: ClassVar[str]
    setting: ClassVar[str]
    queries: ClassVar[Sequence[LabQuery]]
    demo: ClassVar[LabQuery] = _sorted("sort", SORT, 1_000_000)

    def __init__(self, workdir: Path) -> None:
        try:
            import pymysql  # noqa: F401
        except ImportError:
            raise PackageMissing("MySQL needs PyMySQL", "pip install 'spillcast[mysql]'") from None
        self._home, self._rows = workdir / self.engine, 0
        self.data, self.socket = self._home / "data", self._home / "socket"
        names = self.program, self.initialise[0]
        program, initialise = (shutil.which(name, path=PROGRAM_PATH) for name in names)
        printed = ""
        if program is not None:
            command = [program, "--version"]
            printed = subprocess.run(command, capture_output=True, text=True).stdout
        self.version = printed.partition("Ver ")[2].partition(" ")[0]
        # Debian's mysqld may be MariaDB.
        is_other = ("MariaDB" in self.version) != (self.engine == "mariadb")
        if program is None or initialise is None or not self.version or is_other:
            raise ProgramMissing(
                f"{self.title}'s {' and '.join(dict.fromkeys(names))} are not installed", self.hint
            )
        self._program = program
        self.label = f"{self.title} {self.version.partition('-')[0]}"
        self._home.mkdir()
        options = ["--no-defaults", f"--datadir={self.data}", *self.initialise[1:]]
        initialised = subprocess.run(
            [initialise, *options],
            capture_output=True,
            text=True,
            **ending_with_us(signal.SIGTERM),
        )
        if initialised.returncode:
            raise ExperimentFailed(f"{self.title}: {initialised.stderr.strip()[-300:]}")

    @classmethod
    def verified(cls, threads: int) -> Sequence[LabQuery]:
        """The queries of a verification: a session has one thread."""
        return cls.queries if threads == 1 else ()

    def build(self, rows: int) -> None:
        """Creates the tables, unless they already have this number of rows."""
        if self._rows == rows:
            return
        with self.serve(self._home), closing(_connect(self.socket)) as connection:
            cursor = connection.cursor()
            cursor.execute("create database if not exists lab")
            cursor.execute("use lab")
            cursor.execute(self.setting)
            sources = {
                "rows_source": self.numbers.format(count=rows),
                "wide_source": self.numbers.format(count=round(rows * WIDE_SHARE)),
            }
            for statement in TABLES:
                cursor.execute(statement.format(rows=rows, **sources))
        self._rows = rows

    def serve(
        self, temp: Path, environment: Mapping[str, str] | None = None, *options: str
    ) -> AbstractContextManager["subprocess.Popen[bytes]"]:
        """Runs a server whose temp files are in ``temp``; it ends with this process."""
        log = self._home / "log"
        command = [
            self._program,
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={temp}",
            f"--socket={self.socket}",
            f"--pid-file={self._home / 'pid'}",
            *_as_root(),
            *SERVER,
            *self.options,
            *options,
        ]
        return running_server(
            command,
            lambda: READY in log.read_text(),
            log,
            mark="[ERROR]",
            env={**os.environ, **(environment or {})},
        )

    @contextmanager
    def hold(
        self, workload: LabQuery, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[QueryProcess]:
        """Prepares a query in a new server."""
        with self.serve(temp, environment) as server:
            query = {
                "socket": self.socket,
                "pid": server.pid,
                "sql": workload.sql,
                "settings": self.settings_of(workload),
            }
            with QueryProcess(self.title, ServerSession, query) as held:
                yield held

    def settings_of(self, workload: LabQuery) -> dict[str, Any]:
        """The settings of a query that meta.json keeps."""
        return {**workload.settings, "tmp_table_size": workload.memory}


class MariaDbLab(ServerLab):
    """MariaDB, as Debian installs it."""

    engine, title, program = "mariadb", "MariaDB", "mariadbd"
    hint = "on Debian: apt-get install mariadb-server"
    initialise = (
        "mariadb-install-db", "--skip-test-db", "--auth-root-authentication-method=normal",
    )  # fmt: skip
    #: Temporary tables on disk consist of Aria pages; the cache for them is kept small.
    options = ("--aria-pagecache-buffer-size=1M",)
    numbers, setting = "seq_1_to_{count}", "do 0"
    queries = (
        _sorted("sort", SORT),
        _workload("count distinct", COUNT_DISTINCT, "196608"),
        _workload("group by", GROUP_BY),
        _workload("distinct", DISTINCT),
        _workload("window", WINDOW),
    )


class MySqlLab(ServerLab):
    """MySQL 8 from an archive: a program next to its folder ``share``."""

    engine, title, program = "mysql", "MySQL", "mysqld"
    hint = "unpack an archive of MySQL 8 and add its folder bin to PATH"
    initialise = ("mysqld", "--initialize-insecure", *_as_root())
    options = ("--mysqlx=OFF",)
    numbers = (
        "(with recursive s as (select 1 as seq union all select seq + 1 from s where seq < {count})"
        " select seq from s) numbers"
    )
    setting = "set session cte_max_recursion_depth = 100000000"
    #: Queries whose temp files the session's thread writes. Temporary tables do not qualify: they
    #: are InnoDB pages, which InnoDB's own threads write, or are in memory-mapped files.
    queries = (
        _sorted("sort", SORT, cpu_s=0.8),
        _sorted("wide sort", WIDE_SORT, cpu_s=0.8),
        _sorted("group by", SORTED_GROUP_BY, cpu_s=0.8),
        _sorted("window", SORTED_WINDOW, cpu_s=0.8),
        _workload("count distinct", COUNT_DISTINCT, "196608"),
    )


class ServerSession(QuerySession):
    """The query in a session of a private server, whose tables are in memory."""

    def __init__(self, socket: str, pid: int, sql: str, settings: Mapping[str, str]) -> None:
        self.pid, self._sql = pid, sql
        self._cursor = _connect(Path(socket), "lab").cursor()
        for name, value in settings.items():
            self._cursor.execute(f"set session {name} = {int(value)}")
        for statement in ("select sum(id) from t", "select sum(length(pad)) from wide"):
            self._cursor.execute(statement)

    def run(self) -> list[tuple[Any, ...]]:
        """Runs the query and returns its rows."""
        self._cursor.execute(self._sql)
        return list(self._cursor.fetchall())


def _connect(socket: Path, database: str | None = None) -> Any:
    import pymysql

    return pymysql.connect(unix_socket=str(socket), user="root", database=database, autocommit=True)
