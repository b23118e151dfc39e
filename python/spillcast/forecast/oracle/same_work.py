"""The traces below a directory that are of the baseline's own statement."""

from collections.abc import Set
from pathlib import Path

from spillcast.errors import InputError
from spillcast.evidence.find import traces_below
from spillcast.forecast.oracle.events import statements_of
from spillcast.visible import shell_word

#: Statements that an error names.
_NAMED = 3


def traces_of_same_work(
    folder: Path, statements: Set[str], temp_events: str, *, lenient: bool = False
) -> list[Path]:
    """Those in which one of ``statements`` waits for events like ``temp_events``.

    A directory of traces holds those of everybody. InputError where none is of the same work, or
    where the baseline does not say which statement it is of.
    """
    target = f"--to {folder}"
    probe = f"spillcast probe {shell_word(folder)} --grid -o there.json, then --to there.json"
    paths = traces_below(folder)
    if not paths:
        raise InputError(
            f"{target}: traces and ASH are not replayed on a directory, and this one holds no "
            "trace of the query",
            f"probe it: {probe}",
        )
    if not statements:
        raise InputError(
            f"{target}: the baseline does not name its statement, and of {len(paths):,} traces "
            "below the directory it is unknown which are of the same statement",
            f"give its traces instead of the directory, or probe it: {probe}",
        )
    same = [path for path in paths if statements & _statements(path, temp_events, lenient)]
    if not same:
        named = sorted(statements)[:_NAMED]
        more = ", ..." if len(statements) > _NAMED else ""
        raise InputError(
            f"{target}: of {len(paths):,} traces below it none has waits for '{temp_events}' of "
            f"the same statement ({', '.join(named)}{more})",
            f"trace the query for a minute with temp there, or probe the directory: {probe}",
        )
    return same


def _statements(path: Path, temp_events: str, lenient: bool) -> Set[str]:
    """None of them in a file that is no trace of waits."""
    try:
        return statements_of([path], temp_events, lenient=lenient)
    except InputError:
        return frozenset()
