"""A sample of the single waits of a large recording, in windows that are spread evenly over it.

Ten million waits say hardly more about the overlap of threads than 256,000 do, and take fifty
times as long and eight times the memory. Single waits picked at random would not show which thread
waits for which, so a sample contains all waits of some windows. Readers treat it like a recording
that kept slices: nothing is known between two windows.

The core still reads and checks the file to its end, in one pass. Meanwhile it estimates which reads
missed a page cache, from regions of the files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording.recording import Recording
from spillcast.recording.schema import WAITS
from spillcast.recording.spill import slice_numbers
from spillcast.tables import Table

Array = NDArray[np.int64]
#: What is known of a window's threads ends with it, so it must be long.
WINDOWS = 64
#: Parts of a sample, each as evenly spread: their distance shows how certain it is.
PARTS = 4
#: Slices are chosen by the start of every 64th wait.
STEP = 64
#: The column of a sample's waits: of reads of temp files, what had to be read of a storage.
COLUMN = "missing_bytes"
#: The value for rows that are not reads.
NONE = -1
#: Regions are picked so that about as many operations are on them.
OPERATIONS = 1_000_000


@dataclass(frozen=True)
class PageCacheRoom:
    """The engine's page cache, and what a call that memory serves takes at most."""

    bytes: int
    memory_ns: float
    memory_ns_per_byte: float


@dataclass(frozen=True)
class Sample:
    """Describes the selection of a recording's waits."""

    #: The recording with all waits.
    whole: Recording
    rows: int
    #: Start and end of each stretch of the run of which all waits were taken, s; and the number of
    #: its window.
    slices_s: Sequence[tuple[float, float]]
    windows: Sequence[int]
    #: The most that temp files held together, and the number of operations without an offset.
    held_bytes: tuple[int, int]


def sampled(recording: Recording, rows: int, room: PageCacheRoom | None = None) -> Recording:
    """The same run with about so many of its single waits; its seconds count what they counted.

    With ``room``, the column COLUMN holds the bytes of each read that the page cache lacked.
    InputError where the file of waits is damaged.
    """
    slices, windows = _slices_ns(recording, rows)
    cache = None
    if room is not None:
        operations = recording.meta.temp.reads + recording.meta.temp.writes
        regions = min(1.0, OPERATIONS / max(operations, 1))
        cache = (regions, PARTS, (room.memory_ns, room.memory_ns_per_byte))
    pieces = zip(slices.tolist(), windows, strict=True)
    scan = _core.Scan([(begin, end, window % PARTS) for (begin, end), window in pieces], cache)
    recording.scan(scan)
    held_bytes = scan.held_bytes()
    kept, missing = scan.rows(0 if room is None else room.bytes)
    waits = Table.from_arrow(kept).cast(WAITS)
    if missing is not None:
        waits = waits.with_column(COLUMN, Table.from_arrow(missing)[COLUMN].filled(NONE))
    slices_s = [(begin / 1e9, end / 1e9) for begin, end in slices.tolist()]
    sample = Sample(recording, len(waits), slices_s, windows, held_bytes)
    return recording.with_waits(waits, sample)


def parts_of(recording: Recording) -> list[Recording]:
    """The PARTS of a sample, each with every fourth window; none if the recording is no sample."""
    if (sample := recording.sample) is None:
        return []
    part_of = np.array(sample.windows) % PARTS
    at = slice_numbers(sample.slices_s, recording.waits["start_ns"].values) - 1
    recordings = []
    for part in range(PARTS):
        waits = recording.waits.filter(part_of[at] == part)
        its = np.flatnonzero(part_of == part).tolist()
        part_sample = replace(
            sample,
            rows=len(waits),
            slices_s=[sample.slices_s[n] for n in its],
            windows=[sample.windows[n] for n in its],
        )
        recordings.append(recording.with_waits(waits, part_sample))
    return recordings


def _slices_ns(recording: Recording, rows: int) -> tuple[Array, list[int]]:
    """Slices that hold about so many waits, and the window of each.

    The waits are cut into equal parts by number, of each of which a window is taken, anywhere in
    it: what comes again at equal times is met as often as not. Where slices alone were kept, a
    window ends with its slice.
    """
    starts = [
        # A copy: a view would keep the whole batch in memory.
        batch["start_ns"].values[::STEP].copy()
        for batch in recording.waits_unchecked("start_ns")
    ]
    start_ns = np.sort(np.concatenate(starts))
    share = min(rows / max(recording.meta.raw.rows, 1), 1.0)
    anywhere = np.random.default_rng(0).uniform(0, 1 - share, WINDOWS)
    at = (np.arange(WINDOWS) + anywhere)[:, None] + [0.0, share]
    edges = np.quantile(start_ns, at / WINDOWS).astype(np.int64)
    kept = recording.meta.raw.slices_s
    if kept is None:
        pieces = [(begin, end, window) for window, (begin, end) in enumerate(edges.tolist())]
    else:
        kept_ns = [(round(begin * 1e9), round(end * 1e9)) for begin, end in kept]
        pieces = [
            (max(begin, first), min(end, last), window)
            for window, (begin, end) in enumerate(edges.tolist())
            for first, last in kept_ns
        ]
    pieces = [piece for piece in pieces if piece[0] < piece[1]]
    return np.array([piece[:2] for piece in pieces]).reshape(-1, 2), [p[2] for p in pieces]
