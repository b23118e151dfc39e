"""The plan in a recording of a server whose processes could not be observed: its counts."""

from dataclasses import replace

from spillcast.evidence.postgres.plan import read_plan
from spillcast.recording.recording import Recording


def with_counts(
    recording: Recording, *, elapsed_s: float | None = None, timed: bool = True
) -> Recording:
    """The recording, or what PostgreSQL counted where that is all it holds. Errors of read_plan."""
    path = recording.plan_alone
    if path is None:
        return recording
    counted, engine = read_plan(path, elapsed_s=elapsed_s, timed=timed), recording.meta.engine
    counted.meta = replace(
        counted.meta,
        engine=replace(engine, document=counted.meta.engine.document),
        capture=replace(counted.meta.capture, absent_because=recording.meta.capture.absent_because),
    )
    return counted
