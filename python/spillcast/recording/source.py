"""Capture sources: the ways to observe a process, and which of them work on this machine."""

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from spillcast.errors import CaptureUnavailable, ChoiceUnknown, InputError
from spillcast.recording.capture_cost import CaptureCost, child_program

#: Asks for the best source that works.
AUTO = "auto"


class Capture(Protocol):
    """The observation of some processes while it lasts; ``_core.Capture`` is one."""

    @property
    def origin_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording."""

    def take(self) -> tuple[Any, Any]:
        """The waits and seconds since the last call.

        Columns of the schemas in schema.py, for any Arrow reader.
        """

    def status(self) -> dict[str, Any]:
        """Counts and costs so far; absent.py names them."""

    def attach(self, pid: int) -> None:
        """Observe one more process and all it starts. OSError says what is refused."""

    def attach_children(self, parent: int, title: str) -> None:
        """Observe children that ``parent`` starts and whose command line holds ``title``."""

    def joined(self) -> list[tuple[int, int | None, int, tuple[int, int, int] | None, int]]:
        """Processes attached meanwhile: pid, start_ns, attached_ns, reads, writes, bytes before.

        The last is the number of temp files that it had open then.
        """

    def stop(self, *, over: bool = False) -> None:
        """Take what is left and end; the processes go on, and so does the run unless it is over."""


class Source(ABC):
    """A capture source, made ready for one recording."""

    #: The name for ``--capture`` and meta.json, and the title for people.
    name: ClassVar[str]
    title: ClassVar[str]
    #: What the recordings of this source do not show.
    blind_spots: ClassVar[str]
    #: Whether it can observe a process that runs already.
    attaches: ClassVar[bool] = True
    #: Whether an ordinary user never may.
    needs_privilege: ClassVar[bool] = False
    #: Why it may have reached no process at all.
    unconnected: ClassVar[str] = "no process was observed"
    #: By error number, the reason of a refusal and its remedy.
    refusals: ClassVar[Mapping[int, tuple[str, str]]] = {}
    #: The system calls that it observes; None for all that matter.
    calls: Sequence[str] | None = None

    @abstractmethod
    def __init__(self, calls: Sequence[str] | None) -> None:
        """Get ready for these system calls, for all that matter where None. OSError: why not."""

    @abstractmethod
    def start(self, pid: int, temp_dirs: Sequence[str]) -> Capture:
        """Observe a process and all it starts. OSError says what is refused."""

    def environment(self) -> dict[str, str]:
        """The variables that a command needs in its environment."""
        return {}

    @classmethod
    def reason(cls, error: OSError) -> str:
        """Why the source refuses, in a few words."""
        known = cls.refusals.get(error.errno or 0)
        return str(error.strerror or error) if known is None else known[0]

    def measure_cost(self) -> CaptureCost | None:
        """The measured cost to observed processes; None if it cannot be measured."""
        return None


#: By name, the best first.
SOURCES: dict[str, type[Source]] = {}


def register(source: type[Source]) -> type[Source]:
    """Make a source known: to ``--capture``, and to ``auto`` after those that are known already."""
    SOURCES[source.name] = source
    return source


class CoreSource(Source):
    """A source of the core, which has it under the same name."""

    def __init__(self, calls: Sequence[str] | None) -> None:
        from spillcast import _core

        self._source: _core.Source = _core.Source(self.name, calls)
        self.calls = calls

    def start(self, pid: int, temp_dirs: Sequence[str]) -> Capture:
        """Observe a process and all it starts. OSError says what is refused."""
        from spillcast import _core

        return _core.Capture(self._source, [pid], temp_dirs)

    def environment(self) -> dict[str, str]:
        """The variables that a command needs to be observed."""
        variables = self._source.environment()
        return self._loaded() | dict([variables] if variables is not None else [])

    def _loaded(self) -> dict[str, str]:
        """The part of it that is the same for every recording."""
        return {}

    def measure_cost(self) -> CaptureCost | None:
        """The cost to observed processes, measured on a child that does nothing else."""
        from spillcast import _core

        def pairs(environment: dict[str, str]) -> list[str]:
            return [f"{name}={value}" for name, value in environment.items()]

        bare = dict(os.environ)
        try:
            observed = pairs(bare | self._loaded())
            record = _core.capture_cost(
                self.name, self.calls, child_program(), pairs(bare), observed
            )
        except (OSError, ValueError, InputError):
            return None
        return CaptureCost(**record)


@register
class BpfSource(CoreSource):
    """Programs in the kernel, which report finished calls."""

    name = "bpf"
    title = "eBPF"
    needs_privilege = True
    blind_spots = "time runnable but not scheduled"
    refusals: ClassVar[Mapping[int, tuple[str, str]]] = {
        **dict.fromkeys(
            (errno.EPERM, errno.EACCES),
            (
                "refused by the kernel",
                "run spillcast as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, and in a "
                "container with a seccomp profile that allows bpf",
            ),
        ),
        errno.ENOENT: (
            "the kernel has no BTF: there is no /sys/kernel/btf/vmlinux",
            "use a kernel with CONFIG_DEBUG_INFO_BTF, or --capture perf",
        ),
        errno.ENOSYS: (
            "spillcast was built without the eBPF programs",
            "build it without BPF=no, or use --capture perf",
        ),
        errno.EOPNOTSUPP: (
            "process ids are those of a container",
            "share those of the host (docker run --pid=host), or use --capture perf",
        ),
        errno.EINVAL: ("the kernel is too old for the eBPF programs", "use --capture perf"),
        errno.E2BIG: ("it has more threads than eBPF is given room for", "use --capture perf"),
    }


@register
class PerfSource(CoreSource):
    """Tracepoints of system calls, context switches and wakings, in the kernel."""

    name = "perf"
    title = "perf events"
    blind_spots = (
        "time runnable but not scheduled, the removing of files and, to ordinary users, their "
        "syncing"
    )


@register
class PreloadSource(CoreSource):
    """A library that a command loads and that times its calls, where perf events are refused."""

    name = "preload"
    title = "the preload library"
    blind_spots = "time runnable but not scheduled, and waits for other than files"
    attaches = False
    unconnected = "the preload library was never loaded: the command is static or drops LD_PRELOAD"

    def _loaded(self) -> dict[str, str]:
        from spillcast.recording.target import preload_variable

        return dict([preload_variable()])


def check_attaches(capture: str, text: str, hint: str) -> None:
    """InputError where ``capture`` names a source that cannot join what runs already."""
    if capture != AUTO and not _named(capture).attaches:
        raise CaptureUnavailable(
            f"--capture {capture} cannot observe {text}, which is already running", hint
        )


def named(capture: str) -> list[type[Source]]:
    """The sources that ``--capture`` asks for, the best first."""
    return list(SOURCES.values()) if capture == AUTO else [_named(capture)]


def _named(capture: str) -> type[Source]:
    if capture not in SOURCES:
        known = ", ".join([AUTO, *SOURCES])
        raise ChoiceUnknown(f"--capture {capture}: there is no such source", f"give one of {known}")
    return SOURCES[capture]
