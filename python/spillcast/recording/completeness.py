"""The completeness of a recording: recorded part, missed spills, contradictions."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spillcast.document import later
from spillcast.recording.meta import PLAN_FILE, Meta, is_recording
from spillcast.recording.observed import RecordedQuery
from spillcast.recording.recording import Recording
from spillcast.text import shell_word
from spillcast.units import format_bytes, format_duration


@dataclass(frozen=True)
class RecordedPart:
    """A recording of a part of a run whose length is unknown.

    ``because`` is the cause of the recording's end (``duration``, ``interrupt``, ``failure``),
    ``error`` if the run was cancelled or failed, or ``late`` if the recording started after the
    run. ``before_s`` is the age of the run at the start of the recording, or that of its
    ``process``, whose query may have started at any time; None if both started together.
    """

    recorded_s: float
    because: str
    before_s: float | None = later()
    what: Literal["run", "process"] = later("run")

    @classmethod
    def of(cls, meta: Meta) -> "RecordedPart | None":
        """The recorded part; None if the elapsed time of the whole run is known."""
        if meta.whole_s is not None:
            return None
        because = meta.cut_off_by or "late"
        query = meta.server
        if query is not None:
            return cls(meta.elapsed_s, because, query.before_recording_s or None)
        if meta.before is not None and meta.may_have_begun:
            return cls(meta.elapsed_s, because, meta.before.ran_s, "process")
        return cls(meta.elapsed_s, because)

    @property
    def text(self) -> str:
        """The beginning of a sentence: "5.0 s were recorded of a run that went on"."""
        clauses = []
        if self.before_s is not None:
            clauses.append(f"had already run for {format_duration(self.before_s)}")
        elif self.because == "late":
            clauses.append("had already started")
        if self.because == "error":
            clauses.append("was cancelled or failed")
        elif self.because != "late":
            clauses.append("went on")
        recorded = format_duration(self.recorded_s)
        return f"{recorded} were recorded of a {self.what} that {' and '.join(clauses)}"


#: I/O on other files is reported from this share of the elapsed time.
NOTABLE = 0.05


def large_other_io(meta: Meta) -> bool:
    """Whether I/O on other files takes a notable time, and more than temp I/O."""
    return meta.other_io.total_s > max(meta.temp.total_s, NOTABLE * meta.elapsed_s)


def unrecognised(recording: Recording) -> str | None:
    """A hint that a spill may be unrecognised, with the remedy; None if there is no sign of it.

    If there was temp I/O, more bytes written to other files suggest a missed spill, unless the user
    or a server has named the directories of temp files.
    """
    meta = recording.meta
    if not meta.captured or meta.server is not None:
        return None
    if not meta.temp.operations:
        return unspilled(meta)
    temp_bytes, other_bytes = recording.written_bytes
    if meta.asked.temp_dirs or other_bytes <= temp_bytes or not large_other_io(meta):
        return None
    other, temp = map(format_duration, (meta.other_io.total_s, meta.temp.total_s))
    return f"I/O on other files took {other}, temp I/O {temp}: {temp_option(recording.path)}"


def unspilled(meta: Meta) -> str:
    """Explain a run without temp I/O: it did not spill, or the spill may have been missed."""
    if (client := server_to_record(meta)) is not None:
        return client
    under = "".join(f" under {path}" for path in meta.asked.temp_dirs)
    if meta.captured and meta.spilled is None:
        return f"no temp I/O was seen{under}, but {'; '.join(meta.blind_to)}"
    is_part = meta.ended_early or _is_late(meta)
    during = f" in the {format_duration(meta.elapsed_s)} that were recorded" if is_part else ""
    if under:
        return f"did not spill{under}{during}: is --temp the right directory?"
    # A server's directories of temp files are known.
    elsewhere = "" if meta.server else " (keeps temp files elsewhere? --temp DIR)"
    consequence = "" if is_part else ": temp storage does not matter to it"
    return f"did not spill{during}{consequence}{elsewhere}"


def _is_late(meta: Meta) -> bool:
    """Whether the query may have spilled before its recording began."""
    if meta.server is not None:
        return meta.server.before_recording_s > NOTABLE * meta.elapsed_s
    return meta.may_have_begun


def temp_option(path: Path) -> str:
    """The option that names the directory of temp files, for a recording at ``path``."""
    command = f"spillcast forecast {shell_word(path)} --temp DIR --to TARGET"
    # A recording in memory cannot be forecast later.
    option = command if is_recording(path) else "--temp DIR"
    return f"if the query did spill, name the directory: {option}"


_PROCESS = "--pid PID of the server's process"
#: Programs that are only clients of a server, by the option that records the server.
_CLIENTS = {
    "--postgres DSN": "psql pgcli pgbench",
    "--mysql DSN --query PATTERN": "mysql mariadb mycli mysqldump",
    _PROCESS: "sqlplus sqlcl beeline sqlcmd",
}
#: A program that waits for less than this share of its run is not only a client.
_WAITED = 0.5


def server_to_record(meta: Meta) -> str | None:
    """A hint to record the server, if a run without temp I/O mostly waited for it; else None."""
    command = meta.engine.command
    name = os.path.basename(command[0]) if command else ""
    options = (option for option, clients in _CLIENTS.items() if name in clients.split())
    if (option := next(options, None)) is not None:
        return f"{name} is only the client; record the server: {option}"
    busy_s = (meta.cpu_s or 0.0) + meta.other_io.total_s
    if meta.server_connection and busy_s < (1 - _WAITED) * meta.elapsed_s:
        return (
            "it mostly waited, with a connection to a server open; if the server runs the query, "
            f"record the server: --postgres DSN, or {_PROCESS}"
        )
    return None


#: Relative differences above which there is a warning, and above which there is no forecast.
DIFFERENCE_REPORTED, DIFFERENCE_MAX = 0.02, 0.2
#: Blocks that a plan and a recording may differ by: only one of them counts a file's last block.
BLOCK_MARGIN = 2


@dataclass(frozen=True)
class CaptureCheck:
    """A quantity as captured and as another source gives it."""

    quantity: str
    recorded: int
    expected: int
    source: str
    #: Whether the source is a lower bound, which the capture may exceed.
    at_least: bool = False
    #: The largest absolute difference that is not a contradiction.
    apart: int = 0
    is_bytes: bool = False

    @property
    def difference(self) -> float:
        """The difference as a share of the larger figure."""
        missing = self.expected - self.recorded
        if (self.at_least and missing <= 0) or abs(missing) <= self.apart:
            return 0.0
        return abs(missing) / max(self.expected, self.recorded)

    @property
    def text(self) -> str:
        """The quantity with both figures and the source."""
        recorded, expected = (
            format_bytes(n) if self.is_bytes else f"{n:,}" for n in (self.recorded, self.expected)
        )
        least = "at least " if self.at_least else ""
        return f"{self.quantity}: {recorded} recorded, {least}{expected} {self.source}"


def checks_of(recording: Recording, planned: Mapping[str, int]) -> list[CaptureCheck]:
    """All quantities of a whole query that two sources give.

    ``planned`` are the temp blocks by op that the plan in the recording counts.
    """
    meta, query = recording.meta, recording.meta.server
    if not meta.captured or query is None or query.ended_by != "query" or query.before_recording_s:
        return []
    return [*_by_plan(recording, planned), *_by_server(recording, query)]


def contradictions_of(recording: Recording, planned: Mapping[str, int]) -> list[CaptureCheck]:
    """The ``checks_of`` a recording that deserve a warning, the largest difference first."""
    checks = checks_of(recording, planned)
    apart = [check for check in checks if check.difference > DIFFERENCE_REPORTED]
    return sorted(apart, key=lambda check: -check.difference)


def _by_plan(recording: Recording, planned: Mapping[str, int]) -> Iterator[CaptureCheck]:
    """Compare with the counts of EXPLAIN (ANALYZE, BUFFERS) in the same folder."""
    seconds = recording.temp_seconds
    # A read at end of file moves no block.
    blocks = seconds["count"].values * (seconds["bytes"].values > 0)
    for op, expected in planned.items():
        recorded = int(blocks[seconds["op"].equals(op)].sum())
        quantity = f"temp blocks {'written' if op == 'write' else op}"
        yield CaptureCheck(quantity, recorded, expected, f"in {PLAN_FILE}", apart=BLOCK_MARGIN)


def _by_server(recording: Recording, query: RecordedQuery) -> Iterator[CaptureCheck]:
    """Compare with the server's list of temp files during the query, and with its processes."""
    source = "in the server's list of temp files"
    if peak_bytes := sum(space.peak_bytes for space in query.temp_files):
        written = recording.written_bytes.temp
        quantity = "bytes written to temp files"
        yield CaptureCheck(quantity, written, peak_bytes, source, at_least=True, is_bytes=True)
    # Files and processes are only counted in all single waits of the run.
    if recording.sample is not None or not recording.meta.raw.whole:
        return
    if peak_files := sum(space.peak_files for space in query.temp_files):
        files = len(recording.temp_columns("file")["file"].unique())
        yield CaptureCheck("temp files", files, peak_files, source, at_least=True)
    if workers := {worker.pid for worker in query.workers}:
        with_rows = workers & set(recording.waits["session"].unique())
        yield CaptureCheck("parallel workers with waits", len(with_rows), len(workers), "attached")
