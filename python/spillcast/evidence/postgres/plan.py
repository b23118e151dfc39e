"""A plan of EXPLAIN (ANALYZE, BUFFERS) -> a recording."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.errors import InputError, Refusal
from spillcast.evidence.postgres.counted import Counted, recording_of
from spillcast.evidence.postgres.document import HOW, read_documents
from spillcast.evidence.postgres.nodes import BLOCK_BYTES, Node, TempIO, amount, nodes_of
from spillcast.gate import reading
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.postgres_meta import Statement
from spillcast.recording.recording import Recording
from spillcast.redaction import struck_text

#: 30 years: no query took as long, and nobody could follow it step by step.
LONGEST_MS = 1e12
#: What takes the times that are not in a plan.
TIMED = (
    "set track_io_timing = on and make it again: PostgreSQL 15 or newer times temp I/O; "
    "or name the storage with --from"
)


def read_plan(path: str | Path, *, elapsed_s: float | None = None, timed: bool = True) -> Recording:
    """The recording of a plan in a file; of several in a log, that with the most temp I/O.

    ``elapsed_s`` is the time of the query where it is known without the overhead of EXPLAIN.
    InputError for a file that is not a plan, is cut, lacks buffers or does not spill; Refusal, if
    ``timed``, where I/O was not timed.
    """
    path = Path(path)
    documents = read_documents(path)
    with reading(path, HOW):
        most = max(documents, key=lambda document: blocks_of(document["Plan"]))
        spilling = sum(blocks_of(document["Plan"]) > 0 for document in documents)
    recording = recording_of_plan(most, path=path, elapsed_s=elapsed_s, timed=timed)
    recording.meta = replace(recording.meta, statement=_statement(most, spilling))
    return recording


def recording_of_plan(
    document: Mapping[str, Any] | list[Mapping[str, Any]],
    *,
    path: Path = Path("plan"),
    elapsed_s: float | None = None,
    timed: bool = True,
) -> Recording:
    """The recording of a plan as ``EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)`` returns it.

    Errors are those of ``read_plan``.
    """
    if isinstance(document, list):
        document = document[0]
    with reading(path, HOW):
        _need_blocks(path, document["Plan"])
        plan_s = elapsed_of(path, document)
        top = nodes_of(document["Plan"])
    temp = top.all_temp
    if not temp.blocks:
        raise InputError(f"{path}: this query does not spill: its plan has no temp blocks")
    # Left out of a text, a time of 0 and one that was not taken look alike.
    if temp.total_s == 0:
        temp = TempIO(temp.read, temp.written, None, None)
        if timed:
            raise Refusal(f"{path}: temp I/O was not timed: {TIMED}")
    with reading(path, HOW):
        counted = Counted(
            path,
            plan_s if elapsed_s is None else elapsed_s,
            temp,
            _processes(top),
            _held_bytes(top),
            _files(top),
            ObservedEngine(
                "postgresql", document=document, settings=dict(document.get("Settings", {}))
            ),
        )
    return recording_of(counted)


def _statement(document: Mapping[str, Any], spilling: int) -> Statement | None:
    """Whose plan it is, out of so many that spill; None where neither is known."""
    query, queryid = document.get("Query Text"), document.get("Query Identifier")
    if query is None and spilling < 2:
        return None
    return Statement(
        None if queryid is None else str(queryid),
        None if query is None else struck_text(str(query)),
        1,
        spilling,
    )


def elapsed_of(path: Path, document: Mapping[str, Any]) -> float:
    """How long the query ran (s). InputError where the plan lacks what ANALYZE gives."""
    plan = document["Plan"]
    if "Actual Loops" not in plan:
        raise InputError(f"{path}: a plan without ANALYZE: it was not run", HOW)
    elapsed_ms = document.get("Execution Time", plan.get("Actual Total Time"))
    if elapsed_ms is None:
        raise InputError(f"{path}: it has no Execution Time: made with SUMMARY OFF", HOW)
    return amount(elapsed_ms, "the time of the query", LONGEST_MS) / 1e3


def blocks_of(plan: Mapping[str, Any]) -> int:
    """Temp blocks that a plan read and wrote; 0 where it counts none."""
    names = "Temp Read Blocks", "Temp Written Blocks"
    return sum(int(amount(plan.get(name, 0), name)) for name in names)


def _need_blocks(path: Path, plan: Mapping[str, Any]) -> None:
    if "Actual Loops" in plan and "Temp Written Blocks" not in plan:
        raise InputError(f"{path}: a plan without BUFFERS: it has no temp blocks", HOW)


def _processes(top: Node) -> float:
    """Over how many processes the temp I/O was spread, weighted by what each node did."""
    timed = top.all_temp.total_s > 0
    weight = [(node, node.temp.total_s if timed else node.temp.blocks) for node in top.walk()]
    apart = sum(each / node.spread for node, each in weight)
    return round(sum(each for _, each in weight) / apart, 6) if apart else 1.0


def _held_bytes(top: Node) -> int | None:
    """What the temp files held: of each node that spills, what it wrote, but sorts only once."""
    held = 0
    for node in top.walk():
        written = node.temp.written * BLOCK_BYTES
        processes = [node.values, *node.values.get("Workers", ())]
        disk = [
            1024 * int(amount(each.get("Sort Space Used", 0), "Sort Space Used"))
            for each in processes
            if each.get("Sort Space Type") == "Disk"
        ]
        held += min(sum(disk), written) if disk else written
    return held or None


def _files(top: Node) -> int:
    """Files written by turns by the node that writes most: batches of a hash, or one."""
    most = max(top.walk(), key=lambda node: node.temp.written)
    batches = (node.values.get("Hash Batches", 1) for node in (most, *most.children))
    return max(1, int(max(batches)) - 1)
