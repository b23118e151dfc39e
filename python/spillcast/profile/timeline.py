"""The states of sessions over time: on a CPU, in temp reads and writes, waiting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.evidence.oracle.ash import ALL, Chosen, read_ash
from spillcast.recording import Recording
from spillcast.recording.event_names import TEMP_EVENTS, is_like

if TYPE_CHECKING:
    from spillcast.evidence.oracle.trace import Traces
    from spillcast.tables import Table

CPU, READ, WRITE, OTHER_IO, WAITS = "CPU", "temp reads", "temp writes", "other I/O", "other waits"
STATES = (CPU, READ, WRITE, OTHER_IO, WAITS)
#: So many events get their own line; the others share one.
EVENTS_MAX, ON_CPU, OTHERS = 5, "(on CPU)", "other events"
#: A drawing cannot show more slices.
STRETCHES_MAX = 160
_LENGTHS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
#: PostgreSQL's names, which version 17 spells BuffileRead; patterns identify Oracle's.
_TEMP = {"buffileread": READ, "buffilewrite": WRITE}


@dataclass(frozen=True)
class Timeline:
    """Time of all sessions by state: in all (s), and the mean number of them in each stretch.

    ``busy`` holds, for each state that occurs, a number for each slice of ``length_s``;
    ``sessions`` is how many there were, which are threads of a recording.
    """

    length_s: float
    totals_s: dict[str, float]
    busy: dict[str, list[float]]
    sessions: int = 1


def stretch_s(elapsed_s: float, least_s: float = 0.01) -> float:
    """The length of a slice: a round number of at least ``least_s`` that makes few slices."""
    fit = [s for s in _LENGTHS_S if s >= least_s and elapsed_s / s <= STRETCHES_MAX]
    return fit[0] if fit else elapsed_s / STRETCHES_MAX


def of_recording(recording: Recording) -> Timeline:
    """The single waits and the CPU before them if all were kept, else the I/O of each second.

    Waits other than I/O are those of sessions with temp I/O, because others may be idle. CPU
    time counts where it ended. Rows are read without being kept in memory.
    """
    if not recording.meta.captured:
        return of_samples(recording.samples, recording.elapsed_s)
    if not recording.meta.raw.whole:
        return _of_seconds(recording)
    whole_s = _whole_s(recording)
    length_s = stretch_s(whole_s)
    from spillcast.profile.waits_over_time import WaitsOverTime

    waits_over_time = WaitsOverTime(recording, round(length_s * 1e9), _stretches(whole_s, length_s))
    rows = [
        (stretch, state, ns / 1e9)
        for state, sums_ns in zip(
            (READ, WRITE, OTHER_IO, WAITS, CPU), waits_over_time.ns, strict=True
        )
        for stretch, ns in enumerate(sums_ns.tolist())
    ]
    return _timeline(rows, length_s, whole_s, waits_over_time.sessions)


def _whole_s(recording: Recording) -> float:
    """The recording may have gone on for longer than the run."""
    return max(recording.elapsed_s, recording.meta.recorded_s)


def _of_seconds(recording: Recording) -> Timeline:
    """The I/O of the whole run: by the second in which it began."""
    whole_s = _whole_s(recording)
    length_s = stretch_s(whole_s, 1)
    rows = [
        (int(second // length_s), _state_of_io(op, temp), total_ns / 1e9)
        for second, op, temp, total_ns in zip(
            *(recording.seconds[name].to_pylist() for name in ("second", "op", "temp", "total_ns")),
            strict=True,
        )
        if op is not None
    ]
    return _timeline(rows, length_s, whole_s, _sessions(recording.waits))


def _sessions(rows: "Table") -> int:
    return len(rows["session"].unique())


def _state_of_io(op: str, temp: bool) -> str:
    return {"read": READ, "write": WRITE}[op] if temp else OTHER_IO


def of_samples(samples: "Table", elapsed_s: float) -> Timeline:
    """Samples of sessions: each stands for its weight."""
    length_s = stretch_s(elapsed_s, 1)
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


def events_of_samples(samples: "Table", elapsed_s: float) -> Timeline:
    """The same as ``of_samples`` by event: those that took longest, the rest as one."""
    length_s = stretch_s(elapsed_s, 1)
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
    length_s = stretch_s(elapsed_s, 1)
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


def _stretches(whole_s: float, length_s: float) -> int:
    """The number of slices; a rest below a twentieth of one joins the last."""
    return max(math.ceil(whole_s / length_s - 0.05), 1)


def _timeline(
    rows: Sequence[tuple[int, str, float]],
    length_s: float,
    whole_s: float,
    sessions: int,
    names: Sequence[str] = STATES,
) -> Timeline:
    count = _stretches(whole_s, length_s)
    busy_s = {name: [0.0] * count for name in names}
    for stretch, state, seconds in rows:
        busy_s[state][min(max(stretch, 0), count - 1)] += seconds
    last_s = whole_s - (count - 1) * length_s or length_s
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
