"""A move of temp files to other storage: its steps, how to go back; a mount in memory."""

import pwd
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillcast.errors import ChoiceUnknown, OptionInvalid, SpillTooLarge
from spillcast.text import shell_word
from spillcast.units import format_bytes, parse_bytes


@dataclass(frozen=True)
class Step:
    """One thing to do, and why: a command of the shell, or statements for a client.

    Several statements of one step are one transaction.
    """

    why: str
    command: str | None = None
    sql: tuple[str, ...] = ()
    #: The command that runs ``sql`` from its standard input; empty where a session is open.
    client: str = ""
    done: bool = False

    def to_json(self) -> dict[str, Any]:
        """Its keys in a document ``spillcast.move/1``."""
        action = {"sql": "\n".join(self.script)} if self.sql else {"command": self.command}
        return {**action, "done": self.done, "why": self.why}

    @property
    def script(self) -> tuple[str, ...]:
        """The statements as they are typed."""
        statements = tuple(f"{statement};" for statement in self.sql)
        return ("BEGIN;", *statements, "COMMIT;") if len(statements) > 1 else statements


@dataclass
class Move:
    """What is done, or is to be done, so that ``whom``'s temp files go to ``to``, and go back."""

    engine: str
    to: str
    whom: str
    steps: list[Step]
    #: What undoes it; for a move back, empty.
    revert: list[Step] = field(default_factory=list)
    tablespace: str | None = None
    applied: bool = False
    reverted: bool = False
    #: Temp files seen at the new place: ``session``, ``files``, ``bytes``; None if not looked.
    verified: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    #: What keeps the tablespace from being dropped, in words.
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


def sql_literal(text: str) -> str:
    """A string constant of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def limit_bytes(size: str) -> int:
    """The bytes of ``--size``. InputError for less than a mount or a server could use."""
    size_bytes = parse_bytes(size, "--size")
    if size_bytes < 1 << 20:
        raise OptionInvalid(f"--size {size} is less than 1 MiB")
    return size_bytes


def tmpfs_move(to: Path, size: str, owner: str | None) -> Move:
    """The commands of a mount of ``size`` at ``to``, for ``owner`` alone or for everybody.

    Refusal with the figures where this machine has not as much memory to give.
    """
    from spillcast.recording.observed import meminfo_bytes
    from spillcast.storage.memory import mount_word

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
    options = f"size={mount_word(size_bytes)},{mode}"
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
        Step("To have it after a restart too.", f"echo {shell_word(line)} >> /etc/fstab"),
    ]
    # For sed, which takes the line as a basic regular expression.
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
