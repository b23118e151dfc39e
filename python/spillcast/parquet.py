"""Parquet files -> tables that are checked, and tables -> Parquet files."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spillcast import _core
from spillcast.columns import NAME, TEXT, Column, Field
from spillcast.errors import FileTooLarge
from spillcast.gate import COUNT_MAX, damaged, reading
from spillcast.tables import Table
from spillcast.units import format_count

#: What a row of a table may take of the machine's memory, as a share of it.
_MEMORY_SHARE = 0.5


def table_of(
    path: Path | str,
    fields: Sequence[Field],
    hint: str | None = None,
    *,
    signed: Collection[str] = (),
    content: bytes | None = None,
) -> Table:
    """The columns ``fields`` of a Parquet file; ``content`` is what it holds, where it is known.

    Columns that may be null may lack, as in files of earlier versions; others of the file are left
    out. InputError where one lacks or is of another kind, or holds nulls, negative numbers (but
    for ``signed``), numbers that are not finite or invalid text; if it takes too much memory.
    """
    tables = [*batches_of(path, fields, hint, signed=signed, content=content, whole=True)]
    return Table.concat(tables) if tables else Table.empty(fields)


def batches_of(
    path: Path | str,
    fields: Sequence[Field],
    hint: str | None = None,
    *,
    signed: Collection[str] = (),
    content: bytes | None = None,
    rows: int = 1 << 16,
    whole: bool = False,
) -> Iterator[Table]:
    """The same, so many rows at a time; with ``whole`` all of them must fit into memory."""
    if content is None and not Path(path).exists():
        raise damaged(path, "there is no such file", hint)
    with reading(path, hint):
        file = _core.ParquetReader(path) if content is None else _parquet_in_memory(content)
        given = file.fields()
        _check_size(path, file.row_groups(), len(given), whole=whole)
        for field in fields:
            _check_field(path, field, given, hint)
        wanted = {field.name for field in fields}
        places = [place for place, (name, *_) in enumerate(given) if name in wanted]
        batches = file.batches(places, rows)
    while True:
        with reading(path, hint):
            batch = next(batches, None)
        if batch is None:
            return
        table = Table.from_arrow(batch)
        for field in fields:
            if field.name in table.columns:
                _check_column(path, field, table[field.name], field.name in signed, hint)
        yield table.cast(fields)


def _parquet_in_memory(content: bytes) -> _core.ParquetReader:
    with os.fdopen(os.memfd_create("spillcast"), "wb") as file:
        file.write(content)
        file.flush()
        return _core.ParquetReader(f"/proc/self/fd/{file.fileno()}")


def any_table_of(path: Path, hint: str | None = None) -> Table:
    """All columns of a Parquet file, whatever they are. InputError where it is damaged."""
    with reading(path, hint):
        file = _core.ParquetReader(path)
        fields = file.fields()
        _check_size(path, file.row_groups(), len(fields))
        tables = [Table.from_arrow(b) for b in file.batches([*range(len(fields))], 1 << 16)]
        return Table.concat(tables or [Table.empty(Field(*field) for field in fields)])


def _check_size(
    path: Path | str, groups: Sequence[tuple[int, int]], columns: int, *, whole: bool = True
) -> None:
    """InputError where the rows, or those of its largest row group, would not fit into memory."""
    if whole:
        groups = [(sum(size for size, _ in groups), sum(rows for _, rows in groups))]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for size, rows in groups:
        wanted = max(size, 8 * rows * columns)
        if min(size, rows) < 0 or wanted > _MEMORY_SHARE * memory:
            text = "" if whole else " in a row group"
            raise FileTooLarge(
                f"{path}: {rows:,} rows{text}, which would take {wanted >> 20:,} MiB of memory"
            )


def _check_field(
    path: Path | str, field: Field, given: Sequence[tuple[str, str, bool]], hint: Any
) -> None:
    """InputError where a column lacks, stands twice or is of another kind."""
    types = [type for name, type, _ in given if name == field.name]
    if len(types) > 1 or (not types and not field.nullable):
        text = "there is no column" if not types else "there are several columns"
        raise damaged(path, f"{text} {field.name}", hint)
    if types and _kind(types[0]) != _kind(field.type):
        given_type, wanted = (TEXT if type == NAME else type for type in (types[0], field.type))
        text = f"column {field.name} holds {given_type}, not {wanted}"
        raise damaged(path, text, hint)


def _kind(type: str) -> str:
    """What a type is of, however it is packed."""
    if type.startswith("list of "):
        return f"list of {_kind(type.removeprefix('list of '))}"
    if type.startswith("struct of "):
        members = (part.partition(" ") for part in type.removeprefix("struct of ").split(", "))
        return f"struct of {', '.join(f'{name} {_kind(of)}' for name, _, of in members)}"
    if type in (NAME, TEXT):
        return "text"
    return "integers" if type.startswith(("int", "uint")) else type


def _check_column(path: Path | str, field: Field, column: Column, signed: bool, hint: Any) -> None:
    """InputError for values that make no sense, also within lists."""
    name = field.name
    if not field.nullable and column.null_count:
        raise damaged(path, f"{name} is empty in {format_count(column.null_count, 'row')}", hint)
    if column.items is not None:
        inner = Field(name, column.items.type, nullable=False)
        _check_column(path, inner, column.items, signed, hint)
    for member, inside in column.members.items():
        _check_column(path, Field(f"{name}.{member}", inside.type), inside, signed, hint)
    if column.is_text or column.items is not None or column.values.dtype.kind not in "iuf":
        return
    values = column.drop_null().values
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise damaged(path, f"{name} is not finite in some row", hint)
    if not len(values):
        return
    lower, upper = values.min().item(), values.max().item()
    if in_bounds(name, lower, upper, signed=signed):
        return
    if lower < 0 and not signed:
        raise damaged(path, f"{name} is {lower:,} in some row, not 0 or more", hint)
    raise damaged(path, f"{name} is {max(upper, -lower):,} in some row", hint)


def in_bounds(name: str, lower: float, upper: float, *, signed: bool) -> bool:
    """Whether a column of a table may hold numbers between these two."""
    return (lower >= 0 or signed) and (max(upper, -lower) <= COUNT_MAX or name in _ANY_SIZE)


#: Columns of names and places, which nothing is summed up of.
_ANY_SIZE = frozenset(("session", "offset", "object", "sql_exec_id", "coordinator"))


def write_parquet(
    path: Path,
    table: Table,
    *,
    group_rows: int | None = None,
    key_values: Mapping[str, str] | None = None,
) -> None:
    """Write a table to a Parquet file. OSError where that fails.

    ``key_values`` stand beside the columns; a row group has at most ``group_rows`` rows.
    """
    writer = _core.ParquetWriter(path, table, group_rows, [*(key_values or {}).items()])
    writer.write(table)
    writer.close()
