"""Shares, latency without length bias, and wall clock, against plain arithmetic and simulation."""

from datetime import datetime

import numpy as np
import pytest

from cases import cases
from spillcast.columns import ColumnValues
from spillcast.errors import SelectionEmpty
from spillcast.evidence.oracle.ash import Ash
from spillcast.evidence.oracle.ash_profile import profile_ash, wall_clock_share
from spillcast.recording.schema import SAMPLES
from spillcast.tables import Table

READ = "direct path read temp"
WRITE = "direct path write temp"
POLL = "ASM IO for non-blocking poll"


def ash(rows, source="V$", instances=None):
    """An export of rows of (second, session, event, time_waited_us), and other columns by name."""
    weight_us = 1_000_000 if source == "V$" else 10_000_000
    full = []
    for second, session, event, waited_us, *rest in rows:
        more = rest[0] if rest else {}
        row = {"time_ns": round(second * 1e9), "session": session, "event": event}
        row |= {"time_waited_us": waited_us, "weight_us": weight_us, "sql_id": "09bmj7j9q8a5z"}
        full.append(row | more)
    samples = Table.from_rows(full, SAMPLES).sort_by("time_ns")
    if instances is not None:
        samples = samples.with_column("instance", ColumnValues.of(instances, "int64"))
    return Ash(samples, source, datetime(2024, 10, 14))


def seed_rows():
    events = [(POLL, 15)] * 5 + [(WRITE, 446)] * 12 + [(None, 0)] * 338 + [(READ, 19_305)] * 418
    return [(i, 33, event, waited_us) for i, (event, waited_us) in enumerate(events)]


def test_shares_match_the_published_estimate():
    rows = {row["event"]: row for row in profile_ash(ash(seed_rows())).to_pylist()}
    counts = {event: row["count"] for event, row in rows.items()}
    assert counts == {POLL: 5, WRITE: 12, "(on CPU)": 338, READ: 418}
    percent = {event: round(100 * row["share"], 2) for event, row in rows.items()}
    assert percent == {POLL: 0.65, WRITE: 1.55, "(on CPU)": 43.73, READ: 54.08}
    assert rows[READ]["mean_us"] == rows[READ]["min_us"] == 19_305
    assert rows["(on CPU)"]["latency_us"] is None
    assert sum(row["total_us"] for row in rows.values()) == 773_000_000


def test_share_within_a_statement_and_share_of_all():
    other = {"sql_id": "other12345678"}
    rows = [(0, 1, READ, 10), (1, 1, None, 0), (2, 1, READ, 10, other), (3, 1, READ, 10, other)]
    profile = profile_ash(ash(rows)).to_pylist()
    result = {(r["sql"], r["event"]): (r["share_of_sql"], r["share"]) for r in profile}
    assert result == {
        ("09bmj7j9q8a5z", READ): (0.5, 0.25),
        ("09bmj7j9q8a5z", "(on CPU)"): (0.5, 0.25),
        ("other12345678", READ): (1.0, 0.5),
    }


def test_the_number_of_waits_that_a_row_represents():
    """By hand: 100 waits of 10 ms, one of 2.5 s sampled three times, one that is not over."""
    rows = [(0, 1, READ, 10_000), (1, 1, READ, 0), (2, 1, READ, 0), (3, 1, READ, 2_500_000)]
    rows.append((4, 1, READ, 0))
    (row,) = profile_ash(ash(rows)).to_pylist()
    assert row["n_est"] == pytest.approx(101)
    assert row["latency_us"] == pytest.approx(5e6 / 101)


def test_history_rows_weigh_ten_times_as_much():
    """The history keeps one row in ten, which applies to the last rows of long waits, too."""
    rows = [(0, 1, READ, 10_000), (10, 1, READ, 2_500_000), (20, 1, None, 0)]
    read, cpu = profile_ash(ash(rows, "DBA_HIST")).to_pylist()
    assert (read["total_us"], cpu["total_us"]) == (20_000_000, 10_000_000)
    assert read["n_est"] == pytest.approx(10 * (100 + 1))


def sampled(waits_us, gaps_us, keep_every=1, phase=0.0):
    """What ASH samples of a session that alternates between waits and CPU; waits are in seconds."""
    ends = np.cumsum(waits_us + gaps_us)
    starts = ends - waits_us
    instants = np.arange(phase * 1e6, ends[-1], 1e6)
    at = np.searchsorted(ends, instants, side="right")
    waiting = starts[at] <= instants
    # Only the last sample of a wait has its length.
    last = np.append(at[1:] != at[:-1], True)
    seen = np.where(last, waits_us[at], 0)
    return [
        (int(i), 1, READ if waiting[i] else None, int(seen[i]) if waiting[i] else 0)
        for i in range(0, len(instants), keep_every)
    ]


def read_row(rows, source="V$"):
    return next(r for r in profile_ash(ash(rows, source)).to_pylist() if r["event"] == READ)


def log_normal(rng, mean, sigma, count):
    return np.maximum(1, np.rint(rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)))


def test_latency_of_a_simulated_session_matches_the_truth():
    """A sample's 1/w has variance (exp(sigma^2) - 1) / mean^2 under log-normal waits."""
    rng = np.random.default_rng(20241014)
    sigma, count = 0.9, 1_500_000
    waits = log_normal(rng, 9_000, sigma, count)
    rows = sampled(waits, rng.exponential(3_000, count))
    row = read_row(rows)
    truth = waits.mean()
    expected_error = truth * np.sqrt((np.exp(sigma**2) - 1) / row["count"])
    assert row["mean_us"] > 1.5 * truth
    assert abs(row["latency_us"] - truth) < 3 * expected_error
    assert row["latency_error_us"] == pytest.approx(expected_error, rel=0.15)


@cases(("source", "keep_every"), [("V$", 1), ("DBA_HIST", 10)])
def test_latency_with_waits_longer_than_the_interval(source, keep_every):
    rng = np.random.default_rng(7)
    waits = log_normal(rng, 300_000, 1.2, 150_000)
    assert (waits > 1e6).mean() > 0.03
    row = read_row(sampled(waits, rng.exponential(100_000, len(waits)), keep_every), source)
    assert abs(row["latency_us"] - waits.mean()) < 3 * row["latency_error_us"]
    assert row["latency_error_us"] < 0.05 * row["latency_us"]


@pytest.mark.nightly
def test_the_truth_lies_within_two_errors_in_95_percent_of_cases():
    """Of 60 short samples, 95 % within two standard errors: 57 +- 3 standard deviations of 1.7."""
    rng = np.random.default_rng(3)
    within = 0
    for _ in range(60):
        waits = log_normal(rng, 9_000, 0.7, 40_000)
        row = read_row(sampled(waits, rng.exponential(3_000, len(waits)), phase=rng.random()))
        within += abs(row["latency_us"] - 9_000) < 2 * row["latency_error_us"]
    assert within >= 52


def test_wall_clock_of_a_serial_query_counts_its_rows():
    clock = wall_clock_share(ash(seed_rows()))
    assert clock.share == pytest.approx(430 / 773)
    assert (clock.active_s, clock.elapsed_s, clock.instants, clock.sessions) == (773, 773, 773, 1)
    assert clock.events == [READ, WRITE]


def parallel_rows():
    """Session 10 coordinates 11..14; by second: all of 2 in temp, 1 of 4, none of 1, a gap."""
    worker = {"coordinator": 10}
    return [
        *[(0, session, READ, 10_000, worker) for session in (11, 12)],
        (1, 11, WRITE, 10_000, worker),
        *[(1, session, None, 0, worker) for session in (12, 13, 14)],
        (2, 10, None, 0),
        (5, 10, None, 0),
    ]


def test_wall_clock_of_a_parallel_query_counts_each_instant_once():
    clock = wall_clock_share(ash(parallel_rows()))
    assert clock.share == pytest.approx((1 + 1 / 4) / 4)
    assert (clock.active_s, clock.elapsed_s, clock.instants, clock.sessions) == (4, 6, 4, 4)


def test_instances_with_different_sampling_instants_share_a_second():
    worker = {"coordinator": 10}
    rows = [(0.0, 11, READ, 9, worker), (0.4, 12, None, 0, worker), (1.0, 11, READ, 9, worker)]
    clock = wall_clock_share(ash(rows, instances=[1, 2, 1]))
    assert clock.share == pytest.approx((1 / 2 + 1) / 2)
    assert clock.active_s == 2


def test_two_executions_have_separate_wall_clocks():
    rows = [(0, 1, READ, 9, {"sql_exec_id": 1}), (0, 2, None, 0, {"sql_exec_id": 2})]
    clock = wall_clock_share(ash(rows))
    assert (clock.share, clock.active_s, clock.sessions) == (0.5, 2, 1)


@cases(
    ("pattern", "share"),
    [("*on cpu*", 338 / 773), ("direct path read temp", 418 / 773), ("ASM*", 5 / 773), ("*", 1)],
)
def test_any_event_can_be_selected(pattern, share):
    assert wall_clock_share(ash(seed_rows()), pattern).share == pytest.approx(share)


def test_a_pattern_that_matches_no_event_is_refused():
    with pytest.raises(SelectionEmpty, match="no sample waits for 'gc \\*'") as caught:
        wall_clock_share(ash(seed_rows()), "gc *")
    assert READ in caught.value.hint
