"""Temp files that were not recognised: told by what was written, read back and is gone."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.recording.meta_file import is_recording
from spillcast.recording.recording import Recording
from spillcast.recording.sums import FileSums
from spillcast.units import format_bytes, format_count, format_duration
from spillcast.visible import shell_word

#: Share of the elapsed time from which I/O on other files is worth a word.
NOTABLE = 0.05
#: A directory with less than this share of what was read back is not named.
SHARE_MIN = 0.01


@dataclass(frozen=True)
class LikelyTemp:
    """A directory, which may be gone, and the files in it that came and went like a spill."""

    directory: Path
    files: int
    written_bytes: int
    read_bytes: int


def likely_temp(recording: Recording) -> list[LikelyTemp]:
    """Directories of files that were written, then read and are gone, most bytes first.

    Of files that count as no temp files. None where the recording was made on another machine,
    on which nobody can look now whether they are gone.
    """
    if not recording.meta.machine.is_this_one:
        return []
    files = recording.other_files
    spilled = {
        file: (sums.written_bytes, sums.read_bytes)
        for file, sums in files.items()
        if _came_back(sums) and not os.path.lexists(file)
    }
    used = {file for file, sums in files.items() if sums.written_bytes or sums.read_bytes}
    found = [
        LikelyTemp(
            Path(directory),
            len(files),
            sum(spilled[file][0] for file in files),
            sum(spilled[file][1] for file in files),
        )
        for directory, files in _directories(sorted(spilled), used - spilled.keys()).items()
    ]
    found.sort(key=_spilled_bytes, reverse=True)
    least_bytes = SHARE_MIN * sum(map(_spilled_bytes, found))
    return [one for one in found if _spilled_bytes(one) >= least_bytes]


def large_other_io(recording: Recording) -> bool:
    """Whether I/O on other files takes a notable time, and more than temp I/O."""
    other_s, temp_s = recording.meta.other_io.total_s, recording.meta.temp.total_s
    return other_s > max(temp_s, NOTABLE * recording.elapsed_s)


def unrecognised(recording: Recording) -> str | None:
    """That a spill may not have been recognised, and what mends it; None where nothing says so.

    Where there is temp I/O, more must have been written to other files; and nobody, neither the
    user nor a server, has said which files are temp files.
    """
    meta = recording.meta
    if not meta.captured or meta.server_query is not None:
        return None
    if not meta.temp.operations:
        under = "".join(f" under {path}" for path in meta.asked.temp_dirs)
        others = format_count(meta.other_io.count, "call")
        seen = f"no temp I/O was seen{under} ({others} on other files)"
        return f"{seen}: {mend(recording)}"
    temp_bytes, other_bytes = recording.written_bytes
    if meta.asked.temp_dirs or other_bytes <= temp_bytes:
        return None
    # What takes no time where it is may take much on another storage.
    found = likely_temp(recording)
    if sum(one.written_bytes for one in found) <= temp_bytes and not large_other_io(recording):
        return None
    other, temp = map(format_duration, (meta.other_io.total_s, meta.temp.total_s))
    return f"I/O on other files took {other}, temp I/O {temp}: {_mended_by(recording, found)}"


def mend(recording: Recording) -> str:
    """Which directory is likely that of temp files, and how to say so."""
    return _mended_by(recording, likely_temp(recording))


def _mended_by(recording: Recording, found: Sequence[LikelyTemp]) -> str:
    options = " ".join(f"--temp {shell_word(one.directory)}" for one in found) or "--temp DIR"
    command = f"spillcast forecast {shell_word(recording.path)} {options} --to TARGET"
    # Of a recording that is on no disk there is nothing to forecast later.
    said = command if is_recording(recording.path) else options
    if not found:
        return f"if the query did spill, name the directory: {said}"
    files, size = sum(one.files for one in found), sum(one.written_bytes for one in found)
    where = ", ".join(str(one.directory) for one in found)
    return (
        f"files under {where} were written, read back and are gone, like temp files ({files:,} of "
        f"them, {format_bytes(size)}): {said}"
    )


def _spilled_bytes(one: LikelyTemp) -> int:
    """What was written and read back."""
    return min(one.written_bytes, one.read_bytes)


def _came_back(sums: FileSums) -> bool:
    """Whether something was written and then something read."""
    if sums.first_write_ns is None or sums.last_read_ns is None:
        return False
    moved = bool(sums.written_bytes and sums.read_bytes)
    return moved and sums.last_read_ns > sums.first_write_ns


def _directories(spilled: Sequence[str], stayed: set[str]) -> Mapping[str, Sequence[str]]:
    """The files by the directory that all share, or by their own where other files lie there."""
    by_folder: dict[str, list[str]] = {}
    for file in spilled:
        by_folder.setdefault(os.path.dirname(file), []).append(file)
    if len(by_folder) < 2:
        return by_folder
    shared = os.path.commonpath(by_folder)
    alone = shared != "/" and not any(file.startswith(f"{shared}/") for file in stayed)
    return {shared: spilled} if alone else by_folder
