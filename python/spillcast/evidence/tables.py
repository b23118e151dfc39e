"""Reads tables that clients draw, as lines of a plan or as CSV."""

import csv
import io
import re
from itertools import dropwhile, pairwise, takewhile

from spillcast.evidence.table_rows import (
    EXPORTED_COLUMNS,
    KNOWN_COLUMNS,
    headed_rows,
    html_tables,
    unescaped,
)

_BARS = "|│║┃┆"
#: psql's marks at the end of a line that continues in the next.
_CONTINUED = ("+", "↵", "⏎")
#: Marks of a line that continues, in psql's format "wrapped".
_WRAPS = (".", "…")
_RULE = re.compile(r"[\s|+:│║┃┆┼╪╬╇├┤╞╡╟╢╠╣┡┩┌┐╔╗╒╕╓╖┏┓┬╤╦╥┳═─━=-]*")
#: A heading in the upper border of a table.
_IN_BORDER = re.compile(r"\s*[┌╭]─+[^┬┐╮\n]*[^\W_].*[┐╮]\s*")
#: DuckDB's types below the names of columns, and its count of rows with the rule above it.
_TYPES_AND_COUNT = re.compile(
    r"\s*│(?> +(?:varchar|u?int\d+|double|float|decimal\(\d+,\d+\)|boolean|date"
    r"|time(?:stamp(?:_\w+)?)?(?: with time zone)?|interval|json|uuid|blob"
    r"|(?:enum|struct|map)\([^│\n]*\))(?:\[\d*\])* +│)++\s*"
    r"|\s*├─*┴[─┴]*┤\s*|[\s│]*\d+ rows +\d+ columns[\s│]*"
)
#: A row that DuckDB prints in place of those that it leaves out.
_LEFT_OUT = re.compile(r"\s*│(?> +· +│)++\s*")
_JIRA_HEADING = re.compile(r"\s*\|\|[^|].*\|\|\s*")
_HEADING_OF_BORDER = str.maketrans({"─": " ", **dict.fromkeys("┌╭┬┐╮", "│")})
#: The heading of an Oracle plan in a Unicode table, and strokes of such tables.
_BOXED_PLAN = re.compile(r"[│┃║]\s*Id\s*[│┃║]\s*Operation\b", re.IGNORECASE)
_IN_ASCII = str.maketrans("│┃║─━═", "|||---")
_BOTTOM = re.compile(r"[\s+└┘╚╝╘╛╙╜┴╧╩╨═─━-]*[└┘╚╝╘╛╙╜][\s+└┘╚╝╘╛╙╜┴╧╩╨═─━-]*|\s*\+[-+=]+\+\s*")
#: Rules of a grid table below its heading and between its rows.
_DOUBLE_RULE, _SINGLE_RULE = re.compile(r"\s*\+[=+]+\+\s*"), re.compile(r"\s*\+[-+]+\+\s*")
_NUMBER = re.compile(r"\s*[\d.,]+\s*")
_CLOSING = tuple(_BARS)
_COUNT = re.compile(r"\s*\([\d,. ]+ [^\W\d]+\)\s*")
_RECORD = re.compile(r"[-+*╔╒┌╭═─├╞╟|\[ ]+R[Ee][Cc][Oo][Rr][Dd] \d+\b\W*")
#: The heading of a record, and a field, as written by clients that put a colon after a name.
_COLON_RECORD = re.compile(r"Row \d+:|\*{3,} \d+\. row \*{3,}")
_COLON_FIELD = re.compile(r"\s*([\w.]+(?: \w+)*|\w[^\s(]*\(.*\)|\S+\['\w+'\]):(?: +(.*)|)")
#: A name and the separator before its value, which may be a blank after QUERY PLAN.
_NAMED = re.compile(
    r"[|│]?\s*(?P<name>QUERY PLAN(?=[ |│,\t])|\w+(?= *[|│]|[,\t]))(?P<separator> *[|│] ?|,|\t| )"
)
#: The first line of a plan in any format.
_PLAN_START = re.compile(r"[A-Z*].*\((?:cost=\d|actual )|[\[{]\s*+[+↵⏎]?\s*+$|- Plan:|<explain\b")
_NAMED_PLAN = re.compile(rf'[|│]?\s*QUERY PLAN[ |│,\t]+"?(?={_PLAN_START.pattern})')
_FRAME_HEADING = re.compile(r" +\w+(?: +\w+)* *\\?")
_SET = re.compile(r"\d+ rows? in set\b.*")
#: A large number, and the rounded number that ClickHouse prints after it.
_ROUNDED = re.compile(r"(?<!\d)(\d++) -- [\d.]++ \w++")
_JSON = re.compile(r"\s*[\[{]")
_HEADING_IN_WORDS = re.compile(r" *\"?\w[\w ]*+\"?(?>[,;|\t] *\"?\w[\w ]*+\"?)++")
#: The heading of explain.depesz.com, its figures for a node, and the mark before a detail.
_PLAN_PAGE = re.compile(r"\s*#\s+exclusive\s+inclusive\s+rows x\s+rows\s+loops\s+node")
_PAGE_FIGURES = re.compile(
    r"^\d+\.\s+(?:[\d.,]+\s+[\d.,]+\s+[↑↓] *[\d.,]+\s+[\d.,]+\s+[\d.,]+(?: / \d+)?\s*)?(?:->\s*)?"
)
_BULLET = re.compile(r"^\s*•\s*")


def with_tables_as_csv(text: str) -> str:
    """The text with its tables as CSV."""
    lines = text.split("\n")
    tables = (reader(lines) for reader in (html_page, expanded, grid))
    return "\n".join(next((table for table in tables if table is not None), lines))


def html_page(lines: list[str]) -> list[str] | None:
    """HTML tables with known columns, as CSV or the lines of a plan; without row headings."""
    text = "\n".join(lines)
    if not re.search(r"<td\b", text, re.IGNORECASE):
        return None
    plain: list[str] = []
    for rows in html_tables(text):
        numbers = {cell for (_, cell), *_ in filter(None, rows)}
        if len(numbers) > 1 and all(len(row) == 2 and row[0][1].strip().isdigit() for row in rows):
            # Pages of files have the number of each line.
            plain += [row[1][1] for row in rows]
            continue
        heading, cells = headed_rows(rows)
        if KNOWN_COLUMNS.search(" ".join(heading)):
            plain += as_lines(heading, [row for row in cells if len(row) == len(heading)])
    return plain or None


def boxed(lines: list[str]) -> list[str] | None:
    """Plans of Oracle in tables that a client draws in Unicode, in ASCII as Oracle prints them."""
    if not any(map(_BOXED_PLAN.search, lines)):
        return None
    return [re.sub("[┌-╬]", "+", line.translate(_IN_ASCII)) for line in lines]


def data_frame(lines: list[str]) -> list[str] | None:
    """A printed data frame: numbered rows, right-aligned below names; a wide one is in parts."""
    parts: list[list[str]] = []
    for line in lines:
        if _FRAME_HEADING.fullmatch(line):
            parts.append([line.rstrip(" \\")])
        elif parts and line[:1].isdigit():
            parts[-1].append(line)
    parts = [part for part in parts if len(part) > 1]
    names = [name for heading, *_ in parts for name in heading.split()]
    is_known = len(names) > 2 and EXPORTED_COLUMNS.search(" ".join(names)) is not None
    if not is_known or len({len(part) for part in parts}) != 1:
        return None
    rows: list[list[str]] = [[] for _ in parts[0][1:]]
    for heading, *body in parts:
        *ends, _ = (name.end() for name in re.finditer(r"\S+", heading))
        for row, line in zip(rows, body, strict=True):
            if any(line[end : end + 1].strip() for end in ends):
                return None
            begin = len(line.split(maxsplit=1)[0])
            row += [line[at:end].strip() for at, end in pairwise([begin, *ends, len(line)])]
    return as_lines(names, rows)


def grid(lines: list[str]) -> list[str] | None:
    """Tables with a heading above a rule; a table ends before the heading of the next."""
    lines = [
        part for line in lines for part in _with_rule(line) if not _TYPES_AND_COUNT.fullmatch(part)
    ]
    rules = [at for at in range(1, len(lines)) if _is_known_table(lines, at)]
    if not rules or any(map(_LEFT_OUT.fullmatch, lines)):
        return None
    if any(map(_DOUBLE_RULE.fullmatch, lines)):
        lines = _with_rows_in_lines(lines)
        rules = [at for at in range(1, len(lines)) if _is_known_table(lines, at)]
    plain = _without_rules(lines[: rules[0] - 1])
    for at, below in pairwise([*rules, len(lines) + 1]):
        body = _body(lines[at + 1 : below - 1])
        rows, rest = _grid_lines(lines[at - 1], lines[at], body)
        rest = _without_rules([*rest, *lines[at + 1 + len(body) : below - 1]])
        # The number of rows may precede the remaining lines.
        rest = list(dropwhile(lambda line: not line.strip() or _is_end(line), rest))
        plain += [*rows, "", *rest]
    return plain


def _body(lines: list[str]) -> list[str]:
    """The lines of a table below its rule; the first line without a bar at its end ends it.

    A line that is cut lacks that bar, too, but belongs to the table if it has the bar at its start.
    """
    body = list(takewhile(lambda line: not _is_end(line), lines))
    first = body[0].rstrip() if body else ""
    bar = first[-1:]
    if bar not in _CLOSING:
        return body
    # With a single column, the text below the table may also begin with a bar.
    at = first.index(bar) if first.count(bar) > 2 else len(first)
    return list(
        takewhile(lambda line: line.rstrip().endswith((bar, "╡")) or line[at : at + 1] == bar, body)
    )


def _without_rules(lines: list[str]) -> list[str]:
    return [line for line in lines if not is_rule(line) or not line.strip()]


def _with_rule(line: str) -> list[str]:
    """A heading in Jira's syntax or an upper border, with a rule added; other lines unchanged."""
    if _JIRA_HEADING.fullmatch(line):
        line = line.strip().replace("||", "|")
        return [line, re.sub(r"[^|]", "-", line)]
    if _IN_BORDER.fullmatch(line) is None:
        return [line]
    return [line.translate(_HEADING_OF_BORDER), re.sub(r"[^\s┬]", "─", line).replace("┬", "┼")]


def is_rule(line: str) -> bool:
    """Whether a line is the rule between the heading and the rows of a table."""
    return _RULE.fullmatch(line) is not None and sum(line.count(stroke) for stroke in "-═─━=") >= 3


def _is_known_table(lines: list[str], at: int) -> bool:
    """Whether a rule is at ``at``, below known columns or above JSON in the only column."""
    heading, below = lines[at - 1], lines[at + 1] if at + 1 < len(lines) else ""
    if not is_rule(lines[at]) or not heading.strip():
        return False
    has_one_column = not any(bar in heading.strip(_BARS + " ") for bar in _BARS)
    is_json = has_one_column and _JSON.match(below.strip(_BARS + " ")) is not None
    # Oracle's clients separate columns by blanks; their tables with bars are those of others.
    known = KNOWN_COLUMNS if has_one_column else EXPORTED_COLUMNS
    return known.search(heading) is not None or is_json


def _with_rows_in_lines(lines: list[str]) -> list[str]:
    """Grid tables of reStructuredText with each row in a line, and without rules between rows."""
    rows: list[list[str]] = []
    first: list[str] = []
    for line in lines:
        cells = _split(line, True) if line.lstrip().startswith("|") else []
        # A number below a number is of the next row.
        pairs = zip(first, cells, strict=False)
        is_next = any(all(map(_NUMBER.fullmatch, pair)) for pair in pairs)
        if 1 < len(first) == len(cells) and not is_next:
            rows[-1].append(line)
        else:
            rows.append([line])
            first = cells
    plain = [_joined(row) if len(row) > 1 else row[0] for row in rows]
    is_row_of = [line.lstrip().startswith("|") for line in [*plain, ""]]
    return [
        line
        for at, line in enumerate(plain)
        if not (_SINGLE_RULE.fullmatch(line) and is_row_of[at - 1] and is_row_of[at + 1])
    ]


def _joined(lines: list[str]) -> str:
    """A row of several lines as one."""
    cells = zip(*(_split(line, True) for line in lines), strict=True)
    return "|" + "".join(f" {' '.join(parts)} |" for parts in cells)


def _is_end(line: str) -> bool:
    return bool(_BOTTOM.fullmatch(line) or _COUNT.fullmatch(line)) and bool(line.strip())


def _grid_lines(heading: str, rule: str, body: list[str]) -> tuple[list[str], list[str]]:
    """The lines of a plan in a drawn table, or the table as CSV; and the lines below it."""
    bar = len(heading) - len(heading.lstrip())
    if heading[bar : bar + 1] in _CLOSING and rule[:bar].strip():
        # The first column has row numbers and no name.
        heading, rule, *body = (line[bar + 1 :] for line in (heading, rule, *body))
    # Polars writes the types of columns below their names.
    body = body[1:] if "┆" in rule else body
    is_framed = heading.lstrip()[:1] in _CLOSING
    names = _split(heading, is_framed)
    body = _without_rules(body)
    if len(names) == 1 and not re.search(r"[-=]\s+[-=]", rule.strip()):
        margin = len(rule) - len(rule.lstrip())
        body = [line if line[:margin].strip() else line[margin:] for line in body]
        return _column_lines(body), []
    starts = [dashes.start() for dashes in re.finditer(r"[-═─━=:]+", rule)]
    has_bars = any(bar in heading for bar in _BARS)
    if not has_bars:
        names = [name.strip() for name in _cells_at(heading, starts)]
    rows, rest = _body_rows(body, len(names), starts, is_framed, has_bars)
    if rule.lstrip().startswith("|") and "+" not in rule:
        rows = [list(map(unescaped, row)) for row in rows]
    return as_lines(names, rows), rest


def _column_lines(body: list[str]) -> list[str]:
    """The text in the only column of a table, without bars and continuation marks."""
    body = [line.lstrip()[1:] if line.lstrip()[:1] in _CLOSING else line for line in body]
    if all(line.rstrip()[-1:] in _CLOSING for line in body if line.strip()):
        body = [line.rstrip()[:-1] for line in body]
    # A blank precedes the text, or the mark of a continuation line.
    is_padded = all(line.startswith((" ", *_WRAPS)) for line in body if line.strip())
    lines: list[str] = []
    for line in body:
        mark = line[:1]
        line = _without_mark(line[1:] if is_padded else line)
        # psql's format "wrapped" marks the end of a line that continues and the start of the next.
        if is_padded and mark in _WRAPS and lines and lines[-1].endswith(mark):
            lines[-1] = lines[-1].removesuffix(mark) + line
        else:
            lines.append(line)
    return lines


def _without_mark(line: str) -> str:
    """The text of a line, without the mark that the next line continues it."""
    line = line.rstrip()
    return line[:-1].rstrip() if line.endswith(_CONTINUED) else line


def _cells_at(line: str, starts: list[int]) -> list[str]:
    ends = [*starts[1:], len(line) + 1]
    return [line[start:end].strip(_BARS) for start, end in zip(starts, ends, strict=True)]


def _split(line: str, is_framed: bool) -> list[str]:
    parts = re.split(f"[{_BARS}]", line)[is_framed:]
    # Framed tables and DBeaver have a bar after the last column.
    if len(parts) > 1 and not parts[-1].strip():
        parts = parts[:-1]
    return [part.strip() for part in parts]


def _body_rows(
    body: list[str], columns: int, starts: list[int], is_framed: bool, has_bars: bool
) -> tuple[list[list[str]], list[str]]:
    """Cells by row, and the lines below the table; a cell contains all its continuation lines."""
    rows: list[list[str]] = []
    is_continued = is_apart = False
    for at, line in enumerate(body):
        if has_bars and not line.strip():
            is_apart = True
            continue
        cells = _split(line, is_framed)
        # Text below a table has no bars; a row or a narrower table may follow a blank line.
        is_narrow = is_apart and len(cells) < columns
        is_below = is_narrow or not any(bar in line for bar in _BARS)
        if not line.strip() or (has_bars and is_below and not is_continued):
            return rows, body[at:]
        is_apart = False
        if not (has_bars and len(cells) == columns) and len(starts) == columns:
            # A line that is cut lacks the last columns; an empty last column may be omitted.
            cells = _cells_at(line, starts)[: sum(start <= len(line) for start in starts) + 1]
        cells = [cell.rstrip() for cell in cells] + [""] * (len(cells) == columns - 1)
        continues = any(cell.endswith(_CONTINUED) for cell in cells)
        cells = [_without_mark(cell).strip() for cell in cells]
        if rows and is_continued:
            pairs = zip(rows[-1], cells, strict=False)
            rows[-1] = [f"{cell}\n{more}" if more else cell for cell, more in pairs]
        else:
            rows.append(cells)
        is_continued = continues
    return rows, []


def headless(lines: list[str]) -> list[str] | None:
    """Records without a heading: a name and a value per line, as from ``psql -xt`` and CSV."""
    if any(map(_RECORD.fullmatch, lines)):
        return None
    full = [line for line in lines if line.strip() and not is_rule(line)]
    if all(line.rstrip().endswith(_CLOSING) for line in full):
        full = [line.rstrip()[:-1].rstrip() for line in full]
    # QUERY PLAN that no plan follows is the heading of a table.
    begin = next((at for at, line in enumerate(full) if _NAMED_PLAN.match(line)), 0)
    above, full = full[:begin], full[begin:]
    first = _NAMED.match(full[0]) if full else None
    if first is None:
        return None
    name, separator = first["name"], first["separator"]
    if _NAMED_PLAN.match(full[0]) is None:
        # In a description of columns, the values are words.
        values = {m["name"]: m.string[m.end() :] for line in full if (m := _NAMED.match(line))}
        names = {name for name, value in values.items() if re.match(r'[ "]*\d', value)}
        if not {"calls", "temp_blks_written"} <= names:
            return None
    elif not re.search("[|│] | [|│]", separator):
        # Continuation lines of a value are unindented, or have blanks below the name.
        width = first.end()
        return above + [
            line[width:]
            if _NAMED.match(line) or (separator == " " and not line[:width].strip())
            else line
            for line in full
        ]
    records: list[str] = []
    for line in full:
        match = _NAMED.match(line)
        if match is not None and match["name"] == name:
            records.append("-[ RECORD 1 ]-")
        if match is not None and match["separator"].strip("|│ "):
            value = line[match.end() :].strip('"')
            line = f"{match['name']:<63} | {value}"
        records.append(line)
    return above + records


def column(lines: list[str]) -> list[str] | None:
    """A plan in the only column of a table without a heading and a rule below it.

    Its lines end with a bar, as in Jira, or with psql's continuation mark, which directly follows
    the longest line.
    """
    full = [line.rstrip() for line in lines if line.strip() and not is_rule(line)]
    ended = [at for at, line in enumerate(full) if line.endswith((*_CLOSING, *_CONTINUED))]
    if len(ended) < 2 or len(ended) <= ended[-1] - ended[0]:
        return None
    # The last line has no continuation mark.
    begin, end = ended[0], ended[-1] + 1 + (not full[ended[-1]].endswith(_CLOSING))
    cells = _column_lines(full[begin:end])
    cells = cells[cells[0].strip() == "QUERY PLAN" :]
    is_plan = bool(cells) and _PLAN_START.match(cells[0].lstrip()) is not None
    return [*full[:begin], *cells, *full[end:]] if is_plan else None


def expanded(lines: list[str]) -> list[str] | None:
    """Records of psql, MySQL or ClickHouse with one line for each column."""
    has_colons = any(map(_COLON_RECORD.fullmatch, lines))
    heading, read = (_COLON_RECORD, _colon_record) if has_colons else (_RECORD, _bar_record)
    begins = [at for at, line in enumerate(lines) if heading.fullmatch(line)]
    records, width = list[dict[str, str]](), 0
    for begin, end in pairwise([*begins, len(lines)]):
        record, width = read(lines[begin + 1 : end], width)
        records.append(record)
    if not records or not records[0]:
        return None
    rows = [[record[name] for name in records[0] if name in record] for record in records]
    return [*lines[: begins[0]], *as_lines(list(records[0]), rows)]


def _colon_record(lines: list[str], width: int) -> tuple[dict[str, str], int]:
    """The values by name of a record with colons, and the width of the last name."""
    record, name = dict[str, str](), ""
    for line in lines:
        match = _COLON_FIELD.fullmatch(line)
        # A name with blanks must end in the column of previous names: values have blanks, too.
        if match is not None and (" " not in match[1] or match.end(1) == width):
            name, width = match[1], match.end(1)
            record[name] = (match[2] or "").strip()
        elif name and line.strip() and not _SET.match(line):
            record[name] += "\n" + line
    return record, width


def _bar_record(lines: list[str], width: int) -> tuple[dict[str, str], int]:
    """The values by name of a record with bars, and the width of names, 0 if unknown."""
    record, name = dict[str, str](), ""
    for line in lines:
        inner = line.rstrip()
        if not inner or _is_end(line):
            continue
        if inner.lstrip()[:1] in _CLOSING and inner[-1:] in _CLOSING:
            inner = inner.lstrip()[1:-1]
        field, bar, value = _field(inner, width)
        if not bar:
            continue
        width, value = width or len(field), value.removeprefix(" ")
        if field.strip():
            name = field.strip()
            record[name] = _without_mark(value)
        elif name and value[:1] in _WRAPS and record[name].endswith(value[0]):
            record[name] = record[name][:-1] + _without_mark(value[1:])
        elif name:
            record[name] += "\n" + _without_mark(value)
    return record, width


def _field(line: str, width: int) -> tuple[str, str, str]:
    """A name, the separator or "", and a value; ``width`` is that of previous names, or 0."""
    if not line[:width].strip() and line[width : width + 1] in (":", ";"):
        # The mark of psql's linestyle "old-ascii" for a value that continues, or was wrapped.
        return line[:width], ":", line[width + 1 :]
    at = min((place for bar in _BARS if (place := line.find(bar)) >= 0), default=-1)
    if at >= 0 and (not width or at <= width + 1):
        return line[:at], "|", line[at + 1 :]
    if match := re.match(r"(QUERY PLAN) (.*)|(\S+|\s+) +(.*)", line):
        return match[1] or match[3], " ", match[2] or match[4] or ""
    return line, "", ""


def as_lines(names: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of the only column, or a table with several columns as CSV."""
    if len(names) == 1:
        return [line for row in rows for cell in row for line in cell.split("\n")]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(
        [_ROUNDED.sub(r"\1", cell) if " -- " in cell else cell for cell in row] for row in rows
    )
    return out.getvalue().split("\n")


def named(lines: list[str]) -> list[str] | None:
    """CSV with names in words, such as Temp Blks Read, with the columns' own names."""
    heading = re.sub(r"(?<=\w) (?=\w)", "_", lines[0]).lower()
    is_heading = _HEADING_IN_WORDS.fullmatch(lines[0]) and EXPORTED_COLUMNS.search(heading)
    return None if not is_heading or EXPORTED_COLUMNS.search(lines[0]) else [heading, *lines[1:]]


#: The mark before a cell, with its alignment and style.
_ASCIIDOC_CELL = re.compile(r"(?:^| )[<>^]?[a-z]?\|", re.MULTILINE)


def asciidoc(lines: list[str]) -> list[str] | None:
    """AsciiDoc as written by psql: a table with its heading in one line."""
    rules = [at for at, line in enumerate(lines) if re.fullmatch(r"\|={3,}\s*", line)]
    body = lines[rules[0] + 1 : rules[-1]] if len(rules) > 1 else []
    width = sum(1 for _ in _ASCIIDOC_CELL.finditer(next(filter(str.strip, body), "")))
    if not width:
        return None
    _, *cells = _ASCIIDOC_CELL.split("\n".join(body))
    cells = [cell.strip("\n").replace("\\|", "|") for cell in cells]
    names, *rows = (cells[at : at + width] for at in range(0, len(cells), width))
    above = [line for line in lines[: rules[0]] if line[:1] != "["]
    # psql writes the number of rows below the table, between lines of dots.
    below = [line for line in lines[rules[-1] + 1 :] if line.strip(".")]
    return [*above, *as_lines(names, rows), *below]


def plan_page(lines: list[str]) -> list[str] | None:
    """The plan in the last column of explain.depesz.com; its text does not indent nodes."""
    begin = next((at for at, line in enumerate(lines) if _PLAN_PAGE.match(line)), None)
    if begin is None:
        return None
    below = [_BULLET.sub("  ", _PAGE_FIGURES.sub("", line)) for line in lines[begin + 1 :]]
    is_node = [re.match(r"\S[^(]*\((?:cost=|actual )", line) is not None for line in below]
    top = is_node.index(True) if any(is_node) else len(below)
    return [f"-> {line}" if is_node[at] and at > top else line for at, line in enumerate(below)]
