"""Several targets compared: order, share of the ceiling, best value, invalid prices, the table."""

from dataclasses import replace

import pytest

import made_up
from cases import cases
from spillcast.errors import OptionInvalid, TargetUnknown
from spillcast.forecast import Caveat
from spillcast.forecast.caveat import explanations
from spillcast.forecast.result import Term
from spillcast.forecast.verdict import parse_costs, priced, ranked, recommended, verdict
from spillcast.forecast.work_memory import WorkMemoryEffect, WorkMemorySetting
from spillcast.report.forecast import forecast_page, targets_table
from spillcast.units import format_duration, format_interval


def forecast(target, seconds, *warnings, **more):
    interval = None if seconds is None else (seconds - 1, seconds + 1)
    return made_up.forecast(
        target=target,
        baseline_s=100.0,
        forecast_s=seconds,
        interval_s=interval,
        ceiling_s=20.0,
        warnings=warnings,
        **more,
    )


WORDS = ["a.json", "tmpfs", "b.json", "c.json"]
FOUR = [
    forecast("/mnt/a", 60.0),
    forecast("tmpfs", None, refused="it would swap"),
    forecast("/mnt/b", 30.0),
    forecast("/mnt/c", 150.0),
]


def test_targets_are_sorted_by_time_with_refusals_last():
    order = [forecast.target for forecast in ranked(FOUR)]
    assert order == ["/mnt/b", "/mnt/a", "/mnt/c", "tmpfs"]


def test_share_of_the_ceiling_is_time_saved_over_time_that_could_be():
    shares = [forecast.ceiling_share for forecast in FOUR]
    assert shares == [40 / 80, None, 70 / 80, None]


@cases(
    ("costs", "best"),
    [
        # 70 s for 100, 40 s for 50, and 50 s lost for nothing.
        ({"b.json": 100, "a.json": 50, "c.json": 0, "tmpfs": 1}, ["/mnt/a"]),
        # What costs nothing; among those, what saves more.
        ({"a.json": 0, "b.json": 1}, ["/mnt/a"]),
        ({"a.json": 0, "b.json": 0}, ["/mnt/b"]),
        ({}, []),
    ],
)
def test_the_best_value_saves_most_for_its_price_and_is_never_slower(costs, best):
    result = priced(WORDS, FOUR, costs)
    assert [choice.cost for choice in result] == [costs.get(word) for word in WORDS]
    assert [choice.target for choice in result if choice.best_value] == best


def test_a_price_for_an_unknown_target_is_refused_with_the_names():
    with pytest.raises(TargetUnknown, match="nvme=1: there is no --to nvme") as error:
        parse_costs(["nvme=1"], WORDS)
    assert "a.json, tmpfs, b.json, c.json" in error.value.hint


def test_a_name_may_hold_an_equals_sign():
    words = ["catalogue:aws-gp3?iops=6000", "/mnt/nvme"]
    costs = parse_costs([f"{words[0]}=96.5", f"{words[1]}=0"], words)
    assert costs == {words[0]: 96.5, words[1]: 0.0}


@cases("text", ["nvme", "nvme=", "=5", "nvme=-1", "nvme=cheap", "nvme=inf"])
def test_invalid_prices_are_named(text):
    with pytest.raises(OptionInvalid, match=f"--cost {text}: not a price"):
        parse_costs([text], ["nvme"])


@cases(("io_s", "expected"), [(16.0, {"fast"}), (1.0, set()), (0.2, set())])
def test_a_target_is_recommended_only_where_storage_is_the_problem(io_s, expected):
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


BUSY = Caveat("run-queue", "a busy machine")

WISH = Caveat("not-measured", "nothing was measured")


@pytest.fixture(scope="module")
def text():
    matches = [
        forecast("wish", 36.0, BUSY, WISH),
        forecast("disk", 150.0, BUSY),
        forecast("tmpfs", None, refused="it would swap"),
        forecast("nvme", 28.0, BUSY, advice=["mount it"]),
    ]
    return forecast_page(priced("abcd", matches, {"b": 10, "d": 20})).text(120).splitlines()


def row(text, target):
    return next(line for line in text if line.strip().startswith(target)).split()


def test_the_fastest_target_is_first_with_its_share_of_the_possible_saving(text):
    targets = [line.split()[0] for line in text[5:11]]
    assert targets == ["zero-latency", "nvme", "wish", "today", "disk", "tmpfs"]
    best = [
        "nvme",
        *["28", "s", "27", "s", "to", "29", "s"],
        "3.57x",
        "20",
        "best",
        "value",
    ]
    assert row(text, "nvme") == best


def test_the_verdict_names_the_best_value_first():
    """Of 100 s, storage without latency leaves 20 s."""
    matches = [forecast("dear", 28.0), forecast("cheap", 36.0)]
    page = forecast_page(priced("ab", matches, {"a": 200, "b": 20})).text(120)
    assert " ".join(page.split()).startswith(
        "Temp I/O is 100 % of this query: storage is the problem. Best value: cheap at 20, 36 s "
        "(35 s to 37 s) instead of 1 min 40 s; then dear at 200, 28 s (27 s to 29 s). "
    )


def test_memory_that_may_be_in_use_ranks_behind_more_certain_fixes():
    """``disk`` has the best estimate, but may take longer than today."""
    enough = WorkMemorySetting(1 << 30, 15.0, (8.0, 20.0))
    memory = WorkMemoryEffect(enough=enough, most_bytes=1 << 30, available_bytes=1 << 29)
    disk = replace(forecast("disk", 5.0, work_memory=memory), interval_s=(1.0, 200.0))
    answer = verdict([disk, replace(forecast("nvme", 9.0), work_memory=memory)])
    assert [fix.target for fix in answer.fixes] == ["nvme", "work_mem 1GB"]


@cases(("confidence", "level"), [(0.9, "90"), (0.999, "99.9"), (0.905, "90.5")])
def test_the_shown_confidence_is_never_rounded_up(confidence, level):
    result = replace(forecast("nvme", 28.0), confidence=confidence)
    assert f", {level} % interval " in result.sentence()
    assert f" {level} % interval " in forecast_page([result]).text(120)


def test_a_warning_is_one_line_with_the_names_of_its_targets(text):
    assert "  warning: the machine was busy (run-queue)" in text
    assert "  warning: not measured: published or assumed latency (not-measured): wish" in text


def test_two_warnings_of_the_same_code_name_their_target():
    hints = [Caveat("not-used", f"not used: {hint}") for hint in ("--progress", "--history")]
    page = forecast_page([forecast("disk", 90.0, *hints), forecast("nvme", 28.0)])
    (line,) = (line for line in page.text(120).splitlines() if "(not-used)" in line)
    assert line.endswith("(not-used): disk")


def test_slower_and_refused_targets_are_marked(text):
    assert row(text, "disk")[-2:] == ["0.67x", "10"]
    assert row(text, "tmpfs")[-2:] == ["no", "number"]
    assert "  no number for tmpfs: it would swap" in text


def test_details_show_each_warning_with_its_next_step():
    matches = [
        forecast("wish", 36.0, BUSY, WISH),
        forecast("nvme", 28.0, BUSY, advice=["mount it"]),
    ]
    text = forecast_page(matches, in_full=True).text(120)
    assert "  warning: a busy machine (run-queue)\n    next: Record it again" in text
    assert text.count("a busy machine") == 1
    assert "  warning: nothing was measured (not-measured)" in text
    assert "  to do: nvme: mount it" in text


def test_an_unknown_io_time_has_a_next_step_with_and_without_details():
    unknown = Caveat("time-unknown", "how long temp I/O took is not known")
    step = " ".join(explanations()["time-unknown"].next_step.split()[:6])
    for in_full in (False, True):
        page = forecast_page([forecast("nvme", 28.0, unknown)], in_full=in_full)
        assert step in " ".join(page.text(120).split())


@cases(("high_s", "best"), [(120.0, False), (90.0, True)])
def test_bounds_are_the_best_value_only_if_the_upper_one_saves(high_s, best):
    unknown = Caveat("time-unknown", "how long temp I/O took is not known")
    answer = replace(forecast("/mnt/a", 60.0, unknown), interval_s=(10.0, high_s))
    [result] = priced(["a.json"], [answer], {"a.json": 5})
    assert result.best_value is best


def test_the_middle_of_bounds_is_shown_nowhere():
    """Bounds of the time of temp I/O, less than a factor of two apart."""
    unknown = Caveat("time-unknown", "how long temp I/O took is not known")
    answer = replace(forecast("nvme", 28.0, unknown), interval_s=(20.0, 37.0))
    texts = [str(answer), repr(answer), forecast_page([answer], in_full=True).text(120)]
    for text in texts:
        assert format_interval((20.0, 37.0)) in text
        assert format_duration(28.0) not in text


def test_bounds_that_are_far_apart_do_not_make_a_target_the_fastest_or_rule_it_out():
    wide = replace(forecast("cached", 300.0), interval_s=(60.0, 900.0))
    text = verdict([forecast("disk", 110.0), wide]).text
    assert "certainly faster" in text
    assert "fastest is disk" in text


def test_work_memory_is_in_the_order_of_bounds_where_only_these_are_known():
    unknown = Caveat("time-unknown", "how long temp I/O took is not known")
    enough = WorkMemorySetting(1 << 30, 50.0, (1.0, 100.0))
    memory = WorkMemoryEffect(enough=enough, most_bytes=1 << 30, available_bytes=1 << 29)
    disk = replace(forecast("disk", 40.0, unknown, work_memory=memory), interval_s=(2.0, 90.0))
    names = [cells[0] for cells in targets_table([disk]).rows]
    assert names.index("work_mem 1GB") < names.index("disk")
