"""A run under way: what is known of it by now, by who knows it better than its recorder."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spillcast.recording.meta import Meta


@dataclass(frozen=True)
class RunSoFar:
    """Its start (CLOCK_MONOTONIC) and fields of ``Meta``, as of ``Recorder.finish``."""

    started_ns: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    #: What goes with it, by name.
    documents: Mapping[str, object] = field(default_factory=dict)

    def told(self, meta: Meta, share: float) -> Meta:
        """What a recorder says of it, whose counts are told of a share of the time."""
        # What others were the cause of is told of whole windows only.
        delay_s = share * meta.capture.run_queue_delay_s
        capture = replace(meta.capture, run_queue_delay_s=delay_s, run_queue_others_s=None)
        cpu_s = None if meta.cpu_s is None else share * meta.cpu_s
        return replace(meta, **{"capture": capture, "cpu_s": cpu_s, **self.meta})


#: Of a process that is the run itself.
ITSELF = RunSoFar()
