"""The outcome of verified forecasts: against single runs, intervals and the ceiling."""

import re
from dataclasses import replace
from statistics import median

from spillcast.lab.case import DIRECTIONS, Case, Runs

#: The direction of a move to faster storage.
FALLING = DIRECTIONS[0]
#: Titles of the public suites by the first word of their queries' names.
SUITES = {"tpch": "TPC-H", "tpcds": "TPC-DS"}


def is_public(case: Case) -> bool:
    """Whether its query is one of a public suite."""
    return case.workload.split()[0] in SUITES


def engine_name(case: Case) -> str:
    """The engine without its version."""
    return re.split(r" (?=\d)", case.engine, maxsplit=1)[0]


def with_variant(case: Case, name: str) -> Case | None:
    """The case with the variant of this name as its forecast; None without that variant."""
    if (variant := case.variants.get(name)) is None:
        return None
    made, refused = case.forecast, None
    if variant.forecast_s is None:
        refused = made.refused or "refused"
    answer = replace(
        made, **vars(variant), refused=refused, terms=(), warnings=(), uncertainty=None
    )
    return replace(case, forecast=answer, variants={})


def is_covered(case: Case) -> bool:
    """Whether the interval contains the measured time."""
    return case.forecast.holds(case.measured_to_s)


def runs_covered(case: Case) -> list[bool]:
    """Whether the interval contains each run on the target; empty if refused."""
    if case.forecast.interval_s is None:
        return []
    return list(map(case.forecast.holds, case.on_target.elapsed_s))


def is_below_ceiling(case: Case) -> bool | None:
    """Whether the measured time is below the forecast for zero-latency storage.

    The lower end of its interval counts, if it has one. None if the forecast was refused.
    """
    forecast = case.forecast
    if forecast.forecast_s is None:
        return None
    return case.measured_to_s < (forecast.ceiling_interval_s or [forecast.ceiling_s])[0]


def deviations(runs: Runs) -> list[float]:
    """The relative deviation of each run that counts from the median of the others."""
    times_s = runs.counted_s
    others_s = [times_s[:at] + times_s[at + 1 :] for at in range(len(times_s))]
    return [
        abs(run_s / median(rest_s) - 1)
        for run_s, rest_s in zip(times_s, others_s, strict=True)
        if rest_s
    ]


def delay_share(runs: Runs) -> float:
    """The least share of a run in which it was runnable but not scheduled."""
    return min(ran.run_queue_delay_s / ran.elapsed_s for ran in runs.made)
