"""The writer's files equal those of a slow, obvious implementation for the same rows."""

import functools
import random
import subprocess
import sys
from collections import defaultdict

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arrow_schemas import arrow_schema
from cases import cases, nightly
from evidence import known
from harness import EXACT
from spillcast import _core
from spillcast.recording import Recording
from spillcast.recording.schema import SAMPLES, SECONDS, WAITS
from spillcast.recording.writer import RecordingWriter, TimeShift
from spillcast.tables import Table

S = 1_000_000_000
FILES = [None, *(f"/t/spill-{number}" for number in range(40))]


@functools.cache
def made_up(count, seed, *, duration_s=30.0, late=0.02):
    """Waits in order of their ends: some end long after they started."""
    draw = random.Random(seed)

    def maybe(value):
        return value if draw.random() < 0.8 else None

    rows = []
    for _ in range(count):
        elapsed_ns = draw.randrange(1, 5 * S if draw.random() < late else 2_000_000)
        rows.append({
            "start_ns": draw.randrange(round(duration_s * S)), "elapsed_ns": elapsed_ns,
            "session": draw.randrange(1, 9), "event": draw.choice(["pread64", "write", "blocked"]),
            "op": draw.choice(["read", "write", None]), "temp": draw.random() < 0.5,
            "file": draw.choice(FILES), "offset": maybe(draw.randrange(1 << 40)),
            "bytes": maybe(draw.randrange(1 << 20)), "blocked": draw.choice([None, True, False]),
            "cpu_before_ns": maybe(draw.randrange(S)), "woken_by": maybe(draw.randrange(9)),
            "sql_id": maybe("9qkt7z2dgqc1n"), "object": maybe(-draw.randrange(99)),
            "line": maybe(draw.randrange(1, 99)),
        })  # fmt: skip
    return sorted(rows, key=lambda row: row["start_ns"] + row["elapsed_ns"])


def made_up_seconds(seed):
    draw = random.Random(seed)
    return [
        {
            "second": second, "op": op, "temp": draw.random() < 0.5, "size_class_bytes": 8192,
            "count": sum(counts), "bytes": draw.randrange(1 << 40),
            "total_ns": draw.randrange(1 << 50),
            "latency_ns": sorted(draw.randrange(1 << 40) for _ in counts), "latency_count": counts,
        }
        for second in range(30) for op in ("read", "write", None)
        for counts in [[draw.randrange(1, 1 << 20) for _ in range(draw.randrange(4))]]
    ]  # fmt: skip


def write(path, rows, seconds=(), *, clock=None, batches=7, **options):
    writer = RecordingWriter(path, **options)
    size = len(rows) // batches + 1
    for at in range(0, max(len(rows), 1), size):
        writer.add_waits(Table.from_rows(rows[at : at + size], WAITS))
    for row in seconds:
        writer.add_seconds(Table.from_rows([row], SECONDS))
    writer.finish(known(30, 1, 1), clock or TimeShift())
    return Recording.open(path)


def slow(rows, part_s, rows_max, parts_max):
    """Rows by part number, at the smallest step with few enough parts and rows."""
    parts = defaultdict(list)
    for row in rows:
        parts[row["start_ns"] // round(part_s * S)].append(row)
    step = 1
    while len(parts) > 1 and (len(parts) > parts_max or sum(map(len, parts.values())) > rows_max):
        step *= 2
        parts = {number: part for number, part in parts.items() if number % step == 0}
    return dict(sorted(parts.items()))


def rows_of(path):
    return pq.read_table(path).to_pylist()


@cases("count", [0, 1, 5_000, 70_000])
@pytest.mark.nightly
def test_rows_are_grouped_by_part_and_keep_their_order(tmp_path, count):
    rows = made_up(count, seed=count)
    recording = write(tmp_path / "run.spill", rows)
    parts = slow(rows, 1.0, 10**9, 10**9)
    expected = [row for part in parts.values() for row in part]
    assert rows_of(recording.path / "waits.parquet") == expected
    raw = recording.meta.raw
    assert (raw.rows, raw.rows_seen, raw.slices_s) == (count, count, None)


def test_files_are_readable_by_pyarrow_with_their_types(tmp_path):
    rows, seconds = made_up(1_000, seed=1), made_up_seconds(seed=1)
    path = write(tmp_path / "run.spill", rows, seconds).path
    schemas = {"waits": WAITS, "seconds": SECONDS, "samples": SAMPLES}
    for name, schema in schemas.items():
        assert pq.read_schema(path / f"{name}.parquet").equals(arrow_schema(schema))
    files = duckdb.sql(f"select file, count(*) from '{path}/waits.parquet' group by all").fetchall()
    assert dict(files) == {file: sum(row["file"] == file for row in rows) for file in FILES}
    assert rows_of(path / "seconds.parquet") == seconds
    assert rows_of(path / "samples.parquet") == []
    assert {file.name for file in path.iterdir()} == {
        "meta.json", "waits.parquet", "seconds.parquet", "samples.parquet"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows_max", "parts_max"), [(20_000, 2_000), (3_000, 2_000), (10**9, 20), (10**9, 3), (10, 1)]
)
@pytest.mark.parametrize("batches", [50, *nightly(1)])
def test_every_second_part_is_dropped_if_there_are_too_many(tmp_path, rows_max, parts_max, batches):
    rows = made_up(20_001, seed=5)
    bounds = {"rows_max": rows_max, "parts_max": parts_max}
    recording = write(tmp_path / "run.spill", rows, batches=batches, **bounds)
    parts = slow(rows, 1.0, **bounds)
    kept = [row for part in parts.values() for row in part]
    assert rows_of(recording.path / "waits.parquet") == kept
    raw = recording.meta.raw
    assert (raw.rows, raw.rows_seen) == (len(kept), len(rows))
    assert raw.slices_s == [(number, number + 1) for number in parts]


@cases("slices", [1, 2, 7, 40])
def test_slices_are_spread_evenly(tmp_path, slices):
    rows = made_up(20_000, seed=6)
    recording = write(tmp_path / "run.spill", rows, slices=slices)
    parts = slow(rows, 0.3, 10**9, 2 * slices)
    numbers = list(parts)
    if len(numbers) > slices:
        step = (len(numbers) - 1) / max(slices - 1, 1)
        numbers = [numbers[round(at * step)] for at in range(slices)]
    assert len(numbers) == slices
    expected = [row for number in numbers for row in parts[number]]
    assert rows_of(recording.path / "waits.parquet") == expected
    spans_s = [part for span_s in recording.meta.raw.slices_s for part in span_s]
    assert spans_s == pytest.approx([n * 0.3 + end for n in numbers for end in (0, 0.3)])


@cases("zero_ns", [1, 3 * S, 7_654_321_098, 40 * S])
def test_times_count_from_the_start_of_the_run(tmp_path, zero_ns):
    rows, seconds = made_up(5_000, seed=8), made_up_seconds(seed=8)
    path = tmp_path / "run.spill"
    clock = TimeShift(zero_ns)
    recording = write(path, rows, seconds, clock=clock)
    whole = [row for part in slow(rows, 1.0, 10**9, 10**9).values() for row in part]
    expected = clock.waits(Table.from_rows(whole, WAITS)).to_pylist()
    assert rows_of(path / "waits.parquet") == expected
    assert recording.meta.raw.rows == recording.meta.raw.rows_seen == len(expected)
    of_run = clock.seconds(Table.from_rows(seconds, SECONDS)).to_pylist()
    assert rows_of(path / "seconds.parquet") == of_run


def test_the_finished_recording_knows_the_sums_of_its_files(tmp_path):
    writer = RecordingWriter(tmp_path / "run.spill", slices=9)
    writer.add_waits(Table.from_rows(made_up(20_000, seed=9), WAITS))
    writer.add_seconds(Table.from_rows(made_up_seconds(seed=9), SECONDS))
    finished = writer.finish(known(30, 1, 1), TimeShift(4 * S))
    assert min(finished.written_bytes) > 0
    assert finished.other_files.keys() == set(FILES[1:])
    read = Recording.open(finished.path)
    assert finished.written_bytes == read.written_bytes
    assert finished.other_files == read.other_files


def test_columns_of_another_type_are_refused(tmp_path):
    writer = _core.RecordingWriter(tmp_path / "run.spill")
    with pytest.raises(ValueError, match="second"):
        writer.add_seconds(pa.record_batch({"x": [1]}))
    column = pa.array(["soon"]).dictionary_encode()
    with pytest.raises(ValueError, match="start_ns"):
        writer.add_waits(pa.record_batch({"start_ns": column}))
    unnamed = Table.from_rows([made_up(1, seed=1)[0] | {"event": None}], WAITS)
    with pytest.raises(ValueError, match="event"):
        writer.add_waits(unnamed)


#: Runs the command line in this process; prints its peak memory in kB and its large imports.
RECORD = """
import re, sys
from spillcast.cli import main
sys.argv = ["spillcast", "record", *sys.argv[1:]]
try:
    main()
except SystemExit as exited:
    assert exited.code == 0, exited.code
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
large = {"duckdb", "numpy", "pandas", "polars", "pyarrow"} & sys.modules.keys()
print(peak, *sorted(large))
"""
READS = """
import os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(descriptor, bytes(512), 0)
for _ in range(int(sys.argv[2])):
    os.pread(descriptor, 512, 0)
"""


@pytest.mark.parametrize(
    ("count", "name", "peak_mb"),
    [(100, "not_recognised", 65),
     *nightly(*((count, "duckdb_temp_made_up", 80) for count in (1, 400_000, 5_000_000)))],
)  # fmt: skip
def test_a_long_recording_takes_little_memory(tmp_path, monkeypatch, count, name, peak_mb):
    monkeypatch.setenv("TMPDIR", "/nowhere")
    output, spilled = tmp_path / "run.spill", tmp_path / name
    record = [sys.executable, "-c", RECORD, "--capture", EXACT, "-o", str(output), "--"]
    command = [sys.executable, "-c", READS, str(spilled), str(count)]
    ended = subprocess.run([*record, *command], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    peak_kb, *large = ended.stdout.splitlines()[-1].split()
    assert int(peak_kb) / 1024 < peak_mb
    assert large == []
    meta = Recording.open(output).meta
    seen = meta.temp.reads if "temp" in name else meta.other_io.count
    assert seen + meta.capture.lost >= count
    kept = pq.read_metadata(output / "waits.parquet").num_rows
    assert kept == meta.raw.rows
    assert meta.raw.rows_seen + meta.capture.dropped + meta.capture.lost >= count
