"""ClickHouse as an engine: its temp files are recognised, a move is printed, lab queries spill."""

import json
import os
from dataclasses import replace
from fnmatch import fnmatch
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest

from harness import json_of, spillcast
from spillcast.engines.clickhouse.lab import ClickHouseLab
from spillcast.engines.registry import CLICKHOUSE
from spillcast.evidence.clickhouse import read_rows, spilled_bytes
from spillcast.recording import Recording

pytestmark = pytest.mark.skipif(
    find_spec("chdb") is None, reason="chdb is not installed: pip install chdb"
)
KIND = "sort runs, hash buckets, join blocks"


def test_a_recording_has_the_counts_of_the_log(runs):
    """Without --temp: system calls and the server's events of the same queries agree."""
    spilled = [query for query in read_rows(runs / "log.jsonl") if spilled_bytes(query)]
    waits = Recording.open(runs / "run.spill").waits
    rows = zip(*(waits[name].to_pylist() for name in ("file", "op", "temp", "bytes")), strict=True)
    spills = [row for row in rows if row[0] and "/db/tmp/tmp" in row[0] and row[1]]
    assert all(is_temp for _, _, is_temp, _ in spills)
    writes = [size for _, op, _, size in spills if op == "write"]
    assert len(writes) == sum(q.event("WriteBufferFromFileDescriptorWrite") for q in spilled)
    assert sum(writes) == sum(map(spilled_bytes, spilled))
    assert sum(size for _, op, _, size in spills if op == "read") == sum(writes)


@pytest.mark.nightly
def test_the_lab_spills_into_the_given_directory(tmp_path):
    lab, temp = ClickHouseLab(tmp_path), tmp_path / "elsewhere"
    temp.mkdir()
    lab.build(300_000)
    for threads, name in ((1, "distinct"), (2, "grace hash join")):
        [workload] = [query for query in lab.verified(threads) if query.name == name]
        workload = replace(workload, rows=300_000, memory="3MB")
        with lab.hold(workload, temp, {}) as held:
            seen = set[str]()
            held.start()
            while not held.wait(0.001):
                seen.update(os.listdir(temp))
            assert json.loads(held.result().rows)
        assert seen
        assert all(fnmatch(name, CLICKHOUSE.temp_names[KIND]) for name in seen)
        assert lab.describe(workload).settings["max_threads"] == str(threads)


def test_move_prints_the_configuration(tmp_path):
    move = json_of("move", "clickhouse", "--to", tmp_path, "--size", "10G")
    assert (move["applied"], move["engine"]) == (False, "clickhouse")
    [config] = [s["command"] for s in move["steps"] if "<clickhouse>" in s["command"]]
    root = ElementTree.fromstring(config[config.index("<clickhouse>") : config.rindex("XML")])
    assert root.findtext("tmp_path") == f"{tmp_path}/"
    assert root.findtext("max_temporary_data_on_disk_size") == str(10 << 30)
    assert {child.tag for child in root if child.get("remove")} == {
        "tmp_policy",
        "temporary_data_in_cache",
    }
    assert any("restart" in step["command"] for step in move["steps"])
    assert len(move["revert"]) == 2
    assert spillcast("move", "clickhouse", "--to", "/").returncode == 2
