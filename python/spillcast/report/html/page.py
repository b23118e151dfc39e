"""The parts of a page, as its template takes them, and figures in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spillcast.report import table as terminal
from spillcast.report.html.bars import Bars
from spillcast.report.html.plots import Plot
from spillcast.units import format_bytes, format_duration

Document = Mapping[str, Any]
#: Rows that a table shows.
ROWS_MAX = 60
#: A dash where there is no figure, and the sign of what is below 0.
NOTHING, MINUS = "\u2013", "\u2212"


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


#: A heading, the key of a document under which its value is, and how that is written.
Column = tuple[str, str, Callable[[Any], str]]


def table_of(
    rows: Sequence[Document],
    columns: Sequence[Column],
    left: Sequence[int] = (0,),
    caption: str = "",
) -> Table:
    """A row for each document; a value that it lacks is a dash."""
    cells = [[words(row.get(key)) for _, key, words in columns] for row in rows]
    return Table([heading for heading, _, _ in columns], cells, left, caption)


def of_terminal(table: terminal.Table) -> Table:
    """A table of the terminal's page."""
    columns, cells = table.written()
    used = [at for at, column in enumerate(columns) if column.name or any(row[at] for row in cells)]
    left = [at for at, old in enumerate(used) if columns[old].is_text]
    rows = [[NOTHING if row[at] == terminal.NONE else row[at] for at in used] for row in cells]
    return Table([columns[at].name or "" for at in used], rows, left)


@dataclass(frozen=True)
class Weakness:
    """A warning: the case in a sentence, what it means, and the forecasts that it weakens."""

    message: str
    title: str = ""
    next_step: str = ""
    targets: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart with its words, and the table of what it shows."""

    title: str
    caption: str
    chart: Bars | Plot
    table: Table

    @property
    def label(self) -> str:
        """What it shows to those who do not see it."""
        return f"{self.title}. {self.chart.label}"


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it."""

    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    statements: Sequence[tuple[str, str]] = ()
    facts: Sequence[tuple[str, str]] = ()
    weaknesses: Sequence[Weakness] = ()


@dataclass(frozen=True)
class Page:
    """The whole page: the answer, a few notable figures, sections and documents to copy."""

    title: str
    answer: Sequence[str]
    sections: Sequence[Section]
    numbers: Sequence[tuple[str, str]] = ()
    #: Names and texts.
    raw: Sequence[tuple[str, str]] = field(default_factory=list)
    #: What was measured, where, when and how long: a sentence for each run.
    measured: Sequence[str] = ()


def text(value: object) -> str:
    """A name, or a dash."""
    return NOTHING if value is None else str(value)


def seconds(value: float | None) -> str:
    """A duration, or a dash."""
    return NOTHING if value is None else format_duration(value)


def micros(value: float | None) -> str:
    """A duration given in us, or a dash."""
    return NOTHING if value is None else format_duration(value / 1e6)


def size(value: float | None) -> str:
    """A size, or a dash."""
    return NOTHING if value is None else format_bytes(value)


def count(value: float | None) -> str:
    """A count, or a dash."""
    return NOTHING if value is None else f"{value:,.0f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share, or a dash."""
    return NOTHING if value is None else f"{100 * value:.{digits}f} %"


def change(value_s: float) -> str:
    """A difference of durations with its sign."""
    if abs(value_s) < 5e-7:
        return "0"
    return f"{MINUS if value_s < 0 else '+'}{format_duration(abs(value_s))}"


def between(bounds: Sequence[float] | None) -> str:
    """The bounds of an interval of durations."""
    return NOTHING if bounds is None else " to ".join(map(format_duration, bounds))


def sentence(message: str) -> str:
    """A message as a sentence of its own."""
    return f"{message[:1].upper()}{message[1:]}" + (
        "" if message.endswith((".", "?", "!")) else "."
    )
