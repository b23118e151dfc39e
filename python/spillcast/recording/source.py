"""Capture sources: by what a process can be observed, and which of them is to be had here."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from spillcast.calibrated import calibrated
from spillcast.errors import InputError

#: Asks for the best source that works.
AUTO = "auto"


class Capture(Protocol):
    """The observation of some processes while it lasts; ``_core.Capture`` is one."""

    @property
    def origin_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording."""

    def take(self) -> tuple[Any, Any]:
        """What was gathered since the last call: waits and seconds.

        Columns of the schemas in schema.py, for any Arrow reader.
        """

    def status(self) -> dict[str, Any]:
        """Counts and costs so far; absent.py names them."""

    def attach(self, pid: int) -> None:
        """Observe one more process and all it starts. OSError says what is refused."""

    def attach_children(self, parent: int, title: str) -> None:
        """Observe children that ``parent`` starts and whose command line holds ``title``."""

    def joined(self) -> list[tuple[int, int | None, int, tuple[int, int, int] | None]]:
        """Processes attached meanwhile: pid, start_ns, attached_ns, reads, writes, bytes before."""

    def stop(self) -> None:
        """Take what is left and end; the observed processes go on."""


class Source(ABC):
    """A capture source, made ready for one recording."""

    #: As ``--capture`` and meta.json have it, and in words.
    name: ClassVar[str]
    title: ClassVar[str]
    #: What a recorded call costs the observed thread; None where it is as calibrated.
    call_cost_s: ClassVar[float | None] = None
    #: What a time line of its recordings does not show.
    blind_spots: ClassVar[str]
    #: Whether it can observe a process that runs already.
    attaches: ClassVar[bool] = True
    #: Why it may have reached no process at all.
    unconnected: ClassVar[str] = "no process was observed"

    @abstractmethod
    def __init__(self, calls: Sequence[str] | None) -> None:
        """Get ready for these system calls, for all that matter where None. OSError: why not."""

    @abstractmethod
    def start(self, pid: int, temp_dirs: Sequence[str]) -> Capture:
        """Observe a process and all it starts. OSError says what is refused."""

    def environment(self) -> dict[str, str]:
        """What a command must find in its environment."""
        return {}


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

    def start(self, pid: int, temp_dirs: Sequence[str]) -> Capture:
        """Observe a process and all it starts. OSError says what is refused."""
        from spillcast import _core

        return _core.Capture(self._source, [pid], temp_dirs)


@register
class PerfSource(CoreSource):
    """Tracepoints of system calls, context switches and wakings, in the kernel."""

    name = "perf"
    title = "perf events"
    blind_spots = "time runnable without a CPU"


@register
class PreloadSource(CoreSource):
    """A library that a command loads and that times its calls, where perf events are refused."""

    name = "preload"
    title = "the preload library"
    blind_spots = "time runnable without a CPU, and waits for other than files"
    attaches = False
    unconnected = "the preload library was never loaded: the command is static or drops LD_PRELOAD"

    def environment(self) -> dict[str, str]:
        """What a command must find to load the library, and the library to find its ring."""
        from spillcast.recording.target import preload_variable

        ring = self._source.environment()
        return dict([preload_variable(), *([ring] if ring is not None else [])])


def call_cost_s(method: str) -> float:
    """What a recorded call costs the observed thread; 0 where there was no capture."""
    stated_s = SOURCES[method].call_cost_s if method in SOURCES else 0.0
    return calibrated().call_s[method] if stated_s is None else stated_s


def check_attaches(capture: str, what: str, hint: str) -> None:
    """InputError where ``capture`` names a source that cannot join what runs already."""
    if capture != AUTO and not _named(capture).attaches:
        raise InputError(f"--capture {capture} cannot observe {what}, which runs already", hint)


def choose_source(
    capture: str, pid: int | None, what: str | None, calls: Sequence[str] | None
) -> Source:
    """The source that is asked for, or the best that works.

    It is for a command, or for process ``pid`` that runs already, which ``what`` calls by a name.
    InputError says what is refused and what mends it.
    """
    what = what or ("a command" if pid is None else f"process {pid}")
    hint = f"start it under: spillcast record --capture {capture} -- COMMAND"
    if pid is not None:
        check_attaches(capture, what, hint)
    wanted = list(SOURCES.values()) if capture == AUTO else [_named(capture)]
    refusal: OSError | None = None
    for source in wanted:
        if pid is not None and not source.attaches:
            continue
        try:
            return source(calls)
        except OSError as error:
            refusal = refusal or error
    assert refusal is not None
    from spillcast.recording.refused import refused

    raise refused(refusal, what, pid) from refusal


def _named(capture: str) -> type[Source]:
    if capture not in SOURCES:
        known = ", ".join([AUTO, *SOURCES])
        raise InputError(f"--capture {capture}: there is no such source", f"give one of {known}")
    return SOURCES[capture]
