"""Measures a directory, with the I/O of a recording or with a grid of ops, sizes and depths.

The temp I/O of a recording becomes steps, which are replayed.
"""

import errno
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from spillcast import _core
from spillcast.columns import Flags, Integers, fields_of
from spillcast.errors import (
    NoTempIo,
    OptionInvalid,
    PathMissing,
    PathUnusable,
    SpaceExhausted,
    SystemFailed,
)
from spillcast.evidence.counts import REPORT, Counts
from spillcast.evidence.oracle.trace_recording import TRACE
from spillcast.interruptible import run_interruptibly
from spillcast.recording import OPS, Recording
from spillcast.storage.free_space import Budget, dirty_limit_bytes, quota_facts
from spillcast.storage.source import GRID, PROBE, provenance_now
from spillcast.storage.storage import Changes, Group, Storage, name_of
from spillcast.tables import Table
from spillcast.workspace import NoMemoryGroup, join_memory_group, memory_group, undone_by


def moved_waits(recording: Recording) -> Table:
    """The temp waits that moved bytes, by start. InputError without any."""
    waits = recording.temp_waits
    return waits.filter(_moved(waits, recording))


def _moved(temp_waits: Table, recording: Recording) -> Flags:
    """Flags of the waits that moved bytes. InputError without any."""
    moved = temp_waits["bytes"].filled(0) > 0
    if not moved.any():
        raise NoTempIo("holds no temp I/O to replay", where=recording.path)
    return moved


def plan(recording: Recording) -> Table:
    """The reads and writes of temp files as steps, each after a pause of its thread."""
    return _steps(moved_waits(recording), recording, moves_only=True)[0]


def replay_plan(recording: Recording) -> tuple[Table, bool]:
    """All operations on temp files as steps, and whether they include waits between threads.

    They do if the recording shows the waits of threads outside I/O.
    """
    _moved(recording.temp_columns("bytes"), recording)
    return _steps(recording.waits, recording)


def _steps(waits: Table, recording: Recording, *, moves_only: bool = False) -> tuple[Table, bool]:
    rows, closed_loop = _core.replay_plan(waits, recording.slices_ns, moves_only=moves_only)
    return Table.from_arrow(rows), closed_loop


#: The columns of steps that read or write after a pause, with the types of the core.
_STEPS = fields_of(
    {
        "thread": "uint32", "file": "uint32", "write": "bool", "offset": "uint64",
        "bytes": "uint32", "delay_ns": "uint64",
    }
)  # fmt: skip


def steps_of(columns: Mapping[str, Any]) -> Table:
    """Steps that read or write after a pause."""
    return Table(columns).cast(_STEPS)


#: Maximum number of steps: some 3 GiB of I/O are enough to measure a storage.
STEPS_MAX = 400_000


def plan_of_counts(counts: Counts, steps_max: int = STEPS_MAX) -> Table:
    """At most ``steps_max`` steps in the proportions of the counts, in one thread per process."""
    reads, writes = counts.reads.count, counts.writes.count
    read_bytes, write_bytes = _mean_bytes(counts)
    threads = max(1, round(counts.processes))
    kept = min(1.0, steps_max / counts.operations)
    reads_each, writes_each = (
        max(1, round(n * kept / threads)) if n else 0 for n in (reads, writes)
    )
    held_bytes = counts.held_bytes
    passes = max(1, round(writes * write_bytes / held_bytes)) if held_bytes else 1
    ratio = write_bytes / read_bytes
    write, file, block = _process_plan(reads_each, writes_each, passes, counts.files, ratio)
    size = np.where(write, write_bytes, read_bytes)
    # The time outside temp I/O is divided equally between the operations.
    think_s = counts.elapsed_s - counts.total_s / counts.processes
    think_ns = round(max(0.0, think_s) * kept * 1e9 / len(write))
    # Threads alternate, so that every prefix of the steps is a prefix of the run.
    thread = np.tile(np.arange(threads), len(write))
    return steps_of(
        {
            "thread": thread,
            "file": np.repeat(file, threads) * threads + thread,
            "write": np.repeat(write, threads),
            "offset": np.repeat(block * size, threads),
            "bytes": np.repeat(size, threads),
            "delay_ns": np.full(len(thread), think_ns),
        }
    )


def _mean_bytes(counts: Counts) -> tuple[int, int]:
    """The sizes of a read and of a write; a missing op has the size of the other op."""
    any_bytes = counts.bytes // counts.operations
    means = {op: of_op.bytes // of_op.count for op, of_op in counts.by_op}
    read, write = (max(1, means.get(op, any_bytes)) for op in OPS)
    return read, write


def _process_plan(
    reads: int, writes: int, passes: int, files: int, ratio: float
) -> tuple[Flags, Integers, Integers]:
    """By step: whether it writes, its file, and its block, in units of its op's size."""
    parts = []
    for at in range(passes):
        pass_writes, pass_reads = (
            count * (at + 1) // passes - count * at // passes for count in (writes, reads)
        )
        written, read = np.arange(pass_writes), np.arange(pass_reads)
        parts.append((np.ones(pass_writes, dtype=bool), written % files, written // files))
        # Files are read one after the other; reads beyond the written blocks wrap around.
        file_reads = max(1, int(-(-(pass_writes * ratio or pass_reads) // files)))
        file = read // file_reads % files
        parts.append((np.zeros(pass_reads, dtype=bool), file, read % file_reads))
    write, file, block = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return write, file, block


@contextmanager
def failures_as_errors(directory: Path) -> Iterator[None]:
    """Convert errors of the core while it measures ``directory`` to errors with a remedy."""
    if not directory.exists():
        raise PathMissing(
            "there is no such directory", "create it on the storage you mean", directory
        )
    if not directory.is_dir():
        raise PathUnusable(f"{directory} is not a directory", "give one on the storage to probe")
    try:
        yield
    except ValueError as error:
        raise OptionInvalid(str(error)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            hint = "free some space, name a larger directory, or give a smaller --budget"
            raise SpaceExhausted("filled up during the probe", hint, directory) from error
        if error.errno == errno.EDQUOT:
            hint = "see it with quota(1); have it raised, or name a directory of another owner"
            raise SpaceExhausted("the disk quota there is used up", hint, directory) from error
        raise SystemFailed(error.strerror or str(error)) from error


_NAMES_JANITOR = 'rm -f -- "$1/$2"*'
_TURN = threading.Lock()


@contextmanager
def named_files_removed(directory: Path) -> Iterator[None]:
    """Remove the files that this process named in ``directory``, at the end of the block.

    Threads take turns: their names have the same prefix, and they would disturb each other's times.
    """
    names = directory.absolute(), _core.scratch_prefix()
    with _TURN, undone_by(_NAMES_JANITOR, "janitor", *names):
        yield


#: ``groups``, ``changes`` and ``facts`` of storage.json.
Measured = dict[str, Any]
ProbeProgress = Callable[[int, int, int], None]
#: Memory that the kernel and Python need besides the replay.
SLACK_BYTES = 4 << 20


def bounded_run(
    like: Recording | Counts,
    steps: Table,
    replay: _core.Probe,
    directory: Path,
    limits: Mapping[str, Any],
    on_progress: ProbeProgress | None,
) -> Measured:
    """Run ``replay`` of the plan ``steps`` with ``limits``, bound to the page cache of the engine.

    Facts: ``page_cache_bytes`` that the engine could use; ``memory_bound``, the page cache of the
    replay, None if unlimited; ``memory_bound_reason``, why no bound could be set.
    """
    engine_bytes = like.meta.engine_cache_bytes if isinstance(like, Recording) else None
    bound = replay.page_cache_bound(engine_bytes)
    facts: dict[str, Any] = {"page_cache_bytes": engine_bytes}
    reason = None
    if bound is not None:
        options = {**limits, "directory": str(directory)}
        try:
            with memory_group(bound + replay.memory_bytes + SLACK_BYTES) as group:
                bounded = _in_a_process(steps, {**options, "group": str(group)}, on_progress)
            bounded["facts"] |= {**facts, "memory_bound": bound, "memory_bound_reason": None}
            return bounded
        except NoMemoryGroup as error:
            reason = str(error)
    watch = None if on_progress is None else lambda: on_progress(*replay.progress())
    with named_files_removed(directory):
        measured: Measured = json.loads(run_interruptibly(replay.run, replay.cancel, watch))
    measured["facts"] |= {**facts, "memory_bound": None, "memory_bound_reason": reason}
    return measured


_RUN = "from spillcast.storage.probe import run_bounded_replay; run_bounded_replay()"


def _in_a_process(
    steps: Table, options: Mapping[str, Any], on_progress: ProbeProgress | None
) -> Measured:
    """The result of ``run_bounded_replay`` in a separate process; raises its exception."""
    # Ctrl-C reaches only this process, which ends the other process.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    plan, sent = process.stdin, process.stdout
    assert plan is not None
    assert sent is not None
    progress = (0, 0, 0)
    results = list[Measured | Exception]()

    def exchange() -> None:
        """Send the plan and receive results. Closing the pipe would end the process."""
        nonlocal progress
        with suppress(BrokenPipeError):
            pickle.dump((steps, options), plan)
            plan.flush()
        with suppress(EOFError, pickle.UnpicklingError):
            while not results:
                reply = pickle.load(sent)
                if isinstance(reply, tuple):
                    progress = reply
                else:
                    results.append(reply)

    watch = None if on_progress is None else lambda: on_progress(*progress)
    try:
        run_interruptibly(exchange, process.kill, watch)
    finally:
        process.kill()
        status = process.wait()
        sent.close()
        with suppress(BrokenPipeError):
            plan.close()
    if not results:
        raise SystemFailed(
            f"the replay's process ended with status {status}: perhaps for lack of memory",
            "a smaller --budget needs less memory",
        )
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def run_bounded_replay() -> None:
    """Replay the plan of stdin in a memory cgroup; send progress and the result to stdout.

    All modules are loaded before this process joins the cgroup, which limits its memory.
    """
    steps, options = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_owner, daemon=True).start()
    directory, group = options.pop("directory"), Path(options.pop("group"))
    result: Measured | Exception
    try:
        replay = _core.Probe(steps, directory, **options)
        join_memory_group(group)
        with named_files_removed(Path(directory)):
            result = json.loads(
                run_interruptibly(replay.run, replay.cancel, lambda: _send(replay.progress()))
            )
    except (NoMemoryGroup, ValueError, OSError) as error:
        result = error
    _send(result)


def _send(reply: object) -> None:
    pickle.dump(reply, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _end_with_the_owner() -> None:
    """End this process when its owner ends, which closes stdin."""
    while os.read(0, 1 << 16):
        pass
    os._exit(1)


def probe(
    directory: Path,
    like: Recording | Counts,
    *,
    budget: Budget | None = None,
    on_progress: ProbeProgress | None = None,
) -> Storage:
    """Replay the temp I/O of ``like`` on ``directory`` and time it, with the same memory.

    ``on_progress`` gets steps done, total steps and bytes, a few times a second. InputError for an
    unusable directory; no files are left in it in any case.
    """
    with failures_as_errors(directory):
        if isinstance(like, Counts):
            source, steps, closed_loop = like.source, plan_of_counts(like), False
        else:
            source, (steps, closed_loop) = like.meta.capture.method, replay_plan(like)
        # The database of traces and reports (Oracle) bypasses the page cache.
        limits = (budget or Budget()).limits(directory) | {"direct": source in (TRACE, REPORT)}
        replay = _core.Probe(steps, str(directory), **limits)
        measured = bounded_run(like, steps, replay, directory, limits, on_progress)
    facts = {**limits, **measured["facts"], **quota_facts(directory)}
    facts |= {"directory": str(directory), "like": like.path.name}
    facts["closed_loop"] = closed_loop
    if isinstance(like, Counts):
        facts["steps_from"] = "counts"
    groups = [Group(**group) for group in measured["groups"]]
    changes = [Changes(**calls) for calls in measured["changes"]]
    provenance = provenance_now(directory)
    return Storage(name_of(directory), PROBE, groups, facts, changes=changes, provenance=provenance)


def probe_grid(
    directory: Path,
    *,
    budget: Budget | None = None,
    psync: bool = False,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Storage:
    """Measure ``directory``: reads and writes of 4 KiB to 1 MiB, with 1 to 32 in flight.

    They are buffered and direct, random and sequential; sustained writes follow. ``psync`` avoids
    io_uring. ``on_progress`` gets milliseconds passed, total milliseconds and bytes. InputError for
    an unusable directory; no files are left in it in any case.
    """
    with failures_as_errors(directory):
        limits = (budget or Budget()).limits(directory)
        grid = _core.Grid(str(directory), psync=psync, **limits)
        watch = None if on_progress is None else lambda: on_progress(*grid.progress())
        with named_files_removed(directory):
            measured = json.loads(run_interruptibly(grid.run, grid.cancel, watch))
    facts = measured["facts"]
    if facts["sustained"] is not None:
        facts["sustained"]["dirty_limit_bytes"] = dirty_limit_bytes(facts["filesystem"])
    facts |= {**limits, **quota_facts(directory), "directory": str(directory)}
    groups = [Group(**group) for group in measured["groups"]]
    return Storage(name_of(directory), GRID, groups, facts, provenance=provenance_now(directory))
