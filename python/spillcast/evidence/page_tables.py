"""Reads tables of a page in HTML as rows of cells."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

#: Non-ASCII blanks that clients and browsers write between words and digits.
BLANKS = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f"), " ")
#: The most columns in which a cell may span others.
_COLUMNS_MAX = 100
#: Rows of a table: cells with their tags.
HtmlRows = Sequence[Sequence[tuple[str, str]]]


def html_tables(text: str) -> list[HtmlRows]:
    """The rows of all tables of a page."""
    parser = _Page()
    parser.feed(text)
    return parser.tables


class _Page(HTMLParser):
    """Collects the tables of a page. A cell that spans rows occurs in each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[HtmlRows] = []
        self._rows: list[list[tuple[str, str]]] = []
        self._cell: str | None = None
        #: The number of columns and of rows that the cell spans.
        self._span = 1, 1
        #: By column, the number of the last row that a cell spans, from 1, and the cell.
        self._spanned: dict[int, tuple[int, tuple[str, str]]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows, self._spanned = [], {}
            self.tables.append(self._rows)
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell = ""
            spans = dict(attrs)
            columns, rows = (
                int(text) if re.fullmatch(r"[1-9]\d{,4}", text := spans.get(name) or "") else 1
                for name in ("colspan", "rowspan")
            )
            self._span = min(columns, _COLUMNS_MAX), rows
        elif tag == "br" and self._cell is not None:
            self._cell += "\n"

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell += data.translate(BLANKS)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            if self._rows:
                self._add_spanned()
                columns, rows = self._span
                for text in (self._cell, *[""] * (columns - 1)):
                    if rows > 1 and len(self._rows[-1]) < _COLUMNS_MAX:
                        last = len(self._rows) + rows - 1
                        self._spanned[len(self._rows[-1])] = last, (tag, text)
                    self._rows[-1].append((tag, text))
            self._cell = None
        elif tag == "tr" and self._rows:
            self._add_spanned()

    def _add_spanned(self) -> None:
        """Add cells of rows above that span the next columns of this row."""
        row, number = self._rows[-1], len(self._rows)
        while (spanned := self._spanned.get(len(row))) is not None and number <= spanned[0]:
            row.append(spanned[1])
