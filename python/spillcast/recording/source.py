"""Capture sources: the ways to observe a process. The core chooses the one that works."""

from dataclasses import dataclass

from spillcast import _core

#: Asks for the best source that works.
AUTO = "auto"
PRELOAD = "preload"


@dataclass(frozen=True)
class CaptureSource:
    """Describes a capture source of the core, which has it under the same name."""

    #: The name for ``--capture`` and meta.json, and the title for people.
    name: str
    title: str
    #: What its recordings do not show.
    blind_spots: str
    #: Whether it can observe a process that is already running.
    attaches: bool = True
    #: Whether an ordinary user never may use it.
    needs_privilege: bool = False

    def check(self) -> None:
        """Make it ready and let go of it. OSError says why it does not work here."""
        _core.try_source(self.name)


#: By name, the best first.
SOURCES = {
    source.name: source
    for source in (
        CaptureSource("bpf", "eBPF", "time runnable but not scheduled", needs_privilege=True),
        CaptureSource(
            "perf",
            "perf events",
            "time runnable but not scheduled, the removing of files and, to ordinary users, their "
            "syncing",
        ),
        CaptureSource(
            PRELOAD,
            "the preload library",
            "time runnable but not scheduled, and waits for other than files",
            attaches=False,
        ),
    )
}
