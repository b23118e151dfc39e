"""The plan in a recording of a server whose processes could not be observed: its counts."""

from dataclasses import replace

from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.plan import read_plan
from spillcast.recording.recording import Recording


def plan_counts(
    recording: Recording, *, elapsed_s: float | None = None, timed: bool = True
) -> Counts:
    """The counts of the plan that a recording holds alone. Errors are those of read_plan."""
    path = recording.plan_alone
    assert path is not None
    counts = read_plan(path, elapsed_s=elapsed_s, timed=timed)
    return replace(
        counts,
        engine=replace(recording.meta.engine, document=counts.engine.document),
        absent_because=recording.meta.capture.absent_because,
    )
