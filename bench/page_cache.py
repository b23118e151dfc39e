"""The page cache of looked-up storage: forecasts against runs with that much page cache.

ext4 on a loop device over an emulated file, with a memory cgroup that limits its page cache to a
share of the spill. Each query is recorded on a near device and forecast for a far one with known
figures, from the recording alone; the truth is the query on the far one. The peer is the same
forecast without memory for temp files.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from bench.queries import QUERIES
from bench.result import Result
from spillcast.engines import Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.forecast import Forecast
from spillcast.forecast.ask import forecast
from spillcast.forecast.projection import baseline_of, projection
from spillcast.forecast.query import workload_of_recording
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import SHARED_MEMORY, Emulated, SpillDirectory
from spillcast.recording import Recording
from spillcast.storage import Group, Storage
from spillcast.storage.emulation import emulate
from spillcast.storage.source import catalogue
from spillcast.workspace import memory_group, workspace
from spillcast_lab.kernel_slowed import held_in, moved

SHARES = (0.0, 0.25, 0.5, 1.0, 2.0)
AIM, RUNS = 0.15, 3
ENOUGH_BYTES = 16 << 30
IMAGE_BYTES = 4 << 30
#: Memory beyond the engine's earlier peak, which varies, and for the kernel.
LEAST = 1.15
NEAR = Emulated("near", 1e-4, 1e-4, 2e-9)
FAR = Emulated("far", 1e-3, 1e-3, 1e-8)
CHOSEN = (("duckdb", 0), ("duckdb", 1), ("postgres", 1))


def run() -> Iterator[Result]:
    """Each query with each share of its spill in memory."""
    cases = []
    for engine_name, number in CHOSEN:
        with workspace() as room:
            engine = lab_of(engine_name)(room)
            query = QUERIES[engine_name][number]
            for share, answer, without_s, measured_s in of_query(engine, query, room):
                assert answer.forecast_s is not None
                assert answer.interval_s is not None
                held = answer.interval_s[0] <= measured_s <= answer.interval_s[1]
                cases.append(
                    (abs(answer.forecast_s / measured_s - 1), without_s / measured_s, held)
                )
                print(
                    f"{engine_name} {query.name}, {share:.0%}: {answer.forecast_s:.2f} s, without "
                    f"{without_s:.2f} s, measured {measured_s:.2f} s, "
                    f"{'held' if held else 'missed'}",
                    flush=True,
                )
    off = median(error for error, _, _ in cases)
    peer = median(abs(ratio - 1) for _, ratio, _ in cases)
    yield Result(
        f"page_cache: {len(cases)} runs with page cache for 0 to 200 % of the spill",
        f"{off:.1%} off in the median, {sum(held for *_, held in cases)} held",
        f"no memory for temp files: {peer:.0%} off",
        off / peer,
        f"{AIM:.0%}",
        off <= AIM,
    )


def of_query(
    engine: Lab, query: LabQuery, room: Path
) -> Iterator[tuple[float, Forecast, float, float]]:
    """Share, forecast, forecast without memory for temp files, and the measured time."""
    engine.build(query.rows)
    with ExitStack() as stack:
        group = stack.enter_context(memory_group(ENOUGH_BYTES))
        near, far = (stack.enter_context(device(storage, group, room)) for storage in (NEAR, FAR))
        with peak_of(group) as held_bytes:
            _, whole = run_recorded(engine, query, near, room / "whole.spill")
        spill, held = whole.held_bytes, max(held_bytes)
        for share in SHARES:
            limit = group / "memory.limit_in_bytes"
            limit.write_text(str(int(LEAST * held + share * spill)))
            output = room / f"{share}.spill"
            _, recording = run_recorded(engine, query, near, output)
            times = [run_bare(engine, query, far).elapsed_s for _ in range(RUNS)]
            limit.write_text(str(ENOUGH_BYTES))
            known = storage_of(FAR)
            yield share, forecast(recording, known), uncached_s(recording, known), median(times)


def uncached_s(recording: Recording, known: Storage) -> float:
    """The elapsed time without memory for temp files."""
    baseline = baseline_of(workload_of_recording(recording))
    return projection(baseline, known).total_s


@contextmanager
def device(storage: Emulated, group: Path, room: Path) -> Iterator[SpillDirectory]:
    """A file system on an emulated device."""
    mountpoint, emulated = room / f"{storage.name}-mnt", room / f"{storage.name}-device"
    with ExitStack() as stack:
        backing = stack.enter_context(workspace(SHARED_MEMORY))
        for folder in (mountpoint, emulated):
            folder.mkdir()
        with (backing / "image").open("wb") as file:
            file.truncate(IMAGE_BYTES)
        call("mkfs.ext4", "-q", "-F", "-O", "^has_journal", backing / "image")
        stack.enter_context(emulate(storage.model, emulated, backing))
        loop = call("losetup", "--find", "--show", "--direct-io=on", emulated / "image")
        stack.callback(call, "losetup", "--detach", loop)
        call("mount", "-o", "noatime,discard", loop, mountpoint)
        stack.callback(call, "umount", mountpoint)
        directory = mountpoint / "spill"
        directory.mkdir()
        directory.chmod(0o777)
        mountpoint.chmod(0o755)
        inside = partial(moved, group, "memory")
        yield SpillDirectory(storage.name, directory, {}, "kernel", fast=False, inside=inside)


def call(*command: str | Path) -> str:
    """The output of a command."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@contextmanager
def peak_of(group: Path) -> Iterator[list[int]]:
    """The group's memory other than page cache, sampled."""
    seen, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            seen.append(held_in(group))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def storage_of(emulated: Emulated) -> Storage:
    """Its figures, in the form of a catalogue row."""
    groups = [
        Group(op, size, 1, 1, size, ns, [ns], [1], [1], [ns])
        for op, base_s in (("read", emulated.read_s), ("write", emulated.write_s))
        for size in (4096, 1 << 20)
        for ns in [round(1e9 * (base_s + size * emulated.s_per_byte))]
    ]
    return Storage(emulated.name, catalogue(1.0, "an emulation"), groups)
