"""Progress on stderr: a line, a bar, numbered steps, or the live view of a recording."""

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from spillcast.cli.output import (
    COLUMNS_MAX,
    clear_line,
    json_text,
    notice_line,
    notify,
    raw,
    takes_colours,
    write_over,
)
from spillcast.report.recording import status_line
from spillcast.tabular import shortened
from spillcast.text import visible
from spillcast.units import format_bytes, format_duration

if TYPE_CHECKING:
    from rich.live import Live

    from spillcast.forecast.ask import RunningForecast
    from spillcast.recording.record import Recorder
    from spillcast.report.live import LiveSnapshot


#: Shorter work shows no progress.
SHOWN_AFTER_S = 0.5
#: The least width of a terminal that has room for a bar beside the figures.
WIDE = 80
#: Columns of a bar.
BAR = 20
#: The intervals at which the live view and a bar are drawn.
REFRESH_S, BAR_REFRESH_S = 1.0, 0.2


class ShowProgress(Protocol):
    """Takes the progress of a bar: done, total (None: unknown), bytes moved (default: ``done``)."""

    def __call__(self, done: int, total: int | None = None, moved: int | None = None, /) -> None:
        """Report progress."""


def _is_drawn_on() -> bool:
    """Whether stderr is a terminal whose lines can be overwritten."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def live_line(*, show: bool) -> Iterator[Callable[[str], None]]:
    """A function that shows a text in one line on stderr; nothing without a terminal."""
    if not show or not _is_drawn_on():
        yield lambda _text: None
        return
    try:
        yield lambda text: write_over(text, _columns())
    finally:
        clear_line()


def _columns() -> int:
    """The columns of stderr's terminal except the last, at which lines would wrap."""
    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdecimal() else 0
    return (columns or os.get_terminal_size(sys.stderr.fileno()).columns or WIDE) - 1


@contextmanager
def reading_bar(evidence: Sequence[str | Path]) -> Iterator[Callable[[int], None]]:
    """A bar for reading files; the yielded function takes the bytes read so far."""
    total = sum(map(os.path.getsize, evidence)) if all(map(os.path.isfile, evidence)) else None
    more = f" and {len(evidence) - 1:,} more" if len(evidence) > 1 else ""
    with progress_bar(f"reading {evidence[0]}{more}") as show:
        yield lambda count: show(count, total)


@contextmanager
def progress_bar(title: str, unit: str = "bytes") -> Iterator[ShowProgress]:
    """A bar on a terminal's stderr with rate and time left, after half a second of work.

    Until the yielded function is called it shows the elapsed time.
    """
    begin_s = time.monotonic()
    latest: tuple[int, int | None, int | None] = (0, None, None)
    ended = threading.Event()

    def show(done: int, total: int | None = None, moved: int | None = None, /) -> None:
        nonlocal latest, begin_s
        if done < latest[0]:  # The work is repeated: rate and time left are for this round.
            begin_s = time.monotonic()
        latest = done, total, moved

    def draw() -> None:
        from spillcast.report import bar

        wait_s = SHOWN_AFTER_S
        while not ended.wait(wait_s):
            wait_s = BAR_REFRESH_S
            done, total, _ = latest
            width = _columns()
            drawn = f"{bar(min(done / total, 1), BAR):{BAR}}  " if total and width >= WIDE else ""
            text = drawn + progress_text(*latest, unit, time.monotonic() - begin_s)
            write_over(f"{shortened(title, max(16, width - len(text) - 2))}  {text}", width)
        clear_line()

    if not _is_drawn_on():
        yield show
        return
    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        ended.set()
        thread.join()


def progress_text(
    done: int, total: int | None, moved: int | None, unit: str, elapsed_s: float
) -> str:
    """``41 %  1.2 GiB  210 MiB/s  12 s left``, or the known parts of it."""
    count = done if moved is None else moved
    rate = count / max(elapsed_s, 1e-3)
    parts = [f"{100 * min(done / total, 1):3.0f} %"] if total else []
    if count:
        if unit == "bytes" or moved is not None:
            parts += [format_bytes(count), f"{format_bytes(rate)}/s"]
        else:
            parts += [f"{count:,} {unit}", f"{rate:,.0f}/s"]
    if total and done > total / 100:
        left_s = elapsed_s * max(total - done, 0) / done
        return "  ".join([*parts, f"{format_duration(round(left_s))} left"])
    return "  ".join([*parts, format_duration(round(elapsed_s))])


class TerminalStage:
    """Numbers steps, shows the progress of the current one, and prints the time of each.

    With a ``budget_s`` it shows the time left.
    """

    def __init__(self, steps: int | None = None, budget_s: float | None = None) -> None:
        self._steps = steps
        self._end_s = None if budget_s is None else time.monotonic() + budget_s
        self._number = 0
        self._title = ""
        self._begin_s = 0.0
        self._is_drawn = _is_drawn_on()

    def __enter__(self) -> "TerminalStage":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._finish(done=kind is None)

    def step(self, title: str) -> None:
        """End the current step and begin another one."""
        self._finish(done=True)
        self._number += 1
        of = f"/{self._steps}" if self._steps else ""
        self._title = f"  {self._number}{of} {title}"
        self._begin_s = time.monotonic()
        self._show("")

    def status(self, status: dict[str, Any]) -> None:
        """Show the state of a recording in progress."""
        self._show(status_line(status).removeprefix("recording "))

    def progress(self, done: int, total: int, count: int) -> None:
        """Show the state of a probe in progress."""
        self._show(progress_text(done, total, count, "bytes", time.monotonic() - self._begin_s))

    def tick(self) -> None:
        """Show the time that the current step has taken."""
        self._show(format_duration(round(time.monotonic() - self._begin_s, 1)))

    def _show(self, detail: str) -> None:
        if not self._is_drawn:
            return
        width, left = _columns(), ""
        if self._end_s is not None:
            left_s = max(self._end_s - time.monotonic(), 0.0)
            left = f"  ({format_duration(round(left_s))} left at most)"
        room = max(width - len(detail) - len(left) - 2, 12)
        write_over(f"{shortened(self._title, room)}  {detail}{left}", width)

    def _finish(self, *, done: bool) -> None:
        if not self._title:
            return
        took = format_duration(time.monotonic() - self._begin_s)
        clear_line()
        sys.stderr.write(f"{self._title}: {took if done else 'ended after ' + took}\n")
        sys.stderr.flush()
        self._title = ""


class View:
    """Shows a recording in progress in one line, which is overwritten."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def look(self, _recorder: "Recorder", status: Mapping[str, Any]) -> None:
        """Show the current state."""
        self._write(status_line(status))

    def end(self) -> None:
        """Show the state at the end; nothing if the summary of the recording follows."""

    def notify(self, text: str) -> None:
        """Print a permanent line; a line that begins with a blank continues the previous line."""
        notify(text)


class LiveView(View):
    """Shows the profile and the forecast each second: drawn, or as JSON lines on stdout.

    ``look`` raises KeyboardInterrupt if q was pressed.
    """

    def __init__(
        self,
        title: str,
        forecast: "RunningForecast | None",
        live: "Live | None",
        keyboard: int | None,
    ) -> None:
        self._title, self._forecast = title, forecast
        self._live, self._keyboard = live, keyboard
        self._due_s = 0.0
        self._cpu_s = time.process_time()
        self._last: tuple[Recorder, Mapping[str, Any]] | None = None

    def look(self, recorder: "Recorder", status: Mapping[str, Any]) -> None:
        """Show the profile and the forecast if a second has passed."""
        self._last = recorder, status
        if self._keyboard is not None and _pressed(self._keyboard, b"q"):
            raise KeyboardInterrupt
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + REFRESH_S
            self._show(self._snapshot(recorder, status, ended=False))

    def end(self) -> None:
        """Show the entire run, with a last forecast."""
        if self._last is not None:
            recorder, status = self._last
            self._show(self._snapshot(recorder, {**status, **recorder.status()}, ended=True))

    def notify(self, text: str) -> None:
        """Print a line above the view."""
        if self._live is None:
            notify(text)
        else:
            self._live.console.print(visible(notice_line(text)))

    def _snapshot(
        self, recorder: "Recorder", status: Mapping[str, Any], *, ended: bool
    ) -> "LiveSnapshot":
        from spillcast.report.live import LiveSnapshot

        assert recorder.running is not None
        cpu_s = time.process_time() - self._cpu_s
        snapshot = LiveSnapshot(
            self._title, recorder.running, status, recorder.cost, cpu_s, ended=ended
        )
        if self._forecast is None:
            return snapshot
        self._forecast.look(recorder.so_far, last=ended)
        return replace(
            snapshot,
            forecast=self._forecast.latest,
            because=self._forecast.because,
            half_widths=tuple(self._forecast.half_widths),
        )

    def _show(self, snapshot: "LiveSnapshot") -> None:
        from spillcast.report.live import live_text, watch_document

        if self._live is None:
            print(json_text(watch_document(snapshot)), flush=True)
            return
        from rich.text import Text

        from spillcast.report import highlighter

        keys = "q ends it" if self._keyboard is not None else "Ctrl-C ends"
        width = min(self._live.console.width, COLUMNS_MAX) - 1
        drawn = live_text(snapshot, width, "" if snapshot.ended else keys)
        text = Text(visible(drawn), no_wrap=True, overflow="crop")
        if takes_colours(True):
            highlighter().highlight(text)
        self._live.update(text, refresh=True)


@contextmanager
def line_view(*, show: bool) -> Iterator[View]:
    """A view of one line on a terminal."""
    with live_line(show=show) as write:
        yield View(write)


@contextmanager
def live_view(
    title: str,
    *,
    forecast: "RunningForecast | None" = None,
    json_lines: bool = False,
    keep: bool = False,
    keyboard: bool = True,
) -> Iterator[View]:
    """A view on stderr, which must be a terminal, or lines of JSON on stdout.

    With ``keep`` its last state stays on the screen. With ``keyboard`` q ends it.
    """
    if json_lines:
        yield LiveView(title, forecast, None, None)
        return
    from rich.console import Console
    from rich.live import Live

    with ExitStack() as stack:
        descriptor = None
        if keyboard and sys.stdin.isatty():
            descriptor = stack.enter_context(_single_keys(sys.stdin.fileno()))
        live = Live(
            console=Console(file=raw(sys.stderr), highlight=False, emoji=False, markup=False),
            auto_refresh=False,
            transient=not keep,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        yield LiveView(title, forecast, stack.enter_context(live), descriptor)


@contextmanager
def _single_keys(descriptor: int) -> Iterator[int]:
    """Read keys without a newline and without echo; Ctrl-C still interrupts."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(descriptor: int, key: bytes) -> bool:
    while select.select([descriptor], [], [], 0)[0]:
        read = os.read(descriptor, 64)
        if not read:
            return False
        if key in read.lower():
            return True
    return False
