"""The text of a report in one form, and what notices the lines of it that nothing read."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from spillcast.errors import EvidenceDamaged, FileTooLarge
from spillcast.evidence.figures.numbers import with_decimal_points
from spillcast.evidence.tables import BLANKS
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped

#: Figures of temp I/O: a wait's name with a count or a time, and blocks of a row source.
FIGURES = re.compile(
    r"direct path (?:read|write) temp\b\W*[\d.]|\(?\b(?:cr|pr|pw)=\d|\bela= ?\d", re.IGNORECASE
)
_SHOWN = 100
#: A row is broken into no more lines.
_BROKEN_MAX = 20
#: Reports take some MiB, and a page some 15 bytes a tag.
REPORT_BYTES_MAX, TAGS_MAX = 32 << 20, 1_000_000


def report_text(path: Path, hint: str) -> str:
    """The text with plain blanks and decimal points. InputError where it is too long."""
    text = text_of(path, hint, bytes_max=REPORT_BYTES_MAX)
    if text.count("<") > TAGS_MAX:
        raise FileTooLarge(f"{path}: a page of more than {TAGS_MAX:,} tags is no report", hint)
    return _with_whole_rows(with_decimal_points(unwrapped(text).translate(BLANKS).expandtabs()))


def _with_whole_rows(text: str) -> str:
    """The text with each row between bars in one line, where a client broke long lines."""
    lines: list[str] = []
    joined = 0
    for line in text.split("\n"):
        row = lines[-1] if lines else ""
        begins = row.lstrip().startswith("|")
        if begins and line.find("|") not in (-1, row.find("|")) and joined < _BROKEN_MAX:
            lines[-1] += line
            joined += 1
        else:
            lines.append(line)
            joined = 0
    return "\n".join(lines)


def table_lines(path: Path, hint: str) -> list[str]:
    """The lines of a table that a client exported. InputError where it is too long."""
    return unwrapped(text_of(path, hint)).translate(BLANKS).splitlines()


def check_all_read(path: Path, lines: Sequence[str], read: Collection[int], hint: str) -> None:
    """InputError for the first line with figures of temp I/O that is not among those read."""
    for at, line in enumerate(lines):
        if at not in read and FIGURES.search(line):
            shown = " ".join(line.split())[:_SHOWN]
            raise EvidenceDamaged(f"{path}: line {at + 1:,} is not understood: {shown}", hint)
