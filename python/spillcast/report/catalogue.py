"""The catalogue as a table, names first, and as a document."""

from collections.abc import Sequence
from typing import Any

from spillcast.report.page import Page, Words
from spillcast.report.table import Column, Table
from spillcast.storage.catalogue import Row, figures

CATALOGUE_SCHEMA = "spillcast.catalogue/1"
_COLUMNS = (
    Column("catalogue:", "name"),
    Column("what it is", "what", spare=1),
    Column("8K read", "read_8k_s", "s"),
    Column("256K write", "write_256k_s", "s"),
    Column("MB/s", "write_bytes_per_s", "MB/s"),
    Column("IOPS", "reads_per_s", "whole"),
    Column(None, "spread", "number"),
)


def catalogue_page(rows: Sequence[Row]) -> Page:
    """One line a storage: a random read, a sequential write, bytes written and reads a second."""
    table = Table.of(_COLUMNS, [_entry(row) for row in rows])
    notes = [
        "Latency of a single random read and a single sequential write; then the maximum rates of "
        "sequential writes of 256 KiB and random reads of 8 KiB. Published figures, not measured; "
        "with bursts, while they last."
    ]
    for row in rows:
        if row.parameters:
            choice = ", ".join(f"{p.key} {p.allowed}" for p in row.parameters)
            notes.append(f"{row.name}?... {choice}")
    return Page([table, Words([f"  {note}" for note in notes], "  ")], table)


def catalogue_document(rows: Sequence[Row]) -> dict[str, Any]:
    """Form ``spillcast.catalogue/1``."""
    return {"schema": CATALOGUE_SCHEMA, "storages": [_entry(row) for row in rows]}


def _entry(row: Row) -> dict[str, Any]:
    storage = row.storage()
    known = figures(storage)
    return {
        "name": row.name,
        "what": row.title,
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
