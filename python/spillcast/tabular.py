"""Tables of raw values as text, CSV, Markdown and HTML, and the display of results.

On a narrow terminal words wrap, names lose their middle, spare columns are left out, and as a last
resort each value gets its own line. Numbers are never cut.

The layout does not use rich, which takes some fifty times as long: seconds for 5,000 rows.
"""

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

from spillcast.errors import PackageMissing
from spillcast.text import visible
from spillcast.units import (
    format_bytes,
    format_duration,
    format_interval,
    format_share,
    format_speedup,
)

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from spillcast import tables

#: Width of paragraphs, in columns of the terminal.
WIDTH = 96
_NO_BREAK = "\x00"
#: First characters that make a spreadsheet read text as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
#: Shown for a missing value.
NONE = "-"
#: More than any terminal has.
COLUMNS_MAX = 1_000_000
#: Maximum width of the table of a displayed result, in columns of the terminal.
_DISPLAY_WIDTH = 120
INDENT = "  "
GAP = "  "
#: Width of shortened names before spare columns are left out, and at least; of broken words at
#: least.
TEXT_ROOM, TEXT_MIN, WORDS_MIN = 24, 12, 10


def saved_text(seconds: float) -> str:
    """Saved time: ``7.7 s``, or ``7.7 s slower`` if it is negative."""
    return f"{format_duration(abs(seconds))}{' slower' if seconds < 0 else ''}"


#: Formats of values for people, by unit.
UNITS: dict[str, Callable[[Any], str]] = {
    "text": str,
    #: Text that is broken into lines and not shortened.
    "words": str,
    "count": lambda value: f"{value:,}",
    "integer": lambda value: f"{value:,.0f}",
    "number": lambda value: f"{value:g}",
    "s": format_duration,
    "us": lambda value: format_duration(value / 1e6),
    "bytes": format_bytes,
    "bytes_per_s": lambda value: f"{format_bytes(value)}/s",
    "MB/s": lambda value: f"{value / 1e6:,.0f}",
    "share": partial(format_share, digits=2),
    "percent": format_share,
    "percent1": partial(format_share, digits=1),
    "ratio": format_speedup,
    "interval": format_interval,
    #: Bytes, or blocks of a trace, which are fewer.
    "size": lambda value: format_bytes(value) if value >= 4096 else str(value),
    #: Unchanged.
    "raw": str,
}


@dataclass(frozen=True)
class Column:
    """One column: heading for people, key in CSV with its unit last, unit of its values.

    Without a ``name`` it is only in CSV, without a ``key`` only for people. On narrow terminals
    columns of the highest ``spare`` are left out, and text is shortened in the middle. Numbers are
    never cut.
    """

    name: str | None
    key: str | None
    unit: str = "text"
    spare: int = 0

    @property
    def is_text(self) -> bool:
        """Whether it is aligned left and may be narrower than its text."""
        return self.unit in ("text", "words")

    def min_width(self, text_min: int) -> int:
        """The minimum width, in columns of the terminal."""
        return {"text": text_min, "words": WORDS_MIN}.get(self.unit, COLUMNS_MAX)

    def lines(self, cell: str, width: int) -> list[str]:
        """A written value in lines of at most ``width`` columns."""
        if self.unit == "words" and cell_width(cell) > width:
            lines = wrap(join_units(cell, _NO_BREAK), width)
            return [shortened(line.replace(_NO_BREAK, " "), width) for line in lines]
        return [shortened(cell, width)]

    def written(self, value: Any) -> str:
        """A value for people, on one line, as wide as a terminal shows it."""
        return NONE if value is None else visible(" ".join(UNITS[self.unit](value).split()))


@dataclass(frozen=True)
class PrintedTable:
    """Rows of raw values under columns; in the first ``grouped`` ones repeated values are blank."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    grouped: int = 0

    @classmethod
    def of(cls, columns: Sequence[Column], records: Sequence[Mapping[str, Any]]) -> "PrintedTable":
        """A table of records by the keys of the columns; a missing key is None."""
        return cls(columns, [[record.get(c.key or "") for c in columns] for record in records])

    @classmethod
    def of_records(
        cls, records: Sequence[Mapping[str, Any]], keys: Iterable[str] | None = None
    ) -> "PrintedTable":
        """A table for CSV only, of some keys; by default those of the first record.

        ``low_s`` and ``high_s`` are the ends of a record's ``interval_s``.
        """
        ends = ("low_s", "high_s")
        flat = [
            dict(zip(ends, record.get("interval_s") or (), strict=False)) | dict(record)
            for record in records
        ]
        return cls.of([Column(None, key) for key in keys or records[0]], flat)

    def text(self, width: int) -> str:
        """Aligned lines of at most ``width`` columns."""
        shown = self._shown
        spares = range(max((self.columns[at].spare for at in shown), default=0), -1, -1)
        for text_min in (TEXT_ROOM, TEXT_MIN):
            for spare in spares:
                columns, cells = self.written(
                    [at for at in shown if self.columns[at].spare <= spare]
                )
                names = [cell_width(column.name or "") for column in columns]
                texts = [[cell_width(line[at]) for line in cells] for at in range(len(columns))]
                widths = [max([name, *column]) for name, column in zip(names, texts, strict=True)]
                floors = [
                    min(needed, max(column.min_width(text_min), name))
                    for column, needed, name in zip(columns, widths, names, strict=True)
                ]
                if _with_gaps(floors) <= width:
                    fitted = _fitted(columns, widths, floors, width)
                    return _lines(columns, cells, fitted, min(self.grouped, len(columns)))
        return _stacked(columns, cells, width)

    @property
    def _shown(self) -> list[int]:
        """The columns for people with any value; empty ones are only in CSV."""
        named = [at for at, column in enumerate(self.columns) if column.name is not None]
        full = [at for at in named if any(row[at] is not None for row in self.rows)]
        return full or named

    def csv(self) -> str:
        """One header line, then raw values; a missing value is empty.

        Text is written so that spreadsheets do not read it as a formula.
        """
        kept = [at for at, column in enumerate(self.columns) if column.key is not None]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_raw(self.columns[at].key) for at in kept)
        for row in self.rows:
            writer.writerow(_raw(row[at]) for at in kept)
        return out.getvalue()

    def markdown(self) -> str:
        """All columns for people, none of them shortened."""
        columns, cells = self.written()
        rule = ["---" if column.is_text else "---:" for column in columns]
        header = [_escaped(column.name or "") for column in columns]
        return _markdown_lines([header, rule, *([_escaped(c) for c in row] for row in cells)])

    def html(self) -> str:
        """All columns for people, without colours, so that a notebook's theme applies."""
        from html import escape

        columns, cells = self.written()

        def line(texts: Iterable[str], tag: str) -> str:
            inner = "".join(
                f'<{tag} style="text-align:{"left" if column.is_text else "right"}">'
                f"{escape(text)}</{tag}>"
                for column, text in zip(columns, texts, strict=True)
            )
            return f"<tr>{inner}</tr>"

        header = line((column.name or "" for column in columns), "th")
        body = "".join(line(row, "td") for row in cells)
        return f"<table><thead>{header}</thead><tbody>{body}</tbody></table>"

    def written(self, shown: Sequence[int] | None = None) -> tuple[list[Column], list[list[str]]]:
        """Columns for people with any value, or those ``shown``, and their cells as text."""
        shown = self._shown if shown is None else shown
        columns = [self.columns[at] for at in shown]
        return columns, [
            [c.written(row[at]) for at, c in zip(shown, columns, strict=True)] for row in self.rows
        ]


def _with_gaps(widths: Sequence[int]) -> int:
    return len(INDENT) + sum(widths) + len(GAP) * (len(widths) - 1)


def _fitted(
    columns: Sequence[Column], widths: Sequence[int], floors: Sequence[int], width: int
) -> list[int]:
    """Widths with the widest texts shortened, a column at a time, until they fit."""
    widths = list(widths)
    while (surplus := _with_gaps(widths) - width) > 0:
        loose = [at for at, floor in enumerate(floors) if widths[at] > floor]
        # Broken words lose no text, so their columns are narrowed first.
        loose = [at for at in loose if columns[at].unit == "words"] or loose
        widest = max(loose, key=lambda at: widths[at])
        others = [widths[at] for at in loose if widths[at] < widths[widest]]
        floor = max([floors[widest], *others])
        widths[widest] -= max(1, min(surplus, widths[widest] - floor))
    return widths


def _lines(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], widths: Sequence[int], grouped: int
) -> str:
    """Rows below their headings; cells of ``grouped`` columns that repeat those above are blank."""
    rows: list[Sequence[str]] = [
        [column.name or "" for column in columns], ["-" * width for width in widths]
    ]  # fmt: skip
    before: Sequence[str] = [""] * grouped
    for row in cells:
        group = row[:grouped]
        rows.append([*([""] * grouped if group == before else group), *row[grouped:]])
        before = group
    lines = []
    for row in rows:
        parts = [
            column.lines(cell, width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        for line in zip_longest(*parts, fillvalue=""):
            padded = []
            for part, width, column in zip(line, widths, columns, strict=True):
                room = " " * (width - cell_width(part))
                padded.append(part + room if column.is_text else room + part)
            lines.append((INDENT + GAP.join(padded)).rstrip())
    return "\n".join(lines)


def _stacked(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> str:
    """A line for each value, for a width in which rows do not fit."""
    name_width = min(max(cell_width(column.name or "") for column in columns), width // 3)
    room = width - len(INDENT) - name_width - len(GAP)
    blocks = []
    for row in cells:
        block = []
        for column, cell in zip(columns, row, strict=True):
            name = shortened(column.name or "", name_width)
            name += " " * (name_width - cell_width(name))
            for part in column.lines(cell, room):
                block.append(f"{INDENT}{name}{GAP}{part}".rstrip())
                name = " " * name_width
        blocks.append("\n".join(block))
    return "\n\n".join(blocks)


def cell_width(text: str) -> int:
    """The width of a text in columns of the terminal; East Asian letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, width: int) -> str:
    """A text shortened to ``width`` columns in its middle, because names differ at their ends."""
    if cell_width(text) <= width:
        return text
    if width < 4:
        return text[:width]
    head, tail = text, text
    while cell_width(head) > (width - 2) // 2:
        head = head[:-1]
    while cell_width(tail) > width - 2 - cell_width(head):
        tail = tail[1:]
    return f"{head}..{tail}"


def _raw(value: Any) -> Any:
    """A value for CSV. An apostrophe precedes text that looks like a formula (OWASP)."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return str(value).lower() if isinstance(value, bool) else "" if value is None else value


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _markdown_lines(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of texts."""
    return _markdown_lines([header, ["---"] * len(header), *rows])


def join_units(text: str, separator: str) -> str:
    """A text with ``separator`` in place of the blank between each number and its unit."""
    return re.sub(r"(?<=\d) (?=%|(?:us|ms|s|min|h|[KMGT]?i?B)\b)", separator, text)


def paragraph(text: str, indent: str = "", width: int = WIDTH) -> str:
    """A text broken into lines, never between a number and its unit.

    A word longer than a line, such as a path, is broken.
    """
    return fill(
        join_units(text, _NO_BREAK), width, subsequent_indent=indent, break_on_hyphens=False
    ).replace(_NO_BREAK, " ")


@dataclass(frozen=True)
class Display:
    """A headline, a table and remarks, as printed by ``repr`` and shown in notebooks."""

    headline: str | None
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Any]] = ()
    remarks: Sequence[str] = ()

    def text(self) -> str:
        """Plain text for a terminal."""
        headline = [] if self.headline is None else [self.headline]
        table = [PrintedTable(self.columns, self.rows).text(_DISPLAY_WIDTH)] if self.rows else []
        return visible("\n\n".join([*headline, *table, *self.remarks]))

    def html(self) -> str:
        """HTML for a notebook."""
        from html import escape

        headline = "" if self.headline is None else f"<strong>{escape(self.headline)}</strong>"
        table = PrintedTable(self.columns, self.rows).html() if self.rows else ""
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return (f"<p>{headline}</p>" if headline else "") + table + remarks


class Displayed(ABC):
    """A result that displays itself, in a terminal and in a notebook."""

    @abstractmethod
    def display(self) -> Display:
        """The content to display."""

    def __repr__(self) -> str:
        return self.display().text()

    def _repr_html_(self) -> str:
        return self.display().html()


class Tabular(Displayed):
    """A result that is a table, or has one."""

    @abstractmethod
    def to_arrow(self) -> "tables.Table":
        """The table."""

    def to_polars(self) -> "pl.DataFrame":
        """The same for Polars. SpillcastError if Polars is not installed."""
        return polars_of(self.to_arrow())


def polars_of(table: "tables.Table") -> "pl.DataFrame":
    """A table for Polars. SpillcastError where Polars is not installed."""
    try:
        import polars as pl
    except ImportError as error:
        raise PackageMissing(
            "polars is not installed", "pip install 'spillcast[polars]'"
        ) from error
    return pl.DataFrame(table)


def aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Rows as lines with their cells below each other, aligned left or right but for the last."""
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    align = str.rjust if right else str.ljust
    return ["  ".join([*map(align, cells, widths), last]) for *cells, last in rows]


def plain_rows(relation: "duckdb.DuckDBPyRelation") -> list[tuple[Any, ...]]:
    """Rows of a relation; times with a zone as text, which DuckDB converts with pytz only."""
    columns = (
        f"#{number}::varchar" if "TIME ZONE" in str(kind) else f"#{number}"
        for number, kind in enumerate(relation.types, 1)
    )
    return relation.project(", ".join(columns)).fetchall()


def records(relation: "duckdb.DuckDBPyRelation") -> list[dict[str, Any]]:
    """The rows of a relation by column."""
    return [dict(zip(relation.columns, row, strict=True)) for row in plain_rows(relation)]
