"""A recording as Chrome trace events, which ui.perfetto.dev and other viewers open.

The format: Trace Event Format (Google, 2016), the object form. Slices of one thread must nest or be
apart, and an arrow begins and ends within a slice; https://perfetto.dev/docs/faq says so.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Literal

import duckdb

from spillcast.errors import QueryInvalid, SelectionEmpty, first_line
from spillcast.recording import Recording
from spillcast.text import exact_name

#: Rows held at a time.
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
    the thread that ended a wait. InputError for a condition that cannot be asked, or that none
    meets.
    """
    if recording.meta.captured:
        rows = _rows(recording, "waits", _COLUMNS, where)
    else:
        rows = _rows(recording, "samples", _SAMPLE_COLUMNS, where)
    # Bad input is told before the document begins.
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
    with duckdb.connect() as connection:
        try:
            recorded = connection.read_parquet(exact_name(path))
            rows = connection.execute(_meeting(recorded, where).project(names).sql_query())
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


def _meeting(recorded: duckdb.DuckDBPyRelation, where: str | None) -> duckdb.DuckDBPyRelation:
    """Rows that meet an SQL condition. InputError for an invalid condition."""
    try:
        return recorded if where is None else recorded.filter(where)
    except duckdb.Error as error:
        known = f"the columns are {', '.join(recorded.columns)}"
        raise QueryInvalid(f"--where: {first_line(error)}", known) from error


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
    """Temp bytes a second, over the run."""
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
    """Events and files are few, and come again and again."""
    return json.dumps(text)


def _us(ns: int) -> str:
    """Microseconds, exact to the nanosecond."""
    return f"{ns // 1000}.{ns % 1000:03d}"
