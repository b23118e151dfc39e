"""Equal runs of a query that alternate with other series, until enough are undisturbed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spillcast.engines import LabQuery
from spillcast.engines.queries import RunResult
from spillcast.lab.run import RETRIES, lost_shares, undisturbed

T = TypeVar("T")


@dataclass
class Series(Generic[T]):
    """Equal runs of a query in one place, until ``wanted`` of them are undisturbed."""

    place: str
    wanted: int
    #: Makes the run with this number, from 0.
    attempt: Callable[[int], tuple[RunResult, T]]
    done: list[tuple[RunResult, T]] = field(default_factory=list)

    @property
    def runs(self) -> list[RunResult]:
        """The runs so far, in order."""
        return [ran for ran, _ in self.done]

    def least_disturbed(self, rank: int = 0) -> tuple[RunResult, T]:
        """The run that is least disturbed by other work on the machine, and its result.

        ``rank`` 1 is the second least disturbed, and so on; the last run if there are fewer.
        """
        lost = lost_shares(self.runs)
        ranked = sorted(range(len(lost)), key=lost.__getitem__)
        return self.done[ranked[: rank + 1][-1]]


def take_turns(workload: LabQuery, series: Sequence[Series[Any]]) -> None:
    """Run each series until it has the wanted undisturbed runs, or RETRIES more runs.

    The series alternate, so that a drift of the machine affects all.
    """
    for number in range(max(turn.wanted for turn in series) + RETRIES):
        for turn in series:
            others = [other for other in series if other.place == turn.place and other is not turn]
            beside = [ran for other in others for ran in other.runs]
            enough = undisturbed(turn.runs, workload, beside) >= turn.wanted
            if len(turn.done) < turn.wanted + RETRIES and not enough:
                turn.done.append(turn.attempt(number))
