"""How long a query is rehearsed, and what stands in a case for a forecast made otherwise."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from cases import cases
from made_up import case, otherwise
from spillcast_lab.variants import rehearsed_s


@cases(
    ("starts_s", "elapsed_s", "expected_s"),
    [
        ([1.5, 1.6, 9.0], 20.0, 3.5),
        ([3.0], 100.0, 10.0),
        # Without one it is as long as it may be.
        ([], 200.0, 10.0),
    ],
)
def test_a_rehearsal_goes_on_for_a_tenth_after_the_first_temp_io(starts_s, elapsed_s, expected_s):
    starts_ns = pa.array([round(start_s * 1e9) for start_s in starts_s], pa.int64())
    recording = SimpleNamespace(temp_waits=pa.table({"start_ns": starts_ns}), elapsed_s=elapsed_s)
    assert rehearsed_s(recording) == pytest.approx(expected_s)


def test_a_variant_stands_for_the_numbers_and_nothing_else():
    whole = case(12.0, seed_s=15.0, variants={"rehearsed": otherwise(10.5, ceiling_low_s=3.5)})
    one = whole.otherwise("rehearsed")
    assert (one.error, one.covered, one.seed_error) == (pytest.approx(0.05), True, 0.5)
    assert one.forecast.ceiling_interval_s[0] == 3.5
    assert one.forecast.terms == ()
    assert whole.otherwise("without cost") is None


def test_a_variant_without_a_number_is_refused():
    one = case(12.0, variants={"without machine": otherwise()}).otherwise("without machine")
    assert one.error is None
    assert one.forecast.refused
