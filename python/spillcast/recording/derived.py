"""Recordings derived from a recording: with other temp files, both ops, or fewer waits.

256,000 waits show the overlap of threads almost as well as ten million, in a fiftieth of the time
and an eighth of the memory. Randomly picked waits would not show which threads wait for each other.
So a sample contains all waits of some windows, which are spread evenly over the run, and readers
treat it like a recording that kept slices. The core still reads and checks the whole file, in one
pass, and estimates from regions of the files which reads miss a page cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.columns import ColumnValues, Integers
from spillcast.document import as_text
from spillcast.errors import NoTempIo, TimesUnknown
from spillcast.recording import WRITEBACK
from spillcast.recording.completeness import temp_option
from spillcast.recording.meta import KeptWaits
from spillcast.recording.recording import Recording, SelectedWaits
from spillcast.recording.schema import WAITS, seconds_of, totals
from spillcast.tables import Table
from spillcast.text import several


def with_temp(recording: Recording, temp_dirs: str | Path | Sequence[str | Path]) -> Recording:
    """The same run in memory, with exactly the files under ``temp_dirs`` as temp files.

    Returns the recording itself without ``temp_dirs``. Refusal unless all single waits were kept,
    InputError if no recorded I/O was under them.
    """
    if not temp_dirs:
        return recording
    recording.need_io()
    meta = recording.meta
    if not meta.raw.whole or meta.capture.dropped:
        raise TimesUnknown(
            "single waits were kept for parts of the run only, so --temp cannot "
            "identify its temp files",
            f"record again with --temp {several(temp_dirs)[0]}",
            recording.path,
        )
    folders = [as_text(str(Path(path).resolve())) for path in several(temp_dirs)]
    waits = _labelled(recording.waits, folders)
    temp, other_io = totals(waits)
    if not temp.operations:
        where = ", ".join(folders)
        raise NoTempIo(
            f"none of the recorded I/O was under {where}",
            temp_option(recording.path),
            recording.path,
        )
    mapped = [file for file in meta.capture.mapped_temp_files if _is_under(file, folders)]
    relabelled = replace(
        meta,
        temp=temp,
        other_io=other_io,
        capture=replace(
            meta.capture, mapped_temp_files=mapped, io_uring_depth=_io_uring_depth(waits)
        ),
        asked=replace(meta.asked, temp_dirs=[Path(folder) for folder in folders]),
    )
    path, samples = recording.path, recording.samples
    return Recording.of_tables(path, relabelled, waits, seconds_of(waits), samples)


def with_temp_column(waits: Table, temp: Mapping[str, bool]) -> Table:
    """``waits`` with column ``temp`` replaced by the mapping ``temp``, for the files in it."""
    file, before = waits["file"], waits["temp"].values
    is_temp = file.isin(name for name, label in temp.items() if label)
    return waits.with_column("temp", np.where(file.isin(temp), is_temp, before))


def _labelled(waits: Table, folders: Sequence[str]) -> Table:
    """``waits`` with column ``temp`` true exactly for files under ``folders``."""
    file = waits["file"]
    is_below = file.isin(name for name in file.names if _is_under(name, folders))
    # Writeback has no file: as in a capture, it is temp if temp files had most writes so far.
    writes = waits["op"].equals("write")
    mostly_temp = np.cumsum(np.where(is_below, 1, -1) * writes) > 0
    return waits.with_column("temp", is_below | (waits["event"].equals(WRITEBACK) & mostly_temp))


#: The prefix of the events of io_uring requests.
_REQUEST = "io_uring_"


def _io_uring_depth(waits: Table) -> int:
    """The most io_uring requests of a session in flight; 0 if none is on a temp file."""
    event = waits["event"]
    names = [name for name in event.names if name.startswith(_REQUEST)]
    # ``blocked`` is known for a thread's only request, for which it waits.
    concurrent = event.isin(names) & waits["blocked"].is_null()
    if not (concurrent & waits["temp"].values).any():
        return 0
    requests = waits.filter(concurrent)
    start = requests["start_ns"].values
    end = start + requests["elapsed_ns"].values
    session = np.tile(requests["session"].values, 2)
    step = np.repeat([1, -1], len(start))
    order = np.lexsort((step, np.concatenate([start, end]), session))
    return int(np.cumsum(step[order]).max(initial=0))


def _is_under(name: str, folders: Sequence[str]) -> bool:
    return any(Path(name).is_relative_to(folder) for folder in folders)


def read_back(recording: Recording) -> Recording:
    """The run extended by reads of the written bytes, or by writes of the read bytes.

    Each file is read or written from its beginning, with the times of the recorded op, because the
    other op's times are unknown. Without effect if it has both ops or lacks single waits.
    """
    temp = recording.temp_waits
    ops = temp["op"].unique()
    raw = recording.meta.raw
    if raw.rows < raw.rows_seen or len(ops) != 1:
        return recording
    [other_op] = {"read", "write"} - set(ops)
    files = temp.group_by("file")
    # Files in the order of their first rows; rows without a file come last.
    file = np.where(temp["file"].is_null(), len(files), files.number)
    added = temp.take(np.lexsort((temp["offset"].filled(0), file)))
    elapsed_ns = added["elapsed_ns"].values
    ended_ns = round(recording.elapsed_s * 1e9)
    start_ns = ended_ns + np.cumsum(elapsed_ns) - elapsed_ns
    count = added.num_rows
    changed = {
        "start_ns": start_ns,
        "op": [other_op] * count,
        "event": [f"p{other_op}64"] * count,
        "cpu_before_ns": np.zeros(count, dtype=np.int64),
        "woken_by": ColumnValues.nulls(count, "int64"),
        # The first thread does all added work: its division among threads is unknown.
        "session": np.full(count, temp["session"][0], dtype=np.int64),
    }
    waits = Table.concat([recording.waits, Table({**added.columns, **changed})])
    temp_meta = replace(recording.meta.temp, reads=count, writes=count)
    meta = replace(
        recording.meta,
        elapsed_s=recording.elapsed_s + float(elapsed_ns.sum()) / 1e9,
        temp=temp_meta,
        raw=KeptWaits(waits.num_rows, waits.num_rows, None),
    )
    path = recording.path.with_name(f"{recording.path.stem}-read-back.spill")
    seconds = seconds_of(waits.filter(waits["op"].is_valid()))
    return Recording.of_tables(path, meta, waits, seconds, recording.samples)


#: Number of windows of a sample: few and long, because threads' states between them are unknown.
WINDOWS = 64
#: Number of parts of a sample, each spread evenly over the run: their differences show its error.
PARTS = 4
#: Slices are chosen by the start of every START_STRIDE-th wait.
START_STRIDE = 64
#: A column of a sample's waits: the bytes of a read that a page cache would not have held.
MISSING_BYTES = "missing_bytes"
#: The value of MISSING_BYTES in rows that are not reads of temp files.
NOT_A_READ = -1
#: Approximate number of operations in the regions that are chosen to estimate a page cache.
OPERATIONS = 1_000_000


#: A recording below WHOLE_ROWS waits is used entirely; a larger one is sampled to SAMPLE_ROWS.
WHOLE_ROWS, SAMPLE_ROWS = 1_000_000, 256_000
#: If a larger share of temp operations was as fast as memory, the page cache may have served them.
FAST_MAX = 0.005


def sample_of(recording: Recording, max_rows: int | None = None) -> Recording:
    """A sample of a recording's waits; the recording itself if it is small, or in memory.

    It is small with at most ``max_rows`` waits, by default below WHOLE_ROWS. If the page cache may
    have served temp I/O, its contents are simulated for some regions of the files.
    """
    small = recording.meta.raw.rows < (WHOLE_ROWS if max_rows is None else max_rows + 1)
    if small or recording.waits_in_memory:
        return recording
    cache_bytes = recording.meta.engine_cache_bytes
    if cache_bytes is not None and _fast_share(recording) <= FAST_MAX:
        cache_bytes = None
    return sampled(recording, max_rows or SAMPLE_ROWS, cache_bytes)


def _fast_share(recording: Recording) -> float:
    """Share of the temp operations that were as fast as memory."""
    seconds = recording.temp_seconds
    count = seconds["count"].to_numpy()
    if not count.sum():
        return 0.0
    usual_ns = 1e9 * calibrated().in_memory_s(seconds["bytes"].to_numpy() / count.clip(1))
    latency_ns, counts = seconds["latency_ns"], seconds["latency_count"]
    assert latency_ns.items is not None
    assert counts.items is not None
    is_fast = latency_ns.items.values <= np.repeat(usual_ns, latency_ns.lengths)
    return float(counts.items.values[is_fast].sum() / count.sum())


def sampled(recording: Recording, rows: int, cache_bytes: int | None = None) -> Recording:
    """The same run with a sample of about ``rows`` of its waits, and all per-second rows.

    With ``cache_bytes``, the column MISSING_BYTES has the bytes of each read that a page cache of
    this size lacked.
    InputError if the file of waits is damaged.
    """
    slices, windows = _slices_ns(recording, rows)
    cache = None
    if cache_bytes is not None:
        operations = recording.meta.temp.reads + recording.meta.temp.writes
        regions, known = min(1.0, OPERATIONS / max(operations, 1)), calibrated()
        # The longest time of a call that memory serves, and of each of its bytes.
        memory_ns = 1e9 * known.memory_s, 1e9 / known.memory_bytes_per_s
        cache = (regions, PARTS, memory_ns)
    pieces = zip(slices.tolist(), windows, strict=True)
    scan = _core.Scan([(begin, end, window % PARTS) for (begin, end), window in pieces], cache)
    recording.scan(scan)
    held_bytes = scan.held_bytes()
    kept, missing = scan.rows(cache_bytes or 0)
    waits = Table.from_arrow(kept).cast(WAITS)
    if missing is not None:
        missed = Table.from_arrow(missing)[MISSING_BYTES].filled(NOT_A_READ)
        waits = waits.with_column(MISSING_BYTES, missed)
    waits = waits.sort_by("start_ns")
    slices_s = [(begin / 1e9, end / 1e9) for begin, end in slices.tolist()]
    sample = SelectedWaits(recording, slices_s, windows, held_bytes)
    return recording.with_waits(waits, sample)


def parts_of(recording: Recording) -> list[Recording]:
    """The PARTS of a sample, each with every fourth window; empty if it is not a sample."""
    if (sample := recording.sample) is None:
        return []
    part_of_slice = np.array(sample.windows) % PARTS
    begin_ns = [begin for begin, _ in recording.slices_ns]
    start_ns = recording.waits["start_ns"].values
    # A wait at an edge belongs to the later slice.
    slice_of_wait = np.searchsorted(begin_ns, start_ns, side="right") - 1
    recordings = []
    for part in range(PARTS):
        waits = recording.waits.filter(part_of_slice[slice_of_wait] == part)
        slices = np.flatnonzero(part_of_slice == part).tolist()
        part_sample = replace(
            sample,
            slices_s=[sample.slices_s[number] for number in slices],
            windows=[sample.windows[number] for number in slices],
        )
        recordings.append(recording.with_waits(waits, part_sample))
    return recordings


def _slices_ns(recording: Recording, rows: int) -> tuple[Integers, list[int]]:
    """Slices (n x 2) that hold about ``rows`` waits, and the number of the window of each.

    The waits are divided into WINDOWS parts of equal size, and each part has a window at a random
    position, so that periodic work is sampled fairly. Of a recording that kept slices, only the
    parts of windows within its slices remain.
    """
    starts = [
        # A copy: a view would keep the whole batch in memory.
        batch["start_ns"].values[::START_STRIDE].copy()
        for batch in recording.batches("waits", "start_ns")
    ]
    start_ns = np.sort(np.concatenate(starts))
    share = min(rows / max(recording.meta.raw.rows, 1), 1.0)
    offset = np.random.default_rng(0).uniform(0, 1 - share, WINDOWS)
    parts = (np.arange(WINDOWS) + offset)[:, None] + [0.0, share]
    edges = np.quantile(start_ns, parts / WINDOWS).astype(np.int64)
    kept_ns = recording.slices_ns
    slices, windows = [], []
    for window, (begin, end) in enumerate(edges.tolist()):
        for first, last in kept_ns or [(begin, end)]:
            if max(begin, first) < min(end, last):
                slices.append((max(begin, first), min(end, last)))
                windows.append(window)
    return np.array(slices).reshape(-1, 2), windows
