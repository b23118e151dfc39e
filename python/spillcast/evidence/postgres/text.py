"""Converts EXPLAIN's text plans to FORMAT JSON documents; each line must be understood.

A line begins a node, is a detail of a known kind, continues the line above, or is outside the
plans. docs/reports.md lists the kinds of lines.
"""

import re
from collections.abc import Mapping
from typing import Any

from spillcast.evidence.postgres import TEMP_BLOCKS
from spillcast.evidence.postgres.node_lines import (
    FIGURES,
    OF_NODE,
    SKIPPED,
    WORKER,
    bare_node_of,
    detail_of,
    is_open,
    milliseconds,
    node_of,
    not_understood,
)
from spillcast.evidence.postgres.nodes import all_nodes
from spillcast.evidence.postgres.written_lines import (
    BEGINS,
    LINES_LEFT_OUT,
    SUMMARY,
    as_written,
    is_read,
)

_HEADING = re.compile(r"\s*(?P<name>(?:InitPlan|SubPlan|CTE) (?:expr_)?\S+(?: \(.*\))?)\s*")
#: A line that is quoted in the text around a plan.
_QUOTATION = re.compile(r"(`|\*\*|\")([^`*\"]+)\1")
_IDENTIFIER = re.compile(r"Query Identifier: (-?\d+)")
_SETTING = re.compile(r"(?<![\w.])([\w.]+) = '((?:[^']|'')*)'")
#: Signs of spills on other hosts, in lines of their own, if a server distributes its work.
ELSEWHERE = re.compile(
    r"Workfile: \([1-9]\d* spilling|Work_mem wanted: |K bytes wanted|Wrote \d+K .*workfile"
    r"|\b[1-9]\d*+ (?:overflows|spill \w+)|Workfile[ -]Spilling\W{1,4}[1-9]"
)
#: What clients print between a plan and its time.
_IS_BETWEEN = re.compile(r"EXPLAIN|[\W_]+|\([^()]*\)")
#: Nodes of Citus whose children are the plan of another statement: a task, a distributed subplan.
CITUS_STATEMENTS = ("Task", "Distributed")
#: Sizes that a process of a node has once.
_SIZES = {"Sort Space Type", "Sort Space Used", "Peak Memory Usage"}
_TEMP_IO = (*TEMP_BLOCKS, "Temp I/O Read Time", "Temp I/O Write Time")


def documents_of_text(lines: list[str]) -> list[dict[str, Any]]:
    """The plans in ``lines``, in their order; ValueError shows a line that was not understood.

    Documents contain only what spillcast reads. Figures that the text omits because they are 0 are
    0 in each plan that has buffers.
    """
    try:
        return _documents_of(lines)
    except ValueError:
        # The last line may be cut, as if the text ended above it. If it is not a node's, the first
        # node must have the counts of all nodes.
        *whole, cut = "\n".join(lines).rstrip().split("\n")
        documents = _documents_of(whole)
        last = documents[-1] if documents else {}
        is_counted = is_open(cut) or last.get("Plan", {}).get("Temp Written Blocks")
        if "Execution Time" in last or not is_counted:
            raise
        return documents


def _documents_of(lines: list[str]) -> list[dict[str, Any]]:
    plans: list[_Plan] = []
    words = _Words()
    lines = as_written(lines)
    for above, line, below in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        node = node_of(line)
        is_open = bool(plans) and not plans[-1].ended
        is_abridged = is_open and LINES_LEFT_OUT.match(line) is not None
        if node is None:
            bare = bare_node_of(line, is_first=not is_open)
            # A detail of the node, which is further right, proves that it is one.
            has_detail = _indent(below) > _indent(line) and "->" not in below and is_read(below)
            node = bare if is_open or has_detail else None
            is_abridged |= node is not None
        is_child = is_open and node is not None and plans[-1].has_child(node[0], above)
        if node is not None and not is_child and (not is_open or not node[1]):
            plans.append(_Plan(excerpt=node[1], words=words))
        if is_abridged:
            plans[-1].plan["Abridged"] = True
        if node is not None:
            plans[-1].add(node[0], node[2])
            plans[-1].learn(line.strip(" ->"))
        elif not (plans and plans[-1].detail(line)) and OF_NODE.search(line):
            raise not_understood(line)
    # A page may repeat some nodes of a plan.
    again = [plan for plan in plans if plan.excerpt and plan.is_repeated]
    return [plan.document() for plan in plans if plan not in again or plan.ended]


def begins_plan(line: str) -> bool:
    """Whether a line can be the first of a plan."""
    node = node_of(line)
    return node is not None and not node[1]


class _Plan:
    """A plan under construction, line by line."""

    def __init__(self, *, excerpt: bool, words: "_Words") -> None:
        self.plan: dict[str, Any] = {}
        #: Whether the parent of its first node is missing.
        self.excerpt = excerpt
        #: The nodes from the top to the last line's node, each with its column.
        self.nodes: list[tuple[int, dict[str, Any]]] = []
        #: The words of all lines read so far, including those of earlier plans.
        self.words = words
        #: Whether all lines of an excerpt also occurred in earlier plans.
        self.is_repeated = True
        self.headings: list[tuple[int, str]] = []
        self.worker: dict[str, Any] | None = None
        #: The column of the worker's line; its details are further right.
        self.worker_at = 0
        self.buffers = self.ended = False
        #: The column of the heading of planning, whose I/O is of no node.
        self.planning: int | None = None
        #: Whether other text followed its lines, such as the next statement.
        self.is_left = False

    def has_child(self, at: int, above: str) -> bool:
        """Whether a node without an arrow belongs to the plan, by its column and the line above."""
        first = self.nodes[0][0]
        return first < at and (first < _indent(above) or node_of(above) is not None)

    def add(self, at: int, node: dict[str, Any]) -> None:
        """Adds a node below the nodes that are further left."""
        flat = bool(self.nodes) and at <= self.nodes[0][0]
        if flat:
            # Without indentation, a node may be a child or a sibling of the one above.
            self.plan["Unindented"] = True
        if flat and self.nodes[-1][0] > at:
            # Only the children of the first node lost their indentation.
            del self.nodes[1:]
        while self.nodes and self.nodes[-1][0] >= at and not flat:
            self.nodes.pop()
        if self.nodes:
            self.nodes[-1][1].setdefault("Plans", []).append(node)
            if self.headings and self.nodes[-1][0] < self.headings[-1][0] < at:
                node["Subplan Name"] = self.headings.pop()[1]
        else:
            self.plan["Plan"] = node
        self.nodes.append((at, node))
        self.worker, self.planning = None, None

    def detail(self, line: str) -> bool:
        """Adds a line below a node; returns whether it was read or is known and skipped."""
        text = line.strip()
        indent = _indent(line)
        is_planned = self.planning is not None and indent >= self.planning
        if not text or (is_planned and text.startswith(("Buffers:", "I/O Timings:"))):
            return True
        if heading := _HEADING.fullmatch(line):
            self.headings.append((indent, heading["name"]))
        elif text in ("Planning:", "Planning"):
            self.planning = indent
        elif summary := SUMMARY.match(line):
            # psql also prints its time below plans that were not executed and other statements.
            is_own = "Actual Rows" in self.plan["Plan"] and not self.is_left
            if is_own or not line.startswith("Time:"):
                self._ran(indent, milliseconds(summary["ms"]))
        elif text.startswith("Settings:"):
            self.plan["Settings"] = {name: value for name, value in _SETTING.findall(text)}
        elif match := _IDENTIFIER.match(text):
            self.plan["Query Identifier"] = int(match[1])
        elif not self.ended or OF_NODE.match(text):
            return self._of_node(indent, text)
        return True

    def _ran(self, indent: int, ms: float) -> None:
        """Sets the time of the whole plan, or of a statement that Citus ran for a task."""
        task = next(
            (node for at, node in reversed(self.nodes)
             if node["Node Type"] in CITUS_STATEMENTS and at < indent), None,
        )  # fmt: skip
        if task is not None:
            task["Execution Time"] = ms
        else:
            self.plan.setdefault("Execution Time", ms)
            self.ended = True

    def _of_node(self, indent: int, text: str) -> bool:
        while len(self.nodes) > 1 and indent <= self.nodes[-1][0] and "Unindented" not in self.plan:
            self.nodes.pop()
            self.worker = None
        node = self.nodes[-1][1]
        if self.worker is not None and indent <= self.worker_at:
            # Without indentation, figures after a worker's own belong to it only in VERBOSE plans.
            verbose = "Unindented" in self.plan and "Actual Rows" in self.worker
            self.worker = self.worker if verbose else None
        if worker := WORKER.match(text):
            self.worker_at = indent
            self.worker = {"Worker Number": int(worker["number"])}
            node.setdefault("Workers", []).append(self.worker)
            text = worker["rest"]
        target = node if self.worker is None else self.worker
        self.buffers |= text.startswith("Buffers:")
        values = detail_of(text)
        if text.startswith("Sort Key:") and "Aggregate" in node["Node Type"]:
            node.setdefault("Grouping Sets", []).append({"Sort Key": [text]})
        if self.worker is not None and text.startswith("Buffers:"):
            values = {**dict.fromkeys(TEMP_BLOCKS, 0), **(values or {})}
        if values is not None:
            # A second line of this kind belongs to a child node that is missing.
            if any(
                name in target and values.get(name) != target[name]
                for name in _SIZES & values.keys()
            ):
                raise not_understood(text)
            is_again = target is node and text.startswith("Buffers:")
            if not (is_again and any(name.endswith("Blocks") for name in node)):
                target.update(values)
            self.learn(text)
        elif not SKIPPED.match(text):
            self.is_left |= BEGINS.match(text) is None and _IS_BETWEEN.fullmatch(text) is None
            if self._has_new_figures(text):
                raise not_understood(text)
        return True

    def learn(self, text: str) -> None:
        """Adds the words of a line that was read."""
        if self.excerpt:
            self.is_repeated &= self.words.include(text)
        self.words.add(text)

    def _has_new_figures(self, text: str) -> bool:
        """Whether a line has figures other than those that it quotes from lines already read."""
        if self.words.include(text):
            return False
        rest = _QUOTATION.sub(lambda m: "" if self.words.include(m[2]) else m[0], text)
        return FIGURES.search(rest) is not None and ELSEWHERE.search(text) is None

    def document(self) -> dict[str, Any]:
        """The plan as in FORMAT JSON; ``Cut`` if the figures of the first node may be incomplete.

        ``Excerpt`` if the nodes above its first one are missing.
        """
        is_total = not self.excerpt and "Plans" in self.plan["Plan"]
        if "Execution Time" not in self.plan and not is_total:
            self.plan["Cut"] = True
        if self.excerpt:
            self.plan["Excerpt"] = True
        if self.buffers:
            last = self.worker or {}
            if not self.ended and "Actual Rows" in last and "Temp Read Blocks" not in last:
                # The text is cut before the buffers of a worker.
                self.nodes[-1][1]["Workers"].remove(last)
            _fill_temp(self.plan["Plan"], {})
        return self.plan


class _Words:
    """The words of texts, which are split only if a text is compared with them."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._words = set[str]()

    def add(self, text: str) -> None:
        """Adds the words of a text."""
        self._texts.append(text)

    def include(self, text: str) -> bool:
        """Whether all words of a text were added."""
        self._words.update(*map(_words, self._texts))
        self._texts.clear()
        return _words(text) <= self._words


def _words(text: str) -> set[str]:
    return {word.strip(".,;:") for word in text.split()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fill_temp(node: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Fills in temp I/O that the text omits, for a node and its descendants: 0, or that ``above``.

    PostgreSQL omits temp I/O that is 0. An author may have omitted the line of the only child that
    is on disk, whose temp I/O is then that of its parent.
    """
    temp = {name: node.setdefault(name, above.get(name, 0)) for name in _TEMP_IO}
    below = node.get("Plans", ())
    spilling = [
        child for child in below
        if any(inner.get("Sort Space Type") == "Disk" or inner.get("Disk Usage")
               for inner in all_nodes(child))
    ]  # fmt: skip
    for child in below:
        left_out = [child] == spilling and not any(name.endswith(" Blocks") for name in child)
        _fill_temp(child, temp if left_out else {})
