"""The sort and the join that spill on purpose: passes and I/Os follow the formula."""

import json
import math
import os
import subprocess
import sys

import pytest
from bench.spilling.join import hash_join
from bench.spilling.sort import external_sort

from cases import cases
from harness import completed, environment
from oracle_files import ROOT
from spillcast.errors import InputError, OptionInvalid
from spillcast.lab.io_size.spill import IoSizeSetting, SyntheticSpill
from spillcast.recording import Recording
from spillcast.storage.probe import plan

K, M = 1 << 10, 1 << 20
DATA = 4 * M


def formula(data, memory, unit):
    """Fan-in, and the number of passes as ceil(log_F(S/M))."""
    at_once = memory // unit - 1
    return at_once, math.ceil(round(math.log(data / memory, at_once), 9))


@cases(
    ("memory", "unit", "levels"),
    [
        (1 * M, 16 * K, 1), (1 * M, 256 * K, 2), (512 * K, 8 * K, 1), (512 * K, 64 * K, 2),
        (512 * K, 128 * K, 2), (256 * K, 8 * K, 1), (256 * K, 32 * K, 2), (256 * K, 64 * K, 3),
    ],
)  # fmt: skip
def test_the_sort_does_the_ios_of_the_formula(tmp_path, memory, unit, levels):
    assert formula(DATA, memory, unit)[1] == levels
    result = external_sort(tmp_path, data_bytes=DATA, memory_bytes=memory, unit_bytes=unit)
    assert result.levels == levels
    assert (result.reads, result.writes) == (levels * DATA // unit, levels * DATA // unit)
    assert (result.read_bytes, result.write_bytes) == (levels * DATA, levels * DATA)
    assert os.listdir(tmp_path) == []


def test_a_unit_that_does_not_divide_leaves_a_rest_per_run(tmp_path):
    result = external_sort(tmp_path, data_bytes=DATA, memory_bytes=512 * K, unit_bytes=48 * K)
    assert formula(DATA, 512 * K, 48 * K) == (9, 1)
    assert result.reads == result.writes == 8 * math.ceil(512 / 48)


@cases(("memory", "unit", "levels"), [(512 * K, 8 * K, 1), (256 * K, 48 * K, 2)])
def test_the_join_does_the_ios_of_the_formula(tmp_path, memory, unit, levels):
    at_once, expected = formula(2 * M, memory, unit)
    assert expected == levels
    result, matches = hash_join(
        tmp_path, build_bytes=2 * M, probe_bytes=M, memory_bytes=memory, unit_bytes=unit
    )
    assert result.levels == levels
    moved = levels * 3 * M
    assert (result.read_bytes, result.write_bytes) == (moved, moved)
    # Each partition of each side ends with a partial unit.
    rests = 2 * sum(at_once**level for level in range(1, levels + 1))
    assert moved / unit <= result.writes == result.reads <= moved / unit + rests
    # Two keys are equal with the probability of one over the number of build rows.
    assert matches == pytest.approx(M / 8, rel=0.05)
    assert os.listdir(tmp_path) == []


def test_data_that_fits_or_cannot_be_merged_is_refused(tmp_path):
    with pytest.raises(OptionInvalid):
        external_sort(tmp_path, data_bytes=M, memory_bytes=M, unit_bytes=8 * K)
    with pytest.raises(InputError):
        hash_join(tmp_path, build_bytes=M, probe_bytes=M, memory_bytes=M, unit_bytes=8 * K)
    with pytest.raises(OptionInvalid):
        external_sort(tmp_path, data_bytes=M, memory_bytes=64 * K, unit_bytes=32 * K)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recorded sort, and the result that it printed."""
    room = tmp_path_factory.mktemp("pattern")
    temp, output = room / "temp", room / "run.spill"
    temp.mkdir()
    requested = ("--data", "4M", "--memory", "512K", "--unit", "64K")
    command = [sys.executable, "-m", "bench.spilling", "sort", temp, *requested]
    result = completed(
        "record", "--temp", temp, "-o", output, "--", *command, env=environment(), cwd=ROOT
    )
    return Recording.open(output), json.loads(result.stdout.splitlines()[0])


def test_a_recording_of_the_sort_has_its_ios(recorded):
    recording, answer = recorded
    assert answer["levels"] == 2
    counts = recording.meta.temp
    assert (counts.reads, counts.writes) == (answer["reads"], answer["writes"]) == (128, 128)


def test_the_synthetic_sort_equals_the_real_one(recorded):
    """The same operations by file and op; only the order in which runs are read may differ."""
    recording, _ = recorded
    made_up = SyntheticSpill(DATA, 512 * K, 8 * K).steps(IoSizeSetting(64 * K, 64 * K))
    assert by_file(plan(recording)) == by_file(made_up)


def by_file(steps):
    """By op and file, what is moved where, in the order of the writes."""
    result = {}
    rows = steps.to_pylist()
    names = list(dict.fromkeys(row["file"] for row in rows if row["write"]))
    for row in rows:
        key = row["write"], names.index(row["file"])
        result.setdefault(key, []).append((row["offset"], row["bytes"]))
    return {key: of if key[0] else sorted(of) for key, of in result.items()}


def test_the_program_reports_errors(tmp_path):
    module = [sys.executable, "-m", "bench.spilling"]
    result = subprocess.run(
        [*module, "sort", tmp_path, "--data", "1M"], capture_output=True, text=True, cwd=ROOT
    )
    assert result.returncode == 1
    assert result.stderr.startswith("spilling: 1 MiB of data fit")
