"""What results share: Arrow and Polars tables, and how they display in Python and notebooks.

Results write a small HTML table of their own, so a notebook needs no report module. The notebook's
theme chooses the colours.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillcast.errors import PackageMissing
from spillcast.text import one_line

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from spillcast.tables import Table


#: A cell of a terminal's table is cut to this width; a notebook shows it whole.
_CELL_WIDTH = 60


@dataclass(frozen=True)
class Display:
    """A headline, a table and remarks: what ``repr`` prints and a notebook shows."""

    headline: str | None
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    remarks: Sequence[str] = ()
    #: Columns that are aligned left; the others are aligned right.
    left: Sequence[int] = (0,)

    def text(self) -> str:
        """Plain text for a terminal."""
        parts = [] if self.headline is None else [self.headline]
        if self.rows:
            parts.append(self._table())
        return "\n\n".join([*parts, *self.remarks])

    def _table(self) -> str:
        lines = [self.header, *([one_line(cell, _CELL_WIDTH) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(self._line(cells, widths) for cells in lines)

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            cell.ljust(width) if at in self.left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    def html(self) -> str:
        """HTML for a notebook; colours are left to its theme."""
        table = _html_table(self.header, self.rows, self.left) if self.rows else ""
        headline = "" if self.headline is None else _html_paragraph(self.headline, strong=True)
        return headline + table + "".join(map(_html_paragraph, self.remarks))


class Displayed(ABC):
    """A result that displays itself, in a terminal and in a notebook."""

    @abstractmethod
    def display(self) -> Display:
        """What is displayed."""

    def __repr__(self) -> str:
        return self.display().text()

    def _repr_html_(self) -> str:
        return self.display().html()


class Tabular(Displayed):
    """A result that is a table, or has one."""

    @abstractmethod
    def to_arrow(self) -> "Table":
        """The table."""

    def to_polars(self) -> "pl.DataFrame":
        """The same for Polars. SpillcastError if Polars is not installed."""
        return polars_of(self.to_arrow())


def polars_of(table: "Table") -> "pl.DataFrame":
    """An Arrow table for Polars. SpillcastError where Polars is not installed."""
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


def _html_paragraph(text: str, *, strong: bool = False) -> str:
    """A sentence."""
    from html import escape

    inner = f"<strong>{escape(text)}</strong>" if strong else escape(text)
    return f"<p>{inner}</p>"


def _html_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> str:
    """Rows under a header; columns in ``left`` are aligned left, the others right."""
    from html import escape

    def line(cells: Sequence[str], tag: str) -> str:
        inner = "".join(
            f'<{tag} style="text-align:{"left" if at in left else "right"}">{escape(cell)}</{tag}>'
            for at, cell in enumerate(cells)
        )
        return f"<tr>{inner}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>"


def plain_rows(relation: "duckdb.DuckDBPyRelation") -> list[tuple[Any, ...]]:
    """Rows of a relation; times with a zone as text, which DuckDB converts with pytz only."""
    columns = (
        f"#{number}::varchar" if "TIME ZONE" in str(kind) else f"#{number}"
        for number, kind in enumerate(relation.types, 1)
    )
    return relation.project(", ".join(columns)).fetchall()
