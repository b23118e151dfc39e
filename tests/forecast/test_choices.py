"""Several targets side by side: order, share of the ceiling, best value; bad prices."""

import pytest

import made_up
from cases import cases
from spillcast.errors import OptionInvalid, TargetUnknown
from spillcast.forecast.result import Term
from spillcast.forecast.verdict import parse_costs, priced, ranked, recommended, verdict


def forecast(target, seconds, *, refused=None):
    interval = None if seconds is None else (seconds, seconds)
    return made_up.forecast(
        target=target,
        baseline_s=100.0,
        forecast_s=seconds,
        interval_s=interval,
        ceiling_s=20.0,
        refused=refused,
    )


WORDS = ["a.json", "tmpfs", "b.json", "c.json"]
FOUR = [
    forecast("/mnt/a", 60.0),
    forecast("tmpfs", None, refused="it would swap"),
    forecast("/mnt/b", 30.0),
    forecast("/mnt/c", 150.0),
]


def test_the_fastest_comes_first_and_a_refusal_last():
    order = [forecast.target for forecast in ranked(FOUR)]
    assert order == ["/mnt/b", "/mnt/a", "/mnt/c", "tmpfs"]


def test_share_of_the_ceiling_is_time_saved_over_time_that_could_be():
    shares = [forecast.ceiling_share for forecast in FOUR]
    assert shares == [40 / 80, None, 70 / 80, None]


def test_the_best_value_saves_most_for_its_price_and_is_never_a_slower_one():
    # 70 s for 100, 40 s for 50, and 50 s lost for nothing.
    result = priced(WORDS, FOUR, {"b.json": 100, "a.json": 50, "c.json": 0, "tmpfs": 1})
    assert [c.cost for c in result] == [50, 1, 100, 0]
    assert [c.target for c in result if c.best_value] == ["/mnt/a"]


def test_what_costs_nothing_and_saves_is_the_best_value():
    result = priced(WORDS, FOUR, {"a.json": 0, "b.json": 1})
    assert [c.target for c in result if c.best_value] == ["/mnt/a"]


def test_of_what_costs_nothing_the_one_that_saves_more_is_the_best_value():
    result = priced(WORDS, FOUR, {"a.json": 0, "b.json": 0})
    assert [c.target for c in result if c.best_value] == ["/mnt/b"]


def test_without_prices_nothing_is_the_best_value():
    assert not any(choice.best_value for choice in priced(WORDS, FOUR, {}))


def test_a_price_for_an_unknown_target_is_refused_with_the_names():
    with pytest.raises(TargetUnknown, match="nvme=1: there is no --to nvme") as error:
        parse_costs(["nvme=1"], WORDS)
    assert "a.json, tmpfs, b.json, c.json" in error.value.hint


def test_a_name_may_hold_an_equals_sign():
    words = ["catalogue:aws-gp3?iops=6000", "/mnt/nvme"]
    costs = parse_costs([f"{words[0]}=96.5", f"{words[1]}=0"], words)
    assert costs == {words[0]: 96.5, words[1]: 0.0}


@cases("text", ["nvme", "nvme=", "=5", "nvme=-1", "nvme=cheap", "nvme=inf"])
def test_bad_prices_are_named(text):
    with pytest.raises(OptionInvalid, match=f"--cost {text}: not a price"):
        parse_costs([text], ["nvme"])


@cases(("io_s", "expected"), [(16.0, {"fast"}), (1.0, set()), (0.2, set())])
def test_only_where_storage_is_the_problem_one_is_recommended(io_s, expected):
    def on(target, io_after_s):
        other = Term("CPU", None, None, None, 20 - io_s, 20 - io_s)
        reads = Term("temp read", "read", 8192, 1, io_s, io_after_s)
        elapsed_s = 20 - io_s + io_after_s
        interval_s = (elapsed_s * 0.9, elapsed_s * 1.1)
        return made_up.forecast(
            target=target, forecast_s=elapsed_s, interval_s=interval_s, ceiling_s=20 - io_s,
            terms=[other, reads],
        )  # fmt: skip

    assert recommended([on("fast", io_s / 8), on("slow", io_s)]) == expected


def test_without_a_number_the_verdict_names_each_reason_once():
    refused = [forecast(target, None, refused="it would swap") for target in ("tmpfs", "/mnt/a")]
    result = verdict(refused)
    assert result.kind == "none"
    assert result.text.count("it would swap") == 1
