"""The commit of this build, which each wheel contains as a file; a source folder has none."""

from pathlib import Path

#: Its only line is the commit, with a + where files differed from it.
FILE = Path(__file__).with_name("commit.txt")


def commit() -> str | None:
    """The commit; None where it is not known."""
    try:
        return FILE.read_text().strip() or None
    except OSError:
        return None
