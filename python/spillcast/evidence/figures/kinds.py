"""The sources of figures: how the text of each is known, and what reads it."""

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
#: A table says in its first lines what its columns are.
_HEADING_LENGTH = 4096


@dataclass(frozen=True)
class Reader:
    """A kind of text, its module, which has ``read(paths, choice)``, and its marks."""

    module: str
    known: Callable[[str], bool]
    #: Several such files may be parts of one report.
    joins: bool = False

    def read(self, paths: Sequence[Path], choice: "Choice") -> "Figures":
        """What the files say of the run that is chosen. InputError where they are damaged."""
        module = import_module(f"spillcast.evidence.{self.module}")
        figures: Figures = module.read(paths, choice)
        return figures


def _matching(pattern: str) -> Callable[[str], bool]:
    """Whether the beginning of a text holds what a pattern finds."""
    compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return lambda text: compiled.search(text) is not None


def _columns(*groups: str) -> Callable[[str], bool]:
    """Whether all names of one of these groups stand in the first lines."""
    wanted = [group.split() for group in groups]

    def known(text: str) -> bool:
        start = text[:_HEADING_LENGTH].lower()
        return any(all(name in start for name in group) for group in wanted)

    return known


def _tkprof(text: str) -> bool:
    """Whether it is a report of tkprof, or a fragment of one that quotes no trace beside it."""
    if re.search(r"TKPROF: Release|call\s+count\s+cpu\s+elapsed", text, re.IGNORECASE):
        return True
    fragment = re.search(r"\bEvent waited on\b|Row Source Operation", text, re.IGNORECASE)
    return fragment is not None and re.search(r"^WAIT #\d", text, re.MULTILINE) is None


def _stated(text: str) -> bool:
    if "elapsed_s" not in text or '"schema"' in text or '"Plan"' in text:
        return False
    return text.lstrip()[:1] == "{" or re.search(r"^elapsed_s\s*=", text, re.MULTILINE) is not None


def _profile(text: str) -> bool:
    """Whether it is a profile of DuckDB: of any version, in JSON or as a box."""
    if re.search(r"^\s*\{", text, re.MULTILINE) is None:
        return "Total Time:" in text and "\u2502" in text
    marks = ("cumulative_cardinality", "operator_timing", "peak_temp_dir_size", "extra-info")
    sizes = ("total_intermediate_size_bytes", "intermediate_size_bytes", "total_bytes_spilled")
    return any(f'"{mark}"' in text for mark in (*marks, *sizes))


#: Engines whose plans count only bytes: name, counters of spilled bytes, elapsed time.
FOREIGN = (
    ("CockroachDB", r"^[^\w\n]*+max sql temp disk usage: ([\d.]+ ?\w+)",
     r"execution time: ([\d.]+ ?(?:\w|µ)+)"),
    ("Snowflake", r"bytes spilled to (?:local|remote) (?:storage|disk)[^\w\n]{1,80}+([\d.]+ ?\w*)",
     r"(?:total elapsed|execution) time[^\w\n]{1,80}+([\d.]+ ?m?s)\b"),
    ("Trino", r"\bSpilled: ([\d.]+ ?\w+)", r"\bExecution(?: time)?: ([\d.]+ ?m?s)\b"),
    ("DataFusion", r"\bspilled_bytes=([\d.]+ ?[KMGT]?i?B?)\b", r"(?!)"),
)  # fmt: skip
READERS = (
    Reader("oracle.monitor_xml", _matching(r"<sql_monitor_report|FXTMODEL")),
    Reader(
        "oracle.monitor_text",
        _matching(
            r"SQL Monitoring Report|SQL Plan Monitoring Details|Global Information\W+Status\s*:"
        ),
    ),
    Reader("oracle.ash_shares", _matching(r"ASH Report For|%This\b.*\bEVENT\b|Top User Events")),
    Reader(
        "oracle.awr",
        _matching(
            r"WORKLOAD REPOSITORY|AWR Report for DB|STATSPACK report"
            r"|Top \d+ (?:Timed|Foreground|Wait)\b"
            r"|\bEvent\s+(?:%\w+\s+)?Waits\b[^\n]*\n\W*-{4,} [-\s]+\n"
        ),
    ),
    Reader("oracle.monitor_views", _columns("physical_read_requests sql_exec_id"), joins=True),
    Reader(
        "oracle.wait_views",
        _columns("event total_waits time_waited", "event wait_count wait_time_mi"),
    ),
    Reader("oracle.tkprof", _tkprof),
    Reader("oracle.xplan", _matching(r"\|\s*Id\s*\|\s*Operation\s*\|")),
    Reader("figures.duckdb_profile", _profile),
    Reader("figures.stated", _stated),
    Reader("figures.foreign", _matching("|".join(counter for _, counter, _ in FOREIGN))),
)


def is_word(text: str) -> bool:
    """Whether an argument is bare figures and no file."""
    return text.startswith(WORD)
