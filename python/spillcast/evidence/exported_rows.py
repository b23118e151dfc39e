"""Reads what Oracle's clients and IDEs write as commands, records or several lines each."""

import re
from collections import Counter
from itertools import chain, groupby, takewhile

from spillcast.evidence.table_rows import EXPORTED_COLUMNS
from spillcast.evidence.tables import as_lines

_INSERT = re.compile(r"\binsert\s+into\s[^()]{1,200}\(([^()]*)\)\s*values\b", re.IGNORECASE)
#: A column of a record beside its value, as in print_table and in SQL Developer's XML, and its end.
_BESIDE = re.compile(
    r"\s*(?:([A-Z][\w$#]*+) *: ?(.*)|<COLUMN NAME=\"([^\"]+)\"><!\[CDATA\[(.*)\]\]></COLUMN>)\s*"
)
#: The number of first lines in which a record begins.
_SEARCHED_MAX = 1000
#: The end of a record; without any, as in PowerShell, blank lines end them.
_RECORD_END, _BLANK = re.compile(r"\s*(?:-{5,}|={5,}|</ROW>)\s*"), re.compile(r"\s*")
#: A field of a record in YAML, which begins a record or not. Values of other forms do not match.
_VALUE = r"(\w[\w$#]*+) *+:(?: ++((?![|>\[{&*!#])[^#]*+))?"
_ITEM, _FIELD = re.compile(rf"( *)- {_VALUE}"), re.compile(rf"( +){_VALUE}")
#: A field of psql's expanded output, or the rest of its value.
_BARRED = re.compile(r"\s*+(?:([a-z_]\w*+) *+)?[|│]")
#: A column of statements as tempBlksRead or Temp Blks Read, in a heading or as a key of JSON.
_SPELLED_COLUMN = re.compile(
    r"(?:^(?=(?:[^|,;\t]*[|,;\t]){2}).*\b|\")[tT]emp ?Bl(?:oc)?ks ?(?:Read|Written)\b"
)
_SPELLED_KEY = re.compile(r'(?<!\\)"[A-Za-z]+(?: [A-Za-z]+)*"(?=\s*:)')
#: The end of a word in a name, and the blank below it.
_WORD_END = re.compile(r"(?<=[a-z])(?: (?=[A-Za-z(])|(?=[A-Z]))")
_UNDERLINES = re.compile(r"\s*-+(?: +-+)*\s*")
#: A conversion to a time or a literal of a time, without its quotes.
_TIME_IN_SQL = re.compile(
    r"^(?:to_(?:date|timestamp)\w*\((.*),[^,]*\)|(?:date|timestamp)(\d.*))$", re.IGNORECASE
)
_XML_REPORT = re.compile(r"<(?:report|sql_monitor_report)\b")
_BROKEN_MIN = 3
_SQL_TOKEN = re.compile(r"'(?>[^']|'')*+'|['(),;]|[^'(),;]++")


def inserts(lines: list[str]) -> list[str] | None:
    """Rows of statements in INSERT commands, as IDEs export them."""
    _, *parts = _INSERT.split("\n".join(lines))
    if len(set(parts[::2])) != 1 or not EXPORTED_COLUMNS.search(parts[0].replace("\n", " ")):
        return None
    rows: list[list[str]] = []
    depth = 0
    for body in parts[1::2]:
        for token in _SQL_TOKEN.findall(body):
            depth += (token == "(") - (token == ")")
            if token == "'":
                # A string has no end.
                return None
            if token == "(" and depth == 1:
                rows.append([""])
            elif token == "," and depth == 1:
                rows[-1].append("")
            elif depth > 0:
                rows[-1][-1] += token[1:-1].replace("''", "'") if token[0] == "'" else token.strip()
    if depth:
        return None
    rows = [
        [_TIME_IN_SQL.sub(r"\1\2", cell) if cell[:1] in "tTdD" else cell for cell in row]
        for row in rows
    ]
    return as_lines([name.strip(' "`\n') for name in parts[0].split(",")], rows)


def beside(lines: list[str]) -> list[str] | None:
    """Records with the name of each column beside its value, as CSV."""
    fields = filter(None, map(_BESIDE.fullmatch, lines[:_SEARCHED_MAX]))
    if not EXPORTED_COLUMNS.search(" ".join(field[1] or field[3] for field in fields)):
        return None
    others: list[str] = []
    records: list[dict[str, str]] = [{}]
    end = _RECORD_END if any(map(_RECORD_END.fullmatch, lines)) else _BLANK
    for line in lines:
        if end.fullmatch(line):
            records.append({})
        elif (field := _BESIDE.fullmatch(line)) and (name := field[1] or field[3]):
            if name in records[-1]:
                # The end of a record is missing.
                return None
            records[-1][name] = (field[2] or field[4] or "").strip()
        elif records[-1] and line.strip():
            # A value continues.
            return None
        else:
            others.append(line)
    *ended, rest = records
    ended = [record for record in ended if record]
    names = list(ended[0]) if ended else []
    # Without the end of its last record a text is cut.
    if rest or any(list(record) != names for record in ended):
        return None
    return [*others, *as_lines(names, [list(record.values()) for record in ended])]


def spelled(lines: list[str]) -> list[str] | None:
    """Rows of statements with tempBlksRead or Temp Blks Read as a name, which is temp_blks_read."""

    def snake_case(text: str) -> str:
        return _WORD_END.sub("_", text).lower()

    at = next((at for at, line in enumerate(lines) if _SPELLED_COLUMN.search(line)), None)
    if at is None:
        return None
    if _SPELLED_KEY.search(lines[at]):
        return [_SPELLED_KEY.sub(lambda key: snake_case(key[0]), line) for line in lines]
    # In JSON a heading may have its rows beside it.
    heading, end, rows = lines[at].partition("]" if lines[at].startswith("[") else "\n")
    return [*lines[:at], snake_case(heading) + end + rows, *lines[at + 1 :]]


def record_in_text(lines: list[str]) -> list[str] | None:
    """Records of psql without their headings, a name and a bar in each line, amid other text."""
    fields = {at: field[1] for at, line in enumerate(lines) if (field := _BARRED.match(line))}
    names = Counter(filter(None, fields.values()))
    if not {"calls", "temp_blks_written"} <= names.keys() or len(set(names.values())) > 1:
        return None
    begin, end = min(fields), max(fields) + 1
    record = [line for line in lines[begin:end] if line.strip()]
    outside = "".join([*lines[:begin], *lines[end:]])
    is_alone = len(record) == len(fields) and "|" not in outside
    return record if is_alone and outside.strip() else None


def listed(lines: list[str]) -> list[str] | None:
    """Records of a list in YAML as CSV; None for values of several lines, or that are no text."""
    first = next((at for at, line in enumerate(lines) if _ITEM.fullmatch(line)), len(lines))
    records: list[dict[str, str]] = []
    indent = ""
    for line in filter(str.strip, lines[first:]):
        item, field = _ITEM.fullmatch(line), _FIELD.fullmatch(line)
        if item and (not records or item[1] == indent):
            indent, field = item[1], item
            records.append({})
        if field is None or len(field[1]) != len(indent) + 2 * (item is None):
            return None
        _, name, value = field.groups()
        if name in records[-1]:
            return None
        records[-1][name] = (value or "").strip().strip("'\"")
    names = list(records[0]) if records else []
    if not EXPORTED_COLUMNS.search(" ".join(names)) or any(list(r) != names for r in records):
        return None
    return [*lines[:first], *as_lines(names, [list(record.values()) for record in records])]


def stacked(lines: list[str]) -> list[str] | None:
    """Rows of SQL*Plus that it prints in several lines, below as many headings with underlines."""

    def is_heading(at: int) -> bool:
        return bool(lines[at].strip()) and _UNDERLINES.fullmatch(lines[at + 1]) is not None

    places = range(len(lines) - 3)
    first = next((at for at in places if is_heading(at) and is_heading(at + 2)), None)
    if first is None:
        return None
    end = first + 4
    while end + 1 < len(lines) and is_heading(end):
        end += 2
    names, rules = lines[first:end:2], lines[first + 1 : end : 2]
    if not EXPORTED_COLUMNS.search(" ".join(names)):
        return None
    at_prompt = next((at for at in range(end, len(lines)) if lines[at].startswith("SQL>")), None)
    # Each page has the headings again.
    headings = {*names, *rules}
    body = (line for line in lines[end:at_prompt] if line not in headings)
    groups = groupby(body, lambda line: bool(line.strip()))
    parts = [list(part) for has_text, part in groups if has_text]
    count = sum(1 for _ in takewhile(lambda part: len(part) % len(names) == 0, parts))
    if any(len(part) > 1 for part in parts[count:]):
        # A line is missing, or is blank because all of its columns are null.
        return None
    table = chain(*parts[:count])
    rows = zip(*[table] * len(names), strict=True)
    widths = [len(rule.rstrip()) for rule in rules]
    joined = [
        " ".join(part.ljust(width) for part, width in zip(row, widths, strict=True))
        for row in (names, rules, *rows)
    ]
    below = [] if at_prompt is None else lines[at_prompt:]
    return [*lines[:first], *joined, *chain(*parts[count:]), *below]


def broken_xml(lines: list[str]) -> list[str] | None:
    """Joins lines of a report that SQL*Plus broke at its width, even within names and figures."""
    begin = next((at for at, line in enumerate(lines) if _XML_REPORT.match(line)), len(lines))
    width = max(map(len, lines[begin:]), default=0)
    whole: list[list[str]] = [[]]
    for line in lines[begin:]:
        whole[-1].append(line)
        if len(line) < width:
            whole.append([])
    # A single line of this length is not broken.
    is_broken = len(lines) - begin > len(whole) + _BROKEN_MIN
    return [*lines[:begin], *map("".join, whole)] if is_broken else None
