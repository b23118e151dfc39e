"""Parquet files -> tables that are checked, and tables -> Parquet files."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.columns import NAME, TEXT, Field
from spillcast.errors import FileTooLarge
from spillcast.gate import COUNT_MAX, damaged, reading
from spillcast.tables import Table

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
    for batch in core_batches_of(
        path, fields, hint, signed=signed, content=content, rows=rows, whole=whole
    ):
        yield Table.from_arrow(batch).cast(fields)


def core_batches_of(
    path: Path | str,
    fields: Sequence[Field],
    hint: str | None = None,
    *,
    signed: Collection[str] = (),
    content: bytes | None = None,
    rows: int,
    whole: bool = False,
) -> Iterator[_core.Table]:
    """The same as the core reads them, for code of the core: a column may lack or be narrower."""
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
        rules = [
            (field.name, field.nullable, *bounds_of(field.name, signed=field.name in signed))
            for field in fields
        ]
        batches = file.batches(places, rows, rules)
    while True:
        with reading(path, hint):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


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


def bounds_of(name: str, *, signed: bool) -> tuple[int, int]:
    """The least and the greatest number that a column of a table may hold."""
    greatest = _INT64_MAX if name in _ANY_SIZE else COUNT_MAX
    return (-greatest - 1 if signed else 0), greatest


_INT64_MAX = (1 << 63) - 1
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
