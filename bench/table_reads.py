"""The CPU cost of a recording for a query that reads its tables through the page cache.

Debian's PostgreSQL with its default buffers reads each block of a table in a separate call. One
session runs each query bare, observed, observed twice concurrently, and under the peers, round
after round in rotating order. The measure is its process's CPU time by the kernel's account, which
other processes increase less than elapsed time. The extra cost of a second capture is shown beside
that of the first: if they were equal, a recording could measure itself.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from bench.result import Result
from spillcast import _core
from spillcast.engines.postgres.server import make_cluster, newest_debian, serve
from spillcast.errors import InputError
from spillcast.recording.calibration import measured_cost
from spillcast.recording.capture import RecordOptions
from spillcast.workspace import workspace
from spillcast_lab.tpc.labs import FORCED, POSTGRES_TPCH, DebianTpch, load
from spillcast_lab.tpc.suite import TPCH

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

MEMORY = Path("/dev/shm")
#: Rows of lineitem, at scale factor 0.5.
ROWS = 3_000_000
ROUNDS = 11
#: The rounds with the peers, under which a query takes seconds.
PEER_ROUNDS = 2
AIM = 1.05
SCAN = "select count(*) from lineitem"
#: TPC-H queries that read the most for their work; as many scans as take as long.
READING, SCANS = ("Q7", "Q8"), 3
#: The longest time until a peer has attached, which it does not report.
ATTACH_S = 1.0
#: Sources that attach.
SOURCES = ("bpf", "perf")
PEERS = {
    "perf trace": ("perf", "trace", "-s", "-o", "/dev/null", "-p"),
    "strace": ("strace", "-c", "-f", "-o", "/dev/null", "-p"),
}
BARE, AGAIN = "bare", "bare again"

Observing = Callable[[int], AbstractContextManager[None]]


@dataclass(frozen=True)
class Spent:
    """The resources of a process for one query."""

    cpu_s: float
    calls: int

    @classmethod
    def so_far(cls, pid: int) -> "Spent":
        """Since the start of the process: CPU time, and read calls."""
        ran_ns = Path(f"/proc/{pid}/schedstat").read_text().split()[0]
        reads = Path(f"/proc/{pid}/io").read_text().split("syscr:")[1].split()[0]
        return cls(int(ran_ns) / 1e9, int(reads))

    def since(self, before: "Spent") -> "Spent":
        """The difference."""
        return Spent(self.cpu_s - before.cpu_s, self.calls - before.calls)


def run() -> Iterator[Result]:
    """Each query under each source, beside the peers."""
    installation = newest_debian()
    if installation is None:
        raise InputError("no PostgreSQL of Debian's packages", "apt-get install postgresql")
    with workspace(MEMORY) as room:
        room.chmod(0o711)
        cluster = make_cluster(room, installation)
        with serve(cluster, DebianTpch.settings) as server, server.connect() as connection:
            load(connection, TPCH, TPCH.generate(room, ROWS))
            label = f"PostgreSQL {installation.version} of Debian"
            for name, statements, memory in _queries():
                settings = {**FORCED, "work_mem": memory, "max_parallel_workers_per_gather": "0"}
                for key, value in settings.items():
                    connection.execute("select set_config(%s, %s, false)", [key, value])
                yield from _results(f"{label}, {name}", _rounds(connection, statements))


def _queries() -> Iterator[tuple[str, Sequence[str], str]]:
    yield "a scan", [SCAN] * SCANS, "4MB"
    for spilling in POSTGRES_TPCH:
        if spilling.query in READING:
            text = TPCH.text(spilling.query)
            yield f"TPC-H {spilling.query}", [text], f"{spilling.memory_kb}kB"


def _ways() -> dict[str, Observing]:
    ways: dict[str, Observing] = {BARE: lambda _: nullcontext(), AGAIN: lambda _: nullcontext()}
    for source in SOURCES:
        ways[source] = partial(_captured, source)
    ways[_twice("bpf")] = partial(_captured, "bpf", times=2)
    for name, command in PEERS.items():
        if shutil.which(command[0]):
            ways[name] = partial(_under, command)
    return ways


def _twice(name: str) -> str:
    return f"{name} twice"


def _rounds(connection: "Connection", statements: Sequence[str]) -> dict[str, list[Spent]]:
    ways = _ways()
    rounds: dict[str, list[Spent]] = {name: [] for name in ways}
    names = list(ways)
    # The first run reads what is not cached yet.
    _spent(connection, statements, ways[BARE])
    for number in range(ROUNDS):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if name in PEERS and number >= PEER_ROUNDS:
                continue
            rounds[name].append(_spent(connection, statements, ways[name]))
    return rounds


def _spent(connection: "Connection", statements: Sequence[str], observing: Observing) -> Spent:
    pid = connection.info.backend_pid
    with observing(pid):
        before = Spent.so_far(pid)
        for statement in statements:
            connection.execute(statement.encode()).fetchall()
        return Spent.so_far(pid).since(before)


@contextmanager
def _captured(source: str, pid: int, times: int = 1) -> Iterator[None]:
    """Runs captures whose rows are read as they arrive, and discarded."""
    with ExitStack() as stack:
        for _ in range(times):
            recorder = _core.Recorder(RecordOptions(capture=source))
            recorder.prepare(pid, None, None, None)
            recorder.observe(pid, [], only_calls=False, many_processes=True, was_running=True)
            stack.callback(recorder.end_capture)
            ended = Event()
            taking = Thread(target=_take, args=[recorder, ended])
            taking.start()
            stack.callback(taking.join)
            stack.callback(ended.set)
        yield


def _take(recorder: _core.Recorder, ended: Event) -> None:
    while not ended.wait(0.1):
        recorder.collect()


@contextmanager
def _under(command: Sequence[str], pid: int) -> Iterator[None]:
    quiet = subprocess.DEVNULL
    with subprocess.Popen([*command, str(pid)], stdout=quiet, stderr=quiet) as peer:
        time.sleep(ATTACH_S)
        try:
            yield
        finally:
            peer.send_signal(signal.SIGINT)


def _results(name: str, rounds: dict[str, list[Spent]]) -> Iterator[Result]:
    bare_s = [(a.cpu_s + b.cpu_s) / 2 for a, b in zip(rounds[BARE], rounds[AGAIN], strict=True)]
    calls = rounds[BARE][0].calls

    def added(way: str) -> str:
        pairs = zip(rounds[way], bare_s, strict=way not in PEERS)
        us = sorted((item.cpu_s - bare) / calls * 1e6 for item, bare in pairs)
        quarter = len(us) // 4
        return f"{median(us):.2f} us a read ({us[quarter]:.2f} to {us[-1 - quarter]:.2f})"

    def times(way: str) -> list[float]:
        return sorted(item.cpu_s / bare for item, bare in zip(rounds[way], bare_s, strict=True))

    beside = times(AGAIN)
    peers = [f"{added(peer)} {peer}" for peer in PEERS if peer in rounds]
    peers.append(f"bare beside bare {beside[0]:.3f} to {beside[-1]:.3f}")
    for source in SOURCES:
        ours, twice = times(source), _twice(source)
        answer = measured_cost(source)
        words = [
            f"{median(ours):.3f} times the CPU time ({ours[0]:.3f} to {ours[-1]:.3f}), "
            f"{added(source)}"
        ]
        if twice in rounds:
            words.append(f"{added(twice)} observed twice")
        if answer is not None:
            words.append(f"{answer.call_s * 1e6:.2f} us a call by its own measurement")
        yield Result(
            f"table reads: {name}, {calls:,} reads in {median(bare_s):.2f} s of CPU, by "
            f"{source}, {ROUNDS} rounds",
            "; ".join(words),
            "; ".join(peers),
            median(ours),
            f"at most {AIM}",
            median(ours) <= AIM,
        )
