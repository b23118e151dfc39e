"""Evidence of one run, opened: a recording of it, or counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceMixed
from spillcast.evidence.counts import Counts
from spillcast.evidence.find import Evidence
from spillcast.recording.recording import Recording


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which run of a file is meant, and what is known better than the file knows it.

    ``elapsed_s`` is the time of the run, ``block`` the size of Oracle's blocks, ``temp_dirs`` the
    directories of a recording's temp files. Times of temp I/O that the file lacks have bounds if
    ``timed``, else they are left out.
    """

    elapsed_s: float | None = None
    timed: bool = True
    item: int | None = None
    queryid: str | None = None
    sql_id: str | None = None
    exec_id: int | None = None
    block: str | None = None
    temp_dirs: Sequence[str | Path] = ()


def open_evidence(
    evidence: Evidence, selection: Selection, recording: Recording | None = None
) -> Recording | Counts:
    """The one recording or export that is given, each read by its reader.

    ``recording`` is what is open of it already. InputError for several runs, and for what readers
    refuse.
    """
    kind = evidence.only_kind()
    # Several figures may tell of one run, each a part.
    if len(paths := getattr(evidence, kind)) > 1 and kind != "figures":
        names = f"{paths[0]}, {paths[1]}{', ...' if len(paths) > 2 else ''}"
        raise EvidenceMixed(
            f"{len(paths)} files are given: {names}", "forecast one query at a time"
        )
    elapsed_s, timed = selection.elapsed_s, selection.timed
    if kind == "recordings":
        recording = recording or Recording.open(paths[0])
        if recording.plan_alone is None:
            from spillcast.recording.derived import with_temp

            return with_temp(recording, selection.temp_dirs)
        from spillcast.evidence.postgres.afar import plan_counts

        return plan_counts(recording, elapsed_s=elapsed_s, timed=timed)
    if kind == "plans":
        from spillcast.evidence.postgres.plan import read_plan

        return read_plan(paths[0], elapsed_s=elapsed_s, timed=timed, item=selection.item)
    if kind == "figures":
        from spillcast.evidence.figures.choice import Choice
        from spillcast.evidence.figures.reading import read_figures

        choice = Choice(selection.sql_id, selection.exec_id, selection.block, selection.item)
        return read_figures(paths, choice, elapsed_s=elapsed_s, timed=timed)
    from spillcast.evidence.postgres.statements import read_statements

    return read_statements(paths[0], queryid=selection.queryid, elapsed_s=elapsed_s, timed=timed)
