"""The page cache in front of a looked-up storage: as fast as memory where memory suffices."""

import csv
import json
from dataclasses import replace

import pytest

from cases import cases
from evidence import change, warned
from harness import spillcast
from spillcast.evidence.counts import Bounds, OpCounts
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.forecast import ask, forecast
from spillcast.forecast.projection import baseline_of, projection
from spillcast.forecast.query import read_workload
from spillcast.forecast.question import Question
from spillcast.forecast.verdict import priced, ranked, verdict
from spillcast.forecast.workload.counted import timed_on
from spillcast.recording.meta import Machine, Memory
from spillcast.recording.observed import TempPlace
from spillcast.storage import Group, Storage
from spillcast.storage.source import ASSUMED, GRID, RECORDING, catalogue
from spillcast.storage.storage import bytes_limit
from spillcast.units import format_duration
from spills import MIB, recording, written_and_read

US, MS = 1_000, 1_000_000
#: Figures of a device, without readahead and writeback.
TABLE = catalogue(1.0, "a table")
SPILL = 64 * MIB
#: Pages of 4 KiB, read and written in order.
OPERATIONS = written_and_read(SPILL, size=64 << 10)
COUNT = len(OPERATIONS)


def disk(latency_ns, source=GRID):
    groups = [
        Group(op, size, 1, 1, size, latency_ns, [latency_ns], [1], [1], [latency_ns])
        for op in ("read", "write")
        for size in (4096, 8192, 64 << 10, 128 << 10, 256 << 10)
    ]
    return Storage("disk", source, groups)


def run(path, *, latency_ns=20 * US, room=1 << 30, operations=OPERATIONS):
    made = recording(path, operations, latency_ns=latency_ns, available=room)
    change(made, machine=replace(made.meta.machine, cpus=2))
    return made


def other_s(made, latency_ns):
    """The time outside temp I/O."""
    return made.elapsed_s - COUNT * latency_ns / 1e9


@cases(
    ("source", "more_s"),
    # Instead of 20 us each; reads are also of 128 KiB, and writers do not wait.
    [(GRID, COUNT * 80e-6), (TABLE, COUNT / 4 * 100e-6)],
)
def test_a_spill_that_fits_in_memory_takes_the_same_time_on_any_storage(tmp_path, source, more_s):
    made = run(tmp_path / "r.spill")
    answer = forecast(made, disk(100 * US, source))
    assert answer.forecast_s == pytest.approx(made.elapsed_s, rel=0.02)
    [warning] = [item for item in answer.warnings if item.code == "page-cache-answers"]
    assert answer.without_cache_s == pytest.approx(made.elapsed_s + more_s, rel=0.01)
    assert format_duration(answer.without_cache_s) in warning.message
    assert "64 MiB" in warning.message


@cases(
    ("latency_us", "changes"),
    [
        # Without memory; where memory could have answered and did not, operations bypass the page
        # cache; machines with unknown memory have no page cache.
        (20, {"machine": Machine(cpus=2, memory_available_bytes=0)}),
        (70, {}),
        (20, {"machine": Machine(cpus=2)}),
    ],
)
def test_without_a_page_cache_every_operation_goes_to_the_storage(tmp_path, latency_us, changes):
    made = run(tmp_path / "r.spill", latency_ns=latency_us * US)
    change(made, **changes)
    answer = forecast(made, disk(100 * US))
    expected_s = other_s(made, latency_us * US) + COUNT * 1e-4
    assert answer.forecast_s == pytest.approx(expected_s, rel=0.05)
    assert "page-cache-answers" not in warned(answer)


def test_where_half_fits_recently_written_data_is_read_from_memory(tmp_path):
    """Half is read back at once, while it is cached; the other half is written and read later."""
    half, parts = SPILL // 2, 8
    writes, reads = OPERATIONS[: COUNT // 2], OPERATIONS[COUNT // 2 :]
    recent = [
        item
        for part in range(parts)
        for item in (*_part(writes, part, parts), *_part(reads, part, parts))
    ]
    near = forecast(run(tmp_path / "near.spill", room=half, operations=recent), disk(100 * US))
    far = forecast(run(tmp_path / "far.spill", room=half), disk(100 * US))
    # Reads do not wait at all in one case; in the other all wait, 128 KiB at a time.
    reads_s = {
        name: sum(term.forecast_s for term in answer.terms if term.op == "read")
        for name, answer in (("near", near), ("far", far))
    }
    assert reads_s["near"] == pytest.approx(COUNT / 2 * 20e-6)
    assert reads_s["far"] == pytest.approx(COUNT / 2 * 20e-6 + COUNT / 4 * 1e-4, rel=0.1)


def test_an_interval_is_wider_where_memory_holds_a_part(tmp_path):
    def half_width(room):
        made = run(tmp_path / f"{room}.spill", room=room)
        low, high = forecast(made, disk(100 * US)).interval_s
        return high - low

    assert half_width(SPILL // 2) > 1.3 * half_width(1 << 30)


def test_an_assumed_latency_applies_to_every_operation_with_a_warning(tmp_path):
    for filesystem, reported in (("tmpfs", False), ("ext4", True)):
        item = run(tmp_path / f"{filesystem}.spill")
        change(item, temp_places=[TempPlace("/t", "0:9", filesystem, False, SPILL)])
        answer = forecast(item, disk(100 * US, ASSUMED))
        assert answer.forecast_s == pytest.approx(other_s(item, 20 * US) + COUNT * 1e-4, rel=0.05)
        assert ("page-cache-skipped" in warned(answer)) == reported


def test_the_memory_limit_of_the_group_limits_the_page_cache(tmp_path):
    made = run(tmp_path / "r.spill")
    change(made, memory=Memory(limit_bytes=100 * MIB, peak_rss_bytes=99 * MIB))
    answer = forecast(made, disk(100 * US))
    # Every read waits, 128 KiB at a time.
    assert answer.forecast_s == pytest.approx(made.elapsed_s + COUNT / 2 / 2 * 1e-4, rel=0.02)


def plan(read_ms, *, elapsed_ms=4000.0):
    node = {
        "Node Type": "Sort", "Actual Rows": 9.0, "Actual Loops": 1,
        "Temp Read Blocks": 1000, "Temp Written Blocks": 1000,
        "Temp I/O Read Time": read_ms, "Temp I/O Write Time": read_ms,
    }  # fmt: skip
    return {"Plan": node, "Execution Time": elapsed_ms}


def test_counts_as_fast_as_memory_have_an_interval_of_both_answers():
    [(answer, _)] = ask(counts_of_plan(plan(5.0)), [disk(9 * MS, TABLE)], Question())
    assert answer.forecast_s == pytest.approx(4.0, rel=0.01)
    low, high = answer.interval_s
    # 1,000 reads of 8 KiB are 63 more reads of 128 KiB.
    assert low < 4.0 < 4.0 + 63 * 9e-3 < high
    assert "page-cache-answers" in warned(answer)


@cases(("buffered", "requests"), [(True, 63), (False, 2000)])
def test_slow_counts_were_not_cached_but_were_read_ahead(buffered, requests):
    """8 MB in reads of 8 KiB: the kernel reads 128 KiB at once and writes back later."""
    counts = replace(counts_of_plan(plan(1500.0)), buffered=buffered)
    [(answer, _)] = ask(counts, [disk(1 * MS, TABLE)], Question())
    # Half of 2,000 operations from memory take less than 20 us each.
    assert answer.forecast_s == pytest.approx(1.0 + requests * 1e-3, abs=0.02)
    assert "page-cache-answers" not in warned(answer)


def test_reads_of_little_or_nothing_written_are_read_ahead():
    """As of FETCH, or of a small temp file that is read for each outer row."""
    counts = counts_of_plan(plan(1500.0))
    for writes in (OpCounts(), OpCounts(1, 8192, 1 * MS)):
        few = replace(counts, writes=writes)
        [(answer, _)] = ask(few, [disk(1 * MS, TABLE)], Question())
        assert answer.forecast_s == pytest.approx(4.0 - 1.5 + 63e-3, abs=0.02)


def test_a_spill_of_any_size_has_the_throughput_of_its_volume():
    """A bucket holds 0.1 s of a rented volume; of 128 GiB a small share is simulated."""
    blocks, cpu_s = (128 << 30) // 8192, 480.0
    small = plan(960e3, elapsed_ms=2400e3)
    small["Plan"] |= {"Temp Read Blocks": blocks, "Temp Written Blocks": blocks}
    storage = replace(
        disk(1 * MS, TABLE), limits=[bytes_limit("throughput", 131 * MIB, burst=13 * MIB)]
    )
    [(answer, _)] = ask(counts_of_plan(small), [storage], Question())
    # Writeback and the CPU time of writers are parallel; a read of 128 KiB waits for its latency.
    written_s, read_s = (128 << 10) / 131, (128 << 13) * 1e-3
    assert answer.forecast_s == pytest.approx(written_s + read_s + cpu_s / 2, rel=0.05)


def test_counts_without_times_take_as_long_on_the_storage_that_they_ran_on():
    blocks, elapsed_s = (8 << 30) // 8192, 240.0
    node = {
        "Node Type": "Sort", "Actual Rows": 9.0, "Actual Loops": 1,
        "Temp Read Blocks": blocks, "Temp Written Blocks": blocks,
    }  # fmt: skip
    counts = counts_of_plan({"Plan": node, "Execution Time": elapsed_s * 1e3})
    storage = replace(
        disk(1 * MS, TABLE), limits=[bytes_limit("throughput", 131 * MIB, burst=13 * MIB)]
    )
    [(answer, _)] = ask(timed_on(counts, storage), [storage], Question())
    assert answer.forecast_s == pytest.approx(elapsed_s, rel=0.02)
    # While writers use the CPU, 8 GiB are written back (62.5 s); a read of 128 KiB waits 1 ms.
    # Memory takes 1 to 23 us a block.
    read_s, memory_s = 65.5, 2 * blocks * 1e-6
    assert elapsed_s - read_s - 23 * memory_s < answer.ceiling_s < elapsed_s - read_s - memory_s
    assert answer.ceiling_s / 2 > 62.5


def test_more_bytes_than_the_throughput_of_a_volume_came_from_memory():
    """However many processes share it: 16 GiB take 125 s, the query 100 s."""
    shared = Bounds(1.0, 3.0, "", "")
    for blocks, elapsed_s, cached in ((1 << 20, 100.0, True), (1 << 20, 200.0, False)):
        io = OpCounts(blocks, blocks * 8192)
        counts = replace(
            counts_of_plan(plan(5.0)), elapsed_s=elapsed_s, reads=io, writes=io,
            processes=1.5, processes_bounds=shared,
        )  # fmt: skip
        storage = replace(
            disk(1 * MS, TABLE), limits=[bytes_limit("throughput", 131 * MIB, burst=13 * MIB)]
        )
        assert (timed_on(counts, storage).time_bounds is not None) == cached


def test_a_long_part_of_a_query_is_read_ahead_like_a_short_one(tmp_path):
    operations = written_and_read(SPILL, size=8 << 10)
    made = recording(tmp_path / "r", operations, latency_ns=10 * US, available=1 << 40)
    workload, _ = read_workload(made, Question())
    for times in (1, 10_000):
        whole = replace(workload, total_s=times * workload.total_s)
        more_s = projection(baseline_of(whole), disk(1 * MS, TABLE)).total_s - whole.total_s
        # Reads of 128 KiB wait; memory takes as long as today.
        assert more_s / times == pytest.approx((SPILL >> 17) * 1e-3, rel=0.02)


def test_distant_answers_are_both_in_the_interval():
    counts = counts_of_plan(plan(5.0, elapsed_ms=200.0))
    [(answer, _)] = ask(counts, [disk(9 * MS, TABLE)], Question())
    assert answer.refused is None
    assert answer.forecast_s == pytest.approx(0.2, rel=0.02)
    # 63 reads of 9 ms, and the time outside temp I/O; writers wait for part of the writeback.
    assert 0.19 + 63 * 9e-3 < answer.without_cache_s < 0.19 + 2 * 63 * 9e-3
    low_s, high_s = answer.interval_s
    assert low_s < 0.2 < answer.without_cache_s < high_s


def test_a_disk_behind_the_page_cache_ranks_after_memory_and_is_not_a_fix():
    counts = counts_of_plan(plan(5.0, elapsed_ms=200.0))
    # The probe of memory measured slightly slower times than the page cache.
    memory = replace(disk(8 * US, RECORDING), name="tmpfs")
    answers = [answer for answer, _ in ask(counts, [disk(9 * MS), memory], Question())]
    result = priced(["disk", "tmpfs"], answers, {"disk": 1.0, "tmpfs": 9.0})
    assert answers[1].forecast_s > answers[0].forecast_s
    assert [item.target for item in ranked(result)] == ["tmpfs", "disk"]
    assert not result[0].best_value
    answer = verdict(result)
    assert answer.kind == "memory"
    assert "disk" not in [fix.target for fix in answer.fixes]
    assert format_duration(answers[0].without_cache_s) in answer.text


def test_a_storage_below_the_latency_of_memory_is_as_fast_as_memory():
    [(answer, _)] = ask(counts_of_plan(plan(8.0)), [disk(2 * US)], Question())
    assert answer.without_cache_s == answer.forecast_s


def test_the_command_line_forecasts_a_disk_of_the_catalogue(tmp_path):
    made = run(tmp_path / "r.spill")
    result = spillcast("forecast", made.path, "--to", "catalogue:linux-hdd", "--json")
    document = json.loads(result.stdout)
    assert document["forecast_s"] == pytest.approx(made.elapsed_s, rel=0.03)
    assert "page-cache-answers" in {warning["code"] for warning in document["warnings"]}


def _part(operations, part, parts):
    each = len(operations) // parts
    return operations[part * each : (part + 1) * each]


def test_the_sum_over_a_folder_has_both_answers(tmp_path):
    for name in ("1.spill", "2.spill"):
        run(tmp_path / name)
    command = "forecast", tmp_path, "--to", "catalogue:linux-hdd"
    documents = json.loads(spillcast(*command, "--json").stdout)["recordings"]
    cached_s, uncached_s = (
        sum(document[key] for document in documents) for key in ("forecast_s", "without_cache_s")
    )
    assert uncached_s > 1.5 * cached_s
    sums = spillcast(*command).stdout.partition("\n\n")[0]
    assert format_duration(cached_s) in sums
    assert format_duration(uncached_s) in sums
    rows = csv.DictReader(spillcast(*command, "--csv").stdout.splitlines())
    assert sum(float(row["without_cache_s"]) for row in rows) == pytest.approx(uncached_s)


def test_the_interval_is_also_that_of_no_cache_for_an_unknown_number_of_processes():
    """With a process 20,000 operations of 9 ms take 180 s, with 30 they take 6 s."""
    io = OpCounts(10_000, 10_000 * 8192, 100 * MS)
    counts = replace(
        counts_of_plan(plan(5.0)), elapsed_s=1.0, reads=io, writes=io, buffered=False,
        processes=2.0, processes_bounds=Bounds(1.0, 30.0, "", ""),
    )  # fmt: skip
    [(answer, _)] = ask(counts, [disk(9 * MS, TABLE)], Question())
    assert answer.forecast_s == pytest.approx(1.0, rel=0.02)
    assert answer.interval_s[0] < 1.0 < 180.0 < answer.interval_s[1]
