"""Measuring a directory without a recording: op, size, depth, pattern and access."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from spillcast import _core
from spillcast.interruptible import run_interruptibly
from spillcast.storage.budget import Budget
from spillcast.storage.failures import failures_as_errors
from spillcast.storage.no_names import no_names_left
from spillcast.storage.page_cache import dirty_limit_bytes
from spillcast.storage.provenance import measured_now
from spillcast.storage.quota import room_facts
from spillcast.storage.source import GRID
from spillcast.storage.storage import Group, Storage, name_of


def probe_grid(
    directory: Path,
    *,
    budget: Budget | None = None,
    psync: bool = False,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Storage:
    """Measure ``directory``: reads and writes of 4 KiB to 1 MiB, 1 to 32 at once.

    Through the page cache and around it, random and sequential; then writes on and on. ``psync``
    keeps io_uring out of it. ``on_progress`` gets milliseconds passed, milliseconds in all and
    bytes. InputError where the directory cannot be used; nothing is left in it, whatever happens.
    """
    with failures_as_errors(directory):
        limits = (budget or Budget()).limits(directory)
        grid = _core.Grid(str(directory), psync=psync, **limits)
        watch = None if on_progress is None else lambda: on_progress(*grid.progress())
        with no_names_left(directory):
            cells, facts = run_interruptibly(grid.run, grid.cancel, watch)
    rows = pa.record_batch(cells).to_pylist()
    if facts["sustained"] is not None:
        facts["sustained"]["dirty_limit_bytes"] = dirty_limit_bytes(facts["filesystem"])
    facts |= {**limits, **room_facts(directory), "directory": str(directory)}
    groups = [Group(**row) for row in rows]
    return Storage(name_of(directory), GRID, groups, facts, provenance=measured_now(directory))
