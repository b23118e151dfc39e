"""The totals of a recording in progress equal those of the finished recording."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from cases import cases
from spillcast.forecast import forecast
from spillcast.recording import Recording, live
from spillcast.recording.live import Running, Tally
from spillcast.storage.target import resolve
from spillcast.tables import Table


@pytest.fixture(scope="module")
def recording(spilled):
    return Recording.open(spilled.path)


def fed(recording, rows):
    """A recording in progress, which got its rows in portions of ``rows``."""
    made = Running()
    for at in range(0, recording.waits.num_rows, rows):
        made.add_waits(recording.waits.take(slice(at, at + rows)))
    made.add_seconds(recording.seconds)
    return made


@cases("rows", [1, 7, 1000])
def test_totals_are_those_of_the_finished_recording(recording, rows):
    waits = pa.table(recording.waits)
    keys = ["event", "op", "temp"]
    sums = waits.group_by(keys, use_threads=False).aggregate(
        [("elapsed_ns", "sum"), ("elapsed_ns", "count"), ("bytes", "sum")]
    )
    expected, waited = {}, {}
    for row in sums.to_pylist():
        reported = row["elapsed_ns_count"], row["elapsed_ns_sum"], row["bytes_sum"] or 0
        if row["op"] is not None:
            expected[tuple(row[key] for key in keys)] = reported
        else:
            # Its only session does temp I/O.
            before = waited.get(row["event"], (0, 0, 0))
            waited[row["event"]] = tuple(map(sum, zip(before, reported, strict=True)))
    result = fed(recording, rows)
    assert {key: (t.count, t.total_ns, t.bytes) for key, t in result.tallies.items()} == expected
    assert {key: (t.count, t.total_ns) for key, t in result.waits().items()} == {
        event: reported[:2] for event, reported in waited.items()
    }


def test_the_forecast_is_that_of_the_finished_recording(recording):
    so_far = fed(recording, 100).recording(recording.meta)
    matches = [
        forecast(item, resolve("latency:2ms", item)).to_json() for item in (recording, so_far)
    ]
    assert matches[0] == matches[1]


def test_only_earlier_waits_are_included(recording):
    so_far = fed(recording, 100).recording(recording.meta, before_s=1)
    whole = recording.waits
    expected = whole.filter(whole["start_ns"].values < 1_000_000_000)
    assert so_far.waits["start_ns"].to_pylist() == expected["start_ns"].to_pylist()
    assert set(so_far.seconds["second"].to_pylist()) <= {0}


def test_quantiles_are_within_3_percent():
    values = np.random.default_rng(1).lognormal(12, 2, 20_000).astype(np.int64)
    tally = Tally()
    tally.add(np.zeros(len(values), dtype=np.int64), values, 0)
    for quantile in (0.01, 0.5, 0.99):
        expected = np.quantile(values, quantile, method="inverted_cdf")
        assert tally.quantile_ns(quantile) == pytest.approx(expected, rel=0.03)


def test_single_waits_are_thinned_and_totals_are_not(recording, monkeypatch):
    monkeypatch.setattr(live, "ROWS_MAX", 500)
    many, rows = Running(), recording.waits.take(slice(100))
    for second in range(64):
        starts = [second * 10**9 + n for n in range(100)]
        many.add_waits(rows.with_column("start_ns", starts))
    so_far = many.recording(recording.meta)
    assert 100 <= so_far.waits.num_rows <= 500
    tallies = [*many.tallies.values(), *many.waits().values()]
    assert sum(tally.count for tally in tallies) == 6400
    slices = so_far.meta.raw.slices_s
    gaps = {second - first for (first, _), (second, _) in pairwise(slices)}
    assert len(gaps) == 1
    assert {start // 10**9 for start in so_far.waits["start_ns"].to_pylist()} == {
        first for first, _ in slices
    }


def test_sums_by_second_of_a_long_run_take_bounded_memory(recording, monkeypatch):
    monkeypatch.setattr(live, "SECONDS_MAX", 200)
    monkeypatch.setattr(live, "BATCHES_MAX", 50)
    rows, whole, many = recording.seconds.take(slice(8)), [], Running()
    for second in range(500):
        whole.append(rows.with_column("second", [second] * rows.num_rows))
        many.add_seconds(whole[-1])
        assert many._seconds_rows <= 200
    result, expected = many.recording(recording.meta).seconds, Table.concat(whole)
    assert result.num_rows <= 200
    assert set(result["second"].to_pylist()) < set(range(500))
    for name in ("count", "bytes", "total_ns"):
        assert result[name].sum() == expected[name].sum()
    assert histogram(result) == histogram(expected)


def histogram(seconds):
    """The counts of waits by kind and latency."""
    sums = Counter()
    for row in seconds.to_pylist():
        for latency_ns, count in zip(row["latency_ns"], row["latency_count"], strict=True):
            sums[row["op"], row["temp"], row["size_class_bytes"], latency_ns] += count
    return sums


def test_waits_of_ever_new_threads_take_bounded_memory(recording, monkeypatch):
    monkeypatch.setattr(live, "WAITS_MAX", 20)
    batch = recording.waits.filter(recording.waits["op"].is_null()).take(slice(3))
    many = Running()
    for session in range(200):
        many.add_waits(batch.with_column("session", [session] * batch.num_rows))
        assert len(many._waits) <= 20 + len(batch)
    assert sum(tally.count for tally in many.waits().values()) == 200 * batch.num_rows
