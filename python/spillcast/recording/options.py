"""The options of a recording."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast.document import key
from spillcast.recording.source import AUTO


@dataclass(frozen=True)
class RecordOptions:
    """Holds the options of a recording, as meta.json keeps them."""

    temp_dirs: Sequence[Path] = key(
        "directories whose files count as temp files", example=[], default=()
    )
    capture: str = key("a capture source, or `auto`", example=AUTO, default=AUTO)
    duration_s: float | None = key(
        "when to stop; null for the end of the process", unit="s", example=None, default=None
    )
    slices: int | None = key(
        "slices of single waits to keep; null for all", example=None, default=None
    )
    share: bool = key(
        "whether users other than its owner may read it",
        example=False,
        default=False,
        optional=True,
    )
    force: bool = key(
        "whether it may replace an older recording",
        example=False,
        default=False,
        optional=True,
    )

    def anywhere(self) -> "RecordOptions":
        """The options with absolute paths, for a process in another directory."""
        return replace(self, temp_dirs=[path.resolve() for path in self.temp_dirs])
