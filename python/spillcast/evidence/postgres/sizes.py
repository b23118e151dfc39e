"""A plan without BUFFERS: bounds of temp I/O from sizes on disk, and what has no size."""

from collections.abc import Sequence
from dataclasses import replace

from spillcast.evidence.counts import Bounds, Counts
from spillcast.evidence.postgres.document import HINT
from spillcast.evidence.postgres.nodes import Node, sized
from spillcast.evidence.postgres.spills import inner_sorts, input_of
from spillcast.evidence.postgres.work_memory import PlanSpills

#: The assumed work_mem if no setting is known: a quarter of PostgreSQL's default.
_WORK_MEM_BYTES = 1 << 20
#: Nodes that store rows, in temp files if they are many; only PostgreSQL 18 prints how many.
_STORES = frozenset(("CTE Scan", "Function Scan", "Materialize", "Recursive Union", "WindowAgg"))
#: The least share of its size that a hash aggregate reads: its tapes reserve 8 blocks at least
#: (src/backend/utils/sort/logtape.c), and may use one of them.
_AGGREGATE_READ = 1 / 8
#: How often nodes other than sorts write: hash aggregates wrote 1.6 to 1.9 times the size of their
#: files in versions 13 to 17, parallel hash joins 1.25 times the size of their rows.
_OTHER_TIMES = 2


def bounded_by_sizes(counts: Counts, spills: PlanSpills | None, top: Node) -> Counts:
    """The counts by sizes on disk between two bounds: merges and batches rewrite data.

    A process whose size is missing wrote nothing, or up to twice the mean of the others.
    """
    work_mem_bytes = (spills and spills.current_bytes) or _WORK_MEM_BYTES
    passes = [spill.passes_with(work_mem_bytes) for spill in (spills.spills if spills else ())]
    times = max((count or _OTHER_TIMES for count in passes), default=_OTHER_TIMES)
    missing = _missing_share(top)
    unread = sum(map(_unread_blocks, top.walk())) / max(top.all_temp.read, 1)
    if times == 1 and not missing and not unread:
        return counts
    reason = "a plan without BUFFERS does not show how much of the sorted rows was read"
    if times > 1:
        reason = "a plan without BUFFERS does not show how often rows were written: "
        reason += f"1 to {times} times"
    if missing:
        reason = "the plan lacks the sizes of some processes' temp files"

    def scaled(reads: float, writes: float) -> Counts:
        return replace(
            counts,
            reads=counts.reads.scaled(1.0, reads),
            writes=counts.writes.scaled(1.0, writes),
        )

    fewest, most = 1 - missing, times * (1 + missing)
    least = scaled(fewest * (1 - unread), fewest)
    return replace(counts, io_bounds=Bounds(least, scaled(most, most), reason, HINT))


def _unread_blocks(node: Node) -> float:
    """The most blocks of a node's files that it did not read.

    The last merge of a sort reads only the rows that the node above fetches.
    """
    if "Disk Usage" in node.values:
        return (1 - _AGGREGATE_READ) * node.temp.read
    below = input_of(node)
    if node.kind != "Sort" or node.rows_in_all >= below.rows_in_all:
        return 0.0
    return (1 - node.rows_in_all / below.rows_in_all) * node.temp.read


def _missing_share(top: Node) -> float:
    """The share of temp blocks that count for processes whose sizes are missing in the plan."""
    missing = 0.0
    for node in top.walk():
        shown, ran = len(sized(node.values)), int(node.values.get("Actual Loops", 1))
        if 0 < shown < ran <= node.processes:
            missing += node.temp.written * (1 - shown / ran)
    return missing / top.all_temp.written


def uncounted(top: Node) -> Sequence[str]:
    """Sentences about temp I/O that sizes on disk do not show."""
    notes = []
    batched = any(
        node.values.get("Hash Batches", 1) > 1 and "Plan Width" not in node.values
        for node in top.walk()
    )
    if batched:
        notes.append(
            "without costs, the width of rows is unknown: files of hash joins do not count"
        )
    stores = {node.kind for node in top.walk() if _lacks_stored_size(node)}
    if stores:
        kinds = ", ".join(sorted(stores))
        notes.append(f"rows that {kinds} stored may be on disk without a size: they do not count")
    stored = {node.kind for node in top.walk() if node.values.get("Storage") == "Disk"}
    if "WindowAgg" in stored:
        notes.append("a WindowAgg may read rows on disk again for each row: this does not count")
    return notes


def _lacks_stored_size(node: Node) -> bool:
    """Whether a node may have rows on disk whose size the plan does not show.

    An aggregate sorts its input once more for each further sort key of its grouping sets.
    """
    return (node.kind in _STORES and "Storage" not in node.values) or inner_sorts(node) > 0
