"""What meta.json says of a capture: how it was done, what it lost, what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillcast.document import key


@dataclass(frozen=True)
class CaptureAccount:
    """What a capture was, lost and cost. All counts are 0 where there was none."""

    method: str = key(
        "`perf`, `preload`, or `none` where samples alone were recorded; `explain` for "
        "PostgreSQL's counts, `trace` for Oracle's traces, `report` for its reports, `figures` for "
        "bare ones: never on disk",
        example="perf",
    )
    absent_because: str | None = key(
        "why there was no capture; the keys below and those of `machine` are missing then, and "
        "`temp`, `other_io` and `cpu_s` null",
        example=None,
        default=None,
    )
    lost: int = key("what the capture had no room for", unit="reports", example=0, default=0)
    dropped: int = key(
        "raw waits not taken in time; the seconds hold them", unit="waits", example=0, default=0
    )
    unknown_file: int = key(
        "calls on files closed before they could be looked at", unit="calls", example=0, default=0
    )
    calls: int | None = key(
        "calls of the observed threads that the source reported, on any file",
        unit="calls",
        example=4211,
        default=None,
        later=True,
    )
    switches: int | None = key(
        "how often an observed thread left the CPU; null with preload, which does nothing then",
        unit="switches",
        example=3904,
        default=None,
        later=True,
    )
    tracer_cpu_s: float = key(
        "CPU time of the recording process, all its threads, from its preparing on; of the reading "
        "thread alone where `calls` lacks",
        unit="s",
        example=0.41,
        default=0.0,
    )
    recorder_memory_bytes: int | None = key(
        "the most that the recording process held resident",
        unit="bytes",
        example=60817408,
        default=None,
        later=True,
    )
    overhead_s: float | None = key(
        "about what the observed threads lost: `calls` times `call_cost_s` and `switches` times "
        "`switch_cost_s`; null where these could not be measured",
        unit="s",
        example=0.028,
        default=None,
    )
    overhead_low_s: float | None = key(
        "the same by the lower quartiles of both costs",
        unit="s",
        example=0.027,
        default=None,
        later=True,
    )
    overhead_high_s: float | None = key(
        "and by the upper ones", unit="s", example=0.029, default=None, later=True
    )
    call_cost_s: float | None = key(
        "what a call cost more for being observed: the median of bursts in pairs, measured on the "
        "same machine within a day; null where it could not be",
        unit="s",
        example=3.6e-07,
        default=None,
        later=True,
    )
    switch_cost_s: float | None = key(
        "the same of leaving the CPU and coming back; null with preload as well",
        unit="s",
        example=6.8e-06,
        default=None,
        later=True,
    )
    run_queue_delay_s: float = key(
        "time the observed threads were runnable without a CPU", unit="s", example=0.02, default=0.0
    )
    run_queue_others_s: float | None = key(
        "of that, the most that others were the cause of: what they had of the CPUs meanwhile; the "
        "rest the observed threads waited for each other; null where it is not known",
        unit="s",
        example=0.004,
        default=None,
        later=True,
    )
    io_uring: bool = key(
        "whether there was io_uring whose requests could not be seen", example=False, default=False
    )
    io_uring_depth: int = key(
        "most requests of io_uring, with calls, that a thread had under way at once, requests on "
        "temp files among them; 0 without any",
        example=0,
        default=0,
        later=True,
    )
    io_uring_busy_s: float = key(
        "CPU time of what threads did beside it while they had one such request under way",
        unit="s",
        example=0.0,
        default=0.0,
        later=True,
    )
    file_faults: int | None = key(
        "page faults that read a file; null where the capture does not see them",
        unit="faults",
        example=12,
        default=None,
        later=True,
    )
    file_fault_s: float | None = key(
        "how long the observed threads waited in these; null where the capture does not see it",
        unit="s",
        example=0.0014,
        default=None,
        later=True,
    )
    mapped_temp_files: Sequence[str] = key(
        "temp files mapped shared and writable", example=[], default=()
    )
    threads_sampled: tuple[int, int] | None = key(
        "threads observed, of how many there were, where not all could be; null for all",
        unit="threads",
        example=None,
        default=None,
        later=True,
    )
