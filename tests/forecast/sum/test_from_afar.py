"""A plan is a baseline for every kind of target, with the same arithmetic as a recording."""

import json

import pytest

from evidence import recording, storage, warned
from harness import completed, spillcast
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.forecast import forecast

BLOCK = 8192


def plan(*, workers=0, elapsed_ms=10_000.0):
    """2,000 reads of 1 ms and 1,000 writes of 0.5 ms, over all processes."""
    node = {
        "Node Type": "Hash Join", "Actual Rows": 9.0, "Actual Loops": workers + 1,
        "Temp Read Blocks": 2000, "Temp Written Blocks": 1000,
        "Temp I/O Read Time": 2000.0, "Temp I/O Write Time": 500.0,
    }  # fmt: skip
    if workers:
        node = {**node, "Node Type": "Gather", "Workers Launched": workers, "Plans": [node]}
    return {"Plan": node, "Execution Time": elapsed_ms}


def test_temp_io_is_counts_times_latencies():
    target = storage({("read", BLOCK): 100_000, ("write", BLOCK): 200_000})
    answer = forecast(counts_of_plan(plan()), target)
    assert (answer.baseline_s, answer.ceiling_s) == (10.0, pytest.approx(7.5))
    assert answer.forecast_s == pytest.approx(7.5 + 0.2 + 0.2)
    assert "counts-only" in warned(answer)


def test_processes_share_the_io():
    target = storage({("read", BLOCK): 100_000, ("write", BLOCK): 200_000})
    answer = forecast(counts_of_plan(plan(workers=4)), target)
    assert answer.ceiling_s == pytest.approx(9.5)
    assert answer.forecast_s == pytest.approx(9.5 + 0.4 / 5)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    # A probe saw fewer operations in flight; the processes share the I/O all the same.
    busy = storage({("read", BLOCK): 100_000, ("write", BLOCK): 200_000})
    busy.facts["in_flight"] = 2.5
    assert forecast(counts_of_plan(plan(workers=4)), busy).forecast_s == pytest.approx(9.58)


def test_a_plan_and_a_recording_of_the_same_io_have_the_same_forecast(tmp_path):
    loads = [("read", BLOCK, 2000, 1_000_000), ("write", BLOCK, 1000, 500_000)]
    recorded = recording(tmp_path / "run.spill", loads, elapsed_s=10.0)
    target = storage({("read", BLOCK): 300_000, ("write", BLOCK): 20_000})
    item, other = forecast(recorded, target), forecast(counts_of_plan(plan()), target)
    assert item.forecast_s == pytest.approx(other.forecast_s)
    assert item.ceiling_s == pytest.approx(other.ceiling_s)


def test_a_plan_is_forecast_for_every_kind_of_target(tmp_path):
    """Directories are probed; a file is a recording, a probe's result or another plan."""
    base, fast = tmp_path / "base.json", tmp_path / "fast.json"
    base.write_text(json.dumps([plan()]))
    fast.write_text(json.dumps([plan(elapsed_ms=11_000.0)]).replace("2000.0", "200.0"))
    recorded = recording(tmp_path / "run.spill", [("read", BLOCK, 9, 10**5)], elapsed_s=1.0)
    probed = tmp_path / "probed.json"
    room = tmp_path / "room"
    room.mkdir()
    completed("probe", room, "--like", base, "-o", probed, "--budget", "1s")
    targets = ["latency:150us", "factor:10", probed, fast, room, "catalogue:aws-gp3", "tmpfs"]
    words = [word for to in (*targets, recorded.path) for word in ("--to", to)]
    result = completed("forecast", base, *words, "--budget", "1s", "--json")
    output = {item["target"]: item for item in json.loads(result.stdout)["targets"]}
    assert output["latency:150us"]["forecast_s"] == pytest.approx(7.5 + 3000 * 150e-6)
    assert output["factor:10"]["forecast_s"] == pytest.approx(7.75)
    assert output["fast"]["forecast_s"] == pytest.approx(7.5 + 0.2 + 0.5)
    assert "no figures for writes" in output["run"]["refused"]
    numbers = [item["forecast_s"] for name, item in output.items() if name != "run"]
    assert all(number >= 7.5 for number in numbers)
    made_up = {
        name
        for name, item in output.items()
        for w in item["warnings"]
        if w["code"] == "synthetic-io"
    }
    assert {str(room), "tmpfs"} <= made_up
    assert list(room.iterdir()) == []


def test_the_elapsed_time_without_explain_keeps_the_io_time(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan()))
    result = spillcast("forecast", path, "--to", "factor:10", "--elapsed", "8s", "--json")
    document = json.loads(result.stdout)
    assert document["baseline_s"] == 8.0
    assert document["forecast_s"] == pytest.approx(5.75)
