"""Recordings of a requested number of waits, varied by the seed."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute

from large_recording import write_rest
from spillcast.recording.schema import WAITS
from spillcast.tables import Table, write_parquet


def write_varied_recording(path, waits, seed, wait_us=None):
    """Writes the folder: one to sixteen threads that write and then read, some starting late.

    CPU time and waits are lognormal and drift over the run; some threads do more than others,
    some waits are for another thread, and reads are sequential or random. Temp operations take
    about ``wait_us``, by default 80 us to 3 ms.
    """
    draws = np.random.default_rng(seed)
    threads = int(draws.choice([1, 1, 2, 2, 3, 4, 4, 8, 16]))
    share = draws.dirichlet(np.full(threads, draws.choice([3.0, 30.0])))
    size = int(draws.choice([8192, 65536, 262144]))
    cpu_us, usual_us = draws.uniform(20, 300), 10 ** draws.uniform(1.9, 3.5)
    wait_us = wait_us or usual_us
    lock_share = draws.uniform(0, 0.1) if threads > 1 else 0.0
    scan = bool(draws.integers(2))
    parts = [
        _thread(draws, number, round(waits * share[number]), threads, size, cpu_us, wait_us)
        for number in range(threads)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["start_ns"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    path = Path(path)
    path.mkdir()
    locks = draws.uniform(size=len(order)) < lock_share
    write = _table(columns, locks, draws, scan)
    write_parquet(path / "waits.parquet", write)
    end_ns = int((columns["start_ns"] + columns["elapsed_ns"]).max())
    return write_rest(path, len(order), end_ns / 1e9, cpus=int(draws.choice([2, threads, 32])))


def _thread(draws, number, rows, threads, size, cpu_us, wait_us):
    """Columns of a thread: CPU and wait alternate, after an initial pause of some threads."""
    rows = max(rows, 100)
    drift = 1 + draws.uniform(0, 0.6) * np.sin(np.linspace(0, draws.uniform(1, 40), rows))
    cpu = draws.lognormal(np.log(cpu_us * 1000), 0.5, rows) * drift
    wait = draws.lognormal(np.log(wait_us * 1000), draws.uniform(0.2, 1.0), rows) / drift
    late = draws.uniform(0, 0.4) * (cpu.sum() + wait.sum()) if threads > 1 else 0.0
    ends = np.cumsum(cpu + wait) + (late if draws.integers(2) else 0.0)
    start = (ends - wait).astype(np.int64)
    written = int(rows * draws.uniform(0.3, 0.6))
    at = np.arange(rows)
    return {
        "start_ns": start,
        "elapsed_ns": ends.astype(np.int64) - start,
        "session": np.full(rows, 4711 + number),
        "write": at < written,
        "offset": np.where(at < written, at, (at - written) % written) * size,
        "bytes": np.full(rows, size),
        "cpu_before_ns": cpu.astype(np.int64),
    }


def _table(columns, locks, draws, scan):
    """The rows in a recording's columns; ``locks`` are waits for another thread."""
    write, session = columns["write"], columns["session"]
    offset = columns["offset"]
    if not scan:
        offset = np.where(write, offset, draws.permutation(offset))
    threads = np.unique(session)
    waker = threads[(np.searchsorted(threads, session) + 1) % len(threads)]
    none = pa.array(locks)

    def unless(values):
        return pa.compute.if_else(none, None, values)

    rows = {
        "start_ns": columns["start_ns"],
        "elapsed_ns": columns["elapsed_ns"],
        "session": session,
        "event": np.where(locks, "blocked", np.where(write, "pwrite64", "pread64")),
        "op": unless(pa.array(np.where(write, "write", "read"))),
        "temp": ~locks,
        "file": unless(pa.array(np.char.add("/t/spill-", session.astype(str)))),
        "offset": unless(pa.array(offset)),
        "bytes": unless(pa.array(columns["bytes"])),
        "blocked": np.ones(len(locks), dtype=bool),
        "cpu_before_ns": columns["cpu_before_ns"],
        "woken_by": pa.compute.if_else(none, pa.array(waker), None),
    }
    nothing = {name: pa.nulls(len(locks)) for name in ("sql_id", "object", "line")}
    return Table.from_arrow(pa.table(rows | nothing)).cast(WAITS)
