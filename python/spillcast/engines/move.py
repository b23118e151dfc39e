"""Moves of temp files: their steps and how to undo them; moves that are only printed."""

import os
import pwd
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Annotated, Any

import typer

from spillcast.errors import ChoiceUnknown, OptionInvalid, SpillTooLarge
from spillcast.recording.observed import meminfo_bytes, proc_text, status_of
from spillcast.text import shell_word, sql_literal
from spillcast.units import format_bytes, format_mount_size, parse_bytes


@dataclass(frozen=True)
class Step:
    """A step and its reason: a command for a shell, or statements for a client.

    If a step has several statements, they are one transaction.
    """

    why: str
    command: str | None = None
    sql: tuple[str, ...] = ()
    #: The command that runs ``sql`` from its standard input; empty if a session is open.
    client: str = ""
    done: bool = False

    def to_json(self) -> dict[str, Any]:
        """Its keys in a document ``spillcast.move/1``."""
        action = {"sql": "\n".join(self.script)} if self.sql else {"command": self.command}
        return {**action, "done": self.done, "why": self.why}

    @property
    def script(self) -> tuple[str, ...]:
        """The statements as the user types them."""
        statements = tuple(f"{statement};" for statement in self.sql)
        return ("BEGIN;", *statements, "COMMIT;") if len(statements) > 1 else statements


@dataclass
class Move:
    """The steps that move the temp files of ``whom`` to ``to``, and the steps that undo it."""

    engine: str
    to: str
    whom: str
    steps: list[Step]
    #: The steps that undo the move; empty if the move itself undoes one.
    revert: list[Step] = field(default_factory=list)
    tablespace: str | None = None
    applied: bool = False
    reverted: bool = False
    #: Temp files in the new directory: ``session``, ``files``, ``bytes``; None if not verified.
    verified: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    #: What prevents the tablespace from being dropped, as text.
    left: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The document ``spillcast.move/1``."""
        return {
            "schema": "spillcast.move/1",
            "engine": self.engine,
            "to": self.to,
            "for": self.whom,
            "tablespace": self.tablespace,
            "applied": self.applied,
            "reverted": self.reverted,
            "steps": [step.to_json() for step in self.steps],
            "verified": self.verified,
            "revert": [step.to_json() for step in self.revert],
            "warnings": self.warnings,
            "left": self.left,
        }


def limit_bytes(size: str) -> int:
    """The bytes of ``--size``. InputError if it is too small for a mount or a server."""
    size_bytes = parse_bytes(size, "--size")
    if size_bytes < 1 << 20:
        raise OptionInvalid(f"--size {size} is less than 1 MiB")
    return size_bytes


def move_tmpfs(
    to: Annotated[Path, typer.Option(metavar="DIR", help="Mount point.")],
    size: Annotated[str, typer.Option(metavar="SIZE", help="Largest size, such as 8G.")],
    owner: Annotated[
        str | None,
        typer.Option(metavar="USER", help="User it is for (default: everybody)."),
    ] = None,
) -> Move:
    """tmpfs: a mount in memory for temp files, on this machine. Only prints the steps.

    Example: spillcast move tmpfs --to /mnt/temp --size 8G --owner postgres
    """
    size_bytes = limit_bytes(size)
    if not to.is_absolute() or to == Path("/"):
        raise OptionInvalid(f"--to {to} is not an absolute path such as /mnt/temp")
    meminfo = meminfo_bytes()
    available, swap = meminfo["MemAvailable"], meminfo.get("SwapFree", 0)
    if size_bytes > available:
        raise SpillTooLarge(
            f"{format_bytes(size_bytes)} of temp files do not fit: this machine has "
            f"{format_bytes(available)} of memory available, and {format_bytes(swap)} of swap",
            "a full mount would make the machine swap or stall; give a smaller --size",
        )
    mode = "mode=1777"
    if owner is not None:
        try:
            user = pwd.getpwnam(owner)
        except KeyError:
            raise ChoiceUnknown(f"--owner {owner}: there is no such user") from None
        mode = f"mode=0700,uid={user.pw_uid},gid={user.pw_gid}"
    options = f"size={format_mount_size(size_bytes)},{mode}"
    path = shell_word(to)
    in_fstab = "".join(f"\\{ord(c):03o}" if c in " \t\n\\#" else c for c in str(to))
    line = f"tmpfs {in_fstab} tmpfs {options} 0 0"
    enough = (
        f"""[ "$(awk '/^MemAvailable:/ {{print $2}}' /proc/meminfo)" -ge {size_bytes >> 10} ]"""
    )
    steps = [
        Step("Create the mount point.", f"mkdir -p {path}"),
        Step(
            f"Only while {format_bytes(size_bytes)} of memory are available (here in KiB):",
            f"{enough} &&\n  mount -t tmpfs -o {options} tmpfs {path}",
        ),
        Step("Check its size and what it holds.", f"df -h {path}"),
        Step("Mount it after a restart, too.", f"printf '%s\\n' {shell_word(line)} >> /etc/fstab"),
    ]
    # sed interprets the line as a basic regular expression.
    escaped = "".join(f"\\{c}" if c in "\\.*[]^$#" else c for c in line)
    pattern = shell_word(f"\\#^{escaped}$#d")
    revert = [
        Step("Refused while a file in it is open.", f"umount {path}"),
        Step("Removed only if it is empty.", f"rmdir {path}"),
        Step("Do not mount it at the next start.", f"sed -i {pattern} /etc/fstab"),
    ]
    warnings = [
        f"its pages are memory that queries cannot use: {format_bytes(size_bytes)} of the "
        f"{format_bytes(available)} that are available now, charged to the memory cgroup of "
        "whoever writes them",
        "what is in it is gone after a restart, the directory of a tablespace too",
    ]
    return Move("tmpfs", str(to), owner or "everybody", steps, revert, warnings=warnings)


Size = Annotated[str | None, typer.Option(metavar="SIZE", help="Their limit, such as 100G.")]


def move_duckdb(
    to: Annotated[Path, typer.Option(help="Directory of the temp files.")], size: Size = None
) -> Move:
    """DuckDB: the settings of a session. Only prints the steps.

    Example: spillcast move duckdb --to /mnt/nvme/duckdb --size 100G
    """
    path = os.path.abspath(to)
    directory = sql_literal(path)
    why = "Before the session spills for the first time: DuckDB refuses it afterwards."
    steps = [Step(why, sql=(f"SET temp_directory = {directory}",))]
    why = "In a session that has not spilled yet; a new session has the default anyway."
    revert = [Step(why, sql=("RESET temp_directory",))]
    limit = ""
    if size is not None:
        text = f"{format_mount_size(limit_bytes(size))}iB"
        limit = f", 'max_temp_directory_size': '{text}'"
        statement = f"SET max_temp_directory_size = {sql_literal(text)}"
        why = "A query that needs more fails; without a limit it may take 90 % of the free space."
        steps.append(Step(why, sql=(statement,)))
        revert.append(Step("The limit.", sql=("RESET max_temp_directory_size",)))
    why = "In a second connection while a query spills: its files are there."
    steps.append(Step(why, sql=("SELECT path, size FROM duckdb_temporary_files()",)))
    warnings = [
        "a database keeps no settings: to have them in every session, put the SET statements into "
        "~/.duckdbrc for DuckDB's shell, or for Python write duckdb.connect(FILE, "
        f"config={{'temp_directory': {directory}{limit}}})",
    ]
    return Move("duckdb", path, "session", steps, revert, warnings=warnings)


CLICKHOUSE_CONFIG = "/etc/clickhouse-server/config.d/spillcast_tmp.xml"
#: Shows the current directory of temp files, and its limit.
CLICKHOUSE_CHECK = (
    'clickhouse-client --query "SELECT name, value FROM system.server_settings WHERE name IN '
    "('tmp_path', 'tmp_policy', 'temporary_data_in_cache', 'max_temporary_data_on_disk_size')\""
)


def move_clickhouse(
    to: Annotated[Path, typer.Option(help="Directory of the temp files, for ClickHouse alone.")],
    size: Size = None,
) -> Move:
    """ClickHouse: configuration that a server reads at a restart. Only prints the steps.

    Example: spillcast move clickhouse --to /mnt/nvme/clickhouse --size 100G
    """
    path = os.path.abspath(to)
    if path == "/":
        raise OptionInvalid(f"--to {to} is not a directory for temp files")
    limit = ""
    if size is not None:
        name = "max_temporary_data_on_disk_size"
        limit = f"\n  <{name}>{limit_bytes(size)}</{name}>"
    # Either of these would take precedence over tmp_path.
    config = (
        f'<clickhouse>\n  <tmp_policy remove="1"/>\n  <temporary_data_in_cache remove="1"/>\n'
        f"  <tmp_path>{escape(path, quote=False)}/</tmp_path>{limit}\n</clickhouse>"
    )
    restart = Step(
        "The server reads tmp_path only when it starts: running queries end.",
        "systemctl restart clickhouse-server",
    )
    steps = [
        Step("Note what is in use now.", CLICKHOUSE_CHECK),
        Step(
            "A directory for the server alone: when it starts, it deletes files in it "
            "that begin with tmp.",
            f"install -d -o clickhouse -g clickhouse -m 750 {shell_word(f'{path}/')}",
        ),
        Step(
            "Write a new file.",
            f"set -C; cat > {CLICKHOUSE_CONFIG} <<'XML'\n{config}\nXML",
        ),
        Step("Let the server read it.", f"chown clickhouse: {CLICKHOUSE_CONFIG}"),
        restart,
        Step("Check that the server uses it.", CLICKHOUSE_CHECK),
    ]
    revert = [Step("Restore the previous setting.", f"rm {CLICKHOUSE_CONFIG}"), restart]
    warnings = [
        "ClickHouse Cloud and managed servers have no access to tmp_path",
        "a policy of storage (tmp_policy) with several disks is replaced by this one directory",
    ]
    if not os.path.isdir(path):
        warnings.append(f"{path} does not exist on this machine")
    return Move("clickhouse", path, "server", steps, revert, warnings=warnings)


_MYSQL_SETTINGS = (
    "tmpdir",
    "innodb_tmpdir",
    "innodb_temp_tablespaces_dir",
    "innodb_temp_data_file_path",
    "datadir",
)
#: With Debian's packages, both servers read the files in this folder.
_MYSQL_FILE = Path("/etc/mysql/conf.d/spillcast-temp.cnf")
#: Folders that ProtectHome and ProtectSystem in the packages' systemd units hide or write-protect.
_MYSQL_PROTECTED = ("/home", "/root", "/run/user", "/usr", "/boot", "/etc")


def move_mysql(
    to: Annotated[Path, typer.Option(help="Directory of the temp files.")],
    dsn: Annotated[
        str | None, typer.Argument(help="Server, such as mysql://root@localhost or a socket.")
    ] = None,
    user: Annotated[str, typer.Option(metavar="USER", help="The server's user.")] = "mysql",
) -> Move:
    """MySQL and MariaDB: settings of a server, read at a restart. Only prints the steps.

    With a DSN it reads the present settings and checks the directory's rights and free space.

    Example: spillcast move mysql mysql://root@localhost --to /mnt/nvme/mysql
    """
    path = os.path.abspath(to)
    if re.search(r"[\s:;#\"'\\]", path):
        raise OptionInvalid(
            f"--to {to}: a setting of MySQL cannot hold this path",
            "give a directory without blanks, quotes, backslashes, and : ; #",
        )
    present, service, checks = dict[str, str](), "mariadb", list[str]()
    if dsn is not None:
        from spillcast.engines import mysql

        with mysql.connected(dsn) as connection:
            server = mysql.server_of(connection)
            present, service = mysql.variables(connection, *_MYSQL_SETTINGS), server.flavor
            local, reason = mysql.local_server(connection, server)
        checks = [f"the directory was not checked: {reason}"]
        if local is not None:
            checks = _mysql_checks(path, local.pid)
    client = service if dsn is None else mysql.client_command(dsn, service)
    text = _mysql_option_file(path, None if dsn is None else present)
    checking = "SELECT @@tmpdir, @@innodb_tmpdir, @@innodb_temp_data_file_path"
    restart = Step(
        "The server reads all but innodb_tmpdir only when it starts: sessions end.",
        f"systemctl restart {service}",
    )
    directory, file, owner = map(shell_word, (path, _MYSQL_FILE, user))
    steps = [
        Step(
            "Create the directory, for the server alone.",
            f"install -d -o {owner} -g {owner} -m 0750 {directory}",
        ),
        Step(
            "Move filesorts, temporary tables on disk and InnoDB's temporary tablespaces.",
            f"cat > {file} <<'END'\n{text}\nEND",
        ),
        restart,
        Step("Check that the server uses it.", sql=(checking,), client=client),
    ]
    revert = [Step("Restore the previous settings.", f"rm {file}"), restart]
    now = "; ".join(
        f"{name} = {present[name]}" for name in _MYSQL_SETTINGS[:4] if present.get(name)
    )
    warnings = [f"now {now}"] if now else []
    warnings += checks
    if any(Path(path).is_relative_to(folder) for folder in _MYSQL_PROTECTED):
        warnings.append(
            "systemd units with ProtectHome or ProtectSystem keep the server out of this directory"
        )
    warnings.append(
        "where AppArmor confines the server, allow the directory in "
        f"/etc/apparmor.d/local/usr.sbin.mysqld: {path}/** rwk,"
    )
    return Move("mysql", path, "server", steps, revert, warnings=warnings)


def _mysql_option_file(path: str, present: Mapping[str, str] | None) -> str:
    """The option file for temp files in ``path``; ``present``: settings of the server, if known."""
    lines = ["[mysqld]", f"tmpdir = {path}", f"innodb_tmpdir = {path}"]
    if present is None:
        lines.append(f"# MySQL 8: innodb_temp_tablespaces_dir = {path}")
    elif "innodb_temp_tablespaces_dir" in present:
        lines.append(f"innodb_temp_tablespaces_dir = {path}")
    # innodb_temp_data_file_path is relative to the data directory.
    relative = os.path.relpath(path, (present or {}).get("datadir", "/var/lib/mysql"))
    lines.append(f"innodb_temp_data_file_path = {relative}/ibtmp1:12M:autoextend")
    return "\n".join(lines)


def _mysql_checks(path: str, pid: int) -> list[str]:
    """Warnings about a directory: its free space, and permissions that the server's user lacks."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    checks = [f"{format_bytes(shutil.disk_usage(place).free)} are free in {place}"]
    if process := status_of(pid):
        user, group = (int(process[name].split()[0]) for name in ("Uid", "Gid"))
        status = place.stat()
        shift = 6 if status.st_uid == user else 3 if status.st_gid == group else 0
        if str(place) == path and user and (status.st_mode >> shift) & 0o3 != 0o3:
            checks.append(f"the server's user (uid {user}) may not write into {place}")
    profile = proc_text(f"{pid}/attr/current").strip()
    if "enforce" in profile:
        checks.append(f"AppArmor confines the server now: {profile}")
    return checks
