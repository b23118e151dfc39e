"""The columns of one ASH export, turned from what its client wrote into times and numbers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spillcast.errors import EvidenceDamaged
from spillcast.evidence.oracle.ash import values
from spillcast.evidence.oracle.spooled import Damage


class Columns:
    """The columns of one file, converted; what cannot be is damage of its line."""

    def __init__(
        self,
        path: Path,
        columns: dict[str, pa.Array],
        lines: list[int] | None,
        damaged: list[Damage],
    ) -> None:
        self.path, self.columns, self.lines, self.damaged = path, columns, lines, damaged
        self.rows = len(columns["sample_time"])
        self.has_clock = True
        #: Whether dates are such as 10/14/2024.
        self.month_first = False

    def times(self) -> pa.Array:
        """Nanoseconds since 1970; null and damage where there is none."""
        column = self.columns["sample_time"]
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            return column.cast(pa.timestamp("ns", getattr(column.type, "tz", None))).cast(
                pa.int64()
            )
        encoded = _encoded(column)
        texts = [text for text in encoded.dictionary.to_pylist() if text is not None]
        self.month_first = values.month_comes_first(texts)
        parsed = [values.parse_time_ns(text, month_first=self.month_first) for text in texts]
        times = pa.array(parsed, pa.int64()).take(encoded.indices)
        self.has_clock = any(map(values.has_clock, texts))
        for row in pc.indices_nonzero(pc.is_null(times)).to_pylist():
            self._damage(row, f"SAMPLE_TIME is {column[row].as_py()!r}: the row is skipped")
        return times

    def numbers(self, name: str) -> pa.Array:
        """Whole numbers; null where empty, null and damage where there is something else."""
        column = self.columns.get(name)
        if column is None or pa.types.is_null(column.type):
            return pa.nulls(self.rows, pa.int64())
        if pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        if pa.types.is_decimal(column.type) or pa.types.is_floating(column.type):
            return pc.round(column).cast(pa.int64())
        if not _is_text(column.type):
            raise EvidenceDamaged(f"{self.path}: column {name} holds {column.type}, not numbers")
        encoded = _encoded(column)
        parsed = [values.parse_integer(text) for text in encoded.dictionary.to_pylist()]
        numbers = pa.array(parsed, pa.int64()).take(encoded.indices)
        bad = pc.and_(pc.is_null(numbers), pc.is_valid(column))
        for row in pc.indices_nonzero(bad).to_pylist():
            self._damage(row, f"{name} is {column[row].as_py()!r}: treated as unknown")
        return numbers

    def texts(self, name: str) -> pa.Array:
        """Texts, null where empty."""
        column = self.columns.get(name)
        if column is None:
            return pa.nulls(self.rows, pa.string())
        column = column.cast(pa.string())
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)

    def _damage(self, row: int, problem: str) -> None:
        line = self.lines[row] if self.lines is not None else row + 1
        self.damaged.append(Damage(str(self.path), line, problem))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return kind in (pa.string(), pa.large_string())


def _encoded(column: pa.Array) -> Any:
    """Distinct texts and who has which: each is parsed once."""
    return column.cast(pa.string()).dictionary_encode()
