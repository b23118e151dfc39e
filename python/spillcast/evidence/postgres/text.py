"""A text plan of EXPLAIN as the document that FORMAT JSON would have given."""

import re
from collections.abc import Iterator
from typing import Any

_NODE = re.compile(
    r"^(?P<indent>\s*)(?P<arrow>->\s+)?(?P<name>\S(?:.*?\S)??)\s++\((?:cost=\d[^ ]* "
    r"rows=(?P<plan_rows>\d+) width=(?P<width>\d+)\)(?: \()?)?"
    r"(?:actual (?:time=\d+(?:\.\d+)?\.\.(?P<time>[\d.]+) )?rows=(?P<rows>[\d.]+) "
    r"loops=(?P<loops>\d+)\)"
    r"|never executed\))?\s*$"
)
_HEADING = re.compile(r"^\s*(?P<name>(?:InitPlan|SubPlan|CTE) \S+(?: \(.*\))?)\s*$")
_WORKER = re.compile(r"^\s*Worker (?P<number>\d+):\s*(?P<rest>.*)$")
_TEMP = re.compile(r"\btemp((?: (?:read|written|write)=[\d.]+)+)")
_PAIR = re.compile(r"\b(\w+)=([\d.]+)")
_BATCHES = re.compile(
    r"(Planned Partitions|Buckets|Batches|(?:Peak )?Memory Usage|Disk Usage): (\d+)"
    r"(?: \(originally (\d+)\))?"
)
_STORAGE = re.compile(r"Storage: (?P<kind>\w+)\s+Maximum Storage: (?P<kb>\d+)kB")
_SORT = re.compile(
    r"Sort Method: (?P<method>\S(?:.*?\S)??)\s++(?P<kind>Disk|Memory): (?P<kb>\d+)kB"
)
_SETTING = re.compile(r"(?<![\w.])([\w.]+) = '((?:[^']|'')*)'")


def document_of_text(lines: list[str]) -> dict[str, Any] | None:
    """The plan in ``lines``, which stand as PostgreSQL wrote them; None where there is none.

    Only what spillcast reads is taken over. Figures that the text leaves out because they are 0
    are 0 wherever the plan has buffers at all.
    """
    document: dict[str, Any] = {}
    nodes: list[tuple[int, dict[str, Any]]] = []
    headings: list[tuple[int, str]] = []
    worker: dict[str, Any] | None = None
    buffers = False
    for line in lines:
        if _summary(line, document):
            continue
        indent = len(line) - len(line.lstrip())
        if nodes and (heading := _HEADING.match(line)):
            headings.append((indent, heading["name"]))
        elif (indented := _node(line, first=not nodes)) is not None:
            at, node = indented
            while nodes and nodes[-1][0] >= at:
                nodes.pop()
            if nodes:
                nodes[-1][1].setdefault("Plans", []).append(node)
                if headings and nodes[-1][0] < headings[-1][0] < at:
                    node["Subplan Name"] = headings.pop()[1]
            else:
                document["Plan"] = node
            nodes.append((at, node))
            worker = None
        elif nodes and "Planning" not in document:
            buffers |= "Buffers:" in line
            if (match := _WORKER.match(line)) is not None:
                worker = {"Worker Number": int(match["number"])}
                nodes[-1][1].setdefault("Workers", []).append(worker)
                line = match["rest"]
            (worker if worker is not None else nodes[-1][1]).update(_details(line))
    if "Plan" not in document:
        return None
    document.pop("Planning", None)
    if buffers:
        for node in _all(document["Plan"]):
            node.setdefault("Temp Read Blocks", 0)
            node.setdefault("Temp Written Blocks", 0)
    return document


def begins_plan(line: str) -> bool:
    """Whether a line can be the first one of a plan."""
    return _node(line, first=True) is not None


def _summary(line: str, document: dict[str, Any]) -> bool:
    """Take a line that stands after all nodes; whether it is one."""
    text = line.strip()
    if text == "Planning:":
        document["Planning"] = True
    elif match := re.match(r"(Execution Time|Total runtime): ([\d.]+) ms", text):
        document["Execution Time"] = float(match[2])
    elif text.startswith("Settings:"):
        document["Settings"] = {name: value for name, value in _SETTING.findall(text)}
    else:
        return False
    return True


def _node(line: str, *, first: bool) -> tuple[int, dict[str, Any]] | None:
    """A node and the column its name begins in; only the first one has no arrow."""
    match = _NODE.match(line)
    if match is None or (match["arrow"] is None and not first):
        return None
    if match["plan_rows"] is None and match["loops"] is None:
        return None
    node: dict[str, Any] = _kind(match["name"])
    if match["plan_rows"] is not None:
        node |= {"Plan Rows": int(match["plan_rows"]), "Plan Width": int(match["width"])}
    if match["loops"] is not None:
        node |= {"Actual Rows": float(match["rows"]), "Actual Loops": int(match["loops"])}
    elif line.rstrip().endswith("never executed)"):
        node |= {"Actual Rows": 0.0, "Actual Loops": 0}
    if match["time"] is not None:
        node["Actual Total Time"] = float(match["time"])
    return len(match["indent"]), node


def _kind(name: str) -> dict[str, Any]:
    """The node type, as FORMAT JSON names it, and what else the text puts before it."""
    node: dict[str, Any] = {"Parallel Aware": name.startswith("Parallel ")}
    name = name.removeprefix("Parallel ").removeprefix("Async ")
    if scanned := re.match(r"(CTE|WorkTable) Scan on (\S+)", name):
        return node | {"Node Type": f"{scanned[1]} Scan", "CTE Name": scanned[2]}
    name = name.split(" on ")[0].split(" using ")[0]
    if join := re.match(r"(Hash|Merge|Nested Loop)(?: .*)? Join$|Nested Loop", name):
        return node | {"Node Type": f"{join[1]} Join" if join[1] else "Nested Loop"}
    if "Aggregate" in name:
        return node | {"Node Type": "Aggregate"}
    return node | {"Node Type": name}


def _details(line: str) -> dict[str, Any]:
    """What a line below a node says of it."""
    text = line.strip()
    if text.startswith("Buffers:") or text.startswith("I/O Timings:"):
        return dict(_temp(text))
    if match := _SORT.match(text):
        return {
            "Sort Method": match["method"],
            "Sort Space Used": int(match["kb"]),
            "Sort Space Type": match["kind"],
        }
    if match := _STORAGE.match(text):
        return {"Storage": match["kind"], "Maximum Storage": int(match["kb"])}
    if match := re.match(r"(Workers Planned|Workers Launched|Rows Removed by Filter): (\d+)", text):
        return {match[1]: int(match[2])}
    if match := re.match(r"actual (?:time=\d[^ ]* )?rows=([\d.]+) loops=(\d+)", text):
        return {"Actual Rows": float(match[1]), "Actual Loops": int(match[2])}
    if re.match(r"(Planned Partitions|Buckets|Batches):", text):
        return _batches(text)
    return {}


def _temp(text: str) -> Iterator[tuple[str, float]]:
    match = _TEMP.search(text)
    for name, value in _PAIR.findall(match[1]) if match else ():
        if text.startswith("Buffers:"):
            yield f"Temp {name.capitalize()} Blocks", int(value)
        else:
            yield f"Temp I/O {name.capitalize()} Time", float(value)


def _batches(text: str) -> dict[str, Any]:
    """Of a hash, which tells of its buckets, or of a hash aggregate."""
    hashed = "Buckets:" in text
    values: dict[str, Any] = {}
    for name, value, originally in _BATCHES.findall(text):
        if name in {"Buckets", "Batches"}:
            key = f"Hash {name}" if hashed else "HashAgg Batches"
            values[key] = int(value)
            if hashed:
                values[f"Original {key}"] = int(originally or value)
        elif name.endswith("Memory Usage"):
            values["Peak Memory Usage"] = int(value)
        else:
            values[name] = int(value)
    return values


def _all(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _all(child)
