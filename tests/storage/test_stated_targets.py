"""Storages measured by others or stated by people: fio's JSON, limits in a word, rates."""

import json
import re
from dataclasses import replace
from math import inf

import pytest

from cases import cases
from spillcast.errors import (
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceMixed,
    EvidenceUnknown,
    EvidenceUnsuited,
    InputError,
)
from spillcast.storage.catalogue import lookup
from spillcast.storage.model import Model
from spillcast.storage.target import device, resolve_storage
from spillcast.units import parse_bytes_per_s, parse_rate


def fio(path, *jobs, before=""):
    """A file of fio's JSON; jobs are rw, bs, iodepth, op, operations, mean (ns), percentiles."""
    documents = []
    for rw, bs, depth, op, count, mean_ns, percentiles in jobs:
        latency = {"mean": mean_ns, "percentile": percentiles}
        documents.append({
            "jobname": rw, "job options": {"rw": rw, "bs": bs, "iodepth": str(depth)},
            op: {"total_ios": count, "lat_ns": {"mean": mean_ns}, "clat_ns": latency},
        })  # fmt: skip
    document = {"fio version": "fio-3.28", "global options": {"direct": "1"}, "jobs": documents}
    path.write_text(before + json.dumps(document))
    return path


def test_fio_has_latencies_by_size_and_depth(tmp_path):
    percentiles = {"50.000000": 90_000, "90.000000": 110_000, "99.000000": 180_000}
    path = fio(
        tmp_path / "fio.json",
        ("randread", "8k", 1, "read", 1000, 96_000.0, percentiles),
        ("randread", "8k", 4, "read", 4000, 120_000.0, {}),
        ("write", "1M", 1, "write", 500, 900_000.0, {}),
        before="fio: this platform has no CPU clock\n",
    )
    result = resolve_storage(str(path))
    groups = {(g.op, g.depth): g for g in result.groups}
    read = groups["read", 1]
    assert (read.size_class_bytes, read.bytes, read.mean_s) == (8192, 8192 * 1000, 96e-6)
    assert dict(zip(read.latency_ns, read.latency_count, strict=True)) == {
        90_000: 500, 110_000: 400, 180_000: 100,
    }  # fmt: skip
    assert (read.pattern, read.access) == ("random", "direct")
    assert groups["write", 1].size_class_bytes == 1 << 20
    model = Model(result)
    assert model.latency("read", 8192, depth=1.0, sequential=False).mean_s == pytest.approx(96e-6)


def test_fio_of_several_clients_has_the_jobs_of_each_without_their_sum(tmp_path):
    job = ("randread", "8k", 1, "read", 1000, 96_000.0, {})
    document = json.loads(fio(path := tmp_path / "fio.json", job, job, job).read_text())
    *_, total = document["client_stats"] = document.pop("jobs")
    total["jobname"] = "All clients"
    path.write_text(json.dumps(document))
    assert [group.count for group in resolve_storage(str(path)).groups] == [1000, 1000]


def reads(**more):
    """A job of 1,000 reads of 64 KiB that took 1 ms each, one after the other."""
    done = {"total_ios": 1000, "io_bytes": 65_536_000, "lat_ns": {"mean": 1e6}, "runtime": 1010}
    return {"job options": {"rw": "randread"}, "read": done | more}


@cases(
    ("job", "holds"),
    [
        (reads(), True),
        (reads(runtime=0), True),
        (reads(lat_ns={"mean": 1e9}), False),
        (reads(total_ios=100_000), False),
        (reads(runtime=250) | {"job options": {"rw": "randread", "iodepth": "4"}}, True),
        (reads(runtime=200) | {"job options": {"rw": "randread", "iodepth": "4"}}, False),
    ],
)
def test_the_depth_by_littles_law_must_not_exceed_fios_limit(tmp_path, job, holds):
    """By Little's law the depth is the rate times the mean latency."""
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"fio version": "fio-3.28", "jobs": [job]}))
    if holds:
        [group] = resolve_storage(str(path)).groups
        # No option gives the size of a read; it follows from the bytes moved.
        assert group.size_class_bytes == 65536
    else:
        with pytest.raises(EvidenceContradictory):
            resolve_storage(str(path))


@cases(
    "job",
    [
        # Times in us with a mean in ns, and vice versa.
        reads(lat_ns={"min": 900, "mean": 1e6, "max": 2000}),
        reads(lat_ns={"min": 900_000, "mean": 1000, "max": 2_000_000}),
        {"job options": {"rw": "randread"}, "write": reads()["read"]},
        # No space was left on the device.
        reads() | {"error": 28},
    ],
)
def test_contradicting_figures_of_fio_are_damage(tmp_path, job):
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"fio version": "fio-3.28", "jobs": [job]}))
    with pytest.raises(EvidenceDamaged):
        resolve_storage(str(path))


@cases("more", [{}, {"bssplit": "64k/100"}, {"bs": "4k", "bssplit": "64k/100"}])
def test_the_size_of_reads_follows_from_the_bytes_moved(tmp_path, more):
    path = tmp_path / "fio.json"
    options = {"rw": "write", "verify": "crc32c"} | more
    path.write_text(
        json.dumps({"fio version": "fio-3.28", "jobs": [reads() | {"job options": options}]})
    )
    [group] = resolve_storage(str(path)).groups
    assert (group.size_class_bytes, group.bytes) == (65536, 65_536_000)


@cases("begin, quote, end", [("<pre>", "&quot;", "</pre>"), ("", "\u201d", "")])
def test_fio_in_a_page_is_read(tmp_path, begin, quote, end):
    path = fio(tmp_path / "fio.json", ("randread", "8k", 1, "read", 1000, 96_000.0, {}))
    path.write_text(begin + path.read_text().replace('"', quote) + end)
    assert [group.count for group in resolve_storage(str(path)).groups] == [1000]


def test_fio_in_a_log_is_read_and_two_outputs_are_not_mixed(tmp_path):
    path = fio(tmp_path / "fio.json", ("randread", "8k", 1, "read", 1000, 96_000.0, {}))
    text = json.dumps(json.loads(path.read_text()), indent=1) + "\n"
    path.write_text(re.sub("^", "2024-05-01T10:00:00.123Z ", text.strip(), flags=re.MULTILINE))
    [group] = resolve_storage(str(path)).groups
    assert (group.count, group.mean_s) == (1000, 96e-6)
    path.write_text(text + text)
    with pytest.raises(EvidenceMixed):
        resolve_storage(str(path))


def test_runs_of_fio_that_measure_other_things_are_one_storage(tmp_path):
    reads = fio(tmp_path / "r.json", ("randread", "8k", 1, "read", 1000, 96_000.0, {})).read_text()
    writes = fio(tmp_path / "w.json", ("write", "8k", 1, "write", 500, 90_000.0, {})).read_text()
    (path := tmp_path / "both.txt").write_text(f"$ fio r.fio\n{reads}\n$ fio w.fio\n{writes}\n")
    groups = resolve_storage(str(path)).groups
    assert [(group.op, group.count) for group in groups] == [("read", 1000), ("write", 500)]
    path.write_text(f"$ fio r.fio\n{reads}\n$ fio w.fio\n{writes[:-40]}\n")
    with pytest.raises(EvidenceDamaged):
        resolve_storage(str(path))
    elsewhere = writes.replace('"rw"', '"filename": "/mnt/other/f", "rw"')
    path.write_text(f"$ fio r.fio\n{reads}\n$ fio w.fio\n{elsewhere}\n")
    with pytest.raises(EvidenceMixed):
        resolve_storage(str(path))


def test_fio_beside_other_results_is_read(tmp_path):
    path = fio(tmp_path / "fio.json", ("randread", "8k", 1, "read", 1000, 96_000.0, {}))
    document = json.loads(path.read_text())
    path.write_text(json.dumps({"host": "db", "ci": {"jobs": ["build"]}, "fio": document}))
    assert [group.count for group in resolve_storage(str(path)).groups] == [1000]
    path.write_text(json.dumps({"before": document, "after": document}))
    with pytest.raises(EvidenceMixed):
        resolve_storage(str(path))


def test_a_version_of_fio_elsewhere_than_at_its_top_is_refused(tmp_path):
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"about": {"fio version": "fio-3.28"}, "jobs": [reads()]}))
    with pytest.raises(EvidenceDamaged):
        resolve_storage(str(path))


@cases(
    ("options", "ops", "depth"),
    [
        # A thread that waits for each read has one in flight, whatever its iodepth.
        ({"iodepth": "16", "ioengine": "psync"}, {"read": reads()["read"]}, 1),
        # 200 reads a second of 1 ms, as with rate_iops.
        ({"iodepth": "8"}, {"read": reads(runtime=5000)["read"]}, 1),
        ({"numjobs": "8"}, {"read": reads(runtime=500)["read"]}, 2),
        ({"iodepth": "4"}, {"read": reads(runtime=260)["read"]}, 4),
        # Version 2.2 does not print its options.
        (None, {"read": reads(runtime=100)["read"]}, 10),
        # Reads and writes share the depth.
        ({"iodepth": "4"}, dict.fromkeys(("read", "write"), reads(runtime=510)["read"]), 4),
    ],
)
def test_the_depth_of_fio_is_the_operations_in_flight(tmp_path, options, ops, depth):
    """By Little's law: the rate times the mean latency."""
    stated = {} if options is None else {"job options": {"rw": "randrw", "bs": "64k"} | options}
    job = {"jobname": "randread-64k"} | stated | ops
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"fio version": "fio-3.28", "jobs": [job]}))
    groups = resolve_storage(str(path)).groups
    assert {(group.depth, group.pattern) for group in groups} == {(depth, "random")}


@cases("name", ["9 IOPS", "the \u201cfast\u201d \u2190 disk", r"\(cost=9) **bold**"])
def test_a_storage_name_may_look_like_output_of_other_tools(tmp_path, name):
    """The document is still a storage."""
    named = replace(resolve_storage("limits:iops=900,throughput=9MiB/s,latency=1ms"), name=name)
    (path := tmp_path / "storage.json").write_text(json.dumps(named.to_json(), ensure_ascii=False))
    assert resolve_storage(str(path)).name == name


def test_a_limit_without_a_size_of_operations_is_refused(tmp_path):
    document = resolve_storage("limits:iops=900,latency=1ms").to_json()
    document["limits"] = [{"name": "iops", "operation_bytes": 0}]
    (path := tmp_path / "storage.json").write_text(json.dumps(document))
    with pytest.raises(InputError):
        resolve_storage(str(path))


def test_files_that_are_not_a_storage_are_refused(tmp_path):
    path = tmp_path / "other.txt"
    texts = {
        "iostat": "Linux 6.1\n\nDevice            r/s     rkB/s\nsda  1.0  2.0\n",
        "fio": "fio-3.28\n  read: IOPS=10.3k, BW=80.4MiB/s\n",
        "by size": "9 requests completed in 9.0 s, 233 iops, 233.1 MiB/s\n",
    }
    for words, text in texts.items():
        path.write_text(text)
        with pytest.raises(EvidenceUnsuited, match=words):
            resolve_storage(str(path))


MIXED = {"bssplit": "64k/50:16k/50"}


@cases("sizes", [MIXED, {"bs": "4k", **MIXED}, {"bsrange": "16k-64k"}, {}])
def test_operations_of_fio_without_a_single_size_have_their_mean_size(tmp_path, sizes):
    read = {"total_ios": 100, "io_bytes": 4_000_000, "clat_ns": {"mean": 1e5}}
    job = {"job options": {"rw": "read", **sizes}, "read": read}
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"fio version": "fio-3.28", "jobs": [job]}))
    [group] = resolve_storage(str(path)).groups
    assert group.bytes == 4_000_000
    assert group.size_class_bytes >= 40_000


@cases(
    "jobs",
    [
        None,
        5,
        [None],
        [{"job options": None, "read": {}}],
        [{"read": {"total_ios": "x"}}],
        [{"read": {"total_ios": 9, "clat_ns": 7}}],
        [{"read": {"total_ios": 9, "clat_ns": {"mean": -1.0}}}],
        [{"read": {"total_ios": -9, "clat_ns": {"mean": 1.0}}}],
    ],
)
def test_output_that_fio_does_not_write_is_refused(tmp_path, jobs):
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"fio version": "fio-3.28", "jobs": jobs}))
    with pytest.raises(InputError):
        resolve_storage(str(path))


def test_limits_define_a_storage():
    result = resolve_storage("limits:iops=12k,throughput=500MiB/s,latency=0.5ms")
    model = Model(result)
    assert model.latency("read", 4096, depth=1.0, sequential=False).mean_s == pytest.approx(500e-6)
    # 64 in flight: as many per second as the limit allows.
    many = model.latency("read", 4096, depth=64.0, sequential=False, lasting=True)
    assert many.mean_s == pytest.approx(64 / 12_000)
    large = model.latency("write", 1 << 20, depth=8.0, sequential=True, lasting=True)
    assert large.mean_s == pytest.approx(8 / 500)


@cases(
    ("word", "subject"),
    [
        ("limits:iops=12000", "latency of one operation is missing"),
        ("limits:speed=1,latency=1ms", "no limit"),
        ("limits:iops=lots,latency=1ms", "not a rate"),
        ("limits:iops=0,latency=1ms", "limit of 0"),
        ("limits:throughput=500,latency=1ms", "not a rate of bytes"),
    ],
)
def test_invalid_limits_are_refused(word, subject):
    with pytest.raises(InputError, match=subject):
        resolve_storage(word)


def test_a_device_without_latency_has_unlimited_throughput():
    assert device("limits:latency=0ms", "--flash", 65_536).read_bytes_per_s == inf
    limited = device("limits:throughput=100MiB/s,latency=0ms", "--flash", 65_536)
    assert limited.read_bytes_per_s < 1 << 40


def test_rates_in_common_forms_are_parsed():
    assert [parse_rate(text) for text in ("16k", "12,000", "1.5M", "3000 IOPS")] == [
        16_000, 12_000, 1_500_000, 3000,
    ]  # fmt: skip
    rates = {
        "500MiB/s": 500 << 20, "1000MB/s": 1e9, "1 GB/s": 1e9, "4Gbit/s": 5e8, "1G": 1 << 30,
    }  # fmt: skip
    assert {text: parse_bytes_per_s(text) for text in rates} == rates
    requested = lookup("aws-gp3?iops=16k&throughput=1000MiB/s").facts["parameters"]
    assert (requested["iops"], requested["throughput"]) == (16_000, 1000)


RUNS = (
    '{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}\n',
    "sample_time,session_id,event,sql_id\n2026-01-01 10:00:00,7,direct path read temp,a\n",
)
OUTPUT_OF_TOOLS = (
    "TIME(s)  COMM   PID  DISK T BYTES LAT(ms)\n0.00147  duckdb 1956 sda  W 4096  1.24\n",
    "  %-ile |  Read (ms) | Write (ms)\n-----------------\n   50th |      6.232 |      3.223\n",
    "순차 읽기 (SEQ1M Q8T1): 1,981 MB/s\n4K 랜덤 읽기 (RND4K Q32T16): 71.2 MB/s\n",
    '[pid 38] pwrite64(20, "a"..., 8192, 16384 <unfinished ...>\n',
    "   0.0 ( 0.4 ms): pg/21 pread64(fd: 33, buf: 0x5, count: 8192) = 8192\n",
    "  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]\n",
    "   8       0 sda 1844 12 14399 439 112 51 173 512 0 412 952 0 0 0 0\n",
    "12:00:01 AM       tps      rtps      wtps   bread/s\n12:10:01 AM   31  15 15 39\n",
    "记录了1024+0 的读入\n1073741824字节 (1.1 GB) 已复制 2.71234 s 396 MB/s\n",
)


@cases("text", [*RUNS, *OUTPUT_OF_TOOLS])
def test_a_file_that_is_no_storage_is_named_as_what_it_is(tmp_path, text):
    (path := tmp_path / "file.txt").write_text(text)
    with pytest.raises(EvidenceUnknown if text in RUNS else EvidenceUnsuited):
        resolve_storage(str(path))


def test_the_home_of_an_unknown_user_is_no_storage():
    with pytest.raises(InputError):
        resolve_storage("~no-such-user/disk", "--to", "")
