"""The account of a capture in meta.json: its method, its losses, its cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spillcast.document import key


@dataclass(frozen=True)
class CaptureAccount:
    """Describes a capture. All counts are 0 without one."""

    method: str = key(
        "`perf`, `preload`, or `none` if only samples were recorded; `explain` for "
        "PostgreSQL's counts, `trace` for Oracle's traces, `report` for its reports, `figures` for "
        "bare figures: these are never on disk",
        example="perf",
    )
    absent_because: str | None = key(
        "why there was no capture; the keys below and those of `machine` are then missing, and "
        "`temp`, `other_io` and `cpu_s` are null",
        example=None,
        default=None,
    )
    lost: int = key("capture events lost", unit="reports", example=0, default=0)
    dropped: int = key(
        "single waits dropped; the seconds contain them", unit="waits", example=0, default=0
    )
    unknown_file: int = key(
        "calls on files closed before their names could be read", unit="calls", example=0, default=0
    )
    temp_copies: int = key(
        "calls of sendfile, splice and copy_file_range on temp files: these make no rows",
        unit="calls",
        example=0,
        default=0,
        later=True,
    )
    temp_copied_bytes: int = key(
        "bytes that they moved", unit="bytes", example=0, default=0, later=True
    )
    calls: int | None = key(
        "calls of the observed threads that the source reported, on any file",
        unit="calls",
        example=4211,
        default=None,
        later=True,
    )
    switches: int | None = key(
        "how often an observed thread left the CPU; null with preload, which does not observe that",
        unit="switches",
        example=3904,
        default=None,
        later=True,
    )
    tracer_cpu_s: float = key(
        "CPU time of all threads of the recorder, including its preparation; only of the reading "
        "thread if `calls` is missing",
        unit="s",
        example=0.41,
        default=0.0,
    )
    recorder_memory_bytes: int | None = key(
        "peak resident memory of the recorder",
        unit="bytes",
        example=60817408,
        default=None,
        later=True,
    )
    overhead_s: float | None = key(
        "estimated cost to the observed threads: `calls` times `call_cost_s` plus `switches` times "
        "`switch_cost_s`; null if these could not be measured",
        unit="s",
        example=0.028,
        default=None,
    )
    overhead_low_s: float | None = key(
        "the same with the lower quartiles of both costs",
        unit="s",
        example=0.027,
        default=None,
        later=True,
    )
    overhead_high_s: float | None = key(
        "the same with the upper quartiles", unit="s", example=0.029, default=None, later=True
    )
    call_cost_s: float | None = key(
        "added cost of an observed call: the median of paired bursts, measured on the same machine "
        "within a day; null if it could not be measured",
        unit="s",
        example=3.6e-07,
        default=None,
        later=True,
    )
    switch_cost_s: float | None = key(
        "the same for a context switch; null with preload too",
        unit="s",
        example=6.8e-06,
        default=None,
        later=True,
    )
    run_queue_delay_s: float = key(
        "time the observed threads were runnable but not scheduled",
        unit="s",
        example=0.02,
        default=0.0,
    )
    run_queue_others_s: float | None = key(
        "upper bound of the part caused by other programs: their CPU time meanwhile; the rest is "
        "the observed threads waiting for each other; null if unknown",
        unit="s",
        example=0.004,
        default=None,
        later=True,
    )
    io_uring: bool = key(
        "whether io_uring was used whose requests could not be observed",
        example=False,
        default=False,
    )
    io_uring_depth: int = key(
        "largest number of io_uring requests and calls that a thread had in flight at once, with "
        "requests on temp files among them; 0 without any",
        example=0,
        default=0,
        later=True,
    )
    io_uring_busy_s: float = key(
        "CPU time that threads used while one such request was in flight",
        unit="s",
        example=0.0,
        default=0.0,
        later=True,
    )
    file_faults: int | None = key(
        "page faults that read a file; null if the capture does not observe them",
        unit="faults",
        example=12,
        default=None,
        later=True,
    )
    file_fault_s: float | None = key(
        "time the observed threads waited in these; null if the capture does not observe it",
        unit="s",
        example=0.0014,
        default=None,
        later=True,
    )
    mapped_temp_files: Sequence[str] = key(
        "temp files that are mapped shared and writable", example=[], default=()
    )
    threads_sampled: tuple[int, int] | None = key(
        "number of threads observed and number of threads, if not all could be observed; null for "
        "all",
        unit="threads",
        example=None,
        default=None,
        later=True,
    )


def share_of(capture: CaptureAccount, share: float) -> CaptureAccount:
    """The account of a part: what can be shared out, by the part's ``share`` of it."""

    def part(value: float | None) -> float | None:
        return None if value is None else value * share

    def count(value: int | None) -> int | None:
        return None if value is None else round(value * share)

    return replace(
        capture,
        lost=round(capture.lost * share),
        dropped=round(capture.dropped * share),
        unknown_file=round(capture.unknown_file * share),
        temp_copies=round(capture.temp_copies * share),
        temp_copied_bytes=round(capture.temp_copied_bytes * share),
        calls=count(capture.calls),
        switches=count(capture.switches),
        tracer_cpu_s=capture.tracer_cpu_s * share,
        overhead_s=part(capture.overhead_s),
        overhead_low_s=part(capture.overhead_low_s),
        overhead_high_s=part(capture.overhead_high_s),
        run_queue_delay_s=capture.run_queue_delay_s * share,
        run_queue_others_s=part(capture.run_queue_others_s),
        file_fault_s=part(capture.file_fault_s),
    )


#: Of an account, what adds up over recordings of one run.
_ADDS_UP = (
    *("lost", "dropped", "unknown_file", "temp_copies", "temp_copied_bytes", "calls", "switches"),
    *("tracer_cpu_s", "overhead_s"),
    *("overhead_low_s", "overhead_high_s", "run_queue_delay_s", "run_queue_others_s"),
    *("io_uring_busy_s", "file_faults", "file_fault_s"),
)


def together(captures: Sequence[CaptureAccount]) -> CaptureAccount:
    """The account of several recordings of one run: sums, where all of them tell."""
    sums: dict[str, Any] = {}
    for name in _ADDS_UP:
        values = [getattr(capture, name) for capture in captures]
        sums[name] = None if None in values else sum(values)
    return replace(captures[-1], **sums)
