"""How much the spill varies from run to run, and how that widens the interval."""

import json

import pytest
from part_recordings import BLOCK, FILE, query, recorded

from evidence import storage, warned
from harness import spillcast
from spillcast.errors import QueryEnded
from spillcast.forecast import forecast
from spillcast.forecast.remaining import RemainingWorkHints, hints_of
from spillcast.recording.meta import Memory, ObservedEngine

SLOW = storage({("read", BLOCK): 10_000_000, ("write", BLOCK): 10_000_000})
SPILL = 400 * BLOCK


def run(path, blocks=400, *, memory=None, threads=2, text="select 1", **parts):
    """An entire run that spilled this many blocks, with this peak memory."""
    operations = [(op, FILE, n) for op in ("write", "read") for n in range(blocks)]
    return recorded(
        path,
        operations,
        threads,
        ended_by="end",
        memory=Memory(peak_rss_bytes=memory),
        engine=ObservedEngine("duckdb", query=text),
        **parts,
    )


def half_width(made, **given):
    low_s, high_s = forecast(made, SLOW, **given).interval_s
    return (high_s - low_s) / 2


def test_a_spill_that_is_small_beside_the_memory_widens_the_interval(tmp_path):
    unknown = half_width(run(tmp_path / "unknown.spill"))
    far = half_width(run(tmp_path / "far.spill", memory=SPILL))
    near = half_width(run(tmp_path / "near.spill", memory=40 * SPILL))
    assert far == pytest.approx(unknown, rel=0.05)
    assert near > 1.5 * far


def test_a_single_thread_has_less_spread_than_several(tmp_path):
    spreads = [
        forecast(run(tmp_path / f"{threads}.spill", memory=20 * SPILL, threads=threads), SLOW)
        for threads in (1, 4)
    ]
    item, several = (answer.spill_spread.spread for answer in spreads)
    assert item < several


def test_sessions_of_a_server_have_no_spread(tmp_path):
    made = run(tmp_path / "session.spill", memory=20 * SPILL, server=query(0.0))
    assert forecast(made, SLOW).spill_spread is None


def test_other_runs_measure_the_spread(tmp_path):
    """Similar spills make it narrower than memory suggests; different ones wider."""
    made = run(tmp_path / "run.spill", memory=10 * SPILL)
    alone = forecast(made, SLOW).spill_spread.spread
    result = {}
    for name, blocks in (("alike", 400), ("other", 1200)):
        others = [run(tmp_path / f"{name}{n}.spill", blocks).path for n in range(3)]
        answer = forecast(made, SLOW, known=hints_of(others))
        assert answer.spill_spread.runs == 4
        assert "the spills of 4 runs and a spill of" in answer.spill_spread.text
        result[name] = answer.spill_spread.spread
    assert result["alike"] < alone < result["other"]


def test_a_run_of_another_query_is_not_used_for_the_spread(tmp_path):
    made = run(tmp_path / "run.spill", memory=SPILL)
    other = run(tmp_path / "other.spill", 1200, text="select 2")
    answer = forecast(made, SLOW, known=hints_of([other.path]))
    assert answer.spill_spread.runs == 1
    assert "not-used" in warned(answer)


def test_hints_of_remaining_work_are_refused_for_an_entire_run(tmp_path):
    made = run(tmp_path / "run.spill")
    for hints in (RemainingWorkHints(progress=0.5), RemainingWorkHints(written_bytes=0.0)):
        with pytest.raises(QueryEnded):
            forecast(made, SLOW, known=hints)


def test_the_document_and_the_details_name_the_spread(tmp_path):
    made = run(tmp_path / "run.spill", memory=10 * SPILL)
    requested = ("forecast", made.path, "--to", "latency:10ms")
    spread = json.loads(spillcast(*requested, "--json").stdout)["spill_spread"]
    assert spread["written_bytes"] == SPILL
    assert spread["memory_bytes"] == 10 * SPILL
    shown = f"{100 * spread['spread']:.1f} % from run to run"
    assert shown in " ".join(spillcast(*requested, "--details").stdout.split())
    assert shown not in spillcast(*requested).stdout
