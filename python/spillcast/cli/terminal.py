"""stdout and stderr as all verbs have them: control characters of others are shown, not obeyed."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from spillcast.visible import visible


class VisibleStream:
    """A stream that writes text as ``visible`` has it; ``obeyed`` is the one below."""

    def __init__(self, obeyed: TextIO) -> None:
        self.obeyed = obeyed

    def write(self, text: str) -> int:
        """Write a text; its own length, as every stream says it."""
        shown = visible(text)
        try:
            self.obeyed.write(shown)
        except UnicodeEncodeError as error:
            # Of a locale such as C or ISO-8859-1, whose letters are not all that there are.
            known = shown.encode(error.encoding, "replace")
            self.obeyed.write(known.decode(error.encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.obeyed, name)


@contextmanager
def visible_streams() -> Iterator[None]:
    """Print so, whoever prints."""
    out, err = (cast(TextIO, VisibleStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def obeyed(stream: TextIO) -> TextIO:
    """The stream for escape codes of ours, or for bytes that a program reads."""
    return stream.obeyed if isinstance(stream, VisibleStream) else stream


def write_over(text: str, width: int) -> None:
    """Put a line in the place of the last one on stderr, cut to ``width`` columns."""
    line = " ".join(visible(text).split("\n"))
    sys.stderr.flush()
    stream = obeyed(sys.stderr)
    stream.write("\r\x1b[2K" + line[:width])
    stream.flush()
