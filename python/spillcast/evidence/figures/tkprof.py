"""tkprof's output: a statement's calls, its waits for temp files, and blocks of its row sources."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import InputError
from spillcast.evidence.figures.choice import Choice, chosen
from spillcast.evidence.figures.figures import REPORT, Figures, Moved
from spillcast.gate import COUNT_MAX, text_of
from spillcast.recording.event_names import TEMP_EVENTS, is_like
from spillcast.recording.postgres_meta import Statement
from spillcast.redaction import struck_text

#: Blocks of a temp read or write where no row source tells: the most usual of traces.
BLOCKS = 31
HOW = "make it with: tkprof run.trc run.txt waits=yes, of a trace with waits (level 8)"
_RULE = re.compile(r"\*{40,}")
_SQL_ID = re.compile(r"SQL ID\s*:\s*(\w{13})")
_HEADING = re.compile(r"call\s+count\s+cpu\s+elapsed\s+disk")
_TOTAL = re.compile(r"(Execute|total)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+(\d+)\b")
_EVENT = re.compile(r"\s{2}(\S(?:.*?\S)??)\s{2,}+(\d+)\s+([\d.]+)\s+([\d.]+)\s*$")
_SOURCE = re.compile(r"^[\s\d]*\d(\s+)(\S[^(]*)\(cr=\d+ pr=(\d+) pw=(\d+)")


@dataclass(frozen=True)
class Section:
    """One statement; ``reads`` and ``writes`` are waits and their seconds."""

    name: str
    text: str
    executions: int
    elapsed_s: float
    cpu_s: float
    reads: tuple[int, float]
    writes: tuple[int, float]
    #: Blocks of temp files that one execution read and wrote; 0 where that is not told.
    read_blocks: int
    written_blocks: int


def read(paths: Sequence[Path], choice: Choice) -> Figures:
    """The figures of one statement. InputError where none waited for temp files, or several did."""
    (path,) = paths
    sections = {section.name: section for section in _sections(text_of(path, HOW))}
    if not sections:
        raise InputError(f"{path}: no statement waited for temp files: it does not spill", HOW)
    elapsed_s = {name: section.elapsed_s for name, section in sections.items()}
    section = chosen(path, sections, choice.sql_id, "--sql-id", elapsed_s)
    untold = [
        "tkprof counts waits, not requests: I/O that overlapped other work is not among them",
        "the client's time between calls is not a part of the elapsed time here",
    ]
    if section.executions > 1:
        untold.append(f"this is for all {section.executions:,} executions together")
    block, moved = choice.block_bytes, list[Moved]()
    for (count, total_s), blocks in (
        (section.reads, section.read_blocks),
        (section.writes, section.written_blocks),
    ):
        moved.append(Moved(count, (blocks * section.executions or count * BLOCKS) * block, total_s))
    if not (section.read_blocks or section.written_blocks):
        untold.append(
            f"no row source has blocks of temp files: each I/O is assumed to move {BLOCKS}"
        )
    return Figures(
        path=path,
        elapsed_s=section.elapsed_s,
        reads=moved[0],
        writes=moved[1],
        cpu_s=section.cpu_s,
        capture=REPORT,
        statement=Statement(section.name, section.text, 1, 1),
        untold=untold,
    )


def _sections(text: str) -> Iterator[Section]:
    """Those that waited for temp files; the totals of all statements at the end are none."""
    for number, part in enumerate(_RULE.split(text)):
        heading = _HEADING.search(part)
        if heading is None or "OVERALL TOTALS" in part:
            continue
        counts, waits = dict[str, tuple[int, float, float]](), dict[str, tuple[int, float]]()
        for line in part[heading.end() :].splitlines():
            if (match := _TOTAL.match(line)) is not None:
                counts[match[1]] = (_count(match[2]), float(match[3]), float(match[4]))
            elif (match := _EVENT.match(line)) and is_like(match[1], TEMP_EVENTS):
                waits[match[1].split()[2]] = (_count(match[2]), float(match[4]))
        if not waits or "total" not in counts:
            continue
        name = _SQL_ID.search(part[: heading.start()])
        read_blocks, written_blocks = _temp_blocks(part)
        _, cpu_s, elapsed_s = counts["total"]
        yield Section(
            name[1] if name else f"number {number}",
            struck_text(_statement(part[: heading.start()])),
            max(1, counts.get("Execute", (1, 0, 0))[0]),
            elapsed_s,
            cpu_s,
            waits.get("read", (0, 0.0)),
            waits.get("write", (0, 0.0)),
            read_blocks,
            written_blocks,
        )


def _statement(head: str) -> str:
    lines = (line for line in head.splitlines() if line.strip())
    return "\n".join(line for line in lines if not line.startswith(("SQL ID", "TKPROF", "error")))


def _temp_blocks(part: str) -> tuple[int, int]:
    """Blocks of temp files, read and written, by the row sources that wrote some themselves."""
    sources = []
    for line in part.splitlines():
        if match := _SOURCE.match(line):
            sources.append((len(match[1]), _count(match[3]), _count(match[4])))
    read_blocks = written_blocks = 0
    for at, (depth, physical_reads, physical_writes) in enumerate(sources):
        below = []
        for child in sources[at + 1 :]:
            if child[0] <= depth:
                break
            if child[0] == depth + 1:
                below.append(child)
        own_writes = physical_writes - sum(child[2] for child in below)
        if own_writes > 0:
            written_blocks += own_writes
            read_blocks += max(0, physical_reads - sum(child[1] for child in below))
    return read_blocks, written_blocks


def _count(text: str) -> int:
    if int(text) > COUNT_MAX:
        raise ValueError(f"{text} is not a count")
    return int(text)
