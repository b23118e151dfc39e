"""Recordings derived from a recording: other temp files, or the op that it lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.document import as_text
from spillcast.errors import NoTempIo, TimesUnknown
from spillcast.recording.completeness import temp_option
from spillcast.recording.meta import KeptWaits
from spillcast.recording.recording import Recording
from spillcast.recording.schema import seconds_of, totals, with_column
from spillcast.recording.spill import codes
from spillcast.recording.thread_trace import beside_others, most_at_once
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


def decided(waits: pa.Table, temp: Mapping[str, bool]) -> pa.Table:
    """``waits`` with the files that ``temp`` holds labelled by it."""
    file = waits.unify_dictionaries()["file"].combine_chunks()
    labels = [temp.get(name) for name in file.dictionary.to_pylist()]
    label = pa.array(labels, pa.bool_()).take(file.indices)
    return _with_labels(waits, pa.compute.coalesce(label, waits["temp"].combine_chunks()))


def _labelled(waits: pa.Table, folders: Sequence[str]) -> pa.Table:
    """``temp`` of each row by where its file lies."""
    file = waits.unify_dictionaries()["file"].combine_chunks()
    is_below = pa.array([_is_under(name, folders) for name in file.dictionary.to_pylist()])
    return _with_labels(waits, is_below.cast(pa.bool_()).take(file.indices).fill_null(False))


def _with_labels(waits: pa.Table, temp: pa.Array) -> pa.Table:
    column = waits.schema.get_field_index("temp")
    return waits.set_column(column, waits.schema.field(column), temp)


def _io_uring_depth(waits: pa.Table) -> int:
    beside = beside_others(waits)
    on_temp = pa.compute.and_(beside, waits["temp"].combine_chunks())
    if pa.compute.any(on_temp).as_py():
        return most_at_once(waits.filter(beside))
    return 0


def _is_under(name: str, folders: Sequence[str]) -> bool:
    return any(Path(name).is_relative_to(folder) for folder in folders)


def read_back(recording: Recording) -> Recording:
    """Read back what was written, or write what was read, each file from its beginning.

    The same recording where both were seen, or its single waits are not all there. How long the
    other op takes is not known: it has the times of the one.
    """
    temp = recording.temp_waits
    ops = temp["op"].cast(pa.string()).unique().to_pylist()
    raw = recording.meta.raw
    if raw.rows < raw.rows_seen or len(ops) != 1:
        return recording
    [other] = {"read", "write"} - set(ops)
    offset = temp["offset"].fill_null(0).to_numpy()
    more = temp.take(pa.array(np.lexsort((offset, codes(temp["file"])))))
    elapsed_ns = more["elapsed_ns"].to_numpy()
    ended_ns = round(recording.elapsed_s * 1e9)
    start_ns = ended_ns + np.cumsum(elapsed_ns) - elapsed_ns
    count = more.num_rows
    for name, value in (
        ("start_ns", pa.array(start_ns)),
        ("op", pa.array([other] * count).dictionary_encode()),
        ("event", pa.array([f"p{other}64"] * count).dictionary_encode()),
        ("cpu_before_ns", pa.array(np.zeros(count, dtype=np.int64))),
        ("woken_by", pa.nulls(count, pa.int64())),
    ):
        more = with_column(more, name, value)
    # The first thread does it all: how several would share the work is unknown.
    session = pa.array(np.full(count, temp["session"][0].as_py(), dtype=np.int64))
    more = with_column(more, "session", session)
    waits = pa.concat_tables([recording.waits, more]).unify_dictionaries()
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
