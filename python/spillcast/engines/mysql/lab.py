"""MariaDB and MySQL in experiments: queries that spill, each in a private server."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from spillcast.engines.engine import Lab, Workload
from spillcast.engines.held import HeldQuery, Session, end_with_parent, serve, wait_until_ready
from spillcast.errors import ExperimentFailed, PackageMissing, ProgramMissing
from spillcast.recording.meta import ObservedEngine

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
#: Work for the CPU on each of the rows that spill.
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


def _workload(name: str, sql: str, tmp_table_size: str = "1048576") -> Workload:
    return Workload(name, sql, ROWS, tmp_table_size, settings=SMALL, cpu_s=0.8)


@dataclass(frozen=True)
class PrivateServer:
    """A server that runs: its process and its socket."""

    pid: int
    socket: Path


class ServerLab(Lab):
    """A server with its data in a directory. InputError where a program or package is missing."""

    #: As ``recording.meta`` names it, and for people.
    engine: ClassVar[str]
    title: ClassVar[str]
    #: Options of the server besides ``SERVER``.
    options: ClassVar[Sequence[str]] = ()
    #: A table of the numbers ``seq`` from 1 to ``{count}``, and the setting that allows it.
    numbers: ClassVar[str]
    setting: ClassVar[str]
    demo: ClassVar[Workload] = Workload(
        "sort", SORT, 1_000_000, LARGE["tmp_table_size"], settings={**SMALL, **LARGE}
    )

    def __init__(self, room: Path) -> None:
        try:
            import pymysql  # noqa: F401
        except ImportError:
            raise PackageMissing("MySQL needs PyMySQL", "pip install 'spillcast[mysql]'") from None
        self._home, self._rows = room / self.engine, 0
        self.data = self._home / "data"
        self._program, self._version = self._installed()
        self.label = f"{self.title} {self._version.partition('-')[0]}"
        self._home.mkdir()
        initialised = subprocess.run(self._initialise(), capture_output=True, text=True)
        if initialised.returncode:
            raise ExperimentFailed(f"{self.title}: {initialised.stderr.strip()[-300:]}")

    @classmethod
    def _installed(cls) -> tuple[str, str]:
        raise NotImplementedError

    def _initialise(self) -> list[str]:
        """Return the command that makes an empty ``data``, with a root without password."""
        raise NotImplementedError

    def build(self, rows: int) -> None:
        """Make the tables, in place of those of another size."""
        if self._rows == rows:
            return
        with self.serve(self._home) as server, closing(_connect(server.socket)) as connection:
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

    @contextmanager
    def serve(
        self, temp: Path, environment: Mapping[str, str] | None = None, *options: str
    ) -> Iterator[PrivateServer]:
        """Run a server whose temp files are in ``temp``; it ends with this process."""
        socket, log = self._home / "socket", self._home / "log"
        command = [
            self._program,
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={temp}",
            f"--socket={socket}",
            f"--pid-file={self._home / 'pid'}",
            *_as_root(),
            *SERVER,
            *self.options,
            *options,
        ]
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                preexec_fn=end_with_parent,
            )
        try:
            wait_until_ready(process, lambda: READY in log.read_text(), log, "[ERROR]")
            yield PrivateServer(process.pid, socket)
        finally:
            process.terminate()
            process.wait()

    @contextmanager
    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """Prepare a query in a server of its own."""
        with self.serve(temp, environment) as server:
            query = {
                "socket": str(server.socket),
                "pid": server.pid,
                "sql": workload.sql,
                "settings": {**workload.settings, "tmp_table_size": workload.memory},
            }
            with HeldQuery(self.title, __name__, query) as held:
                yield held

    def describe(self, workload: Workload) -> ObservedEngine:
        """Describe the query as a recording's meta.json keeps it."""
        return ObservedEngine(
            name=self.engine,
            version=self._version,
            sql=workload.sql.strip(),
            settings={**workload.settings, "tmp_table_size": workload.memory},
        )


class MariaDbLab(ServerLab):
    """MariaDB, as Debian installs it."""

    engine, title = "mariadb", "MariaDB"
    #: Temporary tables that do not fit are pages of Aria, which has a small cache for them.
    options = ("--aria-pagecache-buffer-size=1M",)
    numbers, setting = "seq_1_to_{count}", "do 0"

    @staticmethod
    def verified(threads: int) -> Sequence[Workload]:
        """Return the queries of a verification: a session has one thread."""
        if threads != 1:
            return ()
        return (
            Workload("sort", SORT, ROWS, LARGE["tmp_table_size"], settings={**SMALL, **LARGE}),
            _workload("count distinct", COUNT_DISTINCT, "196608"),
            _workload("group by", GROUP_BY),
            _workload("distinct", DISTINCT),
            _workload("window", WINDOW),
        )

    @classmethod
    def _installed(cls) -> tuple[str, str]:
        program = shutil.which("mariadbd", path=PROGRAM_PATH)
        if program is None or shutil.which("mariadb-install-db") is None:
            hint = "on Debian: apt-get install mariadb-server"
            raise ProgramMissing("mariadbd and mariadb-install-db are not installed", hint)
        return program, _version(program)

    def _initialise(self) -> list[str]:
        options = ["--no-defaults", f"--datadir={self.data}", "--skip-test-db"]
        return ["mariadb-install-db", *options, "--auth-root-authentication-method=normal"]


class MySqlLab(ServerLab):
    """MySQL 8, as its archives hold it: a program beside its folder ``share``."""

    engine, title = "mysql", "MySQL"
    options = ("--mysqlx=OFF",)
    numbers = (
        "(with recursive s as (select 1 as seq union all select seq + 1 from s where seq < {count})"
        " select seq from s) numbers"
    )
    setting = "set session cte_max_recursion_depth = 100000000"

    @staticmethod
    def verified(threads: int) -> Sequence[Workload]:
        """Return the queries of a verification: those whose own thread writes the temp files.

        Temporary tables are pages of InnoDB, or of files that are mapped.
        """
        if threads != 1:
            return ()
        settings = {**SMALL, **LARGE}
        queries = {
            "sort": SORT,
            "wide sort": WIDE_SORT,
            "group by": SORTED_GROUP_BY,
            "window": SORTED_WINDOW,
        }
        return (
            *(
                Workload(name, sql, ROWS, LARGE["tmp_table_size"], settings=settings, cpu_s=0.8)
                for name, sql in queries.items()
            ),
            _workload("count distinct", COUNT_DISTINCT, "196608"),
        )

    @classmethod
    def _installed(cls) -> tuple[str, str]:
        program = shutil.which("mysqld", path=PROGRAM_PATH)
        version = "" if program is None else _version(program)
        if program is None or not version or "MariaDB" in version:
            hint = "unpack an archive of MySQL 8 and add its folder bin to PATH"
            raise ProgramMissing("MySQL's mysqld is not installed", hint)
        return program, version

    def _initialise(self) -> list[str]:
        options = ["--no-defaults", f"--datadir={self.data}", "--initialize-insecure"]
        return [self._program, *options, *_as_root()]


def _version(program: str) -> str:
    printed = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return printed.partition("Ver ")[2].partition(" ")[0]


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


class ServerSession(Session):
    """The query in a session of a private server, whose tables are in memory."""

    def __init__(self, query: dict[str, Any]) -> None:
        self.pid, self._sql = query["pid"], query["sql"]
        self._cursor = _connect(Path(query["socket"]), "lab").cursor()
        for name, value in query["settings"].items():
            self._cursor.execute(f"set session {name} = {int(value)}")
        for statement in ("select sum(id) from t", "select sum(length(pad)) from wide"):
            self._cursor.execute(statement)

    def run(self) -> list[tuple[Any, ...]]:
        """Run the query; its rows."""
        self._cursor.execute(self._sql)
        return list(self._cursor.fetchall())


def _connect(socket: Path, database: str | None = None) -> Any:
    import pymysql

    return pymysql.connect(unix_socket=str(socket), user="root", database=database, autocommit=True)


if __name__ == "__main__":
    import pymysql

    serve(ServerSession, pymysql.Error)
