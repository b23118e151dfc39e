"""Temp files of MySQL and MariaDB to another directory: a file of settings, and a restart."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from spillcast.engines.move import Move, Step
from spillcast.errors import OptionInvalid
from spillcast.text import shell_word
from spillcast.units import format_bytes

SETTINGS = (
    "tmpdir",
    "innodb_tmpdir",
    "innodb_temp_tablespaces_dir",
    "innodb_temp_data_file_path",
    "datadir",
)
#: Debian's packages; both servers read it.
FILE = Path("/etc/mysql/conf.d/spillcast-temp.cnf")
#: What ProtectHome and ProtectSystem of the packages' systemd units hide or write-protect.
PROTECTED = ("/home", "/root", "/run/user", "/usr", "/boot", "/etc")


def move(
    to: Annotated[Path, typer.Option(help="Directory of the temp files.")],
    dsn: Annotated[
        str | None, typer.Argument(help="Server, such as mysql://root@localhost or a socket.")
    ] = None,
    user: Annotated[str, typer.Option(help="The server's user of the system.")] = "mysql",
) -> Move:
    """MySQL and MariaDB: settings of a server, read at a restart. Only prints the steps.

    With a DSN it reads the present settings and checks the directory's rights and free space.

    Example: spillcast move mysql mysql://root@localhost --to /mnt/nvme/mysql
    """
    path = os.path.abspath(to)
    if re.search(r"[\s:;#\"'\\]", path):
        raise OptionInvalid(
            f"--to {to}: a setting of MySQL cannot name it as it is",
            "give a directory without blanks, quotes, backslashes, and : ; #",
        )
    present, flavor, checks = dict[str, str](), "mariadb", list[str]()
    if dsn is not None:
        from spillcast.engines.mysql.server import connected, local_server, server_of, variables

        with connected(dsn) as connection:
            server = server_of(connection)
            present, flavor = variables(connection, *SETTINGS), server.flavor
            local, reason = local_server(connection, server)
        checks = [f"the directory was not checked: {reason}"]
        if local is not None:
            checks = _checks(path, local.pid)
    service = "mariadb" if flavor == "mariadb" else "mysql"
    lines = [f"tmpdir = {path}", f"innodb_tmpdir = {path}"]
    if dsn is None or "innodb_temp_tablespaces_dir" in present:
        lines.append(f"{'# MySQL 8: ' if dsn is None else ''}innodb_temp_tablespaces_dir = {path}")
    # It is relative to the data directory.
    relative = os.path.relpath(path, present.get("datadir", "/var/lib/mysql"))
    lines.append(f"innodb_temp_data_file_path = {relative}/ibtmp1:12M:autoextend")
    text = "\n".join(["[mysqld]", *lines])
    checking = "SELECT @@tmpdir, @@innodb_tmpdir, @@innodb_temp_data_file_path"
    restart = Step(
        "All of them but innodb_tmpdir are read at the start only: sessions end.",
        f"systemctl restart {service}",
    )
    directory, file, owner = map(shell_word, (path, FILE, user))
    steps = [
        Step(
            "The directory, for the server alone.",
            f"install -d -o {owner} -g {owner} -m 0750 {directory}",
        ),
        Step(
            "Filesorts, temporary tables on disk and InnoDB's temporary tablespaces.",
            f"cat > {file} <<'END'\n{text}\nEND",
        ),
        restart,
        Step("Afterwards.", sql=(checking,), client=service),
    ]
    revert = [Step("The former settings hold again.", f"rm {file}"), restart]
    held = "; ".join(f"{name} = {present[name]}" for name in SETTINGS[:4] if present.get(name))
    warnings = [f"now {held}"] if held else []
    warnings += checks
    if path.startswith(PROTECTED):
        warnings.append(
            "systemd units with ProtectHome or ProtectSystem keep the server out of this directory"
        )
    warnings.append(
        "where AppArmor confines the server, allow the directory in "
        f"/etc/apparmor.d/local/usr.sbin.mysqld: {path}/** rwk,"
    )
    return Move("mysql", path, "server", steps, revert, warnings=warnings)


def _checks(path: str, pid: int) -> list[str]:
    """Return what the server's user lacks in the directory, and its free space."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    checks = [f"{format_bytes(shutil.disk_usage(place).free)} are free in {place}"]
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        ids = [re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE) for name in ("Uid", "Gid")]
        user, group = (int(match[1]) if match else -1 for match in ids)
        held = place.stat()
        shift = 6 if held.st_uid == user else 3 if held.st_gid == group else 0
        if str(place) == path and user and (held.st_mode >> shift) & 0o3 != 0o3:
            checks.append(f"the server's user (uid {user}) may not write into {place}")
        profile = Path(f"/proc/{pid}/attr/current").read_text().strip()
        if "enforce" in profile:
            checks.append(f"AppArmor confines the server now: {profile}")
    return checks
