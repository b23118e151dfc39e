"""What forecasts are to reach, each aim beside the figure that cases give."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillcast.lab.case import DIRECTIONS, TPCH, Case
from spillcast.lab.summary import Summary, of_evidence, rehearsed, summarise

MEDIAN, P90 = "median error", "90th percentile of the error"
HELD, WIDTH = "intervals that hold", "median half-width"
SEED, BELOW = "median error of the blog post's formula", "measured below the ceiling"
FALLING = DIRECTIONS[0]
HELD_LEAST, HELD_MOST = 0.85, 0.95
REFUSED, REFUSED_MOST = "share refused", 0.15
#: Parts of runs whose whole time is not told: evidence, in words, and the most of the median error,
#: of the 90th percentile and of the half-width.
_PARTS = (
    ("minute", "a minute, or a tenth", 0.12, 0.30, 0.30),
    ("minute_former", "the same, with a previous run", 0.07, 0.18, 0.30),
    ("first_fifth_alone", "first fifth, elapsed time unknown", 0.15, None, None),
)
#: Nobody attaches for less: parts as long as this have aims of their own.
ATTACHED_S = 1.0


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
    engines, summary = sorted({case.engine_kind for case in whole}), summarise(whole)
    return [
        *(aim for engine in engines for aim in _falling(engine, whole)),
        *(aim for engine in engines for aim in _other_ways(engine, whole)),
        _aim("all", WIDTH, summary.half_width, summary, most=0.12),
        _below("all", summary),
        _slices(cases),
        _time(of_evidence(cases, "slices")),
        *(
            aim
            for name, of, *bounds in _PARTS
            for aim in _parts(of, of_evidence(cases, name), bounds)
        ),
    ]


def _falling(engine: str, whole: Sequence[Case]) -> list[Aim]:
    """Of one engine's queries of TPC-H, from slow storage to fast."""
    its = [
        case
        for case in whole
        if case.engine_kind == engine and case.direction == FALLING and case.suite == TPCH
    ]
    of = f"{engine}, {FALLING}, {TPCH}"
    single_thread, two = ([case for case in its if case.threads == threads] for threads in (1, 2))
    few = rehearsed([*single_thread, *two])
    summary = summarise(its)
    return [
        *_errors(f"{of}, 1 thread", single_thread, 0.08, 0.20),
        *_errors(f"{of}, 2 threads", two, 0.10, 0.25),
        *_errors(f"{of}, rehearsed", few, 0.05, 0.12),
        *_intervals(of, its, 0.20),
        *_intervals(f"{of}, rehearsed", few, 0.10),
        _beside_seed(of, summary),
        _below(of, summary),
    ]


def _other_ways(engine: str, whole: Sequence[Case]) -> list[Aim]:
    its = [case for case in whole if case.engine_kind == engine and case.direction != FALLING]
    of = f"{engine}, other directions"
    return [*_errors(of, its, 0.05, 0.12), _beside_seed(of, summarise(its))]


def _parts(of: str, cases: Sequence[Case], bounds: Sequence[float | None]) -> list[Aim]:
    """Of all parts, and of those that are as long as somebody attaches for."""
    long = [case for case in cases if case.evidence.covers_s >= ATTACHED_S]
    of_long = f"{of}, of {ATTACHED_S:.0f} s or more"
    return [*_part(of, cases, bounds), *(_part(of_long, long, bounds) if long else [])]


def _part(of: str, cases: Sequence[Case], bounds: Sequence[float | None]) -> list[Aim]:
    summary, (middle, p90, width) = summarise(cases), bounds
    refused = summary.refused / summary.cases if summary.cases else None
    part_aims = [
        _aim(of, REFUSED, refused, summary, most=REFUSED_MOST),
        _aim(of, MEDIAN, summary.median, summary, most=middle),
    ]
    if p90 is None:
        return part_aims
    return [
        *part_aims,
        _aim(of, P90, summary.p90, summary, most=p90),
        _aim(of, HELD, summary.coverage, summary, least=HELD_LEAST, most=HELD_MOST),
        _aim(of, WIDTH, summary.half_width, summary, most=width),
    ]


def _aim(
    of: str,
    criterion: str,
    figure: float | None,
    summary: Summary,
    *,
    least: float | None = None,
    most: float | None = None,
    unit: str = "share",
) -> Aim:
    return Aim(of, criterion, figure, least, most, unit, summary.cases, summary.refused)


def _errors(of: str, cases: Sequence[Case], median: float, p90: float) -> list[Aim]:
    summary = summarise(cases)
    return [
        _aim(of, MEDIAN, summary.median, summary, most=median),
        _aim(of, P90, summary.p90, summary, most=p90),
    ]


def _intervals(of: str, cases: Sequence[Case], width: float) -> list[Aim]:
    summary = summarise(cases)
    return [
        _aim(of, HELD, summary.coverage, summary, least=HELD_LEAST, most=HELD_MOST),
        _aim(of, WIDTH, summary.half_width, summary, most=width),
    ]


def _beside_seed(of: str, summary: Summary) -> Aim:
    return _aim(of, SEED, summary.ratio, summary, least=1.0, unit="times")


def _below(of: str, summary: Summary) -> Aim:
    return _aim(of, BELOW, summary.below_ceiling, summary, most=0.05)


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
