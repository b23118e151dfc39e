"""How exactly a mount is as slow as requested, against the kernel's own wake-up times.

The peer is a sleep of the same length after each operation: no storage made of sleeps is better.
Only the quarter of all stretches with the most exact sleeps counts, so that other work on the
machine is left out by a measure that is independent of the mount.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.result import Result
from spillcast.storage import Group, Storage
from spillcast.storage.emulation import Mount, emulate
from spillcast.storage.model import Behaviour, behaviour_of, fixed_behaviour
from spillcast.storage.source import ASSUMED
from spillcast.units import format_duration
from spillcast.workspace import workspace

BLOCK_BYTES = 8192
LATENCIES_S = (0.0003, 0.001, 0.005, 0.009)
STRETCHES = 24
STRETCH_S = 0.2
MEDIAN_AIM = 0.05
P99_AIM = 0.15
DISTANCE_AIM = 0.1
#: In shared memory, so that the backing storage never counts.
MEMORY = Path("/dev/shm")

TIMES = """
import ctypes, os, sys, time
path, op, number, asked_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK: sleeps end when they should
fd = os.open(path, os.O_RDWR | os.O_CREAT)
block = bytes(8192)
os.pwrite(fd, block * 64, 0)
clock = time.perf_counter_ns
for i in range(number):
    offset = i * 7 % 64 * 8192
    before = clock()
    os.pread(fd, 8192, offset) if op == "read" else os.pwrite(fd, block, offset)
    after = clock()
    time.sleep(asked_s)
    print(after - before, clock() - after)
"""


def run() -> Iterator[Result]:
    """Fixed latencies, then a storage with two peaks, then that storage as seen on the mount."""
    for looked_s in LATENCIES_S:
        with mounted(fixed_behaviour(looked_s, looked_s)) as mount:
            for op in ("read", "write"):
                done, slept = undisturbed_ns(mount, op, looked_s) / looked_s / 1e9
                name = f"emulate: {op}s of 8 KiB, {format_duration(looked_s)} asked"
                for quantile, aim in ((0.5, MEDIAN_AIM), (0.99, P99_AIM)):
                    ours, peer = (float(np.quantile(x, quantile)) for x in (done, slept))
                    yield Result(
                        f"{name}, {'median' if quantile == 0.5 else 'p99'}",
                        format_duration(ours * looked_s),
                        f"{format_duration(peer * looked_s)}, a sleep",
                        ours,
                        f"within {aim:.0%} of asked",
                        abs(ours - 1) <= aim,
                    )
    storage = two_peaks()
    for name in ("lognormal around 300 us and a spike at 600-1000 us", "that, as it was seen"):
        with mounted(behaviour_of(storage)) as mount:
            seen, _ = undisturbed_ns(mount, "read", LATENCIES_S[0])
        (requested,) = storage.of("read")
        apart = distance(seen, requested)
        p50, p99 = (f"{format_duration(np.quantile(seen, q) / 1e9)}" for q in (0.5, 0.99))
        yield Result(
            f"emulate: {name}, two-sample test",
            f"p50 {p50}, p99 {p99}",
            f"p50 {format_duration(requested.quantile_s(0.5))}, "
            f"p99 {format_duration(requested.quantile_s(0.99))}, the storage",
            apart,
            f"Kolmogorov-Smirnov distance below {DISTANCE_AIM}",
            apart < DISTANCE_AIM,
        )
        storage = Storage("as seen", ASSUMED, [group_of(seen)])


@contextmanager
def mounted(model: Behaviour) -> Iterator[Mount]:
    with workspace() as room, workspace(MEMORY) as backing:
        mountpoint = room / "mountpoint"
        mountpoint.mkdir()
        with emulate(model, mountpoint, backing) as mount:
            yield mount


def undisturbed_ns(mount: Mount, op: str, looked_s: float) -> NDArray[np.int64]:
    """Two rows: times of operations, and of sleeps of ``asked_s`` each."""
    path, length = mount.mountpoint / "data", round(STRETCH_S / looked_s)
    numbers = [str(length * STRETCHES), str(looked_s)]
    command = [sys.executable, "-c", TIMES, str(path), op, *numbers]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = np.array([line.split() for line in printed.splitlines()], dtype=np.int64)
    stretches = rows.reshape(STRETCHES, length, 2)
    best = np.argsort(np.quantile(stretches[:, :, 1], 0.95, axis=1))[: STRETCHES // 4]
    return stretches[best].reshape(-1, 2).T


def two_peaks() -> Storage:
    rng = np.random.default_rng(3)
    body = rng.lognormal(np.log(300e3), 0.15, 9000)
    return Storage("two peaks", ASSUMED, [group_of(np.append(body, rng.uniform(6e5, 1e6, 1000)))])


def group_of(times_ns: NDArray[np.float64]) -> Group:
    latency_ns = np.sort(times_ns).astype(int).tolist()
    count, total_ns = len(latency_ns), sum(latency_ns)
    counts = [1] * count
    return Group(
        "read", BLOCK_BYTES, 1, count, BLOCK_BYTES * count, total_ns, latency_ns, counts, [count],
        [total_ns // count],
    )  # fmt: skip


def distance(times_ns: NDArray[np.int64], requested: Group) -> float:
    """Two-sample Kolmogorov-Smirnov; every bucket of the group holds one operation."""
    ours, theirs = np.sort(times_ns), np.array(requested.latency_ns)
    at = np.union1d(ours, theirs)
    below = (np.searchsorted(x, at, side="right") / len(x) for x in (ours, theirs))
    return float(np.abs(next(below) - next(below)).max())
