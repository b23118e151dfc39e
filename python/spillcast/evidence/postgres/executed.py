"""What a run took by its plan, or by the counts of its statement, whether it spilled or not."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast.errors import Refusal, SelectionEmpty
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.document import HOW, read_documents, read_log
from spillcast.evidence.postgres.logs import counts_of_files
from spillcast.evidence.postgres.nodes import BLOCK_BYTES, SIZES_NOTE
from spillcast.evidence.postgres.plan import blocks_of, counts_of_plan, elapsed_of, picked
from spillcast.evidence.postgres.statement_rows import Row, read_rows
from spillcast.evidence.postgres.statements import counts_of_row, named
from spillcast.gate import reading


@dataclass(frozen=True)
class Executed:
    """One call: how long it took, and its temp operations of a block each where they are known.

    ``counts`` are None where it did no temp I/O, or nothing tells how long that took.
    """

    elapsed_s: float
    operations: int | None
    counts: Counts | None = None

    @property
    def bytes(self) -> int | None:
        """What the operations moved."""
        return None if self.operations is None else self.operations * BLOCK_BYTES


def executed_plan(
    path: Path,
    *,
    queryid: str | None = None,
    elapsed_s: float | None = None,
    item: int | None = None,
) -> Executed:
    """The run of a plan: of several in a log, of the statement ``queryid``, with most temp I/O.

    Of several, ``item`` is the number of the one. A log without plans tells only how long a call
    with temp files took.

    InputError for a file that is not a plan, and for a plan that was not run.
    """
    logs = read_log(path)
    if logs is not None and not logs.plans:
        named_files = [file for file in logs.temp if file.queryid and file.queryid == queryid]
        logs = replace(logs, temp=named_files or logs.temp)
        call = counts_of_files(path, logs, elapsed_s=elapsed_s, item=item)
        return Executed(call.elapsed_s, None)
    documents = read_documents(path) if logs is None else logs.plans
    with reading(path, HOW):
        matching = [
            candidate
            for candidate in documents
            if queryid is not None and str(candidate.get("Query Identifier")) == queryid
        ]
        if item is not None:
            matching = [picked(path, documents, item)]
        document = max(
            matching or documents,
            key=lambda candidate: (blocks_of(candidate["Plan"]), elapsed_of(path, candidate)),
        )
        call_s = elapsed_s or elapsed_of(path, document)
        blocks = blocks_of(document["Plan"])
    # Sizes on disk bound the temp I/O from below: another run cannot be compared with them.
    is_counted = "Temp Written Blocks" in document["Plan"]
    if not is_counted or SIZES_NOTE in document.get("Notes", ()):
        return Executed(call_s, None)
    return _executed(
        call_s, blocks, lambda: counts_of_plan(document, path=path, elapsed_s=elapsed_s)
    )


def executed_statement(
    path: Path, *, queryid: str | None = None, elapsed_s: float | None = None
) -> Executed:
    """The mean call of a statement in an export of pg_stat_statements. InputError for none."""
    rows = read_rows(path)
    row = named(path, rows, queryid)
    if not row.calls:
        raise SelectionEmpty(f"{path}: queryid {row.queryid} was never called")
    return executed_row(row, path, elapsed_s)


def executed_row(row: Row, path: Path, elapsed_s: float | None = None) -> Executed:
    """The mean call of a row, which has some."""
    call_s = elapsed_s or row.elapsed_s / row.calls
    blocks = round(row.blocks / row.calls)
    return _executed(call_s, blocks, lambda: counts_of_row(path, row, elapsed_s=elapsed_s))


def _executed(elapsed_s: float, blocks: int, read: Callable[[], Counts]) -> Executed:
    """With the counts that are read, unless the time of temp I/O has only bounds."""
    counts = None
    with suppress(Refusal):
        counts = read() if blocks else None
    return Executed(elapsed_s, blocks, None if counts is None or counts.time_bounds else counts)
