"""The whole loop: record on slow storage, probe a fast one, forecast, run it there."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from spillcast.engines.engine import Workload
from spillcast.engines.registry import lab_of
from spillcast.errors import SpaceInsufficient
from spillcast.forecast import forecast
from spillcast.lab.case import Case, Runs, evidence_of, seed_formula_s
from spillcast.lab.run import Status, run, run_recorded, undisturbed
from spillcast.lab.storages import Emulated, Place, direction, emulated, fast_parent, plain
from spillcast.storage.budget import OWNED
from spillcast.storage.probe import probe
from spillcast.units import format_bytes
from spillcast.workspace import free_bytes, workspace

SLOW = Emulated("slow", read_s=0.001, write_s=0.001)
#: The engine's data and, beside it, a spill.
DISK_BYTES = 4 << 30
SPILL_BYTES = 3 << 30
STEPS = 5


class Stage(Protocol):
    """Shows the steps of an experiment while they run."""

    def step(self, title: str) -> None:
        """A step begins; the one before has ended."""

    def status(self, status: Status) -> None:
        """The state of a recording under way."""

    def progress(self, done: int, total: int, count: int) -> None:
        """The state of a probe under way."""

    def tick(self) -> None:
        """Time goes by."""


@dataclass(frozen=True)
class Demo:
    """What the demo did and where."""

    case: Case
    means: str
    bytes: int
    #: Whether other work on the machine disturbed one of the runs.
    busy: bool


def run_demo(
    stage: Stage, work: Path | None = None, *, engine: str, workload: Workload | None = None
) -> Demo:
    """Do the whole loop and return forecast and measurement. Leaves nothing behind."""
    lab = lab_of(engine)
    workload = workload or lab.demo
    with workspace(work) as room, _candidate(room) as fast, ExitStack() as stack:
        if free_bytes(room) < DISK_BYTES:
            message = f"{room.parent}: the demo needs {format_bytes(DISK_BYTES)} of free space"
            raise SpaceInsufficient(message, "name another directory with --work DIR")
        opened = lab(room)
        stage.step(f"making a table of {workload.rows // 1_000_000} million rows")
        opened.build(workload.rows)
        stage.step("the query on plain disk, to warm up")
        warm = plain("disk", room / "warm-up")
        run(opened, workload, warm, stage.tick)
        slow = stack.enter_context(emulated(SLOW, room, room))
        stage.step("the query on slow storage, 1 ms an operation, recorded")
        ran, recording = run_recorded(opened, workload, slow, room / "slow.spill", stage.status)
        stage.step(f"the recorded I/O replayed on {fast.name}")
        storage = probe(fast.directory, recording, budget=OWNED, on_progress=stage.progress)
        answer = forecast(recording, replace(storage, name=fast.name))
        stage.step(f"the query on {fast.name}, to compare")
        on_target = run(opened, workload, fast, stage.tick)
        if on_target.rows != ran.rows:
            raise AssertionError("the query returned other rows on the other storage")
        case = Case(
            engine=opened.label,
            workload=workload.name,
            threads=workload.threads,
            source="slow storage (1 ms an operation)",
            target=fast.name,
            direction=direction(slow, fast),
            on_source=Runs([ran], 1),
            on_target=Runs([on_target], 1),
            forecast=answer,
            seed_formula_s=seed_formula_s(recording, storage),
            evidence=evidence_of("recording", recording, storage),
        )
        disturbed = not (undisturbed([ran], workload) and undisturbed([on_target], workload))
        return Demo(case, slow.means, recording.meta.temp.bytes, disturbed)


@contextmanager
def _candidate(room: Path) -> Iterator[Place]:
    """Shared memory where there is enough; else a directory on the disk of the workspace."""
    memory = fast_parent(SPILL_BYTES)
    if memory is None:
        yield plain(f"a directory in {room.parent}", room / "fast")
        return
    with workspace(memory) as directory:
        yield plain(str(memory), directory)
