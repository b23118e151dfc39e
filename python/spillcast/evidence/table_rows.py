"""Reads the rows of tables in CSV, TSV, JSON and HTML."""

import csv
import html
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any

from spillcast.gate import damaged, json_at, unambiguous

SEPARATORS = ",;|\t"
#: What clients print for NULL. A setting may be NONE.
NULLS = ("", "NULL", "null", "[NULL]", "[null]", "(NULL)", "(null)", "<null>", "NaN", "None", "NA")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"\n": "", "t": "\t", "n": "\n", "r": "\r", "0": "\0", "b": "\b", "f": "\f"}
#: The first cell of a line of text below a table, or the prompt of psql or a shell.
_BELOW_TABLE = re.compile(
    r"(?:(?<!\S)(?=\S*[^\W\d])\S+|[^\W\d] \S*) [^\s\d]|[-=*!(][>#]$|^\(\d+ [^\W\d]+\)$|^```"
    r"|^Time: [\d.,]+ ms|^(?:[\w.-]+@[^$#%]{,200}|\[[^\]]{,200}\])?[$#%](?: |$)"
)
_FIGURE = re.compile(r"\s*-?\d")
#: Names that queries give to the calls and the temp blocks of pg_stat_statements.
CALLS = r"(?:n|num_)?calls|executions|exec_count"
_UNIT = "bl(?:oc)?ks|bytes|[kmgt]i?b"
TEMP_BLOCKS = (
    rf"(?P<mean>avg_|mean_)?temp_(?:(?P<unit>{_UNIT})_)?(?P<op>read|writ(?:e|ten))s?"
    rf"(?:_(?P<last_unit>{_UNIT}))?(?P<per_call>_per_call)?"
)
#: Columns of tables that contain evidence by themselves, and are not part of a report.
KNOWN_COLUMNS = re.compile(
    r"\bQUERY PLAN\b|^(?:EXPLAIN|ANALYZE)$|query_duration_ms\b"
    rf"|^(?=.*\b(?:{CALLS})\b).*\b(?:temp_blks_|{TEMP_BLOCKS}\b)"
    r"|^(?=.*\bexecution_count\b).*\btotal_spills\b"
    r"|^(?=.*\bnum_of_writes\b).*\bio_stall_write_ms\b"
    r"|^(?=.*\bsql_exec_id\b).*\bphysical_read_requests\b",
    re.I,
)
#: Known columns, and those of Oracle's wait views and ASH, whose readers read more forms of tables.
EXPORTED_COLUMNS = re.compile(
    rf"{KNOWN_COLUMNS.pattern}|^(?=.*\bevent\b).*\btotal_waits\b"
    r"|^(?=.*\bsample_time\b).*\bsession_(?:id|state)\b",
    re.IGNORECASE,
)
_KNOWN_NAMES = ("temp_", "query_duration_ms", "total_spills", "io_stall_", "physical_read_r")
#: The start of rows in JSON, or of a heading: names with separators, which are not a statement.
TABLE = re.compile(
    r"^(?:[ \t]*[\[{](?=[^\n]{,4000}\"temp_(?:blks_|(?:\w+_)?(?:read|writ)))"
    rf"|(?=[^\n]{{,4000}}\b(?:{CALLS}|query|queryid|total_\w+)\b)"
    r"(?![^\n]{,4000}(?i:\bselect\b|\":))"
    rf"[^\n]{{,4000}}\b(?:temp_blks_\w+|{TEMP_BLOCKS})\"?[ \t]*[,;|\t])",
    re.MULTILINE,
)
#: The heading of a table in CSV or TSV: names alone, with the same character between them.
_HEADING = re.compile(r"(?!\"?\d)\"?\w+\"?([,;|\t])\"?\w+\"?(?:\1\"?\w+\"?)*")
#: The start of rows in JSON, as opposed to a prompt such as ``[oracle@db]$``.
JSON_ROWS = re.compile(r"\s*[\[{]\s*[{\"]")
#: The text between consecutive JSON documents.
_JSON_NEXT = re.compile(r"[ \t\n,]*+(?=[\[{])")
#: The number of levels of a document that are searched for a list of records.
_DEPTH_MAX = 4


def table_of(text: str) -> str:
    """The text from the heading of a known table, or from its rows in JSON; else all of it."""
    match = None if text.lstrip()[:1] in ("[", "{") else TABLE.search(text)
    return text.strip() if match is None else text[match.start() :].strip()


def is_table(text: str) -> bool:
    """Whether a text begins with rows in JSON, or in CSV or TSV with the heading of known ones.

    With entities of HTML it does not yet.
    """
    heading = text.partition("\n")[0]
    is_heading = _HEADING.fullmatch(heading) and KNOWN_COLUMNS.search(heading)
    return bool(is_heading or JSON_ROWS.match(text)) and html.unescape(text) == text


def rows_of(text: str) -> list[dict[str, Any]]:
    """The rows of a table in JSON, CSV or TSV that begins with its heading.

    Text below a table is left out. InputError, or ValueError, if a row is cut or damaged.
    """
    if text.lstrip()[:1] in ("[", "{"):
        return list(_objects(text.strip()))
    cells = cells_of(text)
    names = [name.strip(' "') for name in next(filter(None, cells), [])]
    rows: list[dict[str, Any]] = []
    #: The columns with a number in each row.
    numeric = set(range(len(names)))
    has_ended = False
    for row in cells:
        if not row:
            has_ended = True
            continue
        known = numeric if rows else set()
        has_ended = has_ended and not _is_row(row, known)
        is_alone = not any(row[1:]) and _BELOW_TABLE.search(row[0].strip())
        is_below = len(names) > 1 and (has_ended or is_alone)
        if is_below and "\n" + text.partition("\n")[0] not in text:
            if _has_rows(cells, len(names), known):
                problem = f"text separates row {len(rows)} from other rows: rows may be missing"
                raise damaged(problem)
            break
        if row == names or is_below:
            raise ValueError("a second heading: put each export into a file of its own")
        if len(row) != len(names):
            problem = f"row {len(rows) + 1} has {len(row)} values, not {len(names)}: it is cut"
            raise damaged(problem)
        cells_of_row = (None if cell.strip() in NULLS else cell.strip() for cell in row)
        numeric &= {at for at, cell in enumerate(row) if _FIGURE.match(cell)}
        rows.append(_row(names, cells_of_row))
    return rows


def _row(names: Sequence[str], cells: Iterable[Any]) -> dict[str, Any]:
    """The cells by their names; the first one counts if columns have the same name.

    InputError if such columns have different figures.
    """
    values = unambiguous(list(zip(names, cells, strict=True))[::-1])
    return {name: values[name] for name in names}


def _is_row(row: Sequence[str], numeric: set[int]) -> bool:
    """Whether a line is a row and not a sentence, which commas may divide into several cells.

    A sentence has words in most full cells of the columns ``numeric``, in which the rows above have
    numbers. Without such cells, it has letters in its first cell and no number.
    """
    cells = [row[at] for at in numeric if at < len(row) and row[at].strip() not in NULLS]
    if cells:
        words = [c for c in cells if _FIGURE.match(c) is None and any(map(str.isalpha, c))]
        return 2 * len(words) <= len(cells)
    return not any(map(str.isalpha, row[0])) or any(map(_FIGURE.match, row))


def _has_rows(cells: Iterator[list[str]], width: int, numeric: set[int]) -> bool:
    """Whether one of the remaining lines is a row; quotes in text may have no end."""
    with suppress(csv.Error):
        return any(len(row) == width and _is_row(row, numeric) for row in cells)
    return False


def texts_of_json(text: str) -> tuple[list[str], list[list[str]]]:
    """The names of rows in JSON, and the cells of each row as text; InputError as ``rows_of``."""
    rows = rows_of(text)
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = (["" if row.get(name) is None else str(row[name]) for name in names] for row in rows)
    return names, list(texts)


def cells_of(text: str, separator: str = "") -> Iterator[list[str]]:
    """The cells of each line of CSV or TSV; a blank line has none."""
    separator = separator or max(SEPARATORS, key=text.split("\n", 1)[0].count)
    if separator == "\t" and '\t"' not in text:
        cells = (list(map(unescaped, line.split("\t"))) for line in text.split("\n"))
    else:
        cells = csv.reader(io.StringIO(text), delimiter=separator, strict=True)  # type: ignore[assignment]
    return (row if any(row) else [] for row in cells)


def split_at(separator: str, line: str) -> list[str]:
    """The cells of a single line, so that a lost quote does not damage the rest of the file."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    return [cell.strip() for cell in cells]


def unescaped(cell: str) -> str:
    """A cell of TSV or Markdown, or a string of a program, without its escapes."""
    if "\\" not in cell:
        return cell
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]), cell
    )


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The rows of consecutive JSON documents: with known columns, or else of a list.

    Text below them is left out. InputError, or ValueError, if it has further rows.
    """
    at, is_known = 0, any(name in text for name in _KNOWN_NAMES)
    names: list[Any] = []
    while (begin := _JSON_NEXT.match(text, at)) is not None:
        value, at = json_at(text, begin.end())
        if isinstance(value, list) and value and not isinstance(value[0], dict | list):
            # Each row is a list, below a list of names.
            if not all(isinstance(name, str) for name in names or value):
                raise damaged("lists without their names")
            if names and len(names) != len(value):
                raise damaged("a row and the names differ in number")
            if names:
                yield _row(names, value)
            names = names or value
            continue
        rows: Sequence[Any] = list(_known_rows(value)) if is_known else ()
        if not rows and isinstance(value, dict) and isinstance(value.get("results"), list):
            # SQLcl has rows below "results" and "items".
            items = (part.get("items") for part in value["results"] if isinstance(part, dict))
            rows = [row for part in items if isinstance(part, list) for row in part]
        for row in rows or (value if isinstance(value, list) else records_of(value)):
            if not isinstance(row, dict):
                raise damaged("a row is not an object")
            yield row
    if any(f'"{name}' in text[at:] for name in _KNOWN_NAMES):
        raise damaged("text separates rows of JSON: rows may be missing")


def _known_rows(value: Any) -> Iterator[dict[str, Any]]:
    """The rows with known columns in a document of any shape.

    A row is an object, or a list of cells in a table below or next to a list of its column names.
    """
    rows: Sequence[Any]
    if isinstance(value, list):
        parts, heading = value, value[0] if value and isinstance(value[0], list) else []
        names, rows = _column_names(heading), value[1:]
        is_table = all(isinstance(row, list) and len(row) == len(names) for row in rows)
        rows = rows if names and is_table else []
    elif KNOWN_COLUMNS.search(" ".join(value)):
        # In a data frame each column has all of its cells, in a list or by the name of the row.
        cells = [list(part.values()) if isinstance(part, dict) else part for part in value.values()]
        is_frame = all(isinstance(column, list) for column in cells)
        rows = _table(cells, len(cells), by_column=True) if is_frame else [list(value.values())]
        yield from (dict(zip(value, row, strict=True)) for row in rows)
        return
    else:
        parts, lists = list(value.values()), list(_lists_in(value))
        names = next(filter(None, map(_column_names, lists)), [])
        rows = next(filter(None, (_table(part, len(names)) for part in lists)), [])
    yield from (_row(names, map(_plain_cell, row)) for row in rows)
    for part in () if rows else parts:
        if isinstance(part, dict | list):
            yield from _known_rows(part)


def _plain_cell(cell: Any) -> Any:
    """The value of a cell, which may be below its type, as in ``{"longValue": 9}`` of RDS."""
    if not isinstance(cell, dict) or len(cell) != 1:
        return cell
    [(kind, value)] = cell.items()
    return None if kind == "isNull" else value if kind.endswith("Value") else cell


def _lists_in(value: dict[str, Any]) -> Iterator[list[Any]]:
    """The lists of an object and of those within it."""
    for part in value.values():
        if isinstance(part, list):
            yield part
        elif isinstance(part, dict):
            yield from _lists_in(part)


def _column_names(cells: Sequence[Any]) -> list[str]:
    """The names of known columns, which are texts or objects with a name; else empty."""
    named = (
        cell.get("name", cell.get("text")) if isinstance(cell, dict) else cell for cell in cells
    )
    names = [name for name in named if isinstance(name, str)]
    is_known = len(names) == len(cells) and KNOWN_COLUMNS.search(" ".join(names))
    return names if is_known else []


def _table(lists: Sequence[Any], width: int, *, by_column: bool = False) -> Sequence[Sequence[Any]]:
    """Rows of ``width`` cells, from lists of rows or else of columns; empty for other lists."""
    if not lists or not width or not all(isinstance(cells, list) for cells in lists):
        return []
    shapes = [lists] if all(len(cells) == width for cells in lists) and not by_column else []
    if len(lists) == width and len(set(map(len, lists))) == 1:
        shapes.append(list(zip(*lists, strict=True)))
    # If both shapes fit: a column has either texts or numbers, not both.
    return max(shapes, key=_is_table, default=[])


def _is_table(rows: Sequence[Sequence[Any]]) -> bool:
    columns = zip(*rows, strict=True)
    return all(len({isinstance(c, str) for c in column if c is not None}) < 2 for column in columns)


def records_of(document: Any) -> list[dict[str, Any]]:
    """Objects in a list of a document, such as the hits of a search; else the document."""
    rows = document
    for _ in range(_DEPTH_MAX):
        if not isinstance(rows, dict):
            break
        inner = [value for value in rows.values() if isinstance(value, list | dict)]
        rows = next((value for value in inner if isinstance(value, list)), next(iter(inner), None))
    return [row for row in rows or () if isinstance(row, dict)] or [document]


#: Non-ASCII blanks that clients and browsers write between words and digits.
BLANKS = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f"), " ")
#: The number of columns or rows that a cell spans.
_SPAN = re.compile(r"[1-9]\d{,4}")
#: The maximum number of columns that a cell may span, or in which cells may span rows.
_COLUMNS_MAX = 100
#: Rows of a table: cells with their tags.
HtmlRows = Sequence[Sequence[tuple[str, str]]]


def html_tables(text: str) -> list[HtmlRows]:
    """The rows of all tables of a page."""
    parser = _Page()
    parser.feed(text)
    return parser.tables


def headed_rows(rows: HtmlRows) -> tuple[list[str], list[list[str]]]:
    """The names of columns in th, and rows of cells in td, without row headings."""
    heads, cells = (
        [[cell for tag, cell in row if tag == wanted] for row in rows] for wanted in ("th", "td")
    )
    heading = next(filter(None, heads), [])
    headed = [(head, row) for head, row in zip(heads, cells, strict=True) if head and row]
    if len(heading) != 1 or not headed:
        return heading[max((len(head) for head, _ in headed), default=0) :], cells
    # psql's expanded output has a name and a value in each row.
    names = list(dict.fromkeys(head[0] for head, _ in headed))
    values = [row[0] for _, row in headed]
    return names, [values[at : at + len(names)] for at in range(0, len(values), len(names))]


class _Page(HTMLParser):
    """Collects the tables of a page. A cell that spans rows occurs in each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[HtmlRows] = []
        self._rows: list[list[tuple[str, str]]] = []
        self._cell: str | None = None
        self._tag = ""
        #: The number of columns and of rows that the cell spans.
        self._span = 1, 1
        #: By column, the number of the last row that a cell spans, from 1, and the cell.
        self._spanned: dict[int, tuple[int, tuple[str, str]]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # HTML does not require the ends of cells and rows.
        self.handle_endtag(tag)
        if tag == "table":
            self._rows, self._spanned = [], {}
            self.tables.append(self._rows)
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell, self._tag = "", tag
            texts = dict(attrs)
            spans = (texts.get(name) or "" for name in ("colspan", "rowspan"))
            columns, rows = (int(text) if _SPAN.fullmatch(text) else 1 for text in spans)
            self._span = min(columns, _COLUMNS_MAX), rows
        elif tag == "br" and self._cell is not None:
            self._cell += "\n"

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell += data.translate(BLANKS)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("table", "tr", "td", "th"):
            self._end_cell()
        if tag in ("table", "tr") and self._rows:
            self._add_spanned()

    def _end_cell(self) -> None:
        if self._cell is not None and self._rows:
            self._add_spanned()
            columns, rows = self._span
            for text in (self._cell, *[""] * (columns - 1)):
                if rows > 1 and len(self._rows[-1]) < _COLUMNS_MAX:
                    last = len(self._rows) + rows - 1
                    self._spanned[len(self._rows[-1])] = last, (self._tag, text)
                self._rows[-1].append((self._tag, text))
        self._cell = None

    def _add_spanned(self) -> None:
        """Add cells of rows above that span the next columns of this row."""
        row, number = self._rows[-1], len(self._rows)
        while (spanned := self._spanned.get(len(row))) is not None and number <= spanned[0]:
            row.append(spanned[1])
