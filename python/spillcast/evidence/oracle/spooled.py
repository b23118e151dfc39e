"""Reads tables that Oracle's clients export as text, with damaged lines, numbers and times."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from spillcast.columns import TEXT, ColumnValues
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    FileTooLarge,
    OptionInvalid,
)
from spillcast.evidence.table_rows import (
    BLANKS,
    EXPORTED_COLUMNS,
    JSON_ROWS,
    NULLS,
    SEPARATORS,
    split_at,
    texts_of_json,
)
from spillcast.evidence.text import head_of, opened_text, text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import conflicting_names, damaged, reading
from spillcast.tables import any_table_of
from spillcast.units import format_count

#: The number of first lines that are searched for the heading, below echoed commands and blanks.
_HEADING_LINES_MAX = 200
#: SQL*Plus writes lines of at most 32,767 characters, and a table has at most 4,096 columns.
_LINE_MAX, _COLUMNS_MAX = 1 << 17, 4_096
#: Lines between two reports of progress.
PROGRESS_LINES = 4096
#: The gap between columns that only blanks separate, without an underline.
_GAP = re.compile(r"\s{2,}")
_UNDERLINE = re.compile(r"[\s,;|+]*-+([\s,;|+]+-+)*[\s,;|+]*")
#: What clients print around rows. In all languages, a number of rows is the only number of its
#: sentence or is in parentheses, and a time follows a word.
_FEEDBACK = re.compile(
    r"SQL> |SQL>$|\s*\d+\s+rows? selected|no rows selected|sep=.$|Disconnected from "
    r"|[^\d,;|\t\"]{,40}\d+[^\d,;|\t\"]{1,40}[.。]\s*$|\s*\([^\d()]{,40}\d+[^\d()]{1,40}\)\s*$"
    r"|[^\d,;|\t\"]{2,40}[:\uff1a] *(?:\d\d ?: ?\d\d ?: ?\d\d[.,]\d+|\d{4}-\d\d-\d\dT\S+)\s*$"
    r"|\s*+/?\*+/?\s*+$",
    re.IGNORECASE,
)
_STATEMENT, _STATEMENT_LINES_MAX = re.compile(r"\s*(?:SQL> *)?(?:select|with)\b", re.IGNORECASE), 40
_QUOTED = re.compile(r"^(?:> ?)+")
#: The start of rows in commands, objects or records of several lines, or below several headings.
_COMMANDS = re.compile("^insert into |<COLUMN NAME=", re.IGNORECASE | re.MULTILINE)
_WRAPPED = re.compile(
    rf"{_COMMANDS.pattern}|^[A-Z]\w+ +: |^ *-[- ]*\n *[A-Z].*\n *-[- ]*$|\A[\s\[]*+\{{\s*+'",
    re.IGNORECASE | re.MULTILINE,
)
#: Exports that are longer are not unwrapped.
_UNWRAPPED_BYTES_MAX = 64 << 20
#: The number of first bytes that show whether a file is JSON or Parquet.
_START_BYTES = 4096

_Split = Callable[[str], list[str]]
#: Cells by column.
SpooledRow = dict[str, str | None]


@dataclass(frozen=True)
class Damage:
    """A line that could not be read completely, and its problem; lines count from 1."""

    file: str
    line: int
    problem: str

    @property
    def row(self) -> dict[str, Any]:
        """As the reader of traces gives a damaged line."""
        return {"file": self.file, "line": self.line, "what": self.problem}


@dataclass(frozen=True)
class Spooled:
    """The wanted columns of a file, null for empty cells; ``lines`` has each row's line.

    A value that cannot be converted counts as damage of its line.
    """

    path: Path
    heading: Sequence[str]
    columns: Mapping[str, ColumnValues]
    lines: Sequence[int]
    damaged: list[Damage]

    @property
    def rows(self) -> Iterator[SpooledRow]:
        """The rows by column."""
        columns = (column.to_pylist() for column in self.columns.values())
        for values in zip(*columns, strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def numbers(self, name: str) -> ColumnValues:
        """The column as whole numbers; null for an empty cell, and with damage for other texts."""
        column = self.columns.get(name)
        if column is None or column.type == "null":
            return ColumnValues.nulls(len(self.lines), "int64")
        if column.type == "decimal" or column.type.startswith("float"):
            return replace(column, type="float64", values=np.round(column.filled(0))).cast("int64")
        if column.type.startswith(("int", "uint")):
            return column.cast("int64")
        if not column.is_text:
            raise EvidenceDamaged(f"column {name} holds {column.type}, not numbers")
        numbers = by_text(column, [parse_integer(text) for text in column.names])
        for row in np.flatnonzero(numbers.is_null() & column.is_valid()).tolist():
            self.damage(row, f"{name} is {column[row]!r}: treated as unknown")
        return numbers

    def texts(self, name: str) -> ColumnValues:
        """The column as texts; null for an empty cell."""
        column = self.columns.get(name)
        if column is None:
            return ColumnValues.nulls(len(self.lines), TEXT)
        column = column.cast(TEXT)
        return replace(column, values=np.where(column.equals(""), -1, column.values))

    def damage(self, row: int, problem: str) -> None:
        """Add a problem of a row to ``damaged``."""
        self.damaged.append(Damage(str(self.path), self.lines[row], problem))


def normal_name(heading: str) -> str:
    """The normal form of a heading: ``"Session_Serial#"`` and ``session serial`` are equal."""
    return re.sub(r"[\s_]+", "_", heading.strip().strip('"').replace("#", "").lower())


def read_spooled(
    path: Path, names: Mapping[str, str], on_progress: Callable[[int], None] | None = None
) -> Spooled:
    """Read the columns whose normal heading is a key of ``names``, under the name of its value.

    Rows are in Parquet or JSON, or values are separated by commas, semicolons, bars or tabs, with
    or without quotes, or in columns of fixed width below an underlined heading. Headings that are
    repeated on each page and feedback such as ``773 rows selected.`` are not rows. A row with
    too few or too many values is damaged. ``on_progress`` gets the number of characters so far.
    """
    with reading(path, "export it again"):
        head = head_of(path, _START_BYTES)
        if head.startswith("PAR1"):
            return _of_parquet(path, names)
        if JSON_ROWS.match(head) and not _WRAPPED.search(head):
            return _of_text(path, text_of(path), names)
        is_long = path.stat().st_size > _UNWRAPPED_BYTES_MAX
        # Below the heading of a CSV, a command is in the text of a statement.
        commands = _COMMANDS.search(head)
        if is_long and commands and not EXPORTED_COLUMNS.search(head, 0, commands.start()):
            problem = f"more than {_UNWRAPPED_BYTES_MAX >> 20} MiB of INSERT commands or XML"
            raise FileTooLarge(problem, "export the rows as CSV")
        # A longer text is read in batches.
        if not is_long and _WRAPPED.search(head):
            return _of_text(path, unwrapped(text_of(path)), names)
        with opened_text(path) as file:
            return _of_lines(path, _bounded(file, on_progress), names)


def _of_parquet(path: Path, names: Mapping[str, str]) -> Spooled:
    """The columns with the types of the export; a reader reports a type that it cannot use."""
    table, columns = any_table_of(path), dict[str, ColumnValues]()
    for title in table.column_names:
        if (name := names.get(normal_name(title))) is not None:
            columns.setdefault(name, table[title])
    return Spooled(path, table.column_names, columns, range(1, table.num_rows + 1), [])


def _of_text(path: Path, text: str, names: Mapping[str, str]) -> Spooled:
    """The columns of a table, or of rows in JSON, whose line numbers are those of rows."""
    if not JSON_ROWS.match(text):
        return _of_lines(path, text.splitlines(), names)
    heading, rows = texts_of_json(text)
    return _read_rows(path, heading, enumerate(rows, start=1), names)


def _of_lines(path: Path, text: Iterable[str], names: Mapping[str, str]) -> Spooled:
    lines = (line.rstrip("\r\n").replace("\f", "") for line in text)
    # Remove the marks of a quoted mail.
    lines = (_QUOTED.sub("", line, count=1) for line in lines)
    head = list(islice(lines, _HEADING_LINES_MAX))
    at, split = _find_heading(head, names)
    heading = split(head[at]) if head else []
    rows = (
        (number, split(line))
        for number, line in enumerate(chain(head[at + 1 :], lines), start=at + 2)
        if line.strip() and not _UNDERLINE.fullmatch(line) and not _FEEDBACK.match(line)
    )
    return _read_rows(path, heading, rows, names)


def exported_rows(path: Path, names: Sequence[str], needed: Sequence[str]) -> list[SpooledRow]:
    """The rows of an exported table with the columns ``names``.

    InputError if one of the ``needed`` columns is missing, or if a line is damaged.
    """
    named = {normal_name(name): name for name in names}
    with reading(path):
        spooled = _of_text(path, unwrapped(text_of(path)).translate(BLANKS), named)
        for name in needed:
            if name not in spooled.columns:
                raise EvidenceIncomplete(f"it lacks the column {name}")
        for damage in spooled.damaged:
            raise EvidenceDamaged(f"line {damage.line}: {damage.problem}")
    return list(spooled.rows)


def _bounded(file: IO[str], on_progress: Callable[[int], None] | None) -> Iterator[str]:
    """The lines of a file. InputError for a line that is too long for an export."""
    number = count = 0
    while line := file.readline(_LINE_MAX):
        number, count = number + 1, count + len(line)
        if len(line) == _LINE_MAX:
            raise damaged(f"line {number:,} has more than {_LINE_MAX:,} characters")
        if on_progress is not None and number % PROGRESS_LINES == 0:
            on_progress(count)
        yield line


def _find_heading(head: list[str], names: Mapping[str, str]) -> tuple[int, _Split]:
    """The first line with the most wanted names, and the function that splits it and the rows."""
    best: tuple[int, int, _Split] = (-1, 0, str.split)
    echoed = _echoed(head)
    for at, line in enumerate(head):
        if at in echoed or not line.strip() or _FEEDBACK.match(line) or _UNDERLINE.fullmatch(line):
            continue
        below = next((text for text in head[at + 1 :] if text.strip()), "")
        for split in _splits(below):
            cells = split(line)
            if len(cells) > _COLUMNS_MAX:
                continue
            known = {names.get(normal_name(cell)) for cell in cells} - {None}
            if len(known) > best[0]:
                best = (len(known), at, split)
    return best[1], best[2]


def _echoed(head: list[str]) -> set[int]:
    """The lines of statements that a client echoed above their rows."""
    echoed: set[int] = set()
    for first in (at for at, line in enumerate(head) if _STATEMENT.match(line)):
        lines = range(first, min(first + _STATEMENT_LINES_MAX, len(head)))
        last = next((at for at in lines if head[at].rstrip().endswith((";", "/"))), first)
        echoed.update(range(first, last + 1))
    return echoed


def _splits(below: str) -> list[_Split]:
    """The functions that may split a heading above the line ``below``."""
    if not _UNDERLINE.fullmatch(below):
        by_separator = (partial(split_at, separator) for separator in SEPARATORS)
        return [*by_separator, lambda line: _GAP.split(line.strip())]
    separator = next((s for s in SEPARATORS if s in below.replace("+", "|")), "")
    return [_by_width(below, separator)]


def _by_width(underline: str, separator: str) -> _Split:
    """Split into columns as wide as their dashes, or at separators if these give as many."""
    spans = [match.span() for match in re.finditer("-+", underline.expandtabs())]

    def split(line: str) -> list[str]:
        framed = line.strip().removeprefix("|").removesuffix("|")
        for text in (line, framed) if separator else ():
            if len(cells := split_at(separator, text)) == len(spans):
                return cells
        wide = line.expandtabs()
        return [wide[start:end].strip() for start, end in spans]

    return split


def _read_rows(
    path: Path,
    heading: list[str],
    rows: Iterable[tuple[int, list[str]]],
    names: Mapping[str, str],
) -> Spooled:
    wanted: dict[str, int] = {}
    titles = [normal_name(cell) for cell in heading]
    for position, title in enumerate(titles):
        if title in names:
            wanted.setdefault(names[title], position)
    # Columns with one name, such as those of a join of two views, may differ.
    may_differ = len(set(titles)) < len(titles)
    columns: dict[str, list[str | None]] = {name: [] for name in wanted}
    # Equal texts of an export take memory once.
    shared = dict[str, str]()
    numbers: list[int] = []
    damaged: list[Damage] = []
    for number, cells in rows:
        if cells == heading:
            continue
        if len(cells) != len(heading):
            text = f"{format_count(len(cells), 'value')} where the heading has {len(heading)}"
            damaged.append(Damage(str(path), number, text))
            continue
        differing = conflicting_names(zip(titles, cells, strict=True)) if may_differ else ()
        if differs := [name for name, *_ in differing if name in names]:
            text = f"{differs[0]} occurs twice with different values: select one"
            damaged.append(Damage(str(path), number, text))
            continue
        numbers.append(number)
        for name, position in wanted.items():
            cell = cells[position]
            columns[name].append(None if cell in NULLS else shared.setdefault(cell, cell))
    texts = {name: ColumnValues.of(cells, TEXT) for name, cells in columns.items()}
    return Spooled(path, heading, texts, numbers, damaged)


def by_text(column: ColumnValues, parsed: Sequence[int | None]) -> ColumnValues:
    """The parsed value of each row; ``parsed`` has one for each distinct text of the column."""
    of_row: ColumnValues = ColumnValues.of([*parsed, None], "int64")[column.values]
    return of_row


_INT64_MAX = (1 << 63) - 1
SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * SECOND_NS
_GROUPED = re.compile(
    r"([+-]?\d{1,3}(?:([.,' \u2019\u00a0\u202f])\d{3})(?:\2\d{3})*)(?:(?!\2)[.,](\d+))?"
)

#: The first letters of the months in languages of NLS_DATE_LANGUAGE.
_LANGUAGES = (
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "jan feb mär apr mai jun jul aug sep okt nov dez",
    "janv févr mars avr mai juin juil août sept oct nov déc",
    "ene feb mar abr may jun jul ago sep oct nov dic",
    "gen feb mar apr mag giu lug ago set ott nov dic",
    "jan fev mar abr mai jun jul ago set out nov dez",
    "sty lut mar kwi maj cze lip sie wrz paź lis gru",
    "oca şub mar nis may haz tem ağu eyl eki kas ara",
    "янв фев мар апр май июн июл авг сен окт ноя дек",
    "січ лют бер кві тра чер лип сер вер жов лис гру",  # noqa: RUF001
    "jan feb mrt apr mei jun jul aug sep okt nov dec",
    "jan feb mar apr mai jun jul aug sep okt nov des",
    "led úno bře dub kvě čer čvc srp zář říj lis pro",
    "tamm helm maal huht touk kesä hein elo syys loka marr joul",
    "jan feb már ápr máj jún júl aug sze okt nov dec",
    "ian feb mar apr mai iun iul aug sep oct noi dec",
)
_MONTHS = {"mrz": 3} | {
    name: number for names in _LANGUAGES for number, name in enumerate(names.split(), 1)
}
_TIMESTAMP = re.compile(
    r"""(?P<first>\d{1,4}) [-/. ]
    (?P<second>\d{1,2}|[^\W\d_]{3,9}\.?) [月월]? \ * [-/. ] (?P<third>\d{1,4})
    (?: [T\s]+ (?P<hour>\d{1,2}) [:.] (?P<minute>\d{2})
        (?: [:.] (?P<second_of_minute>\d{2}) (?: [.,:] (?P<fraction>\d{1,9}) )? )?
        (?: \s* (?P<half>(?:[AP](?=\.?M)|[上下](?=午)|오[전후]|午[前後])) (?:\.?M\.?|午)? )?
        (?: \s* (?P<zone> Z | UTC | GMT | [+-]\d{2}:?\d{2} | [A-Z]\w+(?:/\w+)+ ) )?
    )?""",
    re.VERBOSE | re.IGNORECASE,
)
#: Seconds since 1970, of the years 2001 to 2286, with decimals or in ms, us or ns.
_SINCE_1970 = re.compile(r"([1-9]\d{9})((?:\d{3}){0,3})(?:\.(\d{1,9}))?")
#: Days of the years 1954 to 2119 in spreadsheets, where 1970-01-01 is day 25,569.
_SERIAL = re.compile(r"([2-7]\d{4})[.,](\d{5,12})")
_AFTERNOON = ("P", "p", "下", "오후", "午後")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_integer(text: str) -> int | None:
    """The whole number nearest to ``19305``, ``19,305``, ``1.9305E+04`` or ``19305,25``.

    All numbers of ASH are whole, so a single separator before three digits groups thousands. None
    for a text that is no number, such as ``####``, which SQL*Plus prints for a number too wide.
    """
    text = text.strip()
    try:
        return _within(int(text))
    except ValueError:
        pass
    if grouped := _GROUPED.fullmatch(text):
        digits = grouped[1].replace(grouped[2], "")
        text = f"{digits}.{grouped[3] or 0}"
    try:
        return _within(round(float(text.replace(",", "."))))
    except (ValueError, OverflowError):
        return None


def _within(number: int) -> int | None:
    return number if abs(number) <= _INT64_MAX else None


def month_comes_first(texts: Iterable[str]) -> bool | None:
    """Whether the month is first in dates of ``texts``, as in ``10/14/2024``; None if unknown."""
    for text in texts:
        match = _TIMESTAMP.match(text)
        if match and len(match["first"]) < 3 and match["second"].isdecimal():
            if int(match["second"]) > 12:
                return True
            if int(match["first"]) > 12:
                return False
    return None


def parse_time_ns(text: str, *, month_first: bool = False) -> int | None:
    """Nanoseconds since 1970 of a date and time; None for other texts.

    Forms are ``2024-10-14 12:34:56.789``, ``2024-10-14T12:34:56Z``, ``14-OCT-24 12.34.56.789 PM``,
    ``14.10.24 12:34:56,789000``, ``2024/10/14``, ``1728909296789``, of s, ms, us or ns, and
    ``45579.52426``, of a spreadsheet. Offsets from UTC are applied, names of zones are not, because
    only differences of times are used.
    """
    text = text.strip()
    if since_1970 := _SINCE_1970.fullmatch(text):
        fraction = since_1970[2] + (since_1970[3] or "")
        return _within(int(since_1970[1] + fraction.ljust(9, "0")[:9]))
    if serial := _SERIAL.fullmatch(text):
        part_ns = int(serial[2]) * _DAY_NS // 10 ** len(serial[2])
        return _within((int(serial[1]) - 25_569) * _DAY_NS + part_ns)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        date = _date(match["first"], match["second"], match["third"], month_first=month_first)
        clock = timedelta(
            hours=_hour(int(match["hour"] or 0), match["half"]),
            minutes=int(match["minute"] or 0),
            seconds=int(match["second_of_minute"] or 0),
        )
        moment = date + clock
        if (match["zone"] or "").startswith(("+", "-")):
            moment = moment.replace(tzinfo=datetime.strptime(match["zone"], "%z").tzinfo)
        since = moment - _EPOCH
    except (ValueError, KeyError, OverflowError):
        return None
    fraction_ns = int((match["fraction"] or "0").ljust(9, "0"))
    return _within((since.days * 86_400 + since.seconds) * SECOND_NS + fraction_ns)


def clock(time_ns: int) -> str:
    """A time as YYYY-MM-DD HH:MM:SS."""
    return f"{datetime.fromtimestamp(time_ns // SECOND_NS, UTC):%Y-%m-%d %H:%M:%S}"


def chosen_time_ns(
    option: str, text: str, ends_ns: tuple[int, int], *, month_first: bool = False
) -> int:
    """The time that an option names, in ns since 1970; ``ends_ns`` are those of the evidence.

    A time without a day is of the only day on which the evidence has it. InputError for a text that
    is no time, and if there are several such days.
    """
    if (time_ns := parse_time_ns(text, month_first=month_first)) is not None:
        return time_ns
    first_ns, last_ns = ends_ns
    if (time_ns := parse_time_ns(f"1970-01-01 {text}")) is None:
        raise OptionInvalid(
            f"--{option} '{text}' is not a time", f"write for example {clock(first_ns)}"
        )
    # The clock of a trace may have been set back, to a day before the first.
    days = range(min(ends_ns) // _DAY_NS, max(ends_ns) // _DAY_NS + 1)
    times = [day * _DAY_NS + time_ns for day in days]
    within = [time for time in times if first_ns <= time <= last_ns]
    if len(within) != 1 < len(times):
        raise EvidenceMixed(
            f"--{option} {text}: the evidence is of several days",
            f"write the day too, as in '{clock(first_ns)}'",
        )
    return (within or times)[0]


def has_seconds_in(text: str) -> bool:
    """Whether the date is followed by a time of day with seconds."""
    match = _TIMESTAMP.fullmatch(text.strip())
    has_second = match is not None and match["second_of_minute"] is not None
    return has_second or any(form.fullmatch(text.strip()) for form in (_SINCE_1970, _SERIAL))


def _date(first: str, second: str, third: str, *, month_first: bool) -> datetime:
    day, month, year = first, second, third
    if len(first) == 4:
        day, year = third, first
    elif month_first:
        day, month = second, first
    # In lower case, a Turkish İ keeps its dot as a character of its own.
    name = month.lower().replace("\u0307", "")
    number = int(month) if month.isdecimal() else _MONTHS.get(name[:4]) or _MONTHS[name[:3]]
    full_year = int(year) + (2000 if len(year) <= 2 else 0)
    return datetime(full_year, number, int(day), tzinfo=UTC)


def _hour(hour: int, half: str | None) -> int:
    if hour > 23 or (half and not 1 <= hour <= 12):
        raise ValueError(hour)
    return hour if half is None else hour % 12 + (12 if half in _AFTERNOON else 0)
