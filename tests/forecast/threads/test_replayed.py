"""A replay of all threads on the target: it widens the interval, and decides nothing."""

import pytest

from cases import cases
from spillcast.forecast.workload.threads import Overlap


@cases("replayed_s", [None, 4.0, 8.5, 11.0])
def test_a_replay_does_not_decide_between_the_models(replayed_s):
    assert Overlap(1.0, 10.0, 8.0, replayed_s).elapsed_s == 8.0


def test_the_interval_spans_all_of_them():
    assert Overlap(1.0, 10.0, 8.0).apart == pytest.approx(1.25)
    assert Overlap(1.0, 10.0, 8.0, 16.0).apart == pytest.approx(2.0)
    assert Overlap(1.0, 10.0, 8.0, 5.0).apart == pytest.approx(2.0)
