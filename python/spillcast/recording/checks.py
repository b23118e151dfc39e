"""Compares the parts of a PostgreSQL recording: pairs of figures that should agree."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillcast.gate import json_of, reading, text_of
from spillcast.units import format_bytes

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording

#: From this difference on it is worth a warning; above the other there is no forecast.
DIFFERENCE_REPORTED, DIFFERENCE_MAX = 0.02, 0.2
#: Blocks that a plan and a recording may differ by: the last of a file is counted by one of them.
BLOCKS_APART = 2
PLAN_FILE = "plan.json"


@dataclass(frozen=True)
class Check:
    """One quantity from the capture and from another source."""

    quantity: str
    recorded: int
    expected: int
    source: str
    #: Whether the source counts no more than a part, so that more may be recorded.
    at_least: bool = False
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
        """Both figures."""
        recorded, expected = (
            format_bytes(n) if self.is_bytes else f"{n:,}" for n in (self.recorded, self.expected)
        )
        least = "at least " if self.at_least else ""
        return f"{self.quantity}: {recorded} recorded, {least}{expected} {self.source}"


def checks_of(recording: "Recording") -> list[Check]:
    """All comparable pairs, agreeing or not. InputError for a damaged plan."""
    query = recording.meta.server_query
    whole = query is not None and query.ended_by == "query" and not query.before_recording_s
    if query is None or not whole or not recording.meta.captured:
        return []
    return [*_by_plan(recording), *_by_looks(recording), *_by_processes(recording)]


def contradictions_of(recording: "Recording") -> list[Check]:
    """The pairs that deserve a warning, the largest difference first."""
    checks = [check for check in checks_of(recording) if check.difference > DIFFERENCE_REPORTED]
    return sorted(checks, key=lambda check: -check.difference)


def _by_plan(recording: "Recording") -> Iterator[Check]:
    """Compares with the counts of EXPLAIN (ANALYZE, BUFFERS) in the same folder."""
    file = recording.path / PLAN_FILE
    if not file.exists():
        return
    with reading(file):
        document = json_of(text_of(file), file)
        root = (document[0] if isinstance(document, list) else document).get("Plan") or {}
    blocks = {"read": 0, "write": 0}
    for row in recording.temp_seconds.select(["op", "count", "bytes"]).to_pylist():
        # A read at the end of a file is no block.
        blocks[row["op"]] += row["count"] if row["bytes"] else 0
    for name, recorded in (("read", blocks["read"]), ("written", blocks["write"])):
        expected = root.get(f"Temp {name.title()} Blocks")
        if isinstance(expected, int) and expected >= 0:
            quantity = f"temp blocks {name}"
            yield Check(quantity, recorded, expected, f"in {file.name}", apart=BLOCKS_APART)


def _by_looks(recording: "Recording") -> Iterator[Check]:
    """Compares with the server's list of temp files during the query."""
    query = recording.meta.server_query
    held = [] if query is None else query.temp_files
    source = "in the server's list of temp files"
    if peak_bytes := sum(space.peak_bytes for space in held):
        written = recording.written_bytes.temp
        quantity = "bytes written to temp files"
        yield Check(quantity, written, peak_bytes, source, at_least=True, is_bytes=True)
    if (peak_files := sum(space.peak_files for space in held)) and _complete(recording):
        files = len(recording.temp_columns("file")["file"].unique().drop_null())
        yield Check("temp files", files, peak_files, source, at_least=True)


def _by_processes(recording: "Recording") -> Iterator[Check]:
    """Compares the attached processes with those that have rows."""
    query = recording.meta.server_query
    workers = set() if query is None else {worker.pid for worker in query.workers}
    if not workers or not _complete(recording):
        return
    with_rows = workers & set(recording.waits["session"].unique().to_pylist())
    yield Check("parallel workers with waits", len(with_rows), len(workers), "attached")


def _complete(recording: "Recording") -> bool:
    """Whether its waits are all there, and few enough to look at each."""
    return recording.sample is None and recording.meta.raw.whole
