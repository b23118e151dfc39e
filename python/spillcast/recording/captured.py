"""What a capture saw and cost, as meta.json has it; and why it may have seen nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spillcast.calibrated import calibrated
from spillcast.errors import InputError


def call_cost_s(method: str) -> float:
    """What a recorded call costs the observed thread; nothing where none is recorded."""
    costs_s = {"perf": calibrated().perf_call_s, "preload": calibrated().preload_call_s}
    return costs_s.get(method, 0.0)


def captured(status: Mapping[str, Any], method: str, *, only_calls: bool) -> dict[str, Any]:
    """The keys ``cpu_s``, ``temp``, ``other_io`` and ``capture`` of docs/schema.md."""
    calls = status["temp_reads"] + status["temp_writes"] + status["other_io"]
    return {
        "cpu_s": None if status["cpu_ns"] is None else status["cpu_ns"] / 1e9,
        "temp": {
            "reads": status["temp_reads"],
            "writes": status["temp_writes"],
            "bytes": status["temp_bytes"],
            "total_s": status["temp_ns"] / 1e9,
        },
        "other_io": {"count": status["other_io"], "total_s": status["other_io_ns"] / 1e9},
        "capture": {
            "method": method,
            "absent_because": None,
            "lost": status["lost"],
            "dropped": status["dropped"],
            "unknown_file": status["unknown_file"],
            "tracer_cpu_s": status["tracer_cpu_ns"] / 1e9,
            "overhead_s": calls * call_cost_s(method),
            "run_queue_delay_s": status["run_queue_delay_ns"] / 1e9,
            "io_uring": status["io_uring"] and not only_calls,
            "mapped_temp_files": status["mapped"],
        },
    }


def uncaptured(because: str) -> dict[str, Any]:
    """The same keys where there was no capture."""
    capture = {"method": "none", "absent_because": because}
    return {"cpu_s": None, "temp": None, "other_io": None, "capture": capture}


def nothing_seen(
    status: Mapping[str, Any], method: str, temp_dirs: Sequence[Path]
) -> InputError | None:
    """Why a recording holds no temp I/O, as an error; None where it holds some."""
    if status["temp_reads"] + status["temp_writes"]:
        return None
    if method == "none":
        return InputError("nothing was seen: no sample was taken while the query ran")
    if method == "preload" and not status["connected"]:
        return InputError(
            "the preload library was never loaded: the command is static or drops LD_PRELOAD",
            "record it with --capture perf",
        )
    spots = ["io_uring"] * status["io_uring"] + ["mmap of temp files"] * bool(status["mapped"])
    if spots:
        names = " and ".join(spots)
        return InputError(f"no temp I/O was seen; the process uses {names}, which no call shows")
    where = ", ".join(map(str, temp_dirs))
    if where:
        return InputError(f"no temp I/O was seen under {where}", "is --temp the right directory?")
    return InputError(
        f"no temp I/O was seen ({status['other_io']:,} calls on other files)",
        "if the query did spill, name the directory with --temp DIR",
    )
