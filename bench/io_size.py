"""Whether a sweep of I/O sizes finds the best one of an emulated storage, against a manual search.

The peer is a real sort that spills there with each unit in turn: the time of its reads and writes.
Storages are random: latency a + b * size, and a write cache that fills up. The sweep's choice is
right if the real sort takes at most 5 % more than its minimum with it.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.result import Result
from spillcast.storage import Group, Storage
from spillcast.storage.emulation import Mount, emulate
from spillcast.storage.model import behaviour_of
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import write_cache_limit
from spillcast.workspace import workspace

STORAGES, AIM, NEAR, ROUNDS = 10, 9, 1.05, 3
K, M = 1 << 10, 1 << 20
DATA_BYTES = 4 * M
UNITS = tuple(n * K for n in (16, 32, 56, 96, 160, 240))
MEMORY = Path("/dev/shm")

SWEEP = """
import sys
from pathlib import Path
from spillcast.lab.io_size.spill import IoSizeSetting
from spillcast.lab.io_size.spill import SyntheticSpill
from spillcast.lab.io_size import sweep_io_size
from spillcast.storage.free_space import Budget
directory, data, memory, *units = sys.argv[1:]
settings = [IoSizeSetting(int(unit), int(unit)) for unit in units]
spill = SyntheticSpill(int(data), int(memory), 8192)
budget = Budget(time_s=20.0, bytes=64 << 20)
print(sweep_io_size(Path(directory), spill, settings, budget=budget).best.setting.min_bytes)
"""


def run() -> Iterator[Result]:
    """Ten storages, each with another memory size."""
    matches = []
    for seed in range(STORAGES):
        of = random.Random(seed)
        memory_bytes = of.choice((768 * K, M, 3 * M // 2))
        with workspace() as room, workspace(MEMORY) as backing:
            mountpoint = room / "mountpoint"
            mountpoint.mkdir()
            with emulate(behaviour_of(drawn(of)), mountpoint, backing) as mount:
                matches.append(tried(mount, memory_bytes))
    right = sum(best_s <= NEAR * min(times) for best_s, times in matches)
    over = [best_s / min(times) for best_s, times in matches]
    worst = [max(times) / min(times) for _, times in matches]
    yield Result(
        "io_size: the best of six units on ten emulated storages",
        f"{right} of {STORAGES} found by the sweep, at most {max(over) - 1:.0%} above the least",
        f"a real sort with each; the worst unit takes {min(worst):.2g} to {max(worst):.2g} times "
        "the least",
        right / STORAGES,
        f"{AIM} of {STORAGES}",
        right >= AIM,
    )


def drawn(of: random.Random) -> Storage:
    """A storage of the straight line a + b * size, with a write cache."""
    s_per_byte = 1 / of.uniform(30e6, 300e6)
    groups = [
        Group(op, size, 1, 1, size, ns, [ns], [1], [1], [ns])
        for op, base_s in (("read", of.uniform(3e-4, 3e-3)), ("write", of.uniform(3e-4, 2e-3)))
        for size in (4 * K, M)
        for ns in [round(1e9 * (base_s + size * s_per_byte))]
    ]
    cache = write_cache_limit(of.uniform(M / 2, 4 * M), of.uniform(15e6, 150e6))
    return Storage("drawn", ASSUMED, groups, limits=[cache])


def tried(mount: Mount, memory_bytes: int) -> tuple[float, list[float]]:
    """The time of the real sort with the sweep's choice, and with every unit."""
    sizes = [str(n) for n in (DATA_BYTES, memory_bytes, *UNITS)]
    command = [sys.executable, "-c", SWEEP, str(mount.mountpoint), *sizes]
    swept = subprocess.run(command, check=True, capture_output=True, text=True)
    # Other programs can only make a sort longer; units take turns, so that all meet the same load.
    rounds = [[sorted_s(mount, memory_bytes, unit) for unit in UNITS] for _ in range(ROUNDS)]
    times = [min(of_unit) for of_unit in zip(*rounds, strict=True)]
    return times[UNITS.index(int(swept.stdout))], times


def sorted_s(mount: Mount, memory_bytes: int, unit_bytes: int) -> float:
    """The time of a real sort's reads and writes on the mount, measured by the sort."""
    sizes = {"--data": DATA_BYTES, "--memory": memory_bytes, "--unit": unit_bytes}
    flags = [word for flag, size in sizes.items() for word in (flag, str(size))]
    module = [sys.executable, "-m", "bench.spilling", "sort", str(mount.mountpoint)]
    printed = subprocess.run([*module, *flags], check=True, capture_output=True, text=True).stdout
    return float(json.loads(printed)["io_s"])
