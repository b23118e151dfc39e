"""The storage of temp files, by the mounts; the files of a recording, read without spillcast."""

import ctypes
import json
import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from arrow_schemas import arrow_schema
from cases import cases
from evidence import change, known, seconds, storage, table
from harness import EXACT, completed, spill_in, target
from spillcast import _core
from spillcast.forecast import ask, forecast
from spillcast.forecast.question import Question
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.meta import Meta
from spillcast.recording.observed import TempPlace
from spillcast.recording.schema import SAMPLES, SECONDS, WAITS
from spillcast.recording.writer import RecordingWriter

SHARED = Path("/dev/shm")
SIZE = 8192
LATENCY_NS = 1_000_000
TARGET = storage({("read", SIZE): LATENCY_NS, ("write", SIZE): LATENCY_NS})
MNT_DETACH = 2


def device(path):
    """The number of a device, in the kernel's format."""
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def recorded(path, files):
    """A recording with the given number of writes to each file."""
    rows = [
        {
            "start_ns": number * 2 * LATENCY_NS, "elapsed_ns": LATENCY_NS, "session": 1,
            "event": "pwrite64", "op": "write", "temp": True, "file": str(file),
            "offset": number * SIZE, "bytes": SIZE,
        }
        for number, file in enumerate(file for file, count in files.items() for _ in range(count))
    ]  # fmt: skip
    writer = RecordingWriter(path)
    writer.add_waits(table(rows, WAITS))
    writer.add_seconds(seconds([("write", SIZE, len(rows), LATENCY_NS)], 1))
    return writer.finish(known(10.0, 0, len(rows)))


def warned(answer):
    return {warning.code: warning.message for warning in answer.warnings}


def test_a_recording_names_the_storage_of_its_temp_files(spilled):
    meta = Recording.open(spilled.path).meta
    [place] = meta.temp_places
    assert place.directory == str(spilled.places.temp)
    assert place.device == device(spilled.places.temp)
    assert place.bytes == meta.temp.bytes
    assert place.network is False
    assert not {"source-network", "devices"} & set(
        warned(forecast(Recording.open(spilled.path), TARGET))
    )


def test_temp_files_on_two_devices_are_a_warning(tmp_path):
    """A single --to would move both; --temp selects one of them."""
    if device(SHARED) == device(tmp_path):
        pytest.skip("only one device is here")
    near, far = SHARED / "ts1" / "pgsql_tmp", tmp_path / "ts2"
    files = {near / "a.0": 150, near / "b" / "b.0": 30, far / "c.0": 60}
    run = Recording.open(recorded(tmp_path / "run.spill", files).path)
    assert [(place.directory, place.bytes) for place in run.meta.temp_places] == [
        (str(near), 180 * SIZE),
        (str(far), 60 * SIZE),
    ]
    text = warned(forecast(run, TARGET))["devices"]
    assert f"75 % in {near} (tmpfs), 25 % in {far}" in text
    assert text.endswith(f"use --temp {near} or --temp {far}")
    # The warning states these counts.
    for folder, count in ((near, 180), (far, 60)):
        [(answer, _)] = ask(run, [TARGET], Question(temp_dirs=[folder]))
        assert sum(term.count or 0 for term in answer.terms if term.op) == count
        assert "devices" not in warned(answer)


def test_a_relative_directory_is_relative_to_the_recorder(tmp_path):
    (tmp_path / "temp").mkdir()
    command = target("duckdb_sort", tmp_path / "temp", 600_000)
    options = ("--capture", EXACT, "-o", "run.spill", "--temp", "temp")
    completed("record", *options, "--", *command, cwd=tmp_path)
    recording = Recording.open(tmp_path / "run.spill")
    assert [Path(path) for path in recording.meta.asked.temp_dirs] == [tmp_path / "temp"]
    # The form of earlier versions.
    reported = replace(
        recording.meta, asked=replace(recording.meta.asked, temp_dirs=[Path("temp")])
    )
    assert [place.directory for place in reported.named_temp_places] == [str(tmp_path / "temp")]
    completed("forecast", tmp_path / "run.spill", "--to", "factor:1")


def test_a_relative_place_is_below_no_named_directory():
    places = [TempPlace(path, "8:1", "ext4", False, 1) for path in ("mnt/temp", "/mnt/temp/a")]
    options = RecordOptions(temp_dirs=[Path("/mnt/temp")])
    assert Meta(temp_places=places, asked=options).named_temp_places == places[1:]


def test_a_few_blocks_elsewhere_are_not_a_second_device(tmp_path):
    if device(SHARED) == device(tmp_path):
        pytest.skip("only one device is here")
    run = recorded(tmp_path / "run.spill", {SHARED / "a": 200, tmp_path / "b": 2})
    assert len(run.meta.temp_places) == 2
    assert "devices" not in warned(forecast(run, TARGET))


@contextmanager
def never_answering(point, kind):
    """A FUSE file system of this type without a server: every access waits for ever."""
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    try:
        if libc.mount(b"db-7:/export", os.fsencode(point), kind.encode(), 0, options):
            pytest.skip(f"no FUSE file system here: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            assert libc.umount2(os.fsencode(point), MNT_DETACH) == 0
    finally:
        os.close(server)


def test_a_network_is_recognised_by_its_type_without_access(tmp_path):
    """A hanging server must not hang the recorder."""
    point, plain = tmp_path / "far", tmp_path / "near"
    point.mkdir()
    plain.mkdir()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no /dev/fuse")
    with never_answering(point, "fuse.sshfs"):
        run = recorded(tmp_path / "run.spill", {point / "tmp" / "a": 100, plain / "b": 1})
        assert _core.mounted(str(point / "tmp"))[1:3] == ("fuse.sshfs", True)
        assert _core.mounted(str(plain))[1:3] != ("fuse.sshfs", True)
    assert f"{point / 'tmp'} (fuse.sshfs)" in warned(forecast(run, TARGET))["source-network"]


def test_a_recording_without_storages_gives_no_warning(tmp_path):
    run = recorded(tmp_path / "run.spill", {tmp_path / "a": 10})
    change(run, temp_places=())
    assert not {"source-network", "devices"} & set(warned(forecast(run, TARGET)))
    change(run, temp_places=[TempPlace("/mnt", "0:52", "nfs4", True, 100)])
    assert "source-network" in warned(forecast(run, TARGET))


FILES = {
    "waits.parquet": WAITS,
    "seconds.parquet": SECONDS,
    "samples.parquet": SAMPLES,
}


@cases("name", FILES)
def test_every_column_exists_with_its_type(spilled, name):
    assert pq.read_schema(spilled.path / name).equals(arrow_schema(FILES[name]))


def test_a_recording_has_only_these_files(spilled):
    assert {path.name for path in spilled.path.iterdir()} - {"stacks.json"} == {"meta.json", *FILES}


def test_seconds_add_up_to_the_waits(spilled):
    query = """
        select second, op, temp, sum("count"), sum(bytes), sum(total_ns),
               sum(list_sum(latency_count))
        from '{}' group by all order by all
    """.replace("{}", str(spilled.path / "seconds.parquet"))
    expected = """
        select start_ns // 1000000000, op, temp, count(*), coalesce(sum(bytes), 0),
               sum(elapsed_ns), count(*)
        from '{}' group by all order by all
    """.replace("{}", str(spilled.path / "waits.parquet"))
    assert duckdb.sql(query).fetchall() == duckdb.sql(expected).fetchall()


def test_meta_has_the_counts_and_the_cost(spilled):
    meta = json.loads((spilled.path / "meta.json").read_text())
    assert meta["schema"] == "spillcast.recording/1"
    ops = Counter()
    for _, _, op, count, _, file in spilled.account["account"]:
        if file != str(spilled.places.base):
            ops[op] += 1
            ops["bytes"] += count
    assert meta["temp"]["reads"] == ops["read"]
    assert meta["temp"]["writes"] == ops["write"]
    assert meta["temp"]["bytes"] == ops["bytes"]
    assert meta["elapsed_s"] > 0.5
    assert meta["engine"]["exit_status"] == 0
    assert meta["machine"]["memory_bytes"] > 0
    assert meta["raw"]["slices_s"] is None
    assert meta["capture"].keys() >= {
        "method", "lost", "tracer_cpu_s", "run_queue_delay_s", "io_uring", "mapped_temp_files"
    }  # fmt: skip


def test_a_new_process_measures_the_caches(places):
    output = places.root / "run.spill"
    command = spill_in(places)
    completed("record", "-o", output, "--", *command, env=places.env, anew=True)
    private, usual = json.loads((output / "meta.json").read_text())["machine"]["caches"]
    assert 0 < private["bytes"] < usual["bytes"]
    assert 0 < private["warm_ns"] < usual["warm_ns"]
    for cache in (private, usual):
        waits_ns, extra_ns = zip(*cache["cold_ns"], strict=True)
        assert list(waits_ns) == sorted(set(waits_ns))
        assert list(extra_ns) == sorted(extra_ns)


def test_waits_of_a_thread_do_not_overlap(spilled):
    overlapping = """
        select count(*) from (
            select start_ns, lag(start_ns + elapsed_ns) over
                (partition by session order by start_ns) as before
            from '{}'
        ) where start_ns < before
    """.replace("{}", str(spilled.path / "waits.parquet"))
    assert duckdb.sql(overlapping).fetchall() == [(0,)]
