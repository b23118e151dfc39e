"""Where the rows of a recording under way go."""

from typing import Protocol

import pyarrow as pa

from spillcast.recording.clock import Clock
from spillcast.recording.meta import Meta
from spillcast.recording.recording import Recording


class Sink(Protocol):
    """What takes the rows of a recording under way: a folder, or memory."""

    def add_waits(self, batch: pa.RecordBatch) -> None:
        """Take raw waits."""

    def add_seconds(self, batch: pa.RecordBatch) -> None:
        """Take per-second rows."""

    def add_samples(self, batch: pa.RecordBatch) -> None:
        """Take samples."""

    def add_document(self, name: str, document: object) -> None:
        """Take a JSON document."""

    def finish(self, meta: Meta, clock: Clock) -> Recording:
        """Make it whole, its times by ``clock``; which waits were kept is not in ``meta`` yet."""

    def discard(self) -> None:
        """Leave nothing."""
