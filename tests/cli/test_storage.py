"""``spillcast storage show`` and ``compare``: their output and refusals."""

import json
import re

import numpy as np
import pytest

from cases import cases
from grids import spread
from harness import completed, environment, only_line, spillcast
from spillcast.storage import Storage
from spillcast.storage.source import ASSUMED, source_of
from spillcast.storage.storage import bytes_limit, operations_limit


def saved(path, *groups, source="probe", facts=None, **fields):
    facts = facts or {"directory": f"/mnt/{path.stem}"}
    storage = Storage(path.stem, source_of(source, facts), groups, facts, **fields)
    storage.save(path)
    return path


@pytest.fixture
def flash(tmp_path):
    """Reads as in seeds/003: most take 150 us, some 600 to 1000 us. Writes take 2 ms."""
    rng = np.random.default_rng(1)
    reads_s = np.concatenate([150e-6 * rng.lognormal(0, 0.2, 940), rng.uniform(600e-6, 1e-3, 60)])
    return saved(
        tmp_path / "flash.json",
        spread("read", 262144, reads_s),
        spread("write", 262144, 2e-3 * rng.lognormal(0, 0.1, 500)),
    )


@pytest.fixture
def disk(tmp_path):
    """Reads take 9 ms, writes 1 ms."""
    return saved(
        tmp_path / "disk.json",
        spread("read", 262144, [9e-3] * 100),
        spread("write", 262144, [1e-3] * 100),
    )


def printed(*arguments, columns=80):
    result = completed("storage", *arguments, env=environment(COLUMNS=columns))
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    return result.stdout


def document(*arguments):
    return json.loads(printed(*arguments, "--json"))


@cases("columns", [60, 80, 200])
def test_the_spike_of_a_flash_temp_tablespace_is_visible(flash, columns):
    text = printed("show", flash, "--op", "read", columns=columns)
    assert max(map(len, text.splitlines())) <= columns
    answer = " ".join(text.split())
    assert "94 % around 150 us, 6 % between 600 us and 1 ms" in answer
    assert "may be a stall, such as a flash device's garbage collection" in answer
    bars = [line for line in text.splitlines() if re.search(r"\|[▏▎▍▌▋▊▉█]", line)]
    assert sum(line.rstrip().endswith(("  A", "  B")) for line in bars) == 2
    counts = [int(re.search(r"([\d,]+) +(?:<? ?[\d.]+) %", b)[1].replace(",", "")) for b in bars]
    assert sum(counts) == 1000
    # The bins of 500 us to 1 ms contain the spike, the two before them nearly nothing.
    assert 55 <= sum(counts[-3:]) <= 60


def test_every_op_has_its_histogram(flash, disk):
    text = printed("show", flash)
    assert "read 256 KiB: 1,000 operations" in text
    assert "write 256 KiB: 500 operations" in text
    assert "all around 9 ms" in printed("show", disk, "--op", "read")


def test_a_recording_is_shown(spilled):
    text = printed("show", spilled.path)
    assert "as an engine measured it in run.spill" in text
    assert text.count("|") > 5


def test_stated_limits_are_shown(tmp_path):
    limits = [operations_limit(3000), bytes_limit("bytes", 125 << 20)]
    groups = [
        spread(op, 4096, [5e-4], pattern="random", access="direct") for op in ("read", "write")
    ]
    about = {"source": "catalogue", "facts": {"spread": 2.0, "source": "a brochure"}}
    path = saved(tmp_path / "rented.json", *groups, **about, limits=limits, servers=4)
    text = printed("show", path)
    assert "limits: 3,000 operations/s, 125 MiB/s, 4 at once" in text
    assert "nothing was measured" in text


def test_limits_of_a_disk_are_shown_by_pattern(tmp_path):
    from spillcast.report.storage import limits_text
    from spillcast.storage import Limit

    # The kernel's defaults for a disk: 41,708 sequential and 370 random reads, 174,019,176 bytes/s.
    page_ns = 4096 / 174_019_176 * 1e9
    device = Limit(
        "device", 1e9 / 370 - page_ns, max(1e9 / 41_708 - page_ns, 0), 1e9 / 378 - page_ns,
        max(1e9 / 42_705 - page_ns, 0), page_ns / 4096, page_ns / 4096,
    )  # fmt: skip
    words = limits_text(Storage("disk", ASSUMED, [], limits=[device]))
    assert "370 random reads/s, " in words
    assert "378 random writes/s, " in words
    assert words.endswith("166 MiB/s")


def test_servers_and_ceilings_of_a_grid(tmp_path):
    # Four are served at once, with a throughput of 400 MB/s: q operations of s bytes take
    # max(l, q * l / 4, q * s / 400e6) with l = 100 us + s / 1e9.
    groups = [
        spread("read", size, [max(idle_s, depth * idle_s / 4, depth * size / 400e6)] * 50,
              depth=depth, pattern="random", access="direct")
        for size in (4096, 65536, 262144, 1 << 20) for depth in (1, 2, 4, 8, 16, 32)
        for idle_s in [100e-6 + size / 1e9]
    ]  # fmt: skip
    path = saved(tmp_path / "grid.json", *groups, source="grid")
    answer = " ".join(printed("show", path).split())
    assert "about 4 served at once" in answer
    assert "at most 38,400 small operations/s" in answer
    assert "at most 381 MiB/s" in answer
    result = document("show", path)["model"]["read"]
    assert result["servers"] == pytest.approx(4, rel=0.01)
    assert result["operations_per_s"] == pytest.approx(4 / (100e-6 + 4096 / 1e9), rel=0.01)
    assert result["bandwidth_bytes_per_s"] == pytest.approx(400e6, rel=0.01)
    assert 0 <= result["error_median"] <= result["error_max"]


def test_the_document_is_a_storage_with_its_peaks(flash, tmp_path):
    result = document("show", flash)
    model = result.pop("model")
    assert result == json.loads(flash.read_text())
    read, write = model["peaks"]
    assert [peak["share"] for peak in read["peaks"]] == [0.94, 0.06]
    assert read["words"] == "94 % around 150 us, 6 % between 600 us and 1 ms"
    assert "stall" in read["cause"]
    assert write["cause"] is None
    assert set(model) == {"read", "write", "peaks"}
    assert model["read"]["servers"] is None
    again = tmp_path / "again.json"
    again.write_text(json.dumps(document("show", flash)))
    assert Storage.load(again).to_json() == result


def test_a_size_that_was_not_measured_is_marked(tmp_path):
    reads = [spread("read", size, [100e-6 + size / 1e9] * 50) for size in (4096, 65536, 262144)]
    path = saved(tmp_path / "sizes.json", *reads)
    assert "read 96 KiB: about 198 us, interpolated between measured sizes" in printed(
        "show", path, "--size", "96K"
    )
    assert "extrapolated from measured sizes, +/-" in printed("show", path, "--size", "4M")
    assert "the measured, give" not in printed("show", path, "--size", "64K")
    assert "read 64 KiB: 50 operations" in printed("show", path, "--size", "64K")
    assert document("show", path, "--size", "64K")["model"]["peaks"][0]["size_class_bytes"] == 65536
    assert document("show", path, "--size", "96K")["model"]["peaks"] == []


def test_the_verdict_of_a_comparison(disk, flash):
    # From 9 ms to a mean of 0.2 ms; from 1 ms to 2 ms.
    text = printed("compare", disk, flash)
    ratios = re.search(r"flash reads ([\d.]+) times faster and writes (\S+) times\s+slower", text)
    result = document("compare", disk, flash)
    reads, writes = result["verdicts"]
    assert float(ratios[1]) == pytest.approx(reads["speedup"], rel=0.01)
    assert float(ratios[2]) == pytest.approx(1 / writes["speedup"], rel=0.01)
    rows = {row["op"]: row["storages"] for row in result["rows"]}
    mean_s = json.loads(flash.read_text())["groups"][0]["total_ns"] / 1000 / 1e9
    assert reads["speedup"] == pytest.approx(9e-3 / mean_s)
    assert rows["read"][0] == {
        "p50_s": 9e-3, "mean_s": 9e-3, "p99_s": 9e-3, "speedup": 1.0,
        "measured": True, "extrapolated": False, "error": 0.0,
    }  # fmt: skip
    assert rows["read"][1]["speedup"] == pytest.approx(9e-3 / mean_s)


def test_a_verdict_is_weighted_by_measured_time(tmp_path):
    # 900 ms of small and 100 ms of large reads become 90 ms and 200 ms.
    source = saved(
        tmp_path / "here.json",
        spread("read", 4096, [1e-3] * 900), spread("read", 65536, [1e-3] * 100),
    )  # fmt: skip
    target = saved(
        tmp_path / "there.json",
        spread("read", 4096, [0.1e-3] * 50), spread("read", 65536, [2e-3] * 50),
    )  # fmt: skip
    (verdict,) = document("compare", source, target)["verdicts"]
    assert verdict["speedup"] == pytest.approx(1000 / 290)
    assert (verdict["speedup_min"], verdict["speedup_max"]) == (
        pytest.approx(0.5),
        pytest.approx(10),
    )
    assert "reads 3.45 times faster (0.50x to 10x by size)" in printed("compare", source, target)


def test_missing_sizes_are_taken_from_the_other_storage_and_marked(tmp_path):
    def law(sizes):
        return [spread("read", size, [100e-6 + size / 1e9] * 50) for size in sizes]

    some = saved(tmp_path / "some.json", *law([4096, 262144]))
    more = saved(tmp_path / "more.json", *law([4096, 65536, 262144]))
    text = printed("compare", some, more)
    assert re.search(r"read +64 KiB +A ~ +166 us", text)
    assert "~ interpolated, +/-" in text
    assert "more reads as fast as some." in text
    row = document("compare", some, more)["rows"][1]
    assert row["size_class_bytes"] == 65536
    assert [result["measured"] for result in row["storages"]] == [False, True]
    assert row["storages"][0]["mean_s"] == pytest.approx(100e-6 + 65536 / 1e9, rel=1e-3)


def test_patterns_are_compared_separately(tmp_path, disk):
    groups = [
        spread("read", 262144, [s] * 50, pattern=pattern, access="direct")
        for pattern, s in (("random", 3e-3), ("sequential", 1e-3))
    ]
    grid = saved(tmp_path / "grid.json", *groups, source="grid")
    rows = document("compare", disk, grid)["rows"]
    reads = {row["pattern"]: row["storages"][1]["speedup"] for row in rows if row["op"] == "read"}
    assert reads == {"random": pytest.approx(3), "sequential": pytest.approx(9)}
    assert [row["storages"][1] for row in rows if row["op"] == "write"] == [None]
    assert re.search(r"write +256 KiB +recorded +A.*\n +B +- ", printed("compare", disk, grid))


def test_three_storages_are_compared_with_the_first(disk, flash, tmp_path):
    third = saved(tmp_path / "third.json", spread("read", 262144, [9e-3] * 20))
    text = printed("compare", disk, flash, third, columns=60)
    assert max(map(len, text.splitlines())) <= 60
    assert "third reads as fast as disk." in text
    assert "flash reads" in text


def test_storages_of_one_name_are_distinguished(disk, tmp_path):
    (tmp_path / "other").mkdir()
    other = saved(tmp_path / "other" / "disk.json", spread("read", 262144, [3e-3] * 20))
    assert f"{other} reads 3 times faster than {disk}." in " ".join(
        printed("compare", disk, other, columns=200).split()
    )


def damaged(path, **changes):
    text = json.loads(path.read_text())
    text["groups"][0] |= changes
    path.write_text(json.dumps(text))


@cases(
    "changes",
    [
        {"latency_count": [1]},
        {"latency_ns": []},
        {"latency_ns": "fast"},
        {"op": "trim"},
        {"depth": 0},
        {"block_count": [-3]},
        {"size_class_bytes": 0},
        # Half of 100 reads of 9 ms, latencies in microseconds, and the longest first.
        {"total_ns": 450_000_000},
        {"total_ns": 900_000, "block_mean_ns": [9_000]},
        {"latency_ns": [10_000_000, 8_000_000], "latency_count": [50, 50]},
    ],
)
def test_inconsistent_figures_are_damage(disk, changes):
    whole = disk.read_text()
    damaged(disk, **changes)
    for arguments in (("show", disk), ("compare", disk, disk)):
        assert "damaged" in only_line(spillcast("storage", *arguments), 2)
    disk.write_text(whole)


def test_bad_input(disk, flash, tmp_path):
    def fails(words, *arguments):
        text = only_line(spillcast("storage", *arguments), 2)
        assert words in text

    reads = saved(tmp_path / "reads.json", spread("read", 4096, [1e-3] * 9))
    writes = saved(tmp_path / "writes.json", spread("write", 4096, [1e-3] * 9))
    nothing = saved(tmp_path / "nothing.json")
    fails("no figures for writes", "show", reads, "--op", "write")
    fails("no figures at all", "show", nothing)
    fails("no op that another", "compare", reads, writes)
    fails("there is no such file", "show", tmp_path / "missing.json")
    fails("spillcast probe", "show", tmp_path)
    fails("nothing to compare it with", "compare", reads)
    fails("'big' is not a size", "show", reads, "--size", "big")
    fails("--size 0", "show", reads, "--size", "0")
    disk.write_text(disk.read_text().replace("spillcast.storage/1", "spillcast.storage/2"))
    fails("spillcast.storage/2", "show", disk)
    flash.write_text(flash.read_text()[:100])
    fails("cut or damaged: not JSON", "compare", reads, flash)


@cases("arguments", [(), ("show",), ("compare",), ("show", "a", "--op", "trim")])
def test_invalid_options_are_refused(arguments):
    result = spillcast("storage", *arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
