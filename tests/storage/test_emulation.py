"""A mount behaves like the requested storage: the figures it accepts and reproduces."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from emulator import Emulator, is_mounted, skip_without_fuse
from evidence import recording
from harness import completed, until
from spillcast.errors import OptionConflict
from spillcast.storage import Group, Limit, Storage
from spillcast.storage.emulation import model_of_options
from spillcast.storage.model import behaviour_of, fixed_behaviour
from spillcast.storage.source import ASSUMED, GRID, PROBE, RECORDING

BLOCK_BYTES = 8192
#: Other work on the machine may spoil an attempt.
ATTEMPTS = 4
#: A machine that wakes all sleepers later than this cannot be as fast as requested.
LATE_NS = 100_000


def group(op, ns, *, size=BLOCK_BYTES, depth=1, pattern="recorded", access="buffered", counts=None):
    """A group whose latencies are ``ns``, a number or a list."""
    latency_ns = ns if isinstance(ns, list) else [ns]
    counts = counts or [10] * len(latency_ns)
    total_ns = sum(n * c for n, c in zip(latency_ns, counts, strict=True))
    count = sum(counts)
    return Group(
        op, size, depth, count, size * count, total_ns, latency_ns, counts, [count],
        [total_ns // count], pattern, access,
    )  # fmt: skip


def model_ns(model, op, *, sequential):
    """The latencies of a model, by size."""
    points = (p for p in model.idle_points if (p.op, p.sequential) == (op, sequential))
    # The middles of buckets are scaled to the mean, so sums are inexact.
    return {p.size_bytes: [round(ns, 6) for ns in p.latency_ns] for p in points}


def test_recorded_latencies_apply_to_both_patterns():
    model = behaviour_of(Storage("s", RECORDING, [group("read", 100), group("write", 200)]))
    for sequential in (True, False):
        assert model_ns(model, "read", sequential=sequential) == {BLOCK_BYTES: [100]}
        assert model_ns(model, "write", sequential=sequential) == {BLOCK_BYTES: [200]}


def test_a_grid_is_emulated_with_the_latencies_of_an_idle_device():
    groups = [
        group("read", 10 * depth + far, depth=depth, pattern=pattern, access=access, size=size)
        for depth in (4, 1, 32)
        for pattern, far in (("sequential", 1), ("random", 5))
        for access in ("buffered", "direct")
        for size in (4096, 65536)
        if (access, depth) != ("direct", 32)
    ]
    groups += [group("read", 7, access="buffered", pattern=p) for p in ("sequential", "random")]
    model = behaviour_of(Storage("s", GRID, groups, limits=[Limit("iops")], servers=4))
    assert model_ns(model, "read", sequential=True) == {4096: [11], 65536: [11]}
    assert model_ns(model, "read", sequential=False) == {4096: [15], 65536: [15]}
    assert model_ns(model, "write", sequential=False) == {}
    assert (model.servers, list(model.limits)) == (4, [Limit("iops")])


def test_the_size_of_a_group_is_the_mean_of_its_operations():
    odd = Group("read", 229376, 1, 4, 4 * 220_000, 400, [100], [4], [4], [100])
    assert model_ns(behaviour_of(Storage("s", PROBE, [odd])), "read", sequential=True) == {
        220_000: [100]
    }


def test_flags_define_a_storage(tmp_path):
    model = model_of_options(None, "9ms", "4ms", "200MB/s", 2)
    assert model_ns(model, "read", sequential=False) == {BLOCK_BYTES: [9_000_000]}
    assert model_ns(model, "write", sequential=True) == {BLOCK_BYTES: [4_000_000]}
    assert model.servers == 2
    (limit,) = model.limits
    assert limit.cost_ns("read", 200_000_000, sequential=True) == pytest.approx(1e9)
    assert limit.cost_ns("write", 100_000_000, sequential=False) == pytest.approx(0.5e9)
    assert model_ns(model_of_options(None, "1ms", None, None, None), "write", sequential=True) == {}
    model = model_of_options("latency:8ms", None, None, None, None)
    for op in ("read", "write"):
        assert model_ns(model, op, sequential=True) == {BLOCK_BYTES: [8_000_000]}
    # A storage keeps its own limits.
    path = tmp_path / "storage.json"
    Storage("s", ASSUMED, [group("read", 5)], limits=[Limit("own")], servers=3).save(path)
    model = model_of_options(str(path), None, None, "1MiB/s", None)
    assert ([limit.name for limit in model.limits], model.servers) == (["own", "1 MiB/s"], 3)
    with pytest.raises(OptionConflict):
        model_of_options(str(path), None, "1ms", None, None)


@pytest.fixture
def mounted(tmp_path):
    """Starts emulations, one after the other."""
    skip_without_fuse()
    (tmp_path / "room").mkdir()
    return lambda *arguments: Emulator(tmp_path / "room", *arguments)


#: Times single reads of 8 KiB, and after each a sleep of the requested latency.
TIMES = """
import os, sys, time
path, number, sleep_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(8192 * 64), 0)
clock = time.perf_counter_ns
for i in range(number):
    before = clock()
    os.pread(fd, 8192, i * 7 % 64 * 8192)
    after = clock()
    time.sleep(sleep_s)
    print(after - before, clock() - after)
"""


def read_times_ns(emulator, number, sleep_s=0.0):
    """Times of reads, and of sleeps of the requested length."""
    command = [
        sys.executable,
        "-c",
        TIMES,
        emulator.mountpoint / "data",
        str(number),
        str(sleep_s),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return np.array([line.split() for line in done.stdout.splitlines()], dtype=np.int64).T


@pytest.mark.parametrize("requested", ["300us", "1ms", "5ms", "9ms"])
def test_reads_have_the_requested_latency(mounted, requested):
    wanted_ns = {"300us": 300_000, "1ms": 1_000_000, "5ms": 5_000_000, "9ms": 9_000_000}[requested]
    number = min(400, 1_500_000_000 // wanted_ns)
    seen = []
    for _ in range(ATTEMPTS):
        with mounted("--read", requested) as emulator:
            reads, sleeps = read_times_ns(emulator.ready(), number, wanted_ns / 1e9)
        # A machine that wakes sleepers late cannot do better.
        late_ns = median(sleeps) - wanted_ns
        seen.append((median(reads) / wanted_ns, late_ns / wanted_ns))
        if abs(median(reads) - wanted_ns) < 0.05 * wanted_ns + late_ns:
            return
    skip_if_late([late * wanted_ns for _, late in seen])
    pytest.fail(f"median over asked, and lateness of a sleep over asked: {seen}")


def skip_if_late(late_ns):
    """Skips if the machine was late in every attempt."""
    if min(late_ns) > LATE_NS:
        pytest.skip(f"this machine wakes sleepers {min(late_ns) / 1000:.0f} us late")


def distance(values, counts, others, other_counts):
    """The two-sample Kolmogorov-Smirnov distance of two histograms."""
    at = np.union1d(values, others)

    def below(values, counts):
        order = np.argsort(values)
        sums = np.concatenate([[0], np.cumsum(np.asarray(counts)[order])])
        return sums[np.searchsorted(np.asarray(values)[order], at, side="right")] / sums[-1]

    return float(np.abs(below(values, counts) - below(others, other_counts)).max())


def test_the_distance_of_two_histograms():
    assert distance([1, 2], [5, 5], [1, 2], [1, 1]) == 0
    assert distance([1, 2], [5, 5], [3], [1]) == 1
    assert distance([1, 2, 3, 4], [1, 1, 1, 1], [4, 2], [1, 1]) == 0.25


def two_peaked(name):
    """A storage of lognormal latencies around 2 ms, an eighth of which takes 6 to 10 ms."""
    rng = np.random.default_rng(3)
    body = rng.lognormal(np.log(2e6), 0.25, 7000)
    latency_ns = np.sort(np.concatenate([body, rng.uniform(6e6, 10e6, 1000)])).astype(int).tolist()
    ones = [1] * len(latency_ns)
    groups = [group(op, latency_ns, counts=ones) for op in ("read", "write")]
    return Storage(name, ASSUMED, groups)


def test_an_emulation_passes_a_two_sample_test_against_its_storage(mounted, tmp_path):
    storage = two_peaked("two peaks")
    path = tmp_path / "storage.json"
    storage.save(path)
    (requested,) = storage.of("read")
    seen, late_ns = [], []
    for _ in range(ATTEMPTS):
        with mounted("--storage", path) as emulator:
            reads, sleeps = read_times_ns(emulator.ready(), 800, 0.001)
        late_ns.append(median(sleeps) - 1e6)
        ones = [1] * len(reads)
        seen.append(distance(reads, ones, requested.latency_ns, requested.latency_count))
        if seen[-1] < 0.1:
            return
    skip_if_late(late_ns)
    pytest.fail(f"distances {seen}")


def test_a_probe_of_an_emulated_probe_has_the_same_latencies(mounted, tmp_path):
    like = recording(
        tmp_path / "like.spill", [("write", BLOCK_BYTES, 700, 1000)], elapsed_s=1.0
    ).path
    two_peaked("slow").save(tmp_path / "slow.json")

    def probed(requested, output):
        with mounted("--storage", tmp_path / requested) as emulator:
            mountpoint = emulator.ready().mountpoint
            completed("probe", mountpoint, "--like", like, "-o", tmp_path / output)
        (group,) = Storage.load(tmp_path / output).groups
        assert group.count == 700
        return group.latency_ns, group.latency_count

    seen = []
    for _ in range(ATTEMPTS):
        target = probed("slow.json", "probed.json")
        # Two probes of the same storage differ by other load on the machine.
        noise = distance(*target, *probed("slow.json", "same.json"))
        seen.append((distance(*target, *probed("probed.json", "again.json")), noise))
        if seen[-1][0] < 0.1:
            return
    if min(noise for _, noise in seen) >= 0.1:
        pytest.skip(f"two probes of one storage differ on this machine: {seen}")
    pytest.fail(f"distances, and those of two probes of one storage: {seen}")


def test_a_recording_can_be_emulated(mounted, spilled):
    with mounted("--storage", spilled.path) as emulator:
        emulator.ready()
        assert f"mountedat{emulator.mountpoint}:run" in "".join(emulator.printed_errors().split())
        (emulator.mountpoint / "file").write_bytes(bytes(100_000))
        assert (emulator.mountpoint / "file").read_bytes() == bytes(100_000)


def test_the_backing_directory_has_only_the_files_of_the_mount(mounted, tmp_path):
    backing = tmp_path / "backing"
    backing.mkdir()
    with mounted("--read", "1ms", "--backing", backing) as emulator:
        emulator.ready()
        assert os.listdir(backing) == os.listdir(emulator.mountpoint) == []


def test_a_fixed_model_describes_itself():
    assert fixed_behaviour(0.009, None).name == "reads 9 ms, writes as fast as can be"


#: A process that uses the mount of the process that forked it, as those of multiprocessing do.
FORKED = """
import os, sys, time
from pathlib import Path
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
mountpoint, backing = map(Path, sys.argv[1:])
with emulate(fixed_behaviour(1e-3, 1e-3), mountpoint, backing):
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        try:
            while True:
                (mountpoint / "file").write_bytes(bytes(8192))
        finally:
            os._exit(0)
    time.sleep(600)
"""


def test_a_fork_that_uses_the_mount_ends_with_the_process_that_serves_it(tmp_path):
    """If it kept the device open, it would wait for itself, and not even SIGKILL would end it."""
    skip_without_fuse()
    for name in ("mountpoint", "backing"):
        (tmp_path / name).mkdir()
    command = [sys.executable, "-c", FORKED, tmp_path / "mountpoint", tmp_path / "backing"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        forked = Path("/proc", process.stdout.readline().strip())
        assert forked.exists()
        until((tmp_path / "backing" / "file").exists, "its first write")
        process.kill()
    until(lambda: not is_mounted(tmp_path / "mountpoint"), "the mount to go")
    until(lambda: not forked.exists(), "the fork to end")


#: A process that holds a mount, and prints the guard of the mount.
HELD = """
import os, sys, time
from pathlib import Path
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
mountpoint, backing = map(Path, sys.argv[1:])
with emulate(fixed_behaviour(1e-3, 1e-3), mountpoint, backing):
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if Path("/proc", pid, "comm").read_text() == "spillcast-guard\\n":
            print(pid, flush=True)
    time.sleep(600)
"""


def test_a_mount_goes_also_if_its_guard_is_killed_with_the_process(tmp_path):
    """The path has characters that the list of mounts escapes."""
    skip_without_fuse()
    (mountpoint := tmp_path / "mount \\ point").mkdir()
    listed = str(mountpoint).replace("\\", r"\134").replace(" ", r"\040")
    (backing := tmp_path / "backing").mkdir()
    command = [sys.executable, "-c", HELD, mountpoint, backing]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        guard = int(process.stdout.readline())
        assert is_mounted(listed)
        os.kill(guard, signal.SIGKILL)
        process.kill()
    until(lambda: not is_mounted(listed), "the mount to go")
