"""The parts of a page, as its template takes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from spillcast.report.draw import for_page, svg

#: Rows that a table shows.
ROWS_MAX = 60


@dataclass(frozen=True)
class Layout:
    """The place that a chart is drawn for: all of its width, px."""

    width: int
    narrow: bool


#: For screens and paper, and for phones: text is as large on both.
WIDE, NARROW = Layout(720, narrow=False), Layout(344, narrow=True)
_numbers = count(1)


@dataclass(frozen=True)
class Table:
    """Texts under headings; columns in ``left`` hold words, the others figures."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = (0,)
    caption: str = ""

    @property
    def shown(self) -> Sequence[Sequence[str]]:
        """The rows that the page has room for."""
        return self.rows[:ROWS_MAX]

    @property
    def left_out(self) -> int:
        """Rows that it has no room for."""
        return max(len(self.rows) - ROWS_MAX, 0)


@dataclass(frozen=True)
class Warned:
    """What weakens the numbers: the case in a sentence, and what the page knows besides."""

    message: str
    title: str = ""
    next_step: str = ""
    #: Of several forecasts, those that it weakens.
    targets: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart with its words; ``label`` says what it shows to those who do not see it."""

    title: str
    caption: str
    label: str
    wide: str
    narrow: str
    table: Table


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it."""

    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    statements: Sequence[tuple[str, str]] = ()
    facts: Sequence[tuple[str, str]] = ()
    #: What weakens the numbers: shown as a list.
    warnings: Sequence[Warned] = ()


@dataclass(frozen=True)
class Raw:
    """A document to copy."""

    name: str
    text: str


@dataclass(frozen=True)
class Page:
    """All of it: the answer, a few figures of note, sections and raw documents."""

    title: str
    answer: Sequence[str]
    sections: Sequence[Section]
    numbers: Sequence[tuple[str, str]] = ()
    raw: Sequence[Raw] = field(default_factory=list)
    #: What was measured, where, when and how long: a sentence for each run.
    measured: Sequence[str] = ()


def figure(
    title: str, caption: str, label: str, chart: Callable[[Layout], Any], table: Table
) -> Figure:
    """A chart drawn for either width."""
    number = next(_numbers)
    wide, narrow = (
        for_page(svg(chart(layout)), f"c{number}{name}")
        for layout, name in ((WIDE, "w"), (NARROW, "n"))
    )
    return Figure(title, caption, label, wide, narrow, table)
