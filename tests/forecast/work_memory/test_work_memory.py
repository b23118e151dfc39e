"""The effect of more work_mem, forecast from one plan, against plans of real servers with it."""

import functools
import json
import math
from dataclasses import replace

import pytest

from cases import cases
from evidence import change, recording, storage
from harness import spillcast
from plans import AGGREGATE, DISTINCT, HASH, NEWEST, PARALLEL, SORT, explain, tables
from spillcast.evidence.postgres import BLOCK_BYTES
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.evidence.postgres.spills import hash_tuple_bytes, size_of_setting, spills_of
from spillcast.evidence.postgres.work_memory import (
    hash_batches,
    io_share,
    merge_order,
    rounded_up,
    sort_passes,
    state_with,
)
from spillcast.forecast import forecast
from spillcast.forecast.work_memory import MEMORY_SPREAD, NOW
from spillcast.recording.meta import CpuCache, Machine, ObservedEngine, Temp
from spillcast.report.forecast import forecast_page
from spillcast.report.work_memory import memory_cells
from spillcast.storage.target import resolve
from spillcast.units import format_duration, format_interval

K, M = 1 << 10, 1 << 20
#: From far too little to enough, in kB.
SETTINGS_KB = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)
UNION = "select t from big union select n::text from small"
COMMON = "with c as materialized (select * from big) select count(*) from c"
CURED = {
    "sort": (SORT, ()),
    "numbers": ("select k from big order by k", ()),
    "limit": ("select * from big order by k limit 90000", ()),
    "hash": (HASH, ()),
    "aggregate": (AGGREGATE, ("set enable_sort = off",)),
    "union": (UNION, ("set enable_sort = off",)),
    "distinct": (DISTINCT, ()),
    "window": ("select sum(n) over (), id from small", ()),
    "common table": (COMMON, ()),
    "parallel hash": (HASH, PARALLEL),
}


@pytest.fixture(scope="module", params=NEWEST, ids=lambda i: i.version)
def server(request):
    with tables(request.param) as connection:
        yield connection


@functools.cache
def plan(server, query, work_mem_kb, before=()):
    """A cached plan for a setting: plans of a server with equal settings differ only in times."""
    before = (*before, f"set work_mem = '{work_mem_kb}kB'")
    return explain(server, query, "format json", "timing off", before=before)


def node(document, kind):
    return next(n for n in nodes_of(document["Plan"]).walk() if n.kind == kind)


def test_passes_and_blocks_of_a_sort_equal_those_of_the_server(server):
    (spill,) = spills_of(nodes_of(plan(server, SORT, 512)["Plan"]))
    for size_kb in SETTINGS_KB:
        sort = node(plan(server, SORT, size_kb), "Sort")
        passes = spill.passes_with(size_kb * K)
        if sort.values["Sort Space Type"] == "Memory":
            assert passes == 0
            continue
        forecast_blocks = passes * sort.values["Sort Space Used"] * K / BLOCK_BYTES
        assert forecast_blocks == pytest.approx(sort.temp.written, rel=0.05), size_kb


def test_batches_of_a_hash_equal_those_of_the_server(server):
    seen = node(plan(server, HASH, 512), "Hash")
    balanced = server.info.server_version >= 180000
    right = 0
    for size_kb in SETTINGS_KB:
        batches = hash_batches(
            seen.rows,
            hash_tuple_bytes(seen.values["Plan Width"]),
            2 * size_kb * K,
            balanced=balanced,
        )
        right += batches == node(plan(server, HASH, size_kb), "Hash").values["Hash Batches"]
    assert right >= 10


@pytest.mark.parametrize("query", [SORT, HASH], ids=["sort", "hash"])
def test_temp_blocks_at_any_setting_follow_from_one_plan(server, query):
    """For a hash, this includes the rows of the outer side that are written with the batches."""
    before = nodes_of(plan(server, query, 512)["Plan"])
    spills, right = spills_of(before), 0
    for size_kb in SETTINGS_KB:
        written = nodes_of(plan(server, query, size_kb)["Plan"]).all_temp.written
        reported = io_share(spills, size_kb * K) * before.all_temp.written
        right += reported == pytest.approx(written, rel=0.05)
        assert (state_with(spills, size_kb * K) == "none") == (written == 0), size_kb
    assert right >= (12 if query == SORT else 10)


def test_memory_by_storage_follows_from_the_passes(server):
    """Between two passes and one of a sort, half of the temp I/O disappears, on any storage."""
    recording = counts_of_plan(plan(server, SORT, 512))
    matches = [forecast(recording, resolve(f"factor:{n}", recording)) for n in (2, 4)]
    memory, names = matches[0].work_memory, ["half", "quarter"]
    assert memory.spills[0].passes == 2
    cells = {(c.storage, c.memory_bytes): c for c in memory_cells(names, matches)}
    for name, item in zip(names, matches, strict=True):
        assert cells[name, 512 * K].elapsed_s == pytest.approx(item.forecast_s)
        assert cells[name, 512 * K].interval_s == pytest.approx(item.interval_s)
        enough_s = cells[name, memory.enough.work_mem_bytes].elapsed_s
        assert enough_s == pytest.approx(memory.enough.forecast_s)
        one_pass_s = cells[name, memory.one_pass.work_mem_bytes].elapsed_s
        assert one_pass_s == pytest.approx((item.forecast_s + enough_s) / 2)
    assert cells[NOW, 512 * K].elapsed_s == pytest.approx(recording.elapsed_s)


@cases("name", CURED)
def test_nothing_spills_with_enough_memory(server, name):
    query, before = CURED[name]
    recording = counts_of_plan(plan(server, query, 256, before))
    memory = forecast(recording, resolve("factor:2", recording)).work_memory
    assert memory.current_bytes == 256 * K
    after = plan(server, query, memory.enough.work_mem_bytes // K, before)
    assert nodes_of(after["Plan"]).all_temp.blocks == 0


@cases("group", ["k, count(*)", "t, count(*)", "k, sum(id), max(g), min(g)", "t"])
def test_a_hash_aggregate_needs_more_than_half_of_enough(server, group):
    """Common sizes of work_mem differ by a factor of up to 1.5."""
    query = f"select {group} from big group by {group.partition(',')[0]}"
    before = ("set enable_sort = off",)
    [spill] = spills_of(nodes_of(plan(server, query, 256, before)["Plan"]))
    assert spill.kind == "hash aggregate"

    def spilled(size_bytes):
        after = plan(server, query, round(size_bytes / K), before)
        return nodes_of(after["Plan"]).all_temp.blocks

    assert spilled(rounded_up(spill.needed_bytes)) == 0
    assert spilled(0.6 * spill.needed_bytes) > 0


@pytest.mark.parametrize("results", ["sum(g::numeric)", "sum(k::numeric), avg(g::numeric)"])
def test_numeric_states_fit_in_enough_memory(server, results):
    """The plan lacks their size, which is 2.5 times what results of that width suggest."""
    query = f"select id, {results} from big group by id"
    before = ("set enable_sort = off",)
    recording = counts_of_plan(plan(server, query, 256, before))
    memory = forecast(recording, resolve("factor:2", recording)).work_memory
    assert memory.spills[0].any_state
    after = plan(server, query, memory.enough.work_mem_bytes // K, before)
    assert nodes_of(after["Plan"]).all_temp.blocks == 0


def test_with_one_pass_memory_a_sort_writes_its_rows_once(server):
    recording = counts_of_plan(plan(server, SORT, 256))
    memory = forecast(recording, resolve("factor:2", recording)).work_memory
    assert memory.spills[0].passes > 1
    assert memory.one_pass.work_mem_bytes < memory.enough.work_mem_bytes / 2
    sort = node(plan(server, SORT, memory.one_pass.work_mem_bytes // K), "Sort")
    blocks = sort.values["Sort Space Used"] * K / BLOCK_BYTES
    assert sort.temp.written == pytest.approx(blocks, rel=0.05)


def test_the_remaining_time_of_each_fix_is_arithmetic():
    """A sort of two passes and a hash; 3 s and 1 s of the 10 s are their temp I/O."""
    sort = leaf("Sort", 3000.0, 20_000, {"Sort Space Used": 80_000, "Sort Space Type": "Disk"})
    batches = {"Hash Batches": 4, "Original Hash Batches": 4}
    rows = {"Actual Rows": 400_000.0, "Plan Rows": 400_000}
    peak = {"Hash Buckets": 1024, "Peak Memory Usage": 8_008}
    hashed = leaf("Hash", 400.0, 5_000, batches | rows | peak)
    join = leaf("Hash Join", 1000.0, 10_000, {}, hashed)
    top = leaf("Append", 4000.0, 30_000, {}, sort, join)
    recording = counts_of_plan({"Plan": top, "Execution Time": 10_000.0})
    answer = forecast(recording, resolve("factor:4", recording))
    memory = answer.work_memory
    assert answer.forecast_s == pytest.approx(7.0)
    assert memory.enough.forecast_s == pytest.approx(6.0)
    assert memory.one_pass.forecast_s == pytest.approx(8.5)
    at_enough = memory.enough.work_mem_bytes
    assert (memory.io_share(at_enough), memory.io_share(512 * K) > 0) == (0.0, True)
    assert {spill.kind: (spill.passes, spill.batches) for spill in memory.spills} == {
        "sort": (2, None), "hash": (None, 4),
    }  # fmt: skip
    # A hash may use twice work_mem, the sort once.
    assert memory.most_bytes == 3 * memory.enough.work_mem_bytes
    assert answer.to_json()["work_memory"]["enough"]["forecast_s"] == pytest.approx(6.0)


def test_the_interval_of_more_memory_includes_the_error_of_the_rest():
    """4 s of a sort's 10 s are temp I/O; the 6 s were not measured with other memory."""
    recording = counts_of_plan({"Plan": SORT_OF_4_S, "Execution Time": 10_000.0})
    answer = forecast(recording, resolve("factor:4", recording))
    for fix in (answer.work_memory.enough, answer.work_memory.one_pass):
        low_s, high_s = fix.interval_s
        assert low_s < fix.forecast_s < high_s
    # 90 % of a normal distribution lie within 1.645 standard deviations.
    low_s, high_s = answer.work_memory.enough.interval_s
    assert low_s <= 6.0 * math.exp(-1.645 * MEMORY_SPREAD)
    assert high_s >= 6.0 * math.exp(1.645 * MEMORY_SPREAD)
    surer = forecast(recording, resolve("factor:4", recording), confidence=0.5)
    assert surer.work_memory.enough.interval_s[1] < high_s
    reported = answer.to_json()["work_memory"]
    assert reported["enough"]["interval_s"] == [low_s, high_s]


def test_faster_storage_certainly_saves_a_part_of_its_gain():
    """4 s of 10 s are temp I/O: a quarter of the latency saves 3 s, half of which is certain."""
    counts = counts_of_plan({"Plan": SORT_OF_4_S, "Execution Time": 10_000.0})
    most_s = (10.0 - 3.0 / 2) * math.exp(1.645 * 0.04)
    faster = resolve("factor:4", counts)
    assert forecast(counts, faster).interval_s[1] == pytest.approx(most_s, 1e-3)
    # The present latency is assumed: memory may have answered, so that nothing can be saved.
    assumed = replace(counts, timed_on="a disk")
    assert forecast(assumed, faster).interval_s[1] > most_s
    # Writes become slower: nothing is certain, although reads save more.
    reads, writes = (op.total_ns // op.count for op in (counts.reads, counts.writes))
    mixed = storage({("read", BLOCK_BYTES): reads // 4, ("write", BLOCK_BYTES): 2 * writes})
    assert forecast(counts, mixed).interval_s[1] > 10.0


def test_a_saving_within_run_to_run_variation_is_not_certain():
    """4 s of 100 s are temp I/O; repeated runs differ by 4 %."""
    counts = counts_of_plan({"Plan": SORT_OF_4_S, "Execution Time": 100_000.0})
    assert forecast(counts, resolve("factor:4", counts)).interval_s[1] == pytest.approx(100.0)
    assert forecast(counts, resolve("latency:1us", counts)).interval_s[1] > 100.0


def reported(plan, elapsed_s, *targets):
    """The lines of a terminal, and the cells of memory by storage."""
    recording = counts_of_plan({"Plan": plan, "Execution Time": elapsed_s * 1e3})
    matches = [forecast(recording, resolve(target, recording)) for target in targets]
    lines = forecast_page(matches).text(100).splitlines()
    return lines, memory_cells(targets, matches)


def test_more_memory_is_the_cheapest_fix_if_it_certainly_wins():
    lines, _ = reported(SORT_OF_4_S, 4.4, "factor:2")
    text = " ".join(lines[:3])
    assert text.startswith("Temp I/O is 91 % of this query: storage is the problem. Cheapest fix: ")
    assert "work_mem " in text
    assert ", 400 ms (" in text
    assert "instead of 4.40 s; then factor:2, 2.40 s (" in text


def test_more_memory_is_not_named_if_it_may_not_win():
    """Temp I/O is 4 % of the time."""
    lines, _ = reported(SORT_OF_4_S, 100.0, "factor:2")
    assert " ".join(lines[:3]).startswith(
        "No storage for temp files will help: of this query 96 % is CPU and other waits, 4 % is "
        "temp I/O. Even zero-latency storage would leave 96 s of 1 min 40 s."
    )


def test_more_memory_is_not_a_fix_if_no_gain_is_certain():
    """4 s of 10 s are temp I/O; the other 6 s were not measured with more memory."""
    lines, _ = reported(SORT_OF_4_S, 10.0, "factor:4")
    text = " ".join(lines[:3])
    assert text.startswith("Temp I/O is 40 % of this query, 60 % is CPU and other waits.")
    assert "work_mem" not in text
    assert "factor:4, 7 s (" in text


def test_the_table_shows_bounds_if_only_bounds_are_known(tmp_path):
    plan = {name: value for name, value in SORT_OF_4_S.items() if "I/O" not in name}
    document = {"Plan": plan, "Execution Time": 10_000.0, "Settings": {"work_mem": "4MB"}}
    (path := tmp_path / "plan.json").write_text(json.dumps([document]))
    words = ("forecast", path, "--to", "latency:20us", "--to", "latency:1ms")
    cells = json.loads(spillcast(*words, "--json").stdout)["memory"]["cells"]
    bounds = {format_interval(cell["interval_s"]) for cell in cells if cell["interval_s"]}
    shown = spillcast(*words, "--details").stdout.partition("Work memory by storage")[2]
    assert len(bounds) > 3
    assert [text for text in bounds if text not in shown] == []


def test_the_sentence_and_the_table_agree(tmp_path):
    """Also if CPU time moves with the storage: without a spill all storages are equal."""
    loads = [("write", BLOCK_BYTES, 20_000, 100_000), ("read", BLOCK_BYTES, 20_000, 100_000)]
    made = recording(tmp_path / "run.spill", loads, elapsed_s=10.0, cpu_s=5.0)
    caches = [CpuCache(1 << 20, 30_000, [(100_000, 20_000), (10_000_000, 200_000)])]
    change(
        made,
        engine=ObservedEngine("postgres", settings={"plan": {"file": "plan.json"}}),
        machine=Machine(caches=caches),
        temp=Temp(20_000, 20_000, total_s=4.0),
    )
    plan = [{"Plan": SORT_OF_4_S, "Execution Time": 10_000.0}]
    (made.path / "plan.json").write_text(json.dumps(plan))
    targets = ["latency:20us", "latency:2ms"]
    matches = [forecast(made, resolve(target, made)) for target in targets]
    memory = matches[0].work_memory
    assert memory == matches[1].work_memory
    # Its CPU time moved with the latency, and would again.
    assert matches[1].terms[0].forecast_s > matches[0].terms[0].forecast_s + 0.1
    enough = [
        c for c in memory_cells(targets, matches) if c.memory_bytes == memory.enough.work_mem_bytes
    ]
    assert [cell.storage for cell in enough] == [NOW, *targets]
    assert {cell.elapsed_s for cell in enough} == {memory.enough.forecast_s}
    assert {cell.interval_s for cell in enough} == {memory.enough.interval_s}
    page = forecast_page(matches, in_full=True).text(200)
    assert f"nothing spills: about {format_duration(memory.enough.forecast_s)} (" in page


def test_bounds_of_a_cell_contain_its_time():
    _, cells = reported(SORT_OF_4_S, 10.0, "factor:4", "latency:5ms")
    for cell in cells:
        if cell.interval_s is None:
            assert (cell.storage, cell.memory_bytes) == (NOW, None) or cell.elapsed_s == 10.0
        else:
            assert 0 <= cell.interval_s[0] <= cell.elapsed_s <= cell.interval_s[1]


def leaf(kind, written_ms, written, values, *below):
    """A node whose figures include its children's, as in a plan; half of the work is reading."""
    return {
        "Node Type": kind, "Actual Rows": 1_000_000.0, "Actual Loops": 1, "Plan Rows": 1_000_000,
        "Plan Width": 40, "Temp Written Blocks": written, "Temp Read Blocks": written,
        "Temp I/O Write Time": written_ms / 2, "Temp I/O Read Time": written_ms / 2,
        "Plans": list(below), **values,
    }  # fmt: skip


SORT_OF_4_S = leaf("Sort", 4000.0, 20_000, {"Sort Space Used": 80_000, "Sort Space Type": "Disk"})


def test_a_recording_uses_the_plan_beside_it(tmp_path):
    sort = leaf("Sort", 3000.0, 20_000, {"Sort Space Used": 80_000, "Sort Space Type": "Disk"})
    loads = [("write", BLOCK_BYTES, 20_000, 100_000)]
    made = recording(tmp_path / "run.spill", loads, elapsed_s=10.0)
    assert forecast(made, resolve("factor:4", made)).work_memory is None
    (made.path / "plan.json").write_text(json.dumps([{"Plan": sort, "Execution Time": 9000.0}]))
    settings = {"plan": {"file": "plan.json"}, "work_mem": "4MB"}
    change(made, engine=ObservedEngine("postgres", settings=settings))
    memory = forecast(made, resolve("factor:4", made)).work_memory
    assert (memory.current_bytes, memory.enough.forecast_s) == (4 * M, pytest.approx(8.0))


@cases(("work_mem", "order"), [(64 * K, 6), (1632 * K, 6), (4 * M, 15), (1 << 30, 500)])
def test_the_merge_order_follows_work_mem(work_mem, order):
    assert merge_order(work_mem) == order


def test_a_sort_that_fits_is_not_written():
    assert sort_passes(1000, 40, 64_000) == 0
    assert sort_passes(1001, 40, 64_000) > 0


def test_settings_in_postgresqls_format_are_parsed():
    assert [size_of_setting(text) for text in ("64MB", "1536kB", "4096", "1GB", "65536B")] == [
        64 * M, 1536 * K, 4 * M, 1 << 30, 64 * K,
    ]  # fmt: skip
    assert [rounded_up(size * M) // K for size in (0.3, 1, 1.2, 1.6, 2.5, 5, 100)] == [
        K, K, 1536, 2 * K, 3 * K, 6 * K, 128 * K,
    ]  # fmt: skip
