"""Reading figures of one run, from files or a word: counts."""

from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import EvidenceMixed
from spillcast.evidence.counts import Counts
from spillcast.evidence.figures.choice import Choice
from spillcast.evidence.figures.figures import counts_of_figures
from spillcast.evidence.figures.kinds import Reader, is_word
from spillcast.evidence.recognise import recognise
from spillcast.gate import reading


def read_figures(
    given: Sequence[str | Path],
    choice: Choice | None = None,
    *,
    elapsed_s: float | None = None,
    timed: bool = True,
) -> Counts:
    """The counts of files of figures, or of a word of them.

    Several files may be parts of one report. ``elapsed_s`` is the time of the run where it is known
    better. InputError for what is damaged; Refusal, if ``timed``, where no time is told.
    """
    choice = choice or Choice()
    if len(given) == 1 and is_word(str(given[0])):
        from spillcast.evidence.figures.stated import figures_of_word

        figures = figures_of_word(str(given[0]))
    else:
        paths = [Path(path) for path in given]
        reader = _reader(paths)
        with reading(paths[0]):
            figures = reader.read(paths, choice)
    return counts_of_figures(figures, elapsed_s=elapsed_s, timed=timed)


def _reader(paths: Sequence[Path]) -> Reader:
    """What reads all of them. InputError where they are no parts of one."""
    kinds = [recognise(path) for path in paths]
    readers = {None if each is None else each.kind.reader for each in kinds}
    reader = readers.pop()
    if reader is None or readers or (len(paths) > 1 and not reader.joins):
        raise EvidenceMixed(
            f"{len(paths)} files of figures are given", "forecast one run at a time"
        )
    return reader
