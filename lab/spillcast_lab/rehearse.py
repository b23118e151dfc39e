"""A rehearsal in experiments: a query's first seconds on a storage, recorded, then ended."""

import time
from pathlib import Path

from spillcast.engines.engine import Lab
from spillcast.engines.workload import Workload
from spillcast.errors import RehearsalFailed
from spillcast.lab.run import observed, recorder_for
from spillcast.lab.storages import Place
from spillcast.recording import Recording
from spillcast.storage.rehearse import Rehearsal


def rehearse(
    engine: Lab,
    workload: Workload,
    place: Place,
    like: Recording,
    duration_s: float,
    folder: Path,
) -> Rehearsal:
    """Run the query that ``like`` recorded in ``place`` for so long at most.

    The recording of it is kept in ``folder``. Refusal where it did no temp I/O until then.
    """
    output = folder / f"{like.path.stem}-on-{place.directory.name}.spill"
    recorder = recorder_for(place, output, duration_s)
    try:
        with observed(engine, workload, place, recorder) as held:
            if held.helpers is not None and recorder.attaches:
                recorder.attach_children(*held.helpers)
            started_ns = time.monotonic_ns()
            held.start()
            while not recorder.poll():
                pass
            elapsed_s = (time.monotonic_ns() - started_ns) / 1e9
            recorder.stop()
            if held.wait(0):
                elapsed_s = held.result().elapsed_s
        if not recorder.saw_temp_io():
            raise RehearsalFailed(
                f"{workload.name}: no temp I/O in {duration_s:g} s on {place.name}"
            )
        extra = {"engine": engine.describe(workload)}
        return Rehearsal.of(
            recorder.finish(elapsed_s=elapsed_s, started_ns=started_ns, extra=extra)
        )
    except BaseException:
        recorder.abandon()
        raise
