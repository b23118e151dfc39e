"""Converts EXPLAIN's text plans to FORMAT JSON documents; each line must be understood.

A line begins a node, is a detail of a known kind, continues the line above, or is outside the
plans. docs/reports.md lists the kinds of lines.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import Any

from spillcast.evidence.postgres import TEMP_BLOCKS
from spillcast.evidence.postgres.node_lines import (
    FIGURES,
    OF_NODE,
    SKIPPED,
    TYPE_OF_NODE,
    WORKER,
    bare_node_of,
    detail_of,
    is_open,
    milliseconds,
    node_of,
    not_understood,
    without_condition,
)
from spillcast.evidence.postgres.nodes import all_nodes

_HEADING = re.compile(r"\s*(?P<name>(?:InitPlan|SubPlan|CTE) (?:expr_)?\S+(?: \(.*\))?)\s*")
#: The start of a new line; other lines continue the one above.
_BEGINS = re.compile(
    r"\s*(?:->|Worker \d+:|(?:InitPlan|SubPlan|CTE) \S+|[A-Z][A-Za-z/() -]{0,40}[\w)] ?:(?:\s|$)"
    r"|\(\d+ [^\W\d]+\)|Trigger |actual (?:time|rows)=|(?:\* )?\(slice\d|\(seg\d)"
)
#: Lines that the next continues, if it begins as a line does.
_CONTINUED = re.compile(r"(?:\(|\bWorker \d+:\s*)$")
_OF_BATCHES = re.compile(r"\s*(?:Worker \d+:\s*)?(?:\w+ Partitions: |Buckets: |Batches: )")
_USAGE = re.compile(r"\s*(?:Memory |Disk )?Usage:(?:\s|$)")
#: Details in parentheses, as openGauss prints them.
_IN_BRACKETS = re.compile(r"(\s*)\(([A-Z][A-Za-z/ ]+: [^()]*)\)\s*")
#: Dots in place of a node's figures or of counts that are not of temp files.
_DOTS = re.compile(
    r"(?<![ \t])[ \t]*+\((?:cost=)?(?:\.{3}|…)[^()]*\)|\btime=(?:\.{3}|…) "
    r"|(?<=Buffers: )(?:shared|local)(?: \w+=\d+)* \w+=(?:\.{3}|…)(?: \w+=(?:\d+|\.{3}|…))*,? ?"
)
#: A line in place of others.
_LINES_LEFT_OUT = re.compile(r"(?=\W+$)\W*?(?:\.{3}|…)")
#: A number with blanks between thousands. Behind a count, digits with a unit are a remark.
_THOUSANDS = r"(?<!\d\.)\d{1,3}(?> \d{3})++(?!\d)"
_GROUPED = re.compile(
    rf"(?<==){_THOUSANDS}(?! ?[kMGT]i?B\b)|(?<![\d,'=]){_THOUSANDS}(?! ?[MGT]i?B\b)"
)
_FIGURE = re.compile(r"(?:time|rows|width|n?loops)=")
#: A line that is quoted in the text around a plan.
_QUOTATION = re.compile(r"(`|\*\*|\")([^`*\"]+)\1")
_IDENTIFIER = re.compile(r"Query Identifier: (-?\d+)")
_SETTING = re.compile(r"(?<![\w.])([\w.]+) = '((?:[^']|'')*)'")
#: Signs of spills on other hosts, in lines of their own, if a server distributes its work.
ELSEWHERE = re.compile(
    r"Workfile: \([1-9]\d* spilling|Work_mem wanted: |K bytes wanted|Wrote \d+K .*workfile"
    r"|\b[1-9]\d*+ (?:overflows|spill \w+)|Workfile[ -]Spilling\W{1,4}[1-9]"
)
#: The last alternative is psql's own time, from ``\\timing``.
_SUMMARY = re.compile(r"\s*(?:Execution [Tt]ime ?|Total runtime ?|^Time): (?P<ms>[\d.,]+) ?ms")
#: What clients print between a plan and its time.
_IS_BETWEEN = re.compile(r"EXPLAIN|[\W_]+|\([^()]*\)")
#: Blanks before another detail in the same line; some labels occur only within a detail.
_JOINED = re.compile(
    r"(?<=\S) {3,}(?!(?:Batches|(?:(?:Peak |Average )?Memory|Disk)(?: *Usage)?|Usage): )"
    r"(?=[A-Z][A-Za-z/ -]{,40}: )"
)
#: Blanks that a page or an editor inserted between words, or after the point in a number.
_WIDE, _IN_NUMBER = re.compile(r"(?<=\S) {2,}"), re.compile(r"(?<=\d\.|\.\.) (?=\d)")
_NAME_OF_NODE = rf"{TYPE_OF_NODE}[^()]*(?:\([^()]*\)[^()]*)?"
_FIGURES_OF_NODE = r"\((?:cost=\d|actual (?:time|rows)=|never executed)"
#: Labels that begin a line of details or of the summary.
_LABEL = (
    r"(?:(?:Presorted|Sort|Group|Hash|Cache) Key|(?:Hash|Merge|Index|Recheck|TID) Cond"
    r"|(?<!by )(?:Join |One-Time |(?<!Join )(?<!Time ))Filter|Sort Method|Buffers|I/O Timings"
    r"|(?:Full|Pre)-sort(?:ed)? Groups|Workers (?:Planned|Launched)|Worker \d+"
    r"|Heap (?:Fetches|Blocks)|Rows Removed by [A-Z][\w ]+|Buckets|Planned Partitions"
    r"|(?<!\d )(?<!\d  )Batches|Storage|Output|Settings|Query Identifier|Planning(?: [Tt]ime)?|JIT"
    r"|Functions|Execution [Tt]ime|Total runtime|(?:InitPlan|SubPlan) \d+):?(?:\s|$)"
)
#: Places where lines were joined, in a line that contains a whole plan.
_JOINT = re.compile(
    rf"(?<=\S)[ \t]+(?=->[ \t]+{_NAME_OF_NODE}{_FIGURES_OF_NODE}|{_LABEL})"
    r"|(?<=\d\))[ \t]+(?=[A-Z][A-Za-z ]{,30}: )"
    r"|(?<=\S)(?=(?:(?:Planning|Execution) [Tt]ime|Total runtime): \d)"
)
#: Parts that the text after the blanks continues.
_CONTINUES = re.compile(
    r"(?:Worker \d+:|(?:Full|Pre)-sort(?:ed)? Groups: \d+|\bJIT:|Buckets: \d+ \(originally \d+\))$"
)
_NAME_ALONE = re.compile(rf"\s*{_NAME_OF_NODE}")
_FIRST_NODE = re.compile(rf"{_NAME_OF_NODE}(?={_FIGURES_OF_NODE})")
#: A cost or a time. A cost has at most two decimals, so three digits after a comma are thousands.
_COST_OR_TIME = re.compile(
    r"\b(?:(?:cost=[\d.]*(?P<cost>,)\d{1,2}|time=[\d.]*(?P<time>,)\d{1,3})"
    r"|(?:cost|time)=[\d.,]*[.,]\d+)\.\."
)
#: Signs that a SQL highlighter put keywords in capitals; keywords to change; a label or node name.
_IN_CAPITALS = re.compile(r"\((?:cost=\S{1,99} ROWS=|actual TIME=)\d")
_LOWER = re.compile(r"\b(?:[A-Z]+(?==\d)|EXTERNAL\b|(?:ON|USING)\b(?= ))")
_NAMES = re.compile(r"^[^:(]*(?:[:(]|$)")
_KEYWORD = re.compile(r"\b(?!JIT\b|WAL\b|CTE\b|TID\b)[A-Z]{2,}\b")
#: A number with separators; numbers in settings are quoted and have points.
_NUMBER = re.compile(r"(?<![\d'])\d+(?:[.,]\d+)+")
_SWAPPED = str.maketrans(".,", ",.")
#: Nodes of Citus whose children are the plan of another statement: a task, a distributed subplan.
CITUS_STATEMENTS = ("Task", "Distributed")
#: Sizes that a process of a node has once.
_SIZES = {"Sort Space Used", "Peak Memory Usage"}
_TEMP_IO = (*TEMP_BLOCKS, "Temp I/O Read Time", "Temp I/O Write Time")
#: Several lines of one length, at least this, were broken by a terminal, even within words.
_TERMINAL_MIN = 60
#: Longer lines are text below a plan.
_LOGICAL_MAX = 1 << 16


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
    words = set[str]()
    lines = [_without_tabs(line) if "\t" in line else line for line in lines]
    lines = [_DOTS.sub("", line) if "..." in line or "…" in line else line for line in lines]
    lines = [_GROUPED.sub(lambda match: match[0].replace(" ", ""), line) for line in lines]
    lines = ["".join(m.groups()) if (m := _IN_BRACKETS.fullmatch(line)) else line for line in lines]
    logical = _logical(_without_single_blanks(_with_points(_without_capitals(lines))))
    plain = (_IN_NUMBER.sub("", _WIDE.sub(" ", line)) for line in logical)
    for line, below in pairwise(chain(plain, [""])):
        node = node_of(line)
        is_open = bool(plans) and not plans[-1].ended
        is_abridged = is_open and _LINES_LEFT_OUT.match(line) is not None
        if node is None:
            bare = bare_node_of(line, is_first=not is_open)
            node = bare if is_open or _has_detail(line, below) else None
            is_abridged |= node is not None
        if node is not None and (not is_open or not node[1]):
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

    def __init__(self, *, excerpt: bool, words: set[str]) -> None:
        self.plan: dict[str, Any] = {}
        #: Whether the parent of its first node is missing.
        self.excerpt = excerpt
        #: The nodes from the top to the last line's node, each with its column.
        self.nodes: list[tuple[int, dict[str, Any]]] = []
        #: The words of all lines read so far, including those of earlier plans.
        self.words = words
        #: Whether all of its lines also occurred in earlier plans.
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
        indent = len(line) - len(line.lstrip())
        is_planned = self.planning is not None and indent >= self.planning
        if not text or (is_planned and text.startswith(("Buffers:", "I/O Timings:"))):
            return True
        if heading := _HEADING.fullmatch(line):
            self.headings.append((indent, heading["name"]))
        elif text in ("Planning:", "Planning"):
            self.planning = indent
        elif summary := _SUMMARY.match(line):
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
            self.is_left |= _BEGINS.match(text) is None and _IS_BETWEEN.fullmatch(text) is None
            if self._has_new_figures(text):
                raise not_understood(text)
        return True

    def learn(self, text: str) -> None:
        """Adds the words of a line that was read."""
        words = _words(text)
        self.is_repeated &= words <= self.words
        self.words |= words

    def _has_new_figures(self, text: str) -> bool:
        """Whether a line has figures other than those that it quotes from lines already read."""
        if _words(text) <= self.words:
            return False
        rest = _QUOTATION.sub(lambda m: "" if _words(m[2]) <= self.words else m[0], text)
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


def _without_tabs(line: str) -> str:
    """The line, indented by blanks."""
    text = line.lstrip()
    return line[: len(line) - len(text)].expandtabs() + text


def _words(text: str) -> set[str]:
    return {word.strip(".,;:") for word in text.split()}


def _without_single_blanks(lines: list[str]) -> list[str]:
    """The lines, without leading blanks if no other indentation is left."""
    arrows = {len(line) - len(line.lstrip()) for line in lines if line.lstrip().startswith("->")}
    return [line.lstrip() for line in lines] if arrows == {1} else lines


def _without_capitals(lines: list[str]) -> list[str]:
    """The lines, with PostgreSQL's spelling of keywords if a page has them in capitals."""
    if not any(map(_IN_CAPITALS.search, lines)):
        return lines
    lines = [_LOWER.sub(lambda word: word[0].lower(), line) for line in lines]
    return [
        _NAMES.sub(lambda m: _KEYWORD.sub(lambda word: word[0].title(), m[0]), line)
        for line in lines
    ]


def _with_points(lines: list[str]) -> list[str]:
    """The lines, with decimal points if each cost and time of a node has a decimal comma."""
    figures = (match for line in lines for match in _COST_OR_TIME.finditer(line))
    has_comma = (match["cost"] or match["time"] for match in figures)
    # The first figure shows that most plans have points.
    if not (next(has_comma, None) and all(has_comma)):
        return lines
    return [_NUMBER.sub(lambda match: match[0].translate(_SWAPPED), line) for line in lines]


def _logical(lines: list[str]) -> Iterator[str]:
    """Lines as PostgreSQL wrote them: lines that a mail client or a terminal broke are joined."""
    # Text around a plan may have longer lines.
    width = max((len(line) for line in lines if FIGURES.search(line)), default=0)
    full = sum(len(line) == width for line in lines) > 1 and width >= _TERMINAL_MIN
    logical: str | None = None
    opened, before = False, ""
    for line, below in pairwise([*_unjoined(lines), ""]):
        is_cut = full and len(before) == width
        begins = _begins_anew(line, below, logical or "", is_continued=is_cut and opened)
        opened = opened and len(logical or "") < _LOGICAL_MAX
        before = line
        if logical is not None and opened and line.strip() and not begins:
            logical = _rejoined(logical, line, is_cut=is_cut)
            continue
        if logical is not None:
            yield logical
        logical, opened = line, begins and _SUMMARY.match(line) is None
    if logical is not None:
        yield logical


def _begins_anew(line: str, below: str, above: str, *, is_continued: bool) -> bool:
    """Whether a line does not continue ``above``, which ``is_continued`` if a terminal cut it."""
    is_usage = _USAGE.match(line) and _OF_BATCHES.match(above)
    if _BEGINS.match(line) and not (_CONTINUED.search(above) or is_usage):
        return True
    if _LINES_LEFT_OUT.match(line):
        return True
    if _names_node(line, below) and not is_continued and not is_open(above):
        return True
    # No expression continues with figures of a spill.
    return FIGURES.search(line) is not None and SKIPPED.match(above.lstrip()) is not None


def _rejoined(above: str, line: str, *, is_cut: bool) -> str:
    """Two parts of a line, with a blank between them unless a terminal cut it within a word."""
    joined = [f"{above.rstrip()} {line.strip()}", above + line]
    is_read = list(map(_is_read, joined))
    # There is always a blank between the names of figures.
    return joined[is_read.index(True) if any(is_read) else is_cut and not _FIGURE.match(line)]


def _names_node(line: str, below: str) -> bool:
    """Whether a line has the name of a node, whose figures may be in the line below."""
    if OF_NODE.search(line) and not line.lstrip().startswith("("):
        return True
    return OF_NODE.match(below.lstrip()) is not None and _NAME_ALONE.fullmatch(line) is not None


def _has_detail(line: str, below: str) -> bool:
    """Whether the line below is a detail of a node, which is further right."""
    is_inside = len(below) - len(below.lstrip()) > len(line) - len(line.lstrip())
    return is_inside and "->" not in below and _is_read(below)


def _is_read(line: str) -> bool:
    """Whether a line with figures is complete."""
    try:
        worker = WORKER.match(line.strip())
        detail = worker["rest"] if worker else line.strip()
        return node_of(line) is not None or detail_of(detail) is not None
    except ValueError:
        return False


def _unjoined(lines: list[str]) -> Iterator[str]:
    """The lines; a line that an editor or a table joined from several is split at blanks."""
    for line in map(without_condition, lines):
        text = line.lstrip()
        indent = line[: len(line) - len(text)]
        if SKIPPED.match(text):
            yield line
        elif OF_NODE.search(line) and len(parts := _parts_of_plan(line)) > 1:
            yield from parts
        elif text.startswith("->") and FIGURES.search(line):
            node, *details = _JOINT.split(text)
            yield indent + node
            yield from (f"{indent}  {detail}" for detail in details)
        else:
            yield from (indent + part for part in _JOINED.split(text))


def _parts_of_plan(line: str) -> list[str]:
    """The lines of a plan in a single line, each with the blanks that preceded it."""
    joints = list(_JOINT.finditer(line))
    starts = [0, *(joint.start() for joint in joints)]
    parts: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        if parts and _CONTINUES.search(parts[-1]):
            parts[-1] += line[start:end]
        else:
            parts.append(line[start:end])
    # The first node may follow other words, such as other cells of a row.
    if len(parts) > 1 and node_of(parts[0]) is None and (node := _FIRST_NODE.search(parts[0])):
        parts[0] = parts[0][node.start() :]
    return _without_single_blanks(parts)


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
