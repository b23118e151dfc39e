"""Sums of a recording's rows: its writer knows them, and rows that were read must agree."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spillcast.document import key
from spillcast.gate import damaged

if TYPE_CHECKING:
    from spillcast.recording.meta import Meta
    from spillcast.tables import Table

AGAIN = "copy the whole folder again from where it was recorded, or record again"
#: A row may end so much after its recording did, as clocks are read one after the other.
_LATER_S, _LATER_SHARE = 1.0, 0.01
#: Of what was counted, at least so much was done after the run began.
_BEFORE_SHARE = 0.9


class WrittenBytes(NamedTuple):
    """Bytes written to temp files, and to others."""

    temp: int
    other: int


class FileSums(NamedTuple):
    """Sums up the bytes of a file."""

    written_bytes: int = 0
    read_bytes: int = 0

    def plus(self, op: str | None, size: int) -> "FileSums":
        """The sums with more bytes read or written."""
        if op == "write":
            return self._replace(written_bytes=self.written_bytes + size)
        if op == "read":
            return self._replace(read_bytes=self.read_bytes + size)
        return self


def written_bytes(seconds: "Table") -> WrittenBytes:
    """Sums up the per-second rows."""
    writes = seconds.filter(seconds["op"].equals("write"))
    temp, size = writes["temp"].values, writes["bytes"].values
    return WrittenBytes(int(size[temp].sum()), int(size[~temp].sum()))


def other_files(batches: Iterable["Table"]) -> dict[str, FileSums]:
    """Files that count as no temp files, by name."""
    by_file: dict[str, FileSums] = {}
    for waits in batches:
        others = waits.filter(waits["file"].is_valid() & ~waits["temp"].values)
        groups = others.group_by("file", "op")
        sizes = groups.sum(others["bytes"].filled(0)).tolist()
        for row, size in zip(groups.keys.to_pylist(), sizes, strict=True):
            before = by_file.get(row["file"], FileSums())
            by_file[row["file"]] = before.plus(row["op"], size)
    return by_file


@dataclass(frozen=True)
class RowSums:
    """The sums of the rows beside meta.json, which show whether the rows are complete."""

    waits_bytes: int = key("bytes of the single waits kept", unit="bytes", example=921108480)
    waits_ns: int = key("their durations", unit="ns", example=3900000000)
    seconds_rows: int = key("rows of the seconds", unit="rows", example=112)
    seconds_count: int = key("waits that they count", unit="waits", example=3515)
    seconds_bytes: int = key("bytes that they count", unit="bytes", example=921108480)
    seconds_ns: int = key("durations that they count", unit="ns", example=3900000000)


class Totals(NamedTuple):
    """Sums up single waits: their number, bytes and time, and the end of the last."""

    rows: int
    bytes: int
    total_ns: int
    end_ns: int

    def plus(self, other: "Totals") -> "Totals":
        """The totals of these and other rows."""
        summed = Totals(*map(add, self, other))
        return summed._replace(end_ns=max(self.end_ns, other.end_ns))


NOTHING = Totals(0, 0, 0, 0)


def of_waits(waits: "Table") -> Totals:
    """The totals of single waits."""
    elapsed_ns = waits["elapsed_ns"].values
    end = (waits["start_ns"].values + elapsed_ns).max(initial=0)
    return Totals(len(waits), waits["bytes"].sum(), int(elapsed_ns.sum()), int(end))


def check_waits(totals: Totals, meta: "Meta | None", path: Path) -> None:
    """InputError where the single waits are not those that ``told`` counts."""
    if meta is None or not meta.captured:
        return
    _check(path, [("waits", totals.rows, meta.raw.rows)])
    if meta.sums is not None:
        figures = ("bytes", totals.bytes, meta.sums.waits_bytes)
        _check(path, [figures, ("ns of waits", totals.total_ns, meta.sums.waits_ns)])
    _check_end(totals.end_ns / 1e9, meta, path)


def check_seconds(seconds: "Table", meta: "Meta | None", path: Path) -> None:
    """InputError where the per-second rows are not all that ``told`` counts."""
    if meta is None or not meta.captured:
        return
    latencies, counts = seconds["latency_ns"], seconds["latency_count"]
    alike = (latencies.lengths == counts.lengths).all()
    assert counts.items is not None
    if not alike or counts.items.sum() != seconds["count"].sum():
        raise damaged(path, "its histograms do not add up to its counts", AGAIN)
    if meta.sums is None:
        _check_temp(seconds, meta, path)
    else:
        figures = [
            ("rows", len(seconds), meta.sums.seconds_rows),
            ("waits", seconds["count"].sum(), meta.sums.seconds_count),
            ("bytes", seconds["bytes"].sum(), meta.sums.seconds_bytes),
            ("ns of waits", seconds["total_ns"].sum(), meta.sums.seconds_ns),
        ]
        _check(path, figures)
    _check_end(seconds["second"].max() or 0, meta, path)


def check_samples(samples: "Table", meta: "Meta | None", path: Path) -> None:
    """InputError where samples are of another time than the recording."""
    if meta is not None:
        _check_end((samples["time_ns"].max() or 0) / 1e9, meta, path)


def _check(path: Path, figures: Sequence[tuple[str, int, int]]) -> None:
    for name, has, stated in figures:
        if has != stated:
            raise damaged(path, f"it holds {has:,} {name}, and meta.json counts {stated:,}", AGAIN)


def _check_temp(seconds: "Table", meta: "Meta", path: Path) -> None:
    """Check a recording without sums of its rows by its counts of temp I/O.

    These may be more, by what was done before the run began.
    """
    temp, count = seconds["temp"].values, seconds["count"].values
    for name, all_of_them in (("read", meta.temp.reads), ("write", meta.temp.writes)):
        counted = int(count[temp & seconds["op"].equals(name)].sum())
        if not _BEFORE_SHARE * all_of_them <= counted <= all_of_them:
            _check(path, [(f"{name}s of temp files", counted, all_of_them)])


def _check_end(end_s: float, meta: "Meta", path: Path) -> None:
    """InputError where rows lie after the end. Some recordings do not tell how long they were."""
    length_s = max(meta.recorded_s, meta.elapsed_s)
    if meta.recorded_s and end_s > length_s * (1 + _LATER_SHARE) + _LATER_S:
        text = f"a row at {end_s:,.1f} s of a recording of {length_s:,.1f} s"
        raise damaged(path, text, AGAIN)
