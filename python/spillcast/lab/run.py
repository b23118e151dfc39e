"""Running a query somewhere: bare, or under observation."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from spillcast.engines.engine import Lab
from spillcast.engines.held import HeldQuery, Ran
from spillcast.engines.workload import Workload
from spillcast.errors import ExperimentFailed
from spillcast.lab.storages import Place
from spillcast.recording import Recording
from spillcast.recording.choice import StartAgain
from spillcast.recording.options import RecordOptions
from spillcast.recording.recorder import Recorder
from spillcast.recording.source import AUTO, PreloadSource

Status = dict[str, Any]


def run(
    engine: Lab, workload: Workload, place: Place, on_tick: Callable[[], None] | None = None
) -> Ran:
    """Run a query as it is."""
    with _held(engine, workload, place, place.environment) as held:
        held.start()
        while not held.wait(0.1):
            if on_tick is not None:
                on_tick()
        return held.result()


def run_recorded(
    engine: Lab,
    workload: Workload,
    place: Place,
    output: Path,
    on_status: Callable[[Status], None] | None = None,
    *,
    ahead_s: float = 0.0,
) -> tuple[Ran, Recording]:
    """Run a query that spills and record it, from ``ahead_s`` before it begins on.

    The recording's elapsed time is the query's own. SpillcastError where it spilled nothing.
    """
    ran, recording = run_recorded_if_spilled(
        engine, workload, place, output, on_status, ahead_s=ahead_s
    )
    if recording is None:
        raise ExperimentFailed(f"{workload.name}: no temp I/O was seen under {place.directory}")
    return ran, recording


def run_recorded_if_spilled(
    engine: Lab,
    workload: Workload,
    place: Place,
    output: Path,
    on_status: Callable[[Status], None] | None = None,
    *,
    ahead_s: float = 0.0,
) -> tuple[Ran, Recording | None]:
    """Run a query and record it; without a recording where it spilled nothing."""
    recorder = recorder_for(place, output)
    with observed(engine, workload, place, recorder) as held:
        try:
            if held.helpers is not None and recorder.attaches:
                recorder.attach_children(*held.helpers)
            time.sleep(ahead_s)
            started_ns = time.monotonic_ns()
            held.start()
            while not recorder.poll():
                if on_status is not None:
                    on_status(recorder.status())
            ran = held.result()
            extra = {"engine": engine.describe(workload)}
            if not recorder.saw_temp_io():
                recorder.abandon()
                return ran, None
            return ran, recorder.finish(elapsed_s=ran.elapsed_s, started_ns=started_ns, extra=extra)
        except BaseException:
            recorder.abandon()
            raise


def recorder_for(place: Place, output: Path, duration_s: float | None = None) -> Recorder:
    """A recorder of what a query does in a place."""
    # A delay made by the preload library is seen from inside the process only.
    capture = PreloadSource.name if place.means == PreloadSource.name else AUTO
    options = RecordOptions([place.directory], capture, duration_s, force=True)
    return Recorder(output, options)


@contextmanager
def observed(
    engine: Lab, workload: Workload, place: Place, recorder: Recorder
) -> Iterator[HeldQuery]:
    """A query that is held at its gate, observed by the best source that works."""
    environment = recorder.prepare()
    while True:
        with _held(engine, workload, place, {**environment, **place.environment}) as held:
            try:
                recorder.observe(held)
            except StartAgain as again:
                environment = again.environment
                continue
            yield held
            return


@contextmanager
def _held(
    engine: Lab, workload: Workload, place: Place, environment: Mapping[str, str]
) -> Iterator[HeldQuery]:
    """A query at its gate. Its processes are started in the groups of the place, and stay there."""
    with ExitStack() as stack:
        with place.inside():
            held = stack.enter_context(engine.hold(workload, place.directory, environment))
        yield held
