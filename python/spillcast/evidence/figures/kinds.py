"""The sources of figures: how a file of each is known, and what reads it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillcast.evidence.figures.choice import Choice
    from spillcast.evidence.figures.figures import Figures

#: Bare figures on the command line begin so.
WORD = "figures:"
HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class Reader:
    """A kind of file, its module here, which has ``read(paths, choice)``, and its marks."""

    module: str
    known: Callable[[Path, bytes], bool]
    #: Several such files may be parts of one report.
    joins: bool = False

    def read(self, paths: Sequence[Path], choice: "Choice") -> "Figures":
        """What the files say of the run that is chosen. InputError where they are damaged."""
        module = import_module(f"spillcast.evidence.{self.module}")
        figures: Figures = module.read(paths, choice)
        return figures


def _stated(path: Path, head: bytes) -> bool:
    written = path.suffix.lower() == ".toml" or head.lstrip()[:1] == b"{"
    return written and b"elapsed_s" in head and b'"schema"' not in head and b'"Plan"' not in head


def _marked(*marks: bytes) -> Callable[[Path, bytes], bool]:
    """Whether one of these stands in the beginning of a file."""
    return lambda _path, head: any(mark in head for mark in marks)


def _matching(pattern: bytes) -> Callable[[Path, bytes], bool]:
    """Whether the beginning of a file holds what a pattern finds."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda _path, head: compiled.search(head) is not None


def _wait_views(_path: Path, head: bytes) -> bool:
    start = head[:4096].lower()
    waited = b"total_waits" in start and b"time_waited" in start
    return b"event" in start and (waited or (b"wait_count" in start and b"wait_time_mi" in start))


def _monitor_rows(_path: Path, head: bytes) -> bool:
    start = head[:4096].lower()
    return b"physical_read_requests" in start and b"sql_exec_id" in start


def _tkprof(_path: Path, head: bytes) -> bool:
    return (
        b"TKPROF: Release" in head or re.search(rb"call\s+count\s+cpu\s+elapsed", head) is not None
    )


def _profile(_path: Path, head: bytes) -> bool:
    """Whether it is a profile of DuckDB: of any version, in JSON or as a box."""
    marks = (b'"cumulative_cardinality"', b'"operator_timing"', b'"peak_temp_dir_size"')
    groups = b'"total_intermediate_size_bytes"', b'"intermediate_size_bytes"', b'"extra-info"'
    if head.lstrip()[:1] == b"{":
        return any(mark in head for mark in (*marks, *groups, b'"total_bytes_spilled"'))
    return b"Total Time:" in head and "\u2502".encode() in head


_AWR = (
    rb"WORKLOAD REPOSITORY|AWR Report for DB|STATSPACK report|Top \d+ (?:Timed|Foreground|Wait)\b"
    rb"|\bEvent\s+(?:%\w+\s+)?Waits\b[^\n]*\n\W*-{4,} [-\s]+\n"
)
_MONITOR = rb"SQL Monitoring Report|SQL Plan Monitoring Details|Global Information\W+Status\s+:"
_XPLAN = rb"\|\s*Id\s*\|\s*Operation\s*\|"
_SHARES = rb"ASH Report For|%This\b.*\bEVENT\b|Top User Events"

READERS = (
    Reader("oracle.monitor_xml", _marked(b"<sql_monitor_report", b"FXTMODEL")),
    Reader("oracle.monitor_text", _matching(_MONITOR)),
    Reader("oracle.ash_shares", _matching(_SHARES)),
    Reader("oracle.awr", _matching(_AWR)),
    Reader("oracle.monitor_views", _monitor_rows, joins=True),
    Reader("oracle.wait_views", _wait_views),
    Reader("oracle.tkprof", _tkprof),
    Reader("oracle.xplan", _matching(_XPLAN)),
    Reader("figures.duckdb_profile", _profile),
    Reader("figures.stated", _stated),
)


def reader_of(path: Path, head: bytes) -> Reader | None:
    """What reads a file that begins so; None where it holds no figures."""
    return next((reader for reader in READERS if reader.known(path, head)), None)


def is_word(text: str) -> bool:
    """Whether an argument is bare figures and no file."""
    return text.startswith(WORD)


def are_figures(path: Path) -> bool:
    """Whether a file holds figures of a run, as far as its beginning tells."""
    with path.open("rb") as file:
        return reader_of(path, file.read(HEAD_BYTES)) is not None
