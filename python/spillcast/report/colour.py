"""Colours of finished text: headings, rules, bars and warnings. They add no words."""

from typing import TextIO

from rich.console import Console
from rich.highlighter import RegexHighlighter


class Marks(RegexHighlighter):
    """Styles by patterns of lines; the names of the groups are styles."""

    highlights = (
        r"(?m)^(?P<bold>.+)(?=\n {2}-+(?: {2}-+)*$)",
        r"(?m)^(?P<dim> {2}-+(?: {2}-+)*)$",
        r"(?m)^ +(?P<yellow>warning|damaged|note):",
        r"(?P<cyan>[█▉▊▋▌▍▎▏▁▂▃▄▅▆▇]+)",
    )


def console(file: TextIO) -> Console:
    """A console that colours text by ``Marks`` and takes no word in it for a command."""
    return Console(file=file, highlighter=Marks(), markup=False, emoji=False)
