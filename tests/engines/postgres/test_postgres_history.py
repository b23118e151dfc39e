"""A random load on real servers with repeated snapshots: all is counted, nothing twice."""

from collections import Counter

import pytest
from bench.history import Load, problems

from harness import json_of, spillcast
from plans import INSTALLATIONS
from postgres_rig import copied_cluster
from spillcast.engines.postgres.rank.history import rank_snapshots
from spillcast.engines.ranking import RankRequest, RateLimit
from spillcast.fleet.fleet import fleet
from spillcast.forecast.sizing.products import DAYS_PER_MONTH
from spillcast.workspace import workspace

LOOKS = 12


@pytest.fixture(scope="module", params=INSTALLATIONS, ids=lambda made: made.version)
def load(request, tmp_path_factory):
    with workspace() as room:
        cluster = copied_cluster(room, request.param)
        yield Load(cluster, tmp_path_factory.mktemp("load") / "looks", looks=LOOKS).run()


def rank(load, **options):
    request = RankRequest(["factor:10"])
    [ranking] = rank_snapshots(str(load.folder), request, **options)
    return ranking


def test_every_call_that_was_not_lost_counts_once_and_events_are_detected(load):
    ranking = rank(load)
    assert problems(load, ranking) == []
    # The same sums by time.
    by_time = Counter()
    for bucket in ranking.history.buckets:
        by_time.update({part.queryid: part.temp_bytes for part in bucket.statements})
    assert by_time == {ranked.queryid: ranked.temp_bytes for ranked in ranking.statements}
    assert ranking.history.lower_bounds > 0


def test_a_snapshot_is_small(load):
    assert len(load.bytes) == LOOKS
    assert max(load.bytes) < 100_000


def test_alerts_follow_the_bytes_written(load):
    rules = [
        RateLimit.of(text) for text in ("temp > 1M/h", "temp > 1T/d", "new > 0/d", "new > 1/d")
    ]
    ranking = rank(load, rules=rules)
    assert [alert.exceeded for alert in ranking.history.alerts] == [True, False, True, False]
    for rule, status in (("temp > 1M/h", 4), ("temp > 1T/h", 0)):
        assert spillcast("postgres", load.folder, "--alert", rule).returncode == status


def test_a_fleet_reads_the_same_snapshots(load):
    ranked = {statement.queryid: statement.elapsed_s for statement in rank(load).statements}
    rows = {row.sql: row.elapsed_s for row in fleet(str(load.folder), "factor:10").statements}
    assert rows == pytest.approx(ranked)


def test_storage_is_sized_for_the_calls_of_the_snapshots(load):
    document = json_of("size", load.folder, "--provider", "aws")
    ranking = rank(load)
    spilling = [row for row in ranking.counted if row.spills]
    calls = sum(row.calls for row in spilling)
    baseline_s = sum(row.elapsed_s for row in spilling) / calls
    assert document["baseline_s"] == pytest.approx(baseline_s, rel=0.02)
    last = document["frontier"][-1]
    saved_h = calls * ranking.per_day * DAYS_PER_MONTH * (baseline_s - last["elapsed_s"]) / 3600
    assert last["saved_h_per_month"] == pytest.approx(saved_h, rel=0.05)
