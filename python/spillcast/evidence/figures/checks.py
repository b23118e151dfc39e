"""Relations that the figures of a report must keep, as one table for all readers."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceContradictory
from spillcast.evidence.figures.numbers import Number

#: Beside the rounding of what is printed: means of means, clocks read one after the other.
SLACK = 0.02


@dataclass(frozen=True)
class Check:
    """A relation between two figures: both are equal, or the left is at most the right."""

    name: str
    words: str
    equal: bool


CHECKS = {
    check.name: check
    for check in (
        Check("count-mean-total", "the waits of an event times their mean are its total", True),
        Check("share-of-db-time", "a percentage of DB time is that part of it", True),
        Check("part-of-whole", "a part is at most its whole", False),
        Check("sum-of-parts", "parts that make up a whole add up to it", True),
        Check("children-of-parent", "a line of a plan holds the figures of those below it", False),
        Check("blocks-of-operations", "each operation moves at least one block", False),
        Check("elapsed-in-span", "no wait of a session is longer than its run", False),
        Check("time-at-once", "processes together take at most the elapsed time times them", False),
        Check("sources-of-disk", "row sources read at most what the column disk counts", False),
    )
}


@dataclass(frozen=True)
class Held:
    """Two figures that a check compares, each with its words."""

    check: str
    left: Number
    left_words: str
    right: Number
    right_words: str

    @property
    def holds(self) -> bool:
        """Whether rounding explains what they are apart."""
        check, left, right = CHECKS[self.check], self.left, self.right
        low = left.low * (1 - SLACK)
        if check.equal:
            return low <= right.high and right.low * (1 - SLACK) <= left.high
        return low <= right.high


def hold(path: Path, comparisons: Iterable[Held], hint: str) -> None:
    """InputError for the first figures that contradict each other, with both."""
    for each in comparisons:
        if not each.holds:
            raise EvidenceContradictory(
                f"{path}: {each.left_words} and {each.right_words} contradict each other: "
                f"{CHECKS[each.check].words} ({each.check})",
                hint,
            )


def surer(left: Number, right: Number) -> Number:
    """Of two forms of one figure that which rounding leaves less open."""
    return left if left.width <= right.width else right
