"""Forecasts from one storage to another without a run there, then the measured times.

Cases go to one Parquet file, which is rewritten after each query. The page of docs is made from
that file alone, so its text can change without a new measurement. A recording that is cut to
slices or to its first fifth comes from the whole one, so both are compared on the same run.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from spillcast.engines.engine import Lab
from spillcast.errors import (
    ExperimentFailed,
    InputError,
    OptionConflict,
    SpaceInsufficient,
    SpillcastError,
)
from spillcast.lab.case import Case, Truth
from spillcast.lab.run import Stage
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
    parts: bool = True,
    budget_s: float | None = None,
    former: Truth | None = None,
    on_truth: Callable[[Truth], None] = lambda _truth: None,
) -> Truth:
    """Verify cells one after the other; ``on_truth`` gets all that is known after each.

    ``former`` are the cases of an interrupted run of the same draw, which is continued. A cell that
    fails, or that the budget has no time for, is skipped and reported. InputError where
    the package of the only engine is missing, or there is no room in memory to emulate in.
    """
    memory = fast_parent(NEED_BYTES)
    if memory is None:
        raise SpaceInsufficient(
            "verify needs 4 GiB of space in /dev/shm", "run demo for a smaller check"
        )
    with workspace(memory) as fast, workspace(work) as room:
        truth = begun(_about(drawn, storages, repeat, parts, budget_s), former)
        about = truth.about
        labs: dict[type[Lab], Lab | SpillcastError] = {}
        left = drawn.cells[about["handled"] :]
        for cell in left:
            if cell.lab not in labs:
                stage.step(f"{cell.engine} made ready")
                alone = len({other.engine for other in left}) == 1
                labs[cell.lab] = _made_ready(cell.lab, room, alone=alone)
        used = {name for cell in left for name in cell.storages}
        stage.step(f"{format_count(len(used), 'storage')} made ready")
        with _places([storage for storage in storages if storage.name in used], room, fast) as made:
            clock = _Clock(budget_s, about["spent_s"], storages, repeat, parts)

            def verified(cell: Cell, title: str) -> list[Case]:
                if not clock.has_time_for(cell):
                    raise ExperimentFailed("no time was left")
                lab = labs[cell.lab]
                if isinstance(lab, SpillcastError):
                    raise lab
                places = [made[name] for name in cell.storages]
                cases = CellRun(stage, title, lab, cell, places).verify(room, repeat, parts)
                clock.count(cell)
                return cases

            for cell in left:
                title = f"{about['handled'] + 1}/{len(drawn.cells)} {cell.words}"
                handle(
                    stage, truth, title, _named(cell), partial(verified, cell, title), clock.spent_s
                )
                on_truth(truth)
    return truth


def begun(about: dict[str, Any], former: Truth | None) -> Truth:
    """A verification without cases, or an interrupted one. OptionConflict if its options differ."""
    if former is None:
        return Truth([], about)
    for key in ("seed", "repeat", "parts", "budget_s", "storages", "drawn"):
        if former.about.get(key) != about[key]:
            raise OptionConflict(
                f"--resume: {key} is not that of the interrupted run",
                "give the options of the interrupted run",
            )
    return Truth(list(former.cases), dict(former.about))


def handle(
    stage: Stage,
    truth: Truth,
    title: str,
    named: Mapping[str, Any],
    verified: Callable[[], list[Case]],
    spent_s: Callable[[], float],
) -> None:
    """Add the cases of one query, or why it was skipped: whatever fails in it, others go on."""
    try:
        truth.cases.extend(verified())
    except Exception as error:
        # An error of the program too.
        reason = str(error) if isinstance(error, SpillcastError) else repr(error)
        stage.step(f"{title}: skipped: {reason}")
        truth.about["left_out"].append({**named, "why": reason})
    truth.about["handled"] += 1
    truth.about["spent_s"] = spent_s()


def _made_ready(lab: type[Lab], room: Path, *, alone: bool) -> Lab | SpillcastError:
    """Experiments in a room, or why they cannot be made on this machine.

    InputError where a package is missing and there is no other engine.
    """
    try:
        return lab(room)
    except SpillcastError as error:
        if alone and isinstance(error, InputError):
            raise
        return error


class _Clock:
    """Tells whether there is time for a cell, by how long those before took."""

    def __init__(
        self,
        budget_s: float | None,
        spent_s: float,
        storages: Sequence[Storage],
        repeat: int,
        parts: bool,
    ) -> None:
        """``spent_s`` of the budget were spent before."""
        self._budget_s, self._before_s = budget_s, spent_s
        self._storages = {storage.name: storage for storage in storages}
        self._repeat, self._parts = repeat, parts
        self._begun = time.monotonic()
        self._expected_s = 0.0
        self._loaded = set[type[Lab]]()

    def has_time_for(self, cell: Cell) -> bool:
        """Whether it ends before the budget does."""
        if self._budget_s is None:
            return True
        elapsed_s = time.monotonic() - self._begun
        pace = elapsed_s / self._expected_s if self._expected_s else 1.0
        return self._before_s + elapsed_s + pace * self._cell_s(cell) <= self._budget_s

    def count(self, cell: Cell) -> None:
        """Compare the time so far with that of cells that were verified."""
        self._expected_s += self._cell_s(cell)
        self._loaded.add(cell.lab)

    def spent_s(self) -> float:
        """Time spent of the budget."""
        return self._before_s + time.monotonic() - self._begun

    def _cell_s(self, cell: Cell) -> float:
        load_s = 0.0 if cell.lab in self._loaded else cell.workload.load_s
        return load_s + cell_s(cell, self._storages, self._repeat, parts=self._parts)


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
    drawn: Drawn, storages: Sequence[Storage], repeat: int, parts: bool, budget_s: float | None
) -> dict[str, Any]:
    return about_run(
        budget_s=budget_s,
        seed=drawn.seed,
        repeat=repeat,
        parts=parts,
        storages=[_document_of(storage) for storage in storages],
        drawn=[_named(cell) for cell in drawn.cells],
        left_out=[_named(cell, "the budget has no time for it") for cell in drawn.without_time],
    )


def about_run(**facts: Any) -> dict[str, Any]:
    """The document of docs/schema.md; ``left_out``, ``handled`` and ``spent_s`` grow."""
    machine = describe_machine()
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {key: getattr(machine, key) for key in ("cpus", "memory_bytes", "kernel")},
        **facts,
        "handled": 0,
        "spent_s": 0.0,
    }
