"""Where output goes: one answer as words, JSON, CSV or Markdown on stdout."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.report.page import Page

COLUMNS_MIN, COLUMNS_MAX = 60, 200
#: Of a document's text, that are printed at once.
_PIECES = 1_000
_PLAIN = (str, int, float, bool, type(None))


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
    pieces = _pieces(document, "\n")
    while text := "".join(islice(pieces, _PIECES)):
        sys.stdout.write(_printable(text))
    print()


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
    if all(isinstance(one, _PLAIN) for one in held):
        text = json.dumps(value, default=str, separators=(f",{deeper}", ": "))
        yield f"{text[0]}{deeper}{text[1:-1]}{line}{text[-1]}"
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
