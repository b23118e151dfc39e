"""Tables of numpy columns, for recordings and the core, and Parquet files of tables.

A table has ``__arrow_c_stream__``, so pyarrow, Polars, pandas and DuckDB read it without a copy of
its numbers.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.columns import NAME, TEXT, ColumnValues, Field, Flags, Integers
from spillcast.errors import FileTooLarge
from spillcast.gate import COUNT_MAX, damaged, reading

#: Numbers of threads, files or rows, in 32 bits because there are many.
Numbers = NDArray[np.int32]
#: Sorts after all text, in place of null.
_LAST = "\U0010ffff"


class Table:
    """Columns of the same length, by name."""

    def __init__(self, columns: Mapping[str, Any], num_rows: int | None = None) -> None:
        self.columns = {name: ColumnValues.of(values) for name, values in columns.items()}
        lengths = {len(column) for column in self.columns.values()} | {num_rows} - {None}
        if len(lengths) > 1:
            raise ValueError(f"columns of {sorted(map(str, lengths))} rows")
        self.num_rows: int = next(iter(lengths), 0) or 0

    @classmethod
    def empty(cls, fields: Iterable[Field]) -> "Table":
        """A table without rows."""
        return cls({}, 0).cast(fields)

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]], fields: Iterable[Field]) -> "Table":
        """A table of dictionaries, in which missing values are null."""
        return cls(
            {f.name: ColumnValues.of([row.get(f.name) for row in rows], f.type) for f in fields},
            len(rows),
        )

    @classmethod
    def from_arrow(cls, rows: Any) -> "Table":
        """The table of any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``."""
        if isinstance(rows, Table):
            return rows
        batches = [rows] if isinstance(rows, _core.Table) else _core.Table.taken(rows)
        return cls.concat([cls._of_batch(batch) for batch in batches])

    @classmethod
    def _of_batch(cls, batch: "_core.Table") -> "Table":
        rows, columns = len(batch), {}
        for name, type, nullable in batch.fields():
            try:
                columns[name] = ColumnValues.from_core(batch.column(name), nullable)
            except TypeError:
                # numpy lacks this type; a reader that selects the column raises an error.
                columns[name] = ColumnValues(
                    type, np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
                )
        return cls(columns, rows)

    @classmethod
    def concat(cls, tables: Sequence["Table"]) -> "Table":
        """The rows of tables of the same columns, one after the other."""
        if len(tables) < 2:
            return tables[0] if tables else cls({}, 0)
        columns = {
            name: ColumnValues.joined([table[name] for table in tables])
            for name in tables[0].columns
        }
        return cls(columns, sum(table.num_rows for table in tables))

    def __getitem__(self, name: str) -> ColumnValues:
        return self.columns[name]

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} ({c.type})" for name, c in self.columns.items())
        return f"Table of {self.num_rows:,} rows: {columns}"

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.columns)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Name and type of each column."""
        return tuple(Field(name, c.type, c.nullable) for name, c in self.columns.items())

    def select(self, names: Iterable[str]) -> "Table":
        """Only these columns."""
        return Table({name: self.columns[name] for name in names}, self.num_rows)

    def filter(self, wanted: Flags) -> "Table":
        """Only the rows for which ``wanted`` is true."""
        return self if wanted.all() else self.take(np.flatnonzero(wanted))

    def take(self, at: Any) -> "Table":
        """The rows at these positions, or in a slice."""
        rows = len(range(self.num_rows)[at]) if isinstance(at, slice) else len(at)
        return Table({name: column[at] for name, column in self.columns.items()}, rows)

    def sort_by(self, *names: str) -> "Table":
        """The rows sorted by these columns, ascending and stable."""
        columns = [self.columns[name] for name in names]
        keys = [column.filled(_LAST if column.is_text else 0) for column in columns]
        if len(keys) == 1 and ascending(keys[0]):
            return self
        order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
        return self.take(order)

    def with_column(self, name: str, values: Any) -> "Table":
        """The table with a column replaced, which keeps its type, or added."""
        before = self.columns.get(name)
        column = ColumnValues.of(values, None if before is None else before.type)
        return Table({**self.columns, name: column}, self.num_rows)

    def cast(self, fields: Iterable[Field]) -> "Table":
        """The columns of ``fields`` with their types; a missing one is null."""
        columns = {}
        for wanted in fields:
            column = self.columns.get(wanted.name)
            if column is None:
                column = ColumnValues.nulls(self.num_rows, wanted.type)
            columns[wanted.name] = replace(column.cast(wanted.type), nullable=wanted.nullable)
        return Table(columns, self.num_rows)

    def group_by(self, *names: str) -> "Groups":
        """The rows by equal values of these columns."""
        code = np.zeros(self.num_rows, dtype=np.int64)
        for name in names:
            codes = self[name].codes()
            code = code * (int(codes.max(initial=-1)) + 2) + codes + 1
            # Renumbered, so that the products of many columns fit into 64 bits.
            code = np.unique(code, return_inverse=True)[1]
        _, first, number = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return Groups(self.select(names).take(first[order]), place[number])

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        columns = [column.to_pylist() for column in self.columns.values()]
        if not columns:
            return [{} for _ in range(self.num_rows)]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def _of_core(self) -> "_core.Table":
        columns = [(name, c.nullable, c.parts()) for name, c in self.columns.items()]
        return _core.Table.of(columns, self.num_rows)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The rows for other libraries, as one batch."""
        return self._of_core().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for other libraries."""
        return self._of_core().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows grouped by equal values of columns; groups are in the order of their first rows."""

    #: A row for each group.
    keys: Table
    #: Number of the group by row.
    number: Integers

    def __len__(self) -> int:
        return self.keys.num_rows

    def count(self) -> Integers:
        """The number of rows of each group."""
        return np.bincount(self.number, minlength=len(self))

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of each group."""
        sums = np.zeros(len(self), dtype=values.dtype)
        np.add.at(sums, self.number, values)
        return sums

    def max(self, values: NDArray[Any]) -> NDArray[Any]:
        """The greatest value of each group."""
        order = np.argsort(self.number, kind="stable")
        begins = np.searchsorted(self.number[order], np.arange(len(self)))
        return np.maximum.reduceat(values[order], begins) if len(order) else values[:0]

    def rows(self) -> list[Integers]:
        """The rows of each group."""
        order = np.argsort(self.number, kind="stable")
        return np.split(order, np.cumsum(self.count())[:-1]) if len(self) else []


def arrays_of(table: Any) -> dict[str, NDArray[Any]]:
    """The columns of a table of the core, as numpy arrays."""
    return {name: c.to_numpy() for name, c in Table.from_arrow(table).columns.items()}


#: Values of a wider range are sorted instead of counted.
_SPAN_MAX = 1 << 22


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], Numbers]:
    """The distinct values, ascending, and the number of its value by row.

    Counting replaces sorting if the range is small, because recordings have few distinct values.
    """
    if len(values) and (values == values[0]).all():
        return values[:1], np.zeros(len(values), dtype=np.int32)
    if not len(values):
        return _sorted(values)
    low, high = int(values.min()), int(values.max())
    if high - low >= _SPAN_MAX:
        return _sorted(values)
    # Counting takes a tenth of the time for threads, sizes and codes, which are close together.
    is_used = np.zeros(high - low + 1, dtype=bool)
    is_used[values - low] = True
    number = (np.cumsum(is_used) - 1).astype(np.int32)
    return (np.flatnonzero(is_used) + low).astype(values.dtype), number[values - low]


def _sorted(values: NDArray[Any]) -> tuple[NDArray[Any], Numbers]:
    distinct_values, number = np.unique(values, return_inverse=True)
    return distinct_values, number.astype(np.int32)


def grouped(codes: NDArray[Any]) -> Integers:
    """Rows sorted by code, a small integer; the order of equal ones is kept."""
    if len(codes) and codes.min() >= 0 and codes.max() <= np.iinfo(np.uint16).max:
        # numpy sorts 16-bit integers by counting, in a tenth of the time.
        codes = codes.astype(np.uint16)
    order: Integers = np.argsort(codes, kind="stable")
    return order


def followed(codes: NDArray[Any]) -> tuple[Integers, Integers]:
    """Rows with a later row of equal code, and the next such row of each."""
    order = grouped(codes)
    same = codes[order][1:] == codes[order][:-1]
    return order[:-1][same], order[1:][same]


def ascending(values: NDArray[Any]) -> bool:
    """Whether no value is less than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


#: Largest share of the machine's memory that a table may take.
_MEMORY_SHARE = 0.5
#: Rows of a batch.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class ParquetTable:
    """The columns ``fields`` of a Parquet file, or of its ``content`` if given.

    Nullable columns may be missing, as in files of earlier versions; other columns are ignored.
    Reading raises InputError for a missing column or one of another kind; for nulls, negative
    numbers (except in ``signed``), numbers that are not finite or invalid text; and if it takes too
    much memory.
    """

    path: Path | str
    fields: Sequence[Field]
    hint: str | None = None
    signed: Collection[str] = ()
    content: bytes | None = None

    def read(self) -> Table:
        """All rows."""
        batches = self.core_batches(_BATCH_ROWS, whole=True)
        return Table.concat([*map(self._cast, batches)] or [Table.empty(self.fields)])

    def batches(self, rows: int = _BATCH_ROWS) -> Iterator[Table]:
        """The rows in batches."""
        return map(self._cast, self.core_batches(rows))

    def _reader(self) -> _core.ParquetReader:
        if self.content is None:
            if not Path(self.path).exists():
                raise damaged("there is no such file")
            return _core.ParquetReader(self.path)
        with os.fdopen(os.memfd_create("spillcast"), "wb") as file:
            file.write(self.content)
            file.flush()
            return _core.ParquetReader(f"/proc/self/fd/{file.fileno()}")

    def _rule(self, field: Field) -> tuple[str, bool, int, int]:
        """A column, whether it may contain nulls, and its smallest and largest number."""
        greatest = _INT64_MAX if field.name in _ANY_SIZE else COUNT_MAX
        least = -greatest - 1 if field.name in self.signed else 0
        return field.name, field.nullable, least, greatest

    def _cast(self, batch: _core.Table) -> Table:
        return Table.from_arrow(batch).cast(self.fields)

    def core_batches(self, rows: int, *, whole: bool = False) -> Iterator[_core.Table]:
        """The batches for code of the core: a column may be missing or have a narrower type.

        With ``whole`` all rows must fit into memory.
        """
        with reading(self.path, self.hint):
            file = self._reader()
            given = file.fields()
            _check_size(file.row_groups(), len(given), whole=whole)
            for field in self.fields:
                _check_field(field, given)
            wanted = {field.name for field in self.fields}
            places = [place for place, (name, *_) in enumerate(given) if name in wanted]
            rules = [self._rule(field) for field in self.fields]
            batches = file.batches(places, rows, rules)
        while True:
            with reading(self.path, self.hint):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def any_table_of(path: Path) -> Table:
    """All columns of any Parquet file. InputError if it is damaged."""
    with reading(path, "export it again"):
        file = _core.ParquetReader(path)
        fields = file.fields()
        _check_size(file.row_groups(), len(fields))
        tables = [Table.from_arrow(b) for b in file.batches([*range(len(fields))], _BATCH_ROWS)]
        return Table.concat(tables or [Table.empty(Field(*field) for field in fields)])


def _check_size(groups: Sequence[tuple[int, int]], columns: int, *, whole: bool = True) -> None:
    """InputError if the rows, or those of the largest row group, do not fit into memory."""
    if whole:
        groups = [(sum(size for size, _ in groups), sum(rows for _, rows in groups))]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for size, rows in groups:
        wanted = max(size, 8 * rows * columns)
        if min(size, rows) < 0 or wanted > _MEMORY_SHARE * memory:
            text = "" if whole else " in a row group"
            raise FileTooLarge(
                f"{rows:,} rows{text}, which would take {wanted >> 20:,} MiB of memory"
            )


def _check_field(field: Field, given: Sequence[tuple[str, str, bool]]) -> None:
    """InputError if a column is missing, occurs twice or is of another kind."""
    types = [type for name, type, _ in given if name == field.name]
    if len(types) > 1 or (not types and not field.nullable):
        text = "there is no column" if not types else "there are several columns"
        raise damaged(f"{text} {field.name}")
    if types and _kind(types[0]) != _kind(field.type):
        given_type, wanted = (TEXT if type == NAME else type for type in (types[0], field.type))
        text = f"column {field.name} holds {given_type}, not {wanted}"
        raise damaged(text)


def _kind(type: str) -> str:
    """The kind of a type: integers of any width and text of any encoding are equal."""
    if type.startswith("list of "):
        return f"list of {_kind(type.removeprefix('list of '))}"
    if type.startswith("struct of "):
        members = (part.partition(" ") for part in type.removeprefix("struct of ").split(", "))
        return f"struct of {', '.join(f'{name} {_kind(of)}' for name, _, of in members)}"
    if type in (NAME, TEXT):
        return "text"
    return "integers" if type.startswith(("int", "uint")) else type


_INT64_MAX = (1 << 63) - 1
#: Columns of identifiers and offsets, which are never summed.
_ANY_SIZE = frozenset(("session", "offset", "object", "sql_exec_id", "coordinator"))


def write_parquet(
    path: Path,
    table: Table,
    *,
    group_rows: int | None = None,
    key_values: Mapping[str, str] | None = None,
) -> None:
    """Write a table to a Parquet file. OSError if that fails.

    ``key_values`` are metadata of the file; a row group has at most ``group_rows`` rows.
    """
    writer = _core.ParquetWriter(path, table, group_rows, [*(key_values or {}).items()])
    writer.write(table)
    writer.close()
