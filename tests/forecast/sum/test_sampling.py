"""Large recordings are forecast from a sample, within its stated error."""

import json
from math import inf, log

import numpy as np
import pytest

from cases import cases, nightly
from evidence import warned
from large_recording import write_large_recording
from spillcast.forecast import query
from spillcast.forecast.ask import ask
from spillcast.forecast.query import read_workload
from spillcast.forecast.question import Question
from spillcast.forecast.workload.recorded import recorded_loads, recorded_threads
from spillcast.recording import Recording, derived
from spillcast.recording.derived import MISSING_BYTES, sample_of
from varied_recording import write_varied_recording

TARGETS = ("latency:20us", "latency:400us", "latency:5ms")
WAITS, ROWS = 80_000, 24_000


@pytest.fixture(autouse=True)
def smaller(monkeypatch):
    """Makes small recordings count as large, so that tests are quick."""
    monkeypatch.setattr(derived, "WHOLE_ROWS", WAITS // 2)
    monkeypatch.setattr(derived, "SAMPLE_ROWS", ROWS)


def edited(path, **changes):
    meta = json.loads((path / "meta.json").read_text())
    for name, value in changes.items():
        meta[name] = {**meta[name], **value} if isinstance(value, dict) else value
    (path / "meta.json").write_text(json.dumps(meta))
    return Recording.open(path)


@cases(("seed", "sampled"), [(0, False), (1, True)])
def test_a_sample_gives_the_forecast_of_all_waits(tmp_path, seed, sampled):
    """Within three stated standard errors; `python -m bench samples` runs more cases."""
    path = write_varied_recording(tmp_path / "run.spill", WAITS, seed)
    exact = ask([path], TARGETS, Question(exact=True))
    for (answer, _), (known, _) in zip(ask([path], TARGETS), exact, strict=True):
        assert known.sampled is None
        assert [term.count for term in answer.terms] == [term.count for term in known.terms]
        assert (answer.sampled is not None) == sampled
        if answer.sampled is None:
            assert answer.forecast_s == pytest.approx(known.forecast_s, rel=1e-12)
            assert answer.interval_s == pytest.approx(known.interval_s, rel=1e-12)
            continue
        assert answer.sampled.error <= query.ERROR_MAX
        assert answer.sampled.of_waits == Recording.open(path).meta.raw.rows
        assert abs(log(answer.forecast_s / known.forecast_s)) <= 3 * answer.sampled.error + 1e-9
        low_s, high_s = answer.interval_s
        assert low_s < known.forecast_s < high_s


def test_a_single_thread_needs_only_its_counts(tmp_path):
    path = write_large_recording(tmp_path / "run.spill", WAITS, threads=1)
    [(answer, _)], [(known, _)] = (
        ask([path], ["latency:150us"], Question(exact=exact)) for exact in (False, True)
    )
    assert answer.sampled is not None
    assert answer.forecast_s == pytest.approx(known.forecast_s, rel=1e-3)
    assert answer.interval_s == pytest.approx(known.interval_s, rel=1e-2)


def test_recordings_that_need_all_waits_are_not_sampled(tmp_path):
    def taken(**changes):
        workload, _ = read_workload(edited(path, **changes), Question())
        return workload.sample is None

    path = write_varied_recording(tmp_path / "run.spill", WAITS, 0, wait_us=2000)
    assert not taken()
    # A page cache that answered hardly anything.
    assert not taken(machine={"memory_available_bytes": 1 << 33})
    assert taken(ended_by="duration")
    assert not taken(ended_by="end")
    (path / "rehearsals").mkdir()
    assert taken()


@pytest.mark.parametrize("share", [0.2, *nightly(2.0)])
def test_a_sample_with_a_page_cache_gives_the_forecast_of_all_waits(tmp_path, monkeypatch, share):
    """Memory for a share of the written data; some reads come while it is cached, others later."""
    waits = WAITS // 6
    monkeypatch.setattr(derived, "WHOLE_ROWS", waits // 2)
    monkeypatch.setattr(derived, "SAMPLE_ROWS", waits // 4)
    # Even an uncertain forecast does not fall back to all waits.
    monkeypatch.setattr(query, "ERROR_MAX", inf)
    path = write_varied_recording(tmp_path / "run.spill", waits, 3, wait_us=3)
    room = int(share * Recording.open(path).meta.temp.bytes / 2)
    recording = edited(path, machine={"memory_available_bytes": room})
    assert sample_of(recording).sample is not None
    [(sampled, _)], [(exact, _)] = (
        ask([path], ["catalogue:linux-hdd"], Question(exact=exact)) for exact in (False, True)
    )
    assert _cached(sampled)
    assert _cached(exact)


def test_waits_of_a_sample_without_any_are_those_of_its_counts(tmp_path):
    """As of a part of a sample if single waits were kept in few slices."""
    path = write_varied_recording(tmp_path / "run.spill", WAITS, 3, wait_us=3)
    sample = sample_of(edited(path, machine={"memory_available_bytes": 1 << 30}))
    assert MISSING_BYTES in sample.waits.column_names
    nothing = np.zeros(len(sample.waits), dtype=bool)
    empty = sample.with_waits(sample.waits.filter(nothing), sample.sample)
    threads = recorded_threads(empty, recorded_loads(empty))
    # The page cache is simulated for operations that follow from counts.
    assert threads.missing_bytes is None
    assert threads.cache_bytes == 1 << 30
    assert threads.operations == sample.meta.temp.operations


def _cached(answer):
    return "page-cache-answers" in warned(answer)


def test_files_are_counted_over_the_whole_recording(tmp_path):
    path = write_large_recording(tmp_path / "run.spill", WAITS, 1, page_cached=True)
    # 20,000 blocks of each file are written.
    assert Recording.open(path).held_bytes == WAITS // 2 * 8192


def test_few_waits_are_not_sampled(tmp_path):
    path = write_large_recording(tmp_path / "run.spill", 4000)
    recording = Recording.open(path)
    assert sample_of(recording) is recording
