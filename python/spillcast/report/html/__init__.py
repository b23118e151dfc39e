"""One self-contained HTML page of any results of spillcast.

A page is made only from JSON documents: those of other verbs, and one for each run. Redaction
replaces texts in them before any chart or sentence is made, so nothing can bypass it: ``redact.py``
lists the keys whose texts pass and the patterns that they must match. Sentences are removed,
because they may quote anything; a warning keeps the title and the advice of its code.

Charts are functions of plain values that return HTML and inline SVG, for screens, phones and paper.
The page's Content-Security-Policy allows no address, and only the script that copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spillcast.report import Commands, Notes, Page, PagePart, Prose, TitledTable
from spillcast.report.html.charts import Chart
from spillcast.tabular import NONE, UNITS, Column, PrintedTable
from spillcast.text import capitalized, sentence

#: Maximum number of rows of a table.
ROWS_MAX = 60
#: A dash for a missing value, and the sign of negative values.
NOTHING, MINUS = "\u2013", "\u2212"


@dataclass(frozen=True)
class Figure:
    """A chart with its caption, and the table of its values."""

    title: str
    caption: str
    chart: Chart
    table: PrintedTable


@dataclass(frozen=True)
class Weakness:
    """A warning: its message, its title, the remedy, and the targets that it concerns."""

    message: str
    title: str = ""
    next_step: str = ""
    targets: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with its contents; tables by their captions, statements and facts by name.

    ``remarks`` stand below the tables that they explain.
    ``answer`` is the head of the page if this is its first section.
    """

    title: str
    sentences: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[tuple[str, PrintedTable]] = ()
    remarks: Sequence[str] = ()
    statements: Sequence[tuple[str, str]] = ()
    facts: Sequence[tuple[str, str]] = ()
    weaknesses: Sequence[Weakness] = ()
    answer: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        title: str,
        parts: Sequence[PagePart],
        figures: Sequence[Figure] = (),
        answer: Sequence[str] = (),
    ) -> "Section":
        """A section from the parts of a terminal's page, with charts instead of its drawings.

        Notes are left out, because the last section has the notes of all inputs.
        """
        sentences, remarks = list[str](), list[str]()
        tables, commands = list[tuple[str, PrintedTable]](), []
        for part in parts:
            if isinstance(part, Notes):
                continue
            if isinstance(part, Prose):
                for text in (sentence(line.strip()) for line in part.sentences):
                    (remarks if tables and text not in answer else sentences).append(text)
            elif isinstance(part, Commands):
                purpose = (remarks or sentences).pop().rstrip(":.")
                commands.append((purpose, "\n".join(part.lines)))
            elif isinstance(part, PrintedTable):
                tables.append(("", part))
            elif isinstance(part, TitledTable):
                tables.append((capitalized(part.title.strip()), part.table))
        return cls(title, sentences, figures, tables, remarks, commands, answer=answer)


def table_in(page: Page) -> PrintedTable:
    """The first table of a terminal's page."""
    return next(part for part in page.parts if isinstance(part, PrintedTable))


@dataclass(frozen=True)
class HtmlPage:
    """The entire page: the answer, sections and documents to copy."""

    title: str
    answer: Sequence[str]
    sections: Sequence[Section]
    #: Names and texts.
    raw: Sequence[tuple[str, str]]
    #: A sentence for each run: query, host, start and elapsed time.
    measured: Sequence[str]


@dataclass(frozen=True)
class TableCells:
    """A table as text: headings, the first rows, and the positions of left-aligned columns."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int]
    left_out: int

    @classmethod
    def of(cls, table: PrintedTable) -> "TableCells":
        """The cells of columns that have a name or any value."""
        columns, cells = table.written()
        used = [at for at, c in enumerate(columns) if c.name or any(row[at] for row in cells)]
        rows = [
            [NOTHING if row[at] == NONE else row[at] for at in used] for row in cells[:ROWS_MAX]
        ]
        left = [place for place, at in enumerate(used) if columns[at].is_text]
        left_out = max(len(cells) - ROWS_MAX, 0)
        return cls([columns[at].name or "" for at in used], rows, left, left_out)


def texts(header: Sequence[str], rows: Sequence[Sequence[str]]) -> PrintedTable:
    """A table of texts, the first column aligned left."""
    first, *others = header
    return PrintedTable(
        [Column(first, None), *(Column(name, None, "raw") for name in others)], rows
    )


def _written(unit: str, value: Any) -> str:
    """A value in a unit of ``tabular.UNITS``, or a dash for None."""
    return NOTHING if value is None else UNITS[unit](value)


seconds = partial(_written, "s")
micros = partial(_written, "us")
size = partial(_written, "bytes")
percent = partial(_written, "percent")
percent1 = partial(_written, "percent1")
between = partial(_written, "interval")
