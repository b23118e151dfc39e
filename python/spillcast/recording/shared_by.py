"""Bounds of the number of processes that shared temp I/O with a summed time."""

from dataclasses import dataclass, replace

from spillcast.document import key
from spillcast.errors import TimesContradictory
from spillcast.units import format_duration

#: The evidence that contains the number of processes.
HINT = "EXPLAIN (ANALYZE, BUFFERS) of a query shows it"


@dataclass(frozen=True)
class SharedBy:
    """Bounds of the processes: all temp I/O over the elapsed time that it took."""

    least: float = key("for counts, never on disk: the smallest possible number of processes")
    most: float = key("for counts, never on disk: the largest possible number")
    most_because: str = key("for counts, never on disk: why there were no more")

    @property
    def known(self) -> bool:
        """Whether both bounds are 1."""
        return self.least == self.most

    @property
    def middle(self) -> float:
        """With which the elapsed time is midway between both bounds': it goes with 1/processes."""
        return 2 / (1 / self.least + 1 / self.most)

    @property
    def words(self) -> str:
        """A sentence that names the unknown number."""
        return (
            "temp I/O is summed over the processes of a query, and how many shared it is not "
            f"known: {self.least:.3g} to {self.most:.3g} ({self.most_because})"
        )

    def within(self, elapsed_s: float, temp_s: float, other_s: float = 0.0) -> "SharedBy":
        """Without those numbers of processes that could not have done it in ``elapsed_s``.

        ``temp_s`` is all temp I/O and ``other_s`` all other I/O, summed over the processes, of
        which each does one thing at a time. Refusal where that leaves none.
        """
        if temp_s == 0:
            return self
        left_s = elapsed_s - other_s / self.most
        if temp_s > self.most * left_s:
            io, took = format_duration(temp_s + other_s), format_duration(elapsed_s)
            processes = "process" if self.most == 1 else "processes"
            raise TimesContradictory(
                f"its I/O took {io} in all its processes and the query {took}: that is more than "
                f"{self.most:.3g} {processes} can do ({self.most_because})"
            )
        return replace(self, least=max(self.least, temp_s / left_s))
