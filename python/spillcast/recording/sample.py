"""A sample of the single waits of a large recording, in windows that are spread evenly over it.

Ten million waits say hardly more about the overlap of threads than 256,000 do, and take fifty
times as long and eight times the memory. Single waits picked at random would not show which thread
waits for which, so a sample contains all waits of some windows. Readers treat it like a recording
that kept slices: nothing is known between two windows.

The file is still read and checked to its end, in batches, which takes a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spillcast.recording.cached_reads import COLUMN, NONE, CachedReads, PageCacheRoom
from spillcast.recording.recording import Recording
from spillcast.recording.spill import slice_numbers
from spillcast.tables import Table

Array = NDArray[np.int64]
#: What is known of a window's threads ends with it, so it must be long.
WINDOWS = 64
#: Parts of a sample, each as evenly spread: their distance shows how certain it is.
PARTS = 4
#: Starts of waits are looked up in every so manieth row.
STEP = 64
#: A column for the number of a wait among all.
_NUMBER = "number"


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
    #: The most that temp files held together; None if not computed, or unknown.
    spill_bytes: int | None = None


def sampled(recording: Recording, rows: int, room: PageCacheRoom | None = None) -> Recording:
    """The same run with about so many of its single waits; its seconds count what they counted.

    Where it had a page cache, reads know what that lacked, by all that was done before.
    InputError where the file of waits is damaged.
    """
    slices, windows = _slices_ns(recording, rows)
    reads = None
    if room is not None:
        operations = recording.meta.temp.reads + recording.meta.temp.writes
        reads = CachedReads(room, operations, PARTS)
    part_of = np.array(windows, dtype=np.int64) % PARTS
    waits = Table.concat([*_beginning_in(recording, slices, part_of, reads)])
    spill_bytes = None
    if reads is not None:
        spill_bytes = reads.held_bytes
        missing = reads.missing_bytes(waits[_NUMBER].values)
        waits = waits.drop(_NUMBER).with_column(COLUMN, missing)
    slices_s = [(begin / 1e9, end / 1e9) for begin, end in slices.tolist()]
    sample = Sample(recording, len(waits), slices_s, windows, spill_bytes)
    return recording.with_waits(waits, sample)


def parts_of(recording: Recording) -> list[Recording]:
    """A sample in PARTS, each of every so manieth window; none of a recording that is whole."""
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


def _beginning_in(
    recording: Recording, slices: Array, part_of: Array, reads: CachedReads | None
) -> Iterator[Table]:
    """The waits that begin within slices, which do not overlap; ``reads`` sees all waits.

    ``part_of`` is the part of the sample that each slice is in.
    """
    edges, before = slices.ravel(), 0
    for rows in recording.batches("waits"):
        edge = np.searchsorted(edges, rows["start_ns"].values, side="right")
        within = edge % 2 == 1
        selected = rows.filter(within)
        if reads is not None:
            part = np.full(len(edge), NONE)
            part[within] = part_of[edge[within] // 2]
            reads.push(rows, part)
            selected = selected.with_column(_NUMBER, before + np.flatnonzero(within))
        before += rows.num_rows
        yield selected


def _slices_ns(recording: Recording, rows: int) -> tuple[Array, list[int]]:
    """Slices that hold about so many waits, and the window of each.

    The waits are cut into equal parts by number, of each of which a window is taken, anywhere in
    it: what comes again at equal times is met as often as not. Where slices alone were kept, a
    window ends with its slice.
    """
    start_ns = _some_starts_ns(recording)
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


def _some_starts_ns(recording: Recording) -> Array:
    """When every so manieth wait began, in order."""
    starts = [
        # A copy, for a view would hold them all.
        rows["start_ns"].values[::STEP].copy()
        for rows in recording.waits_unchecked("start_ns")
    ]
    return np.sort(np.concatenate(starts))
