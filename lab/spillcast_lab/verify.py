"""Verifies queries: forecasts from one storage to another, then measures the times on it.

Cases go to one Parquet file, which is rewritten after each query. The page of docs is made from
that file alone, so its text can change without a new measurement. Slices and first fifths are cut
from entire recordings, so that both are compared on the same run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from spillcast.engines import Lab
from spillcast.errors import (
    ExperimentFailed,
    InputError,
    OptionConflict,
    SpaceInsufficient,
    SpillcastError,
)
from spillcast.lab.case import Case, Truth
from spillcast.lab.run import ExperimentProgress
from spillcast.lab.storages import SpillDirectory, emulated, fast_parent, plain
from spillcast.recording.meta import describe_machine
from spillcast.units import format_count
from spillcast.workspace import workspace
from spillcast_lab.cell import CellRun
from spillcast_lab.draw import Drawn
from spillcast_lab.kernel_slowed import KernelSlowed, kernel_slowed
from spillcast_lab.matrix import Cell, Plain, Storage, cell_s, unavailable

NEED_BYTES = 4 << 30


def verify(
    stage: ExperimentProgress,
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
    """Verify cells one after the other; ``on_truth`` gets all cases after each.

    ``former`` are the cases of an interrupted run of the same draw, which is continued. A cell that
    fails, or does not fit into the budget, is skipped and reported. InputError if the package of
    the only engine is missing, or there is too little memory for emulated storages.
    """
    memory = fast_parent(NEED_BYTES)
    if memory is None:
        raise SpaceInsufficient(
            "verify needs 4 GiB of space in /dev/shm", "run demo for a smaller check"
        )
    with workspace(memory) as fast, workspace(work) as workdir, ExitStack() as stack:
        truth = begun(_about(drawn, storages, repeat, parts, budget_s), former)
        about = truth.about
        labs: dict[type[Lab], Lab | SpillcastError] = {}
        left = drawn.cells[about["handled"] :]
        for cell in left:
            if cell.lab not in labs:
                stage.step(f"{cell.engine} made ready")
                alone = len({other.engine for other in left}) == 1
                labs[cell.lab] = _set_up(cell.lab, workdir, alone=alone)
        used = {name for cell in left for name in cell.storages}
        stage.step(f"{format_count(len(used), 'storage')} made ready")
        by_name = {storage.name: storage for storage in storages}
        made = {s.name: _place(s, workdir, fast, stack) for s in storages if s.name in used}
        clock, loaded = Clock(budget_s, about["spent_s"]), set[type[Lab]]()

        def verified(cell: Cell, title: str) -> list[Case]:
            expected_s = cell_s(cell, by_name, repeat, parts=parts)
            expected_s += 0.0 if cell.lab in loaded else cell.workload.load_s
            clock.check(expected_s)
            lab = labs[cell.lab]
            if isinstance(lab, SpillcastError):
                raise lab
            places = [made[name] for name in cell.storages]
            cases = CellRun(stage, title, lab, cell, places).verify(workdir, repeat, parts)
            clock.count(expected_s)
            loaded.add(cell.lab)
            return cases

        for cell in left:
            title = f"{about['handled'] + 1}/{len(drawn.cells)} {cell.title}"
            handle(stage, truth, title, _named(cell), partial(verified, cell, title), clock.spent_s)
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
    stage: ExperimentProgress,
    truth: Truth,
    title: str,
    named: Mapping[str, Any],
    verified: Callable[[], list[Case]],
    spent_s: Callable[[], float],
) -> None:
    """Add the cases of one query, or why it was skipped; a failure does not stop the rest."""
    try:
        truth.cases.extend(verified())
    except Exception as error:
        # Internal errors are reported, too.
        reason = str(error) if isinstance(error, SpillcastError) else repr(error)
        stage.step(f"{title}: skipped: {reason}")
        truth.about["left_out"].append({**named, "why": reason})
    truth.about["handled"] += 1
    truth.about["spent_s"] = spent_s()


def _set_up(lab: type[Lab], workdir: Path, *, alone: bool) -> Lab | SpillcastError:
    """The lab of an engine in ``workdir``, or the error if this machine does not support it.

    InputError if a package is missing and there is no other engine.
    """
    try:
        return lab(workdir)
    except SpillcastError as error:
        if alone and isinstance(error, InputError):
            raise
        return error


class Clock:
    """The time budget of a verification, including the time of an interrupted run before it."""

    def __init__(self, budget_s: float | None, spent_s: float) -> None:
        self._budget_s, self._before_s = budget_s, spent_s
        self._begun_s = time.monotonic()
        self._expected_s = 0.0

    def spent_s(self) -> float:
        """Time spent of the budget."""
        return self._before_s + time.monotonic() - self._begun_s

    def check(self, expected_s: float) -> None:
        """ExperimentFailed if the budget is too short at the pace of the verification so far."""
        elapsed_s = time.monotonic() - self._begun_s
        pace = elapsed_s / self._expected_s if self._expected_s else 1.0
        end_s = self._before_s + elapsed_s + pace * expected_s
        if self._budget_s is not None and end_s > self._budget_s:
            raise ExperimentFailed("no time was left")

    def count(self, expected_s: float) -> None:
        """Count work that was expected to take ``expected_s`` as done."""
        self._expected_s += expected_s


def _place(storage: Storage, workdir: Path, fast: Path, stack: ExitStack) -> SpillDirectory:
    """The place of a storage, an empty directory that exists until the end of ``stack``."""
    if isinstance(storage, Plain):
        parent = fast if storage.in_memory else workdir
        return plain(storage.name, parent / storage.name)
    if isinstance(storage, KernelSlowed):
        return stack.enter_context(kernel_slowed(storage, workdir, fast))
    return stack.enter_context(emulated(storage, workdir, fast))


def _named(cell: Cell, why: str | None = None) -> dict[str, Any]:
    """A query in the description of the run, with the reason ``why`` it was skipped."""
    return {
        "engine": cell.engine,
        "workload": cell.workload.name,
        "threads": cell.workload.threads,
        "storages": list(cell.storages),
        "pairs": [list(pair) for pair in cell.directed],
        **({} if why is None else {"why": why}),
    }


def _about(
    drawn: Drawn, storages: Sequence[Storage], repeat: int, parts: bool, budget_s: float | None
) -> dict[str, Any]:
    return about_run(
        budget_s=budget_s,
        seed=drawn.seed,
        repeat=repeat,
        parts=parts,
        storages=[_described(storage) for storage in storages],
        drawn=[_named(cell) for cell in drawn.cells],
        left_out=[_named(cell, "the budget has no time for it") for cell in drawn.without_time],
    )


def _described(storage: Storage) -> dict[str, str]:
    """A storage in the description of the run, with the reason ``why`` it is unavailable."""
    described = {"name": storage.name, "what": storage.description}
    why = unavailable(storage)
    return described if why is None else {**described, "why": why}


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
