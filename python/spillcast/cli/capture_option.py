"""``--capture``, whose choices are the sources that there are."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import CAPTURE
from spillcast.recording.source import AUTO, SOURCES

if TYPE_CHECKING:
    CaptureName = str
else:
    # The choices are what typer reads of a literal.
    CaptureName = Literal[(AUTO, *SOURCES)]

Capture = Annotated[
    CaptureName,
    typer.Option(
        help="Capture source; auto takes the best that works: eBPF, perf events or the "
        "preload library.",
        rich_help_panel=CAPTURE,
    ),
]
