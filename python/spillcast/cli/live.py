"""The live view: drawn on stderr each second, ended by q or Ctrl-C, the terminal put back."""

import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from spillcast.cli.output import COLUMNS_MAX, COLUMNS_MIN, json_text, obeyed, takes_colours

if TYPE_CHECKING:
    from rich.live import Live

    from spillcast.forecast.running import RunningForecast
    from spillcast.recording.record import Recorder
    from spillcast.report.live import Glimpse

REFRESH_S = 1.0


class View(Protocol):
    """Shows a recording in progress."""

    def look(self, recorder: "Recorder", status: Mapping[str, Any]) -> None:
        """Show the present state, at most once a second."""

    def end(self) -> None:
        """Show the state at the end."""

    def say(self, text: str) -> None:
        """Print a permanent line; one that begins with a blank continues the last."""


class LineView:
    """One line that is overwritten."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def look(self, _recorder: "Recorder", status: Mapping[str, Any]) -> None:
        """Show the counts of the capture."""
        from spillcast.report.recording import status_line

        self._show(status_line(status))

    def end(self) -> None:
        """No-op: the summary of the recording follows."""

    def say(self, text: str) -> None:
        """Print a line of its own."""
        self._show("")
        print(_timestamped(text), file=sys.stderr)


class LiveView:
    """The profile so far and the forecast, each second: drawn, or a line of JSON on stdout.

    ``look`` raises KeyboardInterrupt where q was pressed.
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
            self._show(self._glimpse(recorder, status, ended=False))

    def end(self) -> None:
        """Show the entire run, with a last forecast."""
        if self._last is not None:
            recorder, status = self._last
            self._show(self._glimpse(recorder, {**status, **recorder.status()}, ended=True))

    def say(self, text: str) -> None:
        """Print a line above the view."""
        if self._live is None:
            print(_timestamped(text), file=sys.stderr)
        else:
            from spillcast.text import visible

            self._live.console.print(visible(_timestamped(text)))

    def _glimpse(
        self, recorder: "Recorder", status: Mapping[str, Any], *, ended: bool
    ) -> "Glimpse":
        from spillcast.report.live import Glimpse

        assert recorder.running is not None
        running_forecast = self._forecast
        if running_forecast is not None:
            running_forecast.look(recorder.so_far, last=ended)
        return Glimpse(
            self._title,
            recorder.running,
            status,
            recorder.cost,
            time.process_time() - self._cpu_s,
            None if running_forecast is None else running_forecast.latest,
            None if running_forecast is None else running_forecast.because,
            ended,
            () if running_forecast is None else tuple(running_forecast.half_widths),
        )

    def _show(self, glimpse: "Glimpse") -> None:
        from spillcast.report.live import live_text, watch_document

        if self._live is None:
            print(json_text(watch_document(glimpse)), flush=True)
            return
        from rich.text import Text

        from spillcast.report.colour import Marks
        from spillcast.text import visible

        keys = "" if glimpse.ended else "q ends it" if self._keyboard is not None else "Ctrl-C ends"
        width = min(max(self._live.console.width, COLUMNS_MIN), COLUMNS_MAX) - 1
        text = Text(visible(live_text(glimpse, width, keys)), no_wrap=True, overflow="crop")
        if takes_colours(True):
            Marks().highlight(text)
        self._live.update(text, refresh=True)


def _timestamped(text: str) -> str:
    return text if text.startswith(" ") else f"spillcast: {text}"


@contextmanager
def line_view(*, show: bool) -> Iterator[View]:
    """One line on a terminal."""
    from spillcast.cli.progress import live_line

    with live_line(show=show) as write:
        yield LineView(write)


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
            console=Console(file=obeyed(sys.stderr), highlight=False, emoji=False, markup=False),
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


class CommandOutput:
    """Output of a command that is started in ``starting``, kept apart from the view.

    With ``json`` it goes to stderr. What would go to a terminal is kept, and printed by
    ``print_kept``; what goes to a file or a pipe stays as it is.
    """

    def __init__(self, *, json: bool) -> None:
        self._kept: dict[int, BinaryIO] = {}
        self._to = {1: 2} if json else {}
        if not json and sys.stderr.isatty():
            self._kept = {n: _file() for n in (1, 2) if os.isatty(n)}
            self._to = {number: file.fileno() for number, file in self._kept.items()}

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Redirect descriptors while the command starts, then restore them."""
        before = {number: os.dup(number) for number in self._to}
        try:
            for number, to in self._to.items():
                os.dup2(to, number)
            yield
        finally:
            for number, descriptor in before.items():
                os.dup2(descriptor, number)
                os.close(descriptor)

    def print_kept(self) -> None:
        """Print the kept output."""
        for number, file in self._kept.items():
            file.seek(0)
            with os.fdopen(os.dup(number), "wb") as out:
                shutil.copyfileobj(file, out)
            file.close()


def _file() -> BinaryIO:
    """An unnamed file, closed by ``print_kept`` or with the program."""
    return os.fdopen(os.memfd_create("spillcast-output"), "w+b")
