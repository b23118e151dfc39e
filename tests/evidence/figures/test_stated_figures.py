"""Bare figures: a published case, files and arguments, impossible values, and use as a target."""

import json
import re

import pytest

from cases import cases
from evidence import storage
from harness import only_line, spillcast
from spillcast.errors import (
    EvidenceContradictory,
    EvidenceUnsuited,
    InputError,
    NoTempIo,
    TimesUnknown,
)
from spillcast.evidence.open import read_figures
from spillcast.evidence.recognise import KINDS
from spillcast.forecast import forecast

GIB = 1 << 30
#: databend pull request 16580: a window over lineitem, spilled to remote storage and to local disk.
#: The number of threads is CPU time plus wait time, divided by the elapsed time.
REMOTE_S, LOCAL_S = 62.413, 28.618
REMOTE_THREADS = (186.200647759 + 361.996422691) / REMOTE_S
LOCAL_THREADS = (166.382398539 + 82.413800073) / LOCAL_S


def databend(path, elapsed_s, threads, reads, writes, gib):
    """A file of the published figures: counts and times (s) of reads and writes."""
    lines = [f"elapsed_s = {elapsed_s}", f"threads = {threads}"]
    for name, (count, time_s) in (("reads", reads), ("writes", writes)):
        lines += [f"[{name}]", f"count = {count}", f"bytes = {gib * GIB}", f"time_s = {time_s}"]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def remote(tmp_path):
    return databend(
        tmp_path / "remote.toml", REMOTE_S, REMOTE_THREADS, (1792, 131.925), (128, 212.578), 8.45
    )


@pytest.fixture
def local(tmp_path):
    return databend(
        tmp_path / "local.toml", LOCAL_S, LOCAL_THREADS, (1506, 16.454), (112, 37.682), 8.41
    )


def reply(*words):
    result = spillcast("forecast", *words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_published_case_of_databend(remote, local):
    item = reply(remote, "--to", local)
    assert sum(term["baseline_s"] for term in item["terms"] if term["op"]) == pytest.approx(
        39.2, abs=0.05
    )
    low_s, high_s = item["interval_s"]
    assert low_s <= LOCAL_S <= high_s
    assert item["forecast_s"] == pytest.approx(LOCAL_S, rel=0.1)
    # Reads and writes share the same threads, so the gain of all spill I/O predicts about the same.
    gain = (131.925 + 212.578) / (16.454 + 37.682)
    low_s, high_s = reply(remote, "--to", f"factor:{gain}")["interval_s"]
    assert low_s <= LOCAL_S <= high_s


def test_an_argument_a_document_and_a_file_are_equivalent(tmp_path):
    reads, writes = {"count": 1000, "bytes": 8192000}, {"count": 500, "bytes": 4096000}
    document = {"elapsed_s": 100.0, "cpu_s": 30.0, "io_s": 60.0, "reads": reads, "writes": writes}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    word = (
        "figures:elapsed=1m40s,cpu=30s,io=60s,"
        "reads=1000,read-bytes=8000K,writes=500,write-bytes=4000K"
    )
    target = storage({("read", 8192): 1_000_000, ("write", 8192): 2_000_000})
    blocks = "figures:elapsed=1m40s,cpu=30s,io=60s,reads=1000,writes=500,size=8K"
    for item in (path, word, blocks):
        answer = forecast(read_figures([item]), target)
        # 60 s divided by bytes: 40 s of reads, 20 s of writes; there 1,000 * 1 ms and 500 * 2 ms.
        assert answer.forecast_s == pytest.approx(40 + 1 + 1)
        terms = {term.name: term.baseline_s for term in answer.terms}
        assert terms["temp read"] == pytest.approx(40)
        assert (terms["CPU"], terms["other waits"]) == (30, pytest.approx(10))


def test_figures_are_a_target_and_probes_of_directories_use_their_sizes(tmp_path, remote):
    room = tmp_path / "room"
    room.mkdir()
    small = "figures:elapsed=9s,io=3s,reads=64,read-bytes=4M,writes=16,write-bytes=4M"
    answer = reply(small, "--to", room, "--budget", "1s")
    assert 6 <= answer["forecast_s"] < 9
    sizes = {term["op"]: term["bytes"] / term["count"] for term in answer["terms"] if term["op"]}
    assert sizes == {"read": 65536, "write": 262144}
    assert list(room.iterdir()) == []
    slower = small.replace("io=3s", "io=6s")
    assert reply(small, "--to", slower)["forecast_s"] == pytest.approx(12)


def test_a_probe_with_figures_as_its_pattern(tmp_path):
    path, room, out = tmp_path / "run.toml", tmp_path / "room", tmp_path / "room.json"
    room.mkdir()
    path.write_text(
        "elapsed_s = 0.9\nio_s = 0.3\n[reads]\ncount = 64\nbytes = 4194304\n"
        "[writes]\ncount = 16\nbytes = 4194304\n"
    )
    result = spillcast("probe", room, "--like", path, "--budget", "60s", "-o", out)
    assert result.returncode == 0, result.stderr
    groups = {item["op"]: item for item in json.loads(out.read_text())["groups"]}
    assert (groups["read"]["count"], groups["write"]["count"]) == (64, 16)
    assert groups["read"]["bytes"] == groups["write"]["bytes"] == 4 << 20


def test_figures_without_times_need_the_present_storage(tmp_path):
    word = "figures:elapsed=9s,reads=1000,read-bytes=8M,writes=1000,write-bytes=8M"
    with pytest.raises(TimesUnknown, match="--from"):
        read_figures([word])
    item = reply(word, "--from", "catalogue:linux-hdd", "--to", "latency:1us")
    assert item["forecast_s"] < 9
    assert "assumed" in {warning["code"] for warning in item["warnings"]}


def test_figures_that_a_hint_names_are_read():
    words = {word for kind in KINDS for word in re.findall(r"figures:\S+", kind.hint)}
    for word in words:
        timed = re.sub(r"elapsed=\w+", "elapsed=9s", word)
        with pytest.raises(TimesUnknown):
            read_figures([re.sub(r"=[A-Z]\w+", "=9000", timed)])
    assert len(words) > 1


def test_bytes_with_an_operation_size_give_counts(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("elapsed_s = 600\nio_s = 300\nspilled_bytes = 1e9\noperation_bytes = 1e5\n")
    word = "figures:elapsed=600s,io=300s,spilled=1G,size=256K"
    for given, count in ((path, 10_000), (word, 4096)):
        temp = read_figures([given])
        assert (temp.reads.count, temp.writes.count, temp.total_s) == (count, count, 300)
        # Neither count was given.
        notes = " ".join(temp.notes)
        assert "written once" in notes
        assert "size of one" in notes
    with pytest.raises(EvidenceContradictory):
        read_figures([word.removesuffix(",size=256K")])


@cases(
    ("word", "subject"),
    [
        ("figures:elapsed=9s", "no reads and writes"),
        ("figures:io=3s,reads=1,read-bytes=8K", "elapsed_s"),
        ("figures:elapsed=9s,reads=1", "bytes"),
        ("figures:elapsed=9s,read-time=3s,writes=5,size=8K", "count and bytes"),
        ("figures:elapsed=9s,speed=1", "there is no such figure"),
        ("figures:elapsed=9s,reads=many,read-bytes=8K", "is not a number"),
        ("figures:elapsed=9s,io=3s,reads=8GB,size=8K", "is not a number"),
        # 8 MiB of reads, or 8 million.
        ("figures:elapsed=9s,io=3s,reads=8M,size=8K", "is not a number"),
        # A point between thousands.
        ("figures:elapsed=9s,io=3s,reads=46.450,size=8K", "is not a number"),
        ("figures:elapsed=9s,io=3s,reads=1.5,size=8K", "is not a number"),
        ("figures:elapsed=9s,io=3s,reads=1e99,size=8K", "1e99"),
        ("figures:elapsed=9s,io=3s,threads=8,780,reads=5,size=8K", "threads"),
        ("figures:elapsed=62,4s,io=3s,reads=5,size=8K", "62,4s"),
        ("figures:elapsed=9s,elapsed=8s,io=3s,reads=5,size=8K", "twice"),
        ("figures:elapsed=9s,reads=1,read-bytes=8", "no unit"),
        (
            "figures:elapsed=9s,io=10s,reads=1,read-bytes=8K",
            "temp I/O took 10 s in one thread, and",
        ),
        # No call of Linux moves more than 2 GiB.
        ("figures:elapsed=9s,io=1s,reads=1,read-bytes=9G", "1 reads of temp files"),
        ("figures:elapsed=9s,threads=0.5,io=1s,reads=1,read-bytes=8K", "0.5 threads"),
        ("figures:elapsed=9s,io=1s,reads=1,read-bytes=8K,read-time=1s", "beside the times"),
        ("figures:elapsed=0s,io=1s,reads=1,read-bytes=8K", "no elapsed time"),
    ],
)
def test_impossible_figures_are_refused(word, subject):
    with pytest.raises(InputError, match=subject):
        read_figures([word])


def test_damaged_files_and_options_of_other_evidence_are_refused(tmp_path, remote):
    path = tmp_path / "run.toml"
    path.write_text("elapsed_s = 9\n[reads\n")
    result = spillcast("forecast", path, "--to", "factor:2")
    assert result.returncode == 2
    assert "run.toml: cut or damaged" in result.stderr
    result = spillcast("forecast", remote, "--to", "factor:2", "--method", "seed")
    assert "--method does not apply" in only_line(result, 2)
    result = spillcast("profile", remote)
    assert "figures of a run contain totals" in result.stderr


@cases(
    ("text", "words"),
    [
        (
            "  execution time: 44.8s\n  max sql temp disk usage: 175 MiB\n\n  • sort\n"
            "  │ estimated max sql temp disk usage: 175 MiB\n",
            f"elapsed=44.8s,spilled={175 << 20},size=",
        ),
        ("Bytes spilled to local storage  1.5 GB\nTotal elapsed time: 62 s\n",
         "elapsed=62s,spilled=1610612736,size="),
        ("Sort: bytes spilled to local storage **3 GB**, to remote **2,048 MB**\n",
         "elapsed=ELAPSED,spilled=5368709120,size="),
        ("Total: bytes spilled to local storage 3.1 GB\nSort: bytes spilled to local storage 2 GB\n"
         "Join: bytes spilled to local storage 1.1 GB, to remote storage 0\n",
         "elapsed=ELAPSED,spilled=SIZE"),
        ("".join(f"{n}: bytes spilled to local storage {n} GB\n" for n in (2, 3, 3)),
         "elapsed=ELAPSED,spilled=8589934592,size="),
        ("Bytes spilled to local storage: 1536, to remote storage: 2048.\n",
         "elapsed=ELAPSED,spilled=3584,size="),
        ("Bytes spilled to local storage: 1.536,5 MB\n",
         "elapsed=ELAPSED,spilled=1611137024,size="),
        ('{"queryPlan": [{"name": "S02: Sort", "shuffleOutputBytesSpilled": "0",\n',
         "elapsed=ELAPSED,spilled=SIZE"),
        ('{"TOTAL_ELAPSED_TIME": 62000, "EXECUTION_TIME": 61000,\n'
         ' "BYTES_SPILLED_TO_LOCAL_STORAGE": 1610612736, "BYTES_SPILLED_TO_REMOTE_STORAGE": 0}\n',
         "elapsed=62000ms,spilled=1610612736,size="),
        ('{"shuffleOutputBytes": "9", "shuffleOutputBytesSpilled": "5368709120"}\n',
         "elapsed=ELAPSED,spilled=5368709120,size="),
        ("### Elapsed time : 625 ms\n### Slot time consumed : 22.98 sec\n"
         "### Bytes shuffled : 2.7 MB\n### Bytes spilled to disk : 1.5 GB\n",
         "elapsed=625ms,spilled=1610612736,size="),
        ("Elapsed time\n9 sec\nSlot time consumed \n9 min\nBytes spilled to disk \n2 KB\n",
         "elapsed=9s,spilled=2048,size="),
        ("Queued: 1.01ms, Execution: 2.10m\n    Input std.dev.: 2.10%, Spilled: 6.00GB\n",
         "elapsed=2.10m,spilled=6442450944,size="),
        ('{"executionTime": "2.10m", "spilledDataSize": "6GB"}\n',
         "elapsed=2.10m,spilled=6442450944,size="),
        ("{'executionTime': '2.10m', 'spilledDataSize': '6GB'}\n",
         "elapsed=2.10m,spilled=6442450944,size="),
        ("WAREHOUSE_SIZE\tBYTES_SPILLED_TO_REMOTE_STORAGE\tTOTAL_ELAPSED_TIME\n"
         "Medium\t1610612736\t812.345000\n",
         "elapsed=ELAPSED,spilled=1610612736,size="),
        ('{"executionTime": "9m", "spilledDataSize": "6GB", "operatorSummaries": ['
         '{"spilledDataSize": "2GB"}, {"spilledDataSize": "4GB"}, {"spilledDataSize": "2GB"}]}\n',
         "elapsed=9m,spilled=SIZE"),
        # An operator without spilled bytes between others.
        ('      "spilledDataSize" : "0B"\n    }, {\n      "stageId" : 1,\n',
         "elapsed=ELAPSED,spilled=SIZE"),
        ('      "outputPositions" : 0,\n      "spilledDataSize" : "0B",\n',
         "elapsed=ELAPSED,spilled=SIZE"),
        ("num bytes spilled to disk due to memory pressure total (min, med, max)\n"
         "927,6 MiB (0,0 B, 110,2 MiB, 927,6 MiB)\npeak memory usage total (min, med, max)\n"
         "2,1 GiB (64,0 MiB, 256,0 MiB, 1024,0 MiB)\n",
         "elapsed=ELAPSED,spilled=972659098,size="),
        ("SortExec: metrics=[spilled_bytes=4096]\n  SortExec: metrics=[spilled_bytes=9]\n",
         "elapsed=ELAPSED,spilled=4105,size="),
        ("2023-08-16 [slow_query] |State=EOF|Time=45063|ScanRows=9|SpilledBytes=977346042\n",
         "elapsed=45063ms,spilled=977346042,size="),
        ("  - QueryExecutionWallTime: 45s28ms\n  - QuerySpilledBytes: 1.5 GB\n",
         "elapsed=45s28ms,spilled=1610612736,size="),
        ("  execution time: 18.6s\n  max sql temp disk usage: 1 MiB\n"
         "  execution time: 9.1s\n  max sql temp disk usage: 1 MiB\n",
         "elapsed=ELAPSED,spilled=SIZE"),
        ("  execution time: 18.6s\n  • top-k\n  │ estimated max sql temp disk usage: 0 B\n  ...\n",
         "elapsed=18.6s,spilled=SIZE"),
        ("  execution time: 18.6s\n\n  • sort\n  │ execution time: 9.1s\n"
         "  │ estimated max sql temp disk usage: 1 MiB\n  └── • scan\n        execution time: 2s\n"
         "  max sql temp disk usage: 1 MiB\n",
         "elapsed=18.6s,spilled="),
        ("SortExec: metrics=[spill_count=5, spilled_bytes=1.5 GB,\nspilled_rows=9]\n",
         "elapsed=ELAPSED,spilled=1610612736,size="),
        ("+ | Sort_4    | 9 | root | time:1m2.5s, loops:2 | t.a | 8 MB | 16 KB |\n"
         "+ | └─Scan_7  | 9 | root | time:2.5s, loops:9 | t.b | N/A | N/A |\n",
         "elapsed=1m2.5s,spilled=16384,size="),
        ("| id | task | execution info | memory |\n| Sort_4 | root | time:9s, loops:2 | 8 MB |\n",
         "elapsed=ELAPSED,spilled=SIZE"),
        ("*************************** 1. row ***************************\n"
         "            id: HashAgg_9\n       actRows: 9\n access object: \n"
         "execution info: time:12.9s, loops:6\n        memory: 2 MB\n          disk: 1.5 GB\n",
         "elapsed=12.9s,spilled=1610612736,size="),
    ],
)  # fmt: skip
def test_engines_that_count_only_bytes_name_their_figures(tmp_path, text, words):
    (tmp_path / "plan.txt").write_text(text)
    with pytest.raises(EvidenceUnsuited) as refused:
        read_figures([tmp_path / "plan.txt"])
    assert words in refused.value.hint


def test_zero_bytes_beside_the_time_of_a_query_are_those_of_the_query(tmp_path):
    (tmp_path / "plan.txt").write_text('  "executionTime": "2s",\n  "spilledDataSize": "0B",\n')
    with pytest.raises(NoTempIo):
        read_figures([tmp_path / "plan.txt"])
