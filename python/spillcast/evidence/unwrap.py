"""Removes what mail clients, terminals, pages and log shippers put around a text.

Each function in WRAPPINGS returns the lines without its wrapping, or None if the lines do not have
it. The first that applies is removed, until none applies: a quoted mail may contain a table of
psql.
"""

import html
import re
from collections.abc import Callable, Sequence
from itertools import dropwhile, pairwise
from textwrap import dedent

from spillcast.evidence import embedded, exported_rows, tables
from spillcast.evidence.embedded import (
    CODE_FENCE,
    FIGURES,
    LINE_OF_EVENT,
    LINE_OF_PLAN,
    SERVER_MESSAGE,
    Lines,
)
from spillcast.evidence.shippers import common_prefix, unshipper
from spillcast.evidence.table_rows import EXPORTED_COLUMNS
from spillcast.evidence.text import json_or_none

#: Texts and lines beyond these lengths are written by programs: only exports have a wrapping.
LENGTH_MAX, LINE_LENGTH_MAX = 16 << 20, 1 << 19
_WRAPPINGS_MAX = 16
#: A text counts as wrapped if at least this share of its lines with figures is.
_SHARE = 0.8
#: A line that marks the place of omitted lines.
LEFT_OUT = re.compile(r"^(?=[^\w\n]*+$)[^\n]*?(?:\.{3}|…)", re.MULTILINE)
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
_PREFORMATTED = re.compile(r"</?pre\b[^<>]{,200}>(?:<code\b[^<>]{,200}>)?", re.I)
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
_NUMBERED = re.compile(r"^\s*\d{1,5}(?:[:.|\t]| \|(?!.*\|\s*$)) ?")
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
    _NUMBERED,
    _BAR,
    # Lines that a patch adds.
    re.compile(r"^\+"),
)
#: A time that a tool put before a line. Times of a server's messages and of csvlog do not match.
_TIMED = re.compile(
    r"^\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[\d.,]*\]? (?![\w+:/-]{1,40},|.*\b[A-Z]+\d?:  )"
)
#: The start of a line of a plan.
_PLAN_START = re.compile(r"\s*+(?:[^\W\d_a-z]|[-│|{}\[\]\"'<])")
_LOGGER = re.compile(r"\A(?>.*?\\d\+:\\d\+).*\b(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR)\b")
_NUMBER = re.compile(r"\s*(\d{1,5}) +(?=\S)")
#: The first key of a JSON document in a CSV cell.
_JSON_IN_CELL = re.compile(r'\{\s*+""')
#: A quoted cell that is alone in its lines.
_CELL = re.compile(r'^[ \t]*"((?>[^"]|"")*+)"[ \t]*$', re.MULTILINE)
#: The beginning of a line of PostgreSQL's csvlog.
CSV_LOG = re.compile(r"\"?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [\w+:/-]{1,40}\"?,")
_NODE_FIGURES = re.compile(r"\((?:cost=|actual )[^\"]*$")
_HEADING = re.compile(r'\s*"?QUERY PLAN"?\s*', re.I)


def unwrapped(text: str, until: Callable[[str], object] = lambda _: False) -> str:
    """The text without its wrappings, removed from the outermost on until ``until`` holds."""
    lines = text.split("\n")
    if until(text) or max(map(len, lines)) > LINE_LENGTH_MAX:
        return text
    wrappings = _EXPORTS if len(text) > LENGTH_MAX else WRAPPINGS
    for _ in range(_WRAPPINGS_MAX):
        tried = (unwrap(lines) for unwrap in wrappings)
        plain = next((plain for plain in tried if plain is not None and plain != lines), None)
        if plain is None:
            break
        lines = plain
        if until("\n".join(lines)):
            break
    return "\n".join(lines)


def _typographic_characters(lines: Lines) -> Lines | None:
    """Replaces typographic blanks, quotes and arrows by ASCII; removes terminal colours."""
    text = _CONTROL.sub("", "\n".join(lines)).translate(_CHARACTERS)
    # In the attributes of a SQL Server plan, quotes and dashes belong to the query.
    text = text if '<ShowPlanXML xmlns="' in text else text.translate(_QUOTES)
    return _LONG_DASH.sub(r"\1->", text).split("\n")


def _markdown_escapes(lines: Lines) -> Lines | None:
    """Removes Markdown's backslashes, backticks around lines, and asterisks around figures."""
    if any("\\" in line and _ESCAPED.search(line) for line in lines):
        return [_ESCAPE.sub(r"\1", line) for line in lines]
    coded = [line for line in lines if _CODE_LINE.match(line) and FIGURES.search(line)]
    if coded and len(coded) >= _SHARE * sum(map(bool, map(FIGURES.search, lines))):
        return [_CODE_LINE.sub(r"\1", line) for line in lines]
    return [
        _BOLD.sub(r"\1", line) if "**" in line and _WITH_BOLD.match(line) else line
        for line in lines
    ]


def _double_spacing(lines: Lines) -> Lines | None:
    """Removes blank lines between all other lines, as between paragraphs."""
    is_full = [bool(line.strip()) for line in lines]
    if sum(is_full) <= 3 or any(line and below for line, below in pairwise(is_full)):
        return None
    return [line for line in lines if line.strip()]


def _html_markup(lines: Lines) -> Lines | None:
    text = "\n".join(lines)
    is_broken = _BREAK.search(text) and LINE_OF_PLAN.search(text)
    is_html = is_broken or _ENTITY.search(text) or _TAG.search(text)
    is_json = text.lstrip()[:1] in "[{" and '"' in text and _BRACE.search(text) is None
    if not is_html or _MARKED_UP.search(text) or is_json:
        return None
    # A page's only block of preformatted text is like one in a Markdown fence.
    if len(_PREFORMATTED.findall(text)) == 2:
        text = _PREFORMATTED.sub("\n```\n", text)
    return html.unescape(_TAG.sub("", _BREAK.sub("\n", text))).replace("\u00a0", " ").split("\n")


def _code_fences(lines: Lines) -> Lines | None:
    # In a chat, the first or last line of text may contain a fence; JSON has them in strings.
    has_strings = any(map(_STRING_START.match, lines[:1]))
    if sum(line.count("```") for line in lines) > 1 and not has_strings:
        lines = [part for line in lines for part in _MARK.split(line)]
    elif not any(map(CODE_FENCE.fullmatch, lines)):
        return None
    return ["" if CODE_FENCE.fullmatch(line) else line for line in lines]


def _remarks(lines: Lines) -> Lines:
    """Removes remarks that an author put behind figures."""
    return _REMARK.sub(lambda remark: remark[1] or "", "\n".join(lines)).split("\n")


def _line_prefixes(lines: Lines) -> Lines | None:
    """Removes quote marks of mail, comment marks, and line numbers."""
    unframed = [line for line in lines if not _FRAME.fullmatch(line)]
    numbers = [int(line.split()[0]) for line in unframed if _BARRED_NUMBER.match(line)]
    is_framed = 0 < len(numbers) == len(unframed) < len(lines)
    if is_framed and all(number == above + 1 for above, number in pairwise(numbers)):
        return [_BARRED_NUMBER.sub("", line) for line in unframed]
    full = [line for line in lines if line.strip()]
    judged = [line for line in full if FIGURES.search(line)]
    for pattern in _PREFIXES:
        if not _may_be_prefix(pattern, full, has_figures=bool(judged)):
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


def _may_be_prefix(pattern: re.Pattern[str], lines: Lines, *, has_figures: bool) -> bool:
    """Whether a pattern may be a prefix of lines, not a part of a table or of a value."""
    is_barred = pattern is _BARRED_NUMBER
    # A bar after a number belongs to a table whose lines all end with a bar,
    if is_barred and all(line.rstrip().endswith("|") for line in lines):
        return False
    # or whose rule has no number.
    is_number = is_barred or pattern is _NUMBERED
    if is_number and not all(map(pattern.match, filter(tables.is_rule, lines))):
        return False
    # After a line with a name and a bar, a bar continues a value.
    if pattern is _BAR and any(map(_NAME_AND_BAR.match, lines)):
        return False
    if not is_barred and (has_figures or pattern is _QUOTED_MAIL):
        return True
    # Without known figures, all lines must have the prefix: one or two may have it by chance.
    return len(lines) > 2 and all(map(pattern.match, lines))


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


def _logged(lines: Lines) -> Lines | None:
    """Removes prefixes of shippers and loggers from program output, not from server messages."""
    full = [line for line in lines if line.strip()]
    if any(SERVER_MESSAGE.search(line) or line.startswith("{") for line in full):
        return None
    least = max(2, _SHARE * len(full))
    timed = list(filter(_TIMED.match, full))
    # Below the heading of a table, times are a column.
    is_timed = len(timed) >= least and not any(
        EXPORTED_COLUMNS.search(line) and not _TIMED.match(line) for line in full
    )
    pattern = common_prefix(timed or full)
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
    return prefix if is_json or all(map(re.compile(LINE_OF_EVENT).match, plain)) else None


def _before_plan(lines: Lines) -> re.Pattern[str] | None:
    """A pattern for the common prefix of a plan's lines, unless it contains a part of them."""
    lines = list(filter(LINE_OF_PLAN.search, lines))
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


def _indentation(lines: Lines) -> Lines:
    """Removes the common indentation, as of an indented block in a page or a mail."""
    return dedent("\n".join(lines)).split("\n")


_EXPORTS = (
    *(exported_rows.spelled, exported_rows.inserts),
    *(exported_rows.beside, exported_rows.listed),
    exported_rows.stacked,
)
#: The functions in the order of trial. Special tables precede general ones. Loggers are last,
#: because a bar before all lines may belong to a table. Records come first: they are the longest
#: texts, and most functions are slower.
WRAPPINGS: Sequence[Callable[[Lines], Lines | None]] = (
    embedded.logged_records,
    _typographic_characters,
    *(tables.plan_page, _markdown_escapes, tables.asciidoc, tables.html_page, tables.data_frame),
    *(_html_markup, embedded.data_in_text, _double_spacing, _code_fences, _remarks),
    *(_line_prefixes, _line_numbers, _indentation),
    *(embedded.logfmt, exported_rows.broken_xml, embedded.broken_json),
    *(embedded.task_result, embedded.printed_rows, embedded.string_list),
    *(embedded.plans_in_code, _quoted_cells),
    *_EXPORTS,
    tables.boxed,
    *(tables.named, tables.headless, tables.expanded, exported_rows.record_in_text),
    *(tables.column, tables.grid),
    _logged,
)
