"""The tables of schema.md that the types tell: ``python docs/generate_schema.py`` writes them.

Each stands between ``<!-- types: NAME -->`` and ``<!-- end of types -->``; what is around is prose.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from spillcast.document import UNSHOWN, table
from spillcast.errors import kinds
from spillcast.evidence.figures.stated import StatedFigures
from spillcast.lab.doctor import Diagnosis
from spillcast.lab.truth_file import COLUMNS
from spillcast.recording.calibration import Calibration
from spillcast.recording.capture_cost import KeptCost
from spillcast.recording.meta import Meta
from spillcast.recording.schema import SAMPLES, SECONDS, WAITS, Column
from spillcast.recording.server_recording import ServerRecording
from spillcast.storage.storage import StorageDocument

PAGE = Path(__file__).with_name("schema.md")
_MARKED = re.compile(r"(<!-- types: ([\w.-]+) -->\n).*?(<!-- end of types -->)", re.DOTALL)


def key_lines(kind: type) -> list[str]:
    """The keys of a document as lines of Markdown."""
    lines = ["| key | unit | meaning | example |", "| --- | --- | --- | --- |"]
    for name, about in table(kind):
        shown = "" if about.example is UNSHOWN else f"`{json.dumps(about.example)}` "
        unit = f"{about.unit} " if about.unit else ""
        lines.append(f"| `{name}` | {unit}| {about.meaning} | {shown}|")
    return lines


def column_lines(columns: Iterable[Column]) -> list[str]:
    """The columns of a file as lines of Markdown."""
    lines = ["| column | type | null | meaning | example |", "| --- | --- | --- | --- | --- |"]
    for column in columns:
        null = "yes" if column.nullable else "no"
        example = "" if column.example is None else f"`{column.example}`"
        words = type_words(column.type)
        lines.append(f"| `{column.name}` | {words} | {null} | {column.meaning} | {example} |")
    return lines


def type_words(kind: pa.DataType) -> str:
    """A type of Arrow in words."""
    if pa.types.is_list(kind):
        inner = kind.value_type
        return f"list of {type_words(inner)}"
    if pa.types.is_struct(kind):
        return "struct"
    return "string (dictionary)" if pa.types.is_dictionary(kind) else str(kind)


def error_lines() -> list[str]:
    """The codes of errors as lines of Markdown."""
    rows = [f"| `{kind.code}` | {kind.exit_status} | {kind.__doc__} |" for kind in kinds()]
    return ["| code | exit status | meaning |", "| --- | --- | --- |", *sorted(rows)]


def tables() -> dict[str, list[str]]:
    """All of them by name, as lines."""
    head, *rows = key_lines(Meta)
    of_a_query = [row for row in rows if re.match(r"\| `(postgres|sampling)\b", row)]
    return {
        "waits": column_lines(WAITS),
        "samples": column_lines(SAMPLES),
        "seconds": column_lines(SECONDS),
        "meta": [head, *(row for row in rows if row not in of_a_query)],
        "query": [head, rows[0], *of_a_query],
        "capture_cost": key_lines(KeptCost),
        "calibration": key_lines(Calibration),
        "doctor": key_lines(Diagnosis),
        "server-recording": key_lines(ServerRecording),
        "figures": key_lines(StatedFigures),
        "storage": key_lines(StorageDocument),
        "cases": column_lines(COLUMNS),
        "errors": error_lines(),
    }


def with_tables(text: str) -> str:
    """The page with the tables as they should be."""
    known = tables()
    return _MARKED.sub(lambda found: "\n".join([found[1], *known[found[2]], "", found[3]]), text)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
