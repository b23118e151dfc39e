"""The lines of a plan with sums of those below them: what each did by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceDamaged
from spillcast.evidence.figures.numbers import Held, Number, hold
from spillcast.evidence.oracle.row_sources import may_spill


@dataclass(frozen=True)
class PlanLine:
    """A line with the blocks and seconds that it and the lines below it took."""

    depth: int
    operation: str
    reads: int
    writes: int
    elapsed_s: float | None = None


@dataclass(frozen=True)
class Spilled:
    """What the lines with work areas did by themselves; None where they printed no time."""

    read_blocks: int = 0
    written_blocks: int = 0
    elapsed_s: float | None = None


def spilled(path: Path, lines: Sequence[PlanLine], hint: str) -> Spilled:
    """Temp blocks of all lines that have a work area and wrote some of it out.

    InputError where a line has less than those below it, or where the indentation is lost.
    """
    if len(lines) > 1 and len({line.depth for line in lines}) == 1:
        raise EvidenceDamaged(f"{path}: the lines of its plan have lost their indentation", hint)
    reads = writes = 0
    elapsed_s: float | None = None
    for at, line in enumerate(lines):
        if not may_spill(line.operation):
            continue
        below = _children(lines, at)
        together = sum(child.reads for child in below)
        words = f"{together:,} blocks read below {line.operation}"
        whole_words = f"{line.reads:,} blocks read by it and those below"
        whole = Number.exact(line.reads)
        held = Held("children-of-parent", Number.exact(together), words, whole, whole_words)
        hold(path, [held], hint)
        own_writes = line.writes - sum(child.writes for child in below)
        if own_writes <= 0:
            continue
        writes += own_writes
        reads += max(0, line.reads - together)
        if line.elapsed_s is not None:
            own_s = line.elapsed_s - sum(child.elapsed_s or 0.0 for child in below)
            elapsed_s = (elapsed_s or 0.0) + max(own_s, 0.0)
    return Spilled(reads, writes, elapsed_s)


def _children(lines: Sequence[PlanLine], at: int) -> list[PlanLine]:
    """Those right below: the least indented of what is more indented than the line itself."""
    inner: list[PlanLine] = []
    for line in lines[at + 1 :]:
        if line.depth <= lines[at].depth:
            break
        while inner and inner[-1].depth > line.depth:
            inner.pop()
        if not inner or inner[-1].depth == line.depth:
            inner.append(line)
    return inner
