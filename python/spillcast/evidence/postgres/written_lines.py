"""The lines of a plan in text as PostgreSQL wrote them, although clients and pages changed them."""

import re
from collections.abc import Iterator
from itertools import pairwise

from spillcast.evidence.postgres.node_lines import (
    FIGURES,
    OF_NODE,
    SKIPPED,
    TYPE_OF_NODE,
    WORKER,
    detail_of,
    is_open,
    node_of,
    without_condition,
)

#: The start of a new line; other lines continue the one above.
BEGINS = re.compile(
    r"\s*(?:->|Worker \d+:|(?:InitPlan|SubPlan|CTE) \S+|[A-Z][A-Za-z/() -]{0,40}[\w)] ?:(?:\s|$)"
    r"|\(\d+ [^\W\d]+\)|Trigger |actual (?:time|rows)=|(?:\* )?\(slice\d|\(seg\d)"
)
#: A blank between the thousands of a number.
_PARTED = re.compile(r"\d \d{3}")
#: Words behind the first one in the type of a node.
_WORDS_OF_TYPES = (
    "Aggregate|All|Anti|Append|Backward|Except|Foreign|Full|Function|Group|GroupAggregate|Hash"
    "|HashAggregate|Heap|Index|Intersect|Join|Left|Loop|Merge|MixedAggregate|Nested|Only|Range"
    "|Right|Scan|Semi|Seq|Sort|Tuplestore|Union|Unique"
)
#: A line that PostgreSQL wrote and nothing broke, joined or changed: a node with its figures, the
#: name of a subplan, or a label and its values.
_WHOLE = re.compile(
    rf"(?:(?: {{2,}}+)?->  )?[A-Z]\w*+(?> (?:{_WORDS_OF_TYPES}))*+(?: \(\w+\))?"
    r"(?> [a-z_\"][\w.\"$*-]*+(?: \d++\")?)*+ {1,2}"
    r"(?:\(cost=\d[\d.]*+ rows=\d++ width=\d++\)(?: (?=\()|$))?"
    r"(?:\((?:actual (?:time=\d[\d.]*+ )?rows=\d[\d.]*+ loops=\d++|never executed)\))?(?<=\))"
    r"| *+(?:InitPlan|SubPlan|CTE) \S+(?: \([^()]*\))?"
    r"| *+(?!(?:Memory |Disk )?Usage:)[A-Z][A-Za-z/() -]{0,40}[\w)]:"
    r"(?> {1,2}(?>[^\s(]++|\((?!cost=\d|actual |never executed\)))++)*+(?<!\()(?<!\d:)"
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
LINES_LEFT_OUT = re.compile(r"(?=\W+$)\W*?(?:\.{3}|…)")
#: A number with blanks between thousands. Behind a count, digits with a unit are a remark.
_THOUSANDS = r"(?<!\d\.)\d{1,3}(?> \d{3})++(?!\d)"
_GROUPED = re.compile(
    rf"(?<==){_THOUSANDS}(?! ?[kMGT]i?B\b)|(?<![\d,'=]){_THOUSANDS}(?! ?[MGT]i?B\b)"
)
_FIGURE = re.compile(r"(?:time|rows|width|n?loops)=")
#: The last alternative is psql's own time, from ``\\timing``.
SUMMARY = re.compile(r"\s*(?:Execution [Tt]ime ?|Total runtime ?|^Time): (?P<ms>[\d.,]+) ?ms")
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
#: Several lines of one length, at least this, were broken by a terminal, even within words.
_TERMINAL_MIN = 60
#: Longer lines are text below a plan.
_LOGICAL_MAX = 1 << 16


def as_written(lines: list[str]) -> list[str]:
    """The lines as PostgreSQL wrote them; in those that were mended, one blank separates words."""
    text = "\n".join(lines)
    is_short = "..." in text or "…" in text
    if not is_short and not _PARTED.search(text) and all(map(_WHOLE.fullmatch, lines)):
        return lines
    lines = [_without_tabs(line) if "\t" in line else line for line in lines]
    lines = [_DOTS.sub("", line) if is_short else line for line in lines]
    lines = [_GROUPED.sub(lambda match: match[0].replace(" ", ""), line) for line in lines]
    lines = ["".join(m.groups()) if (m := _IN_BRACKETS.fullmatch(line)) else line for line in lines]
    lines = _without_single_blanks(_with_points(_without_capitals(lines)))
    return [_IN_NUMBER.sub("", _WIDE.sub(" ", line)) for line in _logical(lines)]


def _without_tabs(line: str) -> str:
    """The line, indented by blanks."""
    text = line.lstrip()
    return line[: len(line) - len(text)].expandtabs() + text


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
        logical, opened = line, begins and SUMMARY.match(line) is None
    if logical is not None:
        yield logical


def _begins_anew(line: str, below: str, above: str, *, is_continued: bool) -> bool:
    """Whether a line does not continue ``above``, which ``is_continued`` if a terminal cut it."""
    is_usage = _USAGE.match(line) and _OF_BATCHES.match(above)
    if BEGINS.match(line) and not (_CONTINUED.search(above) or is_usage):
        return True
    if LINES_LEFT_OUT.match(line):
        return True
    # A terminal cuts a line that is not complete.
    is_part = is_open(above) or (is_continued and not is_read(above))
    if _names_node(line, below) and not is_part:
        return True
    # No expression continues with figures of a spill.
    return FIGURES.search(line) is not None and SKIPPED.match(above.lstrip()) is not None


def _rejoined(above: str, line: str, *, is_cut: bool) -> str:
    """Two parts of a line, with a blank between them unless a terminal cut it within a word."""
    joined = [f"{above.rstrip()} {line.strip()}", above + line]
    are_read = list(map(is_read, joined))
    # There is always a blank between the names of figures.
    return joined[are_read.index(True) if any(are_read) else is_cut and not _FIGURE.match(line)]


def _names_node(line: str, below: str) -> bool:
    """Whether a line has the name of a node, whose figures may be in the line below."""
    if OF_NODE.search(line) and not line.lstrip().startswith("("):
        return True
    return OF_NODE.match(below.lstrip()) is not None and _NAME_ALONE.fullmatch(line) is not None


def is_read(line: str) -> bool:
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
