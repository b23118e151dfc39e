"""What results have in common: as Arrow, as Polars, and as they show themselves in a notebook."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillcast.errors import SpillcastError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


class Tabular(ABC):
    """A result that is a table, or has one."""

    @abstractmethod
    def to_arrow(self) -> "pa.Table":
        """The table."""

    def to_polars(self) -> "pl.DataFrame":
        """The same for Polars. SpillcastError if Polars is not installed."""
        return polars_of(self.to_arrow())

    @abstractmethod
    def _repr_html_(self) -> str:
        """What Jupyter shows; colours are left to its theme."""


def polars_of(table: "pa.Table") -> "pl.DataFrame":
    """An Arrow table for Polars. SpillcastError where Polars is not installed."""
    try:
        import polars as pl
    except ImportError as error:
        raise SpillcastError(
            "polars is not installed", "pip install 'spillcast[polars]'"
        ) from error
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Rows as lines with their cells below each other, aligned left or right but for the last."""
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    align = str.rjust if right else str.ljust
    return ["  ".join([*map(align, cells, widths), last]) for *cells, last in rows]


def html_paragraph(text: str, *, strong: bool = False) -> str:
    """A sentence."""
    from html import escape

    inner = f"<strong>{escape(text)}</strong>" if strong else escape(text)
    return f"<p>{inner}</p>"


def html_table(
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
