"""Where output goes: data to stdout, progress to stderr, and to a terminal only."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


def emit(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=2, default=str))


def terminal_columns() -> int:
    """Columns that output may fill: the terminal's, from 60 to 200; 80 where there is none."""
    import shutil

    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 200)


@contextmanager
def live_line(*, show: bool = True) -> Iterator[Callable[[str], None]]:
    """One line on stderr that is written over, on a terminal; nothing elsewhere."""
    if not show or not sys.stderr.isatty():
        yield lambda _text: None
        return

    def write(text: str) -> None:
        import shutil

        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\x1b[2K" + text[:width])
        sys.stderr.flush()

    try:
        yield write
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


@contextmanager
def reading_bar(evidence: Sequence[str]) -> Iterator[Callable[[int], None]]:
    """A line on stderr with the bytes read of some files and the rate, on a terminal only."""
    import time

    from spillcast.units import format_bytes

    start = time.monotonic()
    with live_line() as write:

        def show(count: int) -> None:
            rate = count / max(time.monotonic() - start, 1e-3)
            write(f"reading {evidence[0]}: {format_bytes(count)}, {format_bytes(rate)}/s")

        yield show


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int, int], None]]:
    """A bar on stderr fed with steps done, steps in all and bytes, shown on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _done, _total, _bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[moved]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None, moved="", visible=False)

        def show(done: int, total: int, count: int) -> None:
            from spillcast.units import format_bytes

            progress.update(
                task, completed=done, total=total, moved=format_bytes(count), visible=True
            )

        yield show
