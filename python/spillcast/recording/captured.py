"""The results and the cost of a capture for meta.json, and why it may have seen nothing."""

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spillcast.errors import CaptureUnavailable, InputError, NothingRecorded
from spillcast.recording.capture_cost import CaptureCost
from spillcast.recording.meta import CaptureAccount, OtherIO, Temp
from spillcast.recording.source import SOURCES, Capture, PerfSource
from spillcast.units import format_count

if TYPE_CHECKING:
    from spillcast.recording.target import Command


@dataclass(frozen=True)
class ToolCost:
    """Holds the recorder's own CPU time and memory, and the cost to the observed processes."""

    cpu_s: float
    memory_bytes: int | None
    cost: CaptureCost | None


def captured(
    status: Mapping[str, Any], method: str, tool: ToolCost, *, only_calls: bool
) -> dict[str, Any]:
    """The parts of ``Meta`` that a capture fills."""
    calls, switches, cost = status["calls"], status["switches"], tool.cost
    overhead_s = (None, None, None) if cost is None else cost.overhead_s(calls, switches)
    return {
        "cpu_s": None if status["cpu_ns"] is None else status["cpu_ns"] / 1e9,
        "temp": Temp(
            reads=status["temp_reads"],
            writes=status["temp_writes"],
            bytes=status["temp_bytes"],
            total_s=status["temp_ns"] / 1e9,
        ),
        "other_io": OtherIO(status["other_io"], status["other_io_ns"] / 1e9),
        "capture": CaptureAccount(
            method=method,
            lost=status["lost"],
            dropped=status["dropped"],
            unknown_file=status["unknown_file"],
            temp_copies=status["temp_copies"],
            temp_copied_bytes=status["temp_copied_bytes"],
            calls=calls,
            switches=switches,
            tracer_cpu_s=tool.cpu_s,
            recorder_memory_bytes=tool.memory_bytes,
            overhead_s=overhead_s[0],
            overhead_low_s=overhead_s[1],
            overhead_high_s=overhead_s[2],
            call_cost_s=None if cost is None else cost.call_s,
            switch_cost_s=None if cost is None else cost.switch_s,
            run_queue_delay_s=status["run_queue_delay_ns"] / 1e9,
            run_queue_others_s=status["run_queue_others_ns"] / 1e9,
            io_uring=status["io_uring"] and not only_calls,
            io_uring_depth=status["io_uring_depth"],
            io_uring_busy_s=status["io_uring_busy_ns"] / 1e9,
            file_faults=status["file_faults"],
            file_fault_s=None if status["file_fault_ns"] is None else status["file_fault_ns"] / 1e9,
            mapped_temp_files=status["mapped"],
            threads_sampled=status["sampled"],
        ),
    }


def sampled_threads(sampled: tuple[int, int] | None) -> str | None:
    """How many of how many threads are observed, in a line with what mends it; None: all."""
    if sampled is None:
        return None
    seen, of = sampled
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = f"more need more descriptors than ulimit -n {limit:,} allows"
    return f"{seen:,} of {format_count(of, 'thread')} observed: {room}; raise it, or run as root"


def uncaptured(because: str) -> dict[str, Any]:
    """The parts of ``Meta`` without a capture."""
    return {"capture": CaptureAccount("none", because)}


def nothing_seen(status: Mapping[str, Any], method: str, *, samples: int) -> InputError | None:
    """The error for a run of which nothing was seen; None if something was."""
    if samples:
        return None
    if method == "none":
        return NothingRecorded("nothing was recorded: no sample was taken while the query ran")
    if not status["connected"]:
        hint = f"record it with --capture {PerfSource.name}"
        return CaptureUnavailable(SOURCES[method].unconnected, hint)
    return None


def going_on(status: Mapping[str, Any], command: "Command | None") -> str | None:
    """A notice that a command left processes behind, and how to record them; None if not."""
    running = status["running"]
    if command is None or command.exit_status is None or not running:
        return None
    count = format_count(len(running), "process")
    return f"the command left {count} running, not recorded any more: use --pid {running[0]}"


@dataclass(frozen=True)
class Joined:
    """A process that was attached after the recording had begun.

    ``before`` are the calls that read, that wrote, and their bytes before the attachment, of any
    file and any kind, and None where the kernel does not tell.
    """

    pid: int
    started_s: float | None
    attached_s: float
    before: tuple[int, int, int] | None
    #: Temp files that it had open then.
    temp_files: int


def joined(capture: Capture, zero_ns: int) -> list[Joined]:
    """The processes that were attached meanwhile; times count from ``zero_ns``."""
    return [
        Joined(
            pid,
            None if start_ns is None else (start_ns - zero_ns) / 1e9,
            (attached_ns - zero_ns) / 1e9,
            before,
            temp_files,
        )
        for pid, start_ns, attached_ns, before, temp_files in capture.joined()
    ]


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
    *(
        "lost",
        "dropped",
        "unknown_file",
        "temp_copies",
        "temp_copied_bytes",
        "calls",
        "switches",
        "tracer_cpu_s",
        "overhead_s",
    ),
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
