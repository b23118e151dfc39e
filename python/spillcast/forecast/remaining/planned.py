"""Temp bytes by a plan of PostgreSQL that was not run: what its nodes spill by their estimates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spillcast.evidence.postgres.nodes import amount
from spillcast.forecast.remaining.estimate import PLAN_SOURCE, Estimate
from spillcast.forecast.remaining.progress import Progress
from spillcast.forecast.work_memory import (
    SLOT_BYTES,
    aggregate_bytes,
    hash_batches,
    hash_tuple_bytes,
    sort_passes,
    tuple_bytes,
)
from spillcast.forecast.work_memory.spills import HASH_MEM_MULTIPLIER
from spillcast.units import format_bytes, parse_bytes

#: Standard deviation of the logarithm of the bytes: rows and widths are estimates, and each join
#: below multiplies them by another.
PLAN_SPREAD = 0.3
#: A session may have set its work memory to this share of what is seen from outside.
MAX_LESS = 64
#: Hash aggregates write partitions again that are too large still, an unknown number of times.
AGGREGATED = 0.5
#: Each partition of theirs takes blocks of the file ahead of need, and zeros are written to those
#: that others are written behind: a block is written twice, and read once.
AGGREGATE_WRITES = 2
#: A query that wrote this multiple of its plan's bytes is another one, or has other settings.
PLAN_MORE = 1.3
#: A row in a file beside its columns: of sorts and stores, and of hashes.
_SORT_ROW_BYTES, _HASH_ROW_BYTES = 10, 20
_WORK_MEM = "4MB"
JOINS = {"Hash Join", "Merge Join", "Nested Loop"}


@dataclass(frozen=True)
class PlannedBytes:
    """Temp bytes of a plan's nodes together, and what of them hash aggregates write."""

    written: float
    read: float
    aggregated: float
    #: Joins below the nodes that spill, the mean of all bytes written.
    joins: float


def estimate_from_plan(
    document: Mapping[str, Any],
    settings: Mapping[str, Any],
    progress: Progress,
    *,
    in_recording: bool = False,
) -> list[Estimate] | str:
    """Bytes of the entire query by a plan of EXPLAIN, or why it is not used.

    ``settings`` are those of the session where the plan names none; a plan that is kept
    ``in_recording`` is of the session's own text.
    """
    planned, less = planned_bytes(document, settings), 1
    seen = progress.bytes["write"]
    # It does spill: the session has set less work memory by itself, which nobody else sees.
    while in_recording and planned.written <= seen / PLAN_MORE and less < MAX_LESS:
        less *= 2
        planned = planned_bytes(document, settings, less)
    done = progress.done("write")
    if not planned.written:
        return "by its estimates nothing spills, whatever the work memory"
    if planned.written * PLAN_MORE < seen:
        return (
            f"by its estimates {format_bytes(planned.written)} are written in all, and "
            f"{format_bytes(seen)} were already"
        )
    # Where more was written than the plan has, its rows were too few by an unknown factor.
    written = max(planned.written, done * 1.02)
    sure = written > done * 1.02 and less == 1
    spread = PLAN_SPREAD * (1 + planned.joins) ** 0.5 * (1 if sure else 2)
    above = spread + AGGREGATED * planned.aggregated / planned.written
    read = written * planned.read / planned.written
    return [
        Estimate.around("written", written, spread, PLAN_SOURCE, above),
        Estimate.around("read", read, spread, PLAN_SOURCE, above),
    ]


def planned_bytes(
    document: Mapping[str, Any], settings: Mapping[str, Any], less: int = 1
) -> PlannedBytes:
    """Temp bytes by the estimates of a plan, with a share of 1 over ``less`` of the work memory."""
    given = {**settings, **(document.get("Settings") or {})}
    memory = parse_bytes(_setting_bytes(given.get("work_mem")), "work_mem") // less
    multiplier = float(given.get("hash_mem_multiplier") or HASH_MEM_MULTIPLIER)
    written = read = aggregated = joins = 0.0
    for node, processes in _nodes(document["Plan"], 1.0):
        of_node = _node_bytes(node, memory, multiplier) * processes
        aggregate = node.get("Node Type") == "Aggregate"
        wrote = of_node * (AGGREGATE_WRITES if aggregate else 1)
        read += of_node
        written += wrote
        aggregated += wrote if aggregate else 0.0
        joins += wrote * _joins_below(node)
    return PlannedBytes(written, read, aggregated, joins / written if written else 0.0)


def _setting_bytes(text: Any) -> str:
    """A setting as PostgreSQL writes it: a plain number is KiB."""
    setting = str(text or _WORK_MEM).strip()
    return f"{setting}kB" if setting.isdigit() else setting


def _nodes(
    plan: Mapping[str, Any], processes: float, above: str = ""
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Each node, and the number of processes: rows of a plan are those of one."""
    # A merge join goes back in sorted rows a little, and keeps no more of them.
    if (plan.get("Node Type"), above) != ("Materialize", "Merge Join"):
        yield plan, processes
    workers = plan.get("Workers Planned")
    below = processes if workers is None else 1.0 + amount(workers, "Workers Planned", 1024)
    for child in plan.get("Plans", ()):
        yield from _nodes(child, below, str(plan.get("Node Type")))


def _joins_below(node: Mapping[str, Any]) -> int:
    below = node.get("Plans", ())
    return sum(_joins_below(child) + (child.get("Node Type") in JOINS) for child in below)


def _rows(node: Mapping[str, Any]) -> tuple[float, float]:
    """Estimated rows and the bytes of one."""
    rows, width = (float(amount(node.get(name, 0), name)) for name in ("Plan Rows", "Plan Width"))
    return rows, width


def _node_bytes(node: Mapping[str, Any], memory: int, multiplier: float) -> float:
    """Bytes that a node spills, each of which it reads once."""
    kind, below = node.get("Node Type"), list(node.get("Plans", ()))
    if not below:
        return 0.0
    rows, width = _rows(below[0])
    if kind in {"Sort", "Incremental Sort"}:
        row = tuple_bytes(width + _SORT_ROW_BYTES, 0)
        return rows * (width + _SORT_ROW_BYTES) * sort_passes(rows, row, memory)
    if kind == "Hash Join" and len(below) > 1 and below[1].get("Node Type") == "Hash":
        inner_rows, inner_width = _rows(below[1])
        batches = hash_batches(
            inner_rows, hash_tuple_bytes(inner_width), round(memory * multiplier), balanced=False
        )
        size = inner_rows * (inner_width + _HASH_ROW_BYTES) + rows * (width + _HASH_ROW_BYTES)
        return size * (1 - 1 / batches)
    if kind == "Aggregate" and node.get("Strategy") in {"Hashed", "Mixed"}:
        groups, group_width = _rows(node)
        needed = aggregate_bytes(groups, group_width, width, older=True)
        in_memory = memory * multiplier / max(needed, 1)
        return rows * (width + _HASH_ROW_BYTES) * max(1 - in_memory, 0.0)
    if kind == "Materialize" and rows * (width + SLOT_BYTES) > memory:
        return rows * (width + _SORT_ROW_BYTES)
    return 0.0
