"""Where the rows of a recording under way go."""

from typing import TYPE_CHECKING, Any, Protocol

from spillcast.recording.clock import Clock
from spillcast.recording.meta import Meta
from spillcast.recording.recording import Recording

if TYPE_CHECKING:
    import pyarrow as pa


class Sink(Protocol):
    """What takes the rows of a recording under way: a folder, or memory."""

    def add_waits(self, rows: Any) -> None:
        """Take raw waits, as a capture hands them over."""

    def add_seconds(self, rows: Any) -> None:
        """Take per-second rows, as a capture hands them over."""

    def add_samples(self, batch: "pa.RecordBatch") -> None:
        """Take samples."""

    def add_document(self, name: str, document: object) -> None:
        """Take a JSON document."""

    def finish(self, meta: Meta, clock: Clock) -> Recording:
        """Make it whole, its times by ``clock``; which waits were kept is not in ``meta`` yet."""

    def discard(self) -> None:
        """Leave nothing."""
