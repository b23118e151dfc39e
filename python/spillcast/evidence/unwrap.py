"""Removes what mail clients, terminals, pages and log shippers put around a text.

Each function in WRAPPINGS returns the lines without its wrapping, or None if the lines do not have
it. The first that applies is removed, until none applies: a quoted mail may contain a table of
psql.
"""

import csv
import html
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import dropwhile, pairwise
from textwrap import dedent
from typing import Any

from spillcast.evidence import exported_rows, tables
from spillcast.evidence.shippers import common_prefix, unshipper
from spillcast.evidence.table_rows import EXPORTED_COLUMNS, cells_of, records_of, unescaped
from spillcast.evidence.text import json_or_none

#: Texts and lines beyond these lengths are written by programs: only exports have a wrapping.
LENGTH_MAX, LINE_LENGTH_MAX = 16 << 20, 1 << 19
_WRAPPINGS_MAX = 16
#: A text counts as wrapped if at least this share of its lines with figures is.
_SHARE = 0.8
#: Lines with figures; they decide whether a text is wrapped.
FIGURES = re.compile(
    r"\(cost=|\(actual|Buffers:|Sort Method|Execution [Tt]ime|Total runtime|temp_blks|\bLOG:  "
    r"|\"(?:Plan|Node Type|Temp \w+ Blocks)\"|Node Type:|Node-Type"
    r"|direct path (?:read|write) temp|\(cr=\d|\|\*?\s+\d+ \||<ShowPlanXML "
)
#: A line that marks the place of omitted lines.
LEFT_OUT = re.compile(r"^(?=[^\w\n]*+$)[^\n]*?(?:\.{3}|…)", re.MULTILINE)
_LINE_OF_PLAN = re.compile(
    r"\(cost=\d|\(actual |Buffers: |Sort Method: |(?:Execution [Tt]ime|Total runtime): "
)
#: The start of a line of an extended SQL trace, and of an event of Spark.
_LINE_OF_TRACE = r"(?:WAIT|PARSE|EXEC|FETCH) #\d+: ?\w+="
_LINE_OF_EVENT = r"\{\"Event\": ?\"(?:SparkListener|org\.apache\.spark)"
_QUOTES = dict.fromkeys(map(ord, "\u201c\u201d\u201e"), '"')
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        **dict.fromkeys("\u200b\u2060\ufeff\u200e\u200f", None),
        **dict.fromkeys("\u2192\u21d2\u2794\u27f6\u279c", "->"),
        **dict.fromkeys("\u2018\u2019", "'"),
    }
)
#: Terminal colours and titles, and overstruck letters.
_CONTROL = re.compile(
    r"\x1b(?:\[[\d;?]*[A-Za-z]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()]\w|[=>])|.\x08"
)
_DASH = r"\u2010-\u2015\u2212\u00ad"
_LONG_DASH = re.compile(rf"^((?:[^\w\n{_DASH}]++|[{_DASH}]++(?!>))*)[{_DASH}]+>", re.MULTILINE)
_TAG = re.compile(
    r"</?(?:pre|code|div|span|p|td|tr|font|b|i|body|html|samp|tt|field)\b[^<>]{,200}>", re.I
)
_BREAK = re.compile(r"(?:<br\s*/?>|</(?:div|p|pre|tr|li)>)[ \t]*\n?", re.I)
_ENTITY = re.compile(
    r"&(?:gt|lt|amp|apos|quot|nbsp|[lr](?:brace|brack|cub|par|sqb)|#x?[0-9a-fA-F]+);"
)
#: A brace that a page cannot contain as it is; JSON that begins as such has none of its own.
_BRACE = re.compile(r"&l(?:brace|cub);")
#: Documents in which tags and entities are markup.
_MARKED_UP = re.compile(r"<(?:explain|report|sql_monitor|table|ShowPlanXML|!DOCTYPE)\b", re.I)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ESCAPED = re.compile(r"\\\((?:cost=|actual)|\btemp\\_blks")
#: A line of code in Markdown, which may be an item of a list.
_CODE_LINE = re.compile(r"^\s*+(?:[-*+] +)?`([^`]*)`\s*$")
#: Bold text in Markdown; a line of a plan or a message, not of prose, with bold text.
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]++)(?<=\S)\*\*")
_WITH_BOLD = re.compile(
    r"\s*+(?:->|\*\*[^*]++\*\*\s*+(?:[(<←#]|--|$)|[^*(]*+\((?:cost=|actual )|[^*]*LOG:  "
    r"|(?:Worker \d+: +)?(?:Buffers|I/O Timings|Sort Method|Execution [Tt]ime|Total runtime): )"
)
_FENCE = re.compile(
    r"\s*(?:```\w*|~~~\w*|\{code(?::[^}]*)?\}|\{noformat\}|\[/?code\]|\{% \w++[^%]*+%\})\s*"
)
#: A fence; at the end of a line, a language may follow it.
_MARK = re.compile(r"```(?:[a-z]+$)?")
#: An author's remark at the end of a line: behind an arrow to the line, or behind a number in a row
#: of an expanded table. It has no figures of a plan, and is not in a string, an object or a tag.
_REMARK = re.compile(
    r"(?:(?:(?<=\S)|^)[ \t]+(?:[←⟵⬅⇐◄◀]|<(?:-+|={2,})(?=[ \t]))"
    r"|^([ \t]*+\w++[ \t]*+[|│:][ \t]*+-?[\d.]++)[ \t]++(?://|--|#))"
    r"(?>(?!=\d|\dkB)[^\n\"<>{}←⟵⬅⇐◄◀])*+$",
    re.MULTILINE,
)
#: The start of JSON or of a string, but not of a time in brackets.
_STRING_START = re.compile(r"\s*(?:[\"'{]|\[\s*(?:[\[{\"']|$))")
#: Prefixes of lines.
_QUOTED_MAIL = re.compile(r"^ {0,3}(?:> ?)+")
_SQL_COMMENT = re.compile(r"^\s*-- ?(?!>)")
_BARRED_NUMBER = re.compile(r"^\s*\d{1,5} +[|│](?: |$)")
#: The frame that a pager draws around numbered lines, with the name of the file; a blank line.
_FRAME = re.compile(r"─{5,}[┬┼┴]─*|\s{5,}│ (?:File|Size|STDIN)\b.*|\s*")
#: A bar as before a table's row, but with no further bar between cells or at the end of the line.
_BAR = re.compile(r"^\s*[|│┃] ?(?!.*(?:\s[|│┃]\s|[|│┃]\s*$))")
_NAME_AND_BAR = re.compile(r"^\w[\w ]*+[|│┃]\s")
_PREFIXES = (
    _QUOTED_MAIL,
    _SQL_COMMENT,
    re.compile(r"^\s*# ?"),
    re.compile(r"^\s*(?://|\*) ?"),
    _BARRED_NUMBER,
    re.compile(r"^\s*\d{1,5}(?:[:.|\t]| \|(?!.*\|\s*$)) ?"),
    _BAR,
    # Lines that a patch adds.
    re.compile(r"^\+(?![-+])"),
)
#: A time that a tool put before a line. Times of a server's messages and of csvlog do not match.
_TIMED = re.compile(
    r"^\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[\d.,]*\]? (?![\w+:/-]{1,40},|.*\b[A-Z]+\d?:  )"
)
#: The start of a line of a plan.
_PLAN_START = re.compile(r"\s*+(?:[^\W\d_a-z]|[-│|{}\[\]\"'<])")
_LOGGER = re.compile(r"\A(?>.*?\\d\+:\\d\+).*\b(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR)\b")
_NUMBER = re.compile(r"\s*(\d{1,5}) +(?=\S)")
#: A line of logfmt, and the message in it.
_LOGFMT = re.compile(r"(?>[\w.]+=(?:\"(?>[^\"\\]|\\.)*+\"|[^\s\"]*+)(?:\s++|$))++")
_MESSAGE = re.compile(r"(?:^|\s)(?:msg|message|log|line)=\"((?>[^\"\\]|\\.)*+)\"")
#: The heading of a CSV export of a logger.
_HEADING_OF_LOG = re.compile(r"\"?[@\w][\w@. ]*+\"?(?>[,;\t]\"?[@\w][\w@. ]*+\"?)*+")
#: Messages of a server, whose records have more fields than the text.
_SERVER_MESSAGE = re.compile(
    r"LOG:  |\"(?:error_severity|textPayload|log)\":|duration: [\d.]+ ms\s+plan:"
)
_OF_SERVER = re.compile(r"[^\W\d_]{3}: {2}|\"error_severity\":|\bms\s+[Pp]lan:")
#: The longest program code that is searched for plans.
_CODE_LENGTH = 4 << 20
#: Tokens of Python, JavaScript, Java, C# and Rust that JSON lacks or spells differently. Unclosed
#: tokens end with their line or do not match, which keeps matching linear in time.
_TOKEN = re.compile(
    r"(?P<string>(?:\b[rRbBuUfF]{1,2}|[@$])?(?:"
    r"(?<=\br)#\"(?>[^\"]|(?<!#)\"(?!#))*+\"#|"
    r"\"{3}(?>[^\"\\]|\\.|\"(?!\"\"))*+\"{3}|(?<=@)\"(?>[^\"]|\"\")*+\""
    r"|\"(?>[^\"\\\n]|\\.|\"\")*+\"|(?:(?<!\w)|(?<=\b[rRbBuUfF]))'(?>[^'\\\n]|\\.)*+'|`[^`]*+`))"
    r"(?P<colon>\s*+:(?!:))?"
    r"|[{}]|\\.|(?://|--|(?<=\s)# )[^\n]*+|/\*.{,2000}?\*/|,(?=\s*+[\]}])|(?<=\d)_(?=\d)"
    r"|(?P<key>(?<=[{,\s])[A-Za-z_$][\w$]*+)(?=\s*+:)|\b(?:None|undefined|True|False)\b",
    re.DOTALL,
)
_CONSTANTS = {"None": "null", "undefined": "null", "True": "true", "False": "false"}
#: Keys of a plan, of a row of pg_stat_statements, ClickHouse's log or a view of Oracle's waits, and
#: of a profile of DuckDB, with ``inner`` for a key inside of it.
_KEY = re.compile(
    r'"(?:Plan|query_duration_ms|temp_blks_(?:written|read)|(?i:total_waits)'
    r'|(?P<inner>(?:system_)?peak_temp_dir_size))"'
)
#: Text that occurs only in plans, traces, event logs of Spark and JSON of fio.
_ONLY_IN_EVIDENCE = re.compile(
    r"\(cost=|\(actual |\"(?:Plan|query_block)\"|Node Type|Node-Type|\|\*?\s+\d+ \|"
    rf"|Execution [Tt]ime:|Total runtime:|<ShowPlanXML |{_LINE_OF_TRACE}|{_LINE_OF_EVENT}"
    r"|\"fio version\\?\""
)
#: The result of a task of Ansible behind the name of its host, or without it.
_TASK_RESULT = re.compile(
    r"^(?:ok|changed|fatal|failed): \[[^\]\n]+\]:?(?: [^\n{]+)? =>\s*+(?=\{)|\A(?=\{)", re.MULTILINE
)
_STRING_SEPARATOR = re.compile(r"[\"'] *[,;|\t] *[\"']")
_OPENING_QUOTE = re.compile(r"[\s\[(]*[\"']")
_WORD = re.compile(r"[^\W\d]")
#: An operator that concatenates two strings.
_CONCATENATED = re.compile(r"\s*\+\s*[@$rRbBuUfF]{,2}[\"'`]")
#: The first key of a JSON document in a CSV cell.
_JSON_IN_CELL = re.compile(r'\{\s*+""')
#: A quoted cell that is alone in its lines.
_CELL = re.compile(r'^[ \t]*"((?>[^"]|"")*+)"[ \t]*$', re.MULTILINE)
#: The beginning of a line of PostgreSQL's csvlog.
CSV_LOG = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [\w+:/-]{1,40},")
_NODE_FIGURES = re.compile(r"\((?:cost=|actual )[^\"]*$")
_HEADING = re.compile(r'\s*"?QUERY PLAN"?\s*', re.I)

Lines = list[str]


def unwrapped(text: str) -> str:
    """The text without its wrappings."""
    lines = text.split("\n")
    if max(map(len, lines)) > LINE_LENGTH_MAX:
        return text
    wrappings = _EXPORTS if len(text) > LENGTH_MAX else WRAPPINGS
    for _ in range(_WRAPPINGS_MAX):
        tried = (unwrap(lines) for unwrap in wrappings)
        plain = next((plain for plain in tried if plain is not None and plain != lines), None)
        if plain is None:
            break
        lines = plain
    return "\n".join(lines)


def _typographic_characters(lines: Lines) -> Lines | None:
    """Replaces typographic blanks, quotes and arrows by ASCII; removes terminal colours."""
    text = _CONTROL.sub("", "\n".join(lines)).translate(_CHARACTERS)
    # In the attributes of a SQL Server plan, quotes and dashes belong to the query.
    text = text if '<ShowPlanXML xmlns="' in text else text.translate(_QUOTES)
    return _LONG_DASH.sub(r"\1->", text).split("\n")


def _markdown_escapes(lines: Lines) -> Lines | None:
    """Removes Markdown's backslashes, backticks around lines, and asterisks around figures."""
    if any(_ESCAPED.search(line) for line in lines):
        return [_ESCAPE.sub(r"\1", line) for line in lines]
    judged = [line for line in lines if FIGURES.search(line)]
    if judged and sum(map(bool, map(_CODE_LINE.fullmatch, judged))) >= _SHARE * len(judged):
        return [_CODE_LINE.sub(r"\1", line) for line in lines]
    return [_BOLD.sub(r"\1", line) if _WITH_BOLD.match(line) else line for line in lines]


def _double_spacing(lines: Lines) -> Lines | None:
    """Removes blank lines between all other lines, as between paragraphs."""
    is_full = [bool(line.strip()) for line in lines]
    if sum(is_full) <= 3 or any(line and below for line, below in pairwise(is_full)):
        return None
    return [line for line in lines if line.strip()]


def _html_markup(lines: Lines) -> Lines | None:
    text = "\n".join(lines)
    is_broken = _BREAK.search(text) and _LINE_OF_PLAN.search(text)
    is_html = is_broken or _ENTITY.search(text) or _TAG.search(text)
    is_json = text.lstrip()[:1] in "[{" and '"' in text and _BRACE.search(text) is None
    if not is_html or _MARKED_UP.search(text) or is_json:
        return None
    return html.unescape(_TAG.sub("", _BREAK.sub("\n", text))).replace("\u00a0", " ").split("\n")


def _code_fences(lines: Lines) -> Lines | None:
    # In a chat, the first or last line of text may contain a fence; JSON has them in strings.
    has_strings = any(map(_STRING_START.match, lines[:1]))
    if sum(line.count("```") for line in lines) > 1 and not has_strings:
        lines = [part for line in lines for part in _MARK.split(line)]
    elif not any(map(_FENCE.fullmatch, lines)):
        return None
    return ["" if _FENCE.fullmatch(line) else line for line in lines]


def _remarks(lines: Lines) -> Lines:
    """Removes remarks that an author put behind figures."""
    return _REMARK.sub(lambda remark: remark[1] or "", "\n".join(lines)).split("\n")


def _line_prefixes(lines: Lines) -> Lines | None:
    """Removes quote marks of mail, comment marks, and line numbers."""
    unframed = [line for line in lines if not _FRAME.fullmatch(line)]
    if len(unframed) < len(lines) and all(map(_BARRED_NUMBER.match, unframed)):
        return [_BARRED_NUMBER.sub("", line) for line in unframed]
    full = [line for line in lines if line.strip()]
    judged = [line for line in full if FIGURES.search(line)]
    for pattern in _PREFIXES:
        # A bar after a number may belong to a table: if all lines end with a bar, it does.
        is_barred = pattern is _BARRED_NUMBER
        if is_barred and all(line.rstrip().endswith("|") for line in full):
            continue
        # After a line with a name and a bar, a bar continues a value.
        if pattern is _BAR and any(map(_NAME_AND_BAR.match, full)):
            continue
        # Without known figures, all lines must have the prefix: one or two may have it by chance.
        is_whole = len(full) > 2 and all(map(pattern.match, full))
        is_known = not is_barred and (judged or pattern is _QUOTED_MAIL)
        if not is_known and not is_whole:
            continue
        # The query, which names columns, may precede the commented lines.
        begun = dropwhile(lambda line: not _SQL_COMMENT.match(line), judged)
        marked = (list(begun) if pattern is _SQL_COMMENT else judged) or full
        prefixes = [match[0] for line in marked if (match := pattern.match(line))]
        # Numbers that do not ascend are values of a column, not line numbers.
        numbers = [int(number[0]) for text in prefixes if (number := re.search(r"\d+", text))]
        if len(prefixes) >= max(1.0, _SHARE * len(marked)) and numbers == sorted(set(numbers)):
            # The heading of a numbered table has an empty cell above the numbers.
            of_table = all(re.fullmatch(r" *\d+\t", text) for text in prefixes)
            return [
                line[1:] if of_table and line[:1] == "\t" else pattern.sub("", line, count=1)
                for line in lines
            ]
    return None


def _line_numbers(lines: Lines) -> Lines | None:
    """Removes row numbers, such as those of a data frame; a page may omit some rows."""
    # A line with only a number was blank.
    blank = [line for line in lines if line.strip().isdecimal()]
    full = [line for line in lines if line.strip() and not line.strip().isdecimal()]
    full = list(dropwhile(lambda line: _NUMBER.match(line) is None, full))
    matches = [match for line in full if (match := _NUMBER.match(line))]
    numbers = [int(match[1]) for match in matches]
    if len(numbers) < max(3, len(full)) or sorted(set(numbers)) != numbers:
        return None
    is_consecutive = numbers[-1] - numbers[0] < len(numbers) + len(blank)
    if not is_consecutive and not any(map(_NODE_FIGURES.search, full)):
        return None
    # Unaligned one-digit and two-digit numbers are followed by the same number of blanks.
    widths = {len(match[1]) for match in matches}
    blanks = [min(m.end() - m.end(1) for m in matches if len(m[1]) == width) for width in widths]
    is_ragged = len(set(blanks)) == 1
    begin = min(match.end() for match in matches)
    begins = [m.end(1) + blanks[0] if is_ragged else begin for m in matches]
    texts = [line[begin:] for line, begin in zip(full, begins, strict=True)]
    # Right-aligned text has lost its indentation.
    is_right_aligned = len(set(map(len, texts))) == 1
    return [text.lstrip() if is_right_aligned else text for text in texts]


def _logfmt(lines: Lines) -> Lines | None:
    """Extracts the messages from logfmt (``name=value``); a message may have several lines."""
    full = [line for line in lines if line.strip()]
    messages = [match for line in full if (match := _MESSAGE.search(line)) is not None]
    if not messages or not all(map(_LOGFMT.fullmatch, full)):
        return None
    return "\n".join(unescaped(match[1]).rstrip("\n") for match in messages).split("\n")


def _records(lines: Lines) -> Lines | None:
    """Extracts a program's output from a logger's records in JSON or CSV: the field with figures.

    A server's messages are read with the other fields of their records.
    """
    text = "\n".join(lines).strip()
    if _OF_SERVER.search(text):
        return None
    columns: dict[str, list[str]] = {}
    rows = _json_records(text) if text[:1] in ("[", "{") else _csv_records(text)
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
    if len(messages) != len(rows) or len(rows) < 2:
        return None
    return "\n".join(message.removesuffix("\n") for message in messages).split("\n")


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


def _logged(lines: Lines) -> Lines | None:
    """Removes prefixes of shippers and loggers from program output, not from server messages."""
    full = [line for line in lines if line.strip()]
    if any(_SERVER_MESSAGE.search(line) or line.startswith("{") for line in full):
        return None
    least = max(2, _SHARE * len(full))
    # Below the heading of a table, times are a column.
    is_table = any(EXPORTED_COLUMNS.search(line) and not _TIMED.match(line) for line in full)
    is_timed = not is_table and sum(map(bool, map(_TIMED.match, full))) >= least
    pattern = common_prefix(list(filter(_TIMED.match, full)) or full)
    # The prefix is a logger's if it has a time of day and a level.
    if pattern is None or not _LOGGER.search(pattern.pattern):
        pattern = _TIMED if is_timed else None
    unshipped = unshipper("\n".join([*lines, ""])) if pattern is None else None
    if unshipped is not None:
        return list(map(unshipped, lines))
    pattern = pattern or _before_json(full) or _before_plan(lines)
    return None if pattern is None else [pattern.sub("", line) for line in lines]


def _before_json(lines: Lines) -> re.Pattern[str] | None:
    """A pattern for the common prefix of lines that are JSON without it."""
    prefix = common_prefix([line.partition("{")[0] for line in lines])
    if prefix is None:
        return None
    plain = [prefix.sub("", line) for line in lines]
    is_json = plain[0][:1] == "{" and json_or_none("\n".join(plain)) is not None
    return prefix if is_json or all(map(re.compile(_LINE_OF_EVENT).match, plain)) else None


def _before_plan(lines: Lines) -> re.Pattern[str] | None:
    """A pattern for the common prefix of a plan's lines, unless it contains a part of them."""
    lines = list(filter(_LINE_OF_PLAN.search, lines))
    prefix = common_prefix(lines)
    if prefix is None or "->" in prefix.pattern:
        return None
    return prefix if all(_PLAN_START.match(prefix.sub("", line)) for line in lines) else None


def _quoted_cells(lines: Lines) -> Lines | None:
    """Unquotes CSV of one column (psql --csv, pgAdmin); an IDE quotes only lines with commas."""
    text = "\n".join(lines)
    cells = [cell[1] for cell in _CELL.finditer(text)]
    has_figures = any(map(_NODE_FIGURES.search, lines)) or any(
        FIGURES.search(cell) or _JSON_IN_CELL.search(cell) or CSV_LOG.match(cell) for cell in cells
    )
    if not cells or not has_figures or text.lstrip()[:1] in ("[", "{"):
        return None
    plain = _CELL.sub(lambda cell: cell[1].replace('""', '"'), text).split("\n")
    return [line for line in plain if not _HEADING.fullmatch(line)]


def _task_result(lines: Lines) -> Lines | None:
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


def _strings(lines: Lines) -> Lines | None:
    """The lines of a list of strings, such as Python prints; JSON is read as it is."""
    text = "\n".join(lines).strip()
    is_list = text[:1] + text[-1:] in ("[]", "()") and len(text) <= _CODE_LENGTH
    if not is_list or json_or_none(text) is not None:
        return None
    strings = [token["string"] for token in _TOKEN.finditer(text) if token["string"]]
    rest = _TOKEN.sub(lambda token: "" if token["string"] else token[0], text[1:-1])
    texts = (_string_value(string).rstrip("\n") for string in strings)
    return None if rest.strip(", \n") or not strings else "\n".join(texts).split("\n")


def _plans_in_code(lines: Lines) -> Lines | None:
    """Extracts plans, statement rows and plan texts from JSON or program code."""
    text = "\n".join(lines).strip()
    if len(text) > _CODE_LENGTH:
        return None
    if (whole := _TOKEN.fullmatch(text)) and whole["string"] == text:
        return _string_value(text).split("\n")
    # A report may have quotes around each line. Code and rows of strings are searched for plans.
    are_strings = all(map(_OPENING_QUOTE.match, filter(str.strip, lines)))
    is_quoted = are_strings and not _STRING_SEPARATOR.search(text)
    if _SERVER_MESSAGE.search(text) and not is_quoted:
        return None
    figures = FIGURES if is_quoted else _ONLY_IN_EVIDENCE
    records, texts = _records_and_strings(text, figures)
    if records:
        # A text that is only JSON is read as it is.
        return None if json_or_none(text) is not None else json.dumps(records, indent=1).split("\n")
    return texts.split("\n") if texts else None


def _records_and_strings(text: str, figures: re.Pattern[str]) -> tuple[list[Any], str]:
    """The objects with a plan or a row of statements; else the strings of a plan.

    The strings are those from the first with figures to the last, if all figures are in strings.
    Takes linear time.
    """
    records: list[Any] = []
    #: Adjacent strings are joined if only punctuation is between them.
    strings: list[str] = []
    #: The text as JSON, the open braces' positions in it, and the depth of the current record.
    plain: list[str] = []
    braces: list[int] = []
    record: int | None = None
    outside: list[str] = []
    end, is_apart, is_cut = 0, True, False
    for token in _TOKEN.finditer(text):
        between = text[end : token.start()]
        is_apart = is_apart or _WORD.search(between) is not None
        is_cut = is_cut or "temp_blks_" in between
        plain.append(between)
        outside.append(between)
        end = token.end()
        if (quoted := token["string"]) is not None:
            inner = _string_value(quoted)
            plain.append(json.dumps(inner))
            if token["colon"] is None:
                # Rows or a profile may be JSON in a string; a plan in a string is text.
                rows = json_or_none(inner) if re.search('"temp_blks_|_temp_dir_', inner) else None
                rows = rows if isinstance(rows, list) else [rows]
                records += [row for row in rows if isinstance(row, dict)]
                joins = inner.endswith("\n") or _CONCATENATED.match(text, end)
                strings += [""] * is_apart
                strings[-1] += inner if joins else inner + "\n"
                is_apart = False
                continue
            plain.append(":")
            outside.append(plain[-2])
        elif (name := token["key"]) is not None:
            plain.append(f'"{name}"')
        elif token[0] == "{":
            braces.append(len(plain))
            plain.append("{")
        elif token[0] == "}":
            plain.append("}")
            begin = braces.pop() if braces else len(plain)
            if record is not None and len(braces) < record:
                record = None
                records.append(json_or_none("".join(plain[begin:])))
        else:
            plain.append(_CONSTANTS.get(token[0], ""))
        if record is None and (key := _KEY.fullmatch(plain[-1 - (plain[-1] == ":")])):
            record = (1 if key["inner"] else len(braces)) if braces else None
    outside.append(text[end:])
    places = [at for at, string in enumerate(strings) if figures.search(string)]
    is_cut = is_cut or record is not None or None in records
    if is_cut or (records and _LINE_OF_PLAN.search("".join(outside))):
        # A plan or a row is cut or broken, or the text has another plan.
        return [], ""
    if records or not places or figures.search("".join(outside)) or "temp_blks_" in text:
        return records, ""
    if re.search(_LINE_OF_TRACE, strings[places[0]]):
        # Other lines of a trace precede and follow; a string without an end has one that is cut.
        return [], "" if '"' in "".join(outside) else "".join(strings)
    return [], "".join(strings[places[0] : places[-1] + 1])


def _string_value(quoted: str) -> str:
    """The value of a string literal; quotes are doubled in a verbatim literal (C#) and in SQL."""
    quote = quoted.strip("@$rRbBuUfF#")
    width = 3 if quote[:3] in ('"""', "'''") and len(quote) > 5 else 1
    inner = quote[width:-width]
    if quoted[0] == "@":
        return inner.replace('""', '"')
    return unescaped(inner.replace('""', '"') if width == 1 and quote[0] == '"' else inner)


def _broken_json(lines: Lines) -> Lines | None:
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


def _indentation(lines: Lines) -> Lines:
    """Removes the common indentation, as of an indented block in a page or a mail."""
    return dedent("\n".join(lines)).split("\n")


_EXPORTS = exported_rows.inserts, exported_rows.beside, exported_rows.stacked
#: The functions in the order of trial. Special tables precede general ones. Loggers are last,
#: because a bar before all lines may belong to a table.
WRAPPINGS: Sequence[Callable[[Lines], Lines | None]] = (
    _typographic_characters,
    *(tables.plan_page, _markdown_escapes, tables.asciidoc, tables.html_page, tables.data_frame),
    *(_html_markup, _double_spacing, _code_fences, _remarks),
    *(_line_prefixes, _line_numbers, _indentation),
    *(
        _logfmt,
        _records,
        exported_rows.broken_xml,
        _broken_json,
        _task_result,
        _strings,
        _plans_in_code,
    ),
    _quoted_cells,
    *_EXPORTS,
    tables.boxed,
    *(tables.headless, tables.expanded, tables.column, tables.grid),
    _logged,
)
