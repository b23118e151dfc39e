"""Runs by turns, and again where other work on the machine disturbed them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spillcast.engines.held import Ran
from spillcast.engines.workload import Workload

T = TypeVar("T")
#: Share of a run that other work on the machine took, beyond which it counts as disturbed.
BUSY = 0.05
#: How often a run is repeated when other work on the machine disturbed it.
RETRIES = 2


@dataclass
class Series(Generic[T]):
    """Runs of a query in one place and in one way, of which ``wanted`` are to be undisturbed."""

    place: str
    wanted: int
    #: Gets the number of the run from 0.
    attempt: Callable[[int], tuple[Ran, T]]
    done: list[tuple[Ran, T]] = field(default_factory=list)

    @property
    def runs(self) -> list[Ran]:
        """Those that were made, in order."""
        return [ran for ran, _ in self.done]

    def calmest(self, rank: int = 0) -> tuple[Ran, T]:
        """The run with the least interference from other work on the machine, and its result.

        Or the one of a ``rank`` after it, as far as there are so many.
        """
        lost = lost_shares(self.runs)
        ranked = sorted(range(len(lost)), key=lost.__getitem__)
        return self.done[ranked[: rank + 1][-1]]


def lost_shares(runs: Sequence[Ran], beside: Sequence[Ran] = ()) -> list[float]:
    """The share of each run that other work on the machine took; ``beside`` are more runs there.

    That is time runnable but not scheduled, and CPU time beyond that of the run with the least:
    those who share a core or a cache make the same work take longer. Of several threads it is their
    sum, and may be above 1.
    """
    least_s = min((ran.cpu_s for ran in (*runs, *beside)), default=0.0)
    return [(ran.run_queue_delay_s + ran.cpu_s - least_s) / ran.elapsed_s for ran in runs]


def undisturbed(runs: Sequence[Ran], workload: Workload, beside: Sequence[Ran] = ()) -> int:
    """How many runs say what a query takes without other work on the machine.

    A query with a thread for every CPU waits for itself and for what serves its storage: its runs
    are compared with the calmest of all.
    """
    usual = 0.0
    if workload.threads >= (os.cpu_count() or 1):
        usual = min(lost_shares([*runs, *beside]), default=0.0)
    return sum(share <= usual + BUSY for share in lost_shares(runs, beside))


def take_turns(workload: Workload, series: Sequence[Series[Any]]) -> None:
    """Run each until it has as many undisturbed runs as it wants, or RETRIES more than these.

    By turns, so that what drifts on the machine drifts for all.
    """
    for number in range(max(turn.wanted for turn in series) + RETRIES):
        for turn in series:
            others = [other for other in series if other.place == turn.place and other is not turn]
            beside = [ran for other in others for ran in other.runs]
            enough = undisturbed(turn.runs, workload, beside) >= turn.wanted
            if len(turn.done) < turn.wanted + RETRIES and not enough:
                turn.done.append(turn.attempt(number))


def least_disturbed(workload: Workload, attempt: Callable[[int], tuple[Ran, T]]) -> tuple[Ran, T]:
    """Run, and again while other work on the machine took CPU; the best attempt counts."""
    series = Series("", 1, attempt)
    take_turns(workload, [series])
    return series.calmest()
