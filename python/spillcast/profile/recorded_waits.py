"""The single waits of a recording: as a view in DuckDB, and summed over time."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spillcast import _core
from spillcast.exact_name import exact_name, rows_of
from spillcast.gate import in_bounds
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS
from spillcast.recording.schema import NAME, SIGNED, TABLES
from spillcast.recording.sums import Totals

_KINDS = {pa.int64(): "bigint", pa.bool_(): "boolean", NAME: "varchar"}


def view_of_waits(
    connection: duckdb.DuckDBPyConnection, recording: Recording, name: str
) -> list[Path]:
    """Create the view ``name`` of them, unordered; returns the names of files that it reads.

    A recording that exists in memory only is used as it is. InputError for a damaged file.
    """
    if recording.waits_in_memory:
        connection.register(name, recording.waits)
        return []
    path = recording.path / "waits.parquet"
    # Opens the file and checks the types of its columns.
    next(recording.batches("waits"), None)
    try:
        _view(connection, path, name)
        if not recording.is_checked("waits"):
            _check(connection, recording, name)
    except duckdb.Error:
        # Raises the same error as for any recording.
        recording.check_rows("waits")
        raise
    # DuckDB opens the given name and the resolved one.
    return [Path(exact_name(path)), path.absolute()]


def _view(connection: duckdb.DuckDBPyConnection, path: Path, name: str) -> None:
    read = rows_of(path)
    present = connection.sql(f"from {read} limit 0").columns
    # Recordings of earlier versions lack some.
    columns = [
        f'"{field.name}"'
        if field.name in present
        else f'null::{_KINDS[field.type]} as "{field.name}"'
        for field in TABLES["waits"]
    ]
    connection.execute(f"create view {name} as select {', '.join(columns)} from {read}")


def _check(connection: duckdb.DuckDBPyConnection, recording: Recording, name: str) -> None:
    """InputError for damaged rows; DuckDB checks them in half of the time."""
    totals = "count(*), sum(bytes), sum(elapsed_ns), max(start_ns + elapsed_ns)"
    fields = TABLES["waits"]
    counts = ", ".join(f'count("{field.name}")' for field in fields)
    numbers = [field.name for field in fields if field.type == pa.int64()]
    ends = ", ".join(f'min("{number}"), max("{number}")' for number in numbers)
    [row] = connection.execute(f"select {totals}, {counts}, {ends} from {name}").fetchall()
    seen, rest = Totals(*(value or 0 for value in row[:4])), row[4:]
    filled = dict(zip(fields.names, rest, strict=False))
    bounds = zip(numbers, rest[len(fields) :: 2], rest[len(fields) + 1 :: 2], strict=True)
    in_order = all(
        least is None or in_bounds(number, least, most, signed=number in SIGNED)
        for number, least, most in bounds
    ) and all(field.nullable or filled[field.name] == seen.rows for field in fields)
    if in_order:
        recording.check_waits(seen)
    else:
        recording.check_rows("waits")


Array = NDArray[np.int64]
#: States by the op of a wait for temp I/O, then those of other waits and of no waits.
OTHER_IO, WAITS, CPU = len(OPS), len(OPS) + 1, len(OPS) + 2


class WaitsOverTime:
    """Sums over the waits of a recording, without keeping their rows.

    Waits other than I/O count only in sessions with temp I/O, because others may be idle. CPU
    time is that of the rows that ended it.
    """

    def __init__(self, recording: Recording, stretch_ns: int, count: int) -> None:
        """``count`` time slices; later waits count in the last one."""
        self._stretch_ns, self._count = stretch_ns, count
        self._working = _with_temp_io(recording)
        self._sessions = {*self._working}
        #: By state and stretch: ns of all sessions.
        self.ns = np.zeros((CPU + 1, count))
        for rows in recording.batches("waits"):
            self._add(rows)

    @property
    def sessions(self) -> int:
        """The number of sessions that did I/O or used a CPU."""
        return len(self._sessions)

    def _add(self, rows: pa.Table) -> None:
        begin, session = rows["start_ns"].to_numpy(), rows["session"].to_numpy()
        before = rows["cpu_before_ns"].fill_null(0).to_numpy()
        moved = rows["op"].is_valid().to_numpy()
        active = moved | (before > 0)
        self._sessions.update(pc.unique(rows["session"].filter(pa.array(active))).to_pylist())
        state = _states(rows)
        state[~moved & ~np.isin(session, [*self._working])] = -1
        for at in range(CPU):
            its = state == at
            if its.any():
                end = begin[its] + rows["elapsed_ns"].to_numpy()[its]
                self.ns[at] += self._spread(begin[its], end)
        worked = before > 0
        self.ns[CPU] += self._spread(np.maximum(begin - before, 0)[worked], begin[worked])

    def _spread(self, begin: Array, end: Array) -> NDArray[np.float64]:
        columns = {"begin_ns": begin, "end_ns": end, "values": (end - begin).astype(float)}
        batch = pa.record_batch({name: pa.array(of) for name, of in columns.items()})
        return np.array(_core.spread(batch, float(self._stretch_ns), self._count))


def _states(rows: pa.Table) -> NDArray[np.int8]:
    temp = rows["temp"].to_numpy()
    op = pc.index_in(rows["op"], pa.array(OPS)).fill_null(OTHER_IO).to_numpy()
    state = np.where(temp, op, OTHER_IO).astype(np.int8)
    state[~temp & rows["op"].is_null().to_numpy()] = WAITS
    return state


def _with_temp_io(recording: Recording) -> set[int]:
    """The sessions that read, write or change temp files."""
    with_temp = set[int]()
    for rows in recording.waits_unchecked("session", "temp"):
        with_temp.update(pc.unique(rows["session"].filter(rows["temp"])).to_pylist())
    return with_temp
