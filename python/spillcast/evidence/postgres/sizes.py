"""A plan without BUFFERS: bounds of its temp I/O, and what it does not show at all."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from spillcast.evidence.counts import Bounds, Counts, OpCounts
from spillcast.evidence.postgres import BLOCK_BYTES
from spillcast.evidence.postgres.document import HINT
from spillcast.evidence.postgres.node_bounds import WorkMem, fits, plan_bounds
from spillcast.evidence.postgres.nodes import Node, by_process
from spillcast.evidence.postgres.spills import WORK_MEM, inner_sorts, input_of, size_of_setting

#: The least work_mem that the server accepts.
_WORK_MEM_MIN_BYTES = 64 << 10
#: Nodes that store rows, in temp files if they are many; only PostgreSQL 18 prints how many.
_STORES = frozenset(("CTE Scan", "Function Scan", "Materialize", "Recursive Union", "WindowAgg"))


def bounded_by_sizes(counts: Counts, top: Node, settings: Mapping[str, str]) -> Counts:
    """The counts by sizes on disk between the fewest and the most blocks that fit the plan."""
    bounds = plan_bounds(top, work_mem_of(top, settings))
    least = _with_blocks(counts, bounds.reads_min, bounds.writes_min)
    reads = max(counts.reads.count, bounds.reads_min)
    writes = max(counts.writes.count, bounds.writes_min)
    counts = _with_blocks(counts, reads, writes)
    most = _with_blocks(counts, max(bounds.reads_max, reads), max(bounds.writes_max, writes))
    if least == most:
        return counts
    reason = "a plan without BUFFERS shows sizes on disk, not how often rows were written and read"
    if any(node.values.get("Hash Batches", 1) > 1 for node in top.walk()):
        reason += "; the width of rows in the files of a hash join is an estimate of the planner"
    return replace(counts, io_bounds=Bounds(least, most, reason, HINT))


def _with_blocks(counts: Counts, read: float, written: float) -> Counts:
    reads, writes = (
        OpCounts(count, count * BLOCK_BYTES, ops.total_ns if count else 0)
        for ops, count in ((counts.reads, round(read)), (counts.writes, round(written)))
    )
    return replace(counts, reads=reads, writes=writes)


def work_mem_of(top: Node, settings: Mapping[str, str]) -> WorkMem:
    """The work_mem of the run.

    A plan with SETTINGS shows each value that is not the default. Without, a sort in memory shows
    that it had at least as much.
    """
    if settings:
        size_bytes = size_of_setting(settings.get("work_mem", WORK_MEM))
        return WorkMem(size_bytes, size_bytes)
    sorted_kib = (
        values.get("Sort Space Used", 0)
        for node in top.walk()
        for values in by_process(node.values)
        if values.get("Sort Space Type") == "Memory"
    )
    return WorkMem(max(_WORK_MEM_MIN_BYTES, 1024 * int(max(sorted_kib, default=0))), inf)


def uncounted(top: Node) -> Sequence[str]:
    """Sentences about temp I/O that sizes on disk do not show, or only in the upper bound."""
    notes = []
    nodes = [node for node in top.walk() if node.values.get("Actual Loops", 1)]
    no_width = any("Plan Width" not in node.values for node in nodes)
    if no_width and any(node.values.get("Hash Batches", 1) > 1 for node in nodes):
        notes.append(
            "without costs, the width of rows is unknown: in files of hash joins only the headers "
            "of rows count"
        )
    if stores := {node.kind for node in nodes if _lacks_stored_size(node)}:
        kinds = ", ".join(sorted(stores))
        counted = "they do not count" if no_width else "only the upper bound counts them"
        notes.append(f"rows that {kinds} stored may be on disk without a size: {counted}")
    if any(_may_sort_unseen(node) for node in nodes):
        notes.append(
            "a call of an aggregate with DISTINCT or ORDER BY sorts its input, which only VERBOSE "
            "shows: it does not count"
        )
    return notes


def _lacks_stored_size(node: Node) -> bool:
    """Whether a node may have rows on disk whose size the plan does not show.

    An aggregate sorts its input once more for each further sort key of its grouping sets.
    """
    return (node.kind in _STORES and "Storage" not in node.values) or inner_sorts(node) > 0


def _may_sort_unseen(node: Node) -> bool:
    """Whether the calls of an aggregate are not shown, and may sort more than a little."""
    is_shown = "Output" in node.values or node.values.get("Partial Mode", "Simple") != "Simple"
    is_sorting = node.kind == "Aggregate" and node.values.get("Strategy") in {"Plain", "Sorted"}
    return is_sorting and not is_shown and not fits(input_of(node), _WORK_MEM_MIN_BYTES)
