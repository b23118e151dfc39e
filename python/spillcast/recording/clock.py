"""The clock of a recording: zero is the run's start, or the recording's where that is later."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Clock:
    """Moves rows whose times count from the recording's start to a zero ``zero_ns`` after it.

    Drops rows that ended before zero, because they are not of the run.
    """

    zero_ns: int = 0

    @classmethod
    def of(cls, origin_ns: int, started_ns: int | None) -> "Clock":
        """The clock of a recording from ``origin_ns`` of a run from ``started_ns``, if known."""
        return cls(0 if started_ns is None else max(started_ns - origin_ns, 0))

    def waits(self, rows: "pa.Table") -> "pa.Table":
        """Waits; one that began before zero keeps its part after it, and no CPU time before it."""
        if not self.zero_ns:
            return rows
        import pyarrow.compute as pc

        from spillcast.recording.window import with_column, within

        rows = within(rows, self.zero_ns)
        start_ns = pc.subtract(rows["start_ns"], self.zero_ns)
        cpu_ns = pc.min_element_wise(rows["cpu_before_ns"], start_ns, skip_nulls=False)
        rows = with_column(rows, "start_ns", start_ns)
        return with_column(rows, "cpu_before_ns", cpu_ns)

    def seconds(self, rows: "pa.Table") -> "pa.Table":
        """Per-second rows, moved by whole seconds: the first one may hold some of before zero."""
        return _since(rows, "second", self.zero_ns // 1_000_000_000)

    def samples(self, rows: "pa.Table") -> "pa.Table":
        """Samples."""
        return _since(rows, "time_ns", self.zero_ns)

    def slices_s(self, slices: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Start and end of slices, s; of one that began before zero the part after it."""
        zero_s = self.zero_ns / 1e9
        return [(max(start - zero_s, 0.0), end - zero_s) for start, end in slices if end > zero_s]


FROM_ITS_START = Clock()


def _since(rows: "pa.Table", column: str, zero: int) -> "pa.Table":
    import pyarrow.compute as pc

    from spillcast.recording.window import with_column

    rows = rows.filter(pc.greater_equal(rows[column], zero))
    return with_column(rows, column, pc.subtract(rows[column], zero))
