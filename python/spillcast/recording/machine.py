"""The machine and the process that were observed, as a recording's meta.json keeps them."""

import os
import platform
from pathlib import Path

from spillcast.recording.memory import meminfo_bytes
from spillcast.recording.meta import Machine


def describe_machine() -> Machine:
    """The CPUs, memory and kernel of this machine, and the possible size of its page cache."""
    memory = meminfo_bytes()
    return Machine(
        host=platform.node(),
        kernel=platform.release(),
        cpus=os.cpu_count(),
        memory_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        swap_bytes=memory.get("SwapTotal"),
    )


def command_of(pid: int) -> list[str] | None:
    """The arguments of a process, secrets struck out; None where it has ended."""
    from spillcast.redaction import struck_arguments

    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return struck_arguments([os.fsdecode(part) for part in raw.split(b"\0") if part])
