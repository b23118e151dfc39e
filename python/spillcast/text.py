"""Text and names of others: on terminals, in shells, as arguments, as files for DuckDB."""

import glob
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

#: C0 but tab and the ends of lines, DEL, C1, what turns the direction of writing around, separators
#: of lines that are no newline, and bytes that are no UTF-8.
_CONTROL = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: Of ASCII what stays as it is, wherever it stands: most texts hold nothing else.
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F)])


def visible(text: str) -> str:
    """The text with control characters as escapes, such as ``\\x1b``; tab and newline stay."""
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return text
    return _CONTROL.sub(lambda match: _escape(match[0]), text)


def has_control(text: str) -> bool:
    """Whether a text holds control characters, tab and newline among them."""
    return "\n" in text or "\t" in text or _CONTROL.search(text) is not None


def one_line(text: str, length_max: int) -> str:
    """The text on one line of at most ``length_max`` characters; dots replace what is cut off."""
    line = " ".join(text.split())
    return line if len(line) <= length_max else f"{line[: length_max - 3]}..."


def capitalized(text: str) -> str:
    """The text with a capital at its beginning; a target such as ``latency:1ms`` stays."""
    is_target = ":" in text.partition(" ")[0].rstrip(":")
    return text if is_target else f"{text[:1].upper()}{text[1:]}"


def sentence(message: str) -> str:
    """A message as a sentence: with a capital, and a full stop where it has no other end."""
    return capitalized(message) + ("" if message.endswith((".", "?", "!")) else ".")


def is_utf8(text: str) -> bool:
    """Whether a name or an argument holds no bytes of another encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shell_word(text: object) -> str:
    """One word of a shell, whatever it holds, on one line.

    Control characters and quotes beside them are octal in ``$'...'``: a shell that does not know
    this form takes another name, and runs nothing.
    """
    word = str(text)
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
        # A byte that is no UTF-8, as file names may hold.
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def exact_name(path: str | Path) -> str:
    """A name that stands for this file alone, whatever letters are in it."""
    return glob.escape(os.path.abspath(path))


def rows_of(path: str | Path) -> str:
    """SQL for the rows of this Parquet file."""
    return "read_parquet('" + exact_name(path).replace("'", "''") + "')"


Item = TypeVar("Item", bound=str | Path)


def several(given: Item | Sequence[Item]) -> Sequence[Item]:
    """Those that are given, in a sequence."""
    if isinstance(given, str | Path):
        return [given]
    return given


#: From here on a name is like another: 1 is the same, 0 has nothing of it.
ALIKE = 0.75


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three of the ``known`` names, the most similar first, in any case."""
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[low] for low in get_close_matches(name.lower(), by_lower, 3, ALIKE)]


def near_path(path: Path) -> Path | None:
    """A file or folder beside ``path``, which is not there, whose name is like its name."""
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
    """The hint for a missing path: a similar path; None where there is none."""
    near = near_path(path)
    return None if near is None else f"do you mean {near}?"


def plan_line_words(operation: str, plan_line: int | None) -> str:
    """A line of a plan at the beginning of a sentence, such as ``The hash join of line 7``."""
    if not operation:
        return f"Line {plan_line} of the plan"
    return f"The {operation.lower()} of line {plan_line}"
