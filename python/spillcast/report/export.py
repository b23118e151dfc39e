"""Exports: a recording as Chrome trace events, a profile or servers as OpenMetrics text.

Trace Event Format (Google, 2016), the object form, which ui.perfetto.dev and other viewers open.
Slices of one thread must nest or be disjoint, and an arrow starts and ends within a slice:
https://perfetto.dev/docs/faq.

OpenMetrics 1.0, in seconds and bytes: https://github.com/OpenObservability/OpenMetrics,
specification/OpenMetrics.md.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, count, islice
from typing import Any, Literal

import msgspec

from spillcast.document import as_text
from spillcast.engines.ranking import ServerRanking
from spillcast.errors import EvidenceUnsuited, QueryInvalid, SelectionEmpty, first_line
from spillcast.gate import reading
from spillcast.profile import Profile
from spillcast.profile.result import LatencyCounts
from spillcast.profile.timeline import RUN_QUEUE_MIN_NS
from spillcast.recording import OPS, Recording
from spillcast.text import exact_name, one_line

TraceEvent = dict[str, Any]
#: Rows in memory at a time.
_BATCH_ROWS = 20_000
_COLUMNS: tuple[str, ...] = (
    "session", "start_ns", "elapsed_ns", "event", "op", "temp", "file", "offset", "bytes",
    "cpu_before_ns", "woken_by", "sql_id",
)  # fmt: skip
_SAMPLE_COLUMNS: tuple[str, ...] = ("session", "time_ns", "weight_us", "event", "sql_id")


def trace_text(recording: Recording, where: str | None = None) -> Iterator[str]:
    """The document in small pieces; ``where`` is an SQL condition on the waits.

    Threads are tracks, and each wait is a slice. Slices before it show the CPU time of the thread
    since its last wait, and the time in which it was runnable without a core. Arrows lead from the
    thread that ended a wait. InputError for an invalid condition, or if no wait meets it.
    """
    if recording.meta.captured:
        rows = _rows(recording, "waits", _COLUMNS, where)
    else:
        rows = _rows(recording, "samples", _SAMPLE_COLUMNS, where)
    # Bad input is an error before the document begins.
    first = list(islice(rows, 1))
    about = {"elapsed_s": recording.elapsed_s, "recorded_at": recording.meta.started_at}
    yield '{"displayTimeUnit":"ns","otherData":' + _json(about) + ',"traceEvents":[\n'
    events = _events(recording, chain(first, rows), complete=where is None)
    yield _json(next(events))
    for event in events:
        yield ",\n" + _json(event)
    yield "\n]}\n"


def _json(event: TraceEvent) -> str:
    return msgspec.json.encode(event).decode()


def _events(
    recording: Recording, rows: Iterator[tuple[Any, ...]], *, complete: bool
) -> Iterator[TraceEvent]:
    pid = recording.meta.engine.pid or 1
    name = as_text(f"{recording.meta.engine.name}, {recording.path.name}")
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    threads = set[int]()
    if not recording.meta.captured:
        for row in rows:
            threads.add(row[0])
            yield _sampled(pid, *row)
    else:
        yield from _counters(recording, pid)
        # If waits are left out, the time between two rows may contain waits.
        meta = recording.meta
        tracks = _Tracks(pid, complete and meta.raw.whole and meta.capture.shows_run_queue)
        for row in rows:
            yield from tracks.wait(*row)
        threads |= tracks.last_end_ns.keys() | tracks.wakers
    for thread in sorted(threads):
        args = {"name": f"thread {thread}"}
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": args}


def _rows(
    recording: Recording,
    table: Literal["waits", "samples"],
    columns: tuple[str, ...],
    where: str | None,
) -> Iterator[tuple[Any, ...]]:
    """The rows of a table in file order, which is by time for each thread.

    Viewers sort all rows by time; here that would need memory for the entire recording.
    """
    path = recording.checked_file(table)
    names = ", ".join(f'"{name}"' for name in columns)
    any_rows = False
    import duckdb

    with duckdb.connect() as connection, reading(path, "record again"):
        recorded = connection.read_parquet(exact_name(path))
        try:
            chosen = recorded if where is None else recorded.filter(where)
            rows = connection.execute(chosen.project(names).sql_query())
            while batch := rows.fetchmany(_BATCH_ROWS):
                any_rows = True
                yield from batch
        except duckdb.Error as error:
            if where is None:
                raise
            # If this succeeds, the condition is at fault, not the file.
            recorded.aggregate("bit_xor(hash(columns(*)))").fetchall()
            hint = f"the columns are {', '.join(recorded.columns)}"
            raise QueryInvalid(f"--where: {first_line(error)}", hint) from error
    if where is not None and not any_rows:
        raise SelectionEmpty(f"--where: no row of {table} meets '{where}'")


@dataclass
class _Tracks:
    """The slices and arrows of all threads; each thread is a track."""

    pid: int
    #: Whether all waits are there, so the time between two is running or runnable.
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
    ) -> Iterator[TraceEvent]:
        """The slices of a wait and of the CPU time before it."""
        end_ns = start_ns + elapsed_ns
        last_ns = self.last_end_ns.get(thread)
        if last_ns is not None and start_ns < last_ns:
            # Times of two clocks may overlap by their resolution, but viewers need nested slices.
            start_ns, end_ns = last_ns, max(end_ns, last_ns)
        elif cpu_ns is not None:
            yield from self._before(thread, last_ns, start_ns, cpu_ns)
        self.last_end_ns[thread] = end_ns
        values = {"event": event, "bytes": size, "offset": offset, "file": file, "sql_id": sql_id}
        args = {key: value for key, value in values.items() if value is not None}
        name = event if op is None else f"temp {op}" if temp else op
        category = "temp" if temp else "wait" if op is None else "other"
        yield self._slice(thread, name, category, start_ns, end_ns, args)
        if woken_by is not None and end_ns > start_ns:
            yield from self._arrow(woken_by, thread, end_ns)

    def _before(
        self, thread: int, last_ns: int | None, start_ns: int, cpu_ns: int
    ) -> Iterator[TraceEvent]:
        """The slices between the end of the last wait and the start of the next."""
        if last_ns is None or not self.complete:
            begin_ns = max(start_ns - cpu_ns, last_ns or 0)
        else:
            ready_ns = start_ns - last_ns - cpu_ns
            begin_ns = last_ns
            if ready_ns >= RUN_QUEUE_MIN_NS:
                begin_ns += ready_ns
                yield self._slice(thread, "ready", "cpu", last_ns, begin_ns, {})
        if begin_ns < start_ns:
            yield self._slice(thread, "CPU", "cpu", begin_ns, start_ns, {"cpu_ns": cpu_ns})

    def _arrow(self, waker: int, thread: int, end_ns: int) -> Iterator[TraceEvent]:
        """An arrow from the thread that ended a wait, with a slice of 1 ns in which it starts."""
        self.arrows += 1
        self.wakers.add(waker)
        at_ns = end_ns - 1
        yield self._slice(waker, "wake", "wake", at_ns, end_ns, {"thread": thread})
        arrow = {"name": "wake", "cat": "wake", "id": self.arrows, "pid": self.pid}
        yield {"ph": "s", **arrow, "tid": waker, "ts": at_ns / 1e3}
        yield {"ph": "f", **arrow, "tid": thread, "ts": at_ns / 1e3, "bp": "e"}

    def _slice(
        self, thread: int, name: str, category: str, start_ns: int, end_ns: int, args: TraceEvent
    ) -> TraceEvent:
        """A slice. The format has times in us: a float is exact to the nanosecond for 52 days."""
        return {
            "ph": "X", "name": name, "cat": category, "pid": self.pid, "tid": thread,
            "ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3, "args": args,
        }  # fmt: skip


def _sampled(
    pid: int, session: int, time_ns: int, weight_us: int, event: str | None, sql_id: str | None
) -> TraceEvent:
    """A sample as an instant, because its duration is unknown."""
    return {
        "ph": "i", "s": "t", "name": event or "on CPU", "cat": "sample", "pid": pid,
        "tid": session, "ts": time_ns / 1e3,
        "args": {"weight_us": weight_us} | ({"sql_id": sql_id} if sql_id else {}),
    }  # fmt: skip


def _counters(recording: Recording, pid: int) -> Iterator[TraceEvent]:
    """The temp bytes that each op moved, second by second."""
    moved = Counter[tuple[int, str]]()
    seconds = recording.seconds.select(["second", "op", "temp", "bytes"])
    for row in seconds.to_pylist():
        if row["temp"] and row["op"]:
            moved[row["second"], row["op"]] += row["bytes"]
    for second in range(max(moved)[0] + 2) if moved else ():
        args = {op: moved[second, op] for op in OPS}
        yield {"ph": "C", "name": "temp bytes/s", "pid": pid, "ts": second * 1e6, "args": args}


#: Upper bounds of the buckets: 1, 2 and 5 us to 100 s, fixed so that exports can be summed.
BOUNDS_US = [factor * 10**power for power in range(8) for factor in (1, 2, 5)] + [10**8]
#: Suffix of a sample's name, labels and value; a sample without a value is not written.
MetricSample = tuple[str, Mapping[str, Any], float | None]
#: Name without the prefix ``spillcast_``, type, description and samples.
Family = tuple[str, str, str, Iterable[MetricSample]]


def openmetrics_text(profile: Profile, recording: Recording | None = None) -> Iterator[str]:
    """Metrics of a profile, line by line; with its ``recording`` also the bytes moved.

    InputError for statistics, which have neither times nor counts of waits.
    """
    if any("value" in row for row in profile.rows):
        raise EvidenceUnsuited(
            "session statistics hold no times of waits", "give a trace, ASH or a recording"
        )
    rows = [(_labels(profile.by, row), row) for row in profile.rows]
    times = [("_total", labels, row["total_us"] / 1e6) for labels, row in rows]
    families: list[Family] = [
        ("elapsed_seconds", "gauge", "Elapsed time of all sessions.",
         [("", {}, float(profile.elapsed_s))]),
        ("time_seconds", "counter", "Time by event, CPU and idle included.", times),
    ]  # fmt: skip
    if profile.histograms:
        waits = (
            sample
            for (labels, row), buckets in zip(rows, profile.histograms, strict=True)
            if row["count"]
            for sample in _wait_samples(labels, row, buckets)
        )
        text = "Durations of single waits, to within 1 %."
        families.append(("wait_seconds", "histogram", text, waits))
    else:
        counts = [("_total", labels, row["count"]) for labels, row in rows]
        families.append(("samples", "counter", "Samples of sessions, by what they did.", counts))
    if recording is not None and recording.meta.captured:
        families.append(("io_bytes", "counter", "Bytes read and written.", _bytes(recording)))
    return _text_of(families)


def servers_metrics(rankings: Sequence[ServerRanking]) -> Iterator[str]:
    """Metrics of servers' histories, line by line, with the same names as those of a profile.

    Counters begin with the first snapshot; ``sql`` is the queryid.
    """
    statements, databases, histories, temp_s = [], [], [], []
    for ranking in rankings:
        labels = {"server": ranking.source}
        statements += [(s, {**labels, "sql": s.queryid}) for s in ranking.statements]
        databases += [(d, {**labels, "database": d.name}) for d in ranking.databases]
        if (history := ranking.history) is not None:
            histories.append((history, labels))
            temp_io = {**labels, "event": "temp I/O", "idle": "false"}
            times_s = [b.temp_s for b in history.buckets if b.temp_s is not None]
            if len(times_s) == len(history.buckets):
                temp_s.append((sum(times_s), temp_io))
    return _text_of([
        ("io_bytes", "counter", "Bytes read and written.",
         [("_total", {**labels, "temp": "true"}, s.temp_bytes) for s, labels in statements]),
        ("elapsed_seconds", "gauge", "Elapsed time of all calls.",
         [("", labels, s.elapsed_s) for s, labels in statements]),
        ("calls", "counter", "Calls of statements that spill.",
         [("_total", labels, s.calls) for s, labels in statements]),
        ("statement", "info", "The beginning of a statement's text.",
         [("_info", {**labels, "query": one_line(s.query, 80)}, 1)
          for s, labels in statements if s.query]),
        ("temp_files", "counter", "Temp files written.",
         [("_total", labels, d.temp_files) for d, labels in databases]),
        ("temp_file_bytes", "counter", "Bytes of temp files written.",
         [("_total", labels, d.temp_bytes) for d, labels in databases]),
        ("time_seconds", "counter", "Time by event, of all processes.",
         [("_total", labels, s) for s, labels in temp_s]),
        ("first_spill_timestamp_seconds", "gauge", "When a new statement was first seen to spill.",
         [("", {**labels, "sql": change.queryid}, change.by_s)
          for history, labels in histories for change in history.changes if change.kind == "new"]),
        ("look_timestamp_seconds", "gauge", "The last snapshot of the server.",
         [("", labels, history.last_s) for history, labels in histories]),
    ])  # fmt: skip


def _text_of(families: Iterable[Family]) -> Iterator[str]:
    """The lines of each family. Its unit is the last part of its name."""
    for short_name, kind, text, samples in families:
        name = f"spillcast_{short_name}"
        yield f"# TYPE {name} {kind}\n"
        unit = name.rpartition("_")[2]
        if unit in {"seconds", "bytes"}:
            yield f"# UNIT {name} {unit}\n"
        yield f"# HELP {name} {text}\n"
        for suffix, labels, value in samples:
            if value is not None:
                number = value if isinstance(value, int) else float(value)
                yield f"{name}{suffix}{_labels_text(labels)} {number}\n"
    yield "# EOF\n"


def _wait_samples(
    labels: Mapping[str, Any], row: Mapping[str, Any], buckets: LatencyCounts
) -> Iterator[MetricSample]:
    """The cumulative histogram of a row, its count and its sum (s)."""
    ordered = sorted(zip(*buckets, strict=True))
    latencies_ns = [ns for ns, _ in ordered]
    cumulative = [0, *accumulate(count for _, count in ordered)]
    for bound_us in BOUNDS_US:
        # A bucket of OpenMetrics contains its bound.
        count = cumulative[bisect_right(latencies_ns, bound_us * 1000)]
        yield "_bucket", {**labels, "le": repr(bound_us / 1e6)}, count
    yield "_bucket", {**labels, "le": "+Inf"}, cumulative[-1]
    yield "_count", labels, cumulative[-1]
    yield "_sum", labels, row["total_us"] / 1e6


def _bytes(recording: Recording) -> Iterator[MetricSample]:
    sums = Counter[tuple[str, bool]]()
    for row in recording.seconds.select(["op", "temp", "bytes"]).to_pylist():
        if row["op"]:
            sums[row["op"], row["temp"]] += row["bytes"]
    for (op, temp), size in sorted(sums.items()):
        yield "_total", {"op": op, "temp": str(temp).lower()}, size


def _labels(by: Sequence[str], row: dict[str, Any]) -> dict[str, Any]:
    """The labels of a row; missing values are left out, as the format requires."""
    names = [*by, *(name for name in ("op", "sql") if name in row and name not in by)]
    pairs: dict[str, Any] = {}
    for name in names:
        pairs[_label_name(name, pairs)] = row[name]
    labels = {name: value for name, value in pairs.items() if value is not None}
    return {**labels, "idle": str(bool(row["idle"])).lower()}


def _labels_text(pairs: Mapping[str, Any]) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    labels = (f'{name}="{str(value).translate(escapes)}"' for name, value in pairs.items())
    return "{" + ",".join(labels) + "}" if pairs else ""


def _label_name(wanted: str, taken: Collection[str]) -> str:
    """A unique label name of letters and digits for an SQL expression."""
    name = re.sub(r"[^a-zA-Z0-9_]+", "_", wanted).strip("_")
    if not name or name[0].isdigit() or name == "le":
        name = f"by_{name}"
    numbered = (f"{name}_{number}" for number in count(2))
    return next(candidate for candidate in chain([name], numbered) if candidate not in taken)
