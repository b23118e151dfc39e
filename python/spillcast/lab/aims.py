"""What forecasts are to reach, each aim beside the figure that cases give."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillcast.lab.case import Case
from spillcast.lab.summary import of_evidence, summarise

MEDIAN, P90 = "median error", "90th percentile of the error"


@dataclass(frozen=True)
class Aim:
    """One figure, the bounds it is to keep, and what it came to."""

    of: str
    what: str
    figure: float | None
    least: float | None
    most: float | None
    #: ``share``, ``times``, ``points`` (of a hundred) or ``s``.
    unit: str
    cases: int

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
    one, two, four = ([case for case in whole if case.threads == n] for n in (1, 2, 4))
    slow = [case for case in one if case.direction.endswith("slow")]
    falling = [case for case in one if case.direction == "slow to fast"]
    seen = summarise(whole)
    return [
        *_errors("one thread, to slow storage (0.1 ms or more)", slow, 0.04, 0.10),
        *_errors("one thread, slow to fast", falling, 0.06),
        *_errors("two threads or processes", two, 0.06, 0.18),
        *_errors("four threads or processes", four, 0.10),
        Aim("all", "intervals that hold", seen.coverage, 0.85, 0.95, "share", len(whole)),
        Aim("all", "median half-width", seen.half_width, None, 0.12, "share", len(whole)),
        Aim(
            "all", "median error of the seed's formula", seen.ratio, 3.0, None, "times", len(whole)
        ),
        _slices(cases),
        _time(of_evidence(cases, "slices")),
    ]


def _errors(of: str, cases: Sequence[Case], median: float, p90: float | None = None) -> list[Aim]:
    found = summarise(cases)
    asked = [Aim(of, MEDIAN, found.median, None, median, "share", len(cases))]
    if p90 is not None:
        asked.append(Aim(of, P90, found.p90, None, p90, "share", len(cases)))
    return asked


def _slices(cases: Sequence[Case]) -> Aim:
    """Against whole recordings, between the same storages of the same queries."""
    by_slices = {_where(case): case for case in of_evidence(cases, "slices")}
    by_whole = [case for case in of_evidence(cases) if _where(case) in by_slices]
    sliced, whole = summarise(list(by_slices.values())).median, summarise(by_whole).median
    more = None if sliced is None or whole is None else 100 * (sliced - whole)
    what = "median error above that of whole recordings"
    return Aim("ten slices of 0.3 s", what, more, None, 3.0, "points", len(by_slices))


def _time(cases: Sequence[Case]) -> Aim:
    taken = [case.evidence.covers_s + case.evidence.probe_s for case in cases]
    what = "longest time of recording and probe"
    return Aim("ten slices of 0.3 s", what, max(taken, default=None), None, 60.0, "s", len(taken))


def _where(case: Case) -> tuple[object, ...]:
    return case.engine, case.workload, case.threads, case.source, case.target
