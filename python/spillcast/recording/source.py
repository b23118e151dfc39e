"""By which means a process is observed: what was asked for, as far as the kernel allows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spillcast import _core
from spillcast.errors import InputError
from spillcast.recording.options import RecordOptions
from spillcast.recording.refused import refused
from spillcast.recording.target import preload_environment

RING_BYTES = 16 << 20


@dataclass(frozen=True)
class Source:
    """Where reports of calls come from, and what a command's environment must hold for it."""

    method: Literal["perf", "preload"]
    source: _core.PerfSource | _core.PreloadRing
    environment: dict[str, str]


def choose_source(
    options: RecordOptions, pid: int | None, what: str | None, calls: Sequence[str] | None
) -> Source:
    """For a command, or for process ``pid`` that runs already, which ``what`` calls by a name.

    InputError says what is refused and what mends it.
    """
    what = what or ("a command" if pid is None else f"process {pid}")
    if options.capture == "preload" and pid is not None:
        raise InputError(
            f"--capture preload cannot observe {what}, which runs already",
            "start it under: spillcast record --capture preload -- COMMAND",
        )
    if options.capture != "preload":
        try:
            return Source("perf", _core.PerfSource(calls), {})
        except OSError as error:
            if options.capture == "perf" or pid is not None:
                raise refused(error, what, pid) from error
    ring = _core.PreloadRing(RING_BYTES)
    return Source("preload", ring, preload_environment(ring))
