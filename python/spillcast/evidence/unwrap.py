"""Text -> plain text: each kind of wrapping that clients, mails, pages and log shippers put on it.

A wrapping is a function of lines that returns the lines without it, or None where it is not there.
They are tried again until none applies: a table of psql may stand in a quoted mail.
"""

import csv
import html
import io
import json
import re
from collections.abc import Callable, Sequence
from itertools import dropwhile, pairwise, takewhile
from typing import Any

from spillcast.evidence.tables import expanded, frame, framed, grid, headless, page, unescaped
from spillcast.evidence.text import json_or_none
from spillcast.evidence.typeset import asciidoc, typeset

#: Longer texts and lines come from programs, which wrap nothing.
LENGTH_MAX, LINE_LENGTH_MAX = 16 << 20, 1 << 19
_ROUNDS_MAX = 8
#: A wrapping of lines is there where so many of those with figures have it.
_SHARE = 0.8
#: Lines that a wrapping is judged by.
FIGURES = re.compile(
    r"\(cost=|\(actual|Buffers:|Sort Method|Execution [Tt]ime|Total runtime|temp_blks|\bLOG:  "
    r"|\"(?:Plan|Node Type|Temp \w+ Blocks)\"|Node Type:|Node-Type"
    r"|direct path (?:read|write) temp|\(cr=\d|\|\*?\s+\d+ \|"
)
_LINE_OF_PLAN = re.compile(
    r"\(cost=\d|\(actual |Buffers: |Sort Method: |(?:Execution [Tt]ime|Total runtime): "
)
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        **dict.fromkeys("\u200b\u2060\ufeff\u200e\u200f", None),
        **dict.fromkeys("\u2192\u21d2\u2794\u27f6\u279c", "->"),
        **dict.fromkeys("\u201c\u201d\u201e", '"'),
        **dict.fromkeys("\u2018\u2019", "'"),
    }
)
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_DASH = r"\u2010-\u2015\u2212\u00ad"
_LONG_DASH = re.compile(rf"^((?:[^\w\n{_DASH}]++|[{_DASH}]++(?!>))*)[{_DASH}]+>", re.MULTILINE)
_TAG = re.compile(
    r"</?(?:pre|code|div|span|p|td|tr|font|b|i|body|html|samp|tt)\b[^<>]{,200}>", re.I
)
_BREAK = re.compile(r"(?:<br\s*/?>|</(?:div|p|tr|li)>)[ \t]*\n?", re.I)
_ENTITY = re.compile(r"&(?:gt|lt|amp|quot|nbsp|#x?[0-9a-fA-F]+);")
#: Documents in which tags and entities mean something.
_MARKED_UP = re.compile(r"<(?:explain|report|sql_monitor|table|!DOCTYPE)\b", re.I)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ESCAPED = re.compile(r"\\\((?:cost=|actual)|\btemp\\_blks")
_FENCE = re.compile(
    r"\s*(?:```\w*|~~~\w*|\{code(?::[^}]*)?\}|\{noformat\}|\[/?code\]|\{% \w++[^%]*+%\})\s*"
)
#: What stands before each line; the text follows.
_QUOTED_MAIL = re.compile(r"^ {0,3}(?:> ?)+")
_PREFIXES = (
    _QUOTED_MAIL,
    re.compile(r"^\s*-- ?(?!>)"),
    re.compile(r"^\s*# ?"),
    re.compile(r"^\s*(?://|\*) ?"),
    re.compile(r"^\s*\d{1,5}(?:[:.|\t]| \|) ?"),
)
_ISO = r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)"
#: What log shippers put before each line, also before those that go on with a message.
SHIPPERS = (
    # syslog, by its older form; a server numbers its messages and their lines.
    re.compile(
        r"(?:<\d+>)?[^\W\d_]{3,4}\.? [ \d]\d \d\d:\d\d:\d\d "
        r"\S+ [\w./-]+(?:\[\d*)?\]?: (?:\[[\d-]+\] ?)?"
    ),
    # Containers on Kubernetes, as their node keeps them.
    re.compile(rf"{_ISO} std(?:out|err) [FP] "),
    # syslog with times of ISO 8601, by either form.
    re.compile(
        rf"(?:(?:\d+ )?<\d+>1 )?{_ISO} (?!(?:Planning|Execution|Total) )\S+ "
        r"(?:[\w./-]+(?:\[\d+\]:| \d+ \S+ \S+| [a-z][\w.-]* -) |[\w./-]+: )"
        r"(?:\[\w+\] )?(?:\[[\d-]+\] ?)?"
    ),
    # Heroku.
    re.compile(rf"{_ISO} \w+\[[\w.-]+\]: (?:\[\w+\] )?(?:\[[\d-]+\] ?)?"),
    # docker compose.
    re.compile(r"^\[?[\w./-]+\]?\s+\| ?"),
    # kubectl logs --timestamps, docker logs -t, aws logs tail.
    re.compile(rf"{_ISO}(?: (?=[ \t])|[ \t])"),
)
#: A time that a test or a pager put before each line: not that of a server's message, or of csvlog.
_TIMED = re.compile(
    r"^\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[\d.,]*\]? (?![\w+:/-]{1,40},|.*\b[A-Z]+\d?:  )"
)
_NUMBER = re.compile(r"\s*(\d{1,5}) +(?=\S)")
_TAB = re.compile(r"#011")
#: Messages of a server, whose records have more than texts.
_LOGGED = re.compile(
    r"LOG:  |\"(?:error_severity|textPayload|log|msg)\":|duration: [\d.]+ ms\s+plan:"
)
#: Longer code of a program is not looked at.
_CODE_LENGTH = 4 << 20
#: Tokens of Python, JavaScript, Java and C# that JSON writes otherwise or lacks. Whatever has no
#: end ends with its line, or is no token: so each character is looked at once.
_TOKEN = re.compile(
    r"(?P<string>(?:\b[rRbBuUfF]{1,2}|[@$])?(?:"
    r"\"{3}(?:[^\"\\]|\\.|\"(?!\"\"))*+\"{3}|(?<=@)\"(?:[^\"]|\"\")*+\""
    r"|\"(?:[^\"\\\n]|\\.|\"\")*+\"|(?:(?<!\w)|(?<=\b[rRbBuUfF]))'(?:[^'\\\n]|\\.)*+'|`[^`]*+`))"
    r"(?P<colon>\s*+:(?!:))?"
    r"|[{}]|\\.|(?://|--)[^\n]*+|/\*.{,2000}?\*/|,(?=\s*+[\]}])|(?<=\d)_(?=\d)"
    r"|(?P<key>(?<=[{,\s])[A-Za-z_$][\w$]*+)(?=\s*+:)|\b(?:None|undefined|True|False)\b",
    re.DOTALL,
)
_CONSTANTS = {"None": "null", "undefined": "null", "True": "true", "False": "false"}
#: Keys of a plan, and of a row of pg_stat_statements.
_KEY = re.compile(r'"(?:Plan|temp_blks_(?:written|read))"')
#: What only plans have.
_OF_PLAN = re.compile(
    r"\(cost=|\(actual |\"Plan\"|Node Type|Node-Type|\|\*?\s+\d+ \|"
    r"|Execution [Tt]ime:|Total runtime:"
)
_ROW = re.compile(r"[\"'] *[,;\t] *[\"']")
_OPENING = re.compile(r"[\s\[(]*[\"']")
_WORD = re.compile(r"[^\W\d]")
#: Strings that make up one.
_CONCATENATED = re.compile(r"\s*\+\s*[@$rRbBuUfF]{,2}[\"'`]")
_IDE_QUOTED = re.compile(r'"(?P<text>(?:[^"]|"")*)"')
_NODE = re.compile(r"\((?:cost=|actual )[^\"]*$")
_HEADING = re.compile(r'\s*"?QUERY PLAN"?\s*', re.I)
#: The heading of a table whose first column has numbers of rows.
_ROW_NUMBERS = re.compile(r" +[|│║┃] *QUERY PLAN\b", re.I)

Lines = list[str]


def unwrapped(text: str) -> str:
    """The text without whatever was put around it."""
    if len(text) > LENGTH_MAX:
        return text
    lines = text.split("\n")
    if max(map(len, lines)) > LINE_LENGTH_MAX:
        return text
    for _ in range(_ROUNDS_MAX):
        before = lines
        for unwrap in WRAPPINGS:
            plain = unwrap(lines)
            lines = lines if plain is None else plain
        if lines == before:
            break
    return "\n".join(lines)


def without_shipper(line: str) -> str:
    """A line of a log without what a shipper put before it; tabs that it wrote as numbers."""
    for _ in range(2):
        shipped = next((match for pattern in SHIPPERS if (match := pattern.match(line))), None)
        if shipped is None:
            break
        line = line[shipped.end() :]
    return _TAB.sub("\t", line)


def _characters(lines: Lines) -> Lines | None:
    """Blanks, quotes and arrows that pages put in place of the plain ones; a terminal's colours."""
    text = "\n".join(lines)
    if text.isascii() and "\x1b" not in text:
        return None
    return _LONG_DASH.sub(r"\1->", _COLOUR.sub("", text).translate(_CHARACTERS)).split("\n")


def _escapes(lines: Lines) -> Lines | None:
    """Backslashes that Markdown has before punctuation."""
    if not any(_ESCAPED.search(line) for line in lines):
        return None
    return [_ESCAPE.sub(r"\1", line) for line in lines]


def _ends(lines: Lines) -> Lines | None:
    """Marks of psql where a value goes on in the next line, without the heading above it."""
    full = [line for line in lines if line.strip()]
    marked = sum(line.rstrip().endswith((" +", "↵")) for line in full)
    if marked < 2 or marked < _SHARE * (len(full) - 2):
        return None
    return [line.rstrip().removesuffix("+").removesuffix("↵").rstrip() for line in lines]


def _spaced(lines: Lines) -> Lines | None:
    """Blank lines between all others, as of paragraphs."""
    full = [bool(line.strip()) for line in lines]
    beside = sum(line and below for line, below in pairwise(full))
    return [line for line in lines if line.strip()] if sum(full) > 3 and not beside else None


def _html(lines: Lines) -> Lines | None:
    text = "\n".join(lines)
    is_html = _ENTITY.search(text) or _TAG.search(text)
    if not is_html or _MARKED_UP.search(text) or text.lstrip()[:1] in "[{":
        return None
    return html.unescape(_TAG.sub("", _BREAK.sub("\n", text))).replace("\u00a0", " ").split("\n")


def _fences(lines: Lines) -> Lines | None:
    # A chat has its marks in the lines of the text; those in JSON are within its strings.
    is_json = lines[0].lstrip()[:1] in ('"', "'", "{", "[")
    inline = sum(line.count("```") for line in lines) > 1 and not is_json
    parts = [part for line in lines for part in line.split("```")] if inline else lines
    if not inline and not any(_FENCE.fullmatch(line) for line in lines):
        return None
    return [part for part in parts if not _FENCE.fullmatch(part)]


def _prefixes(lines: Lines) -> Lines | None:
    """Quoted mail, comments of SQL and of shells, numbered lines."""
    if any(_ROW_NUMBERS.match(line) for line in lines):
        return None
    judged = [line for line in lines if FIGURES.search(line)]
    full = [line for line in lines if line.strip()]
    if not judged and all(_QUOTED_MAIL.match(line) for line in full):
        judged = full
    for prefix in _PREFIXES:
        before = [match[0] for line in judged if (match := prefix.match(line))]
        # Numbers that do not ascend are values of a column.
        numbers = [int(number[0]) for text in before if (number := re.search(r"\d+", text))]
        if judged and len(before) >= _SHARE * len(judged) and numbers == sorted(set(numbers)):
            return [prefix.sub("", line, count=1) for line in lines]
    return None


def _numbered(lines: Lines) -> Lines | None:
    """Numbers before the lines, as of the rows of a data frame; a page may leave out some."""
    # A blank line has nothing but its number.
    full = [line for line in lines if line.strip() and not line.strip().isdecimal()]
    full = list(dropwhile(lambda line: _NUMBER.match(line) is None, full))
    matches = [match for line in full if (match := _NUMBER.match(line))]
    numbers = [int(match[1]) for match in matches]
    if any(_ROW_NUMBERS.match(line) for line in lines):
        return None
    if len(numbers) < max(3, len(full)) or sorted(set(numbers)) != numbers:
        return None
    is_consecutive = numbers[-1] - numbers[0] < len(numbers)
    if not is_consecutive and not any(map(_NODE.search, full)):
        return None
    # A list that is not aligned has the same blanks after numbers of one and of two digits.
    widths = {len(match[1]) for match in matches}
    blanks = [min(m.end() - m.end(1) for m in matches if len(m[1]) == width) for width in widths]
    begin = min(match.end() for match in matches)
    ragged = len(widths) > 1 and len(set(blanks)) == 1
    begins = [m.end(1) + blanks[0] if ragged else begin for m in matches]
    texts = [line[begin:] for line, begin in zip(full, begins, strict=True)]
    # Text that ends in one column has lost its indentation.
    aligned_right = len(set(map(len, texts))) == 1
    return [text.lstrip() if aligned_right else text for text in texts]


def _shipped(lines: Lines) -> Lines | None:
    """What a client printed where a shipper took it: no messages of a server."""
    full = [line for line in lines if line.strip()]
    if any("LOG:  " in line or line.startswith("{") for line in full):
        return None
    timed = all(map(_TIMED.match, full))
    stripped = [_TIMED.sub("", line) if timed else without_shipper(line) for line in full]
    changed = sum(before != line for before, line in zip(stripped, full, strict=True))
    return stripped if full and changed >= _SHARE * len(full) and changed > 1 else None


def _logger(lines: Lines) -> Lines | None:
    """What a program's logger put before each line of a plan: the same but for its digits."""
    judged = [line for line in lines if _LINE_OF_PLAN.search(line)]
    if len(judged) < 3 or any(map(_LOGGED.search, lines)):
        return None
    masked = [re.sub(r"\d", "0", line) for line in judged]
    # What the first and the last share in the order of letters, all share.
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(masked), max(masked), strict=False))
    # A quote belongs to the text, as does the end of another word.
    begin = re.sub(r"(?<![\w\"'(])[\w\"'(]++$", "", "".join(sign for sign, _ in pairs))
    if not begin.strip() or re.match(r"\s*[\[{]+[\"{]", begin):
        return None
    return [
        line[len(begin) :] if re.sub(r"\d", "0", line[: len(begin)]) == begin else line
        for line in lines
    ]


def _cells(lines: Lines) -> Lines | None:
    """CSV of one column, as psql --csv and pgAdmin write a plan, with words around it."""
    full = [line for line in lines if line.strip()]
    headings = (at for at, line in enumerate(full) if _HEADING.fullmatch(line))
    begin = next(headings, None if full and not full[0].lstrip().startswith('"') else 0)
    if begin is None or not any(line.lstrip().startswith('"') for line in full[begin:]):
        return None
    try:
        rows = [row for row in csv.reader(io.StringIO("\n".join(full[begin:])), strict=True) if row]
    except csv.Error:
        return None
    cells = list(takewhile(lambda row: len(row) == 1, rows))
    if len(cells) < len(rows) and begin == 0:
        return None
    cells = cells[1:] if cells and _HEADING.fullmatch(cells[0][0]) else cells
    return [*full[:begin], *(line for row in cells for line in row[0].split("\n"))]


def _quotes(lines: Lines) -> Lines | None:
    """Quotes around the lines that have a comma, as of an IDE."""
    # Nothing else in JSON has the figures of a node.
    has_nodes = any(_NODE.search(line) for line in lines)
    if not has_nodes or not any(_IDE_QUOTED.fullmatch(line.rstrip()) for line in lines):
        return None
    return [
        match["text"].replace('""', '"')
        if (match := _IDE_QUOTED.fullmatch(line.rstrip()))
        else line
        for line in lines
    ]


def _values(lines: Lines) -> Lines | None:
    """Plans, rows of statements and texts of plans that stand in JSON or in code of a program."""
    text = "\n".join(lines).strip()
    if len(text) > _CODE_LENGTH:
        return None
    # A report may be quoted line by line; only a plan stands in a program, or in a row of strings.
    is_quoted = all(map(_OPENING.match, filter(str.strip, lines))) and not _ROW.search(text)
    if _LOGGED.search(text) and not is_quoted:
        return None
    figures = FIGURES if is_quoted else _OF_PLAN
    records, texts = _values_of(text, figures)
    if records:
        # JSON that is nothing else is read as it is.
        return None if json_or_none(text) is not None else json.dumps(records, indent=1).split("\n")
    return texts.split("\n") if texts else None


def _values_of(text: str, figures: re.Pattern[str]) -> tuple[list[Any], str]:
    """Objects with a plan or a row of statements; else the strings from a plan's first to its last.

    Each token is looked at once. The strings are those of a plan where no figure stands outside.
    """
    records: list[Any] = []
    #: Joined as far as nothing but punctuation stands between them.
    strings: list[str] = []
    #: The text as JSON, the braces that are open in it, and the place of the outermost of a record.
    plain: list[str] = []
    braces: list[int] = []
    record: int | None = None
    outside: list[str] = []
    end, is_apart = 0, True
    for token in _TOKEN.finditer(text):
        between = text[end : token.start()]
        is_apart = is_apart or _WORD.search(between) is not None
        plain.append(between)
        outside.append(between)
        end = token.end()
        if (quoted := token["string"]) is not None:
            inner = _inner(quoted)
            plain.append(json.dumps(inner))
            if token["colon"] is None:
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
                value = json_or_none("".join(plain[begin:]))
                records += [] if value is None else [value]
        else:
            plain.append(_CONSTANTS.get(token[0], ""))
        if record is None and _KEY.fullmatch(plain[-1 - (plain[-1] == ":")]):
            record = len(braces) or None
    outside.append(text[end:])
    places = [at for at, string in enumerate(strings) if figures.search(string)]
    if record is not None or (records and _LINE_OF_PLAN.search("".join(outside))):
        # The last plan is cut, or another stands in text.
        return [], ""
    if records or not places or figures.search("".join(outside)) or "temp_blks_" in text:
        return records, ""
    return [], "".join(strings[places[0] : places[-1] + 1])


def _inner(quoted: str) -> str:
    """The value of a string of a program; of a verbatim one, its quotes are doubled."""
    quote = quoted.lstrip("@$rRbBuUfF")
    width = 3 if quote[:3] in ('"""', "'''") and len(quote) > 5 else 1
    inner = quote[width:-width]
    if quoted[0] == "@":
        return inner.replace('""', '"')
    return unescaped(inner.replace('""', '"') if width == 1 and quote[0] == '"' else inner)


def _indent(lines: Lines) -> Lines | None:
    """Blanks before every line: an indented block of a page or a mail."""
    full = [line for line in lines if line.strip()]
    indent = min((len(line) - len(line.lstrip(" ")) for line in full), default=0)
    tabs = min((len(list(takewhile(str.isspace, line))) for line in full), default=0)
    if indent < 2 and not (tabs and all(line.startswith("\t") for line in full)):
        return None
    return [line[max(indent, 1) :] for line in lines]


#: In the order in which they are tried.
WRAPPINGS: Sequence[Callable[[Lines], Lines | None]] = (
    _characters,
    _escapes,
    page,
    frame,
    _html,
    _spaced,
    _fences,
    _prefixes,
    _numbered,
    _values,
    asciidoc,
    typeset,
    headless,
    expanded,
    framed,
    grid,
    _ends,
    _cells,
    _quotes,
    _indent,
    _shipped,
    _logger,
)
