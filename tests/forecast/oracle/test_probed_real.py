"""Real spills written as traces: a probe from the trace and its forecast equal the recording's."""

import sys
from collections import namedtuple

import pytest
from as_trace import write_as_trace

from cases import cases, nightly
from emulator import skip_without_fuse
from harness import TIMEOUT_S, available, spillcast, until_attached
from postgres_rig import JOIN, recorder, rig
from spillcast.engines.postgres.server import embedded
from spillcast.evidence.oracle.trace_recording import recording_of_traces
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question
from spillcast.recording import Recording
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
from spillcast.storage.probe import plan

Spill = namedtuple("Spill", "recording traces block")
#: The allowed difference from the recording's own forecast.
POINTS = 0.03
#: Estimators that are left out where only the sum of the I/O is compared.
ALONE = ("recording", "machine", "cost")
#: The latency of a read and of a write, in seconds.
EMULATED = [(0.002, 0.0005), *nightly((0.0003, 0.0003))]
ASSUMED = ["latency:2ms", "catalogue:linux-hdd"]
DUCKDB = """
import sys, duckdb
settings = {"memory_limit": "60MB", "threads": 1, "temp_directory": sys.argv[1]}
with duckdb.connect(config=settings) as connection:
    connection.execute("set enable_progress_bar = false")
    connection.execute(
        "create table t as select hash(i) as id, hash(i + 1) as n from range(2000000) r(i)"
    )
    connection.execute("select max(b.n) from t a, t b where a.id = b.id").fetchall()
"""


def of_duckdb(room):
    """A hash join, on storage of half a millisecond."""
    backing, temp = room / "backing", room / "slow"
    for folder in (backing, temp):
        folder.mkdir()
    output = room / "run.spill"
    with emulate(fixed_behaviour(0.0005, 0.0005), temp, backing):
        command = (sys.executable, "-c", DUCKDB, temp / "files")
        result = spillcast("record", "-o", output, "--temp", temp, "--", *command)
    assert result.returncode == 0, result.stderr
    # Compressed blocks of DuckDB start at multiples of 4 KiB.
    return output, 4096


def of_postgres(room):
    """A hash join of the newest PostgreSQL, on storage of half a millisecond."""
    output = room / "run.spill"
    with (
        rig(embedded()) as made,
        made.client() as client,
        recorder(output, "--pid", client.pid) as process,
    ):
        until_attached(output, process)
        client.run(f"{JOIN} where x.id % 8 = 0")
        client.result()
        client.connection.close()
        _, answer = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, answer
    return output, 8192


@pytest.fixture(
    scope="module", params=[of_duckdb, *nightly(of_postgres)], ids=["duckdb", "postgresql"]
)
def spill(request, tmp_path_factory):
    """A real recording, and the traces that Oracle would have written of the same."""
    skip_without_fuse()
    available("bpf")
    room = tmp_path_factory.mktemp("spill")
    output, block = request.param(room)
    recording = Recording.open(output)
    assert recording.meta.raw.whole
    assert recording.meta.temp.operations > 300
    traces = write_as_trace(recording, room / "traces", block_bytes=block)
    return Spill(recording, traces, ("--block", str(block)))


def both(spill, target):
    """The forecasts from the traces and from the recording for one target, in seconds.

    CPU time after waits and the cost of recording are left out: a trace has neither, and on a busy
    machine both are noise.
    """
    whole = Question(elapsed_s=spill.recording.elapsed_s, block=spill.block[1])
    [(traced, _)] = ask([spill.traces], [str(target)], whole)
    [(recorded, _)] = ask(spill.recording, [str(target)], Question(without=ALONE))
    assert (traced.refused, recorded.refused) == (None, None)
    apart_s = traced.forecast_s - recorded.forecast_s
    print(f"{target}: {recorded.forecast_s:.2f} s by the recording, {apart_s:+.2f} s")
    return traced.forecast_s, recorded.forecast_s


def within_points(spill, traced_s, recorded_s):
    """Whether they differ by at most the limit, as a share of the run's time on either storage."""
    return abs(traced_s - recorded_s) <= POINTS * max(spill.recording.elapsed_s, recorded_s)


def test_a_probe_from_the_trace_repeats_one_from_the_recording(spill):
    """The same files, offsets and sizes in the same order, one thread per session."""
    paths = sorted(spill.traces.iterdir())
    by_trace = plan(recording_of_traces(paths, int(spill.block[1]))).to_pylist()
    by_recording = plan(spill.recording).to_pylist()
    assert len(by_trace) == len(by_recording)
    files = {}
    for step, other in zip(by_trace, by_recording, strict=True):
        # The end of a file in the middle of a block is a whole block in Oracle's traces.
        block = int(spill.block[1])
        assert step["bytes"] == -(-other["bytes"] // block) * block
        assert (step["write"], step["offset"]) == (other["write"], other["offset"])
        assert files.setdefault(step["file"], other["file"]) == other["file"]
        # Waits end and begin in whole microseconds.
        assert step["delay_ns"] == pytest.approx(other["delay_ns"], abs=3_000)


@pytest.mark.parametrize(("read_s", "write_s"), EMULATED)
def test_measurements_from_the_trace_give_the_same_forecast(spill, tmp_path, read_s, write_s):
    backing, target, measured = (tmp_path / name for name in ("backing", "there", "there.json"))
    for folder in (backing, target):
        folder.mkdir()
    with emulate(fixed_behaviour(read_s, write_s), target, backing):
        result = spillcast("probe", target, "--like", spill.traces, *spill.block, "-o", measured)
    assert result.returncode == 0, result.stderr
    assert within_points(spill, *both(spill, measured))


@cases("target", ASSUMED)
def test_an_assumed_storage_gives_the_same_forecast(spill, target):
    assert within_points(spill, *both(spill, target))
