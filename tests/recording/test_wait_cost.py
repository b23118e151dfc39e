"""What a wait costs, fitted to made-up queries whose truth is known."""

import random
from dataclasses import replace

import numpy as np
import pytest

from spillcast.recording.wait_cost import Point, WaitCost, fit, queries_of

TRUTH = WaitCost(share=0.6, power=0.7, settles_s=0.001, spread=0.0)
WAITS_S = {"tmpfs": 5e-6, "near": 3.5e-4, "far": 1.6e-3}
#: CPU time between waits of made-up queries: as of PostgreSQL's and of DuckDB's.
WORK_S = (60e-6, 90e-6, 150e-6, 400e-6, 0.8e-3, 1.1e-3, 2e-3)


def extra_s(wait_s, work_s, share=0.6):
    """The truth, by hand."""
    return share * 100e-6 * (work_s / 100e-6) ** 0.7 * (1 - np.exp(-wait_s / 0.001))


def points(work_s, query, share=0.6, waits_s=WAITS_S, repeat=0):
    """Runs of a query on each storage."""
    return [
        Point(
            "Paper 1.0", query, storage, repeat, 1000, wait_s, wait_s, wait_s,
            cpu_s=1000 * (work_s + extra_s(wait_s, work_s, share)),
            cpu_per_operation_s=work_s + extra_s(wait_s, work_s, share),
            process_cpu_s=1.0, run_queue_delay_s=0.0, elapsed_s=2.0,
        )
        for storage, wait_s in waits_s.items()
    ]  # fmt: skip


def queries(shares=()):
    shares = [*shares, *[0.6] * (len(WORK_S) - len(shares))]
    made = [
        points(work_s, str(at), share)
        for at, (work_s, share) in enumerate(zip(WORK_S, shares, strict=True))
    ]
    return [point for each in made for point in each]


@pytest.mark.parametrize("work_s", [80e-6, 300e-6, 1.5e-3])
@pytest.mark.parametrize("wait_s", [1e-4, 4e-4, 1.5e-3, 5e-3])
def test_the_truth_is_found(wait_s, work_s):
    (found,) = fit(queries()).extra_s(np.array([wait_s]), work_s)
    assert found == pytest.approx(extra_s(wait_s, work_s), rel=0.1)


def test_queries_that_all_do_alike_have_no_spread():
    assert fit(queries()).spread < 0.05


def test_how_far_queries_differ_is_found():
    """Half of them pay 40 % more than the centre, half 40 % less."""
    shares = [0.6 * (1 + sign * 0.4) for sign in (1, -1, 1, -1, 1, -1)]
    found = fit(queries(shares))
    assert 0.3 < found.spread < 0.7
    (centre_s,) = found.extra_s(np.array([1e-3]), 300e-6)
    assert centre_s == pytest.approx(extra_s(1e-3, 300e-6), rel=0.3)


def test_a_disturbed_run_of_three_changes_nothing():
    calm = [replace(one, repeat=number) for number in range(3) for one in queries()]
    disturbed = list(calm)
    disturbed[4] = replace(calm[4], cpu_per_operation_s=50 * calm[4].cpu_per_operation_s)
    assert fit(disturbed) == fit(calm)


def test_the_order_of_points_tells_nothing():
    shuffled = queries()
    random.Random(7).shuffle(shuffled)
    wait_s = np.array([1e-3])
    assert fit(shuffled).extra_s(wait_s, 1e-4) == pytest.approx(
        fit(queries()).extra_s(wait_s, 1e-4)
    )


def test_no_wait_costs_nothing_and_longer_ones_no_less():
    cost = fit(queries())
    found_s = cost.extra_s(np.array([0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1.0]), 1e-3)
    assert found_s[0] == 0.0
    assert (np.diff(found_s) > 0).all()


def test_where_cpu_time_falls_with_waits_they_cost_nothing():
    cost = fit(queries([-0.5] * len(WORK_S)))
    assert cost.extra_s(np.array([1e-3]), 1e-3) == 0.0


def test_few_queries_tell_no_spread():
    two = [*points(1e-4, "a"), *points(1e-3, "b")]
    assert fit(two).spread == 1.0


def test_a_query_on_one_storage_tells_nothing():
    alone = points(1e-4, "a", waits_s={"tmpfs": 5e-6})
    assert fit(alone) is None
    assert queries_of([*alone, *points(1e-4, "b")]) == 1
