"""Reads Oracle's reports as text, their tables by column, and finds lines that were not read."""

import html
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path

from spillcast.errors import EvidenceDamaged, FileTooLarge
from spillcast.evidence.numbers import with_decimal_points
from spillcast.evidence.table_rows import (
    BLANKS,
    JSON_ROWS,
    HtmlRows,
    html_tables,
    split_at,
    texts_of_json,
)
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import conflicting_names

_DASHES = re.compile(r"-{2,}")
#: A rule of characters other than ASCII dashes, possibly decoded wrongly.
_OTHER_RULE = re.compile(
    r"^(?>[ \t]*+[_\u2500\u2501\u2550\u2010-\u2015\ufffd\u00c4-]{3,}+)++[ \t]*+$", re.MULTILINE
)
_HEADING_RULE = re.compile(r"\s*-{2,}(\s+-{2,})+\s*")
_END = re.compile(r"\s{8,}-{20,}\s*")
#: The rule below the title of a table.
_TITLE_RULE = re.compile(r"\s*~{3,}")
_HEADING_LINES = 5
#: The rule below a heading whose columns are separated only by gaps.
_WHOLE_RULE = re.compile(r"\s{,7}([-=\u2500\u2501\u2550\u2014])\1{9,}\s*")
_GAP, _GAP_COLUMNS_MIN = re.compile(r"\s{2,}"), 3
#: Names of columns if the blanks between columns were reduced to one: words, names of several
#: words, and words with units in brackets.
_WORD = re.compile(r"\S+")
_NAMES = re.compile(r"(?>(?:%|%?Total|Avg|CPU|DB|Ela|Call|Wait|Elapsed) )*+\S+(?: ?\([^()]*\))?")
_BARE_NAMES = re.compile(r"\S+(?: ?\[[^][]*\])?")
_FIGURE = re.compile(r"[\d.,]+[KMG]?%?")
#: A figure, or what a profile shows in place of one.
_CELL_FIGURE = re.compile(rf"-?{_FIGURE.pattern}|n/a")
_WORDS = re.compile(r"\S+(?> \S+)*+")
#: The rule above and below the heading of a table with bars, and below its rows.
_BAR_RULE = re.compile(
    r"(?:\S?\s++)?(?:={10,}+(?> +=++)*+|-{5,})\s*|\s*+[|+]?(?>[ :]*+-++[ :]*+[|+])++[ :-]*+"
)
#: The first row of a plan.
_TOP_ROW = re.compile(r"\s*\|[*\s-]*0\s*\|")
#: A row of waits with separators, which may be next to blanks.
_SEPARATED = re.compile(
    r'(?:^|[,;|\t"] *)direct path (?:read|write) temp"? *([,;|\t])'
    r'|([,;|\t]) *"?direct path (?:read|write) temp"? *$',
    re.IGNORECASE | re.MULTILINE,
)
#: The heading of a report that SQL*Plus prints, and its underline, not the rule of a table.
_PAGE_HEADING = re.compile(
    r"^(?:PLAN_TABLE_)?OUTPUT[^\S\n]*+\n(?:-++[^\S\n]*+\n(?!\s*\|\s*Id\b))?", re.MULTILINE
)
#: Tabs that separate cells. Below a rule of dashes, SQL*Plus writes tabs in place of blanks.
_TABBED = re.compile(r"direct path (?:read|write) temp\t", re.IGNORECASE)
_RULED = re.compile(r"^[^\S\n]*-{3}", re.MULTILINE)
_ROW_LENGTH_MAX = 4096
ReportRow = dict[str, str]
#: Figures of temp I/O: a wait's name with a count or a time, and blocks of a row source.
FIGURES = re.compile(
    r"direct path (?:read|write) temp\b\W*[\d.]|\(?\b(?:cr|pr|pw)=\d|\bela= ?\d", re.IGNORECASE
)
_WAIT = re.compile(r"direct path (?:read|write) temp\b", re.IGNORECASE)
_SHOWN = 100
#: The maximum number of lines into which a client breaks a row.
_BROKEN_MAX = 20
#: Limits of a report, which has a few MiB; a page has about 15 bytes per tag.
REPORT_BYTES_MAX, TAGS_MAX = 32 << 20, 1_000_000


@dataclass
class ReportTable:
    """Names of columns, in lower case without blanks, and rows with a cell for each of them."""

    names: Sequence[str]
    #: Its first line in the text, and the line after its last one.
    first: int = 0
    last: int = 0
    cells: list[list[str]] = field(default_factory=list)
    #: The line of each row of a table with bars.
    at: list[int] = field(default_factory=list)

    @property
    def rows(self) -> Iterator[ReportRow]:
        """The rows by name of column; if columns have the same name, the first one counts."""
        for row in self.cells:
            cells: ReportRow = {}
            for name, cell in zip(self.names, row, strict=False):
                cells.setdefault(name, cell.strip(" *`"))
            yield cells

    def check_distinct(self, *names: str | None) -> None:
        """EvidenceDamaged if columns with one of these names have different values."""
        rows = (zip(self.names, map(str.strip, row), strict=False) for row in self.cells)
        for name, *_ in chain.from_iterable(map(conflicting_names, rows)):
            if name in names:
                raise EvidenceDamaged(f"columns of one name differ: {name}")

    def has(self, *parts: str) -> bool:
        """Whether each part occurs in the name of a column."""
        return all(self.named(part) is not None for part in parts)

    def named(self, part: str) -> str | None:
        """The first column with this part in its name."""
        return next((name for name in self.names if part in name), None)


def is_page(text: str) -> bool:
    """Whether a report is HTML."""
    return re.search(r"<t(able|r|d)\b", text, re.IGNORECASE) is not None


def tables_of(text: str) -> list[ReportTable]:
    """All tables of a report in any form. InputError if a line with temp I/O is in none."""
    if is_page(text):
        return [_of_page(rows) for rows in html_tables(text)]
    if JSON_ROWS.match(text):
        names, cells = texts_of_json(text)
        return [ReportTable(list(map(name_of, names)), cells=cells)]
    lines = text.splitlines()
    barred = list(bar_tables(lines))
    tables = [*_of_text(lines), *_of_gaps(lines), *barred]
    # Lines of tables with bars are excluded, because they would be split at the bars again.
    within = {at for table in barred for at in range(table.first, table.last)}
    others = ["" if at in within else line for at, line in enumerate(lines)]
    for separator in sorted({match[1] or match[2] for match in _SEPARATED.finditer(text)}):
        tables += _of_separated(others, separator)
    shown = "\n".join(cell for table in tables for row in table.cells for cell in row).lower()
    read = {
        at for table in tables for at in range(table.first, table.last)
        # A row that is shifted relative to its columns may be cut within the name of a wait.
        if (wait := _WAIT.search(lines[at])) is None or wait[0].lower() in shown
    }  # fmt: skip
    check_all_read(lines, read)
    return tables


def plain_of(text: str) -> str:
    """A report as text, without tags."""
    if not is_page(text):
        return text.replace("|", " ")
    return html.unescape(re.sub(r"<[^<>]{,200}>", " ", text)).translate(BLANKS)


def _of_page(rows: HtmlRows) -> ReportTable:
    """The table of a page: rows of th, or else the first row, are names, other rows are cells."""
    table = ReportTable([])
    headed = any(tag == "th" for row in rows for tag, _ in row)
    for row in rows:
        texts = [text.strip() for _, text in row]
        if row and (all(tag == "th" for tag, _ in row) if headed else not table.names):
            table.names = [name_of(text) for text in texts]
        elif row:
            table.cells.append(texts)
    return table


def name_of(heading: str) -> str:
    """The name of a column in lower case without blanks."""
    return re.sub(r"\s+", "", heading).lower()


def _of_text(lines: Sequence[str]) -> Iterator[ReportTable]:
    """Tables with a heading above dashes, which end with a rule in the middle of a line."""
    end = max((at for at, line in enumerate(lines) if line.strip()), default=0)
    at = 0
    while at < len(lines):
        if not _HEADING_RULE.fullmatch(lines[at]):
            at += 1
            continue
        columns = _columns(lines[at])
        ends = columns[1]
        heading = _heading(lines[max(0, at - _HEADING_LINES) : at])
        table = ReportTable(_names_above(heading, ends), at - len(heading))
        begin = at = at + 1
        while at < len(lines) and not _END.fullmatch(lines[at]):
            if _HEADING_RULE.fullmatch(lines[at]):
                if _is_closing(lines, at, columns):
                    words = _collapsed(lines[at + 1], len(_columns(lines[at])[0]))
                    missing = [""] * (len(ends) - len(words))
                    table.cells.append([*words, *missing] if words else _cut(lines[at + 1], ends))
                    at += 2
                break
            if lines[at].strip():
                cells = _GAP.split(lines[at].strip())
                if len(cells) == 1 and len(ends) > 1:
                    words = _collapsed(lines[at].strip(), len(ends))
                    table.cells.append(words or _cut(lines[at], ends))
                else:
                    # A row that is shifted relative to its columns is split at its gaps.
                    beside = len(cells) == len(ends) and _splits_word(lines[at], ends)
                    table.cells.append(cells if beside else _cut(lines[at], ends))
            at += 1
        table.last = at
        rows = [
            line.rstrip()
            for line in lines[begin:at]
            if line.strip() and not _HEADING_RULE.fullmatch(line)
        ]
        # The file may end within a row.
        for row, column in _cut_cells(rows, ends, heading[-1:] if at > end else []):
            table.cells[row][column] = ""
        if heading:
            yield table


def _heading(above: Sequence[str]) -> list[str]:
    """The lines of a table's heading, which are the last of the lines above its rule."""
    heading: list[str] = []
    title: re.Match[str] | None = None
    for line in reversed(above):
        # A statement may end above the heading.
        is_above = line.strip() in ("", "/") or line.rstrip().endswith(";")
        if is_above or line.lstrip().startswith(("->", "--")):
            break
        if title is not None:
            # The title of a table may share its line with names of columns.
            heading.insert(0, " " * title.end() + line[title.end() :])
            break
        title = _TITLE_RULE.match(line)
        heading.insert(0, line.replace("~", " "))
    return heading


def _cut_cells(
    rows: Sequence[str], ends: Sequence[int], heading: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Cells in which the figure is cut, as row and column: the row ends within the column.

    Figures of other rows fill the column to its end. For the last row of a file a single other row,
    or else the heading, suffices. A figure with as many decimals as the others is complete: it is
    shifted relative to its column, like the figure of DB CPU in AWR.
    """
    if any(_splits_word(row, ends) for row in rows[:-1]):
        return
    cells = [_cut(row, ends) for row in rows]
    filled = [
        [row[column] for line, row in zip(rows, cells, strict=True) if line[end - 1 : end].strip()]
        for column, end in enumerate(ends)
    ]
    decimals = [max(map(_decimals, figures), default=0) for figures in filled]
    for at, row in enumerate(rows):
        column = next((column for column, end in enumerate(ends) if len(row) < end), None)
        if column is None or not _FIGURE.fullmatch(cells[at][column]):
            continue
        if 0 < decimals[column] <= _decimals(cells[at][column]):
            continue
        least = max(2, len(rows) - 1)
        if heading and at == len(rows) - 1:
            is_headed = heading[0][ends[column] - 1 :].strip() != ""
            least = 0 if is_headed and len(rows) == 1 else 1
        if len(filled[column]) >= least:
            yield at, column


def _decimals(figure: str) -> int:
    """The number of characters after its decimal point, with a unit."""
    return len(figure.partition(".")[2])


def _columns(rule: str) -> list[tuple[int, ...]]:
    """The positions at which the dashes of a rule begin, and at which they end."""
    return list(zip(*(match.span() for match in _DASHES.finditer(rule)), strict=True))


def _is_closing(lines: Sequence[str], at: int, columns: Sequence[Sequence[int]]) -> bool:
    """Whether a rule ends the rows of a table, above one line with their totals.

    Such a rule begins or ends at the same positions as a column.
    """
    pairs = zip(_columns(lines[at]), columns, strict=True)
    total, below = (*lines[at + 1 : at + 3], "", "")[:2]
    is_aligned = any(dashes == places[: len(dashes)] for dashes, places in pairs)
    return is_aligned and bool(total.strip()) and not below.strip()


def _of_gaps(lines: Sequence[str]) -> Iterator[ReportTable]:
    """Tables below an unbroken rule, with cells that are separated by two blanks or more.

    A list of events may lack the rule. Tables end at a blank line or a rule. Rows may have words
    after their last column.
    """
    for at in range(1, len(lines)):
        heading = _GAP.split(lines[at - 1].strip())
        is_heading = len(heading) >= _GAP_COLUMNS_MIN and not re.search(r"[|\t]", lines[at - 1])
        is_ruled, row = _WHOLE_RULE.fullmatch(lines[at]) is not None, _GAP.split(lines[at].strip())
        is_above_row = "event" in map(str.lower, heading) and len(row) >= len(heading)
        has_figures = any(cell[:1].isdigit() for cell in row[1:])
        if not is_heading or not (is_ruled or (is_above_row and has_figures)):
            continue
        table = ReportTable([name_of(name) for name in heading], at - 1)
        table.last = at + is_ruled
        while table.last < len(lines) and lines[table.last].strip():
            cells = _GAP.split(lines[table.last].strip())
            if _WHOLE_RULE.fullmatch(lines[table.last]):
                break
            if len(cells) >= len(heading):
                table.cells.append(cells)
            table.last += 1
        yield table


def _of_separated(lines: Sequence[str], separator: str) -> Iterator[ReportTable]:
    """Tables with cells separated by a sign: consecutive lines with the same number of cells."""
    full = ((at, line) for at, line in enumerate(lines) if not _WHOLE_RULE.fullmatch(line))
    # A line that is too long is not a row of waits.
    rows = (
        (at, split_at(separator, line) if len(line) <= _ROW_LENGTH_MAX else []) for at, line in full
    )
    for width, table in groupby(rows, key=lambda row: len(row[1])):
        (first, names), *below = table
        if width > 2 and below:
            cells = [row for _, row in below]
            yield ReportTable(list(map(name_of, names)), first, below[-1][0] + 1, cells)


def bar_tables(lines: Sequence[str], first: int = 0) -> Iterator[ReportTable]:
    """Tables with bars between their cells, which keep their blanks.

    A table ends at a rule. In Markdown and in psql's form it ends with its rows, which may lack
    the outer bars. ``first`` is the number of the first line. InputError if a row has another
    number of cells than the heading, or if a table has no end.
    """
    heading: list[str] = []
    table: ReportTable | None = None
    in_markdown, bars = False, "|"
    for at, line in enumerate(lines, first):
        is_rule = _BAR_RULE.fullmatch(line) is not None
        is_row = not is_rule and ("|" in line if in_markdown else line.lstrip().startswith("|"))
        if table is None and is_row and heading and _TOP_ROW.match(line):
            # A page may omit the rules.
            table, in_markdown = ReportTable(_names(heading[-1:], bars), at - 1), True
        if table is None and is_rule:
            in_markdown = re.search(r"\||^ *-+\+-", line) is not None
            bars = "" if in_markdown and not line.lstrip().startswith("|") else "|"
            if in_markdown:
                heading = [above for above in lines[max(at - first - 1, 0) : at - first] if above]
            elif heading and not heading[-1].rstrip().endswith("|"):
                raise EvidenceDamaged("it is cut at its right edge: no bar ends its heading")
            if heading:
                table = ReportTable(_names(heading, bars), at - len(heading))
        elif table is None and is_row:
            heading.append(line)
        elif table is None:
            heading = [] if line.strip() else heading
        elif table.cells and (is_rule or (in_markdown and not is_row)):
            table.last, in_markdown = at, False
            yield table
            heading, table = [], None
        elif is_row:
            cells = _row_cells(line, heading[-1].rstrip(), bars)
            # A client that breaks lines breaks the rules as well.
            if len(cells) != len(table.names) and not in_markdown:
                raise EvidenceDamaged(f"line {at + 1:,} does not have as many columns as its table")
            table.cells.append(cells)
            table.at.append(at)
    if table is not None and in_markdown:
        table.last = first + len(lines)
        yield table
    elif table is not None:
        raise EvidenceDamaged("it is cut: its last table has no end")


def _cells(line: str, bars: str) -> list[str]:
    return line.strip().removeprefix(bars).removesuffix(bars).split("|")


def _row_cells(line: str, heading: str, bars: str) -> list[str]:
    """The cells of a row, without a remark after the last bar of its ``heading``."""
    cells = _cells(line, bars)
    has_remark = heading[-1] == "|" and line.rfind("|") + 1 == len(heading) < len(line.rstrip())
    return cells[:-1] if has_remark else cells


def _names(heading: Sequence[str], bars: str) -> list[str]:
    rows = [_cells(line, bars) for line in heading]
    if len({len(cells) for cells in rows}) > 1:
        raise ValueError("the lines of a table's heading differ in their number of columns")
    return [name_of("".join(parts)) for parts in zip(*rows, strict=True)]


def _names_above(heading: Sequence[str], ends: Sequence[int]) -> list[str]:
    """The names of columns; a heading that is shifted relative to its dashes is split at gaps."""
    single = heading[-1].split() if heading else []
    is_collapsed = bool(heading) and "  " not in heading[-1].strip()
    for pattern in (_WORD, _NAMES, _BARE_NAMES) if is_collapsed else ():
        if len(names := pattern.findall(heading[-1])) == len(ends):
            # A percent sign may be above its column, in the line of the title.
            percent = "%" if heading[-2:-1] and heading[-2].lstrip().startswith("%") else ""
            return list(map(name_of, [*names[:-1], percent + names[-1]]))
    if not heading or not _splits_word(heading[-1], ends):
        columns = zip(*(_cut(line, ends) for line in heading), strict=True)
        return [name_of("".join(parts)) for parts in columns]
    words = [list(_WORDS.finditer(line)) for line in heading]
    if len(words[-1]) != len(ends):
        cells = single if len(single) == len(ends) else _cut(heading[-1], ends)
        return [name_of(cell) for cell in cells]
    joined = [""] * len(ends)
    centres = [sum(word.span()) for word in words[-1]]
    for line in words:
        for word in line:
            nearest = min(range(len(ends)), key=lambda at: abs(centres[at] - sum(word.span())))
            joined[nearest] += name_of(word[0])
    return joined


def _collapsed(line: str, columns: int) -> list[str]:
    """The cells of a row with one blank between columns: a name between numbers, and words if any.

    Empty if the row has another number of cells.
    """
    words = line.split(" ")
    first = next((at for at, word in enumerate(words) if not _CELL_FIGURE.fullmatch(word)), 0)
    end = next((at for at in range(len(words), 0, -1) if _CELL_FIGURE.fullmatch(words[at - 1])), 0)
    # A name may end with a number, which is not a cell.
    begin = end - (columns - 1 - first - (end < len(words)))
    is_whole = first < begin < end and "" not in words
    if not is_whole or not all(map(_CELL_FIGURE.fullmatch, words[begin:end])):
        return []
    name, rest = " ".join(words[first:begin]), " ".join(words[end:])
    return [*words[:first], name, *words[begin:end], *filter(None, [rest])]


def _splits_word(line: str, ends: Sequence[int]) -> bool:
    """Whether a column ends within a word."""
    return any(end < len(line) and " " not in line[end - 1 : end + 1] for end in ends[:-1])


def _cut(line: str, ends: Sequence[int]) -> list[str]:
    """The cells of a line: columns end with their dashes, and numbers may begin before these."""
    begins = [0, *ends]
    cells = [line[begin:end].strip() for begin, end in zip(begins, ends, strict=False)]
    cells[-1] = line[begins[-2] :].strip()
    return cells


def report_text(path: Path) -> str:
    """The text of a report with plain blanks and decimal points. FileTooLarge beyond bounds."""
    text = text_of(path, bytes_max=REPORT_BYTES_MAX)
    if text.count("<") > TAGS_MAX:
        raise FileTooLarge(f"a page of more than {TAGS_MAX:,} tags is no report")
    text = unwrapped(text).translate(BLANKS)
    if heading := _PAGE_HEADING.search(text):
        # Each page has it below a blank line.
        text = re.sub(rf"^\n?{re.escape(heading[0])}", "", text, flags=re.MULTILINE)
    if _RULED.search(text) or not _TABBED.search(text):
        text = text.expandtabs()
    text = _OTHER_RULE.sub(lambda rule: re.sub(r"\S", "-", rule[0]), text)
    return _with_whole_rows(with_decimal_points(text))


def _with_whole_rows(text: str) -> str:
    """The text with each row between bars in one line, even if a client or a page broke it."""
    lines = [""]
    joined = bars = width = length = 0
    for line in text.split("\n"):
        row = lines[-1]
        if (is_rule := _BAR_RULE.fullmatch(line) is not None) and not _BAR_RULE.fullmatch(row):
            bars, width = 0 if bars or "|" in line else row.count("|"), len(line)
        if bars:
            is_open = row.count("|") < bars >= row.count("|") + line.count("|")
        else:
            is_open = length <= width and row.rstrip()[-1:] != "|"
        continues = is_open or line.find("|") not in (-1, row.find("|"))
        if row.lstrip().startswith("|") and continues and not is_rule and joined < _BROKEN_MAX:
            # A page breaks a line at a blank, which is lost; a client at the width of the rule.
            lines[-1] += " " * (length < width) + line
            joined += 1
        else:
            lines.append(line)
            joined = 0
            # SQL*Plus writes a blank line after each row that it breaks.
            if line.strip() and not is_rule and not line.lstrip().startswith("|"):
                bars = width = 0
        length = len(line)
    return "\n".join(lines[1:])


def check_all_read(lines: Sequence[str], read: Collection[int]) -> None:
    """InputError for the first line with figures of temp I/O that is not among those read."""
    for at, line in enumerate(lines):
        if at not in read and FIGURES.search(line):
            shown = " ".join(line.split())[:_SHOWN]
            raise EvidenceDamaged(f"line {at + 1:,} is not understood: {shown}")
