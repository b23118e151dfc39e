"""Where output goes: one answer as words, JSON, CSV or Markdown on stdout."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.report.page import Page

COLUMNS_MIN, COLUMNS_MAX = 60, 200
#: Characters of a document's text that are printed at once, or somewhat more.
_AT_ONCE = 1 << 18
_PLAIN = frozenset((str, int, float, bool, type(None)))
#: Of a list, that are written at once.
_ROWS = 500


def show(
    document: Callable[[], Mapping[str, Any]],
    page: Callable[[], "Page"],
    *,
    json: bool = False,
    csv: bool = False,
    markdown: bool = False,
) -> None:
    """Print an answer in the form that is asked for; by default as people read it."""
    if json:
        emit(document())
    elif csv:
        print(page().data.csv(), end="")
    elif markdown:
        print(page().markdown())
    else:
        print_coloured(page().text(terminal_columns()))


def emit(document: Mapping[str, Any]) -> None:
    """Print one JSON document, in pieces: the text of many rows is larger than they are."""
    text = StringIO()
    for piece in _pieces(document, "\n"):
        text.write(piece)
        if text.tell() >= _AT_ONCE:
            sys.stdout.write(_printable(text.getvalue()))
            text = StringIO()
    print(_printable(text.getvalue()))


def _pieces(value: Any, line: str) -> Iterator[str]:
    """The text of ``json.dumps(value, indent=2)``; ``line`` begins a line of the value's depth.

    The encoder that is written in C does not indent. What holds plain values alone it writes at
    once, with what begins a line between them.
    """
    held = value.values() if isinstance(value, dict) else value
    is_some = isinstance(value, dict | list | tuple) and len(value) > 0
    if not is_some:
        yield json.dumps(value, default=str)
        return
    deeper = line + "  "
    if _are_plain(held):
        text = json.dumps(value, default=str, separators=(f",{deeper}", ": "))
        yield f"{text[0]}{deeper}{text[1:-1]}{line}{text[-1]}"
        return
    if isinstance(value, list) and all(isinstance(one, dict) and one for one in value):
        yield from _rows(value, line)
        return
    between = deeper
    yield "{" if isinstance(value, dict) else "["
    for one in value.items() if isinstance(value, dict) else value:
        yield between
        if isinstance(value, dict):
            key, one = one
            yield json.dumps({key: None})[1 : -len("null}")]
        yield from _pieces(one, deeper)
        between = f",{deeper}"
    yield f"{line}{'}' if isinstance(value, dict) else ']'}"


def _rows(rows: Sequence[dict[Any, Any]], line: str) -> Iterator[str]:
    """The text of dictionaries that hold something. A line ends nowhere but between values."""
    deeper, deepest = f"{line}  ", f"{line}    "
    between = f"[{deeper}"
    for at in range(0, len(rows), _ROWS):
        some = rows[at : at + _ROWS]
        if _are_plain(one for row in some for one in row.values()):
            text = json.dumps(some, separators=(f",{deepest}", ": "))[2:-2]
            text = text.replace(f"}},{deepest}{{", f"{deeper}}},{deeper}{{{deepest}")
            yield f"{between}{{{deepest}{text}{deeper}}}"
            between = f",{deeper}"
            continue
        for row in some:
            yield between
            yield from _pieces(row, deeper)
            between = f",{deeper}"
    yield f"{line}]"


def _are_plain(values: Iterable[Any]) -> bool:
    return {*map(type, values)} <= _PLAIN


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON of printable ASCII: whatever it holds, no terminal obeys it."""
    return _printable(json.dumps(document, indent=indent, default=str))


def _printable(text: str) -> str:
    return text.replace("\x7f", "\\u007f")


def terminal_columns() -> int:
    """Columns that output may fill: the terminal's, from 60 to 200; all where there is none.

    What a file or another program reads is not shortened for the sake of a screen.
    """
    import shutil

    return min(max(shutil.get_terminal_size((COLUMNS_MAX, 24)).columns, COLUMNS_MIN), COLUMNS_MAX)


def print_coloured(text: str) -> None:
    """Print on stdout, with colours where a terminal shows them: the text is the same."""
    if not takes_colours(sys.stdout.isatty()):
        print(text)
        return
    from spillcast.cli.terminal import obeyed
    from spillcast.report.colour import console
    from spillcast.visible import visible

    console(obeyed(sys.stdout)).print(visible(text), soft_wrap=True)


def takes_colours(is_terminal: bool) -> bool:
    """Whether to write escape codes for colours: on a terminal, unless it is told not to."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
