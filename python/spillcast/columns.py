"""Columns of numpy values with nulls: numbers, text, lists, structs.

Text is stored as positions in a list of names, because it repeats.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: Types of text: dictionary-encoded in Arrow, and plain.
NAME, TEXT = "dictionary", "string"
#: Binary values, and prefixes of nested types: lists, and ``struct of NAME TYPE, ...``.
BYTES, _LIST, _STRUCT = "bytes", "list of ", "struct of "
#: numpy types that are converted to each other.
_KINDS = {
    "bool",
    "float32",
    "float64",
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
}
#: The numpy types of values that numpy has no type for.
_STORED = {BYTES: "object", "timestamp": "int64", "decimal": "float64", "null": "bool"}


@dataclass(frozen=True)
class Field:
    """Name and type of a column; the type is numpy's, NAME, TEXT, BYTES, a list or a struct."""

    name: str
    type: str
    nullable: bool = True


def fields_of(types: Mapping[str, str]) -> list[Field]:
    """Fields of these types by name."""
    return [Field(name, type) for name, type in types.items()]


def struct_of(types: Mapping[str, str]) -> str:
    """The type of a struct whose members have these types by name."""
    return _STRUCT + ", ".join(f"{name} {type}" for name, type in types.items())


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """A column: numpy values and null flags.

    For text the values are positions in ``names``, -1 for null. For lists they are the offsets of
    the rows in ``items``, one more than there are rows.
    """

    type: str
    values: NDArray[Any]
    #: Whether each row has a value; None if all rows have one, and for text.
    valid: Flags | None = None
    names: Sequence[str] = ()
    items: "ColumnValues | None" = None
    #: Columns of a struct by name.
    members: "Mapping[str, ColumnValues]" = field(default_factory=dict)
    nullable: bool = True

    @classmethod
    def of(cls, values: Any, type: str | None = None) -> "ColumnValues":
        """A column from an array or a list (None is null), by default with its own type."""
        if isinstance(values, ColumnValues):
            column = values
        elif isinstance(values, np.ndarray) and values.dtype.kind not in "OU":
            column = cls(values.dtype.name, values)
        else:
            column = cls._of_rows(list(values), type or "")
        return column if type is None else column.cast(type)

    @classmethod
    def _of_rows(cls, rows: list[Any], type: str) -> "ColumnValues":
        """A column of this type, except that numbers have the type of numpy; "" for any type."""
        if type in (NAME, TEXT) or (not type and any(isinstance(row, str) for row in rows)):
            number: dict[str, int] = {}
            codes = [-1 if row is None else number.setdefault(row, len(number)) for row in rows]
            return cls(type or TEXT, np.array(codes, dtype=np.int32), names=list(number))
        valid = _validity(rows)
        if type.startswith(_LIST):
            ends = np.cumsum([0, *(len(row or ()) for row in rows)], dtype=np.int64)
            inner = cls.of([item for row in rows for item in row or ()], type.removeprefix(_LIST))
            return cls(type, ends, valid, items=inner)
        if type.startswith(_STRUCT):
            members = {
                name: cls.of([None if row is None else row.get(name) for row in rows], of)
                for name, of in _member_types(type).items()
            }
            return cls(type, np.zeros(len(rows), dtype=bool), valid, members=members)
        if type == BYTES:
            return cls(type, np.array([*rows, None], dtype=object)[:-1], valid)
        present = rows if valid is None else [0 if row is None else row for row in rows]
        array = np.array(present) if present else np.array(present, dtype=type or None)
        return cls(array.dtype.name, array, valid)

    @classmethod
    def lists(cls, rows: Sequence[NDArray[Any]]) -> "ColumnValues":
        """A column of lists of integers, each given as an array."""
        ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        items = np.concatenate(rows) if len(rows) else np.empty(0)
        return cls(f"{_LIST}int64", ends, items=cls.of(items).cast("int64"))

    @classmethod
    def nulls(cls, rows: int, type: str) -> "ColumnValues":
        """A column of nulls."""
        if type in (NAME, TEXT):
            return cls(type, np.full(rows, -1, dtype=np.int32))
        valid = np.zeros(rows, dtype=bool)
        if type.startswith(_LIST):
            items = cls.nulls(0, type.removeprefix(_LIST))
            return cls(type, np.zeros(rows + 1, dtype=np.int64), valid, items=items)
        if type.startswith(_STRUCT):
            members = {name: cls.nulls(rows, of) for name, of in _member_types(type).items()}
            return cls(type, valid, valid, members=members)
        dtype = type if type in _KINDS else _STORED.get(type, "bool")
        return cls(type, np.zeros(rows, dtype=dtype), valid)

    @classmethod
    def from_core(cls, parts: Any, nullable: bool) -> "ColumnValues":
        """The column from the core's representation."""
        type, memory, valid, extra = parts
        flags = None if valid is None else np.frombuffer(valid, dtype=bool)
        if type in (NAME, TEXT):
            column = cls(
                type, np.frombuffer(memory, dtype=np.int32), names=extra, nullable=nullable
            )
            return column if len(set(extra)) == len(extra) else cls.joined([column])
        if type.startswith(_LIST):
            items = cls.from_core(extra, True)
            return cls(
                type, np.frombuffer(memory, dtype=np.int64), flags, items=items, nullable=nullable
            )
        if type.startswith(_STRUCT):
            members = {name: cls.from_core(part, True) for name, part in extra}
            rows = np.frombuffer(memory, dtype=bool)
            return cls(type, rows, flags, members=members, nullable=nullable)
        if type == BYTES:
            values = np.array([*extra, None], dtype=object)[:-1]
            return cls(type, values, flags, nullable=nullable)
        dtype = _STORED.get(type, type)
        return cls(type, np.frombuffer(memory, dtype=dtype), flags, nullable=nullable)

    @classmethod
    def joined(cls, columns: Sequence["ColumnValues"]) -> "ColumnValues":
        """The rows of columns of the same type, one after the other; names occur once."""
        first = columns[0]
        if first.items is not None:
            lengths = np.concatenate([column.lengths for column in columns])
            items = cls.joined(
                [c.items[c.values[0] : c.values[-1]] for c in columns if c.items is not None]
            )
            ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            return replace(first, values=ends, valid=_joined_valid(columns), items=items)
        if not first.is_text:
            values = np.concatenate([column.values for column in columns])
            members = {
                name: cls.joined([column.members[name] for column in columns])
                for name in first.members
            }
            return replace(first, values=values, valid=_joined_valid(columns), members=members)
        if all(column.names == first.names for column in columns[1:]) and len(columns) > 1:
            return replace(first, values=np.concatenate([column.values for column in columns]))
        number: dict[str, int] = {}
        codes = []
        for column in columns:
            # The last entry is for null (-1).
            places = [*(number.setdefault(name, len(number)) for name in column.names), -1]
            codes.append(np.array(places, dtype=np.int32)[column.values])
        return replace(first, values=np.concatenate(codes), names=list(number))

    @property
    def is_text(self) -> bool:
        """Whether the column holds text."""
        return self.type in (NAME, TEXT)

    def __len__(self) -> int:
        return len(self.values) - (self.items is not None)

    def is_valid(self) -> Flags:
        """Whether each row has a value."""
        if self.is_text:
            return np.asarray(self.values >= 0)
        return np.ones(len(self), dtype=bool) if self.valid is None else self.valid

    def is_null(self) -> Flags:
        """Whether each row is null."""
        return ~self.is_valid()

    @property
    def null_count(self) -> int:
        """The number of null rows."""
        if self.valid is None and not self.is_text:
            return 0
        return len(self) - int(np.count_nonzero(self.is_valid()))

    def filled(self, value: Any) -> NDArray[Any]:
        """The values, with ``value`` in place of nulls."""
        if self.is_text:
            texts: NDArray[Any] = np.array([*self.names, value], dtype=object)[self.values]
            return texts
        if self.valid is None:
            return self.values
        return np.where(self.valid, self.values, np.asarray(value, dtype=self.values.dtype))

    def to_numpy(self) -> NDArray[Any]:
        """The values; text as objects. ValueError if a number is null."""
        if self.is_text:
            return self.filled(None)
        if self.null_count:
            raise ValueError("a column with nulls: fill them")
        return self.values

    def to_pylist(self) -> list[Any]:
        """The values as Python objects, with None for null."""
        if self.items is not None:
            inner, ends = self.items.to_pylist(), self.values.tolist()
            rows: list[Any] = [inner[begin:end] for begin, end in pairwise(ends)]
        elif self.members:
            columns = (member.to_pylist() for member in self.members.values())
            rows = [dict(zip(self.members, row, strict=True)) for row in zip(*columns, strict=True)]
        else:
            rows = self.filled(None).tolist() if self.is_text else self.values.tolist()
        if self.valid is None:
            return rows
        valid = self.valid.tolist()
        return [row if has else None for row, has in zip(rows, valid, strict=True)]

    def __getitem__(self, at: Any) -> Any:
        """One value, or the column of some rows, indexed as in numpy; slices have no step."""
        if isinstance(at, int | np.integer):
            return self[np.array([at])].to_pylist()[0]
        valid = None if self.valid is None else self.valid[at]
        if self.items is not None:
            begin, length = self.values[:-1][at], np.diff(self.values)[at]
            ends = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
            places = np.repeat(begin - ends[:-1], length) + np.arange(ends[-1])
            return replace(self, values=ends, valid=valid, items=self.items[places])
        members = {name: member[at] for name, member in self.members.items()}
        return replace(self, values=self.values[at], valid=valid, members=members)

    @property
    def lengths(self) -> Integers:
        """The number of items of each row of lists."""
        return np.diff(self.values)

    def equals(self, value: str) -> Flags:
        """Whether each row holds this text."""
        return self.isin((value,))

    def isin(self, values: Iterable[str]) -> Flags:
        """Whether each row holds one of these texts."""
        wanted = frozenset(values)
        # The last entry is for null (-1).
        is_in: Flags = np.array([*(name in wanted for name in self.names), False])[self.values]
        return is_in

    def sum(self) -> Any:
        """The sum of the values that are not null, 0 without any."""
        return self.filled(0).sum().item()

    def min(self) -> Any:
        """The smallest of the values that are not null, None without any."""
        values = self.drop_null().values
        return values.min().item() if len(values) else None

    def max(self) -> Any:
        """The greatest of the values that are not null, None without any."""
        values = self.drop_null().values
        return values.max().item() if len(values) else None

    def drop_null(self) -> "ColumnValues":
        """Only the rows with a value."""
        kept: ColumnValues = self if not self.null_count else self[self.is_valid()]
        return kept if self.is_text else replace(kept, valid=None)

    def unique(self) -> list[Any]:
        """The values that are not null, each once, in the order of their first rows."""
        values, first = np.unique(self.drop_null().values, return_index=True)
        distinct = values[np.argsort(first)].tolist()
        return [self.names[code] for code in distinct] if self.is_text else distinct

    def codes(self) -> NDArray[Any]:
        """A number by row, equal for equal values, and -1 for null."""
        if self.is_text:
            return self.values
        codes = np.unique(self.values, return_inverse=True)[1]
        return codes if self.valid is None else np.where(self.valid, codes, -1)

    def cast(self, type: str) -> "ColumnValues":
        """The column converted to another type. ValueError if it does not hold the values."""
        if type == self.type:
            return self
        if self.type == "null":
            return ColumnValues.nulls(len(self), type)
        if self.items is not None and type.startswith(_LIST):
            return replace(self, type=type, items=self.items.cast(type.removeprefix(_LIST)))
        if self.members and type.startswith(_STRUCT):
            types = _member_types(type)
            members = {name: self.members[name].cast(of) for name, of in types.items()}
            return replace(self, type=type, members=members)
        if type in (NAME, TEXT) and self.items is None and not self.members:
            if self.is_text:
                return replace(self, type=type)
            return ColumnValues.of(
                [None if row is None else str(row) for row in self.to_pylist()], type
            )
        if self.is_text or self.type not in _KINDS:
            raise ValueError(f"{self.type} cannot be converted to {type}")
        values = self.values.astype(type)
        if not np.can_cast(self.values.dtype, values.dtype, "safe"):
            is_kept = (values == self.values) | self.is_null()
            if not is_kept.all():
                raise ValueError(f"numbers out of the range of {type}")
        return replace(self, type=type, values=values)

    def parts(self) -> tuple[Any, ...]:
        """The column in the core's representation."""
        valid = None if self.valid is None else _bytes(self.valid)
        if self.items is not None:
            return "list", _bytes(self.values), valid, self.items.parts()
        if self.members:
            members = [(name, m.nullable, m.parts()) for name, m in self.members.items()]
            return "struct", _bytes(self.values), valid, members
        if self.type == BYTES:
            return self.type, _bytes(self.is_valid()), valid, self.to_pylist()
        names = list(self.names) if self.is_text else None
        return self.type, _bytes(self.values), valid, names


def _member_types(type: str) -> dict[str, str]:
    members = (member.partition(" ") for member in type.removeprefix(_STRUCT).split(", "))
    return {name: of for name, _, of in members}


def _validity(rows: Sequence[Any]) -> Flags | None:
    valid = np.array([row is not None for row in rows], dtype=bool)
    return None if valid.all() else valid


def _bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


def _joined_valid(columns: Sequence[ColumnValues]) -> Flags | None:
    if all(column.valid is None for column in columns):
        return None
    return np.concatenate([column.is_valid() for column in columns])
