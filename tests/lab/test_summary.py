"""The arithmetic of a report, on synthetic cases with figures computed by hand."""

from dataclasses import replace

import pytest

from made_up import case, otherwise, runs
from spillcast_lab.accuracy_figures import aims
from spillcast_lab.outcome import (
    delay_share,
    deviations,
    is_below_ceiling,
    runs_covered,
)
from spillcast_lab.summary import (
    forecast_with,
    of_evidence,
    recording_cost,
    refusals,
    repeated,
    summarise,
    without_estimate,
    worst,
)


def test_errors_are_absolute_and_relative_to_the_measured_time():
    result = summarise([case(9.0), case(10.4), case(12.0), case(10.1), case(10.2)])
    # 10, 4, 20, 1, 2 %: sorted 1 2 4 10 20, where the 90 % quantile is 0.6 of the way from 10 to
    # 20.
    assert result.median == pytest.approx(0.04)
    assert result.p90 == pytest.approx(0.16)
    assert result.worst == pytest.approx(0.20)


def test_coverage_and_width_of_intervals():
    result = summarise([case(10.0, 10.9), case(10.0, 11.1), case(10.0, 8.9), case(10.0, 9.1)])
    assert result.coverage == 0.5
    assert result.half_width == pytest.approx(0.1)
    lopsided = case(10.0, interval_s=(9.9, 13.9))
    assert lopsided.forecast.half_width == pytest.approx(0.2)


def test_a_refusal_is_counted_and_has_no_error():
    cases = [case(11.0), case(refused="reports were lost")]
    result = summarise(cases)
    assert (result.cases, result.refused, result.coverage) == (2, 1, 1.0)
    assert result.median == pytest.approx(0.1)
    assert refusals(cases) == {"reports were lost": cases[1:]}
    assert worst(cases) == cases[:1]


def test_reasons_that_differ_only_in_figures_are_merged():
    cases = [case(refused=f"between {low} ms and 1.70 s") for low in (137, 243.5)]
    cases.append(case(refused="nothing to replay"))
    assert refusals(cases) == {
        "between 137 ms and 1.70 s": cases[:2],
        "nothing to replay": cases[2:],
    }


def test_the_seed_is_compared_on_the_cases_that_both_answer():
    cases = [
        case(10.5, seed_s=13.0),
        case(9.5, seed_s=7.0),
        case(90.0, seed_s=None),
        case(refused="no", seed_s=500.0),
    ]
    result = summarise(cases)
    assert result.seed_median == pytest.approx(0.3)
    assert result.ratio == pytest.approx(6.0)


def test_a_summary_without_cases_has_no_figures():
    assert set(vars(summarise([])).values()) == {0, None}


def test_the_least_delayed_of_extra_runs_count():
    target = runs(10.0, 30.0, 11.0, 12.0, delays_s=[0.0, 9.0, 0.1, 0.2], wanted=3)
    assert case(on_target=target).measured_to_s == 11.0
    assert delay_share(target) == 0.0


def test_single_runs_are_covered_separately():
    target = runs(10.0, 10.5, 12.0, 9.5)
    assert runs_covered(case(10.0, half_width=0.1, on_target=target)) == [True, True, False, True]
    assert runs_covered(case(refused="too little")) == []


def test_the_extra_runs_with_the_least_cpu_time_count():
    target = runs(10.0, 14.0, 10.4, 13.0, cpu_s=[2.0, 6.0, 2.4, 5.0], wanted=2)
    assert case(on_target=target).measured_to_s == pytest.approx(10.2)


def test_the_largest_error_of_either_sign_comes_first():
    cases = [case(11.0), case(5.0), case(13.0)]
    assert worst(cases, 2) == [cases[1], cases[2]]


def met(result):
    return {(aim.of, aim.criterion): (aim.figure, aim.met) for aim in result}


def test_aims_are_judged_by_their_own_cases():
    q13 = dict(workload="tpch Q13", engine="PostgreSQL 15.14")
    cases = [
        case(10.5, seed_s=12.0, variants={"rehearsed": otherwise(10.6)}, **q13),
        case(13.0, seed_s=12.0, threads=2, **q13),
        case(refused="reports were lost", threads=2, **q13),
        case(19.0, threads=4, **q13),
        case(10.2, direction="fast to slow", target="1 ms", **q13),
        case(99.0, workload="sort", engine="PostgreSQL 15.14"),
        case(99.0, workload="tpch Q13"),
        case(99.0, evidence="first_fifth", **q13),
    ]
    result = met(aims(cases))
    of = "PostgreSQL, slow to fast, TPC-H and TPC-DS"
    assert result[f"{of}, 1 thread", "median error"] == (pytest.approx(0.05), True)
    assert result[f"{of}, 2 threads", "median error"] == (pytest.approx(0.30), False)
    assert result[f"{of}, rehearsed", "median error"] == (pytest.approx(0.06), False)
    # The seed has an error of 20 % twice; the errors of these forecasts are 5 and 30 %.
    seed = "median error of the blog post's formula"
    assert result[of, seed] == (pytest.approx(0.2 / 0.175), True)
    other = "PostgreSQL, other directions"
    assert result[other, "median error"] == (pytest.approx(0.02), True)
    assert result["DuckDB, slow to fast, TPC-H and TPC-DS, 1 thread", "median error"][
        0
    ] == pytest.approx(8.9)
    counted = next(aim for aim in aims(cases) if aim.of == f"{of}, 2 threads")
    assert (counted.cases, counted.refused) == (2, 1)


def test_errors_of_one_sign_miss_the_aim_even_if_small():
    q1 = dict(workload="tpcds Q67")
    of = "DuckDB, slow to fast, TPC-H and TPC-DS"
    signs, bias = (of, "p-value of the errors' signs"), (of, "median signed error")
    # Heads in six of six throws: 2 in 64. Half of each sign is the most likely result.
    longer = met(aims([case(10.1, **q1)] * 6))
    assert longer[signs] == (pytest.approx(2 / 64), False)
    assert longer[bias] == (pytest.approx(0.01), True)
    assert met(aims([case(10.1, **q1), case(9.9, **q1)] * 3))[signs] == (1.0, True)
    assert met(aims([case(10.5, **q1), case(10.4, **q1)]))[bias][1] is False


def test_the_aim_compares_with_the_seed_in_every_direction():
    q1 = dict(workload="tpch Q1", direction="fast to slow")
    seed = "DuckDB, other directions", "median error of the blog post's formula"
    assert met(aims([case(11.0, seed_s=12.0, **q1)]))[seed][1]
    assert not met(aims([case(12.0, seed_s=11.0, **q1)]))[seed][1]


def test_slices_are_compared_with_whole_recordings_of_the_same_query():
    cases = [
        case(10.3),
        case(10.4, evidence="slices", covers_s=3.0, probe_s=1.5),
        case(17.0, workload="window"),
    ]
    result, slices = met(aims(cases)), "ten slices of 0.3 s"
    figure, kept = result[slices, "median error above that of whole recordings"]
    assert (figure, kept) == (pytest.approx(1.0), True)
    assert result[slices, "longest time of recording and probe"] == (4.5, True)


def test_intervals_that_cover_too_often_miss_the_aim():
    cases = [case(workload="tpch Q1")] * 20
    held = next(aim for aim in aims(cases) if aim.criterion == "intervals that hold")
    assert (held.figure, held.met) == (1.0, False)


def test_a_run_is_below_the_ceiling_if_it_is_below_its_lower_end():
    """Synthetic ceilings are 4 s."""
    ends = dict(ceiling_interval_s=(3.0, 5.0))
    assert [is_below_ceiling(case(4.0, measured_s, **ends)) for measured_s in (2.9, 3.1)] == [
        True,
        False,
    ]
    assert is_below_ceiling(case(4.0, 3.9))
    cases = [case(4.0, 2.9, **ends), *[case(4.0, 3.1, **ends)] * 3, case(refused="no", **ends)]
    assert summarise(cases).below_ceiling == 0.25
    assert met(aims(cases))["all", "measured below the ceiling"] == (0.25, False)


def test_repeated_runs_are_compared_with_the_median_of_the_others():
    """10 against 11.5, 11 against 11, 12 against 10.5; the disturbed run does not count."""
    target = runs(10.0, 11.0, 12.0, 50.0, delays_s=[0.0, 0.0, 0.0, 30.0], wanted=3)
    assert deviations(target) == pytest.approx([1.5 / 11.5, 0.0, 1.5 / 10.5])
    # Two cases with the same target share the runs there.
    cases = [case(on_target=target), case(on_target=target, source="5 ms")]
    assert len(repeated(cases)) == 3
    assert summarise(cases).run_difference == pytest.approx(1.5 / 11.5)
    assert deviations(runs(10.0)) == []


def test_the_value_of_an_estimate_is_the_error_without_it():
    """A case that is equal without the estimate stays in the figures."""
    cases = [
        case(10.2, variants={"without machine": otherwise(14.0)}),
        case(10.2),
        case(10.4, variants={"without machine": otherwise(None)}),
    ]
    result = summarise(without_estimate(cases, "machine"))
    assert (result.cases, result.refused) == (3, 1)
    assert result.median == pytest.approx(0.21)
    assert summarise(cases).median == pytest.approx(0.02)
    assert without_estimate(cases, "cost") == cases


def test_only_rehearsed_cases_have_the_variant():
    cases = [
        case(13.0, variants={"rehearsed": otherwise(10.4, half_width=0.05)}),
        case(13.0),
    ]
    [item] = forecast_with(cases, "rehearsed")
    assert item.error == pytest.approx(0.04)
    assert item.forecast.half_width == pytest.approx(0.05)


def test_the_cost_of_recording_follows_from_bare_runs():
    """Synthetic cases were recorded in 20 s; the bare runs take 16 s."""
    assert recording_cost(replace(case(), on_source=runs(16.0, 16.0, 20.0))) == pytest.approx(0.25)


def test_cases_are_selected_by_evidence():
    cases = [case(), case(evidence="slices"), case(evidence="plan")]
    assert of_evidence(cases) == cases[:1]
    assert of_evidence(cases, "plan") == cases[2:]
