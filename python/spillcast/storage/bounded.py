"""A replay with as much page cache as the engine had, and no more.

What the kernel charges to a memory cgroup are the pages of a process. So the replay runs in a
process of its own, which joins a group whose limit is that page cache and what a replay takes.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from spillcast import _core
from spillcast.errors import SystemFailed
from spillcast.interruptible import run_interruptibly
from spillcast.recording import Recording
from spillcast.storage.memory_group import NoMemoryGroup, memory_group
from spillcast.storage.no_names import no_names_left
from spillcast.storage.page_cache import cache_bound_bytes, engine_cache_bytes

#: Groups, calls that change files, facts.
Measured = tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]
Progress = Callable[[int, int, int], None]
#: What the kernel and Python take besides what the replay says it takes.
SLACK_BYTES = 4 << 20


def bounded_run(
    like: Recording,
    steps: pa.RecordBatch,
    replay: _core.Probe,
    directory: Path,
    limits: Mapping[str, Any],
    on_progress: Progress | None,
) -> Measured:
    """Run ``replay``, whose plan and limits are the others, with the page cache of the engine.

    Facts: ``page_cache_bytes``, what the engine could use; ``memory_bound``, the page cache that
    the replay was held to, None for all there is; ``memory_bound_reason``, why it was not held to
    less where it should have been.
    """
    bound = cache_bound_bytes(like, replay)
    facts: dict[str, Any] = {"page_cache_bytes": engine_cache_bytes(like)}
    reason = None
    if bound is not None:
        options = {**limits, "directory": str(directory)}
        try:
            with memory_group(bound + replay.memory_bytes + SLACK_BYTES) as group:
                *rows, result = _in_a_process(steps, {**options, "group": str(group)}, on_progress)
            facts |= {"memory_bound": bound, "memory_bound_reason": None}
            return rows[0], rows[1], {**result, **facts}
        except NoMemoryGroup as error:
            reason = str(error)
    watch = None if on_progress is None else lambda: on_progress(*replay.progress())
    with no_names_left(directory):
        groups, changes, result = run_interruptibly(replay.run, replay.cancel, watch)
    facts |= {"memory_bound": None, "memory_bound_reason": reason}
    groups, changes = (pa.record_batch(table).to_pylist() for table in (groups, changes))
    return groups, changes, {**result, **facts}


def _in_a_process(
    steps: pa.RecordBatch, options: Mapping[str, Any], on_progress: Progress | None
) -> Measured:
    command = [sys.executable, "-m", "spillcast.storage.worker", json.dumps(options)]
    # Ctrl-C reaches this process, which ends that one.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reply = _Reply()
    watch = None if on_progress is None else lambda: on_progress(*reply.progress)
    try:
        hear = partial(_read_replies, process.stdin, process.stdout, steps, reply)
        run_interruptibly(hear, process.kill, watch)
    finally:
        process.kill()
        status = process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
    return _result(reply.last, status)


@dataclass
class _Reply:
    """What the process said last."""

    progress: tuple[int, int, int] = (0, 0, 0)
    last: Mapping[str, Any] = field(default_factory=dict)


def _read_replies(plan: IO[bytes], lines: IO[bytes], steps: pa.RecordBatch, reply: _Reply) -> None:
    """Hand over the plan and listen. The pipe of the plan stays open: its end ends the process."""
    with suppress(BrokenPipeError):
        with pa.ipc.new_stream(pa.PythonFile(plan, "w"), steps.schema) as stream:
            stream.write_batch(steps)
        plan.flush()
    for line in lines:
        reply.last = json.loads(line)
        done, total, count = reply.last.get("progress", reply.progress)
        reply.progress = done, total, count


def _result(last: Mapping[str, Any], status: int) -> Measured:
    """What the process found; raises what it raised."""
    if "rows" in last:
        return last["rows"], last["changes"], last["facts"]
    if "no_group" in last:
        raise NoMemoryGroup(last["no_group"])
    if "value_error" in last:
        raise ValueError(last["value_error"])
    if "os_error" in last:
        raise OSError(*last["os_error"])
    raise SystemFailed(
        f"the replay's process ended with status {status}: perhaps for lack of memory",
        "a smaller --budget takes less",
    )
