"""The tables of docs/accuracy.md: by direction, by what each estimate brings, and the noise."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from spillcast.lab.case import DIRECTIONS, TPCH, Case
from spillcast.lab.summary import (
    grouped,
    recording_cost,
    rehearsed,
    repeated,
    summarise,
    without_estimate,
)
from spillcast.lab.variant import LEFT_OUT, REHEARSED, without
from spillcast.report.table import markdown_table, paragraph
from spillcast.report.verify import by_way, engine_of, percent, share, summary_row, threads_of
from spillcast.units import format_count
from spillcast_lab.aims import FALLING

FIGURES = ("cases", "median", "90th", "held", "width", "below", "repeat", "formula", "ratio")
MEANS = {
    "fuse": "a FUSE file system",
    "preload": "a library that delays the engine's calls",
    "kernel": "the kernel",
    "none": "nothing",
}


def figures(name: str, cases: Sequence[Case]) -> list[str]:
    """One row a group, under FIGURES."""
    summary = summarise(cases)
    row = summary_row(name, summary)
    return [*row[:6], share(summary.below_ceiling, 0), share(summary.run_apart), *row[6:]]


def figures_table(of: str, groups: Mapping[str, Sequence[Case]]) -> str:
    """A table of groups."""
    return markdown_table((of, *FIGURES), [figures(name, its) for name, its in groups.items()])


def headline(cases: Sequence[Case]) -> str:
    """How far forecasts from slow storage to fast were off, in a sentence or two."""
    falling = [case for case in cases if case.direction == FALLING]
    its = [case for case in falling if case.suite == TPCH] or falling
    if not its:
        return "No forecast from slow storage to fast was verified."
    sentences, seeds = list[str](), list[str]()
    for engine, group in grouped(its, lambda case: case.engine_kind).items():
        summary = summarise(group)
        refused = f", {summary.refused} refused" if summary.refused else ""
        forecasts = format_count(summary.cases, "forecast")
        sentences.append(
            f"{engine} median error {share(summary.median)}, 90th percentile {share(summary.p90)} "
            f"({forecasts}{refused}; {share(summary.coverage, 0)} of the intervals hold)"
        )
        seeds.append(share(summary.seed_median))
    which = f"queries of {TPCH}" if its is not falling else "queries other than TPC-H's"
    apart = summarise(its).run_apart
    noise = (
        "" if apart is None else f" A repeated run there differs by {share(apart)} in the median."
    )
    return paragraph(
        f"From slow storage to fast, on {which}: {'; '.join(sentences)}. The blog post's formula: "
        f"median error {' and '.join(seeds)}.{noise}"
    )


def slow_to_fast(cases: Sequence[Case]) -> str:
    """By suite, engine and threads, and rehearsed."""
    groups: dict[str, list[Case]] = {}
    falling = [case for case in cases if case.direction == FALLING]
    for (suite, engine), its in _by_suite(falling).items():
        of = f"{suite}, {engine}"
        groups[of] = its
        groups |= {f"{of}, {name}": some for name, some in grouped(its, threads_of).items()}
        if few := rehearsed(its):
            groups[f"{of}, rehearsed"] = few
    return figures_table("slow to fast", groups)


def _by_suite(cases: Sequence[Case]) -> dict[tuple[str, str], list[Case]]:
    """TPC-H first, for it is what nobody tuned on."""
    suites: dict[tuple[str, str], list[Case]] = {}
    for case in sorted(cases, key=lambda case: (case.suite != TPCH, case.engine_kind)):
        suites.setdefault((case.suite, case.engine_kind), []).append(case)
    return suites


def by_direction(cases: Sequence[Case]) -> str:
    """By direction, engine and threads."""
    groups: dict[str, Sequence[Case]] = {}
    for way, its in by_way(cases).items():
        groups[way] = its
        for engine, some in grouped(its, lambda case: case.engine_kind).items():
            groups[f"{way}, {engine}"] = some
            for threads, few in grouped(some, threads_of).items():
                groups[f"{way}, {engine}, {threads}"] = few
    return figures_table("direction", groups)


def by_means(cases: Sequence[Case]) -> str:
    """By what makes the slow storage slow, as far as that is known."""
    known = [case for case in cases if case.source_means and case.target_means]
    if not known:
        return "The file of these cases does not contain what made storage slow."
    groups = grouped(known, lambda case: f"{case.direction}, {_means(case)}")
    ordered = sorted(groups.items(), key=lambda group: DIRECTIONS.index(group[1][0].direction))
    return figures_table("slowed by", dict(ordered))


def _means(case: Case) -> str:
    """Of its slow ends."""
    ends = zip(case.direction.split(" to "), (case.source_means, case.target_means), strict=True)
    means = [MEANS.get(str(means), str(means)) for speed, means in ends if speed == "slow"]
    return " to ".join(dict.fromkeys(means)) or MEANS["none"]


ESTIMATES_HEADER = ("of", "forecast", "differ", *FIGURES[:6])


def estimates(cases: Sequence[Case]) -> str:
    """The matrix without each estimate, and with a rehearsal beside the same without one."""
    if not any(case.variants for case in cases):
        return "The file of these cases contains no forecasts without an estimate."
    rows = []
    for of, its in _falling_or_not(cases).items():
        rows.append([of, "today", "", *figures("", its)[1:7]])
        for name, words in LEFT_OUT.items():
            differ = sum(without(name) in case.variants for case in its)
            if differ:
                figured = figures("", without_estimate(its, name))[1:7]
                rows.append([of, f"without {words}", f"{differ}", *figured])
        if few := rehearsed(its):
            same = [case for case in its if REHEARSED in case.variants]
            rows.append([of, "rehearsed", f"{len(few)}", *figures("", few)[1:7]])
            rows.append([of, "the same, not rehearsed", "", *figures("", same)[1:7]])
    return markdown_table(ESTIMATES_HEADER, rows)


def _falling_or_not(cases: Sequence[Case]) -> dict[str, list[Case]]:
    def of(case: Case) -> str:
        way = FALLING if case.direction == FALLING else "other directions"
        return f"{way}, {case.engine_kind}"

    ways = grouped(cases, of)
    return dict(sorted(ways.items(), key=lambda group: not group[0].startswith(FALLING)))


def noise(cases: Sequence[Case]) -> str:
    """What a repeated run differs by, and what recording costs, by engine and threads."""
    groups = grouped(cases, lambda case: f"{engine_of(case)}, {threads_of(case)}")
    rows = []
    for name, members in (*groups.items(), ("all", cases)):
        apart = repeated(members)
        # A recording is the baseline of several cases.
        recorded = {
            (case.engine, case.workload, case.threads, case.source): case for case in members
        }
        longer = [recording_cost(case) for case in recorded.values()]
        rows.append(
            [
                name,
                f"{len(apart)}",
                *_median_and_p90(apart),
                f"{len(longer)}",
                percent(median(longer)),
                *_median_and_p90([abs(each) for each in longer]),
            ]
        )
    header = ("", "runs", "difference, median", "90th", "recordings", "longer by, median",
              "difference, median", "90th")  # fmt: skip
    return markdown_table(header, rows)


def _median_and_p90(values: Sequence[float]) -> tuple[str, str]:
    if not values:
        return "-", "-"
    return share(median(values)), share(float(np.quantile(values, 0.9)))
