"""Recordings derived from a recording: other temp files, or the op that it lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from spillcast.columns import Column
from spillcast.document import as_text
from spillcast.errors import NoTempIo, TimesUnknown
from spillcast.recording.completeness import temp_option
from spillcast.recording.meta import KeptWaits
from spillcast.recording.recording import Recording
from spillcast.recording.schema import seconds_of, totals
from spillcast.recording.spill import codes
from spillcast.tables import Table
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
            f"{recording.path}: none of the recorded I/O was under {where}", temp_option(recording)
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
    more = temp.take(np.lexsort((offset, codes(temp["file"]))))
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
