"""Traces replayed on a directory: the forecast is that of a recording of the same I/O."""

import json

import pytest

from ash_files import execution, write_ash
from cases import nightly
from emulator import skip_without_fuse
from evidence import recording
from harness import json_of, only_line, spillcast
from oracle_files import HEADER, READ, WRITE, blocks, write_trace
from spillcast.evidence.oracle.trace_recording import recording_of_traces
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
from spills import written_and_read

KIB, US = 1 << 10, 1_000
BLOCK = 8 * KIB
#: Files of several sizes of operations, written in order and read back.
OPERATIONS = [
    item
    for size in (8 * KIB, 64 * KIB, 128 * KIB)
    for item in written_and_read(60 * size, size=size, files=1)
]
LATENCY_NS, GAP_NS = 2_000 * US, 500 * US
#: The latency of a read and of a write, in seconds.
STORAGES = [(0.0005, 0.004), *nightly((0.0003, 0.0003), (0.001, 0.0005), (0.003, 0.001))]


def trace_of(path, operations, *, header=HEADER):
    """The trace that a database writes of the same operations, one after another."""
    tim, lines = 1_000_000, []
    for op, file, offset, size in operations:
        tim += (LATENCY_NS + GAP_NS) // US
        place = f"file number={201 + file} first dba={offset // BLOCK} block cnt={size // BLOCK}"
        event = READ if op == "read" else WRITE
        lines.append(f"WAIT #7: nam='{event}' ela= {LATENCY_NS // US} {place} obj#=5 tim={tim}")
    path.write_text(header + "\n".join(lines) + "\n")
    return path


def answer(baseline, target, *options):
    return json_of("forecast", baseline, "--to", target, *options)


@pytest.mark.parametrize(("read_s", "write_s"), STORAGES)
def test_the_forecast_equals_that_of_a_recording(tmp_path, read_s, write_s):
    skip_without_fuse()
    whole_s = len(OPERATIONS) * (LATENCY_NS + GAP_NS) / 1e9
    loads = [(op, size, 1, LATENCY_NS) for op, _, _, size in OPERATIONS]
    run = recording(tmp_path / "run.spill", loads, elapsed_s=whole_s)
    trace = trace_of(tmp_path / "here.trc", OPERATIONS)
    backing, target = tmp_path / "backing", tmp_path / "there"
    for folder in (backing, target):
        folder.mkdir()
    measured = tmp_path / "there.json"
    with emulate(fixed_behaviour(read_s, write_s), target, backing):
        result = spillcast("probe", target, "--like", trace, "-o", measured)
    assert result.returncode == 0, result.stderr
    by_trace, by_recording = (
        answer(item, measured, "--elapsed", f"{whole_s}s") for item in (trace, run.path)
    )
    assert by_trace["forecast_s"] == pytest.approx(by_recording["forecast_s"], rel=0.03)
    groups = json.loads(measured.read_text())["groups"]
    # The probe did every operation, none faster than the storage allows.
    assert sum(group["count"] for group in groups) == len(OPERATIONS)
    for group in groups:
        least_s = read_s if group["op"] == "read" else write_s
        assert group["total_ns"] >= 0.9e9 * least_s * group["count"]
    reads_and_writes_s = sum(group["total_ns"] for group in groups) / 1e9
    assert by_trace["forecast_s"] == pytest.approx(
        len(OPERATIONS) * GAP_NS / 1e9 + reads_and_writes_s, rel=0.01
    )
    codes = {warning["code"] for warning in by_trace["warnings"]}
    assert "block-assumed" in codes
    assert "not-replayed" not in codes


def test_a_trace_as_a_recording_keeps_operations_and_time(tmp_path):
    trace = trace_of(tmp_path / "here.trc", OPERATIONS)
    made = recording_of_traces([trace], BLOCK)
    step_s = (LATENCY_NS + GAP_NS) / 1e9
    # The first wait starts the recording.
    assert made.elapsed_s == pytest.approx(len(OPERATIONS) * step_s - GAP_NS / 1e9, abs=1e-5)
    waits = made.temp_waits.to_pylist()
    assert [(w["op"], w["bytes"], w["offset"]) for w in waits] == [
        (op, size, offset) for op, _, offset, size in OPERATIONS
    ]
    assert {w["elapsed_ns"] for w in waits} == {LATENCY_NS}


def test_sessions_are_replayed_side_by_side(tmp_path):
    others = HEADER.replace("(35.65385)", "(36.1)")
    half = len(OPERATIONS) // 2
    traces = [
        trace_of(tmp_path / "a.trc", OPERATIONS[:half]),
        trace_of(tmp_path / "b.trc", OPERATIONS[half:], header=others),
    ]
    target = tmp_path / "there"
    target.mkdir()
    document = json_of("probe", target, "--like", tmp_path, "--block", "8K")
    assert document["facts"]["threads"] == len(traces)
    counts = {(item["op"], item["size_class_bytes"]): item["count"] for item in document["groups"]}
    assert sum(counts.values()) == len(OPERATIONS)
    assert list(target.iterdir()) == []


def test_the_probe_uses_direct_io_where_possible(tmp_path):
    trace = trace_of(tmp_path / "here.trc", OPERATIONS)
    result = spillcast("probe", tmp_path, "--like", trace, "--json")
    document = json.loads(result.stdout)
    if not document["facts"]["direct"]:
        pytest.skip(f"{document['facts']['filesystem']} takes no direct I/O")
    assert {item["access"] for item in document["groups"]} == {"direct"}


def test_a_directory_is_probed_with_the_trace(tmp_path):
    target = tmp_path / "there"
    target.mkdir()
    reply = answer(trace_of(tmp_path / "here.trc", OPERATIONS), target)
    assert reply["forecast_s"] < reply["baseline_s"]
    assert "not-replayed" not in {warning["code"] for warning in reply["warnings"]}
    assert list(target.iterdir()) == []


def test_a_trace_is_forecast_for_tmpfs(tmp_path):
    reply = answer(trace_of(tmp_path / "here.trc", OPERATIONS), "tmpfs")
    assert reply["forecast_s"] < reply["baseline_s"] / 2
    assert any("mount -t tmpfs" in advice for advice in reply["advice"])


def test_samples_alone_cannot_be_replayed(tmp_path):
    ash = write_ash(tmp_path / "ash.csv", execution(100))
    message = only_line(spillcast("forecast", ash, "--to", "tmpfs"), 2)
    assert "ASH samples cannot be replayed" in message
    assert "add a trace" in message


def test_waits_without_file_and_block_cannot_be_replayed(tmp_path):
    trace = write_trace(tmp_path / "here.trc", [(READ, 900, "p1=0 p2=0 p3=0")] * 9)
    message = only_line(spillcast("probe", tmp_path, "--like", trace), 2)
    assert "its waits name no temp file, block and count" in message


def test_the_block_size_option_is_only_for_traces(tmp_path):
    write_trace(tmp_path / "here.trc", [(READ, 900, blocks(1))])
    run = recording(tmp_path / "run.spill", [("read", BLOCK, 4, LATENCY_NS)], elapsed_s=1.0)
    for source, words in (
        (("--like", run.path), "--block does not apply to recordings"),
        (("--grid",), "--block is for a replay"),
    ):
        assert words in only_line(spillcast("probe", tmp_path, *source, "--block", "8K"), 2)
