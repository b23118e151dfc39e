"""Runs of which everything is known: threads that compute and wait, simulated step by step.

A slow way to the truth: each thread is a list of steps, and the same list is run on any storage.
Nothing of spillcast is used for that.
"""

import heapq
from dataclasses import dataclass, replace

from evidence import CAPTURE, known, table
from spillcast.recording.capture import RecordOptions
from spillcast.recording.meta import Machine
from spillcast.recording.schema import WAITS, seconds_of, totals
from spillcast.recording.writer import RecordingWriter

US, MS, S = 1_000, 1_000_000, 1_000_000_000
TEMP = "/t/spill"


@dataclass(frozen=True)
class Step:
    """CPU time, and the operation after it."""

    cpu_ns: int
    op: str
    bytes: int
    offset: int


@dataclass(frozen=True)
class Latency:
    """Latencies of a storage: a mean by op, and their scatter.

    ``servers`` is the number of operations served at once; others wait for a free server.
    """

    read_ns: float
    write_ns: float
    sigma: float = 0.0
    servers: int = 1 << 10

    def draw(self, draws, op):
        mean_ns = self.read_ns if op == "read" else self.write_ns
        return max(1, round(mean_ns * draws.lognormvariate(-(self.sigma**2) / 2, self.sigma)))


@dataclass(frozen=True)
class Work:
    """The steps of threads; with ``turns`` each waits until the previous one has done its step."""

    threads: list[list[Step]]
    cpus: int
    turns: bool = False

    def run(self, latency, draws):
        """Elapsed ns on a storage, and the rows that an observer records."""
        return (_in_turn if self.turns else _side_by_side)(self, latency, draws)

    def another_time(self, draws, sigma=0.05):
        """The same work with varied CPU time, as from caches, clocks and neighbours."""
        factor = draws.lognormvariate(0, sigma)
        threads = [
            [replace(step, cpu_ns=round(factor * step.cpu_ns)) for step in steps]
            for steps in self.threads
        ]
        return replace(self, threads=threads)


def spill(draws, *, operations, size, cpu_ns):
    """Files written in order and read back."""
    half = operations // 2
    return [
        Step(
            round(cpu_ns * draws.lognormvariate(-0.125, 0.5)),
            "write" if number < half else "read",
            size,
            number % half * size,
        )
        for number in range(2 * half)
    ]


def _side_by_side(work, latency, draws):
    """Threads share cores, first come, first served, and wait for the storage in parallel."""
    free_ns, served_ns = [0] * work.cpus, [0] * min(latency.servers, len(work.threads))
    ready = [(0, thread, 0) for thread in range(len(work.threads))]
    rows, end_ns = [], 0
    while ready:
        now_ns, thread, number = heapq.heappop(ready)
        if number == len(work.threads[thread]):
            end_ns = max(end_ns, now_ns)
            continue
        step = work.threads[thread][number]
        begin_ns = max(now_ns, heapq.heappop(free_ns)) + step.cpu_ns
        heapq.heappush(free_ns, begin_ns)
        end_of_it_ns = max(begin_ns, heapq.heappop(served_ns)) + latency.draw(draws, step.op)
        heapq.heappush(served_ns, end_of_it_ns)
        took_ns = end_of_it_ns - begin_ns
        rows.append(_row(thread, begin_ns, took_ns, step))
        heapq.heappush(ready, (begin_ns + took_ns, thread, number + 1))
    return end_ns, rows


def _in_turn(work, latency, draws):
    """One thread after the other, each woken by the previous one."""
    rows, now_ns, idle_since_ns = [], 0, {}
    count = len(work.threads)
    for number in range(len(work.threads[0])):
        for thread, steps in enumerate(work.threads):
            step = steps[number]
            if now_ns:
                since_ns = idle_since_ns.get(thread, 0)
                rows.append(_waited(thread, since_ns, now_ns - since_ns, (thread - 1) % count))
            took_ns = latency.draw(draws, step.op)
            rows.append(_row(thread, now_ns + step.cpu_ns, took_ns, step))
            now_ns += step.cpu_ns + took_ns
            idle_since_ns[thread] = now_ns
    return now_ns, rows


def _row(thread, start_ns, elapsed_ns, step, *, file=TEMP):
    return {
        "start_ns": start_ns, "elapsed_ns": elapsed_ns, "session": thread, "op": step.op,
        "event": "pread64" if step.op == "read" else "pwrite64", "temp": file == TEMP,
        "file": f"{file}{thread}" if file == TEMP else file, "offset": step.offset,
        "bytes": step.bytes, "blocked": True, "cpu_before_ns": step.cpu_ns,
    }  # fmt: skip


def _waited(thread, start_ns, elapsed_ns, woken_by):
    return {
        "start_ns": start_ns, "elapsed_ns": elapsed_ns, "session": thread, "event": "blocked",
        "temp": False, "blocked": True, "cpu_before_ns": 0, "woken_by": woken_by,
    }  # fmt: skip


def cold_reads(count, size, latency_ns):
    """Rows of reads of data files from storage before everything else, and their end."""
    step = Step(0, "read", size, 0)
    rows = [_row(0, n * latency_ns, latency_ns, step, file="/data/table") for n in range(count)]
    return rows, count * latency_ns


def later(rows, by_ns):
    """The rows of a run that started ``by_ns`` later."""
    return [row | {"start_ns": row["start_ns"] + by_ns} for row in rows]


def recorded(path, rows, elapsed_ns, *, cpus, parts=None, **capture):
    """A recording of rows; ``parts`` are parts of its meta, ``capture`` its losses and counts."""
    waits = table(sorted(rows, key=lambda row: row["start_ns"]), WAITS)
    temp, other_io = totals(waits)
    writer = RecordingWriter(path)
    writer.add_waits(waits)
    writer.add_seconds(seconds_of(waits))
    meta = replace(
        known(elapsed_ns / S, temp.reads, temp.writes),
        cpu_s=sum(row["cpu_before_ns"] for row in rows) / S,
        temp=temp,
        other_io=other_io,
        machine=Machine(cpus=cpus),
        asked=RecordOptions(temp_dirs=("/t",)),
        capture=replace(CAPTURE, **capture),
        **(parts or {}),
    )
    return writer.finish(meta)
