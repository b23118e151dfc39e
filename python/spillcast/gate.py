"""Checks of untrusted files: bounded text, JSON and XML, and errors that name file and place.

Readers request text, JSON or a table and state their requirements: bounded size and depth, columns
of given kinds, numbers that are finite and not negative. Data is checked where it enters, so later
code needs no checks. ``document.py`` then reads JSON documents as dataclasses, and
``recording/schema.py`` compares the rows of a recording with its meta.json.

``reading`` surrounds the work of a reader. It converts a parser's failure to an InputError that
names the file and the place.
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import (
    OF_CONTENT,
    OF_MAKING,
    EvidenceDamaged,
    FileTooLarge,
    FileUnreadable,
    InputError,
    PathMissing,
    PathUnusable,
    SpillcastError,
    first_line,
    is_interruption,
    place,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

#: Limit of text. Documents and plans have some KiB, a server's log much more.
TEXT_BYTES_MAX = 256 << 20
#: Limits of JSON, which may take much more memory: characters, lists plus objects, and values.
JSON_LENGTH_MAX, JSON_PARTS_MAX, JSON_VALUES_MAX = 32 << 20, 1_000_000, 8_000_000
#: Limit of XML, whose elements take a lot of memory, too.
XML_LENGTH_MAX = 64 << 20
#: Nesting of lists and objects. A plan of PostgreSQL has two levels for each node.
DEPTH_MAX = 400
#: Limit of integers: counts, bytes, nanoseconds and the 64 bits of a query's identifier.
INTEGER_MAX = (1 << 64) - 1
#: Limit of counts, bytes and times in tables: 9 PB and 104 days, so that sums fit into 64 bits.
COUNT_MAX = 1 << 53

#: Errors of parsers for invalid input; any other error is a bug of this program.
UNREADABLE = (ValueError, LookupError, ArithmeticError, EOFError, RecursionError, zlib.error)
#: The place where a JSON value begins: at the start of a line, or after a name at its end.
_VALUE = re.compile(r"^[ \t]*(?=[\[{])|[:=(] ?(?=[\[{][ \t]*$)", re.MULTILINE)
#: A number, also the text of a 64-bit number that JSON has in quotes; no time of day.
_FIGURE = re.compile(r"\s*+-?\d[\d.,']*+\s*+")
#: An escaped half of a surrogate pair, which may lack the other half.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
#: The beginning of an object or of a list of objects.
_MEMBER = r'^[\[{\s]*"[\w-]+"\s*:'
#: Length in which ``mark`` must match, and in which text other than JSON fails to parse.
_MARKED_LENGTH, _TRIED_LENGTH = 200, 4096
#: Libraries that parse files, with their own exceptions.
LIBRARIES = {"_duckdb", "_csv", "_lzma", "tarfile", "zipfile"}
#: Errors whose message is clear without the location in the code.
_CLEAR = (ValueError, EOFError, zlib.error)
#: The beginning of the paths of our modules.
_PACKAGE = f"{Path(__file__).parent}{os.sep}"


@contextmanager
def reading(where: str | Path | None = None, hint: str | None = None) -> Iterator[None]:
    """Add ``where`` to errors about its content, and convert a parser's failure to such an error.

    ``hint`` is how to create the file, for errors that a new file fixes. An error keeps the place
    and hint it has. ``where`` is None if the caller adds it.
    """
    try:
        yield
    except SpillcastError as error:
        if isinstance(error, OF_CONTENT):
            place(error, where, hint if isinstance(error, OF_MAKING) else None)
        raise
    except OSError as error:
        if not error.errno:
            # Only the first line of a library's error is the reason.
            raise EvidenceDamaged(f"cut or damaged: {first_line(error)}", hint, where) from error
        kind = PathMissing if isinstance(error, FileNotFoundError) else FileUnreadable
        raise kind(os.strerror(error.errno), hint, where) from error
    except Exception as error:
        if is_interruption(error):
            raise KeyboardInterrupt from error
        if not (_of_library(error) or isinstance(error, UNREADABLE)):
            raise
        raise EvidenceDamaged(
            f"cut or damaged: {_reason(error)}{_place(error)}", hint, where
        ) from error


def _of_library(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in LIBRARIES


def damaged(text: str, hint: str | None = None) -> InputError:
    """The error for a file that is cut or damaged."""
    return EvidenceDamaged(f"cut or damaged: {text}", hint)


def check_kind(path: Path) -> None:
    """InputError for a device, a socket or a named pipe, whose reads may never end.

    Standard input and a pipe made by the shell, such as ``<(zcat run.trc.gz)``, have a writer.
    """
    if not path.exists() or path.is_file() or path.is_dir():
        return
    if path.is_fifo() and str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/")):
        return
    text = "a named pipe" if path.is_fifo() else "a device or a socket"
    raise PathUnusable(f"{path} is {text}, not a file", "copy what it holds to a file")


def text_of(path: Path) -> str:
    """The text of a file, with invalid UTF-8 replaced. InputError if it is too long."""
    check_kind(path)
    with reading(path), path.open("rb") as file:
        content = bounded(file.read(TEXT_BYTES_MAX + 1))
    return content.decode("utf-8-sig", errors="replace")


def bounded(content: bytes, bytes_max: int = TEXT_BYTES_MAX) -> bytes:
    """The content. FileTooLarge if it is longer than ``bytes_max``."""
    if len(content) > bytes_max:
        raise FileTooLarge(f"more than {bytes_max >> 20} MiB, which is too long to be read")
    return content


def json_of(text: str) -> Any:
    """The JSON value of a text.

    InputError if it is cut or damaged, deeper than DEPTH_MAX, or contains numbers that are not
    finite, invalid text, or two figures of one name.
    """
    _check_size(text)
    if not (text := text.strip()):
        raise damaged("it is empty")
    value, end = json_at(text, 0)
    if text[end:]:
        raise damaged(f"not JSON: more follows: {text[end : end + 40]}")
    return value


def json_at(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at a place, and its end. InputError as in ``json_of``."""
    try:
        return _decoded(text, at, unambiguous)
    except ValueError as error:
        raise damaged(f"not JSON: {error}") from error


def json_values(text: str, mark: str = _MEMBER, *, repeats: bool = False) -> Iterator[Any]:
    """The JSON values among other text, at the start of a line or after a name at its end.

    With ``repeats``, a list holds the values of a repeated name in an object; else the last counts.
    InputError as in ``json_of``, also if a value that begins with a match of ``mark`` is truncated.
    """
    at = 0
    while (match := _VALUE.search(text, at)) is not None:
        if _is_other_text(text[match.end() : match.end() + _TRIED_LENGTH], mark):
            at = match.end() + 1
            continue
        try:
            value, at = _decoded(text, match.end(), _grouped if repeats else unambiguous)
        except ValueError as error:
            # Text that fails at once is not JSON, such as the prompt of psql.
            begun = not isinstance(error, json.JSONDecodeError) or error.pos > match.end() + 1
            marked = text[match.end() : match.end() + _MARKED_LENGTH]
            if begun and re.search(mark, marked):
                raise damaged(f"not JSON: {error}") from error
            at = match.end() + 1
            continue
        yield value


def _decoded(text: str, at: int, object_of: Callable[..., Any]) -> tuple[Any, int]:
    """The JSON value that begins at a place, and its end. ValueError, or InputError as json_of."""
    decoder = json.JSONDecoder(
        object_pairs_hook=object_of, parse_float=_finite, parse_constant=_finite
    )
    try:
        value, end = decoder.raw_decode(text, at)
        if _HALF.search(text, at, end):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise damaged(f"nested deeper than {DEPTH_MAX} levels") from error
    _check_size(text[at:end])
    _check(value)
    return value, end


def _finite(text: str) -> float:
    if not isfinite(number := float(text)):
        raise damaged(f"not JSON: {text} is out of range")
    return number


def _check_size(text: str) -> None:
    """FileTooLarge for JSON that would take too much memory."""
    if len(text) > JSON_LENGTH_MAX:
        raise FileTooLarge(f"more than {JSON_LENGTH_MAX >> 20} MiB of JSON")
    if text.count("[") + text.count("{") > JSON_PARTS_MAX or text.count(",") > JSON_VALUES_MAX:
        raise FileTooLarge(f"more than {JSON_PARTS_MAX:,} lists and objects, or values")


def conflicting_names(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Each repeated name with another value than before: the name, the first value, the other."""
    first: dict[str, Any] = {}
    for name, value in pairs:
        if first.setdefault(name, value) != value:
            yield name, first[name], value


def unambiguous(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object or a row of a table; the last value of a repeated name counts.

    InputError if a name has different figures, except identifiers, as in joins.
    """
    values = dict(pairs)
    for name, *both in conflicting_names(pairs) if len(values) < len(pairs) else ():
        if not name.endswith("id") and any(_FIGURE.fullmatch(str(part)) for part in both):
            raise damaged(f"{name} has two values, {both[0]} and {both[1]}: select one")
    return values


def _grouped(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which a list holds the values of a repeated name."""
    values: dict[str, list[Any]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    unambiguous(pairs)
    return {name: many if len(many) > 1 else many[0] for name, many in values.items()}


def _is_other_text(beginning: str, mark: str) -> bool:
    """Whether no JSON value begins so. Only a prefix is parsed: errors in long texts are slow."""
    try:
        json.JSONDecoder().raw_decode(beginning)
    except RecursionError:
        return False
    except json.JSONDecodeError as error:
        # The text after it may complete a string, or a value near the end.
        early = error.pos < _TRIED_LENGTH // 2 and "Unterminated" not in error.msg
        is_sure = early or len(beginning) < _TRIED_LENGTH
        return is_sure and re.search(mark, beginning[:_MARKED_LENGTH]) is None
    return False


def object_of(text: str) -> dict[str, Any]:
    """The object of a text in JSON. InputError as in ``json_of``, and for other values."""
    record = json_of(text)
    if not isinstance(record, dict):
        raise damaged("it is not an object")
    return record


def objects_in(document: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """The objects in the list of a key. InputError if it is empty or something else."""
    parts = document.get(key)
    if not isinstance(parts, list) or not parts or not all(isinstance(p, dict) for p in parts):
        raise damaged(f"{key} are empty or no list of objects")
    return parts


def _check(document: Any) -> None:
    """InputError for nesting that is too deep and integers that are too large."""
    level = [document]
    for _ in range(DEPTH_MAX + 1):
        parts = [part for part in level if isinstance(part, dict | list)]
        if any(type(part) is int and abs(part) > INTEGER_MAX for part in level):
            raise damaged(f"a number is above {INTEGER_MAX:.2g}")
        if not parts:
            return
        inner = (part.values() if isinstance(part, dict) else part for part in parts)
        level = list(chain.from_iterable(inner))
    raise damaged(f"nested deeper than {DEPTH_MAX} levels")


def xml_of(text: str) -> "Element":
    """The root of a text in XML. InputError if it is damaged, too large or too deep.

    Definitions of entities are refused, because they may expand without a limit.
    """
    from xml.etree.ElementTree import ParseError, TreeBuilder, XMLParser

    if len(text) > XML_LENGTH_MAX or text.count("<") > 2 * JSON_PARTS_MAX:
        raise FileTooLarge(f"more than {XML_LENGTH_MAX >> 20} MiB or too many parts of XML")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise damaged("it defines entities, as no report does")

    class Bounded(TreeBuilder):
        depth = 0

        def start(self, tag: str, attrs: dict[Any, Any]) -> "Element":
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise damaged(f"nested deeper than {DEPTH_MAX} levels")
            return super().start(tag, attrs)

        def end(self, tag: str) -> "Element":
            self.depth -= 1
            return super().end(tag)

    parser = XMLParser(target=Bounded())
    try:
        parser.feed(text)
        element: Element = parser.close()
    except (ParseError, ValueError) as error:
        raise damaged(f"not XML: {error}") from error
    return element


def _reason(error: Exception) -> str:
    """The message of an error, in terms of the file."""
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    if isinstance(error, RecursionError):
        return f"nested deeper than {DEPTH_MAX} levels"
    return first_line(error) or type(error).__name__


def _place(error: Exception) -> str:
    """The location in the reader that failed, for maintainers; empty if the error is clear."""
    if type(error) in _CLEAR or _of_library(error):
        return ""
    frame, text = error.__traceback__, None
    while frame is not None:
        code = frame.tb_frame.f_code
        if code.co_filename.startswith(_PACKAGE) and code.co_filename != __file__:
            text = f" ({type(error).__name__} in {Path(code.co_filename).stem}.{code.co_name})"
        frame = frame.tb_next
    return text or ""
