"""Running a query somewhere: bare, or under observation."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from spillcast.engines.held import Ran
from spillcast.errors import InputError
from spillcast.lab.case import Runs
from spillcast.lab.engine import Engine
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload
from spillcast.recording import Recording
from spillcast.recording.recorder import Asked, Method, Recorder

Status = dict[str, Any]
T = TypeVar("T")
#: Share of a run spent ready without a CPU from which on the machine counts as busy.
BUSY = 0.03
#: How often a run is repeated when other work on the machine disturbed it.
RETRIES = 2


def run(
    engine: Engine, workload: Workload, place: Place, on_tick: Callable[[], None] | None = None
) -> Ran:
    """Run a query as it is."""
    with engine.hold(workload, place, {}) as held:
        held.start()
        while not held.wait(0.1):
            if on_tick is not None:
                on_tick()
        return held.result()


def busy(ran: Ran, workload: Workload, others: Sequence[Ran] = ()) -> bool:
    """Whether other work on the machine took so much CPU that the run says little.

    A query with a thread for every CPU waits for itself and for what serves its storage: it is
    compared with the calmest of other runs of the same, and says nothing where there are none.
    """
    usual = 0.0
    if workload.threads >= (os.cpu_count() or 1):
        usual = min(map(delay_share, others), default=delay_share(ran))
    return delay_share(ran) > usual + BUSY


def delay_share(ran: Ran) -> float:
    """Share of a run that it stood ready without a CPU; of several threads it may be above 1."""
    return ran.run_queue_delay_s / ran.elapsed_s


def measure(
    workload: Workload, names: Sequence[str], bare: Callable[[str, int], Ran], repeat: int
) -> dict[str, Runs]:
    """Bare runs in places by name, ``repeat`` of each that was not disturbed, or RETRIES more.

    Interleaved, so that what drifts on the machine drifts for all. ``bare`` gets a name and the
    number of the run from 0.
    """
    done: dict[str, list[Ran]] = {name: [] for name in names}
    for number in range(repeat + RETRIES):
        for name, runs in done.items():
            calm = [ran for ran in runs if not busy(ran, workload, runs)]
            if len(calm) < repeat:
                runs.append(bare(name, number))
    return {
        name: Runs([ran.elapsed_s for ran in runs], [ran.run_queue_delay_s for ran in runs], repeat)
        for name, runs in done.items()
    }


def least_disturbed(workload: Workload, attempt: Callable[[int], tuple[Ran, T]]) -> tuple[Ran, T]:
    """Run, and again while other work on the machine took CPU; the best attempt counts."""
    attempts = []
    for number in range(1 + RETRIES):
        attempts.append(attempt(number))
        if not busy(attempts[-1][0], workload):
            break
    return min(attempts, key=lambda done: delay_share(done[0]))


def run_recorded(
    engine: Engine,
    workload: Workload,
    place: Place,
    output: Path,
    on_status: Callable[[Status], None] | None = None,
) -> tuple[Ran, Recording]:
    """Run a query that spills and record it; the recording's elapsed time is the query's own."""
    ran, recording = run_recorded_if_spilled(engine, workload, place, output, on_status)
    if recording is None:
        raise InputError(f"{workload.name}: no temp I/O was seen under {place.directory}")
    return ran, recording


def run_recorded_if_spilled(
    engine: Engine,
    workload: Workload,
    place: Place,
    output: Path,
    on_status: Callable[[Status], None] | None = None,
) -> tuple[Ran, Recording | None]:
    """Run a query and record it; without a recording where it spilled nothing."""
    # A delay made by the preload library is seen from inside the process only.
    capture: Method = "preload" if place.means == "preload" else "auto"
    recorder = Recorder(output, Asked(temp_dirs=[place.directory], capture=capture))
    environment = recorder.prepare()
    with engine.hold(workload, place, environment) as held:
        try:
            recorder.observe(held)
            if held.helpers is not None and recorder.method == "perf":
                recorder.attach_children(*held.helpers)
            held.start()
            while not recorder.poll():
                if on_status is not None:
                    on_status(recorder.status())
            ran = held.result()
            extra = {"engine": engine.describe(workload)}
            if not recorder.saw_temp_io():
                recorder.abandon()
                return ran, None
            return ran, recorder.finish(elapsed_s=ran.elapsed_s, extra=extra)
        except BaseException:
            recorder.abandon()
            raise
