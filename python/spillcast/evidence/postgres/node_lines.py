"""Reads a line of a plan in text: a node with its figures, or a detail of one."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_ACTUAL = (
    r"actual(?: time=(?>[\d.]+\.\.(?=[\d.]))(?P<time>\.?\d++\.?\d*+))?"
    r" rows=(?P<rows>[\d.]+)(?: n?loops=(?P<loops>\d+))?"
)
_COST = r"cost=\d(?>[\d.]*\.\.(?=[\d.]))[\d.]++ rows=(?P<plan_rows>\d+)(?: width=(?P<width>\d+))?"
_NODE = re.compile(
    r"(?P<indent>[ \t]*)(?P<arrow>->[ \t]*)?"
    r"(?P<name>[^\s(](?>\s*+(?>[^\s(]++|\((?!cost=|actual|never)))*+)\s*+"
    rf"(?:\({_COST}\)\s*+)?(?:\(operatorMem=\w+\)\s*+)?(?:\((?:{_ACTUAL}|never executed)\)\s*+)?"
    # An author's remark, or a mark of omitted lines.
    r"(?P<remark>(?:[←⟵⬅⇐👈★⚠❌✗…#!]|<[-=]|--|//|/\*|\.{3}).*)?"
)
#: Figures that identify a node's line, whether whole or cut.
OF_NODE = re.compile(r"\(cost=\d|\(actual (?:time|rows)=|\(never executed\)")
#: The beginning of a node's name.
TYPE_OF_NODE = (
    r"(?:(?:Parallel|Partial|Finalize|Async|Incremental|Custom|Foreign|Bitmap) ){,3}"
    r"(?:Limit|Sort|Unique|Hash|Merge|Nested Loop|(?:Hash|Group|Mixed|)Aggregate|WindowAgg|Gather"
    r"|Append|Materialize|Memoize|Seq Scan|Index|Heap Scan|Scan|CTE Scan|WorkTable Scan|Subquery"
    r" Scan|Function Scan|Result|ProjectSet|(?:Hash|)SetOp|LockRows|ModifyTable|Insert|Update"
    r"|Delete|Recursive Union|Group)\b"
)
#: A node without figures: of Citus, or one whose figures an author left out.
_BARE_NODE = re.compile(
    r"(?P<indent>[ \t]*)->[ \t]+(?:(?P<citus>Task|Distributed)(?: Subplan .*)?"
    rf"|(?P<name>{TYPE_OF_NODE}(?: (?:Only|Scan|Left|Right|Full|Semi|Anti|Join|Append))*"
    r"(?:(?: on| using) \S.*)?)(?:[ \t]*(?:\(|\.{3}|…|rows=).*)?)\s*"
)
#: The first node of a plan, without its figures; partial nodes are below a Gather.
_BARE_FIRST_NODE = re.compile(
    r"(?P<indent>[ \t]*+)(?!Partial|Parallel)"
    rf"(?P<name>{TYPE_OF_NODE}(?: (?:Left|Right|Full|Semi|Anti|Join))*)(?:[ \t]*\(.*)?\s*"
)
_NAME_BELOW_ARROW = re.compile(r"\s*->[^(]*")
#: An expression that an author put between a node's name and its figures.
_CONDITION = re.compile(
    r"(?<=\w) +(?:(?:Hash|Merge|Index|Recheck) Cond|(?:Join )?Filter|\w+ Key): "
)
#: The type of a node; the object that it reads may follow.
_TYPE = re.compile(
    r"[A-Z*](?>[\w /*,.$-]++|\"[^\"]*\"|:\d|\([^()]*\))*+(?:$|(?<= on )|(?<= using )|(?<= for ))"
)
_NAMED_SCAN = re.compile(r"(CTE|WorkTable) Scan on (\S+)")
_JOIN = re.compile(r"(Hash|Merge)(?: .*)? Join$|(Nested Loop)")
WORKER = re.compile(r"Worker (?P<number>\d+):\s*(?P<rest>.*)")
#: Figures of a spill: a line with such figures must be understood, not skipped.
FIGURES = re.compile(
    r"\(cost=\d|\(actual |\btemp (?:read|written)=\d|\b(?:Disk|Disk Usage): +\d|Workfile: \([1-9]"
    r"|-> +(?:Parallel )?Hash +\(Batches: (?!1\b)\d"
)
_KIND, _PAIRS = r"shared/local|shared|local|temp", r"(?: +\w+=\d\S*(?: ms\b)?)+"
_TEMP = re.compile(rf"\b(?P<kind>{_KIND})(?P<pairs>{_PAIRS})")
#: The start of a line of counts or times, which no further figures follow: these show a line that
#: was broken or joined. A size may follow as a remark. A fork may have caches of its own: a cache
#: has hits, and temp files have none.
_WHOLE = re.compile(
    rf"[^:]+:(?>(?: +(?:{_KIND}))?{_PAIRS}| +(?>[a-z]+ +)++hit=\d\S*+)*+\s*+"
    r"(?![.,]?\d(?![\d.,]*+ ?[kKMGT]i?B\b)|\w[^=]*=)"
)
_KINDS = {"temp": "Temp ", "shared/local": "", "shared": "Shared ", "local": "Local "}
_PAIR = re.compile(r"\b(\w+)=(\d[^\s);]*)")
_BATCHES = re.compile(
    r"(Planned Partitions|Buckets|Batches|(?:Peak )?Memory Usage|Disk Usage): (\d+)"
    r"(?: ?kB)?(?![\w.])(?: \(originally (\d+)\))?"
)
#: The rest of a line of batches that was broken or cut within a figure.
_PART_OF_BATCHES = re.compile(
    r"Disk Usage: |\b(?:Memory|Disk)(?: Usage:?)?\s*$|^,?\s*\d"
    r"|(?<!\S)(?:Usage|sage|age|ge|e|atches|tches|ches|hes|es|s)?:\s*\d[\d.]*+(?! ?[MG]B)"
)
#: Lines of counts and sizes, which may have separators; times have a decimal point or comma.
_COUNTED = re.compile(
    r"Buffers:|Sort Method:|(?:Planned Partitions|Buckets|Batches|Disk Usage|Storage):"
    r"|(?:Full|Pre)-sort"
)
#: A node's number with separators; a comma may also be the decimal point, if there is no other.
_GROUPED = re.compile(r"(?<=[=.])\d{1,3}(?:,\d{3})+(?=\.\d)|(?<=[sh]=)\d{1,3}(?:,\d{3})+(?=[ )])")
_SEPARATOR = re.compile(r"[,'](?<=\d[,'])(?=\d{3}(?:\D|$))")


def is_open(line: str) -> bool:
    """Whether a node's line was broken or cut before the end of its figures."""
    if (figures := OF_NODE.search(line)) is None:
        return _NAME_BELOW_ARROW.fullmatch(line) is not None
    rest = line[figures.start() :]
    return rest.count("(") > rest.count(")")


def without_condition(line: str) -> str:
    """The line of a node without an expression between its name and its figures."""
    if (figures := OF_NODE.search(line)) is None:
        return line
    end = figures.start()
    condition = _CONDITION.search(line, 0, end) if ": " in line[:end] else None
    if condition is None or "->" in line[condition.start() : end]:
        return line
    return f"{line[: condition.start()]} {line[end:]}"


def node_of(line: str) -> tuple[int, bool, dict[str, Any]] | None:
    """The column where a node's name begins, whether it has an arrow, and the node."""
    if (figures := OF_NODE.search(line)) is None:
        bare = _BARE_NODE.fullmatch(line)
        if bare is None or not bare["citus"]:
            return None
        return len(bare["indent"]), True, {"Node Type": bare["citus"]}
    if line.rstrip().endswith(("...", "…")) and is_open(line):
        # A tool that truncates lines removed the end of the figures.
        line = line[: line.rindex("(")]
    line = line[: figures.start()] + _GROUPED.sub(
        lambda match: match[0].replace(",", ""), line[figures.start() :]
    )
    line = without_condition(line)
    if (match := _NODE.fullmatch(line)) is None or FIGURES.search(match["remark"] or ""):
        return None
    # A worker's detail line has figures of a node; a node's line may begin with other words.
    if WORKER.match(match["name"]) or _TYPE.match(match["name"]) is None:
        return None
    node: dict[str, Any] = _kind(match["name"])
    if match["plan_rows"] is not None:
        node["Plan Rows"] = int(match["plan_rows"])
    if match["width"] is not None:
        node["Plan Width"] = int(match["width"])
    if match["rows"] is not None:
        node |= _ran(match)
    elif "(never executed)" in line:
        node |= {"Actual Rows": 0.0, "Actual Loops": 0}
    if match["time"] is not None:
        node["Actual Total Time"] = float(match["time"])
    return len(match["indent"]), match["arrow"] is not None, node


def bare_node_of(line: str, *, is_first: bool = False) -> tuple[int, bool, dict[str, Any]] | None:
    """``node_of`` for a line whose figures an author left out, in a plan or the first of it."""
    bare = _BARE_FIRST_NODE.fullmatch(line) if is_first else _BARE_NODE.fullmatch(line)
    if bare is None or OF_NODE.search(line) or FIGURES.search(line):
        return None
    return len(bare["indent"]), not is_first, _kind(bare["name"])


def _kind(name: str) -> dict[str, Any]:
    """The node type by its name in FORMAT JSON, and what the text puts before it."""
    name = name.rstrip(" \t")
    node: dict[str, Any] = {"Parallel Aware": name.startswith("Parallel ")}
    name = name.removeprefix("Parallel ").removeprefix("Async ")
    if scanned := _NAMED_SCAN.match(name):
        return node | {"Node Type": f"{scanned[1]} Scan", "CTE Name": scanned[2]}
    name = name.split(" on ")[0].split(" using ")[0]
    if join := _JOIN.match(name):
        return node | {"Node Type": join[2] or f"{join[1]} Join"}
    kind = next((kind for kind in ("Aggregate", "SetOp") if kind in name), name)
    return node | {"Node Type": kind}


@lru_cache
def _name_of_blocks(kind: str, name: str) -> str:
    """The name of a count of blocks in FORMAT JSON, one text in the memory of all plans."""
    return f"{kind.title()} {name.title()} Blocks"


def _buffers(match: re.Match[str]) -> dict[str, Any]:
    blocks = {
        _name_of_blocks(temp["kind"], name): value.rstrip(".,")
        for temp in _TEMP.finditer(match[0])
        for name, value in _PAIR.findall(temp["pairs"])
    }
    known = {name: int(value) for name, value in blocks.items() if value.isdecimal()}
    is_temp = any(name.startswith("Temp ") for name in blocks.keys() - known.keys())
    if is_temp or _WHOLE.match(match[0]) is None:
        raise not_understood(match[0])
    return known


def not_understood(line: str) -> ValueError:
    """The error for a line with figures of a spill, such as in another unit."""
    return ValueError(f"a line is not understood: {line.strip()[:200]}")


def _timings(match: re.Match[str]) -> dict[str, Any]:
    parts = [(_KINDS[part["kind"]], part["pairs"]) for part in _TEMP.finditer(match[0])]
    times = {
        f"{kind}I/O {name.title()} Time": value.removesuffix("ms")
        for kind, pairs in parts or [("", match[0])]
        for name, value in _PAIR.findall(pairs)
    }
    if any(re.search(r"[^\d.,]", text) for text in times.values()) or not _WHOLE.match(match[0]):
        raise not_understood(match[0])
    return {name: milliseconds(text) for name, text in times.items()}


def milliseconds(text: str) -> float:
    """A time with three decimals after a point or a comma, or without decimals."""
    digits, point, decimals = text.strip(".,").replace(",", ".").rpartition(".")
    return float(f"{digits.replace('.', '')}{point}{decimals}")


def _ran(match: re.Match[str]) -> dict[str, Any]:
    loops = {"Actual Loops": int(match["loops"])} if match["loops"] else {}
    # PostgreSQL 18 introduced both fractions of rows and this key of its JSON.
    newer = {"Disabled": False} if "." in match["rows"] else {}
    return {"Actual Rows": float(match["rows"]), **loops, **newer}


def _batches(match: re.Match[str]) -> dict[str, Any]:
    """The batches of a hash, whose line also has buckets, or of a hash aggregate."""
    text = match.string
    hashed = "Buckets:" in text
    values: dict[str, Any] = {}
    for name, value, originally in _BATCHES.findall(text):
        if hashed and name in {"Buckets", "Batches"}:
            values[f"Hash {name}"] = int(value)
            values[f"Original Hash {name}"] = int(originally or value)
        elif name == "Batches":
            values["HashAgg Batches"] = int(value)
        else:
            values["Peak Memory Usage" if name.endswith("Memory Usage") else name] = int(value)
    if any(map(_PART_OF_BATCHES.search, _BATCHES.split(text)[::4])):
        raise not_understood(text)
    return values


def _sort(match: re.Match[str]) -> dict[str, Any]:
    return {
        "Sort Method": match["method"],
        "Sort Space Used": int(match["kb"]),
        "Sort Space Type": match["kind"],
    }


_OF_BATCHES = re.compile(r"[A-Z][A-Za-z ]{,30}: \d.*"), _batches
_OF_GROUPS = (
    re.compile(r"([A-Z][a-z-]{,12} Groups): (\d+\s.*Sort Methods?:.*)"),
    lambda m: {m[1]: m[2]},
)
_NUMBER = re.compile(r"([A-Z][A-Za-z ]{,30}): (\d+)"), lambda m: {m[1]: int(m[2])}
_NUMBERS = (
    *("Workers Planned", "Workers Launched", "Rows Removed by Filter", "Subplans Removed"),
    "Task Count",
    *(f"{kind} {op} Blocks" for kind in ("Shared", "Local", "Temp")
      for op in ("Hit", "Read", "Dirtied", "Written")),
)  # fmt: skip
#: The pattern and the reader of each detail of a node, by the label of its line.
_DETAILS: dict[str, tuple[re.Pattern[str], Callable[[re.Match[str]], dict[str, Any]]]] = {
    "Buffers": (re.compile(r"Buffers: .*"), _buffers),
    "I/O Timings": (re.compile(r"I/O Timings: .*"), _timings),
    "Sort Method": (
        re.compile(
            r"Sort Method: {1,2}(?P<method>\S(?:.{,80}?\S)??)\s++"
            r"(?P<kind>Disk|Memory): (?P<kb>\d+) ?kB"
            # A remark that the size is only that of one process.
            r"(?!\W{,3}[\u00d7x*] ?\d|.*\bper (?:worker|process)\b)"
        ),
        _sort,
    ),
    "Storage": (
        re.compile(r"Storage: (\w+)\s+Maximum Storage: (\d+)kB"),
        lambda m: {"Storage": m[1], "Maximum Storage": int(m[2])},
    ),
    "Single Copy": (re.compile(r"Single Copy: true"), lambda _: {"Single Copy": True}),
    "Output": (re.compile(r"Output: .*"), lambda m: {"Output": m[0]}),
    **dict.fromkeys(("Planned Partitions", "Buckets", "Batches", "Disk Usage"), _OF_BATCHES),
    **dict.fromkeys(("Full-sort Groups", "Pre-sorted Groups"), _OF_GROUPS),
    **dict.fromkeys(_NUMBERS, _NUMBER),
}
#: The figures of a worker, which have no label.
_OF_WORKER = re.compile(rf"{_ACTUAL}\s*"), _ran
#: Lines with expressions and names, which may contain anything, even text that looks like figures.
SKIPPED = re.compile(
    r"(?:[A-Za-z -]*(?:Cond|Filter|Key|Keys|Clause|Output|Expression|Predicate|Query|SQL|Text|Call"
    r"|Name|Sampling|Parameters|Node|Param|Params Evaluated))\s*:"
)


def detail_of(text: str) -> dict[str, Any] | None:
    """The values in a line below a node; None for a line that is not read.

    ValueError if more figures of a spill follow than are read, such as those of a second sort.
    """
    if _COUNTED.match(text):
        text = _SEPARATOR.sub("", text)
    pattern, read = _DETAILS.get(text.partition(":")[0], _OF_WORKER)
    if (match := pattern.match(text)) is None:
        return None
    if FIGURES.search(text, match.end()):
        raise not_understood(text)
    return read(match)
