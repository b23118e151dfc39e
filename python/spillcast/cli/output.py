"""Prints answers as text, JSON, CSV or Markdown; control characters are made visible."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TextIO, cast

from spillcast.text import visible

if TYPE_CHECKING:
    from spillcast.report import Page


class VisibleStream:
    """Writes text to the stream ``raw`` with its control characters made visible."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        shown = visible(text)
        try:
            self.raw.write(shown)
        except UnicodeEncodeError as error:
            # The encoding of a locale such as C or ISO-8859-1 lacks some characters.
            encoded = shown.encode(error.encoding, "replace")
            self.raw.write(encoded.decode(error.encoding))
        except OSError as error:
            error.filename = self.raw.name
            raise
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@contextmanager
def visible_streams() -> Iterator[None]:
    """Replace stdout and stderr by ``VisibleStream`` within the context."""
    out, err = (cast(TextIO, VisibleStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def raw(stream: TextIO) -> TextIO:
    """The underlying stream, for our own escape codes and for bytes that a program reads."""
    return stream.raw if isinstance(stream, VisibleStream) else stream


#: The line on stderr that the next line overwrites. A thread draws bars, hence the lock.
_line = ""
_line_lock = threading.RLock()


def write_over(text: str, width: int) -> None:
    """Overwrite the last line on stderr with a text, cut to ``width`` columns."""
    global _line
    with _line_lock:
        _line = " ".join(visible(text).split("\n"))[:width]
        sys.stderr.flush()
        stream = raw(sys.stderr)
        stream.write("\r\x1b[2K" + _line)
        stream.flush()


def clear_line() -> None:
    """Remove the line that ``write_over`` has written, if any."""
    if _line:
        write_over("", 0)


def notice_line(text: str) -> str:
    """A notice as printed; a text that begins with a blank continues the previous notice."""
    return text if text.startswith(" ") else f"spillcast: {text}"


def notify(text: str) -> None:
    """Print a notice on stderr."""
    with _line_lock:
        clear_line()
        print(notice_line(text), file=sys.stderr)


COLUMNS_MIN, COLUMNS_MAX = 60, 200


@dataclass(frozen=True)
class Answer:
    """The return value of a verb: functions for its JSON document and page, and the exit status."""

    document: Callable[[], Mapping[str, Any]]
    page: "Callable[[], Page]"
    status: int = 0


def show(answer: Answer, *, json: bool, csv: bool, markdown: bool) -> None:
    """Print an answer as JSON, CSV or Markdown, or by default as text."""
    if json:
        emit(answer.document())
    elif csv:
        print(answer.page().data.csv(), end="")
    elif markdown:
        print(answer.page().markdown())
    else:
        print_coloured(answer.page().text(terminal_columns()))


def emit(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(json_text(document, indent=2))


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON of printable ASCII, without control sequences for a terminal.

    JSON has no infinity, which becomes null.
    """
    try:
        text = json.dumps(document, indent=indent, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(document), indent=indent, default=str)
    return text.replace("\x7f", "\\u007f")


def _finite(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _finite(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_finite(value) for value in tree]
    return None if isinstance(tree, float) and not isfinite(tree) else tree


def terminal_columns() -> int:
    """Columns available for output: the terminal's, between 60 and 200; 200 without a terminal."""
    import shutil

    return min(max(shutil.get_terminal_size((COLUMNS_MAX, 24)).columns, COLUMNS_MIN), COLUMNS_MAX)


def print_coloured(text: str) -> None:
    """Print a text on stdout, with colours on a terminal."""
    if not takes_colours(sys.stdout.isatty()):
        print(text)
        return
    from rich.console import Console

    from spillcast.report import highlighter

    # Markup and emoji codes in the text are printed unchanged.
    console = Console(file=raw(sys.stdout), highlighter=highlighter(), markup=False, emoji=False)
    console.print(visible(text), soft_wrap=True)


def takes_colours(is_terminal: bool) -> bool:
    """Whether to write colours: on a terminal, unless NO_COLOR or TERM=dumb is set."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
