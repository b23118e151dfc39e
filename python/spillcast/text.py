"""Makes foreign text and names safe for terminals, shells and SQL, and finds similar names."""

import glob
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

#: C0 except tab and newlines, DEL, C1, marks of text direction, line separators other than newline,
#: and bytes that are not UTF-8.
_CONTROL = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: ASCII characters that never need an escape. Most texts contain no others.
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F)])


def visible(text: str) -> str:
    """The text with control characters as escapes, such as ``\\x1b``; tab and newline stay."""
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return text
    return _CONTROL.sub(lambda match: _escape(match[0]), text)


def has_control(text: str) -> bool:
    """Whether a text contains control characters, including tab and newline."""
    return "\n" in text or "\t" in text or _CONTROL.search(text) is not None


def one_line(text: str, length_max: int) -> str:
    """The text on one line of at most ``length_max`` characters; an ellipsis replaces the rest."""
    line = " ".join(text.split())
    return line if len(line) <= length_max else f"{line[: length_max - 3]}..."


def capitalized(text: str) -> str:
    """The text with a capital first letter, unless it begins with a target (``latency:1ms``)."""
    is_target = ":" in text.partition(" ")[0].rstrip(":")
    return text if is_target else f"{text[:1].upper()}{text[1:]}"


def sentence(message: str) -> str:
    """A message as a sentence, with a capital and a full stop."""
    return capitalized(message) + ("" if message.endswith((".", "?", "!")) else ".")


def is_utf8(text: str) -> bool:
    """Whether a name or an argument is valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shell_word(text: object) -> str:
    """Any text as one quoted word of a shell, on one line.

    A word with control characters is written as ``$'...'``, with these and quotes in octal. A shell
    without this syntax reads a different name, but runs nothing. A path is never an option.
    """
    word = str(text)
    if isinstance(text, Path) and word.startswith("-") and word != "-":
        word = f"./{word}"
    if not has_control(word):
        return shlex.quote(word)
    return "$'" + "".join(map(_octal, word)) + "'"


def _octal(letter: str) -> str:
    if letter in "'\\" or has_control(letter):
        return "".join(f"\\{byte:03o}" for byte in letter.encode(errors="surrogateescape"))
    return letter


def _escape(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:
        # A surrogate escape: a byte of a file name that is not UTF-8.
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def exact_name(path: str | Path) -> str:
    """A glob pattern that matches only this file."""
    return glob.escape(os.path.abspath(path))


def sql_literal(text: str) -> str:
    """A string constant of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def rows_of(path: str | Path) -> str:
    """SQL for the rows of this Parquet file."""
    return f"read_parquet({sql_literal(exact_name(path))})"


Item = TypeVar("Item", bound=str | Path)


def several(given: Item | Sequence[Item]) -> Sequence[Item]:
    """The items as a sequence, also if a single one is given."""
    if isinstance(given, str | Path):
        return [given]
    return given


#: Least similarity of similar names; equal names have 1.
SIMILARITY_MIN = 0.75


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three similar names of ``known``, the most similar first; case is ignored."""
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[low] for low in get_close_matches(name.lower(), by_lower, 3, SIMILARITY_MIN)]


def near_path(path: Path) -> Path | None:
    """A similar path in the folder of ``path``, which does not exist; None if there is none."""
    try:
        # A broken symbolic link is listed, too.
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.name != path.name)
    except OSError:
        return None
    # A recording is often named without its suffix.
    likely = [name for name in names if Path(name).stem == path.name]
    names_near = likely or near_names(path.name, names)
    return path.with_name(names_near[0]) if names_near and path.name else None


def path_hint(path: Path) -> str | None:
    """The hint for a missing path, which names a similar one; None if there is none."""
    near = near_path(path)
    return None if near is None else f"do you mean {near}?"


def plan_line_text(operation: str, plan_line: int | None) -> str:
    """A line of a plan at the beginning of a sentence, such as ``The hash join of line 7``."""
    if not operation:
        return f"Line {plan_line} of the plan"
    return f"The {operation.lower()} of line {plan_line}"
