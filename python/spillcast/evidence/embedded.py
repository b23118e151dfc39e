"""Extracts text that is a value: in records of loggers, in JSON or in program code.

Each public function returns the lines of the text, or None without any, as those of ``unwrap``.
"""

import csv
import json
import re
from contextlib import suppress
from typing import Any

from spillcast.evidence.table_rows import EXPORTED_COLUMNS, TABLE, cells_of, records_of, unescaped
from spillcast.evidence.text import json_or_none

Lines = list[str]
#: Lines with figures; they decide whether a text is wrapped.
FIGURES = re.compile(
    r"\(cost=|\(actual|Buffers:|Sort Method|Execution [Tt]ime|Total runtime|temp_blks|\bLOG:  "
    r"|\"(?:Plan|Node Type|Temp \w+ Blocks)\"|Node Type:|Node-Type"
    r"|direct path (?:read|write) temp|\(cr=\d|\|\*?\s+\d+ \||<ShowPlanXML "
)
#: Parts that only lines of a plan have.
LINE_OF_PLAN = re.compile(
    r"\(cost=\d|\(actual |Buffers: |Sort Method: |(?:Execution [Tt]ime|Total runtime): "
)
#: The start of a line of an extended SQL trace, and of an event of Spark.
_LINE_OF_TRACE = r"(?:WAIT|PARSE|EXEC|FETCH) #\d+: ?\w+="
LINE_OF_EVENT = r"\{\"Event\": ?\"(?:SparkListener|org\.apache\.spark)"
_LINE_OF_LOG = re.compile(f"{_LINE_OF_TRACE}|{LINE_OF_EVENT}")
#: What remains of a string without an end, and a mark of omitted strings.
_CUT = re.compile(r"\"|\.{3}|…")
CODE_FENCE = re.compile(
    r"\s*(?:```\w*|~~~\w*|\{code(?::[^}]*)?\}|\{noformat\}|\[/?code\]|\{% \w++[^%]*+%\})\s*"
)
#: The start of JSON, but not of a time or a prompt in brackets.
_JSON_START = re.compile(r"\s*(?:\{\s*(?:\"|$)|\[\s*(?:[\[{\"]|$))")
#: The first lines of JSON, which have the names of a row.
_HEAD_LINES = 100
#: A line of logfmt, and the message in it.
_LOGFMT = re.compile(r"(?>[\w.]+=(?:\"(?>[^\"\\]|\\.)*+\"|[^\s\"]*+)(?:\s++|$))++")
_MESSAGE = re.compile(r"(?:^|\s)(?:msg|message|log|line)=\"((?>[^\"\\]|\\.)*+)\"")
#: The heading of a CSV export of a logger.
_HEADING_OF_LOG = re.compile(
    r"\"?[@\w][\w@. \[\]()/%-]*+\"?(?>[,;\t]\"?[@\w][\w@. \[\]()/%-]*+\"?)*+"
)
#: The field with the host, container, file or process of a record.
_ORIGIN = re.compile(
    r"(?:.*[._@])?(?:host|pod|container|file|path|instance|stream|log_?stream|process)"
    r"(?:_?name|_?id)?|(?:.*[._@])?pid",
    re.IGNORECASE,
)
#: Messages of a server, whose records have more fields than the text.
SERVER_MESSAGE = re.compile(
    r"LOG:  |\"(?:error_severity|textPayload|log)\":|duration: [\d.]+ ms\s+plan:"
)
_OF_SERVER = re.compile(r"[^\W\d_]{3}: {2}|\"error_severity\":|\bms\s+[Pp]lan:")
#: The longest program code that is searched for plans.
_CODE_LENGTH = 4 << 20
#: Tokens of Python, JavaScript, Ruby, Java, C# and Rust that JSON lacks or spells differently.
#: Unclosed tokens end with their line or do not match, which keeps matching linear in time.
_TOKEN = re.compile(
    r"(?P<string>(?:\b[rRbBuUfF]{1,2}|[@$])?(?:"
    r"(?<=\br)#\"(?>[^\"]|(?<!#)\"(?!#))*+\"#|"
    r"\"{3}(?>[^\"\\]|\\.|\"(?!\"\"))*+\"{3}|(?<=@)\"(?>[^\"]|\"\")*+\""
    r"|\"(?>[^\"\\\n]|\\.|\"\")*+\"|(?:(?<!\w)|(?<=\b[rRbBuUfF]))'(?>[^'\\\n]|\\.)*+'|`[^`]*+`))"
    r"(?P<colon>\s*+(?::(?!:)|=>))?"
    r"|[{}]|\\.|(?://|--|(?<=\s)# )[^\n]*+|/\*.{,2000}?\*/|,(?=\s*+[\]}])|(?<=\d)_(?=\d)"
    r"|\b(?:datetime\.)?datetime\((?P<time>[\d, ]++)\)|\bDecimal\(['\"](?P<decimal>[\d.]++)['\"]\)"
    r"|(?P<key>(?<=[{,\s])[A-Za-z_$][\w$]*+)(?=\s*+:)"
    r"|(?<=[{,\s]):(?P<symbol>[A-Za-z_]\w*+)\s*+=>|\b(?:None|nil|undefined|True|False)\b",
    re.DOTALL,
)
_CONSTANTS = {"None": "null", "nil": "null", "undefined": "null", "True": "true", "False": "false"}
#: Keys of a plan, of a row of pg_stat_statements, ClickHouse's log or a view of Oracle's waits, and
#: of a profile of DuckDB, with ``inner`` for a key inside of it.
_KEY = re.compile(
    r'"(?:Plan|query_duration_ms|temp_blks_(?:written|read)|(?i:total_waits|sample_time)'
    r'|(?P<inner>(?:system_)?peak_temp_dir_size))"'
)
#: Text that occurs only in plans, traces, event logs of Spark and JSON of fio.
_ONLY_IN_EVIDENCE = re.compile(
    r"\(cost=|\(actual |\"(?:Plan|query_block)\"|Node Type|Node-Type|\|\*?\s+\d+ \|"
    rf"|Execution [Tt]ime:|Total runtime:|<ShowPlanXML |{_LINE_OF_TRACE}|{LINE_OF_EVENT}"
    r"|\"fio version\\?\""
)
#: The result of a task of Ansible behind the name of its host, or without it.
_TASK_RESULT = re.compile(
    r"^(?:ok|changed|fatal|failed): \[[^\]\n]+\]:?(?: [^\n{]+)? =>\s*+(?=\{)|\A(?=\{)", re.MULTILINE
)
_STRING_SEPARATOR = re.compile(r"[\"'] *[,;|\t] *[\"']")
_OPENING_QUOTE = re.compile(r"[\s\[(]*[\"']")
_WORD = re.compile(r"[^\W\d]")
#: The name of a plan's column; the start of a row as PHP, Java and Go print it, and what closes one
#: below it or at its end.
_PLAN_COLUMN = "QUERY PLAN"
_PRINTED_ROW = re.compile(
    rf"^[ \t]*+(?P<line>\[{_PLAN_COLUMN}\] => )|\{{{_PLAN_COLUMN}=|\bmap\[{_PLAN_COLUMN}:",
    re.MULTILINE,
)
_CLOSED_BELOW, _CLOSED = re.compile(r"\s*(?:\)|\Z)"), re.compile(r"[\]}][\],]? *$")
#: An operator that concatenates two strings.
_CONCATENATED = re.compile(r"\s*\+\s*[@$rRbBuUfF]{,2}[\"'`]")


def logfmt(lines: Lines) -> Lines | None:
    """Extracts the messages from logfmt (``name=value``); a message may have several lines."""
    full = [line for line in lines if line.strip()]
    messages = [match for line in full if (match := _MESSAGE.search(line)) is not None]
    if not messages or not all(map(_LOGFMT.fullmatch, full)):
        return None
    return "\n".join(unescaped(match[1]).rstrip("\n") for match in messages).split("\n")


def data_in_text(lines: Lines) -> Lines | None:
    """Extracts JSON with figures, or a fenced log in CSV, from a text without other figures."""
    fences = [at for at, line in enumerate(lines) if CODE_FENCE.fullmatch(line)]
    if len(fences) == 2:
        begin, end = fences[0] + 1, fences[1]
    else:
        begin = next((at for at, line in enumerate(lines) if _JSON_START.match(line)), len(lines))
        ends = [at + 1 for at, line in enumerate(lines) if line.rstrip()[-1:] in ("]", "}")]
        end = ends[-1] if ends else 0
    data, outside = lines[begin:end], [*lines[:begin], *lines[end:]]
    is_cut = any(map(_JSON_START.match, outside))
    if is_cut or not any(map(str.strip, outside)) or any(map(FIGURES.search, outside)):
        return None
    text = "\n".join(data).strip()
    is_log = SERVER_MESSAGE.search(text) is not None
    if _JSON_START.match(text):
        has_figures = FIGURES.search(text) or EXPORTED_COLUMNS.search(" ".join(data[:_HEAD_LINES]))
        is_known = is_log or has_figures is not None
        is_data = is_known and (json_or_none(text) is not None or bool(_json_records(text)))
    else:
        heading = text.partition("\n")[0].rstrip()
        is_table = _HEADING_OF_LOG.fullmatch(heading) and re.search(r"[,;\t]", heading)
        is_data = is_log and bool(is_table)
    return text.split("\n") if is_data else None


def logged_records(lines: Lines) -> Lines | None:
    """Extracts a program's output from a logger's records in JSON or CSV: the field with figures.

    A server's messages are read with the other fields of their records.
    """
    text = "\n".join(lines).strip()
    columns: dict[str, list[str]] = {}
    rows = _json_records(text) if text[:1] in ("[", "{") else _csv_records(text)
    if not rows or _OF_SERVER.search(text):
        return None
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str):
                columns.setdefault(name, []).append(value)
    if EXPORTED_COLUMNS.search(" ".join(columns)):
        return None
    # A logger may repeat the message in another field.
    with_figures = {
        tuple(values) for values in columns.values() if any(map(_ONLY_IN_EVIDENCE.search, values))
    }
    # A record without the field would be a missing line.
    messages = with_figures.pop() if len(with_figures) == 1 else ()
    if len(messages) != len(rows) or len(rows) < 2 or _have_several_origins(rows):
        return None
    return "\n".join(message.removesuffix("\n") for message in messages).split("\n")


def _have_several_origins(rows: list[dict[str, Any]]) -> bool:
    """Whether records are of several hosts, containers, files or processes."""
    names = {name for row in rows for name in filter(_ORIGIN.fullmatch, row)}
    return any(len({str(row[name]) for row in rows if name in row}) > 1 for name in names)


def _json_records(text: str) -> list[dict[str, Any]]:
    """The objects of a JSON document, or of a text with one in each line; else empty."""
    document = json_or_none(text)
    if document is None:
        rows = [json_or_none(line) for line in text.split("\n") if line.strip()]
    else:
        rows = document if isinstance(document, list) else records_of(document)
    return rows if all(isinstance(row, dict) for row in rows) else []


def _csv_records(text: str) -> list[dict[str, Any]]:
    """The rows of CSV below a heading; empty if a row is cut."""
    if not _HEADING_OF_LOG.fullmatch(text.partition("\n")[0]):
        return []
    with suppress(csv.Error):
        names, *rows = filter(None, cells_of(text))
        if all(len(row) == len(names) for row in rows):
            return [dict(zip(names, row, strict=True)) for row in rows]
    return []


def task_result(lines: Lines) -> Lines | None:
    """The output in the result of a task: its standard output, or the only text that it has."""
    text = "\n".join(lines).lstrip()
    results = list(_TASK_RESULT.finditer(text))
    if len(results) != 1:
        return None
    begin = results[0].end()
    try:
        result, end = json.JSONDecoder().raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    outside = text[:begin] + text[end:]
    is_result = begin > 0 or result.keys() >= {"rc", "stdout"}
    if not is_result or "{" in outside or FIGURES.search(outside):
        return None
    parts = [value for value in result.values() if value and isinstance(value, str | list | dict)]
    output = result.get("stdout") or (parts[0] if len(parts) == 1 else None)
    if isinstance(output, list) and all(isinstance(line, str) for line in output):
        return output
    return output.split("\n") if isinstance(output, str) else None


def string_list(lines: Lines) -> Lines | None:
    """The lines of a list of strings, such as Python prints; JSON is read as it is."""
    text = "\n".join(lines).strip()
    is_list = text[:1] + text[-1:] in ("[]", "()") and len(text) <= _CODE_LENGTH
    if not is_list or json_or_none(text) is not None:
        return None
    strings = [token["string"] for token in _TOKEN.finditer(text) if token["string"]]
    rest = _TOKEN.sub(lambda token: "" if token["string"] else token[0], text[1:-1])
    texts = (_string_value(string).rstrip("\n") for string in strings)
    return None if rest.strip(", \n") or not strings else "\n".join(texts).split("\n")


def printed_rows(lines: Lines) -> Lines | None:
    """The lines of a plan in rows that a program printed without quotes."""
    text = "\n".join(lines)
    starts = list(_PRINTED_ROW.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    parts = [
        text[start.end() : end].partition("\n") for start, end in zip(starts, ends, strict=False)
    ]
    outside = [text[: starts[0].start()] if starts else "", *(below for _, _, below in parts)]
    if len(parts) < 2 or any(map(FIGURES.search, outside)):
        return None
    rows = []
    for start, (row, _, below) in zip(starts, parts, strict=True):
        # A row that is not closed continues in the next line.
        closed = _CLOSED_BELOW.match(below) if start["line"] else _CLOSED.search(row)
        if closed is None:
            return None
        rows.append(row if start["line"] else row[: closed.start()])
    return rows


def plans_in_code(lines: Lines) -> Lines | None:
    """Extracts plans, rows or a table of statements, and plan texts from JSON or program code."""
    text = "\n".join(lines).strip()
    if len(text) > _CODE_LENGTH:
        return None
    if (whole := _TOKEN.fullmatch(text)) and whole["string"] == text:
        return _string_value(text).split("\n")
    is_log = SERVER_MESSAGE.search(text) is not None
    # A report, or the messages of a log in code, may have quotes around each line. Code and rows of
    # strings are searched for plans.
    quoted = list(filter(FIGURES.search if is_log else str.strip, lines))
    are_strings = quoted != [] and all(map(_OPENING_QUOTE.match, quoted))
    is_quoted = are_strings and not _STRING_SEPARATOR.search(text)
    if is_log and (not is_quoted or json_or_none(text) is not None):
        return None
    code = _Code(text)
    if code.records:
        # A text that is only JSON is read as it is.
        is_json = code.is_cut or json_or_none(text) is not None
        return None if is_json else json.dumps(code.records, indent=1).split("\n")
    texts = code.only_text(FIGURES if is_quoted else _ONLY_IN_EVIDENCE)
    return texts.split("\n") if texts else None


class _Code:
    """Program code or JSON, read in linear time: its records, its strings, and what is outside."""

    def __init__(self, text: str) -> None:
        #: The objects with a plan or a row of statements.
        self.records: list[Any] = []
        #: Adjacent strings are joined if only punctuation is between them.
        self.strings: list[str] = []
        #: Whether a plan or a row is cut or broken, or a plan is outside of the records.
        self.is_cut = False
        #: Whether names of columns of statements occur, in a record or as text.
        self._has_rows = "temp_blks_" in text
        #: The text as JSON, the open braces' positions in it, and the depth of the current record.
        self._plain: list[str] = []
        self._braces: list[int] = []
        self._record: int | None = None
        outside: list[str] = []
        end, is_apart = 0, True
        for token in _TOKEN.finditer(text):
            between, end = text[end : token.start()], token.end()
            is_apart = is_apart or _WORD.search(between) is not None
            self.is_cut |= "temp_blks_" in between
            self._plain.append(between)
            outside.append(between)
            if token["string"] is None:
                self._add_sign(token)
            elif token["colon"] is None:
                joins = _CONCATENATED.match(text, end) is not None
                self._add_string(_string_value(token["string"]), is_apart=is_apart, joins=joins)
                is_apart = False
                continue
            else:
                name = json.dumps(_string_value(token["string"]))
                self._plain += [name, ":"]
                outside.append(name)
            self._begin_record()
        self._outside = "".join([*outside, text[end:]])
        # Data closes its braces; code may be an excerpt.
        is_open = self._braces != [] and text[0] in "[{"
        self.is_cut |= self._record is not None or None in self.records or is_open
        self.is_cut |= self.records != [] and LINE_OF_PLAN.search(self._outside) is not None

    def _add_string(self, inner: str, *, is_apart: bool, joins: bool) -> None:
        """Adds a string that is no key; rows or a profile may be JSON in it, a plan is text."""
        self._plain.append(json.dumps(inner))
        rows = json_or_none(inner) if re.search('"temp_blks_|_temp_dir_', inner) else None
        rows = rows if isinstance(rows, list) else [rows]
        self.records += [row for row in rows if isinstance(row, dict)]
        if inner == _PLAN_COLUMN:
            return
        self.strings += [""] * (is_apart or not self.strings)
        self.strings[-1] += inner if joins or inner.endswith("\n") else inner + "\n"

    def _add_sign(self, token: re.Match[str]) -> None:
        """Adds a token that is no string, as JSON spells it; a brace may end the record."""
        if (name := token["key"]) is not None:
            self._plain.append(f'"{name}"')
        elif token["symbol"]:
            self._plain += [f'"{token["symbol"]}"', ":"]
        elif token["time"] or token["decimal"]:
            self._plain.append(token["decimal"] or json.dumps(_time(token["time"])))
        elif token[0] == "{":
            self._braces.append(len(self._plain))
            self._plain.append("{")
        elif token[0] == "}":
            self._plain.append("}")
            begin = self._braces.pop() if self._braces else len(self._plain)
            if self._record is not None and len(self._braces) < self._record:
                self._record = None
                self.records.append(json_or_none("".join(self._plain[begin:])))
        else:
            self._plain.append(_CONSTANTS.get(token[0], ""))

    def _begin_record(self) -> None:
        """Begins a record if the last token is its key."""
        last = self._plain[-1 - (self._plain[-1] == ":")]
        if self._record is None and self._braces and (key := _KEY.fullmatch(last)):
            self._record = 1 if key["inner"] else len(self._braces)

    def only_text(self, figures: re.Pattern[str]) -> str:
        """The only table of statements, or the strings of a plan, if all figures are in strings.

        The strings of a plan are those from the first with figures to the last.
        """
        places = [at for at, string in enumerate(self.strings) if figures.search(string)]
        if self.is_cut or figures.search(self._outside):
            return ""
        if self._has_rows:
            tables = [string for string in self.strings if TABLE.search(string)]
            is_only = len(tables) == 1 and all(self.strings[at] in tables for at in places)
            return tables[0] if is_only and "temp_blks_" not in self._outside else ""
        if not places:
            return ""
        if _LINE_OF_LOG.search(self.strings[places[0]]):
            # A string without an end, a mark of omission or code between strings: lines are lost.
            is_whole = len(places) == 1 and not _CUT.search(self._outside)
            return self.strings[places[0]] if is_whole else ""
        return "".join(self.strings[places[0] : places[-1] + 1])


def _time(numbers: str) -> str:
    """The text of a time in Python: year, month, day, hour, minute, second and microsecond."""
    parts = [int(part) for part in numbers.split(",") if part.strip()]
    year, month, day, hour, minute, second, part_us = [*parts, 0, 0, 0, 0, 0, 0, 0][:7]
    return f"{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{part_us:06}"


def _string_value(quoted: str) -> str:
    """The value of a string literal; quotes are doubled in a verbatim literal (C#) and in SQL."""
    quote = quoted.strip("@$rRbBuUfF#")
    width = 3 if quote[:3] in ('"""', "'''") and len(quote) > 5 else 1
    inner = quote[width:-width]
    if quoted[0] == "@":
        return inner.replace('""', '"')
    return unescaped(inner.replace('""', '"') if width == 1 and quote[0] == '"' else inner)


def broken_json(lines: Lines) -> Lines | None:
    """Joins JSON that a terminal broke at its width, even in strings; trailing blanks are lost."""
    text = "\n".join(lines).strip()
    *broken, last = text.split("\n")
    width = max(map(len, broken), default=0)
    # With fewer lines the width is uncertain: each line may have lost a trailing blank.
    is_broken = len(broken) > 3 and min(map(len, broken)) >= width - 2
    if text[:1] not in ("[", "{") or not is_broken or json_or_none(text) is not None:
        return None
    joined = "".join(line.ljust(width) for line in broken) + last
    return None if json_or_none(joined) is None else [joined]
