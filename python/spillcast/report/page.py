"""The page of a verb, from top to bottom: words, tables and drawings, and the table for CSV.

A report module makes a ``Page`` and knows neither width nor colour. A ``Table`` holds raw values
under columns with units, so the same rows become lines for a terminal, CSV and Markdown.

rich colours the finished text by patterns, so colours cannot add words. It also draws progress and
the live view.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from spillcast.report.table import WIDTH, Table, paragraph
from spillcast.visible import visible

#: The width for which a drawing is made where there is no terminal.
DRAWN = 80


class Part(Protocol):
    """A part of a page."""

    def text(self, width: int) -> str:
        """Lines of at most ``width`` columns."""

    def markdown(self) -> str:
        """The same as Markdown."""


@dataclass(frozen=True)
class Words:
    """Sentences, each broken into lines of its own; further lines are indented."""

    sentences: Sequence[str]
    indent: str = "    "

    def text(self, width: int) -> str:
        """Broken at ``width``, or before where lines would be too long to read."""
        return "\n".join(
            paragraph(sentence, self.indent, min(width, WIDTH)) for sentence in self.sentences
        )

    def markdown(self) -> str:
        """A sentence, or a list."""
        lines = [sentence.strip() for sentence in self.sentences]
        return lines[0] if len(lines) == 1 else "\n".join(f"- {sentence}" for sentence in lines)


@dataclass(frozen=True)
class Commands:
    """Lines for a shell, never broken: they are to be pasted."""

    lines: Sequence[str]

    def text(self, width: int) -> str:  # noqa: ARG002
        """As they are, whatever the width."""
        return "\n".join(f"  {visible(line)}" for line in self.lines)

    def markdown(self) -> str:
        """As code."""
        return "\n".join(["```sh", *self.lines, "```"])


@dataclass(frozen=True)
class Drawn:
    """What is drawn of letters and blocks, for any width."""

    draw: Callable[[int], str]

    def text(self, width: int) -> str:
        """As wide as asked, but no wider than sentences: longer bars tell no more."""
        return self.draw(min(width, WIDTH))

    def markdown(self) -> str:
        """As code, for which letters are equally wide."""
        return f"```text\n{self.draw(DRAWN)}\n```"


@dataclass(frozen=True)
class Page:
    """Parts with an empty line between them; ``data`` is what --csv prints."""

    parts: Sequence[Part]
    data: Table

    def text(self, width: int = DRAWN) -> str:
        """For a terminal, or a pipe."""
        return "\n\n".join(filter(None, (part.text(width) for part in self.parts)))

    def markdown(self) -> str:
        """For an issue or a wiki."""
        return "\n\n".join(filter(None, (part.markdown() for part in self.parts)))
