"""Time lines of session states: running on a CPU or runnable, in temp I/O, waiting."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.selection import NO_FILTER, Filter
from spillcast.recording import TEMP_EVENTS, Recording, is_like
from spillcast.tables import Table

if TYPE_CHECKING:
    from spillcast.evidence.oracle.trace import Traces

CPU, READ, WRITE, OTHER_IO, WAITS = "CPU", "temp reads", "temp writes", "other I/O", "other waits"
RUN_QUEUE = "waits for a CPU"
STATES = (CPU, RUN_QUEUE, READ, WRITE, OTHER_IO, WAITS)
#: Shorter times in the run queue are below the resolution of the clocks.
RUN_QUEUE_MIN_NS = 1000
#: The maximum number of slices in a drawing.
SLICES_MAX = 160
_LENGTHS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
#: PostgreSQL's events in lower case, as version 17 spells BuffileRead. Oracle's match TEMP_EVENTS.
_TEMP = {"buffileread": READ, "buffilewrite": WRITE}


@dataclass(frozen=True)
class Timeline:
    """The total time (s) of all sessions by state, and their mean number in each slice.

    ``busy`` has the mean number of sessions in each state that occurs, by slice of ``length_s``.
    ``sessions`` is the number of sessions, which are threads in a recording.
    """

    length_s: float
    totals_s: dict[str, float]
    busy: dict[str, list[float]]
    sessions: int = 1


def slice_s(elapsed_s: float, min_s: float = 0.01) -> float:
    """The length of a slice: the smallest round number from ``min_s`` up with few slices."""
    lengths_s = (s for s in _LENGTHS_S if s >= min_s and elapsed_s / s <= SLICES_MAX)
    return next(lengths_s, elapsed_s / SLICES_MAX)


def of_recording(recording: Recording) -> Timeline:
    """The single waits and the CPU time before them if all were kept, else the I/O of each second.

    Waits other than I/O count only for sessions with temp I/O, because other sessions may be idle.
    Rows are read in batches.
    """
    if not recording.meta.captured:
        return of_samples(recording.samples, recording.elapsed_s)
    # A recording may last longer than the run.
    total_s = max(recording.elapsed_s, recording.meta.recorded_s)
    if not recording.meta.raw.whole:
        temp_states = {"read": READ, "write": WRITE}
        names = ("second", "op", "temp", "total_ns")
        columns = (recording.seconds[name].to_pylist() for name in names)
        rows = [
            (second, temp_states[op] if temp else OTHER_IO, total_ns / 1e9)
            for second, op, temp, total_ns in zip(*columns, strict=True)
            if op is not None
        ]
        numbers = (waits["session"].unique() for waits in recording.batches("waits"))
        return _of_rows(rows, total_s, len(set[int]().union(*numbers)))
    length_s = slice_s(total_s)
    slices = _slices(total_s, length_s)
    busy_ns, sessions = _waits_over_time(recording, round(length_s * 1e9), slices)
    busy_s = {state: (sums_ns / 1e9).tolist() for state, sums_ns in busy_ns.items()}
    return _timeline(busy_s, length_s, total_s, sessions)


def of_samples(samples: Table, elapsed_s: float) -> Timeline:
    """The samples of sessions; each represents the time of its weight."""
    states = map(state_of, samples["event"].to_pylist())
    rows = zip(
        samples["time_ns"].values / 1e9, states, samples["weight_us"].values / 1e6, strict=True
    )
    return _of_rows(rows, elapsed_s, len(samples["session"].unique()))


def of_ash(paths: Sequence[Path], chosen: Filter = NO_FILTER) -> Timeline:
    """The selected samples of ASH exports over the time that they cover."""
    samples = read_ash(paths, chosen).samples
    times = samples["time_ns"].to_numpy()
    covered_s = float(times.max() - times.min()) / 1e9 + 1 if len(times) else 0.0
    return of_samples(samples, covered_s)


def of_traces(read: "Traces", elapsed_s: float) -> Timeline:
    """Groups of traces by ``event``, and by the ``second`` in which a wait ended."""
    first = read.first_second()
    rows = (
        (
            group["second"] - first,
            CPU if group["event"] is None else state_of(group["event"], group["op"]),
            group["total_us"] / 1e6,
        )
        for group in read.groups
        if not group["idle"]
    )
    return _of_rows(rows, elapsed_s, len(read.sessions()))


def state_of(event: str | None, op: str | None = None) -> str:
    """The state of a session in a wait event; None means on a CPU."""
    if event is None:
        return CPU
    if (temp := _TEMP.get(event.lower())) is not None:
        return temp
    if is_like(event, TEMP_EVENTS):
        return READ if "read" in event.lower() else WRITE
    return OTHER_IO if op is not None else WAITS


def _slices(total_s: float, length_s: float) -> int:
    """The number of slices; a remainder below a twentieth of a slice belongs to the last."""
    return max(math.ceil(total_s / length_s - 0.05), 1)


def _of_rows(rows: Iterable[tuple[float, str, float]], total_s: float, sessions: int) -> Timeline:
    """The time line of (time (s), state, seconds in it), in slices of a second or more."""
    length_s = slice_s(total_s, 1)
    count = _slices(total_s, length_s)
    busy_s = {name: [0.0] * count for name in STATES}
    for at_s, state, seconds in rows:
        busy_s[state][min(max(int(at_s // length_s), 0), count - 1)] += seconds
    return _timeline(busy_s, length_s, total_s, sessions)


def _timeline(
    busy_s: Mapping[str, Sequence[float]], length_s: float, total_s: float, sessions: int
) -> Timeline:
    """The time line of the seconds in each state by slice."""
    count = _slices(total_s, length_s)
    lengths_s = [length_s] * (count - 1) + [total_s - (count - 1) * length_s or length_s]
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
    """The time (ns) of all sessions by state and slice, and the number of active sessions.

    Active sessions did I/O or used a CPU. Waits after the last slice count in it.
    """
    with_temp_io = set[int]()
    for rows in recording.batches("waits", "session", "temp"):
        with_temp_io.update(rows["session"][rows["temp"].values].unique())
    busy_ns = {state: np.zeros(count) for state in STATES}
    sessions, ends_ns = {*with_temp_io}, dict[int, int]()
    capture = recording.meta.capture
    has_run_queue = capture.shows_run_queue and capture.run_queue_delay_s > 0
    for rows in recording.batches("waits"):
        begin_ns, session = rows["start_ns"].values, rows["session"].values
        temp, op = rows["temp"].values, rows["op"]
        cpu = rows["cpu_before_ns"]
        end_ns, cpu_ns = begin_ns + rows["elapsed_ns"].values, cpu.filled(0)
        sessions.update(np.unique(session[op.is_valid() | (cpu_ns > 0)]).tolist())
        read, write = temp & op.equals("read"), temp & op.equals("write")
        is_wait = ~temp & op.is_null()
        masks = {
            READ: read,
            WRITE: write,
            OTHER_IO: ~(read | write | is_wait),
            WAITS: is_wait & np.isin(session, [*with_temp_io]),
        }
        spans_ns = [(state, begin_ns[mask], end_ns[mask]) for state, mask in masks.items()]
        on_cpu = cpu_ns > 0
        cpu_begin_ns = np.maximum(begin_ns - cpu_ns, 0)
        spans_ns.append((CPU, cpu_begin_ns[on_cpu], begin_ns[on_cpu]))
        if has_run_queue and len(rows):
            before_ns = _ends_before(session, end_ns, cpu_begin_ns, ends_ns)
            ready = cpu.is_valid() & (cpu_begin_ns - before_ns >= RUN_QUEUE_MIN_NS)
            spans_ns.append((RUN_QUEUE, before_ns[ready], cpu_begin_ns[ready]))
        for state, from_ns, to_ns in spans_ns:
            values = (to_ns - from_ns).astype(float)
            table = Table({"begin_ns": from_ns, "end_ns": to_ns, "values": values})
            busy_ns[state] += np.array(_core.spread(table, float(slice_ns), count))
    return busy_ns, len(sessions)


def _ends_before(
    session: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    first_ns: NDArray[np.int64],
    ends_ns: dict[int, int],
) -> NDArray[np.int64]:
    """The end of the same session's previous wait, for each wait; ``first_ns`` for a first wait.

    ``ends_ns`` has the last ends in earlier batches, and is updated.
    """
    order = np.argsort(session, kind="stable")
    ordered, ends = session[order], end_ns[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])
    before = np.append(0, ends[:-1])
    begins = zip(ordered[is_new].tolist(), first_ns[order][is_new].tolist(), strict=True)
    before[is_new] = [ends_ns.get(thread, first) for thread, first in begins]
    is_last = np.append(is_new[1:], True)
    ends_ns.update(zip(ordered[is_last].tolist(), ends[is_last].tolist(), strict=True))
    result = np.empty_like(before)
    result[order] = before
    return result
