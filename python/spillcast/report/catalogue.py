"""The catalogue as a table, names first, and as a document."""

from collections.abc import Sequence
from typing import Any

from spillcast.report.table import paragraph, table_text
from spillcast.storage.catalogue import Row, figures
from spillcast.units import format_duration

CATALOGUE_SCHEMA = "spillcast.catalogue/1"
_HEADER = ("catalogue:", "what it is", "8K read", "256K write", "MB/s", "IOPS")


def catalogue_text(rows: Sequence[Row]) -> str:
    """One line a storage: a random read, a sequential write, bytes written and reads a second."""
    lines, choices = [], {}
    for row in rows:
        known = figures(row.storage())
        lines.append(
            (
                row.name,
                row.what,
                format_duration(known.read_s),
                format_duration(known.write_s),
                f"{known.write_bytes_per_s / 1e6:,.0f}",
                f"{known.reads_per_s:,.0f}",
            )
        )
        if row.parameters:
            choices[row.name] = ", ".join(f"{p.key} {p.allowed}" for p in row.parameters)
    text = table_text(_HEADER, lines, left=(0, 1))
    notes = [
        "One random read and one sequential write, each alone; then the most that goes: sequential "
        "writes of 256 KiB, random reads of 8 KiB. Looked up, not measured; what bursts, while it "
        "bursts.",
        *(f"{name}?... {choice}" for name, choice in choices.items()),
    ]
    return "\n".join([text, *(f"  {paragraph(note, '  ')}" for note in notes)])


def catalogue_document(rows: Sequence[Row]) -> dict[str, Any]:
    """Form ``spillcast.catalogue/1``."""
    return {"schema": CATALOGUE_SCHEMA, "storages": [_entry(row) for row in rows]}


def _entry(row: Row) -> dict[str, Any]:
    storage = row.storage()
    known = figures(storage)
    return {
        "name": row.name,
        "what": row.what,
        "description": row.description,
        "read_8k_s": known.read_s,
        "write_256k_s": known.write_s,
        "write_bytes_per_s": known.write_bytes_per_s,
        "reads_per_s": known.reads_per_s,
        "spread": storage.facts["spread"],
        "assumed": storage.facts["assumed"],
        "source": row.source,
        "parameters": [
            {"key": p.key, "unit": p.unit, "default": p.default, "min": p.low, "max": p.high}
            for p in row.parameters
        ],
    }
