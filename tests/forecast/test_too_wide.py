"""When an interval is no answer."""

from cases import cases
from spillcast.forecast.interval import too_wide


@cases(
    ("low_s", "high_s", "now_s", "refused"),
    [(10, 60, 0, False), (10, 200, 0, True), (10, 200, 150, True), (10, 200, 1200, False)],
)
def test_a_wide_interval_is_an_answer_where_the_move_helps_in_any_case(
    low_s, high_s, now_s, refused
):
    assert (too_wide(low_s, high_s, now_s) is not None) == refused
