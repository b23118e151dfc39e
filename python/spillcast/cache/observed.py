"""Observed hits of a flash cache (v$mystat around scans, CellCLI's counts) -> rows and notes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from spillcast.cache.rows import SCAN, Rows
from spillcast.errors import EvidenceIncomplete, FileTooLarge
from spillcast.gate import COUNT_MAX, reading, text_of
from spillcast.units import format_bytes, format_duration

MIB = 1 << 20
#: The largest scan to simulate, in lines of 1 MiB: 16 TiB.
_LINES_MAX = 1 << 24
_HEAD_BYTES = 1 << 16
_MARKS = b"cell flash cache read hits", b"cachedSize:", b"FC_IO_"
_HINT = (
    "it holds v$mystat before and after a scan (physical read total bytes, cell flash cache read "
    "hits) and Elapsed, two listings of flashcachecontent detail, or a metric history of FC_IO_RQ_R"
)
_STAT = re.compile(r"^(physical read total bytes|cell flash cache read hits)\s+([\d,]+)\s*$")
_ELAPSED = re.compile(r"^Elapsed: (\d+):(\d+):([\d.]+)")
_ATTRIBUTE = re.compile(
    r"^(?:[\w.-]+: )?\s*(objectNumber|hitCount|missCount|cachedSize):\s+([\d,]+)"
)
_METRIC = re.compile(
    r"^(?:(?P<cell>[\w.-]+): )?\s*(?P<name>FC_IO_\w+)\s+\S+\s+(?P<value>[\d,.]+)\s\D++"
    r"(?P<time>\d{4}-\d\d-\d\dT[\d:.]+(?:[+-]\d\d:\d\d)?)\s*$"
)


@dataclass(frozen=True)
class Scan:
    """Counts of one scan or interval; ``elapsed_s`` is None if it was not timed."""

    object: str
    bytes: int
    flash_bytes: int
    elapsed_s: float | None = None

    @property
    def from_flash(self) -> float:
        """Share of the bytes that flash served."""
        return self.flash_bytes / self.bytes

    @property
    def words(self) -> str:
        """The measured share, and the options of a simulation that follow from it."""
        text = f"measured: {format_bytes(self.bytes)} of {self.object}, {self.from_flash:.2%} flash"
        if not self.elapsed_s:
            return text
        text += f", in {format_duration(self.elapsed_s)}"
        # Disk and flash serve reads in parallel.
        parts = {"--flash": self.flash_bytes, "--disk": self.bytes - self.flash_bytes}
        rates = [
            f"{option} {moved / self.elapsed_s / (1 << 30):.2f}G/s"
            for option, moved in parts.items()
            if moved > 0.01 * self.bytes
        ]
        return f"{text}: at least {' and '.join(rates)}, --from-flash {self.from_flash:.4f}"


def is_observed(path: Path) -> bool:
    """Whether a file holds such counts, judged by its beginning."""
    if not path.is_file() or path.suffix.lower() in (".csv", ".trc", ".zst", ".gz"):
        return False
    with reading(path), path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return any(mark in head for mark in _MARKS)


def read_observed(paths: Sequence[Path]) -> Rows:
    """The largest scan of each object as sequential reads, and notes with all measured shares."""
    scans: list[Scan] = []
    for path in paths:
        lines = text_of(path, _HINT).splitlines()
        with reading(path, _HINT):
            scans += [*_of_session(lines), *_of_contents(lines), *_of_metrics(lines)]
    scans = [scan for scan in scans if scan.bytes > 0]
    if not scans:
        raise EvidenceIncomplete(f"{paths[0]}: no counts of a scan, before and after", _HINT)
    largest: dict[str, int] = {}
    for scan in scans:
        largest[scan.object] = max(largest.get(scan.object, 0), scan.bytes)
    if sum(largest.values()) > _LINES_MAX * MIB:
        raise FileTooLarge(f"{paths[0]}: more than {format_bytes(_LINES_MAX * MIB)} were read")
    notes = [scan.words for scan in scans]
    notes.append("which blocks were read is not known: each object is taken to be read in order")
    return _rows(largest, notes)


def _rows(sizes: dict[str, int], notes: Sequence[str]) -> Rows:
    counts = [-(-size // MIB) for size in sizes.values()]
    number = np.repeat(np.arange(len(counts)), counts)
    offset = np.concatenate([np.arange(count) * MIB for count in counts])
    left = np.array(list(sizes.values()))[number] - offset
    none = np.zeros(len(number), dtype=np.int64)
    return Rows(
        time_s=none,
        file=number,
        offset=offset,
        bytes=np.minimum(left, MIB),
        object=number,
        query=none,
        cls=np.full(len(number), SCAN, dtype=np.int64),
        objects=list(sizes),
        notes=notes,
    )


def _of_session(lines: Sequence[str]) -> Iterator[Scan]:
    """Growth of v$mystat between snapshots; counts that shrink begin a new session."""
    before, elapsed_s = (0, 0), None
    counters: dict[str, int] = {}
    for line in lines:
        if match := _ELAPSED.match(line.strip()):
            took_s = 3600 * int(match[1]) + 60 * int(match[2]) + float(match[3])
            elapsed_s = max(elapsed_s or 0.0, took_s)
        if not (match := _STAT.match(line.strip())):
            continue
        counters[match[1]] = _count(match[2])
        if len(counters) < 2:
            continue
        read, hits = counters["physical read total bytes"], counters["cell flash cache read hits"]
        if read < before[0] or hits < before[1]:
            before = (0, 0)
        moved = read - before[0]
        if moved:
            # Hits of smart scans are of 1 MiB each.
            yield Scan("scan", moved, min((hits - before[1]) * MIB, moved), elapsed_s)
        before, counters, elapsed_s = (read, hits), {}, None


def _of_contents(lines: Sequence[str]) -> Iterator[Scan]:
    """Growth of an object's hits and misses between two listings of one cell."""
    entries: list[dict[str, int]] = []
    for line in lines:
        if match := _ATTRIBUTE.match(line):
            if not entries or match[1] in entries[-1]:
                entries.append({})
            entries[-1][match[1]] = _count(match[2])
    before: dict[int, tuple[int, int]] = {}
    for entry in entries:
        if not {"objectNumber", "hitCount", "missCount"} <= entry.keys():
            continue
        name, now = entry["objectNumber"], (entry["hitCount"], entry["missCount"])
        if name in before and now >= before[name]:
            hits, misses = (after - was for after, was in zip(now, before[name], strict=True))
            if hits + misses > 0 and misses >= 0:
                yield Scan(str(name), (hits + misses) * MIB, hits * MIB)
        before[name] = now


def _of_metrics(lines: Sequence[str]) -> Iterator[Scan]:
    """Growth of a cell's counts over the history: requests, or megabytes where these are there."""
    seen: dict[tuple[str, str], list[tuple[datetime, float]]] = {}
    for line in lines:
        if match := _METRIC.match(line):
            at = datetime.fromisoformat(match["time"])
            value = float(match["value"].replace(",", ""))
            seen.setdefault((match["cell"] or "cell", match["name"]), []).append((at, value))

    def grown(kind: str) -> float:
        values = [sorted(of) for (_, name), of in seen.items() if name == kind]
        return sum(max(of[-1][1] - of[0][1], 0.0) for of in values)

    for hit, miss in (("FC_IO_BY_R", "FC_IO_BY_R_MISS"), ("FC_IO_RQ_R", "FC_IO_RQ_R_MISS")):
        hits, misses = grown(hit), grown(miss)
        if hits + misses > 0:
            yield Scan("flash cache", round((hits + misses) * MIB), round(hits * MIB))
            return


def _count(text: str) -> int:
    value = int(text.replace(",", ""))
    if value > COUNT_MAX:
        raise ValueError(f"{text} is not a count")
    return value
