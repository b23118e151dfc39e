"""Parts of a run with unknown whole time, from which forecasts are verified."""

from random import Random

import pytest

from evidence import recording
from made_up import case
from spillcast.evidence.counts import Counts, OpCounts
from spillcast_lab.accuracy_figures import aims
from spillcast_lab.partial_runs import FIFTH, MINUTE, parts

MS = 1_000_000
PLAN = {"Plan": {"Node Type": "Sort", "Plan Rows": 7}}


@pytest.fixture
def whole(tmp_path):
    """A run of 20 s that writes for the first half and reads in the second."""
    loads = [("write", 8192, 1000, 9 * MS), ("read", 8192, 1000, 9 * MS)]
    return recording(tmp_path / "run.spill", loads, elapsed_s=20.0, cpu_s=1.0)


def test_a_tenth_starts_anywhere_in_the_first_four_fifths(whole):
    matches = [parts(whole, Random(seed), None)[MINUTE] for seed in range(40)]
    begun_s = [part.meta.before.ran_s for part in matches]
    assert 0 <= min(begun_s) < 3
    assert 13 < max(begun_s) <= 16
    assert {round(part.elapsed_s, 6) for part in matches} == {2.0}
    # The part does not contain the duration of the whole.
    assert all(part.meta.ended_early and part.meta.recorded_s == 2.0 for part in matches)
    assert parts(whole, Random(1), None)[FIFTH].elapsed_s == 4.0


def test_the_estimates_of_a_plan_are_part_of_the_document(whole):
    blocks = OpCounts(1, 8192)
    explained = Counts(
        path=whole.path, elapsed_s=1.0, reads=blocks, writes=blocks, source="explain", document=PLAN
    )
    assert parts(whole, Random(1), explained)[MINUTE].documents == {"estimate.json": PLAN}


def test_each_kind_of_evidence_has_its_own_aims():
    """Errors of 10 and 20 %, and one refusal."""
    cases = [case(11.0), *(case(item, evidence="minute") for item in (11.0, 12.0))]
    cases.append(case(refused="nothing tells the whole", evidence="minute"))
    result = {(aim.of, aim.criterion): aim for aim in aims(cases)}
    of = "a minute, or a tenth"
    assert result[of, "share refused"].figure == pytest.approx(1 / 3)
    assert not result[of, "share refused"].met
    assert result[of, "median error"].figure == pytest.approx(0.15)
    assert result["the same, with a previous run", "median error"].met is None
