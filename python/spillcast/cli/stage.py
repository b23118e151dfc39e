"""The steps of an experiment on stderr: a line each, the last one alive on a terminal."""

import sys
import time
from types import TracebackType
from typing import Any

from spillcast.report.recording import status_line
from spillcast.units import format_bytes, format_duration


class TerminalStage:
    """Numbers the steps, shows what the present one does, and how long each took."""

    def __init__(self, steps: int | None = None) -> None:
        self._steps = steps
        self._number = 0
        self._title = ""
        self._since = 0.0
        self._alive = sys.stderr.isatty()

    def __enter__(self) -> "TerminalStage":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish(done=error is None)

    def step(self, title: str) -> None:
        """A step begins; the one before has ended."""
        self._finish(done=True)
        self._number += 1
        of = f"/{self._steps}" if self._steps else ""
        self._title = f"  {self._number}{of} {title}"
        self._since = time.monotonic()
        self._show("")

    def status(self, status: dict[str, Any]) -> None:
        """The state of a recording under way."""
        self._show(status_line(status).removeprefix("recording "))

    def progress(self, done: int, total: int, count: int) -> None:
        """The state of a probe under way."""
        self._show(f"{done:,} of {total:,} operations, {format_bytes(count)}")

    def tick(self) -> None:
        """Time goes by."""
        self._show(format_duration(round(time.monotonic() - self._since, 1)))

    def _show(self, detail: str) -> None:
        if not self._alive:
            return
        import shutil

        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\x1b[2K" + f"{self._title}  {detail}"[:width])
        sys.stderr.flush()

    def _finish(self, *, done: bool) -> None:
        if not self._title:
            return
        took = format_duration(time.monotonic() - self._since)
        start = "\r\x1b[2K" if self._alive else ""
        sys.stderr.write(f"{start}{self._title}: {took if done else 'ended after ' + took}\n")
        sys.stderr.flush()
        self._title = ""
