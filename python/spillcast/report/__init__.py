"""The page that a verb prints: sentences, tables and drawings, as text or Markdown, and CSV data.

A report module makes a ``Page`` independent of width and colour. Colours are set by patterns on
the finished text, so they cannot change it.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from string import ascii_uppercase
from typing import TYPE_CHECKING, Protocol

from spillcast.tabular import WIDTH, PrintedTable, paragraph
from spillcast.text import visible
from spillcast.units import format_duration

if TYPE_CHECKING:
    from rich.highlighter import RegexHighlighter

    from spillcast.storage.description import Peak

#: The width of a drawing in Markdown, and the least width of the longest bar.
DRAWN, BAR_MIN = 80, 10


class PagePart(Protocol):
    """A part of a page."""

    def text(self, width: int) -> str:
        """Lines of at most ``width`` columns."""

    def markdown(self) -> str:
        """The part as Markdown."""


@dataclass(frozen=True)
class Prose:
    """Sentences, each starting on a new line; continuation lines are indented."""

    sentences: Sequence[str]
    indent: str = "    "

    def text(self, width: int) -> str:
        """The sentences, broken at ``width`` or at the longest line that is easy to read."""
        return "\n".join(
            paragraph(sentence, self.indent, min(width, WIDTH)) for sentence in self.sentences
        )

    def markdown(self) -> str:
        """A paragraph for a single sentence, else a list."""
        lines = [sentence.strip() for sentence in self.sentences]
        return lines[0] if len(lines) == 1 else "\n".join(f"- {sentence}" for sentence in lines)


class Notes(Prose):
    """Sentences on weaknesses of the numbers; an HTML page collects the notes of all its inputs."""


@dataclass(frozen=True)
class TitledTable:
    """A table under its title."""

    title: str
    table: PrintedTable
    indent: str = "    "

    def text(self, width: int) -> str:
        """The title on a separate line."""
        return f"{Prose([self.title], self.indent).text(width)}\n\n{self.table.text(width)}"

    def markdown(self) -> str:
        """The title as a paragraph."""
        return f"{self.title.strip()}\n\n{self.table.markdown()}"


@dataclass(frozen=True)
class Commands:
    """Lines for a shell or a client, never wrapped, so that they can be pasted."""

    lines: Sequence[str]
    language: str = "sh"

    def text(self, width: int) -> str:  # noqa: ARG002
        """The lines, not broken at ``width``."""
        return "\n".join(f"  {visible(line)}" for line in self.lines)

    def markdown(self) -> str:
        """A block of code."""
        return "\n".join([f"```{self.language}", *self.lines, "```"])


@dataclass(frozen=True)
class Drawing:
    """A drawing of letters and blocks, for any width."""

    draw: Callable[[int], str]

    def text(self, width: int) -> str:
        """The drawing, at most as wide as sentences: longer bars would not show more."""
        return self.draw(min(width, WIDTH))

    def markdown(self) -> str:
        """A block of code, for a fixed-width font."""
        return f"```text\n{self.draw(DRAWN)}\n```"


@dataclass(frozen=True)
class Page:
    """The parts of an answer from top to bottom, and ``data``, the table that --csv prints."""

    parts: Sequence[PagePart]
    data: PrintedTable

    def text(self, width: int = DRAWN) -> str:
        """The text for a terminal or a pipe; empty lines separate the parts that have text."""
        return "\n\n".join(filter(None, (part.text(width) for part in self.parts)))

    def markdown(self) -> str:
        """The page as Markdown, for an issue or a wiki."""
        return "\n\n".join(filter(None, (part.markdown() for part in self.parts)))


def listed(lines: Sequence[str], upper: int) -> list[str]:
    """The first ``upper`` lines, and a line with the number of omitted lines."""
    more = len(lines) - upper
    return [*lines[:upper], *([f"... and {more:,} more, see --json"] if more > 0 else [])]


def with_drawings(table: PrintedTable, width: int, draw: Callable[[int], Sequence[str]]) -> str:
    """A table with a drawing beside each row, of at least ``BAR_MIN`` columns if there is room.

    ``draw`` takes the number of columns beside the table, and returns a heading and the drawings.
    """
    lines = table.text(width - BAR_MIN - 2).splitlines()
    if len(lines) != len(table.rows) + 2:
        # A row does not fit on a line.
        return table.text(width)
    longest = max(map(len, lines))
    heading, *drawings = draw(width - longest - 2)
    return "\n".join(
        f"{line:<{longest}}  {drawn}".rstrip()
        for line, drawn in zip(lines, [heading, "", *drawings], strict=True)
    )


def with_bars(table: PrintedTable, values: Sequence[float], bar_max: int, width: int) -> str:
    """A table with a bar beside each row; the largest value has at most ``bar_max`` columns."""
    largest = max(values, default=0.0) or 1.0

    def draw(room: int) -> list[str]:
        return ["", *(bar(value / largest, min(room, bar_max)) for value in values)]

    return with_drawings(table, width, draw)


#: Patterns of headings, rules, warnings and bars; the names of groups are styles of rich.
_HIGHLIGHTS = [
    r"(?m)^(?P<bold>.+)(?=\n {2}-+(?: {2}-+)*$)",
    r"(?m)^(?P<dim> {2}-+(?: {2}-+)*)$",
    r"(?m)^ +(?P<yellow>warning|damaged|note):",
    r"(?P<cyan>[█▉▊▋▌▍▎▏▁▂▃▄▅▆▇]+)",
]


def highlighter() -> "RegexHighlighter":
    """The highlighter that colours a finished text, for rich."""
    from rich.highlighter import RegexHighlighter

    class ReportHighlighter(RegexHighlighter):
        highlights = _HIGHLIGHTS

    return ReportHighlighter()


#: Lower edges of the bins within a power of ten, about 26 % wide, including 1, 2 and 5.
EDGES = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
_LABELLED = (1.0, 2.0, 5.0)
_EIGHTHS = " ▏▎▍▌▋▊▉█"
#: At least this many adjacent empty bins are drawn as one line.
_GAP = 3
_LABEL, _FIGURES = 8, 20


def histogram_text(
    latency_ns: Sequence[int],
    counts: Sequence[int],
    *,
    width: int = 80,
    marks: Mapping[float, str] | None = None,
) -> str:
    """A line for each bin of latency (ns): the label of its lower edge, a bar, count and share.

    The first bin, bins after a gap and bins at 1, 2 and 5 have a label. ``marks`` are letters
    beside the bins of given latencies (ns).
    """
    sums = latency_bins(latency_ns, counts)
    letters: dict[int, str] = {}
    for marked_ns, letter in (marks or {}).items():
        letters[_bin(marked_ns)] = letters.get(_bin(marked_ns), "") + letter
    count_max, total = max(sums.values()), sum(sums.values())
    bar_width = max(width - _LABEL - _FIGURES - (8 if marks else 4), BAR_MIN)
    gap, lines = f"  {'...':>{_LABEL}}", list[str]()
    span = range(min(sums), max(sums) + 1)
    for empty, run in groupby(span, key=lambda number: not sums.get(number)):
        bins = list(run)
        if empty and len(bins) >= _GAP:
            lines.append(gap)
            continue
        for number in bins:
            count = sums.get(number, 0)
            labelled = not lines or lines[-1] == gap or EDGES[number % 10] in _LABELLED
            label = format_duration(edge_s(number)) if labelled else ""
            share = "< 0.1 %" if count / total < 0.0005 else f"{100 * count / total:.1f} %"
            figures = f"{count:>10,} {share:>8}" if count else ""
            mark = f"  {letters[number]}" if number in letters else ""
            drawn = bar(count / count_max, bar_width)
            lines.append(f"  {label:>{_LABEL}} |{drawn:<{bar_width}}{figures}{mark}".rstrip())
    return "\n".join(lines)


def peak_letters(peaks: "Sequence[Peak]") -> str:
    """``A, B: `` before a text about several peaks; empty for a single, unlettered peak."""
    return f"{', '.join(ascii_uppercase[: len(peaks)])}: " if len(peaks) > 1 else ""


def histogram(
    title: str, buckets: tuple[Sequence[int], Sequence[int]], peaks: "Sequence[Peak]"
) -> Drawing:
    """Bars of latencies (ns) and their counts below a title; several ``peaks`` have letters."""
    letters = zip(peaks, ascii_uppercase, strict=False)
    marks = {peak.mode_s * 1e9: letter for peak, letter in letters if len(peaks) > 1}

    def draw(width: int) -> str:
        bars = histogram_text(*buckets, width=width, marks=marks)
        return f"{paragraph(title, '  ', width)}\n{bars}"

    return Drawing(draw)


def latency_bins(latency_ns: Sequence[int], counts: Sequence[int]) -> dict[int, int]:
    """The number of operations by bin number."""
    sums: dict[int, int] = {}
    for latency, count in zip(latency_ns, counts, strict=True):
        sums[_bin(latency)] = sums.get(_bin(latency), 0) + count
    return sums


def edge_s(number: int) -> float:
    """The lower edge (s) of a bin by its number."""
    return float(EDGES[number % 10] * 10.0 ** (number // 10) / 1e9)


def _bin(latency_ns: float) -> int:
    """The bin number of a latency: 0 at 1 ns, ten bins per power of ten."""
    power, value = 0, max(float(latency_ns), 1.0)
    while value >= 10:
        power, value = power + 1, value / 10
    return 10 * power + bisect_right(EDGES, value) - 1


def bar(share: float, width: int) -> str:
    """A bar over a share of ``width`` columns, in eighths of a column; not empty if above 0."""
    eighths = max(round(8 * width * share), int(share > 0))
    if not _blocks_are_printed():
        return "#" * -(-eighths // 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _blocks_are_printed() -> bool:
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def sparkline(values: Sequence[float]) -> str:
    """One letter for each value, its height relative to the largest; a blank for 0."""
    letters = " ▁▂▃▄▅▆▇█" if _blocks_are_printed() else " .:-=+*#%"
    peak = max(values, default=0.0) or 1.0
    drawn = "".join(
        letters[min(max(round(value / peak * 8), 1), 8)] if value > 0 else " " for value in values
    )
    return drawn.rstrip()
