"""Files of a probe have a name for a moment; one that is killed just then leaves none either."""

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
    """Names that this process gives files in ``directory`` go with the block at the latest."""
    prefix = _core.scratch_prefix()
    return undone_by(_JANITOR, "spillcast-janitor", directory.absolute(), prefix)
