"""Exports: a recording as Chrome trace events, a profile or servers as OpenMetrics text.

Trace Event Format (Google, 2016), the object form, which ui.perfetto.dev and other viewers open.
Slices of one thread must nest or be apart, and an arrow begins and ends within a slice:
https://perfetto.dev/docs/faq.

OpenMetrics 1.0, in seconds and bytes: https://github.com/OpenObservability/OpenMetrics,
specification/OpenMetrics.md.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, chain, islice
from typing import Any, Literal

from spillcast.engines.ranking import ServerRanking
from spillcast.errors import EvidenceUnsuited, QueryInvalid, SelectionEmpty, first_line
from spillcast.profile import Profile
from spillcast.recording import Recording
from spillcast.text import exact_name, one_line

#: Rows in memory at a time.
_BATCH_ROWS = 20_000
#: Less time than this without a core is the grain of the clocks.
_READY_NS = 1000
_COLUMNS: tuple[str, ...] = (
    "session", "start_ns", "elapsed_ns", "event", "op", "temp", "file", "offset", "bytes",
    "cpu_before_ns", "woken_by", "sql_id",
)  # fmt: skip
_SAMPLE_COLUMNS: tuple[str, ...] = ("session", "time_ns", "weight_us", "event", "sql_id")


def trace_text(recording: Recording, where: str | None = None) -> Iterator[str]:
    """The document in pieces, of which each is small; ``where`` is an SQL condition on the waits.

    Threads are tracks. A wait is a slice with what it moved; before it stand the CPU time that the
    thread burned since its last wait, and the time it was runnable without a core. Arrows lead from
    the thread that ended a wait. InputError for an invalid condition, or if no wait meets
    it.
    """
    if recording.meta.captured:
        rows = _rows(recording, "waits", _COLUMNS, where)
    else:
        rows = _rows(recording, "samples", _SAMPLE_COLUMNS, where)
    # Bad input is an error before the document begins.
    first = list(islice(rows, 1))
    about = {"elapsed_s": recording.elapsed_s, "recorded_at": recording.meta.started_at}
    yield '{"displayTimeUnit":"ns","otherData":' + json.dumps(about) + ',"traceEvents":[\n'
    events = _events(recording, chain(first, rows), complete=where is None)
    yield next(events)
    for event in events:
        yield ",\n" + event
    yield "\n]}\n"


def _events(
    recording: Recording, rows: Iterator[tuple[Any, ...]], *, complete: bool
) -> Iterator[str]:
    pid = recording.meta.engine.pid or 1
    name = f"{recording.meta.engine.name}, {recording.path.name}"
    yield json.dumps({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
    threads = set[int]()
    if not recording.meta.captured:
        for row in rows:
            threads.add(row[0])
            yield _sampled(pid, *row)
    else:
        yield from _counters(recording, pid)
        # Where waits are left out, what lies between two of them is not known.
        tracks = _Tracks(pid, complete and recording.meta.raw.whole)
        for row in rows:
            yield from tracks.wait(*row)
        threads |= tracks.last_end_ns.keys() | tracks.wakers
    for thread in sorted(threads):
        args = {"name": f"thread {thread}"}
        yield json.dumps(
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": args}
        )


def _rows(
    recording: Recording,
    table: Literal["waits", "samples"],
    columns: tuple[str, ...],
    where: str | None,
) -> Iterator[tuple[Any, ...]]:
    """The rows of a table as they were written, which is each thread's in the order of time.

    Viewers sort by time themselves; here it would need as much room as the recording.
    """
    recording.check_rows(table)
    path = recording.path / f"{table}.parquet"
    names = ", ".join(f'"{name}"' for name in columns)
    any_rows = False
    import duckdb

    with duckdb.connect() as connection:
        try:
            recorded = connection.read_parquet(exact_name(path))
            try:
                chosen = recorded if where is None else recorded.filter(where)
            except duckdb.Error as error:
                known = f"the columns are {', '.join(recorded.columns)}"
                raise QueryInvalid(f"--where: {first_line(error)}", known) from error
            rows = connection.execute(chosen.project(names).sql_query())
            while batch := rows.fetchmany(_BATCH_ROWS):
                any_rows = True
                yield from batch
        except duckdb.ConversionException as error:
            raise QueryInvalid(f"--where: {first_line(error)}") from error
        except duckdb.Error as error:
            problem = f"{path}: cut or damaged: {first_line(error)}"
            raise QueryInvalid(problem, "record again") from error
    if where is not None and not any_rows:
        raise SelectionEmpty(f"--where: no row of {table} meets '{where}'")


@dataclass
class _Tracks:
    """Threads and how far each has been drawn."""

    pid: int
    complete: bool
    last_end_ns: dict[int, int] = field(default_factory=dict)
    wakers: set[int] = field(default_factory=set)
    arrows: int = 0

    def wait(
        self,
        thread: int,
        start_ns: int,
        elapsed_ns: int,
        event: str,
        op: str | None,
        temp: bool,
        file: str | None,
        offset: int | None,
        size: int | None,
        cpu_ns: int | None,
        woken_by: int | None,
        sql_id: str | None,
    ) -> Iterator[str]:
        """The slices of a wait and of the CPU time before it."""
        end_ns = start_ns + elapsed_ns
        last_ns = self.last_end_ns.get(thread)
        if last_ns is not None and start_ns < last_ns:
            # Two clocks may overlap by their grain, and viewers want slices that nest.
            start_ns, end_ns = last_ns, max(end_ns, last_ns)
        elif cpu_ns is not None:
            yield from self._before(thread, last_ns, start_ns, cpu_ns)
        self.last_end_ns[thread] = end_ns
        args = f'"event":{_quoted(event)}'
        for key, value in (("bytes", size), ("offset", offset)):
            args += "" if value is None else f',"{key}":{value}'
        for key, text in (("file", file), ("sql_id", sql_id)):
            args += "" if text is None else f',"{key}":{_quoted(text)}'
        name = event if op is None else f"temp {op}" if temp else op
        category = "temp" if temp else "wait" if op is None else "other"
        yield _slice(self.pid, thread, name, category, start_ns, end_ns, args)
        if woken_by is not None and end_ns > start_ns:
            yield from self._arrow(woken_by, thread, end_ns)

    def _before(
        self, thread: int, last_ns: int | None, start_ns: int, cpu_ns: int
    ) -> Iterator[str]:
        if last_ns is None or not self.complete:
            begin_ns = max(start_ns - cpu_ns, last_ns or 0)
        else:
            ready_ns = start_ns - last_ns - cpu_ns
            begin_ns = last_ns
            if ready_ns >= _READY_NS:
                begin_ns += ready_ns
                yield _slice(self.pid, thread, "ready", "cpu", last_ns, begin_ns)
        if begin_ns < start_ns:
            args = f'"cpu_ns":{cpu_ns}'
            yield _slice(self.pid, thread, "CPU", "cpu", begin_ns, start_ns, args)

    def _arrow(self, waker: int, thread: int, end_ns: int) -> Iterator[str]:
        """From the thread that ended a wait; a slice of a nanosecond there holds its beginning."""
        self.arrows += 1
        self.wakers.add(waker)
        at_ns = end_ns - 1
        yield _slice(self.pid, waker, "wake", "wake", at_ns, end_ns, f'"thread":{thread}')
        for phase, tid, more in (("s", waker, ""), ("f", thread, ',"bp":"e"')):
            yield (
                f'{{"ph":"{phase}","name":"wake","cat":"wake","id":{self.arrows},'
                f'"pid":{self.pid},"tid":{tid},"ts":{_us(at_ns)}{more}}}'
            )


def _sampled(
    pid: int, session: int, time_ns: int, weight_us: int, event: str | None, sql_id: str | None
) -> str:
    """Draw a sample as an instant and not as a slice, because its duration is unknown."""
    args = {"weight_us": weight_us} | ({"sql_id": sql_id} if sql_id else {})
    return json.dumps(
        {
            "ph": "i", "s": "t", "name": event or "on CPU", "cat": "sample", "pid": pid,
            "tid": session, "ts": time_ns / 1e3, "args": args,
        }
    )  # fmt: skip


def _counters(recording: Recording, pid: int) -> Iterator[str]:
    moved: dict[int, dict[str, int]] = {}
    seconds = recording.seconds.select(["second", "op", "temp", "bytes"])
    for row in seconds.to_pylist():
        if row["temp"] and row["op"]:
            at = moved.setdefault(row["second"], {"read": 0, "write": 0})
            at[row["op"]] += row["bytes"]
    nothing = {"read": 0, "write": 0}
    for second in range(max(moved) + 2) if moved else ():
        args = moved.get(second, nothing)
        counter = {"ph": "C", "name": "temp bytes/s", "pid": pid, "ts": second * 1e6, "args": args}
        yield json.dumps(counter)


def _slice(
    pid: int, thread: int, name: str, category: str, start_ns: int, end_ns: int, args: str = ""
) -> str:
    """A slice; ``args`` are fields of JSON. Put together by hand, for there are many."""
    return (
        f'{{"ph":"X","name":{_quoted(name)},"cat":"{category}","pid":{pid},"tid":{thread},'
        f'"ts":{_us(start_ns)},"dur":{_us(end_ns - start_ns)},"args":{{{args}}}}}'
    )


@lru_cache(1 << 16)
def _quoted(text: str) -> str:
    """A JSON string. Few events and files occur, each many times."""
    return json.dumps(text)


def _us(ns: int) -> str:
    """Microseconds, exact to the nanosecond."""
    return f"{ns // 1000}.{ns % 1000:03d}"


#: Upper bounds of the buckets: 1, 2 and 5 us to 100 s, so that all exports can be added up.
BOUNDS_US = [factor * 10**power for power in range(8) for factor in (1, 2, 5)] + [10**8]


def openmetrics_text(profile: Profile, recording: Recording | None = None) -> Iterator[str]:
    """Lines of text; with the ``recording`` that was profiled also the bytes it moved.

    InputError for statistics, which hold neither times nor counts of waits.
    """
    if any("value" in row for row in profile.rows):
        raise EvidenceUnsuited(
            "session statistics hold no times of waits", "give a trace, ASH or a recording"
        )
    labels = [_labels(profile.by, row) for row in profile.rows]
    yield from _family("spillcast_elapsed_seconds", "gauge", "Elapsed time of all sessions.")
    yield f"spillcast_elapsed_seconds {_number(profile.elapsed_s)}\n"
    yield from _family("spillcast_time_seconds", "counter", "Time by event, CPU and idle included.")
    for label, row in zip(labels, profile.rows, strict=True):
        yield f"spillcast_time_seconds_total{label} {_number(row['total_us'] / 1e6)}\n"
    yield from _waits(profile, labels) if profile.histograms else _samples(profile, labels)
    if recording is not None and recording.meta.captured:
        yield from _bytes(recording)
    yield "# EOF\n"


def servers_metrics(rankings: Sequence[ServerRanking]) -> Iterator[str]:
    """Lines of text of servers' histories, with the names that a profile's have.

    Counters begin with the first snapshot; ``sql`` is the queryid.
    """
    servers = [(r, {"server": r.source}) for r in rankings]
    statements = [(s, {**of, "sql": s.queryid}) for r, of in servers for s in r.statements]
    databases = [(d, {**of, "database": d.name}) for r, of in servers for d in r.databases]
    histories = [(r.history, of) for r, of in servers if r.history is not None]
    busy_s = [sum(bucket.temp_s for bucket in history.buckets) for history, _ in histories]
    busy = {"event": "temp I/O", "idle": "false"}
    families: list[tuple[str, str, str, list[tuple[dict[str, Any], float | None]]]] = [
        ("io_bytes", "counter", "Bytes read and written.",
         [({**of, "temp": "true"}, s.temp_bytes) for s, of in statements]),
        ("elapsed_seconds", "gauge", "Elapsed time of all calls.",
         [(of, s.elapsed_s) for s, of in statements]),
        ("calls", "counter", "Calls of statements that spill.",
         [(of, s.calls) for s, of in statements]),
        ("statement", "info", "The beginning of a statement's text.",
         [({**of, "query": one_line(s.query, 80)}, 1) for s, of in statements if s.query]),
        ("temp_files", "counter", "Temp files written.",
         [(of, d.temp_files) for d, of in databases]),
        ("temp_file_bytes", "counter", "Bytes of temp files written.",
         [(of, d.temp_bytes) for d, of in databases]),
        ("time_seconds", "counter", "Time by event, of all processes.",
         [({**of, **busy}, s) for (_, of), s in zip(histories, busy_s, strict=True)]),
        ("first_spill_timestamp_seconds", "gauge", "When a new statement was first seen to spill.",
         [({**of, "sql": change.queryid}, change.by_s)
          for history, of in histories for change in history.changes if change.kind == "new"]),
        ("look_timestamp_seconds", "gauge", "The last snapshot of the server.",
         [(of, history.last_s) for history, of in histories]),
    ]  # fmt: skip
    for family in families:
        yield from _samples_of(*family)
    yield "# EOF\n"


def _samples_of(
    name: str, kind: str, text: str, samples: Sequence[tuple[Mapping[str, Any], float | None]]
) -> Iterator[str]:
    """A family and its samples, without those whose value is not known."""
    yield from _family(f"spillcast_{name}", kind, text)
    end = {"counter": "_total", "info": "_info"}.get(kind, "")
    for labels, value in samples:
        if value is not None:
            shown = value if isinstance(value, int) else _number(value)
            yield f"spillcast_{name}{end}{_labels_text(labels)} {shown}\n"


def _waits(profile: Profile, labels: Sequence[str]) -> Iterator[str]:
    name = "spillcast_wait_seconds"
    yield from _family(name, "histogram", "Durations of single waits, to within 1 %.")
    for label, row, (latency_ns, counts) in zip(
        labels, profile.rows, profile.histograms, strict=True
    ):
        if not row["count"]:
            continue
        ordered = sorted(zip(latency_ns, counts, strict=True))
        ends = [ns for ns, _ in ordered]
        below = [0, *accumulate(count for _, count in ordered)]
        for bound_us in BOUNDS_US:
            # A bucket holds what is at most its bound.
            count = below[bisect_left(ends, bound_us * 1000 + 1)]
            yield f"{name}_bucket{_with(label, 'le', _number(bound_us / 1e6))} {count}\n"
        yield f"{name}_bucket{_with(label, 'le', '+Inf')} {below[-1]}\n"
        yield f"{name}_count{label} {below[-1]}\n"
        yield f"{name}_sum{label} {_number(row['total_us'] / 1e6)}\n"


def _samples(profile: Profile, labels: Sequence[str]) -> Iterator[str]:
    yield from _family("spillcast_samples", "counter", "Samples that saw a session so.")
    for label, row in zip(labels, profile.rows, strict=True):
        if row["count"] is not None:
            yield f"spillcast_samples_total{label} {row['count']}\n"


def _bytes(recording: Recording) -> Iterator[str]:
    sums: dict[tuple[str, bool], int] = {}
    for row in recording.seconds.select(["op", "temp", "bytes"]).to_pylist():
        if row["op"]:
            key = row["op"], row["temp"]
            sums[key] = sums.get(key, 0) + row["bytes"]
    yield from _family("spillcast_io_bytes", "counter", "Bytes read and written.")
    for (op, temp), count in sorted(sums.items()):
        temp_text = "true" if temp else "false"
        yield f'spillcast_io_bytes_total{{op="{op}",temp="{temp_text}"}} {count}\n'


def _family(name: str, kind: str, text: str) -> Iterator[str]:
    """The description of a family; its unit is the end of its name."""
    yield f"# TYPE {name} {kind}\n"
    unit = name.rpartition("_")[2]
    if unit in {"seconds", "bytes"}:
        yield f"# UNIT {name} {unit}\n"
    yield f"# HELP {name} {text}\n"


def _labels(by: Sequence[str], row: dict[str, Any]) -> str:
    """The labels of a row; missing values are left out, as the format requires."""
    names = [*by, *(name for name in ("op", "sql") if name in row and name not in by)]
    pairs: dict[str, Any] = {}
    for name in names:
        pairs[_label_name(name, pairs)] = row[name]
    pairs = {name: value for name, value in pairs.items() if value is not None}
    return _labels_text({**pairs, "idle": "true" if row["idle"] else "false"})


def _labels_text(pairs: Mapping[str, Any]) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    labels = (f'{name}="{str(value).translate(escapes)}"' for name, value in pairs.items())
    return "{" + ",".join(labels) + "}"


def _label_name(wanted: str, taken: Collection[str]) -> str:
    """A unique label name of letters and digits for an SQL expression."""
    name = re.sub(r"[^a-zA-Z0-9_]+", "_", wanted).strip("_")
    if not name or name[0].isdigit() or name == "le":
        name = f"by_{name}"
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return (
        name
        if name not in taken
        else next(candidate for candidate in numbered if candidate not in taken)
    )


def _with(labels: str, name: str, value: str) -> str:
    return f'{labels[:-1]},{name}="{value}"}}'


def _number(value: float) -> str:
    """As the specification wants the bounds of buckets to be written: 0.001, 1e-05, 10.0."""
    return repr(float(value))
