"""Rehearses commands: runs them again for a limited time, with temp files on other storage."""

import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from spillcast.errors import OptionInvalid, ProgramMissing, RehearsalFailed, RehearsalRefused
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.observed import describe_exit, held_command, proc_text
from spillcast.recording.record import KnownRun, Recorder, held_and_observed
from spillcast.redaction import MASK
from spillcast.units import format_duration
from spillcast.workspace import undone_by, workspace

if TYPE_CHECKING:
    from spillcast import _core

#: The remedy for a rehearsal without temp I/O.
LONGER_HINT = "rehearse longer, or leave out --rehearse"
#: Time between SIGTERM and SIGKILL.
GRACE_S = 2.0
#: Kills all processes with a mount of the first name, and removes the other directories if empty.
_GUARD = """
name="$1"; shift
attempt=0
while [ "$attempt" -lt 50 ]; do
    attempt=$((attempt + 1))
    # The status of grep is a failure if any process of the machine ends meanwhile.
    mounts=$(grep -l -s -F -e "$name" /proc/[0-9]*/mountinfo)
    [ -n "$mounts" ] || break
    for mount in $mounts; do
        pid="${mount#/proc/}"; kill -KILL "${pid%/mountinfo}" 2>/dev/null
    done
    sleep 0.05
done
for directory in "$@"; do rmdir -- "$directory" 2>/dev/null; done
"""


@dataclass(frozen=True)
class Replaced:
    """Pairs of a replacement and the directory at which a command sees it."""

    name: str
    pairs: Sequence[tuple[Path, Path]]

    def processes(self) -> list[int]:
        """Processes that see the replacements: the command and all its descendants."""
        processes = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    mounted = os.fsencode(self.name) in Path(entry.path, "mountinfo").read_bytes()
                except OSError:
                    continue
                processes += [int(entry.name)] if mounted else []
        return processes

    def end(self) -> None:
        """Terminate these processes and wait GRACE_S; the guard kills the remaining processes."""
        deadline = time.monotonic() + GRACE_S
        signalled: set[int] = set()
        while (running := [pid for pid in self.processes() if not _ended(pid)]) and (
            time.monotonic() < deadline
        ):
            for pid in set(running) - signalled:
                try:
                    os.kill(pid, signal.SIGTERM)
                except OSError:
                    # The process has ended, or belongs to another user now.
                    continue
            signalled |= set(running)
            time.sleep(0.02)


@contextmanager
def replaced(directories: Sequence[Path], target: Path) -> Iterator[Replaced]:
    """Replace directories of a command by empty ones in ``target``; create missing directories.

    After the block, or if this process is killed, they are removed and processes that see them end.
    """
    missing = [path for path in directories if not path.exists()]
    with ExitStack() as stack:
        workdir = stack.enter_context(workspace(target))
        stack.enter_context(undone_by(_GUARD, "guard", workdir.name, *missing))
        pairs = []
        for number, path in enumerate(directories):
            path.mkdir(exist_ok=True)
            replacement = workdir / str(number)
            replacement.mkdir()
            about = path.stat()
            if os.geteuid() == 0:
                os.chown(replacement, about.st_uid, about.st_gid)
            replacement.chmod(about.st_mode & 0o7777)
            pairs.append((replacement.resolve(), path))
        made = Replaced(workdir.name, pairs)
        try:
            yield made
        finally:
            made.end()


def _ended(pid: int) -> bool:
    """Whether a process has ended or is a zombie."""
    stat = proc_text(f"{pid}/stat")
    return not stat or ") Z" in stat


INSIDE = Path(__file__).with_name("inside.py")
#: SQL words that write: statements (not as a part of a path) and functions.
WRITES = re.compile(
    r"(?i)(?<!\w[/.-])(?:\b|(?<=^-[a-z]))(insert|update|delete|create|copy|drop|alter|merge|truncate"
    r"|vacuum|export|reindex)\b(?![/.-]\w)|\b(nextval|setval|writefile)\b"
)
#: Clients that spill in their own process and have SQL in their arguments, and the start of
#: read-only statements. A server's functions may write, and a pragma may change the database.
CLIENT = re.compile("duckdb|sqlite3")
READS = re.compile(r"(?is)\s*(select|with|from|values|table|explain|set|show|describe)\b")
INTO = re.compile(r"(?i)\binto\b")
#: A comment, or a quoted string, which contains no comment. An unterminated one extends to the end.
COMMENT = re.compile(
    r"""(?si)(\be'(?>[^'\\]|\\.)*+'|'[^']*'|"[^"]*"|(\$\w*\$).*?(?:\2|\Z))"""
    r"""|--[^\n]*|/\*.*?(?:\*/|\Z)"""
)
#: Options of clients whose next argument is SQL, or a file of SQL.
STATEMENTS = frozenset(("-c", "-s", "-cmd"))
SCRIPTS = frozenset(("-f", "-init"))
RUN_HINT = "give the command to run: --command 'duckdb -readonly dw.db -c \"select ...\"'"


def rehearse_command(
    recording: Recording,
    directory: Path,
    duration_s: float,
    folder: Path,
    *,
    command: Sequence[str] | None = None,
    confirmed: bool = False,
    notify: Callable[[str], None] = lambda _text: None,
) -> Recording:
    """Run the recorded or given command for ``duration_s`` with its temp files in ``directory``.

    ``notify`` gets a sentence about the command before it runs. The recording goes to ``folder``.
    Refusal if the command cannot run again, writes, or does no temp I/O in that time; also for a
    recorded command that may write, unless the user has ``confirmed`` that it may run.
    """
    arguments = command_to_run(recording, command)
    if command is None and not confirmed and not reads_only(arguments):
        raise RehearsalRefused(
            f"it is not known whether {shlex.join(arguments)} writes",
            "if it may run again, give it with --command '...'",
        )
    if (word := writing_word(arguments)) is not None:
        raise RehearsalRefused(
            f"its command contains '{word}', and commands that write are not rehearsed"
        )
    directories = temp_directories(recording)
    _check_alone(recording, arguments, directories)
    notify(
        f"runs again for {format_duration(duration_s)} at most and is then killed; it does not see "
        f"what is in {', '.join(map(str, directories))}, and its temp files go to "
        f"{directory}: {shlex.join(arguments)}"
    )
    output = folder / f"rehearsal-{len(list(folder.iterdir()))}.spill"
    options = RecordOptions(directories, duration_s=duration_s)
    recorder = Recorder(output, options)
    with replaced(directories, directory) as places:
        return _run(recorder, arguments, places)


def command_to_run(recording: Recording, given: Sequence[str] | None) -> list[str]:
    """The arguments of the command. Refusal if the recording lacks some of them."""
    if given is not None:
        if not given:
            raise OptionInvalid("--command is empty", RUN_HINT)
        return list(given)
    engine = recording.meta.engine
    if not engine.command:
        raise RehearsalRefused("the recording is not of a command that can be run again", RUN_HINT)
    if any(MASK in text for text in engine.command):
        raise RehearsalRefused("its command contained secrets, which are not stored", RUN_HINT)
    if any("\ufffd" in text for text in engine.command):
        raise RehearsalRefused(
            "its command contained bytes that are no text, which are not stored", RUN_HINT
        )
    if engine.settings.get("exit_status") is None:
        raise RehearsalRefused("it was not recorded from start to end", RUN_HINT)
    return list(engine.command)


def writing_word(arguments: Sequence[str]) -> str | None:
    """The first word that shows that a command writes, or None."""
    for text in arguments:
        statement = text
        if text.endswith(".sql") and Path(text).is_file():
            statement = Path(text).read_text(errors="replace")
        elif not re.search(r"\s", text):
            # The text is an option or a path, not a statement.
            continue
        if (match := WRITES.search(statement)) is not None:
            return match[0]
    return None


def reads_only(arguments: Sequence[str]) -> bool:
    """Whether the command is a known client and all SQL in its arguments and files only reads."""
    if not CLIENT.fullmatch(Path(arguments[0]).name):
        return False
    texts = []
    for option, text in pairwise(arguments):
        if option in SCRIPTS:
            if not Path(text).is_file():
                return False
            texts.append(Path(text).read_text(errors="replace"))
        elif option in STATEMENTS or re.search(r"\s", text) or WRITES.fullmatch(text):
            texts.append(text)
    statements = [
        statement
        for text in texts
        for statement in COMMENT.sub(lambda match: match[1] or " ", text).split(";")
        if statement.strip()
    ]
    return bool(statements) and all(
        READS.match(statement) and not WRITES.search(statement) and not INTO.search(statement)
        for statement in statements
    )


def temp_directories(recording: Recording) -> list[Path]:
    """The directories of a recording's temp files, without nested ones. Refusal if unknown."""
    requested = [Path(path) for path in recording.meta.asked.temp_dirs]
    directories = requested or [path.parent for path in _written(recording)]
    directories = sorted({path for path in directories if path.is_absolute()})
    if not directories:
        raise RehearsalRefused("the recording does not show where its temp files were")
    return [path for path in directories if not any(other in path.parents for other in directories)]


def _written(recording: Recording) -> set[Path]:
    """The written temp files; a temp file that was only read may be a table."""
    waits = recording.temp_waits
    written = waits.filter(waits["op"].equals("write"))
    return {Path(name) for name in written["file"].unique()}


def _check_alone(
    recording: Recording, arguments: Sequence[str], directories: Sequence[Path]
) -> None:
    """Refusal if the directories of the command's temp files contain its other files."""
    temp = _written(recording)
    named = [Path(text).absolute() for text in arguments]
    for path in [*named, *map(Path, recording.other_files)]:
        for directory in directories:
            if directory in path.parents and path not in temp and path.exists():
                raise RehearsalRefused(
                    f"{path} is in {directory} with its temp files, which the rehearsal moves",
                    "give its temp files a directory of their own, and record again",
                )


def _run(recorder: Recorder, arguments: Sequence[str], places: Replaced) -> Recording:
    program = shutil.which(arguments[0])
    if program is None:
        raise ProgramMissing(f"{arguments[0]}: no such command", "give its path, or fix PATH")
    pairs = [
        f"{quote(bytes(replacement))}:{quote(bytes(path))}" for replacement, path in places.pairs
    ]
    report, report_fd = os.pipe()
    inside = [sys.executable, "-I", "-S", str(INSIDE), str(report_fd), str(os.getpid()), *pairs]

    def hold(environment: Mapping[str, str]) -> "_core.Target":
        # Only the command inherits it: other processes would keep it open.
        os.set_inheritable(report_fd, True)
        try:
            return held_command([*inside, "--", program, *arguments[1:]], environment)
        finally:
            os.set_inheritable(report_fd, False)

    try:
        try:
            command = held_and_observed(recorder, arguments, hold)
        finally:
            os.close(report_fd)
        try:
            started_ns = _release(command, report)
            while not recorder.poll():
                pass
            elapsed_s = (time.monotonic_ns() - started_ns) / 1e9
            # From here on, spillcast ends the command.
            status = command.exit_status
            recorder.stop()
        finally:
            places.end()
            if not command.wait(0):
                os.kill(command.pid, 9)
                command.wait(10)
        if status:
            raise RehearsalFailed(
                f"{arguments[0]} {describe_exit(status)} in the rehearsal", RUN_HINT
            )
        if not recorder.saw_temp_io():
            text = f"no temp I/O was done in {format_duration(elapsed_s)} of rehearsal"
            raise RehearsalFailed(text, LONGER_HINT if status is None else RUN_HINT)
        return recorder.finish(KnownRun(started_ns, {"elapsed_s": elapsed_s}))
    except BaseException:
        recorder.abandon()
        raise
    finally:
        os.close(report)


def _release(command: "_core.Target", report: int) -> int:
    """Start the command; returns CLOCK_MONOTONIC (ns). Refusal if its mounts cannot be made."""
    command.release()
    if refused := os.read(report, 4096).decode():
        hint = "run as root, or allow user namespaces: sysctl user.max_user_namespaces"
        raise RehearsalRefused(f"temp files cannot be moved for one command alone: {refused}", hint)
    return time.monotonic_ns()
