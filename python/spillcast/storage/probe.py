"""Measuring a directory with the I/O of a recording."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.evidence.figures.figures import REPORT
from spillcast.evidence.oracle.trace_run import TRACE
from spillcast.recording import Recording
from spillcast.storage.bounded import bounded_run
from spillcast.storage.budget import Budget
from spillcast.storage.failures import failures_as_errors
from spillcast.storage.plan import moved_waits, plan
from spillcast.storage.plan_of_trace import plan_of_trace, waits_known
from spillcast.storage.provenance import measured_now
from spillcast.storage.quota import room_facts
from spillcast.storage.source import PROBE
from spillcast.storage.storage import Changes, Group, Storage, name_of

Progress = Callable[[int, int, int], None]


def probe(
    directory: Path,
    like: Recording,
    *,
    budget: Budget | None = None,
    on_progress: Progress | None = None,
) -> Storage:
    """Replay the temp I/O of ``like`` on ``directory`` and time it, with the memory it had.

    ``on_progress`` gets steps done, steps in all and bytes, a few times a second. InputError where
    the directory cannot be used; nothing is left in it, whatever happens.
    """
    with failures_as_errors(directory):
        # A database that writes traces and reports has a cache of its own: past the kernel's.
        direct = like.meta.capture.method in (TRACE, REPORT)
        limits: dict[str, Any] = {**(budget or Budget()).limits(directory), "direct": direct}
        closed_loop = not like.meta.only_counts and bool(moved_waits(like)) and waits_known(like)
        steps = plan_of_trace(like) if closed_loop else plan(like, with_changes=True)
        replay = _core.Probe(steps, str(directory), **limits)
        rows, changes, facts = bounded_run(like, steps, replay, directory, limits, on_progress)
    facts = {**limits, **facts, **room_facts(directory)}
    facts |= {"directory": str(directory), "like": like.path.name}
    facts["closed_loop"] = closed_loop
    if like.meta.only_counts:
        facts["steps_from"] = "counts"
    groups, calls = [Group(**row) for row in rows], [Changes(**row) for row in changes]
    provenance = measured_now(directory)
    return Storage(name_of(directory), PROBE, groups, facts, changes=calls, provenance=provenance)
