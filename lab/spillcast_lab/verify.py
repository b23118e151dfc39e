"""Forecasts from one storage to another without a run there, then the measured times.

Cases go to one Parquet file, which is rewritten after each query. The page of docs is made from
that file alone, so its text can change without a new measurement. A recording that is cut to
slices or to its first fifth comes from the whole one, so both are compared on the same run.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spillcast.engines.engine import Lab
from spillcast.errors import InputError, SpaceInsufficient, SpillcastError
from spillcast.lab.case import Case, Truth
from spillcast.lab.demo import Stage
from spillcast.lab.storages import Place, Plain, emulated, fast_parent, plain
from spillcast.recording.meta import describe_machine
from spillcast.units import format_count
from spillcast.workspace import workspace
from spillcast_lab.cell import CellRun
from spillcast_lab.draw import Drawn
from spillcast_lab.kernel_slowed import KernelSlowed, kernel_slowed
from spillcast_lab.matrix import Cell, Storage, cell_s, unavailable

NEED_BYTES = 4 << 30


def verify(
    stage: Stage,
    drawn: Drawn,
    storages: Sequence[Storage],
    work: Path | None = None,
    *,
    repeat: int = 3,
    budget_s: float | None = None,
    on_truth: Callable[[Truth], None] = lambda _truth: None,
) -> Truth:
    """Verify cells one after the other; ``on_truth`` gets all that is known after each.

    A cell that the budget has no time for any more is skipped, and so is one whose engine fails;
    both are said. InputError where a package is missing, or no room in memory to emulate in.
    """
    memory = fast_parent(NEED_BYTES)
    if memory is None:
        raise SpaceInsufficient(
            "verify needs 4 GiB of space in /dev/shm", "run demo for a smaller check"
        )
    end = None if budget_s is None else time.monotonic() + budget_s
    with workspace(memory) as fast, workspace(work) as room:
        cases: list[Case] = []
        left_out = [_named(cell, "the budget has no time for it") for cell in drawn.without_time]
        truth = Truth(cases, _about(drawn, storages, repeat, budget_s, left_out))
        labs: dict[type[Lab], Lab | SpillcastError] = {}
        for cell in drawn.cells:
            if cell.lab not in labs:
                stage.step(f"{cell.engine} made ready")
                labs[cell.lab] = _made_ready(cell.lab, room)
        used = {name for cell in drawn.cells for name in cell.storages}
        stage.step(f"{format_count(len(used), 'storage')} made ready")
        with _places(
            [cell_run for cell_run in storages if cell_run.name in used], room, fast
        ) as places:
            clock = _Clock(end, storages, repeat)
            for number, cell in enumerate(drawn.cells):
                title = f"{number + 1}/{len(drawn.cells)} {cell.words}"
                if not clock.has_time_for(cell):
                    left_out.append(_named(cell, "no time was left"))
                    continue
                cell_places = [places[name] for name in cell.storages]
                try:
                    lab = labs[cell.lab]
                    if isinstance(lab, SpillcastError):
                        raise lab
                    cell_run = CellRun(stage, title, lab, cell, cell_places)
                    cases.extend(cell_run.verify(room, repeat))
                except InputError:
                    raise
                except SpillcastError as error:
                    left_out.append(_named(cell, str(error)))
                clock.done(cell)
                on_truth(truth)
    return truth


def _made_ready(lab: type[Lab], room: Path) -> Lab | SpillcastError:
    """Experiments in a room, or why they cannot be made on this machine."""
    try:
        return lab(room)
    except InputError:
        raise
    except SpillcastError as error:
        return error


class _Clock:
    """Whether there is time for a cell, by how long the ones before took."""

    def __init__(self, end: float | None, storages: Sequence[Storage], repeat: int) -> None:
        self._end = end
        self._storages = {storage.name: storage for storage in storages}
        self._repeat = repeat
        self._begun = time.monotonic()
        self._expected_s = 0.0

    def has_time_for(self, cell: Cell) -> bool:
        """Whether it will be over before the budget is."""
        if self._end is None:
            return True
        now = time.monotonic()
        pace = (now - self._begun) / self._expected_s if self._expected_s else 1.0
        return now + pace * cell_s(cell, self._storages, self._repeat) <= self._end

    def done(self, cell: Cell) -> None:
        """A cell is over."""
        self._expected_s += cell_s(cell, self._storages, self._repeat)


@contextmanager
def _places(storages: Sequence[Storage], room: Path, fast: Path) -> Iterator[dict[str, Place]]:
    """Storages by name, each with an empty directory of its own."""
    with ExitStack() as stack:
        places = {}
        for storage in storages:
            if isinstance(storage, Plain):
                parent = fast if storage.in_memory else room
                places[storage.name] = plain(storage.name, parent / storage.name)
            elif isinstance(storage, KernelSlowed):
                places[storage.name] = stack.enter_context(kernel_slowed(storage, room, fast))
            else:
                places[storage.name] = stack.enter_context(emulated(storage, room, fast))
        yield places


def _named(cell: Cell, why: str | None = None) -> dict[str, Any]:
    """A query in what is to be known; ``why`` it was skipped, if it was."""
    return {
        "engine": cell.engine,
        "workload": cell.workload.name,
        "threads": cell.workload.threads,
        "storages": list(cell.storages),
        "pairs": [list(pair) for pair in cell.directed],
        **({} if why is None else {"why": why}),
    }


def _document_of(storage: Storage) -> dict[str, Any]:
    """A storage in what is to be known; ``why`` nothing was drawn on it where it cannot be made."""
    why = unavailable(storage)
    document = {"name": storage.name, "what": storage.words}
    return document if why is None else {**document, "why": why}


def _about(
    drawn: Drawn,
    storages: Sequence[Storage],
    repeat: int,
    budget_s: float | None,
    left_out: list[dict[str, Any]],
) -> dict[str, Any]:
    """As docs/schema.md tells; ``left_out`` grows."""
    machine = describe_machine()
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {key: getattr(machine, key) for key in ("cpus", "memory_bytes", "kernel")},
        "budget_s": budget_s,
        "seed": drawn.seed,
        "repeat": repeat,
        "storages": [_document_of(storage) for storage in storages],
        "drawn": [_named(cell) for cell in drawn.cells],
        "left_out": left_out,
    }
