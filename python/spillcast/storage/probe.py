"""Measures a directory, with the I/O of a recording or with a grid of ops, sizes and depths."""

import errno
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.errors import OptionInvalid, PathMissing, PathUnusable, SpaceExhausted, SystemFailed
from spillcast.evidence.counts import REPORT, Counts
from spillcast.evidence.oracle.trace_recording import TRACE
from spillcast.interruptible import run_interruptibly
from spillcast.recording import Recording
from spillcast.storage.budget import Budget, room_facts
from spillcast.storage.memory import dirty_limit_bytes
from spillcast.storage.plan import plan_of_counts, replay_plan
from spillcast.storage.source import GRID, PROBE, measured_now
from spillcast.storage.storage import Changes, Group, Storage, name_of
from spillcast.tables import Table
from spillcast.workspace import undone_by


@contextmanager
def failures_as_errors(directory: Path) -> Iterator[None]:
    """Turn errors of the core while it measures ``directory`` into errors with a remedy."""
    if not directory.exists():
        raise PathMissing(
            f"{directory}: there is no such directory", "create it on the storage you mean"
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
            raise SpaceExhausted(f"{directory}: filled up during the probe", hint) from error
        if error.errno == errno.EDQUOT:
            hint = "see it with quota(1); have it raised, or name a directory of another owner"
            raise SpaceExhausted(f"{directory}: the disk quota there is used up", hint) from error
        raise SystemFailed(error.strerror or str(error)) from error


_NAMES_JANITOR = """
trap "" INT TERM HUP
cat >/dev/null
rm -f -- "$1/$2"*
"""


def no_names_left(directory: Path) -> AbstractContextManager[None]:
    """Remove names that this process gives files in ``directory`` at the end of the block."""
    prefix = _core.scratch_prefix()
    return undone_by(_NAMES_JANITOR, "spillcast-janitor", directory.absolute(), prefix)


_PREFIX = "spillcast-probe-"
_NUMBERS = count()
#: The file that limits a group, in either version of cgroups.
_LIMITS = ("memory.max", "memory.limit_in_bytes")
#: Waits until the owner's end of the pipe closes, however that comes, then for the group to empty.
_GROUP_JANITOR = """trap "" INT TERM HUP; cat >/dev/null
n=0; until rmdir "$1" 2>/dev/null || [ $n -ge 300 ]; do n=$((n+1)); sleep 0.1; done"""


class NoMemoryGroup(Exception):
    """Raised if no memory cgroup can be created or joined; the message says why."""


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """A new, empty memory cgroup with a limit. NoMemoryGroup if it cannot be created."""
    folder = _make(limit_bytes)
    with undone_by(_GROUP_JANITOR, "spillcast-janitor", folder):
        yield folder


def join(folder: Path) -> None:
    """Move this process into a group, which counts its memory from now on."""
    try:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise NoMemoryGroup(f"{folder} cannot be joined: {error.strerror}") from error


def _make(limit_bytes: int) -> Path:
    """Below the innermost group of this process that takes one with a limit."""
    reasons = []
    for parent in _core.group_folders("memory"):
        _remove_stale(parent)
        folder = parent / f"{_PREFIX}{next(_NUMBERS)}-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            continue
        try:
            limit = next(folder / name for name in _LIMITS if (folder / name).exists())
            limit.write_text(str(limit_bytes))
        except (OSError, StopIteration) as error:
            folder.rmdir()
            reason = error.strerror if isinstance(error, OSError) else "it controls no memory"
            reasons.append(f"{parent}: {reason}")
            continue
        return folder
    raise NoMemoryGroup(reasons[0] if reasons else "there are no memory cgroups here")


def _remove_stale(parent: Path) -> None:
    """Remove the groups of owners that ended together with their janitors."""
    for folder in parent.glob(_PREFIX + "*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            with suppress(OSError):
                folder.rmdir()


#: ``groups``, ``changes`` and ``facts`` of storage.json.
Measured = dict[str, Any]
Progress = Callable[[int, int, int], None]
#: Memory that the kernel and Python take besides that of the replay.
SLACK_BYTES = 4 << 20


def bounded_run(
    like: Recording | Counts,
    steps: Table,
    replay: _core.Probe,
    directory: Path,
    limits: Mapping[str, Any],
    on_progress: Progress | None,
) -> Measured:
    """Run ``replay`` of the plan ``steps`` with ``limits``, bound to the page cache of the engine.

    Facts: ``page_cache_bytes`` that the engine could use; ``memory_bound``, the page cache of the
    replay, None if unlimited; ``memory_bound_reason``, why a bound could not be set.
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
    with no_names_left(directory):
        measured: Measured = json.loads(run_interruptibly(replay.run, replay.cancel, watch))
    measured["facts"] |= {**facts, "memory_bound": None, "memory_bound_reason": reason}
    return measured


_RUN = "from spillcast.storage.probe import run_bounded_replay; run_bounded_replay()"


def _in_a_process(
    steps: Table, options: Mapping[str, Any], on_progress: Progress | None
) -> Measured:
    """The result of ``run_bounded_replay`` in a process of its own, or its exception."""
    # Ctrl-C reaches this process alone, which ends the other one.
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN],
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
        """Send the plan and receive results. The end of the pipe would end the process."""
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

    All modules are loaded before this process joins the group, which limits its memory.
    """
    steps, options = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_owner, daemon=True).start()
    directory, group = options.pop("directory"), Path(options.pop("group"))
    result: Measured | Exception
    try:
        replay = _core.Probe(steps, directory, **options)
        join(group)
        with no_names_left(Path(directory)):
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
    """End this process with its owner, which keeps stdin open during its life."""
    while os.read(0, 1 << 16):
        pass
    os._exit(1)


def probe(
    directory: Path,
    like: Recording | Counts,
    *,
    budget: Budget | None = None,
    on_progress: Progress | None = None,
) -> Storage:
    """Replay the temp I/O of ``like`` on ``directory`` and time it, with the memory it had.

    ``on_progress`` gets steps done, steps in all and bytes, a few times a second. InputError for an
    unusable directory; nothing is left in it, whatever happens.
    """
    with failures_as_errors(directory):
        # Databases with traces and reports (Oracle) bypass the page cache.
        counted = isinstance(like, Counts)
        source = like.source if isinstance(like, Counts) else like.meta.capture.method
        direct = source in (TRACE, REPORT)
        limits: dict[str, Any] = {**(budget or Budget()).limits(directory), "direct": direct}
        if isinstance(like, Counts):
            steps, closed_loop = plan_of_counts(like), False
        else:
            steps, closed_loop = replay_plan(like)
        replay = _core.Probe(steps, str(directory), **limits)
        measured = bounded_run(like, steps, replay, directory, limits, on_progress)
    facts = {**limits, **measured["facts"], **room_facts(directory)}
    facts |= {"directory": str(directory), "like": like.path.name}
    facts["closed_loop"] = closed_loop
    if counted:
        facts["steps_from"] = "counts"
    groups = [Group(**group) for group in measured["groups"]]
    changes = [Changes(**calls) for calls in measured["changes"]]
    provenance = measured_now(directory)
    return Storage(name_of(directory), PROBE, groups, facts, changes=changes, provenance=provenance)


def probe_grid(
    directory: Path,
    *,
    budget: Budget | None = None,
    psync: bool = False,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Storage:
    """Measure ``directory``: reads and writes of 4 KiB to 1 MiB, 1 to 32 at once.

    They are buffered and direct, random and sequential; sustained writes follow. ``psync`` avoids
    io_uring. ``on_progress`` gets milliseconds passed, milliseconds in all and bytes. InputError
    for an unusable directory; nothing is left in it, whatever happens.
    """
    with failures_as_errors(directory):
        limits = (budget or Budget()).limits(directory)
        grid = _core.Grid(str(directory), psync=psync, **limits)
        watch = None if on_progress is None else lambda: on_progress(*grid.progress())
        with no_names_left(directory):
            measured = json.loads(run_interruptibly(grid.run, grid.cancel, watch))
    facts = measured["facts"]
    if facts["sustained"] is not None:
        facts["sustained"]["dirty_limit_bytes"] = dirty_limit_bytes(facts["filesystem"])
    facts |= {**limits, **room_facts(directory), "directory": str(directory)}
    groups = [Group(**group) for group in measured["groups"]]
    return Storage(name_of(directory), GRID, groups, facts, provenance=measured_now(directory))
