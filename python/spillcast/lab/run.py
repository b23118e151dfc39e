"""Runs a query of an experiment in a place: bare, or recorded."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from spillcast.engines import Lab, LabQuery
from spillcast.engines.queries import QueryProcess, RunResult, end_with_parent
from spillcast.errors import ExperimentFailed
from spillcast.lab.storages import SpillDirectory
from spillcast.recording import Recording
from spillcast.recording.capture import AUTO, PRELOAD, RecordOptions
from spillcast.recording.record import KnownRun, Recorder

Status = dict[str, Any]
#: Memory that a verified query allocates, approximately.
RESIDENT_BYTES = 512 << 20
#: Memory is held only if this multiple of it is available.
AVAILABLE_FACTOR_MIN = 4


class ExperimentProgress(Protocol):
    """Shows the steps of an experiment while they run."""

    def step(self, title: str) -> None:
        """A step begins; the previous step has ended."""

    def status(self, status: Status) -> None:
        """The state of a recording in progress."""

    def progress(self, done: int, total: int, count: int) -> None:
        """The state of a probe in progress."""

    def tick(self) -> None:
        """Called repeatedly while a step runs."""


class ResidentMemory:
    """Memory that is held between runs, and released for each run.

    A virtual machine returns free memory to its host within a second (free page reporting of
    virtio-balloon). The first use of a page then waits for the host, up to 2 s/GiB with huge pages,
    which would count as time of the query, in one run but not the next.

    A separate process holds the memory. Its end frees all pages at once, also if this process is
    killed, and processes forked from this process do not inherit them.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._holder: subprocess.Popen[bytes] | None = None

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the memory for a run, and hold it again afterwards."""
        self.hold()
        self.release()
        try:
            yield
        finally:
            self.hold()

    def release(self) -> None:
        """Free the memory."""
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()
            self._holder = None

    def hold(self) -> None:
        """Hold every page, unless too little memory is available."""
        if self._holder is not None or _available_bytes() < AVAILABLE_FACTOR_MIN * self._size_bytes:
            return
        self._holder = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HOLDER, str(self._size_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent,
        )
        assert self._holder.stdout is not None
        self._holder.stdout.read(1)


#: Writes to every page, then prints a byte, and ends at the end of its input.
HOLDER = """
import mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
memory[::mmap.PAGESIZE] = bytes(len(memory) // mmap.PAGESIZE)
print(end=".", flush=True)
sys.stdin.read()
"""


def _available_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


resident_memory = ResidentMemory(RESIDENT_BYTES)


def run(
    engine: Lab,
    workload: LabQuery,
    place: SpillDirectory,
    on_tick: Callable[[], None] = lambda: None,
) -> RunResult:
    """Run a query without observation."""
    with _held(engine, workload, place, place.environment) as held, resident_memory.released():
        held.start()
        while not held.wait(0.1):
            on_tick()
        return held.result()


def run_recorded(
    engine: Lab,
    workload: LabQuery,
    place: SpillDirectory,
    output: Path,
    on_status: Callable[[Status], None] = lambda _status: None,
    *,
    ahead_s: float = 0.0,
) -> tuple[RunResult, Recording]:
    """Run a query that spills and record it, starting ``ahead_s`` before the query.

    The recording's elapsed time is the query's. SpillcastError if it did not spill.
    """
    ran, recording = run_recorded_if_spilled(
        engine, workload, place, output, on_status, ahead_s=ahead_s
    )
    if recording is None:
        raise ExperimentFailed(f"{workload.name}: no temp I/O was seen under {place.directory}")
    return ran, recording


def run_recorded_if_spilled(
    engine: Lab,
    workload: LabQuery,
    place: SpillDirectory,
    output: Path,
    on_status: Callable[[Status], None] = lambda _status: None,
    *,
    ahead_s: float = 0.0,
) -> tuple[RunResult, Recording | None]:
    """Run a query and record it; the recording is None if it did not spill."""
    recorder = recorder_for(place, output)
    # Allocating the held memory takes time, which must not be part of the recording.
    resident_memory.hold()
    with observed(engine, workload, place, recorder) as held:
        time.sleep(ahead_s)
        with resident_memory.released():
            started_ns = time.monotonic_ns()
            held.start()
            while not recorder.poll():
                on_status(recorder.status())
            ran = held.result()
            if not recorder.saw_temp_io():
                recorder.abandon()
                return ran, None
            fields = {"elapsed_s": ran.elapsed_s, "engine": engine.describe(workload)}
            return ran, recorder.finish(KnownRun(started_ns, fields))


def recorder_for(place: SpillDirectory, output: Path, duration_s: float | None = None) -> Recorder:
    """A recorder for a query in a place."""
    # Delays of the preload library are visible only inside the process.
    capture = PRELOAD if place.means == PRELOAD else AUTO
    options = RecordOptions([place.directory], capture, duration_s, force=True)
    return Recorder(output, options)


@contextmanager
def observed(
    engine: Lab, workload: LabQuery, place: SpillDirectory, recorder: Recorder
) -> Iterator[QueryProcess]:
    """A query held before its start, observed with its workers by the best available source.

    The recording is abandoned if anything fails.
    """
    environment = recorder.prepare()
    while True:
        with _held(engine, workload, place, {**environment, **place.environment}) as held:
            if (again := recorder.observe(held)) is not None:
                environment = again
                continue
            try:
                if held.helpers is not None and recorder.attaches:
                    recorder.attach_children(*held.helpers)
                yield held
            except BaseException:
                recorder.abandon()
                raise
            return


@contextmanager
def _held(
    engine: Lab, workload: LabQuery, place: SpillDirectory, environment: Mapping[str, str]
) -> Iterator[QueryProcess]:
    """A query held before its start, with its processes in the control groups of the place."""
    with ExitStack() as stack:
        with place.inside():
            held = stack.enter_context(engine.hold(workload, place.directory, environment))
        yield held


T = TypeVar("T")
#: A run is disturbed if other work on the machine took more than this share of it.
BUSY = 0.05
#: Number of repetitions of disturbed runs.
RETRIES = 2


def lost_shares(runs: Sequence[RunResult], beside: Sequence[RunResult] = ()) -> list[float]:
    """The share of each run that other work took; ``beside`` are other runs on the same storage.

    It is the time runnable but not scheduled, plus CPU time above the minimum of all runs, because
    processes that share a core or a cache slow each other down. The share is a sum over threads,
    and may be above 1.
    """
    min_cpu_s = min((ran.cpu_s for ran in (*runs, *beside)), default=0.0)
    return [(ran.run_queue_delay_s + ran.cpu_s - min_cpu_s) / ran.elapsed_s for ran in runs]


def undisturbed(
    runs: Sequence[RunResult], workload: LabQuery, beside: Sequence[RunResult] = ()
) -> int:
    """The number of runs that other work on the machine did not disturb.

    A query with a thread for every CPU waits for its own threads and those of its storage, so its
    runs are compared with the least disturbed run.
    """
    usual = 0.0
    if workload.threads >= (os.cpu_count() or 1):
        usual = min(lost_shares([*runs, *beside]), default=0.0)
    return sum(share <= usual + BUSY for share in lost_shares(runs, beside))


def least_disturbed(
    workload: LabQuery, attempt: Callable[[], tuple[RunResult, T]]
) -> tuple[RunResult, T]:
    """The least disturbed run; disturbed runs are repeated."""
    done: list[tuple[RunResult, T]] = []
    while len(done) <= RETRIES and not undisturbed([ran for ran, _ in done], workload):
        done.append(attempt())
    lost = lost_shares([ran for ran, _ in done])
    return done[lost.index(min(lost))]
