"""A sweep on an emulated storage finds the unit with which a real sort is fastest there."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from slow_sort import Disk
from test_sweet_spot import storage

from emulator import Emulator, skip_without_fuse
from oracle_files import ROOT
from spillcast.lab.io_size import sweep_io_size
from spillcast.lab.io_size.spill import IoSizeSetting, SyntheticSpill
from spillcast.storage.free_space import Budget

K, M = 1 << 10, 1 << 20
DATA, MEMORY = 6 * M, M
#: One level with the first two, then two and three: times differ by at least a quarter.
UNITS = (16 * K, 96 * K, 160 * K, 320 * K)
DISK = Disk(1e-3, 5e-4, 1 / 120e6, cache_bytes=2 * M, leaves_bytes_per_s=60e6)
#: If other programs delay a run, it is repeated this often.
ATTEMPTS = 3


@pytest.fixture(scope="module")
def mount(tmp_path_factory):
    """A directory as slow as the storage."""
    skip_without_fuse()
    room = tmp_path_factory.mktemp("emulated")
    described = room / "storage.json"
    storage(DISK).save(described)
    emulator = Emulator(room, "--storage", described)
    try:
        yield emulator.ready().mountpoint
    finally:
        emulator.end(signal.SIGTERM)
        emulator.stderr.close()


def sorted_s(directory, unit):
    """The time of the real sort's reads and writes."""
    requested = ("--data", str(DATA), "--memory", str(MEMORY), "--unit", str(unit))
    command = [sys.executable, "-m", "bench.spilling", "sort", directory, *requested]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return json.loads(done.stdout)["io_s"]


def swept(where, budget=None):
    settings = [IoSizeSetting(unit, unit) for unit in UNITS]
    return sweep_io_size(where, SyntheticSpill(DATA, MEMORY, 8 * K), settings, budget=budget)


def test_the_sweep_finds_the_fastest_unit_of_a_real_sort(mount):
    by_model = swept(storage(DISK)).best.setting
    for _ in range(ATTEMPTS):
        taken_s = {unit: sorted_s(mount, unit) for unit in UNITS}
        sweep = swept(Path(mount), Budget(time_s=6.0, bytes=64 * M))
        fastest = min(taken_s, key=taken_s.get)
        if sweep.best.setting.min_bytes == fastest == by_model.min_bytes:
            break
    else:
        pytest.fail(f"fastest {fastest}, swept {sweep.to_json()['rows']}, model {by_model}")
    assert list(mount.iterdir()) == []
    # Load on the machine never makes an emulated storage faster than its model.
    for source, target in zip(sweep.rows, swept(storage(DISK)).rows, strict=True):
        assert source.total_s > 0.85 * target.total_s
