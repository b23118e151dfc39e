"""Pages of the catalogue of storages and of managed databases."""

from collections.abc import Sequence
from typing import Any

from spillcast.report import Page, Prose
from spillcast.storage.catalogue import MOVABLE, CatalogueEntry, Managed, figures
from spillcast.tabular import Column, PrintedTable

_COLUMNS = (
    Column("catalogue:", "name"),
    Column("what it is", "what", spare=1),
    Column("8K read", "read_8k_s", "s"),
    Column("256K write", "write_256k_s", "s"),
    Column("MB/s", "write_bytes_per_s", "MB/s"),
    Column("IOPS", "reads_per_s", "integer"),
    Column(None, "spread", "number"),
)


def catalogue_page(rows: Sequence[CatalogueEntry]) -> Page:
    """A row for each storage: a random read, a sequential write, and the maximum rates."""
    table = PrintedTable.of(_COLUMNS, list(map(_entry, rows)))
    notes = [
        "  Latency of a single random read and a single sequential write; then the maximum rates "
        "of sequential writes of 256 KiB and random reads of 8 KiB. Published figures, not "
        "measured; with bursts, while they last."
    ]
    for row in rows:
        if row.parameters:
            choice = ", ".join(f"{p.key} {p.allowed}" for p in row.parameters)
            notes.append(f"  {row.name}?... {choice}")
    return Page([table, Prose(notes, "  ")], table)


def managed_page(services: Sequence[Managed]) -> Page:
    """A paragraph for each managed database: its storage, and whether temp files can move."""
    parts = []
    for service in services:
        lines = [
            f"{service.service}: {service.storage}.",
            f"  limits: {service.limits}",
            f"  temp files: {service.temp_files or MOVABLE['unknown']}",
            f"  can they move: {MOVABLE[service.movable]}; {service.how}",
        ]
        if service.rows:
            rows = ", ".join(f"catalogue:{name}" for name in service.rows.split())
            lines.append(f"  like: {rows}")
        lines.append(f"  source, read {service.read}: {service.source}")
        parts.append(Prose(lines))
    return Page(parts, PrintedTable.of_records(list(map(vars, services))))


def managed_document(services: Sequence[Managed]) -> dict[str, Any]:
    """The document of managed databases."""
    return {"schema": "spillcast.managed/1", "services": list(map(vars, services))}


def catalogue_document(rows: Sequence[CatalogueEntry]) -> dict[str, Any]:
    """The document of the catalogue."""
    return {"schema": "spillcast.catalogue/1", "storages": [_entry(row) for row in rows]}


def _entry(row: CatalogueEntry) -> dict[str, Any]:
    storage = row.storage()
    return {
        "name": row.name,
        "what": row.title,
        "description": row.description,
        **figures(storage),
        "spread": storage.facts["spread"],
        "assumed": storage.facts["assumed"],
        "source": row.source,
        "parameters": [
            {"key": p.key, "unit": p.unit, "default": p.default, "min": p.low, "max": p.high}
            for p in row.parameters
        ],
    }
