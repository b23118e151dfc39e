"""The fit recovers the cost of waits with which synthetic bursts were made."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from spillcast.engines.registry import ENGINES
from spillcast.errors import EvidenceUnsuited
from spillcast.lab.machine import SPREAD_MIN, _costs, _Measured, fit, kinds_of, pooled
from spillcast.recording.calibration import WaitCost
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.thread_trace import READ, WRITE, Bursts

WAITS_S = (0.25e-3, 1.5e-3)
TRUE = WaitCost("any", 4, 0.3, [20e-6, 1e-3], WAITS_S, [[1.5, 0.1], [2.5, 0.3]])


def bursts(warm_s, wait_s, op=READ):
    """Bursts with the true cost after waits, in random order."""
    cpu_s = warm_s + TRUE.extra_s(warm_s, wait_s)
    cpu_s = np.random.default_rng(len(cpu_s)).permutation(cpu_s)
    each = np.full(len(cpu_s), op)
    return Bursts(
        np.cumsum(cpu_s), np.full(len(cpu_s), wait_s), each * 0 + 8192, each, each, each * 0, cpu_s
    )


def made(query, seed, *, scale=1.0):
    """A query's bursts of 1 us to 10 ms, in memory and with both delays, twice."""
    warm_s = np.exp(np.random.default_rng(seed).uniform(np.log(1e-6), np.log(1e-2), 2000)) * scale
    return kinds_of(query, [[bursts(warm_s, wait_s)] * 2 for wait_s in (0.0, *WAITS_S)], [READ])


def test_the_true_cost_is_recovered():
    kinds = [kind for seed in range(4) for kind in made(f"query {seed}", seed)]
    result, work_s = fit("any", kinds, WAITS_S), np.array([3e-6, 30e-6, 300e-6, 3e-3])
    for wait_s in WAITS_S:
        assert result.extra_s(work_s, wait_s) == pytest.approx(
            TRUE.extra_s(work_s, wait_s), rel=0.1
        )
    assert result.queries == 4
    assert result.spread == SPREAD_MIN


def test_different_queries_have_a_spread():
    """Waits cost one of four queries twice as much."""
    kinds = [kind for seed in range(3) for kind in made(f"query {seed}", seed)]
    warm_s = np.full(2000, 1e-3)
    runs = [[bursts(warm_s, wait_s)] for wait_s in (0.0, *WAITS_S)]
    for place in runs[1:]:
        place[0].cpu_s[:] = warm_s + (place[0].cpu_s - warm_s) * 2
    result = fit("any", [*kinds, *kinds_of("odd", runs, [READ])], WAITS_S)
    # Its error is the others' estimate; theirs is less than half of the estimate that includes it.
    assert 0.5 < result.spread < 0.75


@pytest.mark.nightly
def test_run_to_run_noise_is_not_a_spread_of_queries():
    """Neighbours make some runs 15 % longer or shorter; the queries are equal."""
    chance, kinds = np.random.default_rng(1), []
    for query in range(6):
        warm_s = np.exp(chance.uniform(np.log(1e-5), np.log(3e-3), 2000))
        runs = [[bursts(warm_s, wait_s) for _ in range(2)] for wait_s in (0.0, *WAITS_S)]
        for place in runs:
            for item in place:
                item.cpu_s[:] *= chance.uniform(0.85, 1.15)
        kinds += kinds_of(f"query {query}", runs, [READ])
    with_noise = fit("any", [replace(kind, noise=0.0) for kind in kinds], WAITS_S)
    assert fit("any", kinds, WAITS_S).spread < 0.75 * with_noise.spread


def test_a_longer_wait_never_costs_less():
    """Neighbours made the runs with the shorter delay longer than those with the longer delay."""
    warm_s = np.geomspace(1e-5, 1e-3, 500)
    runs = [[bursts(warm_s, wait_s)] for wait_s in (0.0, WAITS_S[1], WAITS_S[0])]
    result = fit("any", kinds_of("query", runs, [READ]), WAITS_S)
    assert (np.diff(result.shares, axis=0) >= 0).all()


def test_only_bursts_before_the_requested_op_count():
    warm_s = np.geomspace(1e-5, 1e-3, 500)
    runs = [[bursts(warm_s, wait_s, WRITE)] for wait_s in (0.0, *WAITS_S)]
    assert kinds_of("query", runs, [READ]) == []
    with pytest.raises(EvidenceUnsuited):
        fit("duckdb", [], WAITS_S)


def test_each_engine_and_version_has_a_cost_and_others_the_pooled_one():
    kinds = {
        ("duckdb", "2.0.0"): made("a", 1) + made("b", 2),
        ("duckdb", "1.5.6"): made("a", 4),
        ("postgres", "18.6"): made("a", 3),
        ("none", "1"): [],
    }
    result = pooled(kinds, WAITS_S)
    assert [(item.engine, item.version, item.queries) for item in result] == [
        ("duckdb", "2.0.0", 2), ("duckdb", "1.5.6", 1), ("postgres", "18.6", 1), ("any", "", 3),
    ]  # fmt: skip


def test_an_unmeasured_engine_is_less_certain():
    """All engines agree, so the cost of one of them is as certain as its queries allow."""
    kinds = {(engine, "1"): made("a", 1) + made("b", 2) for engine in ("duckdb", "postgres")}
    *engines, others = pooled(kinds, WAITS_S)
    assert all(others.spread > engine.spread for engine in engines)


@pytest.mark.nightly
def test_different_engines_make_the_pooled_cost_less_certain():
    """A wait costs one of them three times as much as the other."""
    kinds = {("duckdb", "1"): made("a", 1) + made("b", 2)}
    alike = pooled(kinds, WAITS_S)[-1].spread
    odd = [
        replace(kind, cpu_s=kind.cpu_s[0] + 3 * (kind.cpu_s - kind.cpu_s[0]))
        for kind in made("c", 3)
    ]
    assert pooled({**kinds, ("postgres", "1"): odd}, WAITS_S)[-1].spread > alike


def test_runs_without_cpu_times_give_no_cost():
    """The preload library does not see these times."""
    described = ObservedEngine("duckdb", "1.4.0")
    lab = SimpleNamespace(compresses_writes=True, describe=lambda _query: described)
    assert _costs([_Measured(ENGINES["duckdb"], lab, [None])]) == []
