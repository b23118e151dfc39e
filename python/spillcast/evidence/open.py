"""Evidence of one run, opened: a recording of it, or counts."""

from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import EvidenceMixed
from spillcast.evidence.choice import Selection
from spillcast.evidence.counts import Counts
from spillcast.evidence.find import Evidence
from spillcast.evidence.recognise import is_word, recognise
from spillcast.gate import reading
from spillcast.recording.recording import Recording


def open_evidence(
    evidence: Evidence, selection: Selection, recording: Recording | None = None
) -> Recording | Counts:
    """The one recording or export that is given, each read by its reader.

    ``recording`` is what is open of it already. InputError for several runs, and for what readers
    refuse.
    """
    kind = evidence.only_kind()
    if kind == "figures":
        return read_figures(evidence.figures, selection)
    paths = getattr(evidence, kind)
    if len(paths) > 1:
        names = f"{paths[0]}, {paths[1]}{', ...' if len(paths) > 2 else ''}"
        raise EvidenceMixed(
            f"{len(paths)} files are given: {names}",
            "forecast one query at a time; give other runs of it as --history",
        )
    elapsed_s, timed = selection.elapsed_s, selection.timed
    if kind == "recordings":
        recording = recording or Recording.open(paths[0])
        if recording.plan_alone is None:
            from spillcast.recording.derived import with_temp

            return with_temp(recording, selection.temp_dirs)
        from spillcast.evidence.postgres.plan import plan_counts

        return plan_counts(recording, elapsed_s=elapsed_s, timed=timed)
    if kind == "plans":
        from spillcast.evidence.postgres.plan import read_plan

        return read_plan(paths[0], elapsed_s=elapsed_s, timed=timed, item=selection.item)
    from spillcast.evidence.postgres.statements import read_statements

    return read_statements(paths[0], queryid=selection.queryid, elapsed_s=elapsed_s, timed=timed)


def read_figures(given: Sequence[str | Path], selection: Selection | None = None) -> Counts:
    """The counts of files of figures, or of a word of them.

    Several files may be parts of one report. InputError for what is damaged; Refusal, if
    ``selection.timed``, where no time is told.
    """
    selection = selection or Selection()
    if len(given) == 1 and is_word(str(given[0])):
        from spillcast.evidence.figures.stated import counts_of_word

        return counts_of_word(str(given[0]), selection)
    paths = [Path(path) for path in given]
    recognised = [recognise(path) for path in paths]
    kinds = {None if of_file is None else of_file.kind for of_file in recognised}
    kind = kinds.pop()
    if kind is None or not kind.reader or kinds or (len(paths) > 1 and not kind.joins):
        raise EvidenceMixed(
            f"{len(paths)} files of figures are given", "forecast one run at a time"
        )
    with reading(paths[0]):
        return kind.read(paths, selection)
