"""Recordings derived from a recording: other temp files, the op that it lacks, a sample of waits.

Ten million waits say hardly more about the overlap of threads than 256,000 do, and take fifty
times as long and eight times the memory. Single waits picked at random would not show which thread
waits for which, so a sample contains all waits of some windows that are spread evenly over the run.
Readers treat it like a recording that kept slices: nothing is known between two windows. The core
still reads and checks the file to its end, in one pass. Meanwhile it estimates which reads missed a
page cache, from regions of the files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.columns import Column
from spillcast.document import as_text
from spillcast.errors import NoTempIo, TimesUnknown
from spillcast.recording.completeness import temp_option
from spillcast.recording.meta import KeptWaits
from spillcast.recording.recording import Recording, Sample
from spillcast.recording.schema import WAITS, seconds_of, totals
from spillcast.tables import Numbers, Table, distinct
from spillcast.text import several


def with_temp(recording: Recording, temp_dirs: Sequence[str | Path]) -> Recording:
    """The same run in memory with the files under ``temp_dirs``, and no others, as temp files.

    The recording itself where none is given. Refusal unless all single waits were kept, InputError
    where nothing lies under them.
    """
    if not temp_dirs:
        return recording
    recording.need_io()
    meta = recording.meta
    if not meta.raw.whole or meta.capture.dropped:
        raise TimesUnknown(
            f"{recording.path}: single waits were kept for parts of the run only, so --temp cannot "
            "identify its temp files",
            f"record again with --temp {several(temp_dirs)[0]}",
        )
    folders = [as_text(str(Path(path).resolve())) for path in several(temp_dirs)]
    waits = _labelled(recording.waits, folders)
    temp, other_io = totals(waits)
    if not temp.operations:
        where = ", ".join(folders)
        raise NoTempIo(
            f"{recording.path}: none of the recorded I/O was under {where}",
            temp_option(recording.path),
        )
    mapped = [file for file in meta.capture.mapped_temp_files if _is_under(file, folders)]
    relabelled = Recording(
        recording.path,
        replace(
            meta,
            temp=temp,
            other_io=other_io,
            capture=replace(
                meta.capture, mapped_temp_files=mapped, io_uring_depth=_io_uring_depth(waits)
            ),
            asked=replace(meta.asked, temp_dirs=[Path(folder) for folder in folders]),
        ),
    )
    relabelled.waits = waits
    relabelled.seconds = seconds_of(waits)
    relabelled.samples = recording.samples
    return relabelled


def decided(waits: Table, temp: Mapping[str, bool]) -> Table:
    """``waits`` with the files that ``temp`` holds labelled by it."""
    file, before = waits["file"], waits["temp"].values
    is_temp = file.isin(name for name, label in temp.items() if label)
    return waits.with_column("temp", np.where(file.isin(temp), is_temp, before))


def _labelled(waits: Table, folders: Sequence[str]) -> Table:
    """``temp`` of each row by where its file lies."""
    file = waits["file"]
    is_below = file.isin(name for name in file.names if _is_under(name, folders))
    return waits.with_column("temp", is_below)


#: How the events of requests of io_uring begin.
_REQUEST = "io_uring_"


def _io_uring_depth(waits: Table) -> int:
    """The most requests that one session had in flight at once; 0 if none is of a temp file.

    A request that is alone is a row of its thread, which waited for it.
    """
    event = waits["event"]
    names = [name for name in event.names if name.startswith(_REQUEST)]
    beside = event.isin(names) & waits["blocked"].is_null()
    if not (beside & waits["temp"].values).any():
        return 0
    requests = waits.filter(beside)
    start = requests["start_ns"].values
    end = start + requests["elapsed_ns"].values
    session = np.tile(requests["session"].values, 2)
    step = np.repeat([1, -1], len(start))
    order = np.lexsort((step, np.concatenate([start, end]), session))
    return int(np.cumsum(step[order]).max(initial=0))


def _is_under(name: str, folders: Sequence[str]) -> bool:
    return any(Path(name).is_relative_to(folder) for folder in folders)


def _codes(names: Column) -> Numbers:
    """A number for each name, by the first rows; one more for none."""
    distinct_codes, number = distinct(names.codes().astype(np.int64))
    first = np.full(len(distinct_codes), len(number))
    np.minimum.at(first, number, np.arange(len(number)))
    first[distinct_codes < 0] = len(number)
    place = np.empty(len(first), dtype=np.int32)
    place[np.argsort(first)] = np.arange(len(first))
    return place[number]


def read_back(recording: Recording) -> Recording:
    """Read back what was written, or write what was read, each file from its beginning.

    The same recording where both were seen, or its single waits are not all there. How long the
    other op takes is not known: it has the times of the one.
    """
    temp = recording.temp_waits
    ops = temp["op"].unique()
    raw = recording.meta.raw
    if raw.rows < raw.rows_seen or len(ops) != 1:
        return recording
    [other] = {"read", "write"} - set(ops)
    offset = temp["offset"].filled(0)
    more = temp.take(np.lexsort((offset, _codes(temp["file"]))))
    elapsed_ns = more["elapsed_ns"].values
    ended_ns = round(recording.elapsed_s * 1e9)
    start_ns = ended_ns + np.cumsum(elapsed_ns) - elapsed_ns
    count = more.num_rows
    changed = {
        "start_ns": start_ns,
        "op": [other] * count,
        "event": [f"p{other}64"] * count,
        "cpu_before_ns": np.zeros(count, dtype=np.int64),
        "woken_by": Column.nulls(count, "int64"),
        # The first thread does it all: how several would share the work is unknown.
        "session": np.full(count, temp["session"][0], dtype=np.int64),
    }
    more = Table({**more.columns, **changed})
    waits = Table.concat([recording.waits, more])
    temp_meta = replace(recording.meta.temp, reads=count, writes=count)
    meta = replace(
        recording.meta,
        elapsed_s=recording.elapsed_s + float(elapsed_ns.sum()) / 1e9,
        temp=temp_meta,
        raw=KeptWaits(waits.num_rows, waits.num_rows, None),
    )
    path = recording.path.with_name(f"{recording.path.stem}-read-back.spill")
    in_memory = Recording(path, meta)
    in_memory.waits = waits
    in_memory.seconds = seconds_of(waits.filter(waits["op"].is_valid()))
    in_memory.samples = recording.samples
    return in_memory


Array = NDArray[np.int64]
#: What is known of a window's threads ends with it, so it must be long.
WINDOWS = 64
#: Parts of a sample, each as evenly spread: their distance shows how certain it is.
PARTS = 4
#: Slices are chosen by the start of every 64th wait.
STEP = 64
#: The column of a sample's waits: of reads of temp files, what had to be read of a storage.
MISSING_BYTES = "missing_bytes"
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


def sampled(recording: Recording, rows: int, room: PageCacheRoom | None = None) -> Recording:
    """The same run with about so many of its single waits; its seconds count what they counted.

    With ``room``, the column MISSING_BYTES holds the bytes of each read that the page cache lacked.
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
        waits = waits.with_column(
            MISSING_BYTES, Table.from_arrow(missing)[MISSING_BYTES].filled(NONE)
        )
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


def slice_numbers(slices_s: Sequence[tuple[float, float]], start_ns: Array) -> Array:
    """Which of some slices, in order, rows that begin then are of: from 1, 0 before the first."""
    # Seconds are no whole ns: a row at an edge is of the slice behind it.
    begin_ns = np.round([begin_s * 1e9 for begin_s, _ in slices_s])
    return np.searchsorted(begin_ns, start_ns, side="right")


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
