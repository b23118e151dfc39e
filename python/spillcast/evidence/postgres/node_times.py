"""The elapsed time of a plan's nodes, and how many processes shared its temp I/O."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from spillcast.evidence.counts import Bounds
from spillcast.evidence.numbers import amount
from spillcast.evidence.postgres.nodes import (
    GATHERS,
    NEVER_SPILLS,
    TEMP_MAX,
    Node,
    processes_below,
)

#: Nodes whose inputs run within them or in workers. Inputs of the nodes of forks and extensions may
#: run on other servers or segments at the same time.
_LOCAL = (NEVER_SPILLS - {"Foreign Scan"}).union((
    "Aggregate", "CTE Scan", "Delete", "Function Scan", "Hash", "Hash Join", "Incremental Sort",
    "Insert", "LockRows", "Materialize", "ModifyTable", "ProjectSet", "Recursive Union", "SetOp",
    "Sort", "Update", "WindowAgg",
))  # fmt: skip


def sharing_processes(top: Node, *, evenly: bool = False) -> Bounds[float]:
    """Bounds of the number of processes over which temp I/O was spread, weighted by node.

    With ``evenly`` all processes of a node share its I/O equally. That is an upper bound for times:
    a process with few blocks may have waited as long as one with many.
    """
    is_timed = top.all_temp.total_s > 0

    def weight(node: Node) -> float:
        return node.temp.total_s if is_timed else float(node.temp.blocks)

    def elapsed(node: Node) -> float:
        return weight(node) * (node.spread / node.processes if evenly else 1.0)

    total = sum(weight(node) for node in top.walk())
    least, most = (round(total / share, 6) for share in reversed(_elapsed_share(top, elapsed)))
    parallel = "parts of a Parallel Append may run side by side"
    return Bounds(least, most, "as its nodes spread it" if least == most else parallel)


def data_read_s(top: Node, elapsed_s: float) -> float:
    """Elapsed time (s) of reads of tables: the sum of each node divided by its processes."""

    def self_s(node: Node) -> float:
        return max(0.0, _shared_read_s(node.values) - sum(
            _shared_read_s(child.values) for child in node.children))  # fmt: skip

    return min(_elapsed_share(top, self_s)[1], elapsed_s)


def _shared_read_s(values: Mapping[str, Any]) -> float:
    """Time (s) of reads of tables and indexes, up to version 16 including temp tables."""
    ms = values.get("Shared I/O Read Time", values.get("I/O Read Time", 0.0))
    return amount(ms, "I/O Read Time", TEMP_MAX) / 1e3


def _elapsed_share(top: Node, weights: Callable[[Node], float]) -> tuple[float, float]:
    """Bounds of the elapsed time of the nodes' work; ``weights`` are sums over all processes.

    The work of a node takes its weight divided by its ``spread``. Parts of a Parallel Append run
    in parallel, limited by the number of processes, or one after the other.
    """
    top_share = weights(top) / top.spread
    parts = [_elapsed_share(child, weights) for child in top.children]
    upper = top_share + sum(part for _, part in parts)
    if top.kind != "Append" or not top.values.get("Parallel Aware") or top.processes < 2:
        return top_share + sum(part for part, _ in parts), upper
    total = sum(weights(node) for child in top.children for node in child.walk())
    lower = max(max((part for part, _ in parts), default=0.0), total / top.processes)
    return top_share + min(lower, upper - top_share), upper


def least_outside_s(top: Node, elapsed_s: float, sharing: float) -> float:
    """The least time (s) that a process with temp I/O spent in nodes without temp I/O.

    ``elapsed_s`` is the time of the run in which the nodes were timed; ``sharing`` is the number of
    processes over which the temp I/O was spread. 0 if times of nodes exceed the run or their parent
    node.
    """
    spilling = [node for node in top.walk() if node.all_temp.blocks]
    # Workers of several Gathers may run at the same time.
    workers = sum(processes_below(node.values, 1) - 1 for node in spilling)
    processes = max([1 + workers, *(node.processes for node in spilling)])
    subplans_spill = any("Subplan Name" in node.values for node in spilling)
    outside_s = _outside_s(top, subplans_spill=subplans_spill)
    if outside_s > processes * elapsed_s:
        return 0.0
    # Processes without temp I/O may have spent all their time in such nodes.
    return max(0.0, outside_s - (processes - sharing) * elapsed_s) / sharing


def _outside_s(node: Node, *, subplans_spill: bool) -> float:
    """Time (s) of subtrees and of single nodes without temp I/O, summed over the processes.

    The time of a node includes that of the subplans that it executes; only buffers show whether it
    includes their temp I/O. Infinite if a node ends before one of its children, or if nodes with
    temp I/O are missing.
    """
    if not node.all_temp.blocks and _shows_no_temp(node, subplans_spill=subplans_spill):
        return _time_s(node, -1)
    if node.kind not in _LOCAL:
        return 0.0
    if not _holds_inputs(node) or node.is_abridged:
        return inf
    alone_s = 0.0
    # A scan of a common table expression may include the time of nodes that are not its children.
    is_alone = node.processes == 1 and node.kind not in (*GATHERS, "CTE Scan")
    is_idle = _has_buffers(node) or (node.kind in NEVER_SPILLS and not subplans_spill)
    if is_alone and is_idle and not node.temp.blocks:
        alone_s = max(0.0, _time_s(node, -1) - sum(_time_s(child, 1) for child in node.children))
    return alone_s + sum(
        _outside_s(child, subplans_spill=subplans_spill)
        for child in node.children
        if "Subplan Name" not in child.values or (child.all_temp.blocks > 0 and _has_buffers(child))
    )


def _shows_no_temp(node: Node, *, subplans_spill: bool) -> bool:
    """Whether a node without counted temp I/O, and all below it, did no temp I/O."""
    if _has_buffers(node) and not subplans_spill:
        return True
    kinds = {inner.kind for inner in node.walk()}
    if subplans_spill:
        # A scan of a common table expression may execute only a part of it that has no temp I/O.
        return _has_buffers(node) and "CTE Scan" not in kinds
    return kinds <= NEVER_SPILLS


def _holds_inputs(node: Node) -> bool:
    """Whether the children of a node ran within it, or in the processes of a Gather.

    Otherwise lines are missing, or their parent is wrong.
    """
    if node.kind in GATHERS:
        runs = node.loops * processes_below(node.values, 1)
        return all(child.loops <= runs for child in node.inputs)
    return sum(_time_s(child, -1) for child in node.inputs) <= _time_s(node, +1)


def _time_s(node: Node, sign: int) -> float:
    """The time (s) of all executions: a lower bound for a ``sign`` of -1, an upper one for +1."""
    once_ms: float = node.values.get("Actual Total Time", 0.0)
    # PostgreSQL prints three decimals; people and tools may round further.
    decimals = len(f"{once_ms:.3f}".rstrip("0").partition(".")[2])
    return max(0.0, once_ms + sign * 0.5 * 0.1**decimals) * node.loops / 1e3


def _has_buffers(node: Node) -> bool:
    """Whether the temp I/O of a node was counted, not left out or derived from sizes on disk."""
    return any(name.startswith("Shared ") for name in node.values)
