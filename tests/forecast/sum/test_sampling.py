"""Large recordings are forecast from a sample: within the error that is stated of it."""

import json
from math import log

import pytest

from large_recording import write_large_recording
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question
from spillcast.forecast.sum import sampling
from spillcast.forecast.sum.sampling import sample_of
from spillcast.recording import Recording
from varied_recording import write_varied_recording

TARGETS = ("latency:20us", "latency:400us", "latency:5ms")
WAITS, ROWS = 240_000, 64_000


@pytest.fixture(autouse=True)
def smaller(monkeypatch):
    """Recordings count as large that are made in no time."""
    monkeypatch.setattr(sampling, "WHOLE_ROWS", WAITS // 2)
    monkeypatch.setattr(sampling, "SAMPLE_ROWS", ROWS)


def edited(path, **changes):
    meta = json.loads((path / "meta.json").read_text())
    for name, value in changes.items():
        meta[name] = {**meta[name], **value} if isinstance(value, dict) else value
    (path / "meta.json").write_text(json.dumps(meta))
    return Recording.open(path)


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_says_what_all_waits_say(tmp_path, seed):
    """Three of the stated standard errors hold; `python -m bench samples` has more of them."""
    path = write_varied_recording(tmp_path / "run.spill", WAITS, seed)
    exact = ask([path], TARGETS, Question(exact=True))
    for (said, _), (known, _) in zip(ask([path], TARGETS), exact, strict=True):
        assert known.sampled is None
        assert [term.count for term in said.terms] == [term.count for term in known.terms]
        if said.sampled is None:
            assert said == known
            continue
        assert said.sampled.error <= sampling.ERROR_MOST
        assert said.sampled.of_waits == Recording.open(path).meta.raw.rows
        assert abs(log(said.forecast_s / known.forecast_s)) <= 3 * said.sampled.error + 1e-9
        low_s, high_s = said.interval_s
        assert low_s < known.forecast_s < high_s


def test_one_thread_needs_no_more_than_its_counts(tmp_path):
    path = write_large_recording(tmp_path / "run.spill", WAITS, threads=1)
    [(said, _)], [(known, _)] = (
        ask([path], ["latency:150us"], Question(exact=exact)) for exact in (False, True)
    )
    assert said.sampled is not None
    assert said.forecast_s == pytest.approx(known.forecast_s, rel=1e-3)
    assert said.interval_s == pytest.approx(known.interval_s, rel=1e-2)


def test_what_needs_all_waits_is_taken_whole(tmp_path):
    def taken(**changes):
        recording = edited(path, **changes)
        return sample_of(recording) is recording

    path = write_varied_recording(tmp_path / "run.spill", WAITS, 0, wait_us=2000)
    assert not taken()
    # A page cache that answered next to nothing.
    assert not taken(machine={"memory_available_bytes": 1 << 33})
    assert taken(ended_by="duration")
    assert not taken(ended_by="end")
    (path / "rehearsals").mkdir()
    assert taken()


def test_a_page_cache_needs_all_that_was_done(tmp_path):
    """Where temp operations were as fast as memory, one may have answered them."""
    path = write_varied_recording(tmp_path / "run.spill", WAITS, 0, wait_us=3)
    recording = edited(path, machine={"memory_available_bytes": 1 << 33})
    assert sample_of(recording) is recording
    assert sample_of(edited(path, machine={"memory_available_bytes": None})).sample is not None


def test_few_waits_are_taken_whole(tmp_path):
    path = write_large_recording(tmp_path / "run.spill", 4000)
    recording = Recording.open(path)
    assert sample_of(recording) is recording
