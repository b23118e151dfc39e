"""What a recording is on disk: the columns of docs/schema.md, readable without spillcast."""

import json
from collections import Counter

import duckdb
import pyarrow.parquet as pq
import pytest

from arrow_schemas import arrow_schema
from harness import completed, target
from spillcast.recording.schema import SAMPLES, SECONDS, WAITS

FILES = {
    "waits.parquet": WAITS,
    "seconds.parquet": SECONDS,
    "samples.parquet": SAMPLES,
}


@pytest.mark.parametrize("name", FILES)
def test_every_column_is_there_with_its_type(spilled, name):
    assert pq.read_schema(spilled.path / name).equals(arrow_schema(FILES[name]))


def test_a_folder_holds_these_files_alone(spilled):
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


def test_meta_says_what_was_seen_and_what_it_cost(spilled):
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


def test_a_process_of_its_own_measures_the_caches(places):
    output = places.root / "run.spill"
    command = target("spill", "--file", places.temp / "spill", "--base", places.base)
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
