"""Removes the short-lived names of a probe's files, also if the probe is killed."""

from contextlib import AbstractContextManager
from pathlib import Path

from spillcast import _core
from spillcast.workspace import undone_by

_JANITOR = """
trap "" INT TERM HUP
cat >/dev/null
rm -f -- "$1/$2"*
"""


def no_names_left(directory: Path) -> AbstractContextManager[None]:
    """Remove names that this process gives files in ``directory`` at the end of the block."""
    prefix = _core.scratch_prefix()
    return undone_by(_JANITOR, "spillcast-janitor", directory.absolute(), prefix)
