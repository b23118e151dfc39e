"""The steps of an experiment on stderr: a line each, the last one alive on a terminal."""

import sys
import time
from types import TracebackType
from typing import Any

from spillcast.cli.progress import progress_text
from spillcast.cli.terminal import write_over
from spillcast.report.recording import status_line
from spillcast.report.table import shortened
from spillcast.units import format_duration


class TerminalStage:
    """Numbers the steps, shows what the present one does, and how long each took.

    With a ``budget_s`` it shows how much of that is left.
    """

    def __init__(self, steps: int | None = None, budget_s: float | None = None) -> None:
        self._steps = steps
        self._end_s = None if budget_s is None else time.monotonic() + budget_s
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
        self._show(progress_text(done, total, count, "bytes", time.monotonic() - self._since))

    def tick(self) -> None:
        """Time goes by."""
        self._show(format_duration(round(time.monotonic() - self._since, 1)))

    def _show(self, detail: str) -> None:
        if not self._alive:
            return
        import shutil

        width = shutil.get_terminal_size().columns - 1
        left = ""
        if self._end_s is not None:
            left_s = max(self._end_s - time.monotonic(), 0.0)
            left = f"  ({format_duration(round(left_s))} left at most)"
        room = max(width - len(detail) - len(left) - 2, 12)
        line = f"{shortened(self._title, room)}  {detail}{left}"
        write_over(line, width)

    def _finish(self, *, done: bool) -> None:
        if not self._title:
            return
        took = format_duration(time.monotonic() - self._since)
        if self._alive:
            write_over("", 0)
        sys.stderr.write(f"{self._title}: {took if done else 'ended after ' + took}\n")
        sys.stderr.flush()
        self._title = ""
