"""Counts of a run at one bound: with another number of processes, or another total time."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from spillcast.recording.calibration import MachineCalibration
from spillcast.recording.meta import Meta, Temp
from spillcast.recording.recording import Recording
from spillcast.recording.schema import SECONDS_SCHEMA

#: What stands for no time at all, of which no latency could be told.
_NEXT_TO_NONE_S = 1e-6


def shared_among(recording: Recording, processes: float) -> Recording:
    """The counts, divided among so many processes."""
    temp = replace(recording.meta.temp, processes=processes, shared_by=None)
    return _with(recording, temp, recording.seconds)


def timed_in_all(recording: Recording, total_s: float) -> Recording:
    """The counts with a total time of temp I/O of ``total_s``.

    There were as many more or fewer operations where their number follows from the time.
    """
    temp = recording.meta.temp
    assert temp.within is not None
    total_s = max(total_s, _NEXT_TO_NONE_S)
    factor = total_s / temp.total_s
    counts = factor if temp.within.counts_too else 1.0
    rows = [_scaled(row, factor, counts) for row in recording.seconds.to_pylist()]
    by_op = {row["op"]: row["count"] for row in rows}
    temp = replace(
        temp,
        reads=by_op.get("read", 0),
        writes=by_op.get("write", 0),
        bytes=sum(row["bytes"] for row in rows),
        total_s=total_s,
        within=None,
    )
    return _with(recording, temp, pa.Table.from_pylist(rows, SECONDS_SCHEMA))


def calibrated_by(recording: Recording, calibration: MachineCalibration | None) -> Recording:
    """The counts of a machine with a known cost of waits."""
    machine = replace(recording.meta.machine, calibration=calibration)
    return _replaced(recording, replace(recording.meta, machine=machine), recording.seconds)


def _scaled(row: dict[str, Any], factor: float, counts: float) -> dict[str, Any]:
    count = max(1, round(row["count"] * counts))
    total_ns = round(row["total_ns"] * factor)
    return {
        **row,
        "count": count,
        "bytes": round(row["bytes"] / row["count"] * count),
        "total_ns": total_ns,
        "latency_ns": [total_ns // count],
        "latency_count": [count],
    }


def _with(recording: Recording, temp: Temp, seconds: pa.Table) -> Recording:
    return _replaced(recording, replace(recording.meta, temp=temp), seconds)


def _replaced(recording: Recording, meta: Meta, seconds: pa.Table) -> Recording:
    bound = Recording(recording.path, meta)
    bound.seconds, bound.waits = seconds, recording.waits
    return bound
