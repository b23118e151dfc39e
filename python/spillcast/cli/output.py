"""Where output goes: one answer as words, JSON, CSV or Markdown on stdout."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.report.page import Page

COLUMNS_MIN, COLUMNS_MAX = 60, 200


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
    """Print one JSON document."""
    print(json_text(document, indent=2))


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON of printable ASCII: whatever it holds, no terminal obeys it.

    JSON has no infinity: null stands for a ratio that is beyond all numbers.
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
