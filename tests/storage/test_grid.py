"""A grid measures a directory without a recording, with the I/O methods that the kernel allows."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from test_probe import directory, holds_files_in  # noqa: F401  (directory is a fixture)

from harness import completed, only_line, refuse_io_uring, spillcast, spillcast_command, until
from spillcast.errors import SpillcastError
from spillcast.report.storage import storage_page
from spillcast.storage import Storage
from spillcast.storage.emulation import emulate
from spillcast.storage.model import Model, fixed_behaviour

KIB = 1 << 10
SIZES = [4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, KIB * KIB]
DEPTHS = [1, 2, 4, 8, 16, 32]


def measured(where, *arguments, under=()):
    """The storage measured by a grid of a few seconds."""
    output = where.parent / f"{where.name}.json"
    arguments = ("probe", where, "--grid", "--budget", "6s,64M", "-o", output, *arguments)
    result = completed(*arguments, under=under)
    assert list(where.iterdir()) == []
    try:
        return Storage.load(output), result.stdout
    finally:
        output.unlink()


def test_every_cell_exists_and_its_counts_add_up(directory):  # noqa: F811
    storage, printed = measured(directory)
    facts = storage.facts
    cells = Counter((g.op, g.access, g.pattern) for g in storage.groups)
    left_out = facts["cells_without_time"] + facts["cells_without_room"]
    assert sum(cells.values()) + left_out == facts["cells"]
    accesses = ["buffered"] + ["direct"] * (facts["direct_refusal"] is None)
    assert facts["cells"] == 2 * 2 * len(accesses) * len(SIZES) * len(DEPTHS)
    assert facts["file_bytes"] <= 64 << 20
    for group in storage.groups:
        assert group.size_class_bytes in SIZES
        assert group.depth in DEPTHS
        assert group.bytes == group.count * group.size_class_bytes
        assert sum(group.latency_count) == group.count == sum(group.block_count)
        assert group.elapsed_ns > 0
    # A busy machine may have no time for the deepest queue.
    assert left_out < facts["cells"] / 2
    assert Model(storage).latency("read", 8 * KIB, depth=2, sequential=False).mean_s > 0
    _, *tables, _, _, command = printed.split("\n\n")
    assert max(len(line) for table in tables for line in table.splitlines()) <= 80
    assert printed.strip() == storage_page(storage, command.strip()).text()
    assert command.split()[:2] == ["spillcast", "forecast"]


def test_an_emulated_latency_is_measured(tmp_path):
    backing, mountpoint = tmp_path / "backing", tmp_path / "mounted"
    backing.mkdir()
    mountpoint.mkdir()
    with ExitStack() as stack:
        try:
            stack.enter_context(emulate(fixed_behaviour(0.002, 0.001), mountpoint, backing))
        except SpillcastError as error:
            pytest.skip(str(error))
        storage, _ = measured(mountpoint)
    # Whatever else the machine does, nothing is faster than requested.
    least_s = {"read": 0.0015, "write": 0.0007}
    alone = [g for g in storage.groups if (g.depth, g.access) == (1, "direct")]
    assert {g.op for g in alone} == {"read", "write"}
    for group in alone:
        assert group.quantile_s(0.5) > least_s[group.op]
        assert group.elapsed_ns / group.count > least_s[group.op] * 1e9


def test_the_io_engine_and_the_reason_for_it_are_reported(tmp_path):
    storage, _ = measured(tmp_path, "--psync")
    if storage.facts["direct_refusal"] is not None:
        pytest.skip(f"no direct I/O here: {storage.facts['direct_refusal']}")
    assert storage.facts["direct_engine"] == "psync"
    assert "requested" in storage.facts["io_uring_refusal"]
    refused, printed = measured(tmp_path, under=refuse_io_uring())
    assert refused.facts["direct_engine"] == refused.facts["buffered_engine"] == "psync"
    assert "seccomp" in refused.facts["io_uring_refusal"]
    assert "seccomp" in printed


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_grid_leaves_nothing(directory, death):  # noqa: F811
    command = spillcast_command("probe", directory, "--grid", "--budget", "60s,256M")
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    until(lambda: holds_files_in(process.pid, directory), "the grid")
    time.sleep(0.3)
    process.send_signal(death)
    _, stderr = process.communicate()
    assert process.returncode != 0
    assert b"Traceback" not in stderr
    assert list(directory.iterdir()) == []


@pytest.fixture
def small(tmp_path):
    """A file system of 100 MiB."""
    where = tmp_path / "small"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", where]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    yield where
    subprocess.run(["umount", where], check=True)


@pytest.mark.parametrize("like", [False, True], ids=["grid", "replay"])
def test_a_storage_that_fills_up_ends_the_probe(small, tmp_path, like):
    if like:
        from spills import MIB, recording, written_and_read

        path = tmp_path / "run.spill"
        recording(path, written_and_read(30 * MIB), gap_ns=100_000_000)
        arguments = ("--like", path)
    else:
        arguments = ("--grid",)
    command = spillcast_command("probe", small, *arguments, "--budget", "8s,36M")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: holds_files_in(process.pid, small), "the probe")
    filler = small / "other"
    while process.poll() is None:
        with open(filler, "ab") as other:
            try:
                other.write(bytes(1 << 20))
            except OSError:
                time.sleep(0.01)
    stdout, stderr = process.communicate()
    result = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    assert "filled up during the probe" in only_line(result, 1)
    assert list(small.iterdir()) == [filler]


def test_too_little_free_space_is_refused(small):
    result = spillcast("probe", small, "--grid", "--budget", "60s,1M")
    assert "--budget 1G" in only_line(result, 2)
    (small / "other").write_bytes(bytes(60 << 20))
    assert "free" in only_line(spillcast("probe", small, "--grid"), 2)


def test_a_grid_without_time_for_a_cell_is_refused(tmp_path):
    output = tmp_path / "storage.json"
    result = spillcast("probe", tmp_path, "--grid", "--budget", "1ms,32M", "-o", output)
    assert "--budget 60s" in only_line(result, 2)
    assert list(tmp_path.iterdir()) == []


def test_an_ordinary_user_can_measure_a_grid(open_places):
    if os.geteuid() != 0:
        pytest.skip("every other test is that of an ordinary user then")
    from harness import ordinary_user

    where = Path(open_places.temp)
    result = completed("probe", where, "--grid", "--budget", "3s,32M", "--json",
                       under=ordinary_user())  # fmt: skip
    assert json.loads(result.stdout)["groups"]
