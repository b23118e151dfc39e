"""What a recording is asked to do."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spillcast.recording.source import AUTO


@dataclass(frozen=True)
class RecordOptions:
    """What a recording was asked to do."""

    temp_dirs: Sequence[Path] = ()
    capture: str = AUTO
    duration_s: float | None = None
    slices: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As meta.json keeps it."""
        return {**asdict(self), "temp_dirs": [str(path) for path in self.temp_dirs]}
