"""Text plans of EXPLAIN as the documents that FORMAT JSON would have given, understood whole.

Each line begins a node, is a detail of a known kind, goes on with the line above, or is around the
plans. docs/reports.md lists the kinds of lines.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from spillcast.evidence.postgres.node_lines import (
    FIGURES,
    OF_NODE,
    SKIPPED,
    WORKER,
    detail_of,
    is_open,
    milliseconds,
    node_of,
    not_understood,
)
from spillcast.evidence.postgres.nodes import all_nodes

_HEADING = re.compile(r"\s*(?P<name>(?:InitPlan|SubPlan|CTE) (?:expr_)?\S+(?: \(.*\))?)\s*")
#: A line begins so; others go on with what stands above.
_BEGINS = re.compile(
    r"\s*(?:->|Worker \d+:|(?:InitPlan|SubPlan|CTE) \S+|[A-Z][A-Za-z/() -]{0,40}[\w)] ?:(?:\s|$)"
    r"|\(\d+ [^\W\d]+\)|Trigger |actual (?:time|rows)=|(?:\* )?\(slice\d|\(seg\d)"
)
#: Details that openGauss has in brackets.
_IN_BRACKETS = re.compile(r"(\s*)\(([A-Z][A-Za-z/ ]+: [^()]*)\)\s*")
_FIGURE = re.compile(r"(?:time|rows|width|n?loops)=")
#: A quotation of a line, in the words around a plan.
_QUOTATION = re.compile(r"(`|\*\*|\")([^`*\"]+)\1")
_SETTING = re.compile(r"(?<![\w.])([\w.]+) = '((?:[^']|'')*)'")
#: Hosts where a server that shares its work lets others spill, in lines of their own.
ELSEWHERE = re.compile(
    r"Workfile: \([1-9]\d* spilling|Work_mem wanted: |K bytes wanted|Wrote \d+K .*workfile"
    r"|\b[1-9]\d*+ (?:overflows|spill \w+)|Workfile[ -]Spilling\W{1,4}[1-9]"
)
#: The last is psql's own, by ``\\timing``.
_SUMMARY = re.compile(r"\s*(?:Execution [Tt]ime ?|Total runtime ?|^Time): (?P<ms>[\d.,]+) ?ms")
#: What clients write between a plan and the time of it.
_IS_BETWEEN = re.compile(r"EXPLAIN|[\W_]+|\([^()]*\)")
#: Blanks before another line of details; some labels stand only within a line.
_JOINED = re.compile(
    r"(?<=\S) {3,}(?!(?:Batches|(?:(?:Peak |Average )?Memory|Disk)(?: *Usage)?|Usage): )"
    r"(?=[A-Z][A-Za-z/ -]{,40}: )"
)
#: Blanks that a page or an editor put between words and after the point of a number.
_WIDE, _IN_NUMBER = re.compile(r"(?<=\S) {2,}"), re.compile(r"(?<=\d\.|\.\.) (?=\d)")
_TYPE_OF_NODE = (
    r"(?:(?:Parallel|Partial|Finalize|Async|Incremental|Custom|Foreign|Bitmap) ){,3}"
    r"(?:Limit|Sort|Unique|Hash|Merge|Nested Loop|(?:Hash|Group|Mixed|)Aggregate|WindowAgg|Gather"
    r"|Append|Materialize|Memoize|Seq Scan|Index|Heap Scan|Scan|CTE Scan|WorkTable Scan|Subquery"
    r" Scan|Function Scan|Result|ProjectSet|(?:Hash|)SetOp|LockRows|ModifyTable|Insert|Update"
    r"|Delete|Recursive Union|Group)\b[^()]*(?:\([^()]*\)[^()]*)?"
)
_FIGURES_OF_NODE = r"\((?:cost=\d|actual (?:time|rows)=|never executed)"
#: What begins a line of details or of the summary.
_LABEL = (
    r"(?:(?:Presorted|Sort|Group|Hash|Cache) Key|(?:Hash|Merge|Index|Recheck|TID) Cond"
    r"|(?:Join|One-Time) Filter|(?<!Join )(?<!Time )Filter|Sort Method|Buffers|I/O Timings"
    r"|(?:Full|Pre)-sort(?:ed)? Groups|Workers (?:Planned|Launched)|Worker \d+"
    r"|Heap (?:Fetches|Blocks)|Rows Removed by [A-Z][\w ]+|Buckets|Planned Partitions"
    r"|(?<!\d )(?<!\d  )Batches|Storage|Output|Settings|Query Identifier|Planning(?: [Tt]ime)?|JIT"
    r"|Functions|Execution [Tt]ime|Total runtime|(?:InitPlan|SubPlan) \d+):?(?:\s|$)"
)
#: Where lines were joined, in a line that has a whole plan.
_JOINT = re.compile(
    rf"(?<=\S)[ \t]+(?=->[ \t]+{_TYPE_OF_NODE}{_FIGURES_OF_NODE}|{_LABEL})"
    r"|(?<=\d\))[ \t]+(?=[A-Z][A-Za-z ]{,30}: )"
    r"|(?<=\S)(?=(?:(?:Planning|Execution) [Tt]ime|Total runtime): \d)"
)
#: Parts that the text after the blanks belongs to.
_CONTINUES = re.compile(
    r"(?:Worker \d+:|(?:Full|Pre)-sort(?:ed)? Groups: \d+|\bJIT:|Buckets: \d+ \(originally \d+\))$"
)
_NAME_ALONE = re.compile(rf"\s*{_TYPE_OF_NODE}")
_FIRST_NODE = re.compile(rf"{_TYPE_OF_NODE}(?={_FIGURES_OF_NODE})")
#: A cost or a time with decimals: a cost has at most two, which commas between thousands have not.
_COST_OR_TIME = re.compile(
    r"\b(?:(?:cost=[\d.]*(?P<cost>,)\d{1,2}|time=[\d.]*(?P<time>,)\d{1,3})"
    r"|(?:cost|time)=[\d.,]*[.,]\d+)\.\."
)
#: What shows that a highlighter of SQL wrote keywords in capitals; a label or the name of a node.
_IN_CAPITALS = re.compile(r"\((?:cost=\S{1,99} ROWS=|actual TIME=)\d")
_LOWER = re.compile(r"\b(?:[A-Z]+(?==\d)|EXTERNAL\b|(?:ON|USING)\b(?= ))")
_NAMES = re.compile(r"^[^:(]*(?:[:(]|$)")
_KEYWORD = re.compile(r"\b(?!JIT\b|WAL\b|CTE\b|TID\b)[A-Z]{2,}\b")
#: A number with separators; those of settings are in quotes and have points.
_NUMBER = re.compile(r"(?<![\d'])\d+(?:[.,]\d+)+")
_SWAPPED = str.maketrans(".,", ",.")
_TEMP_IO = ("Temp Read Blocks", "Temp Written Blocks", "Temp I/O Read Time", "Temp I/O Write Time")
#: So long a line, of which there are several, was broken by a terminal and not between words.
_TERMINAL_MIN = 60
#: Longer lines consist of words below a plan.
_LOGICAL_MAX = 1 << 16


def documents_of_text(lines: list[str]) -> list[dict[str, Any]]:
    """The plans in ``lines``, in their order; ValueError shows a line that was not understood.

    Only what spillcast reads is taken over. Figures that the text leaves out because they are 0
    are 0 wherever the plan has buffers at all.
    """
    try:
        return _documents_of(lines)
    except ValueError:
        # The last line may be cut below a first node that has the counts of all.
        documents = _documents_of("\n".join(lines).rstrip().split("\n")[:-1])
        last = documents[-1] if documents else {}
        if "Execution Time" in last or not last.get("Plan", {}).get("Temp Written Blocks"):
            raise
        return documents


def _documents_of(lines: list[str]) -> list[dict[str, Any]]:
    plans: list[_Plan] = []
    words = set[str]()
    lines = [re.sub(r"^\s+", lambda blanks: blanks[0].expandtabs(), line) for line in lines]
    lines = ["".join(m.groups()) if (m := _IN_BRACKETS.fullmatch(line)) else line for line in lines]
    for line in _logical(_without_single_blanks(_with_points(_without_capitals(lines)))):
        line = _IN_NUMBER.sub("", _WIDE.sub(" ", line))
        node = node_of(line)
        if node is not None and (not plans or plans[-1].ended or not node[1]):
            plans.append(_Plan(excerpt=node[1], words=words))
        if node is not None:
            plans[-1].add(node[0], node[2])
            plans[-1].learn(line.strip(" ->"))
        elif not (plans and plans[-1].detail(line)) and OF_NODE.search(line):
            raise not_understood(line)
    # A page may show some nodes of a plan once more.
    again = [plan for plan in plans if plan.excerpt and plan.is_repeated]
    return [plan.document() for plan in plans if plan not in again or plan.ended]


def begins_plan(line: str) -> bool:
    """Whether a line can be the first one of a plan."""
    node = node_of(line)
    return node is not None and not node[1]


class _Plan:
    """A plan under construction, line by line."""

    def __init__(self, *, excerpt: bool, words: set[str]) -> None:
        self.plan: dict[str, Any] = {}
        #: Whether its first node stands below another, which is missing.
        self.excerpt = excerpt
        #: Nodes from the top to where the last line stands, each with its column.
        self.nodes: list[tuple[int, dict[str, Any]]] = []
        #: Of all lines that were read, also of the plans above.
        self.words = words
        #: Whether each of its own lines stands above, too.
        self.is_repeated = True
        self.headings: list[tuple[int, str]] = []
        self.worker: dict[str, Any] | None = None
        #: Where the line of the worker stands; what it did is further right.
        self.worker_at = 0
        self.buffers = self.ended = False
        #: Whether words of something else stood below it, such as the next statement.
        self.is_left = False
        self.planning: int | None = None

    def add(self, at: int, node: dict[str, Any]) -> None:
        """A node, below those that stand further left."""
        flat = bool(self.nodes) and at <= self.nodes[0][0]
        if flat:
            # Without its indent each node may be below the one above, or beside it.
            self.plan["Unindented"] = True
        if flat and self.nodes[-1][0] > at:
            # Only the nodes right below the first one lost their indent.
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
        """A line below a node; whether it was read, or is known and passed over."""
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text:
            return True
        if self.planning is not None and indent > self.planning and "Buffers:" in text:
            return True
        if heading := _HEADING.fullmatch(line):
            self.headings.append((indent, heading["name"]))
        elif text in ("Planning:", "Planning"):
            self.planning = indent
        elif summary := _SUMMARY.match(line):
            # psql's time is also below a plan that was not run, and below other statements.
            is_own = "Actual Rows" in self.plan["Plan"] and not self.is_left
            if is_own or not line.startswith("Time:"):
                self._ran(indent, milliseconds(summary["ms"]))
        elif text.startswith("Settings:"):
            self.plan["Settings"] = {name: value for name, value in _SETTING.findall(text)}
        elif match := re.match(r"Query Identifier: (-?\d+)", text):
            self.plan["Query Identifier"] = int(match[1])
        elif not self.ended or OF_NODE.match(text):
            return self._of_node(indent, text)
        return True

    def _ran(self, indent: int, ms: float) -> None:
        """The time of the whole, or of what Citus ran as a statement of its own."""
        task = next(
            (node for at, node in reversed(self.nodes)
             if node["Node Type"] in ("Task", "Distributed") and at < indent), None,
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
            # Without indentation, figures follow those of a worker only in VERBOSE plans.
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
            values = {"Temp Read Blocks": 0, "Temp Written Blocks": 0, **(values or {})}
        if values is not None:
            # A second line of the kind is of a node below that was left out.
            counted = any(name.endswith("Blocks") for name in node)
            sort = "Sort Space Used"
            if sort in target and values.get(sort, target[sort]) != target[sort]:
                raise not_understood(text)
            if target is not node or not (text.startswith("Buffers:") and counted):
                target.update(values)
            self.learn(text)
        elif not re.match(SKIPPED, text):
            self.is_left |= _BEGINS.match(text) is None and _IS_BETWEEN.fullmatch(text) is None
            if self._tells_more(text):
                raise not_understood(text)
        return True

    def learn(self, text: str) -> None:
        """Add the words of a line that was read."""
        words = _words(text)
        self.is_repeated &= words <= self.words
        self.words |= words

    def _tells_more(self, text: str) -> bool:
        """Whether a line has figures beside those that it quotes from the lines that were read."""
        if _words(text) <= self.words:
            return False
        rest = _QUOTATION.sub(lambda m: "" if _words(m[2]) <= self.words else m[0], text)
        return FIGURES.search(rest) is not None and ELSEWHERE.search(text) is None

    def document(self) -> dict[str, Any]:
        """As FORMAT JSON would have it; ``Cut`` where what the first node did may not be all.

        ``Excerpt`` where it stood below other nodes, which are missing.
        """
        is_total = not self.excerpt and "Plans" in self.plan["Plan"]
        if "Execution Time" not in self.plan and not is_total:
            self.plan["Cut"] = True
        if self.excerpt:
            self.plan["Excerpt"] = True
        if self.buffers:
            last = self.worker or {}
            if not self.ended and "Actual Rows" in last and "Temp Read Blocks" not in last:
                # The text is cut above the buffers of a worker.
                self.nodes[-1][1]["Workers"].remove(last)
            _fill_temp(self.plan["Plan"], {})
        return self.plan


def _words(text: str) -> set[str]:
    return {word.strip(".,;:") for word in text.split()}


def _without_single_blanks(lines: list[str]) -> list[str]:
    """The lines, without the blanks before them where nothing is left of the indentation."""
    arrows = {len(line) - len(line.lstrip()) for line in lines if line.lstrip().startswith("->")}
    return [line.lstrip() for line in lines] if arrows == {1} else lines


def _without_capitals(lines: list[str]) -> list[str]:
    """The lines, with keywords as PostgreSQL writes them where a page has them in capitals."""
    if not any(map(_IN_CAPITALS.search, lines)):
        return lines
    lines = [_LOWER.sub(lambda word: word[0].lower(), line) for line in lines]
    return [
        _NAMES.sub(lambda m: _KEYWORD.sub(lambda word: word[0].title(), m[0]), line)
        for line in lines
    ]


def _with_points(lines: list[str]) -> list[str]:
    """The lines, with decimal points where each cost and time of a node has a decimal comma."""
    figures = [match for line in lines for match in _COST_OR_TIME.finditer(line)]
    if not figures or not all(match["cost"] or match["time"] for match in figures):
        return lines
    return [_NUMBER.sub(lambda match: match[0].translate(_SWAPPED), line) for line in lines]


def _logical(lines: list[str]) -> Iterator[str]:
    """Lines as PostgreSQL wrote them: those that a mail or a terminal broke are joined."""
    # Words around a plan may be in longer lines.
    width = max((len(line) for line in lines if FIGURES.search(line)), default=0)
    full = sum(len(line) == width for line in lines) > 1 and width >= _TERMINAL_MIN
    logical: str | None = None
    opened = False
    before = ""
    plain = list(_unjoined(lines))
    for line, below in pairwise([*plain, ""]):
        has_figures = OF_NODE.search(line) and not line.lstrip().startswith("(")
        named = has_figures or (OF_NODE.match(below.lstrip()) and _NAME_ALONE.fullmatch(line))
        cut = full and len(before) == width
        begins: Any = _BEGINS.match(line) and not (logical or "").endswith("(")
        begins = begins or (named and not (cut and opened) and not is_open(logical or ""))
        # No expression goes on with figures of a spill.
        begins = begins or (FIGURES.search(line) and re.match(SKIPPED, (logical or "").lstrip()))
        opened = opened and len(logical or "") < _LOGICAL_MAX
        if logical is not None and opened and line.strip() and not begins:
            # Between the names of figures there is always a blank.
            cut = cut and not _FIGURE.match(line)
            joined = [f"{logical.rstrip()} {line.strip()}", logical + line]
            is_read = list(map(_is_read, joined))
            logical = joined[is_read.index(True) if any(is_read) else cut]
        else:
            if logical is not None:
                yield logical
            logical = line
            opened = bool(begins) and _SUMMARY.match(line) is None
        before = line
    if logical is not None:
        yield logical


def _is_read(line: str) -> bool:
    """Whether a line with figures is whole."""
    try:
        return node_of(line) is not None or detail_of(line.strip()) is not None
    except ValueError:
        return False


def _unjoined(lines: list[str]) -> Iterator[str]:
    """The lines; where an editor or a table joined several with blanks between them, each alone."""
    for line in lines:
        text = line.lstrip()
        if re.match(SKIPPED, text):
            yield line
        elif OF_NODE.search(line) and len(parts := _parts_of_plan(line)) > 1:
            yield from parts
        else:
            yield from (line[: len(line) - len(text)] + part for part in _JOINED.split(text))


def _parts_of_plan(line: str) -> list[str]:
    """The lines of a plan that stands in one line, each with the blanks that stood before it."""
    joints = list(_JOINT.finditer(line))
    starts = [0, *(joint.start() for joint in joints)]
    parts: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        if parts and _CONTINUES.search(parts[-1]):
            parts[-1] += line[start:end]
        else:
            parts.append(line[start:end])
    # Words may stand before the first node, such as other cells of a row.
    if len(parts) > 1 and node_of(parts[0]) is None and (node := _FIRST_NODE.search(parts[0])):
        parts[0] = parts[0][node.start() :]
    return _without_single_blanks(parts)


def _fill_temp(node: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Temp I/O of a node and those below where the text has none: 0, or that ``above``.

    PostgreSQL leaves them out where they are 0. An author who left out lines left out those of the
    only node that was on disk.
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
