"""Finds the plans in a file: in text, JSON, XML or YAML, among other text, or in a log."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, EvidenceUnknown, NoTempIo
from spillcast.evidence.numbers import FigureCheck, amount, check_all
from spillcast.evidence.postgres import BLOCK_BYTES, TEMP_BLOCKS, cte_name
from spillcast.evidence.postgres.node_lines import FIGURES, OF_NODE
from spillcast.evidence.postgres.nodes import (
    GATHERS,
    SIZES_NOTE,
    Node,
    all_nodes,
    by_process,
    count_disk_sizes,
    nodes_of,
    sizes_kib,
    sorts_kib,
)
from spillcast.evidence.postgres.text import ELSEWHERE, begins_plan, documents_of_text
from spillcast.evidence.text import head_of, json_or_none, text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import damaged, json_values, reading, xml_of

HINT = (
    "make it with: EXPLAIN (ANALYZE, BUFFERS, VERBOSE, TIMING OFF, FORMAT JSON) SELECT ..., "
    "from PostgreSQL 12 on also with SETTINGS"
)
#: The maximum number of lines about spilling segments that an error shows.
ELSEWHERE_LISTED = 4
#: Lines of Greenplum: below each executed node before version 6, and for each slice of a plan.
_RAN_ON_SEGMENTS = re.compile(r"^[^\S\n]*(?:Rows out: |\(slice\d+\) +Executor memory: )", re.M)
#: The time of the run, in the last lines of a plan.
_RAN = re.compile(r"(?:Execution [Tt]ime|Total runtime) ?:")
#: Work files of a segment's node, by their size or by the number of batches.
_ON_SEGMENT_DISK = re.compile(r" Disk(?: Usage)?: |\bBatches: (?!1\b)\d")
#: The name of a node in a text, and its type in JSON, XML and YAML.
_NODE_NAME = re.compile(
    r"^(?P<name>[^(]*)\((?:.*\()?(?:cost=|actual)|\bNode[ -]Type\W{1,4}(?P<type>\w[\w ]*\w)"
)
#: What auto_explain prints before a plan, with or without the prefix of a server's log.
LOGGED = re.compile(r"duration: (?P<ms>[\d.]+) ms\s+plan:[ \t]*")
#: Marks of a server's log: messages with their level, in lines of text, CSV or JSON.
_LOG = re.compile(
    r"\b(?:LOG|STATEMENT|DETAIL|HINT|CONTEXT):  |duration: [\d.]+ ms\s+plan:|temporary file: path"
    r"|/pgsql_tmp\d"
    r'|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \w+,(?:[^,\n]*,){10}(?:LOG|ERROR),|"error_severity"'
)
#: auto_explain's labels for the statement and, since version 16, its parameters.
_TEXT, _PARAMETERS = "Query Text:", "Query Parameters:"
_XML = re.compile(r"<explain\b(?>[^<]|<(?!/?explain\b))*+</explain>")
_YAML = re.compile(r"^(?P<indent> *)(?:- )?(?:Plan: *$|Query Text: \")", re.MULTILINE)
_CUT_NOTE = "another plan in the file is cut, and is left out"
CUT = "cut: its first node is below others, which are missing and may spill"
#: Keys of a node whose values are strings.
_TEXTS = (
    "CTE Name", "Node Type", "Parent Relationship", "Sort Method", "Sort Space Type", "Strategy",
    "Subplan Name",
)  # fmt: skip
NODES = ("Plans", "Workers")
#: Each process buffers this much of each batch of a hash before it writes any of it.
_BATCH_BUFFER_BYTES = 32 << 10
#: Suffixes of the names of figures.
_NUMBERS = (
    " Batches", " Blocks", " Buckets", " Launched", " Loops", " Planned", " Rows", " Storage",
    " Time", " Usage", " Used", " Width", " by Filter",
)  # fmt: skip
#: The type of a value, by its key or the end of it.
_KINDS_OF_VALUES: Sequence[tuple[tuple[str, ...], Any, str]] = (
    (NODES, list, "list"),
    (_TEXTS, str, "text"),
    (_NUMBERS, int | float, "number"),
)
#: A hyphen in place of a blank in the name of a tag.
_SPACED = re.compile(r"(?<!Full)(?<!Pre)-")
#: A line of YAML as EXPLAIN writes it.
_YAML_LINE = re.compile(
    r" *+(?:- )?(?:\w[\w./ -]*:(?: |$))?(?:\"(?:[^\"\\]|\\.)*\"|-?[\d.]+|true|false|) *"
)
#: Lines of a plan, as opposed to other YAML below it.
_YAML_FIGURES = re.compile(r" +(?:- )?(?:Node Type|Actual Loops|Temp \w+ Blocks|Execution Time):")
_YAML_PAIR = re.compile(r"(?P<key>\"[^\"]+\"|[^:\"\s][^:\"]*):(?: (?P<value>.*))?")


def read_documents(path: Path) -> list[dict[str, Any]]:
    """All plans in a file, in the form of FORMAT JSON. InputError if there is none."""
    with reading(path, HINT):
        text = unwrapped(text_of(path), until=_is_document)
        documents = pasted_documents(text)
        if not documents:
            raise EvidenceUnknown("holds no whole plan of EXPLAIN")
        return documents


def pasted_documents(text: str) -> list[dict[str, Any]]:
    """The plans in a plain text; empty only if it has no figures of plans either."""
    documents = documents_of(text)
    if not documents and (figures := FIGURES.search(text)):
        line = text[text.rfind("\n", 0, figures.start()) + 1 :].partition("\n")[0].strip()
        is_node = figures[0].startswith("(")
        missing = "the node of a line is missing or has no figures"
        problem = "a line is not understood" if is_node else missing
        raise EvidenceDamaged(f"{problem}: {line[:200]}")
    nodes = (node for document in documents for node in all_nodes(document["Plan"]))
    if documents and not any(node.get("Temp Written Blocks") for node in nodes):
        _check_elsewhere(text)
    return documents


def _is_document(text: str) -> bool:
    """Whether a text is a plan in JSON or YAML as EXPLAIN writes it, with nothing around it."""
    if text.startswith("- Plan:"):
        return all(map(_YAML_LINE.fullmatch, text.split("\n")))
    return text.lstrip()[:1] in ("[", "{") and bool(_plans_of(json_or_none(text)))


def is_log(path: Path) -> bool:
    """Whether the beginning of a file looks like a server's log."""
    return _LOG.search(head_of(path).replace("\u00a0", " ")) is not None


def documents_of(text: str) -> list[dict[str, Any]]:
    """The plans in a plain text: those in JSON, XML or YAML, then those in text format."""
    documents: list[dict[str, Any]] = []
    cut: EvidenceDamaged | None = None
    if '"Plan"' in text:
        try:
            documents = _plans_of(list(json_values(text, '"Plan"')))
        except EvidenceDamaged as error:
            cut = error
    if not documents and "<explain" in text:
        documents = [_of_xml(match[0]) for match in _XML.finditer(text)]
        if text.count("<explain") > len(documents):
            cut = EvidenceDamaged("cut or damaged: a plan in XML without its end")
    if not documents and "Node Type:" in text and (match := _YAML.search(text)):
        lines = [line for line in text[match.start() :].split("\n") if line.strip()]
        value, end = _block(lines, 0)
        if any(map(_YAML_FIGURES.match, lines[end:])):
            raise damaged("text between lines of YAML: remove it, or give one plan at a time")
        documents = _plans_of(value)
    lines = text.split("\n")
    if not documents:
        documents = documents_of_text(lines) or _nodes_alone(text)
    elif OF_NODE.search(text) and any(map(begins_plan, lines)):
        # Text beside a plan may quote single nodes, without details.
        plans = documents_of_text(lines)
        documents += [p for p in plans if "Execution Time" in p or "Temp Read Blocks" in p["Plan"]]
    if cut is not None and not documents:
        raise cut
    for document in documents:
        _complete(document, [_CUT_NOTE] if cut is not None else [])
    # A paste may have EXPLAIN's plan without ANALYZE beside the plan of the run.
    return [document for document in documents if "Actual Loops" in document["Plan"]] or documents


def document_of(value: Any) -> dict[str, Any]:
    """The plan in a JSON value. EvidenceDamaged if it has none, ValueError for another shape."""
    documents = _plans_of(value)
    if not documents:
        raise damaged("no plan of EXPLAIN")
    _complete(documents[0], [])
    return documents[0]


def _complete(document: dict[str, Any], notes: list[str]) -> None:
    """Gives a plan the newest version's names, settings as strings, counts of its files and notes.

    ValueError for values of another type.
    """
    if "Total Runtime" in document:
        # The name in version 9.3 and older.
        document["Execution Time"] = document.pop("Total Runtime")
    if not isinstance(settings := document.get("Settings", {}), dict):
        raise ValueError("Settings is not an object")
    for name, value in settings.items():
        settings[name] = value if isinstance(value, str) else json.dumps(value)
    _check_shape(document)
    _add_workers(document["Plan"])
    if "Execution Time" in document and document["Plan"].get("Temp Written Blocks"):
        # Counted temp I/O shows that the first node ran, even without its rows.
        document["Plan"].setdefault("Actual Loops", 1)
    if count_disk_sizes(document["Plan"]):
        if any(map(_lacks_size, all_nodes(document["Plan"]))):
            raise ValueError("a hash aggregate has batches, but no size on disk")
        notes.append(SIZES_NOTE)
    if notes:
        document["Notes"] = notes


def _add_workers(values: dict[str, Any]) -> list[int]:
    """Adds the workers' temp blocks to nodes above a Gather that show only those of the leader.

    PostgreSQL 10 and older leave them out; the lines of workers in a VERBOSE plan prove it. Returns
    the blocks that the node showed, for a Gather those of the leader.
    """
    shown = _temp_blocks(values)
    children = [child for child in values.get("Plans", ()) if not cte_name(child)]
    of_leader = [sum(parts) for parts in zip(*map(_add_workers, children), strict=True)]
    if values["Node Type"] in GATHERS:
        workers = [worker for child in children for worker in child.get("Workers", ())]
        parts = zip(shown, *map(_temp_blocks, workers), strict=True)
        return [blocks - sum(of_workers) for blocks, *of_workers in parts]
    of_all = [sum(parts) for parts in zip(*map(_temp_blocks, children), strict=True)]
    if shown == of_leader != of_all:
        values.update(zip(TEMP_BLOCKS, of_all, strict=True))
    return shown


def _temp_blocks(values: Mapping[str, Any]) -> list[int]:
    return [values.get(name, 0) for name in TEMP_BLOCKS]


def logged_plan(message: str) -> dict[str, Any] | None:
    """The plan in a message of auto_explain, with the time above it as its ``Execution Time``."""
    match = LOGGED.match(message)
    if match is None:
        return None
    body = message[match.end() :].lstrip("\n").split("\n")
    text, lines = _after_the_query(body)
    documents = documents_of("\n".join(lines))
    if not documents:
        return None
    named = {"Query Text": text} if text else {}
    documents[0].pop("Cut", None)
    return {"Execution Time": float(match["ms"]), **named, **documents[0]}


def _after_the_query(body: list[str]) -> tuple[str, list[str]]:
    """The statement above a plan, which may span several lines, and the lines of the plan."""
    if not body or not body[0].lstrip().startswith(_TEXT):
        return "", body
    ends = (
        at
        for at, line in enumerate(body)
        if at and (line.lstrip().startswith(_PARAMETERS) or begins_plan(line))
    )
    end = next(ends, 1)
    # In YAML the statement is quoted.
    text = "\n".join(body[:end]).lstrip().removeprefix(_TEXT)
    return str(_value(text)), body[end:]


def _check_elsewhere(text: str) -> None:
    """InputError if segments of Greenplum, or a node that is not in the text, spill."""
    node, spilling = "", list[str]()
    has_segments = re.search(r"\bMotion \d+:\d+", text) is not None
    for line in text.split("\n"):
        if named := _NODE_NAME.search(line):
            node = (named["name"] or named["type"] or "").strip(" ->")
        elif ELSEWHERE.search(line) or (has_segments and _ON_SEGMENT_DISK.search(line)):
            words = " ".join(line.split())[:120]
            spilling.append(words if "(slice" in words else f"{node}: {words}")
        elif re.match(r"\s*Buffers: .*\btemp .*written=[1-9]", line):
            raise EvidenceDamaged(f"the node of a line is missing: {line.strip()[:200]}")
    if spilling:
        raise EvidenceUnknown(
            "its segments spill, and the plan has no counts of that I/O: "
            + "; ".join(dict.fromkeys(spilling[:ELSEWHERE_LISTED])),
            "give figures of one segment: figures:elapsed=ELAPSED,spilled=SIZE,size=32K; or record "
            "it there",
        )
    if _RAN_ON_SEGMENTS.search(text):
        if _RAN.search(text) is None:
            raise EvidenceIncomplete("cut: nodes in its missing lines may have spilled")
        raise NoTempIo("this query does not spill: no segment wrote work files")


def _plans_of(value: Any) -> list[dict[str, Any]]:
    """The objects with a plan: the value itself, or values in lists."""
    if isinstance(value, list):
        return [plan for each in value for plan in _plans_of(each)]
    return [value] if isinstance(value, dict) and isinstance(value.get("Plan"), dict) else []


def _nodes_alone(text: str) -> list[dict[str, Any]]:
    """Plans of the nodes in JSON that a text has without the rest of their plans."""
    values = list[Any]()
    with suppress(EvidenceDamaged):
        values = list(json_values(text, '"Node Type"')) if '"Node Type"' in text else []
    nodes = (value for value in values if isinstance(value, dict) and "Node Type" in value)
    return [{"Plan": n, "Excerpt" if "Parent Relationship" in n else "Cut": True} for n in nodes]


def _of_xml(text: str) -> dict[str, Any]:
    root = xml_of(text)
    # The root of EXPLAIN's XML contains a query; that of auto_explain's contains text and plan.
    query = next((child for child in root if child.tag.endswith("}Query")), root)
    plans = _plans_of(_element(query))
    if not plans:
        raise damaged("a plan in XML without a plan")
    return plans[0]


def _element(element: Any) -> Any:
    """An object, a list (of elements of the same kind) or a value, as in FORMAT JSON."""
    children = list(element)
    names = [child.tag.rpartition("}")[2] for child in children]
    tag = element.tag.rpartition("}")[2]
    if not children:
        return [] if tag in NODES else _value(element.text or "")
    if tag == "Plans" or tag == f"{names[0]}s" or (tag.endswith("Key") and names[0] == "Item"):
        return [_element(child) for child in children]
    pairs = zip(names, children, strict=True)
    return {_SPACED.sub(" ", name.replace("I-O", "I/O")): _element(child) for name, child in pairs}


def _value(text: str) -> Any:
    """The value of a text: a number, a Boolean, a string with or without quotes."""
    text = text.strip()
    value = json_or_none(text)
    if isinstance(value, str | int | float):
        return value
    return text.strip('"') if text[:1] == '"' else text


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _block(lines: list[str], at: int) -> tuple[Any, int]:
    """The list or object in the lines from ``at`` on with equal indentation, and the next line."""
    indent, items, values = _indent(lines[at]), list[Any](), dict[str, Any]()
    while at < len(lines) and _indent(lines[at]) == indent:
        pair = _YAML_PAIR.fullmatch(lines[at].strip().removeprefix("- "))
        is_item = lines[at].lstrip().startswith("- ")
        if bool(values if is_item else items) or not (is_item or pair):
            break
        if is_item and pair:
            lines[at] = lines[at].replace("- ", "  ", 1)
            item, at = _block(lines, at)
            items.append(item)
        elif pair is None:
            items.append(_value(lines[at].strip().removeprefix("- ")))
            at += 1
        elif not pair["value"] and at + 1 < len(lines) and _indent(lines[at + 1]) > indent:
            values[pair["key"].strip('"')], at = _block(lines, at + 1)
        else:
            key, value = pair["key"].strip('"'), _value(pair["value"] or "")
            values[key] = [] if key in NODES and value == "" else value
            at += 1
    return items or values, at


def _check_shape(document: Mapping[str, Any]) -> None:
    """ValueError if a key of a plan has a value of another type than PostgreSQL writes.

    An executed node without a number of loops ran once, unless it is below a Gather.
    """
    if not isinstance(document.get("Execution Time", 0), int | float):
        raise ValueError("Execution Time is not a number")
    waiting = [(document["Plan"], True)]
    while waiting:
        node, once = waiting.pop()
        if not isinstance(node, dict):
            raise ValueError("a node of the plan is not an object")
        if "Node Type" not in node and "Worker Number" not in node:
            raise ValueError("a node of the plan has no Node Type")
        if "Actual Rows" in node and once:
            node.setdefault("Actual Loops", 1)
        for name, value in node.items():
            kind, words = _kind_of_value(name)
            if not isinstance(value, kind):
                raise ValueError(f"{name} is not a {words}")
            if words == "number":
                amount(value, name)
        once = once and node.get("Node Type") not in GATHERS
        waiting += [(child, once) for name in NODES for child in node.get(name, ())]


@lru_cache
def _kind_of_value(name: str) -> tuple[Any, str]:
    """The type of a key's value, and its name; any for a key that is not read."""
    kinds = ((kind, words) for names, kind, words in _KINDS_OF_VALUES if name.endswith(names))
    return next(kinds, (object, "value"))


def check_sums(top: Node) -> None:
    """InputError if descendants spilled more than the top node, which includes them, reports."""
    nodes = list(top.walk())
    total, max_blocks = top.all_temp.blocks, max(node.all_temp.blocks for node in nodes)
    parts = f"{max_blocks:,} temp blocks of a node"
    plan = f"{total:,} of the entire plan"
    check_all([FigureCheck("children-of-parent", max_blocks, parts, total, plan)])
    # Each block of a sort's file was written. A hash aggregate may not have used all of its file:
    # only a truncated number, which has at most a tenth of its value, is less than an eighth.
    size_kib, kind = max(
        (max(sum(sorts_kib(node.values)), sum(sizes_kib(node.values)) / 8), node.kind)
        for node in nodes
    )
    written = top.all_temp.written
    is_of_other = any(node.kind == "Named Tuplestore Scan" for node in nodes)
    if total and not written and not is_of_other:
        raise EvidenceIncomplete(f"its plan reads {total:,} temp blocks that it did not write")
    on_disk = (node.kind for node in nodes if not total and _is_on_disk(node.values))
    if written * BLOCK_BYTES < 1024 * size_kib or (kind := next(on_disk, "")):
        problem = f"is on disk, and the plan counts {written:,} temp blocks that were written"
        raise EvidenceIncomplete(f"its {kind} {problem}")


def none_spilled(document: Mapping[str, Any]) -> bool:
    """Whether a plan that is complete and has no sizes on disk has no node that spilled."""
    is_whole = "Execution Time" in document and not document.keys() & {"Excerpt", "Abridged"}
    return is_whole and all(node.shows_no_spill for node in nodes_of(document["Plan"]).walk())


def _lacks_size(values: Mapping[str, Any]) -> bool:
    """Whether a process of a hash aggregate has several batches, and their size is missing."""
    batched = [each for each in by_process(values) if each.get("HashAgg Batches", 1) > 1]
    return values["Node Type"] == "Aggregate" and not all("Disk Usage" in each for each in batched)


def _is_on_disk(values: Mapping[str, Any]) -> bool:
    """Whether the size of a node, or its batches and rows, show that it wrote temp files."""
    batches = values.get("Hash Batches", 1)
    rows_bytes = values.get("Actual Rows", 0) * values.get("Plan Width", 0)
    is_batched = batches > 1 and rows_bytes > batches * _BATCH_BUFFER_BYTES
    has_size = "Disk" in (values.get("Sort Space Type"), values.get("Storage"))
    return is_batched or has_size or values.get("Disk Usage", 0) > 0
