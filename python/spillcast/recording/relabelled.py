"""A recording whose temp files are identified again: by the directories that contain them.

A recording without recognised temp files still contains their I/O. Given the directory
(``--temp``), the rows get new labels in memory, and the per-second counts are made from them. That
needs all single waits; where some were dropped, the counts alone cannot tell temp I/O apart, so it
is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute

from spillcast.document import as_text
from spillcast.errors import NoTempIo, TimesUnknown
from spillcast.recording.counted import seconds_of, totals
from spillcast.recording.io_uring import beside_others, most_at_once
from spillcast.recording.recording import Recording
from spillcast.recording.unrecognised import temp_option
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
