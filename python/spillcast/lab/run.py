"""Running a query somewhere: bare, or under observation."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spillcast.engines.held import Ran
from spillcast.lab.engine import Engine
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload
from spillcast.recording import Recording
from spillcast.recording.recorder import Asked, Method, Recorder

Status = dict[str, Any]
#: Share of a run spent ready without a CPU from which on the machine counts as busy.
BUSY = 0.03


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


def busy(ran: Ran, workload: Workload) -> bool:
    """Whether other work on the machine took so much CPU that the run says little.

    A query of more threads than there are CPUs waits for itself, which tells nothing.
    """
    if workload.threads > (os.cpu_count() or 1):
        return False
    return ran.run_queue_delay_s > BUSY * ran.elapsed_s


def run_recorded(
    engine: Engine,
    workload: Workload,
    place: Place,
    output: Path,
    on_status: Callable[[Status], None] | None = None,
) -> tuple[Ran, Recording]:
    """Run a query and record it; the recording's elapsed time is the query's own."""
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
            return ran, recorder.finish(elapsed_s=ran.elapsed_s, extra=extra)
        except BaseException:
            recorder.abandon()
            raise
