"""A process that ran before its recording began: since when, and what it had done by then."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from spillcast.document import key
from spillcast.recording.memory import family


@dataclass(frozen=True)
class DoneBefore:
    """What a process that ran already had done when its recording began."""

    ran_s: float = key("since its start", unit="s", example=3.61)
    cpu_s: float = key("CPU time, including its child processes", unit="s", example=1.9)
    bytes: int | None = key(
        "bytes it had read and written, any file; null if not permitted",
        unit="bytes",
        example=921108480,
    )
    read_bytes: int | None = key(
        "bytes read; null if not permitted", unit="bytes", example=460554240,
        default=None, later=True,
    )  # fmt: skip
    written_bytes: int | None = key(
        "bytes written", unit="bytes", example=460554240, default=None, later=True
    )


def done_before(pid: int) -> DoneBefore | None:
    """What a process and those it started have done until now; None where it has ended."""
    ran_s = age_s(pid)
    if ran_s is None:
        return None
    cpu_s, moved = 0.0, list[tuple[int, int] | None]()
    for member in family(pid):
        if (fields := _stat_fields(member)) is not None:
            # User and system time, and those of children that have ended.
            cpu_s += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            moved.append(_moved_bytes(member))
    known = [sizes for sizes in moved if sizes is not None]
    if len(known) < len(moved):
        return DoneBefore(ran_s, cpu_s, None)
    read, written = (sum(sizes[at] for sizes in known) for at in (0, 1))
    return DoneBefore(ran_s, cpu_s, read + written, read, written)


def age_s(pid: int, called: str = "") -> float | None:
    """How long ago a process was started whose name holds ``called``; None where there is none."""
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    fields = _stat_fields(pid, called)
    if fields is None:
        return None
    return max(now_s - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 0.0)


def _stat_fields(pid: int, called: str = "") -> list[str] | None:
    """/proc/PID/stat after the name, which may hold blanks: the state is the first."""
    try:
        name, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return None
    return fields.split() if called in name else None


def _moved_bytes(pid: int) -> tuple[int, int] | None:
    """Bytes that a process has read and written; None where that may not be seen."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    counted = {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}
    return counted.get("rchar", 0), counted.get("wchar", 0)
