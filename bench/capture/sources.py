"""The capture sources that work here, and the observers they are compared with."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.programs import recording
from spillcast import _core
from spillcast.recording.capture import SOURCES, CaptureSource

#: Files are in memory, so that no disk is measured.
MEMORY = Path("/dev/shm")
#: A histogram of call durations, as written by hand.
HISTOGRAM = """
tracepoint:syscalls:sys_enter_pread64 /comm == "observed"/ { @at[tid] = nsecs; }
tracepoint:syscalls:sys_exit_pread64 /@at[tid]/ {
  @us = hist((nsecs - @at[tid]) / 1000); delete(@at[tid]);
}
"""
SWITCHES = (
    'tracepoint:sched:sched_switch /args->prev_comm == "observed"/ { @[args->next_pid] = count(); }'
)


@dataclass(frozen=True)
class Observer:
    """Runs a command under observation; ``count`` calls are what it bears in about a second."""

    name: str
    prefix: Callable[[Path], Sequence[str]]
    count: int

    def command(self, program: Sequence[str], room: Path) -> list[str]:
        """The command line of a program that has its files in ``room``."""
        prefix = self.prefix(room)
        # bpftrace takes a command as one word.
        return [*prefix, " ".join(program)] if prefix[-1] == "-c" else [*prefix, *program]


#: By what is counted, calls or switches; strace and perf trace stop or wake at each call.
PEERS = {
    "reads": (
        Observer("bpftrace", lambda _: ["bpftrace", "-e", HISTOGRAM, "-c"], 200_000),
        Observer("perf trace", lambda _: ["perf", "trace", "-s", "-o", "/dev/null", "--"], 10_000),
        Observer("strace", lambda _: ["strace", "-c", "-f", "-o", "/dev/null", "--"], 10_000),
    ),
    "switches": (
        Observer("bpftrace", lambda _: ["bpftrace", "-e", SWITCHES, "-c"], 50_000),
        Observer(
            "perf record",
            lambda room: [
                "perf", "record", "-q", "-e", "sched:sched_switch",
                "-o", str(room.with_name("perf.data")), "--",
            ],
            50_000,
        ),
        Observer("perf trace", lambda _: ["perf", "trace", "-s", "-o", "/dev/null", "--"], 10_000),
        Observer("strace", lambda _: ["strace", "-c", "-f", "-o", "/dev/null", "--"], 10_000),
    ),
}  # fmt: skip


def peers(counted: str) -> Iterator[Observer]:
    """The installed peers; the others are skipped by name."""
    for peer in PEERS[counted]:
        if shutil.which(peer.name.split()[0]):
            yield peer
        else:
            print(f"bench: {peer.name} is not installed: skipped", file=sys.stderr)


def usable(*, attaching: bool = False) -> Iterator[CaptureSource]:
    """The sources that work here, the best first; with ``attaching``, those that can attach."""
    for name, source in SOURCES.items():
        if attaching and not source.attaches:
            continue
        try:
            _core.try_source(source.name)
        except OSError as error:
            print(f"bench: source {name} skipped: {error.strerror}", file=sys.stderr)
        else:
            yield source


def recorder(source: CaptureSource, count: int) -> Observer:
    """``spillcast record`` with a source."""
    return Observer(source.name, partial(recording, method=source.name), count)


@contextmanager
def workroom() -> Iterator[Path]:
    """A directory in memory for the observed program, with space for the files of its observer."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="spillcast-bench-") as place:
        room = Path(place) / "work"
        room.mkdir()
        yield room
