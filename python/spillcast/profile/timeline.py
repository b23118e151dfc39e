"""The states of sessions over time: on a CPU, in temp reads and writes, waiting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.evidence.oracle.ash import ALL, Chosen, read_ash
from spillcast.recording import Recording
from spillcast.recording.event_names import TEMP_EVENTS, is_like
from spillcast.tables import Table

if TYPE_CHECKING:
    from spillcast.evidence.oracle.trace import Traces

CPU, READ, WRITE, OTHER_IO, WAITS = "CPU", "temp reads", "temp writes", "other I/O", "other waits"
STATES = (CPU, READ, WRITE, OTHER_IO, WAITS)
#: So many events get their own line; the others share one.
EVENTS_MAX, ON_CPU, OTHERS = 5, "(on CPU)", "other events"
#: A drawing cannot show more slices.
SLICES_MAX = 160
_LENGTHS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
#: PostgreSQL's names, which version 17 spells BuffileRead; patterns identify Oracle's.
_TEMP = {"buffileread": READ, "buffilewrite": WRITE}


@dataclass(frozen=True)
class Timeline:
    """Time of all sessions by state: in all (s), and the mean number of them in each slice.

    ``busy`` holds, for each state that occurs, a number for each slice of ``length_s``;
    ``sessions`` is how many there were, which are threads of a recording.
    """

    length_s: float
    totals_s: dict[str, float]
    busy: dict[str, list[float]]
    sessions: int = 1


def slice_s(elapsed_s: float, min_s: float = 0.01) -> float:
    """The length of a slice: a round number of at least ``min_s`` that makes few slices."""
    fit = [s for s in _LENGTHS_S if s >= min_s and elapsed_s / s <= SLICES_MAX]
    return fit[0] if fit else elapsed_s / SLICES_MAX


def of_recording(recording: Recording) -> Timeline:
    """The single waits and the CPU before them if all were kept, else the I/O of each second.

    Waits other than I/O are those of sessions with temp I/O, because others may be idle. CPU
    time counts where it ended. Rows are read without being kept in memory.
    """
    if not recording.meta.captured:
        return of_samples(recording.samples, recording.elapsed_s)
    if not recording.meta.raw.whole:
        return _of_seconds(recording)
    total_s = _total_s(recording)
    length_s = slice_s(total_s)
    busy_ns, sessions = _waits_over_time(
        recording, round(length_s * 1e9), _slices(total_s, length_s)
    )
    rows = [
        (at, state, ns / 1e9)
        for state, sums_ns in busy_ns.items()
        for at, ns in enumerate(sums_ns.tolist())
    ]
    return _timeline(rows, length_s, total_s, sessions)


def _total_s(recording: Recording) -> float:
    """The recording may have gone on for longer than the run."""
    return max(recording.elapsed_s, recording.meta.recorded_s)


def _of_seconds(recording: Recording) -> Timeline:
    """The I/O of the whole run: by the second in which it began."""
    total_s = _total_s(recording)
    length_s = slice_s(total_s, 1)
    rows = [
        (int(second // length_s), _state_of_io(op, temp), total_ns / 1e9)
        for second, op, temp, total_ns in zip(
            *(recording.seconds[name].to_pylist() for name in ("second", "op", "temp", "total_ns")),
            strict=True,
        )
        if op is not None
    ]
    return _timeline(rows, length_s, total_s, _sessions(recording.waits))


def _sessions(rows: Table) -> int:
    return len(rows["session"].unique())


def _state_of_io(op: str, temp: bool) -> str:
    return {"read": READ, "write": WRITE}[op] if temp else OTHER_IO


def of_samples(samples: Table, elapsed_s: float) -> Timeline:
    """Samples of sessions: each stands for its weight."""
    length_s = slice_s(elapsed_s, 1)
    names = ("time_ns", "event", "weight_us")
    columns = [samples[name].to_pylist() for name in names]
    begin_ns = min(columns[0], default=0)
    rows = [
        (int((time_ns - begin_ns) / 1e9 // length_s), state_of(event), weight_us / 1e6)
        for time_ns, event, weight_us in zip(*columns, strict=True)
    ]
    return _timeline(rows, length_s, elapsed_s, _sessions(samples))


def of_ash(paths: Sequence[Path], chosen: Chosen = ALL) -> tuple[Timeline, Timeline]:
    """The samples of ASH exports, or a selection of them, over the time that they cover.

    By state, and by event.
    """
    samples = read_ash(paths, chosen).samples
    times = samples["time_ns"].to_numpy()
    covered_s = float(times.max() - times.min()) / 1e9 + 1 if len(times) else 0.0
    return of_samples(samples, covered_s), events_of_samples(samples, covered_s)


def events_of_samples(samples: Table, elapsed_s: float) -> Timeline:
    """The same as ``of_samples`` by event: those that took longest, the rest as one."""
    length_s = slice_s(elapsed_s, 1)
    columns = [samples[name].to_pylist() for name in ("time_ns", "event", "weight_us")]
    begin_ns, total_us = min(columns[0], default=0), dict[str, int]()
    rows = []
    for time_ns, event, weight_us in zip(*columns, strict=True):
        name = ON_CPU if event is None else event
        total_us[name] = total_us.get(name, 0) + weight_us
        rows.append((int((time_ns - begin_ns) / 1e9 // length_s), name, weight_us / 1e6))
    longest = sorted(total_us, key=total_us.__getitem__, reverse=True)
    kept = longest if len(longest) <= EVENTS_MAX + 1 else longest[:EVENTS_MAX]
    labelled = [(at, name if name in kept else OTHERS, s) for at, name, s in rows]
    names = kept if len(kept) == len(longest) else [*kept, OTHERS]
    return _timeline(labelled, length_s, elapsed_s, _sessions(samples), names)


def of_traces(read: "Traces", elapsed_s: float) -> Timeline:
    """Groups of traces by ``event`` and ``second``: by the second in which a wait ended."""
    length_s = slice_s(elapsed_s, 1)
    first = read.first_second()
    rows = [
        (
            int((group["second"] - first) // length_s),
            CPU if group["event"] is None else state_of(group["event"], group["op"]),
            group["total_us"] / 1e6,
        )
        for group in read.groups
        if not group["idle"]
    ]
    return _timeline(rows, length_s, elapsed_s, len(read.sessions()))


def state_of(event: str | None, op: str | None = None) -> str:
    """The state of a database's wait event; None means on a CPU."""
    if event is None:
        return CPU
    if (temp := _TEMP.get(event.lower())) is not None:
        return temp
    if is_like(event, TEMP_EVENTS):
        return READ if "read" in event.lower() else WRITE
    return OTHER_IO if op is not None else WAITS


def _slices(total_s: float, length_s: float) -> int:
    """The number of slices; a rest below a twentieth of one joins the last."""
    return max(math.ceil(total_s / length_s - 0.05), 1)


def _timeline(
    rows: Sequence[tuple[int, str, float]],
    length_s: float,
    total_s: float,
    sessions: int,
    names: Sequence[str] = STATES,
) -> Timeline:
    count = _slices(total_s, length_s)
    busy_s = {name: [0.0] * count for name in names}
    for at, state, seconds in rows:
        busy_s[state][min(max(at, 0), count - 1)] += seconds
    last_s = total_s - (count - 1) * length_s or length_s
    lengths_s = [length_s] * (count - 1) + [last_s]
    states = {state: busy for state, busy in busy_s.items() if sum(busy)}
    return Timeline(
        length_s,
        {state: sum(busy) for state, busy in states.items()},
        {
            state: [s / length for s, length in zip(busy, lengths_s, strict=True)]
            for state, busy in states.items()
        },
        max(sessions, 1),
    )


def _waits_over_time(
    recording: Recording, slice_ns: int, count: int
) -> tuple[dict[str, NDArray[np.float64]], int]:
    """Time of all sessions (ns) by state and slice, and how many did I/O or used a CPU.

    Later waits count in the last slice. No rows are kept.
    """
    with_temp_io = _with_temp_io(recording)
    busy_ns = {state: np.zeros(count) for state in (READ, WRITE, OTHER_IO, WAITS, CPU)}
    sessions = {*with_temp_io}
    for rows in recording.batches("waits"):
        begin_ns, session = rows["start_ns"].values, rows["session"].values
        temp, op = rows["temp"].values, rows["op"]
        cpu_ns = rows["cpu_before_ns"].filled(0)
        sessions.update(np.unique(session[op.is_valid() | (cpu_ns > 0)]).tolist())
        read, write = temp & op.equals("read"), temp & op.equals("write")
        waits = ~temp & op.is_null()
        of_state = {
            READ: read,
            WRITE: write,
            OTHER_IO: ~(read | write | waits),
            WAITS: waits & np.isin(session, [*with_temp_io]),
        }
        spans_ns = [
            (state, begin_ns[its], begin_ns[its] + rows["elapsed_ns"].values[its])
            for state, its in of_state.items()
        ]
        on_cpu = cpu_ns > 0
        spans_ns.append((CPU, np.maximum(begin_ns - cpu_ns, 0)[on_cpu], begin_ns[on_cpu]))
        for state, from_ns, to_ns in spans_ns:
            values = (to_ns - from_ns).astype(float)
            table = Table({"begin_ns": from_ns, "end_ns": to_ns, "values": values})
            busy_ns[state] += np.array(_core.spread(table, float(slice_ns), count))
    return busy_ns, len(sessions)


def _with_temp_io(recording: Recording) -> set[int]:
    """The sessions that read, write or change temp files."""
    with_temp = set[int]()
    for rows in recording.waits_unchecked("session", "temp"):
        with_temp.update(rows["session"][rows["temp"].values].unique())
    return with_temp
