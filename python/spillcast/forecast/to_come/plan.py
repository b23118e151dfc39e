"""What PostgreSQL's plan tells of the whole without running it: temp bytes of each node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spillcast.evidence.postgres.nodes import amount
from spillcast.forecast.to_come.said import QuantityEstimate, about
from spillcast.forecast.to_come.seen import Seen
from spillcast.forecast.work_memory.postgres import (
    SLOT_BYTES,
    aggregate_bytes,
    hash_batches,
    hash_tuple_bytes,
    sort_passes,
    tuple_bytes,
)
from spillcast.forecast.work_memory.spills import HASH_MEM_MULTIPLIER
from spillcast.units import format_bytes, parse_bytes

SOURCE = "the plan, which was not run"
#: Rows and widths are estimates: standard deviation of the logarithm of what they make. Each join
#: below multiplies them by another.
SPREAD = 0.3
#: A session may have set its work memory to so much less than is seen from outside.
LESS_MOST = 64
#: Hash aggregates write partitions again that are too large still, nobody knows how often.
AGGREGATED = 0.5
#: Each partition of theirs takes blocks of the file ahead of need, and zeros are written to those
#: that others are written behind: a block is written twice, and read once.
AGGREGATE_WRITES = 2
#: Seen so much more than the plan has in all, it is of another query or of other settings.
MORE = 1.3
#: A row in a file beside its columns: of sorts and stores, and of hashes.
_SORT_ROW_BYTES, _HASH_ROW_BYTES = 10, 20
_WORK_MEM = "4MB"
JOINS = {"Hash Join", "Merge Join", "Nested Loop"}


@dataclass(frozen=True)
class Spilled:
    """Temp bytes of a plan's nodes together, and what of them hash aggregates write."""

    written: float
    read: float
    aggregated: float = 0.0
    #: Joins below the nodes that spill, the mean of all bytes written.
    joins: float = 0.0


def estimates_by_plan(
    document: Mapping[str, Any],
    settings: Mapping[str, Any],
    seen: Seen,
    *,
    in_recording: bool = False,
) -> list[QuantityEstimate] | str:
    """What a plan of EXPLAIN says, or why it is not used.

    ``settings`` are those of the session where the plan names none; ``own`` is of a plan made of
    the session's own text.
    """
    spilled, less = spilled_by(document, settings), 1
    least = seen.bytes["write"] / MORE if in_recording else 0.0
    # It does spill: the session has set less work memory by itself, which nobody else sees.
    while spilled.written <= least and less < LESS_MOST:
        less *= 2
        spilled = spilled_by(document, settings, less)
    done = seen.done("write")
    if not spilled.written:
        return "by its estimates nothing spills, whatever the work memory"
    if spilled.written * MORE < seen.bytes["write"]:
        has, planned = format_bytes(seen.bytes["write"]), format_bytes(spilled.written)
        return f"by its estimates {planned} are written in all, and {has} were already"
    # Where more was written than the plan has, its rows were too few, nobody knows by how much.
    written = max(spilled.written, done * 1.02)
    sure = written > done * 1.02 and less == 1
    spread = SPREAD * (1 + spilled.joins) ** 0.5 * (1 if sure else 2)
    above = spread + AGGREGATED * spilled.aggregated / spilled.written
    return [
        about("written", written, spread, "plan", SOURCE, above),
        about("read", written * spilled.read / spilled.written, spread, "plan", SOURCE, above),
    ]


def spilled_by(document: Mapping[str, Any], settings: Mapping[str, Any], less: int = 1) -> Spilled:
    """Temp bytes by the estimates of a plan, with work memory as its settings say, or ``less``."""
    given = {**settings, **(document.get("Settings") or {})}
    memory = parse_bytes(_as_bytes(given.get("work_mem")), "work_mem") // less
    multiplier = float(given.get("hash_mem_multiplier") or HASH_MEM_MULTIPLIER)
    written = read = aggregated = joins = 0.0
    for node, processes in _nodes(document["Plan"], 1.0):
        of_node = _node(node, memory, multiplier) * processes
        aggregate = node.get("Node Type") == "Aggregate"
        read += of_node
        wrote = of_node * (AGGREGATE_WRITES if aggregate else 1)
        written += wrote
        aggregated += wrote if aggregate else 0.0
        joins += wrote * _joins_below(node)
    return Spilled(written, read, aggregated, joins / written if written else 0.0)


def _as_bytes(text: Any) -> str:
    """A setting as PostgreSQL writes it: a plain number is KiB."""
    setting = str(text or _WORK_MEM).strip()
    return f"{setting}kB" if setting.isdigit() else setting


def _nodes(
    plan: Mapping[str, Any], processes: float, above: str = ""
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Each node, and how many processes do so much each: rows of a plan are those of one."""
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
    return tuple(float(amount(node.get(name, 0), name)) for name in ("Plan Rows", "Plan Width"))  # type: ignore[return-value]


def _node(node: Mapping[str, Any], memory: int, multiplier: float) -> float:
    """Bytes that a node spills, each of which it reads once."""
    kind, below = node.get("Node Type"), list(node.get("Plans", ()))
    if not below:
        return 0.0
    if kind in {"Sort", "Incremental Sort"}:
        rows, width = _rows(below[0])
        row = tuple_bytes(width + _SORT_ROW_BYTES, 0)
        return rows * (width + _SORT_ROW_BYTES) * sort_passes(rows, row, memory)
    if kind == "Hash Join" and len(below) > 1 and below[1].get("Node Type") == "Hash":
        inner_rows, inner_width = _rows(below[1])
        outer_rows, outer_width = _rows(below[0])
        batches = hash_batches(
            inner_rows, hash_tuple_bytes(inner_width), round(memory * multiplier), balanced=False
        )
        size = inner_rows * (inner_width + _HASH_ROW_BYTES)
        size += outer_rows * (outer_width + _HASH_ROW_BYTES)
        return size * (1 - 1 / batches)
    if kind == "Aggregate" and node.get("Strategy") in {"Hashed", "Mixed"}:
        rows, width = _rows(below[0])
        groups, group_width = _rows(node)
        needed = aggregate_bytes(groups, group_width, width, older=True)
        kept = memory * multiplier / max(needed, 1)
        return rows * (width + _HASH_ROW_BYTES) * max(1 - kept, 0.0)
    if kind == "Materialize":
        rows, width = _rows(below[0])
        size = rows * (width + _SORT_ROW_BYTES)
        return size if rows * (width + SLOT_BYTES) > memory else 0.0
    return 0.0
