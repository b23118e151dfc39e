"""What forecasts are to reach, each aim beside the figure that cases give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

import numpy as np

from spillcast.lab.case import DIRECTIONS, FALLING, SUITES, Case
from spillcast.report.checks import percent, share
from spillcast.tabular import markdown_table, paragraph
from spillcast.units import format_count
from spillcast_lab.summary import (
    Summary,
    forecast_with,
    grouped,
    of_evidence,
    recording_cost,
    repeated,
    summarise,
    without_estimate,
)
from spillcast_lab.variants import ADDED, LEFT_OUT, REHEARSED, without
from spillcast_lab.verify_page import (
    SUMMARY_HEADER,
    by_way,
    by_way_and_threads,
    summary_row,
    threads_of,
)

MEDIAN, P90 = "median error", "90th percentile of the error"
HELD, WIDTH = "intervals that hold", "median half-width"
SEED, BELOW = "median error of the blog post's formula", "measured below the ceiling"
BIAS, SIGNS = "median signed error", "p-value of the errors' signs"
REFUSED = "share refused"
#: What each criterion is taken from.
_OF_SUMMARY: Mapping[str, Callable[[Summary], float | None]] = {
    MEDIAN: attrgetter("median"),
    P90: attrgetter("p90"),
    HELD: attrgetter("coverage"),
    WIDTH: attrgetter("half_width"),
    SEED: attrgetter("ratio"),
    BELOW: attrgetter("below_ceiling"),
    BIAS: attrgetter("bias"),
    SIGNS: attrgetter("sign_test"),
    REFUSED: lambda summary: summary.refused / summary.cases if summary.cases else None,
}
#: The least and the most of a criterion; None where there is no bound.
Bounds = tuple[float | None, float | None]
#: Errors of one sign are a cause that the forecast leaves out, however small they are.
_NO_BIAS: dict[str, Bounds] = {BIAS: (-0.03, 0.03), SIGNS: (0.05, None)}
_BESIDE_SEED: dict[str, Bounds] = {SEED: (1.0, None)}
_BELOW: dict[str, Bounds] = {BELOW: (None, 0.05)}
#: The suites that the public has.
PUBLIC = " and ".join(SUITES.values())
#: Nobody attaches for less: parts as long as this have aims of their own.
ATTACHED_S = 1.0


def _errors(middle: float, p90: float) -> dict[str, Bounds]:
    return {MEDIAN: (None, middle), P90: (None, p90)}


def _intervals(width: float) -> dict[str, Bounds]:
    return {HELD: (0.85, 0.95), WIDTH: (None, width)}


_FEW_REFUSED: dict[str, Bounds] = {REFUSED: (None, 0.15)}
#: Parts of runs whose whole time is not told: evidence, in words, and what is to be kept.
_PARTS: tuple[tuple[str, str, dict[str, Bounds]], ...] = (
    ("minute", "a minute, or a tenth", _FEW_REFUSED | _errors(0.12, 0.30) | _intervals(0.30)),
    (
        "minute_former",
        "the same, with a previous run",
        _FEW_REFUSED | _errors(0.07, 0.18) | _intervals(0.30),
    ),
    (
        "first_fifth_alone",
        "first fifth, elapsed time unknown",
        _FEW_REFUSED | {MEDIAN: (None, 0.15)},
    ),
)


@dataclass(frozen=True)
class Aim:
    """One figure, the bounds it is to keep, and what was measured."""

    of: str
    criterion: str
    figure: float | None
    least: float | None
    most: float | None
    #: ``share``, ``times``, ``points`` (of a hundred) or ``s``.
    unit: str
    cases: int
    #: Of the cases, those without a number.
    refused: int = 0

    @property
    def met(self) -> bool | None:
        """Whether the figure keeps to its bounds; None where there are no cases."""
        if self.figure is None:
            return None
        above = self.least is None or self.figure >= self.least
        return above and (self.most is None or self.figure <= self.most)


def aims(cases: Sequence[Case]) -> list[Aim]:
    """All of them, from the cases of a verification."""
    whole = of_evidence(cases)
    engines = sorted({case.engine_name for case in whole})
    of_whole = [
        *(aim for engine in engines for aim in _falling(engine, whole)),
        *(aim for engine in engines for aim in _other_ways(engine, whole)),
        *_aims("all", whole, {WIDTH: (None, 0.12), **_BELOW}),
    ]
    if len(whole) == len(cases):
        return of_whole
    return [
        *of_whole,
        _slices(cases),
        _time(of_evidence(cases, "slices")),
        *(
            aim
            for name, of, bounds in _PARTS
            for aim in _parts(of, of_evidence(cases, name), bounds)
        ),
    ]


def _falling(engine: str, whole: Sequence[Case]) -> list[Aim]:
    """Of one engine's queries of TPC-H and TPC-DS, from slow storage to fast."""
    its = [
        case
        for case in whole
        if case.engine_name == engine and case.direction == FALLING and case.is_public
    ]
    of = f"{engine}, {FALLING}, {PUBLIC}"
    by_threads = {n: [case for case in its if case.threads == n] for n in (1, 2, 4)}
    few = forecast_with([*by_threads[1], *by_threads[2]], REHEARSED)
    return [
        *_aims(f"{of}, 1 thread", by_threads[1], _errors(0.06, 0.15)),
        *_aims(f"{of}, 2 threads", by_threads[2], _errors(0.08, 0.20)),
        *_aims(f"{of}, 4 threads", by_threads[4], _errors(0.12, 0.30)),
        *_aims(f"{of}, rehearsed", few, _errors(0.04, 0.10)),
        *_aims(of, its, _NO_BIAS | _intervals(0.12)),
        *_aims(f"{of}, rehearsed", few, _intervals(0.10)),
        *_aims(of, its, _BESIDE_SEED | _BELOW),
    ]


def _other_ways(engine: str, whole: Sequence[Case]) -> list[Aim]:
    its = [case for case in whole if case.engine_name == engine and case.direction != FALLING]
    of = f"{engine}, other directions"
    return _aims(of, its, _errors(0.03, 0.10) | _NO_BIAS | _BESIDE_SEED)


def _parts(of: str, cases: Sequence[Case], bounds: Mapping[str, Bounds]) -> list[Aim]:
    """Of all parts, and of those that are as long as somebody attaches for."""
    long = [case for case in cases if case.evidence.covers_s >= ATTACHED_S]
    of_long = f"{of}, of {ATTACHED_S:.0f} s or more"
    return [*_aims(of, cases, bounds), *(_aims(of_long, long, bounds) if long else [])]


def _aims(of: str, cases: Sequence[Case], bounds: Mapping[str, Bounds]) -> list[Aim]:
    """An aim for each criterion."""
    summary = summarise(cases)
    return [
        Aim(
            of,
            criterion,
            _OF_SUMMARY[criterion](summary),
            least,
            most,
            "times" if criterion == SEED else "share",
            summary.cases,
            summary.refused,
        )
        for criterion, (least, most) in bounds.items()
    ]


def _slices(cases: Sequence[Case]) -> Aim:
    """Against whole recordings, between the same storages of the same queries."""
    by_slices = {_where(case): case for case in of_evidence(cases, "slices")}
    by_whole = [case for case in of_evidence(cases) if _where(case) in by_slices]
    sliced, whole = summarise(list(by_slices.values())).median, summarise(by_whole).median
    more = None if sliced is None or whole is None else 100 * (sliced - whole)
    criterion = "median error above that of whole recordings"
    return Aim("ten slices of 0.3 s", criterion, more, None, 3.0, "points", len(by_slices))


def _time(cases: Sequence[Case]) -> Aim:
    taken = [case.evidence.covers_s + case.evidence.probe_s for case in cases]
    criterion = "longest time of recording and probe"
    return Aim(
        "ten slices of 0.3 s", criterion, max(taken, default=None), None, 60.0, "s", len(taken)
    )


def _where(case: Case) -> tuple[object, ...]:
    return case.engine, case.workload, case.threads, case.source, case.target


FIGURES = (
    "cases",
    "median",
    "90th",
    "bias",
    "signs",
    "held",
    "width",
    "below",
    "repeat",
    "formula",
    "ratio",
)
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
    return [*row[:8], share(summary.below_ceiling, 0), share(summary.run_apart), *row[8:]]


def figures_table(of: str, groups: Mapping[str, Sequence[Case]]) -> str:
    """A table of groups."""
    return markdown_table((of, *FIGURES), [figures(name, its) for name, its in groups.items()])


def headline(cases: Sequence[Case]) -> str:
    """How far forecasts from slow storage to fast were off, in a sentence or two."""
    falling = [case for case in cases if case.direction == FALLING]
    its = [case for case in falling if case.is_public] or falling
    if not its:
        return "No forecast from slow storage to fast was verified."
    sentences, seeds = list[str](), list[str]()
    for engine, group in grouped(its, lambda case: case.engine_name).items():
        summary = summarise(group)
        refused = f", {summary.refused} refused" if summary.refused else ""
        forecasts = format_count(summary.cases, "forecast")
        sentences.append(
            f"{engine} median error {share(summary.median)}, 90th percentile {share(summary.p90)} "
            f"({forecasts}{refused}; {share(summary.coverage, 0)} of the intervals hold)"
        )
        seeds.append(share(summary.seed_median))
    which = f"queries of {PUBLIC}" if its is not falling else "queries of neither TPC-H nor TPC-DS"
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
        if few := forecast_with(its, REHEARSED):
            groups[f"{of}, rehearsed"] = few
    return figures_table("slow to fast", groups)


def _by_suite(cases: Sequence[Case]) -> dict[tuple[str, str], list[Case]]:
    """TPC-H and TPC-DS first: nothing was tuned on them."""
    suites: dict[tuple[str, str], list[Case]] = {}
    for case in sorted(cases, key=lambda case: (not case.is_public, case.suite, case.engine_name)):
        suites.setdefault((case.suite, case.engine_name), []).append(case)
    return suites


def by_direction(cases: Sequence[Case]) -> str:
    """By direction, engine and threads."""
    return figures_table("direction", by_way_and_threads(cases))


def readme_table(cases: Sequence[Case]) -> str:
    """The table of the README: by direction and engine, from slow to fast also by threads."""
    rows = []
    for way, its in by_way(of_evidence(cases)).items():
        for engine, some in grouped(its, lambda case: case.engine_name).items():
            rows.append(summary_row(f"{way}, {engine}", summarise(some))[:-1])
            if way == FALLING:
                rows += [
                    summary_row(f"{way}, {engine}, {threads}", summarise(few))[:-1]
                    for threads, few in grouped(some, threads_of).items()
                ]
    return markdown_table(("forecasts", *SUMMARY_HEADER[1:-1]), rows)


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


ESTIMATES_HEADER = ("of", "forecast", "differ", *FIGURES[:7])


def estimates(cases: Sequence[Case]) -> str:
    """The matrix without each estimate, and with a rehearsal beside the same without one."""
    if not any(case.variants for case in cases):
        return "The file of these cases contains no forecasts without an estimate."
    rows = []
    for of, its in _falling_or_not(cases).items():
        rows.append([of, "today", "", *figures("", its)[1:8]])
        for name, words in LEFT_OUT.items():
            differ = sum(without(name) in case.variants for case in its)
            if differ:
                figured = figures("", without_estimate(its, name))[1:8]
                rows.append([of, f"without {words}", f"{differ}", *figured])
        for name, words in ADDED.items():
            if few := forecast_with(its, name):
                same = [case for case in its if name in case.variants]
                rows.append([of, words, f"{len(few)}", *figures("", few)[1:8]])
                rows.append([of, "the same without that", "", *figures("", same)[1:8]])
    return markdown_table(ESTIMATES_HEADER, rows)


def _falling_or_not(cases: Sequence[Case]) -> dict[str, list[Case]]:
    def of(case: Case) -> str:
        way = FALLING if case.direction == FALLING else "other directions"
        return f"{way}, {case.engine_name}"

    ways = grouped(cases, of)
    return dict(sorted(ways.items(), key=lambda group: not group[0].startswith(FALLING)))


def noise(cases: Sequence[Case]) -> str:
    """What a repeated run differs by, and what recording costs, by engine and threads."""
    groups = grouped(cases, lambda case: f"{case.engine_name}, {threads_of(case)}")
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
