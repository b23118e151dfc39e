"""Where an event log of Spark is: a file, a folder of parts; and how it is known."""

import re
from collections.abc import Sequence
from pathlib import Path

#: Spark's events begin so, and its codecs.
_EVENT = re.compile(r'\A\s*\{"Event":\s*"(?:SparkListener|DBC|org\.apache\.spark|com\.databricks)')
_CODECS = ("LZ4Block", "\u201aSNAPPY", "\x82SNAPPY")
#: Parts of rolled logs: Spark's are numbered, those of Databricks are dated but for the last.
_ROLLED = re.compile(r"events_(\d+)_.+")
_DATED = re.compile(r"eventlog(?:-[\d-]+(?:\.gz)?)?")


def is_event_log(text: str) -> bool:
    """Whether a text begins as an event log, or as one that Spark compressed."""
    return text.startswith(_CODECS) or _EVENT.match(text) is not None


def parts_of(names: Sequence[str]) -> list[str]:
    """The parts of one rolled log among the names of a folder, in order; none where it has none."""
    numbered = [(int(match[1]), name) for name in names if (match := _ROLLED.fullmatch(name))]
    if numbered:
        return [name for _, name in sorted(numbered)]
    dated = [name for name in names if _DATED.fullmatch(name)]
    # The one without a date is the last: it is still written.
    return sorted(dated, key=lambda name: (name == "eventlog", name))


def is_log_folder(path: Path) -> bool:
    """Whether a folder holds the parts of a log."""
    return path.is_dir() and bool(parts_of([child.name for child in path.iterdir()]))
