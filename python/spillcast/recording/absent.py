"""A null capture, for recordings that consist of samples alone."""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING = (
    *("temp_reads", "temp_writes", "temp_bytes", "temp_ns"),
    *("other_io", "other_writes", "other_io_ns", "unknown_file"),
    *("temp_copies", "temp_copied_bytes"),
    *("io_uring_depth", "io_uring_busy_ns", "calls"),
    *("lost", "dropped", "tracer_cpu_ns", "run_queue_delay_ns", "run_queue_others_ns"),
)


class AbsentCapture:
    """Observes nothing: the processes are on another host, or observing them is not permitted."""

    def __init__(self) -> None:
        self.origin_ns = time.monotonic_ns()

    def take(self) -> "tuple[pa.RecordBatch, pa.RecordBatch]":
        """No waits, no seconds."""
        from spillcast.recording.schema import SECONDS_SCHEMA, WAITS_SCHEMA

        return _empty(WAITS_SCHEMA), _empty(SECONDS_SCHEMA)

    def status(self) -> dict[str, Any]:
        """All counts are 0."""
        return {
            **dict.fromkeys(_NOTHING, 0),
            "elapsed_ns": time.monotonic_ns() - self.origin_ns,
            "switches": None,
            "cpu_ns": None,
            "io_uring": False,
            "file_faults": None,
            "file_fault_ns": None,
            "mapped": [],
            "running": [],
            "connected": True,
            "sampled": None,
        }

    def attach(self, pid: int) -> None:
        """Nothing to attach."""

    def attach_children(self, parent: int, title: str) -> None:
        """Nothing to attach."""

    def joined(self) -> list[tuple[int, int | None, int, tuple[int, int, int] | None, int]]:
        """No process was attached."""
        return []

    def stop(self, *, over: bool = False) -> None:
        """Do nothing."""


def _empty(schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema)
