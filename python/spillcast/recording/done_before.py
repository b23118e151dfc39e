"""A process that ran before its recording began: since when, and what it had done by then."""

from dataclasses import dataclass

from spillcast import _core
from spillcast.document import key


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
    done = _core.done_before(pid)
    if done is None:
        return None
    ran_s, cpu_s, moved = done
    return DoneBefore(ran_s, cpu_s, None if moved is None else sum(moved), *(moved or ()))
