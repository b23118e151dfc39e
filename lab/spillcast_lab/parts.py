"""Parts of a recorded run of which nobody told how long the whole takes."""

from random import Random

from spillcast.recording import Recording
from spillcast.recording.meta import ESTIMATE_FILE
from spillcast_lab.cut import attached

#: As evidence: a minute, the same with a previous run, the first fifth.
MINUTE, AGAIN, FIFTH = "minute", "minute_former", "first_fifth_alone"
PARTS = (MINUTE, AGAIN, FIFTH)
MINUTE_S, SHARE, LATEST = 60.0, 0.1, 0.8


def parts(whole: Recording, chance: Random, plan: Recording | None) -> dict[str, Recording]:
    """By name; of one in which there was no temp I/O a forecast is refused.

    ``plan`` is of the same query; of it the server's estimates alone are known.
    """
    began_s = chance.uniform(0, LATEST) * whole.elapsed_s
    lasted_s = min(MINUTE_S, SHARE * whole.elapsed_s)
    recordings = {
        MINUTE: attached(whole, began_s, began_s + lasted_s),
        FIFTH: attached(whole, 0.0, whole.elapsed_s / 5),
    }
    document = None if plan is None else plan.meta.engine.document
    for part in recordings.values():
        if document:
            part.documents[ESTIMATE_FILE] = document
    return recordings
