"""Plain tables and paragraphs for terminals and files: aligned, no colour needed."""

import re
from collections.abc import Sequence
from textwrap import fill

#: Sentences are broken so that they can be read.
WIDTH = 96
_GLUE = "\x00"


def paragraph(text: str, indent: str = "", width: int = WIDTH) -> str:
    """A sentence broken into lines, never between a number and its unit nor within a word."""
    glued = re.sub(r"(?<=\d) (?=%|(?:us|ms|s|min|h|[KMGT]?i?B)\b)", _GLUE, text)
    broken = fill(
        glued, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return broken.replace(_GLUE, " ")


def table_text(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> str:
    """Rows under a header; columns in ``left`` are aligned left, the others right."""
    widths = [max(len(str(row[i])) for row in (header, *rows)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return ("  " + "  ".join(cells)).rstrip()

    rule = "  " + "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
