"""A spill that was not recognised: I/O on other files that may be one, and the option for it."""

import os

from spillcast.recording.meta import Meta
from spillcast.recording.meta_file import is_recording
from spillcast.recording.part import went_on
from spillcast.recording.recording import Recording
from spillcast.text import shell_word
from spillcast.units import format_duration

#: Share of the elapsed time from which I/O on other files is worth a word.
NOTABLE = 0.05


def large_other_io(recording: Recording) -> bool:
    """Whether I/O on other files takes a notable time, and more than temp I/O."""
    other_s, temp_s = recording.meta.other_io.total_s, recording.meta.temp.total_s
    return other_s > max(temp_s, NOTABLE * recording.elapsed_s)


def unrecognised(recording: Recording) -> str | None:
    """A hint that a spill may be unrecognised, with the option for it; None without a sign of one.

    Where there is temp I/O, more must have been written to other files; and nobody, neither the
    user nor a server, has said which files are temp files.
    """
    meta = recording.meta
    if not meta.captured or meta.server_query is not None:
        return None
    if not meta.temp.operations:
        return unspilled(recording)
    temp_bytes, other_bytes = recording.written_bytes
    if meta.asked.temp_dirs or other_bytes <= temp_bytes or not large_other_io(recording):
        return None
    other, temp = map(format_duration, (meta.other_io.total_s, meta.temp.total_s))
    return f"I/O on other files took {other}, temp I/O {temp}: {temp_option(recording)}"


def unspilled(recording: Recording) -> str:
    """Explains a run without temp I/O: it did not spill, or the spill may have been missed."""
    meta = recording.meta
    if (client := server_to_record(meta)) is not None:
        return client
    under = "".join(f" under {path}" for path in meta.asked.temp_dirs)
    if meta.captured and meta.spilled is None:
        return f"no temp I/O was seen{under}, but {'; '.join(meta.blind_to)}"
    if went_on(meta):
        return f"did not spill{under} in the {format_duration(meta.elapsed_s)} that were recorded"
    if under:
        return f"did not spill{under}: is --temp the right directory?"
    # Of a server it is known where its temp files are.
    elsewhere = "" if meta.server_query else " (keeps temp files elsewhere? --temp DIR)"
    return f"did not spill: temp storage does not matter to it{elsewhere}"


def temp_option(recording: Recording) -> str:
    """How to say which directory holds the temp files."""
    command = f"spillcast forecast {shell_word(recording.path)} --temp DIR --to TARGET"
    # Of a recording that is on no disk there is nothing to forecast later.
    option = command if is_recording(recording.path) else "--temp DIR"
    return f"if the query did spill, name the directory: {option}"


_PROCESS = "--pid PID of the server's process"
#: Programs that only talk to a server, and the option that records it.
_CLIENTS = {
    **dict.fromkeys(("psql", "pgcli", "pgbench"), "--postgres DSN"),
    **dict.fromkeys(("sqlplus", "sqlcl", "mysql", "mariadb", "beeline", "sqlcmd"), _PROCESS),
}
#: A program that waits for less than this share of its run does work of its own.
_WAITED = 0.5


def server_to_record(meta: Meta) -> str | None:
    """A hint to record the server if a run without temp I/O only waited for one; else None."""
    command = meta.engine.command
    name = os.path.basename(command[0]) if command else ""
    if (option := _CLIENTS.get(name)) is not None:
        return f"{name} is only the client; record the server: {option}"
    busy_s = (meta.cpu_s or 0.0) + meta.other_io.total_s
    if meta.server_connection and busy_s < (1 - _WAITED) * meta.elapsed_s:
        return (
            "it mostly waited, with a connection to a server open; if the server runs the query, "
            f"record the server: --postgres DSN, or {_PROCESS}"
        )
    return None
