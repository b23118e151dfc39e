"""The tables of schema.md and the JSON Schemas: ``python docs/generate_schema.py`` writes them.

Each stands between ``<!-- types: NAME -->`` and ``<!-- end of types -->``; what is around is prose.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spillcast.cache.simulation import CacheResult
from spillcast.columns import NAME
from spillcast.document import schema
from spillcast.engines.ranking import ServerRanking
from spillcast.errors import kinds
from spillcast.evidence.figures import StatedFigures
from spillcast.fleet import Fleet
from spillcast.forecast import Forecast
from spillcast.lab.case import COLUMNS, Verification
from spillcast.lab.doctor import Diagnosis
from spillcast.lab.io_size import IoSizeSweep
from spillcast.lab.memory_result import MemorySweep
from spillcast.profile.functions import Stacks
from spillcast.recording.calibration import Calibration, KeptCost
from spillcast.recording.meta import Meta
from spillcast.recording.schema import SAMPLES, SECONDS, WAITS, Described
from spillcast.recording.server import ServerRecording
from spillcast.storage.storage import Storage

PAGE = Path(__file__).with_name("schema.md")
SCHEMAS = PAGE.with_name("schemas")
_MARKED = re.compile(r"(<!-- types: ([\w.-]+) -->\n).*?(<!-- end of types -->)", re.DOTALL)


def key_lines(kind: type) -> list[str]:
    """The keys of a document as lines of Markdown."""
    lines = ["| key | unit | meaning | example |", "| --- | --- | --- | --- |"]
    document = schema(kind)
    for name, about in keys(resolved(document, document), document):
        examples = about.get("examples")
        shown = f"`{json.dumps(examples[0])}` " if examples else ""
        unit = f"{about['unit']} " if "unit" in about else ""
        lines.append(f"| `{name}` | {unit}| {about['description']} | {shown}|")
    return lines


def keys(
    part: Mapping[str, Any], document: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The keys with a description, those of parts with a dot or ``[].`` before them."""
    for name, about in part.get("properties", {}).items():
        inner, path = resolved(about, document), f"{prefix}{name}"
        items = resolved(inner.get("items") or {}, document)
        if "properties" in items:
            inner, path = items, f"{path}[]"
        if "description" in about:
            yield path, about
        yield from keys(inner, document, f"{path}.")


def resolved(about: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a part that a key refers to, or that may be null."""
    while "$ref" in about or "anyOf" in about:
        if "anyOf" in about:
            about = about["anyOf"][0]
        else:
            about = document["$defs"][about["$ref"].rpartition("/")[2]]
    return about


def column_lines(columns: Iterable[Described]) -> list[str]:
    """The columns of a file as lines of Markdown."""
    lines = ["| column | type | null | meaning | example |", "| --- | --- | --- | --- | --- |"]
    for column in columns:
        null = "yes" if column.nullable else "no"
        example = "" if column.example is None else f"`{column.example}`"
        words = type_words(column.type)
        lines.append(f"| `{column.name}` | {words} | {null} | {column.meaning} | {example} |")
    return lines


def type_words(kind: str) -> str:
    """A type of a column in words."""
    if kind.startswith("list of "):
        return f"list of {type_words(kind.removeprefix('list of '))}"
    if kind.startswith("struct of "):
        return "struct"
    return {NAME: "string (dictionary)", "float64": "double"}.get(kind, kind)


def error_lines() -> list[str]:
    """The codes of errors as lines of Markdown."""
    rows = [f"| `{kind.code}` | {kind.exit_status} | {kind.__doc__} |" for kind in kinds()]
    return ["| code | exit status | meaning |", "| --- | --- | --- |", *sorted(rows)]


def tables() -> dict[str, list[str]]:
    """All of them by name, as lines."""
    head, *rows = key_lines(Meta)
    of_a_query = [row for row in rows if re.match(r"\| `(server|sampling)\b", row)]
    return {
        "waits": column_lines(WAITS),
        "samples": column_lines(SAMPLES),
        "seconds": column_lines(SECONDS),
        "stacks": key_lines(Stacks),
        "meta": [head, *(row for row in rows if row not in of_a_query)],
        "query": [head, rows[0], *of_a_query],
        "capture_cost": key_lines(KeptCost),
        "calibration": key_lines(Calibration),
        "doctor": key_lines(Diagnosis),
        "server-recording": key_lines(ServerRecording),
        "figures": key_lines(StatedFigures),
        "cache": key_lines(CacheResult),
        "sweep-io-size": key_lines(IoSizeSweep),
        "sweep-memory": key_lines(MemorySweep),
        "verification": key_lines(Verification),
        "fleet": key_lines(Fleet),
        "storage": key_lines(Storage),
        "cases": column_lines(COLUMNS),
        "errors": error_lines(),
    }


def with_tables(text: str) -> str:
    """The page with the tables as they should be."""
    known = tables()
    return _MARKED.sub(
        lambda result: "\n".join([result[1], *known[result[2]], "", result[3]]), text
    )


def schemas() -> dict[str, str]:
    """The JSON Schemas of the documents whose every key is declared, by file."""
    kinds = {
        "cache": CacheResult,
        "calibration": Calibration,
        "capture_cost": KeptCost,
        "figures": StatedFigures,
        "fleet": Fleet,
        "server": ServerRanking,
        "storage": Storage,
        "sweep-io-size": IoSizeSweep,
        "sweep-memory": MemorySweep,
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    documents = {name: schema(kind) for name, kind in kinds.items()}
    documents["forecast"] = forecast_schema()
    return {
        f"{name}.json": json.dumps(head | document, indent=1) + "\n"
        for name, document in documents.items()
    }


def forecast_schema() -> dict[str, Any]:
    """The JSON Schema of forecasts for one target, for several, and for a folder of recordings."""
    document = dict(schema(Forecast))
    one_target = {"$ref": document.pop("$ref")}
    targets = object_with(verdict={"type": "object"}, targets=array_of(one_target))
    answer = {"anyOf": [one_target, targets]}
    each = object_with(recording={"type": "string"}, query={"type": ["string", "null"]}) | answer
    recordings = object_with(recordings=array_of(each))
    return {"anyOf": [one_target, targets, recordings], **document}


def object_with(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an object that has at least these keys."""
    return {"type": "object", "properties": properties, "required": [*properties]}


def array_of(items: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an array."""
    return {"type": "array", "items": items}


if __name__ == "__main__":
    SCHEMAS.mkdir(exist_ok=True)
    for file, text in schemas().items():
        (SCHEMAS / file).write_text(text)
    PAGE.write_text(with_tables(PAGE.read_text()))
