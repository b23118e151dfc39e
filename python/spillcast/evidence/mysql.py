"""Counts temp I/O of MariaDB and MySQL, with bounds, from merge passes in executed plans."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceAmbiguous, EvidenceIncomplete, EvidenceUnsuited, NoTempIo
from spillcast.evidence.counts import PROFILE, Counts, counts_of_figures, times_up_to
from spillcast.evidence.numbers import amount, quantity_of
from spillcast.evidence.selection import Selection
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import JSON_LENGTH_MAX, damaged, json_values, reading
from spillcast.recording import OPS
from spillcast.recording.meta import ObservedEngine
from spillcast.units import format_bytes, parse_bytes

HINT = "make it with: ANALYZE FORMAT=JSON SELECT ..."
_RECORD = "record the query: spillcast record --mysql DSN --query PATTERN"
_INSTEAD = f"{_RECORD}; or, with MariaDB, {HINT}"
#: The number of runs that sql/filesort.cc merges at once, and its maximum in the last pass.
MERGED, MERGED_LAST = 7, 15
RUNS_MAX = 1 << 16
#: The most buffers that RUNS_MAX runs or fewer write for each merge; a single merge writes 30.
BUFFERS_OF_A_MERGE_MAX = 43
#: A write is this buffer of a file; a read fills a share of the sort's buffer, at most one of two.
CACHE_BYTES = 64 << 10
#: Rows in the buffer have a pointer that is not written and is at most as large as the row.
WRITTEN_MIN = 0.5
#: Neither sorts of a UNION's result nor temp files of distinct values are in a plan.
_UNSHOWN = "a plan shows neither the sort of a UNION's result nor what count(distinct ...) writes"
#: For each row of a temporary table on disk, at most a page of it and one of its index are moved;
#: so many pages also hold the runs of the sort of a UNION's result.
PAGES_MAX, PAGE_BYTES = 2, 8192
#: The minimum time to write a page and read it again: that of memory.
PAGE_S = 1e-6


@dataclass(frozen=True)
class Sort:
    """A filesort that merged runs from disk."""

    loops: int
    #: The mean of the loops, rounded: 0 if few of them merged.
    passes: int
    buffer_bytes: int
    #: Whether it ends at a LIMIT, as do its merges.
    limited: bool
    #: Of all loops, without the time to read the rows.
    elapsed_s: float

    @property
    def runs(self) -> tuple[int, int]:
        """The smallest and the largest number of runs that need this number of merges."""
        fewer, most = (_runs_merged_by(self.passes, by) for by in (bisect_left, bisect_right))
        return (fewer + 1, most) if fewer < most else (2, RUNS_MAX)

    def moved(self, *, upper: bool) -> tuple[float, float]:
        """The least or the most operations and bytes that it wrote; it read the same amount."""
        buffers = self._most_buffers() if upper else WRITTEN_MIN * self._least_buffers()
        total_bytes = max(buffers * self.buffer_bytes, 1)
        if upper:
            return total_bytes / min(CACHE_BYTES, self.buffer_bytes / MERGED_LAST), total_bytes
        return total_bytes / max(CACHE_BYTES, self.buffer_bytes / 2), total_bytes

    def _most_buffers(self) -> float:
        """The most buffers that it wrote; of several loops, one may have done all merges."""
        if self.loops > 1:
            return BUFFERS_OF_A_MERGE_MAX * (self.passes + 0.5) * self.loops
        highest = self.runs[1]
        return highest * (2 + merges(highest)[1])

    def _least_buffers(self) -> float:
        """The fewest full buffers that it wrote; of several loops, each may have merged once."""
        lowest = self.runs[0]
        # The last merge may write as little as a pointer to each row.
        least = (lowest - 1) * (1 + merges(lowest)[1])
        if self.loops > 1:
            least = max(1, ceil((self.passes - 0.5) * self.loops))
        # With a LIMIT, merges read little more than the beginning of each run.
        return min(least, lowest - 1) / MERGED_LAST if self.limited else least

    @property
    def fix(self) -> str:
        """A sentence with a sort_buffer_size that needs no merge."""
        merged, most = f"{self.passes:,} times", self.runs[1]
        if self.loops > 1:
            merged = f"in some of {self.loops:,} loops"
            # One loop may have done all merges.
            most = _runs_merged_by(int((self.passes + 0.5) * self.loops), bisect_right)
        enough_mib = (most + 1) * self.buffer_bytes // (1 << 20) + 1
        return (
            f"a sort merged runs {merged} with {format_bytes(self.buffer_bytes)}: it "
            f"stays in memory with sort_buffer_size = {enough_mib}M or less"
        )


def _runs_merged_by(passes: int, bisect: Callable[..., int]) -> int:
    """The most runs that ``passes`` merges suffice for; with ``bisect_left``, fewer merges."""
    return 1 + bisect(range(2, RUNS_MAX), passes, key=lambda runs: merges(runs)[0])


def merges(runs: int) -> tuple[int, int]:
    """How many merges a number of runs needs, and how many times all rows are written again."""
    last, count, levels = runs - 1, 0, 0
    while last >= MERGED_LAST:
        groups = max(0, (last - MERGED * 3 // 2) // MERGED + 1) + 1
        count, levels, last = count + groups, levels + 1, groups - 1
    return count + 1, levels


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of a plan, between the least and the most temp I/O of its sorts.

    InputError if it is damaged, was not executed, or shows no spill.
    """
    block = _query_block(unwrapped(text_of(path, bytes_max=JSON_LENGTH_MAX)))
    nodes = list(_nodes(block))
    sorts = [_sort(node) for name, node in nodes if name == "filesort"]
    spilled = [sort for sort in sorts if sort is not None]
    tables = sum(name in {"temporary_table", "materialized", "union_result"} for name, _ in nodes)
    notes = [sort.fix for sort in spilled] + [_UNSHOWN]
    if tables:
        notes.append(
            f"temporary tables: {tables}; a plan does not show whether they were larger than "
            "tmp_table_size and max_heap_table_size, and so on disk"
        )
    if not spilled:
        raise NoTempIo("this plan shows no sort that spilled", "; ".join([*notes, _RECORD]))
    if selection.elapsed_s is None and "r_total_time_ms" not in block:
        raise EvidenceIncomplete(
            "the plan has no time of the whole query, which MariaDB omits for a UNION",
            "give it with --elapsed, such as --elapsed 812ms",
        )
    elapsed_s = selection.elapsed_s or _number(block, "r_total_time_ms") / 1e3
    lower, upper = (
        [sum(part) for part in zip(*(sort.moved(upper=upper) for sort in spilled), strict=True)]
        for upper in (False, True)
    )
    within_s, writers = sum(sort.elapsed_s for sort in spilled), "sorts"
    if tables:
        writers = "sorts and temporary tables"
        tables_s, pages = _temporary(block, elapsed_s)
        within_s += tables_s
        pages = min(pages, tables_s / PAGE_S)
        upper = [upper[0] + pages, upper[1] + pages * PAGE_BYTES]
    times = times_up_to(
        min(within_s, elapsed_s), 1, 1, "a plan times a sort with its temp I/O", _RECORD
    )
    words = (
        f"a plan contains merge passes, not reads and writes: {writers} wrote "
        f"{format_bytes(lower[1])} to {format_bytes(upper[1])} and read as much"
    )
    return counts_of_figures(
        selection,
        times.bounded(dict.fromkeys(OPS, lower), dict.fromkeys(OPS, upper), words, _RECORD),
        elapsed_s=elapsed_s,
        source=PROFILE,
        engine=ObservedEngine("mariadb"),
        buffered=True,
        notes=notes,
    )


def _query_block(text: str) -> Mapping[str, Any]:
    """The only plan of a text. InputError if it is damaged or was not executed to its end."""
    if '"query_block"' not in text and r"\"query_block" not in text:
        raise EvidenceUnsuited(
            "no plan of MySQL, and no table or tree of MariaDB, shows whether a sort or a "
            "temporary table went to disk",
            _INSTEAD,
        )
    plain = re.sub(r"\\n", "\n", text) if text.count("\n") < 3 else text
    documents = [d for d in json_values(plain, repeats=True) if isinstance(d, dict)]
    blocks = [d["query_block"] for d in documents if isinstance(d.get("query_block"), dict)]
    if not blocks:
        raise damaged("no line begins its JSON: the first is missing or begins with other text")
    # The outer block of a UNION has no time, those of its parts do.
    run: list[dict[str, Any]] = [
        block
        for block in blocks
        if any("r_total_time_ms" in node for _, node in _nodes({"query_block": block}))
    ]
    if len(run) > 1:
        raise EvidenceAmbiguous(f"{len(run)} plans", "give one, in a file of its own")
    if not run:
        raise EvidenceIncomplete("the plan was not run to its end: it counts no I/O", _INSTEAD)
    return run[0]


def _temporary(block: Mapping[str, Any], elapsed_s: float) -> tuple[float, float]:
    """Upper bounds of the time (s) of temporary tables, and of the pages they wrote if on disk."""
    rows = sum(
        _number(node, "r_rows") * max(1, _number(node, "r_loops"))
        for name, node in _nodes(block)
        if name in {"table", "union_result"}
    )
    outer_ms = 0.0
    for name, node in _nodes(block, without="materialized"):
        made = node.get("materialized", {})
        inner = made.get("query_block") if isinstance(made, dict) else None
        timed = isinstance(inner, dict) and "r_total_time_ms" in inner
        if name in {"temporary_table", "union_result"} or (made and not timed):
            return elapsed_s, PAGES_MAX * rows
        if isinstance(inner, dict):
            outer_ms += _number(inner, "r_total_time_ms")
            outer_ms += _number(node, "r_table_time_ms")
    return outer_ms / 1e3, PAGES_MAX * rows


def _nodes(
    part: Any, without: str | None = None, name: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All objects below a part, each with its name, except those named ``without``.

    Tables of a join, and sorts, may have the same name within an object, and then form a list.
    """
    values = part.items() if isinstance(part, dict) else ((name, value) for value in part)
    for name, value in values:
        if name == without:
            continue
        if isinstance(value, dict):
            yield name, value
        if isinstance(value, dict | list):
            yield from _nodes(value, without, name)


def _sort(node: Mapping[str, Any]) -> Sort | None:
    """A sort that merged runs; None for a sort that fitted its buffer."""
    passes, loops = (round(_number(node, name)) for name in ("r_sort_passes", "r_loops"))
    loops = max(1, loops)
    if "r_sort_passes" not in node or (loops == 1 and not passes):
        return None
    buffer = node.get("r_buffer_size")
    if not isinstance(buffer, str) or not buffer[:1].isdigit():
        raise EvidenceIncomplete(f"r_buffer_size is {buffer!r}, not one size", _RECORD)
    buffer_bytes = int(quantity_of(parse_bytes, buffer, "r_buffer_size"))
    # The time of a sort includes that of the tables that it reads.
    rows_ms = sum(
        _number(below, "r_table_time_ms") for name, below in _nodes(node) if name == "table"
    )
    total_ms = _number(node, "r_total_time_ms")
    spent_ms = total_ms - rows_ms if rows_ms < total_ms else total_ms
    return Sort(loops, passes, buffer_bytes, "r_limit" in node, spent_ms / 1e3)


def _number(node: Mapping[str, Any], name: str) -> float:
    """A figure of a node, 0 if missing."""
    return amount(node.get(name, 0), name)
