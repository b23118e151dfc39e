"""Costs measured on a machine and kept for the user: CPU cost of waits, and cost of captures."""

import json
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.document import key, read, written
from spillcast.errors import InputError, OutputUnwritable, SpillcastError
from spillcast.gate import json_of, text_of
from spillcast.recording.capture import PRELOAD
from spillcast.recording.observed import pairs_of, preload_value, proc_text
from spillcast.units import DAY_S
from spillcast.workspace import user_folder, whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spillcast.columns import Floats

#: Between measured waits the cost is linear in log(1 + wait / SHORT_S): shorter waits cost almost
#: nothing, and each doubling of a longer wait adds the same cost.
SHORT_S = 20e-6
#: Beyond this multiple of the longest measured wait the cost is constant.
CONSTANT_BEYOND = 8.0
#: The engine name of a cost that is measured over all engines.
ANY = "any"
#: Classes of wait lengths per power of ten.
CLASSES_PER_DECADE = 8


@dataclass(frozen=True)
class WaitCost:
    """Extra CPU time of the work after a wait, by the lengths of the wait and of the work.

    Memory becomes cold during the wait. It has parts, each of which takes CPU time f to read. Work
    of CPU time b reads the share 1 - exp(-b / f) of a part, and a wait of length w lengthens these
    reads by the share s(w): extra(b, w) = sum over f of s(w) * f * (1 - exp(-b / f)).
    """

    engine: str = key("engine whose queries were run; `any` for all together", example="postgres")
    queries: int = key("how many", example=4)
    spread: float = key("relative standard deviation between queries", example=0.4)
    fill_s: Sequence[float] = key("CPU times f", unit="s", example=[1e-5, 1e-4])
    waits_s: Sequence[float] = key("measured waits, ascending", unit="s", example=[0.0003])
    shares: Sequence[Sequence[float]] = key(
        "shares s: a list for each wait, with an entry for each f", example=[[1.0, 0.2]]
    )
    version: str = key(
        "version of the engine; empty for all engines together",
        example="18.1",
        default="",
        later=True,
    )

    def extra_s(self, warm_s: "Floats", wait_s: float) -> "Floats":
        """Extra CPU time, after a wait of ``wait_s``, of work that takes ``warm_s`` without it."""
        import numpy as np

        return filled_s(warm_s, np.array(self.fill_s)) @ self._shares(wait_s)

    def warm_s(self, burst_s: "Floats", wait_s: float) -> "Floats":
        """CPU time, without a wait, of work that took ``burst_s`` after a wait of ``wait_s``."""
        import numpy as np

        if not len(burst_s):
            return burst_s
        longest_s = max(float(burst_s.max()), 1e-9)
        warm_s = np.concatenate([[0.0], np.geomspace(min(1e-7, longest_s / 10), longest_s, 400)])
        return np.asarray(np.interp(burst_s, warm_s + self.extra_s(warm_s, wait_s), warm_s))

    def moved_s(self, burst_s: "Floats", waited_s: "Floats", wait_s: float) -> float:
        """Mean change (s) of the bursts if all followed a wait of ``wait_s``, not ``waited_s``."""
        import numpy as np

        levels = np.round(CLASSES_PER_DECADE * np.log10(np.maximum(waited_s, 1e-7)))
        total_s = 0.0
        for level in np.unique(levels):
            bursts_s = burst_s[levels == level]
            warm_s = self.warm_s(bursts_s, float(waited_s[levels == level].mean()))
            total_s += float((warm_s + self.extra_s(warm_s, wait_s) - bursts_s).sum())
        return total_s / max(len(burst_s), 1)

    def _shares(self, wait_s: float) -> "Floats":
        """The shares s of a wait of any length, interpolated: an entry for each f."""
        import numpy as np

        known_s = [0.0, *self.waits_s]
        shares = np.vstack([np.zeros(len(self.fill_s)), np.array(self.shares)])
        wait_s = min(wait_s, CONSTANT_BEYOND * known_s[-1])
        weight, *points = weights_of(np.array([wait_s, *known_s]))
        right = min(int(np.searchsorted(points, weight, side="left")) or 1, len(points) - 1)
        part = (weight - points[right - 1]) / (points[right] - points[right - 1])
        return np.asarray(shares[right - 1] + part * (shares[right] - shares[right - 1]))


@dataclass(frozen=True)
class MachineCalibration:
    """The part of its machine's calibration that a recording contains."""

    measured_at_s: float = key("time of the measurement", unit="s since 1970", example=1.8e9)
    costs: Sequence[WaitCost] = key(
        "cost of a wait by engine; the last entry is for all engines together"
    )

    def cost_of(self, engine: str, version: str | None, owner: str | None = None) -> WaitCost:
        """The cost for an engine, or for ``owner``, the engine that uses the recorded file names.

        If the version was not measured, the cost of another version; if the engine was not
        measured, the cost over all engines, whose spread is larger.
        """
        of_engine = [cost for cost in self.costs if cost.engine == engine] or [
            cost for cost in self.costs if cost.engine == owner
        ]
        # A server appends the package name to its version.
        number = (version or "").partition(" ")[0]
        same = [cost for cost in of_engine if cost.version and cost.version == number]
        return (same or of_engine or [self.costs[-1]])[0]


def idle_s(latency_s: "Floats", size_bytes: "NDArray[Any]") -> "Floats":
    """The part of latencies in which a thread waits; the rest is the copying of data in memory."""
    import numpy as np

    return np.asarray(np.maximum(latency_s - calibrated().in_memory_s(size_bytes), 0.0))


def weights_of(waits_s: "Floats") -> "Floats":
    """The relative amount of memory that becomes cold in each wait; 0 for no wait."""
    import numpy as np

    return np.log1p(waits_s / SHORT_S)


def filled_s(work_s: "Floats", fill_s: "Floats") -> "Floats":
    """CPU time in which work reads each part of memory: a row per piece of work, a column per f."""
    import numpy as np

    return np.asarray(fill_s * -np.expm1(-np.asarray(work_s)[:, None] / fill_s))


CALIBRATION_SCHEMA = "spillcast.calibration/1"
AGAIN = "run `spillcast calibrate` again"
#: How long a calibration stays valid.
MAX_AGE_S = 30 * 86_400.0


@dataclass(frozen=True)
class CalibrationRun:
    """A recorded run of a query on a storage."""

    engine: str = key("its name and version", example="DuckDB 2.0.0")
    query: str = key("the query's name", example="join of amounts")
    storage: str = key("storage it spilled to", example="latency:1.5ms")
    repeat: int = key("number of the run on that storage, from 0", example=0)
    operations: int = key("temp reads and writes", example=612)
    latency_s: float = key("mean latency", unit="s", example=0.00163)
    read_latency_s: float = key("mean latency of reads; 0 without any", unit="s", example=0.00161)
    write_latency_s: float = key("mean latency of writes; 0 without any", unit="s", example=0.00165)
    cpu_s: float = key("CPU time outside I/O calls", unit="s", example=0.71)
    cpu_per_operation_s: float = key("the same per operation", unit="s", example=0.00116)
    process_cpu_s: float = key("CPU time including time in I/O calls", unit="s", example=0.92)
    run_queue_delay_s: float = key("time runnable but not scheduled", unit="s", example=0.004)
    elapsed_s: float = key("how long it took", unit="s", example=1.93)


@dataclass(frozen=True)
class CalibratedOn:
    """The conditions under which a calibration is valid."""

    host: str = key("the machine's name", example="db1")
    spillcast: str = key("version that measured", example="0.1.0")
    kernel: str = key("its release", example="6.12.0-amd64")
    cpu: str = key("the CPU's model", example="AMD EPYC 9354")
    cpus: int | None = key("CPUs of the machine", example=64)

    @staticmethod
    def this_machine() -> "CalibratedOn":
        """The current conditions on this machine."""
        return CalibratedOn(
            platform.node(), _core.__version__, platform.release(), cpu_model(), os.cpu_count()
        )


@dataclass(frozen=True)
class Calibration:
    """The document of all measurements that is kept on disk."""

    schema: str = key("the format", example=CALIBRATION_SCHEMA)
    measured_at_s: float = key("time of the measurement", unit="s since 1970", example=1.8e9)
    took_s: float = key("how long that took", unit="s", example=113.0)
    machine: CalibratedOn = key("")
    costs: Sequence[WaitCost] = key(
        "cost of a wait by engine; the last entry is for all engines together"
    )
    points: Sequence[CalibrationRun] = key("a recorded run each")
    skipped: Sequence[str] = key("engines that were not measured, and why")

    @property
    def for_recordings(self) -> MachineCalibration | None:
        """The part of the calibration that a recording contains."""
        return MachineCalibration(self.measured_at_s, self.costs) if self.costs else None


def keep(calibration: Calibration) -> Path:
    """Replace the kept calibration, atomically; returns its path. WriteFailed or OSError."""
    path = calibration_path()
    _write(path, calibration)
    return path


def _write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        partial.write_text(json.dumps(written(document), indent=1) + "\n")


def kept_calibration() -> Calibration | None:
    """The calibration of this machine; None if missing or damaged."""
    try:
        path = calibration_path()
        kept = read(Calibration, json_of(text_of(path)))
    except (OSError, InputError):
        return None
    holds = kept.schema == CALIBRATION_SCHEMA and kept.machine == CalibratedOn.this_machine()
    return kept if holds else None


def is_old(measured_at_s: float) -> bool:
    """Whether a calibration is so old that it should be repeated."""
    return time.time() - measured_at_s > MAX_AGE_S


def calibration_path() -> Path:
    """The path of the user's calibration. InputError for a user without a home."""
    return user_folder("XDG_STATE_HOME", ".local/state") / "calibration.json"


def check_keepable() -> None:
    """OutputUnwritable if a calibration cannot be kept: fails before the work, not after it."""
    folder = calibration_path().parent
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        hint = "set XDG_STATE_HOME to a directory that can be"
        raise OutputUnwritable(f"{folder} cannot be written to", hint)


COST_SCHEMA = "spillcast.capture-cost/1"
#: A capture's cost from the same boot is exact enough for a recording's account for this long, and
#: a rough estimate for a day: load and clock rates change.
FRESH_S = 600.0


@dataclass(frozen=True)
class CaptureCost:
    """The time that each call and context switch costs a thread; low and high are quartiles."""

    call_s: float = key("by a call", unit="s", example=3.6e-07)
    call_low_s: float = key("lower quartile", unit="s", example=3.4e-07)
    call_high_s: float = key("upper quartile", unit="s", example=3.8e-07)
    switch_s: float | None = key(
        "per context switch; null if the source does not observe them", unit="s", example=6.8e-06
    )
    switch_low_s: float | None = key("lower quartile", unit="s", example=6.7e-06)
    switch_high_s: float | None = key("upper quartile", unit="s", example=7.0e-06)

    def overhead_s(self, calls: int, switches: int | None) -> tuple[float, float, float]:
        """The loss (s) of all observed threads: estimate, low, high."""
        calls_s = (self.call_s, self.call_low_s, self.call_high_s)
        switches_s = (self.switch_s, self.switch_low_s, self.switch_high_s)
        about_s, low_s, high_s = (
            calls * call_s + (switches or 0) * (switch_s or 0.0)
            for call_s, switch_s in zip(calls_s, switches_s, strict=True)
        )
        return about_s, low_s, high_s


@dataclass(frozen=True)
class CostConditions(CalibratedOn):
    """The conditions under which a cost is valid."""

    source: str = key("`--capture`", example="perf")
    calls: Sequence[str] | None = key("system calls observed; null for all relevant ones")
    boot: str = key("boot id of the kernel", example="0b5a2b5e-8b5c-4f6e-9f6e-4c1d2a7e3b10")


@dataclass(frozen=True)
class KeptCost:
    """The kept document of a capture's cost."""

    schema: str = key("the format", example=COST_SCHEMA)
    measured_at_s: float = key("time of the measurement", unit="s since 1970", example=1.8e9)
    setting: CostConditions = key("")
    cost: CaptureCost = key("")


def cost_of(source: str, calls: Sequence[str] | None = None) -> CaptureCost | None:
    """The cost of a source with these calls: the kept one if fresh, else measured now and kept.

    If it cannot be measured, the kept cost of the last day; None without that.
    """
    if (kept := kept_cost(source, calls, FRESH_S)) is not None:
        return kept
    if (cost := measured_cost(source, calls)) is None:
        return kept_cost(source, calls)
    # The cost is not kept if the folder cannot be written.
    with suppress(OSError, SpillcastError):
        document = KeptCost(COST_SCHEMA, time.time(), _setting(source, calls), cost)
        _write(_cost_path(source, calls), document)
    return cost


def kept_cost(
    source: str, calls: Sequence[str] | None = None, within_s: float = DAY_S
) -> CaptureCost | None:
    """The kept cost; None if missing, too old, or of another machine or boot."""
    try:
        path = _cost_path(source, calls)
        kept = read(KeptCost, json_of(text_of(path)))
    except (OSError, InputError):
        return None
    young = 0 <= time.time() - kept.measured_at_s <= within_s
    same = kept.schema == COST_SCHEMA and kept.setting == _setting(source, calls)
    return kept.cost if young and same else None


def measured_cost(source: str, calls: Sequence[str] | None = None) -> CaptureCost | None:
    """The cost, measured on a child process that only makes calls; None if that fails."""
    preload = preload_value() if source == PRELOAD else None
    bare = dict(os.environ)
    observed = bare if preload is None else bare | {"LD_PRELOAD": preload}
    try:
        record = _core.capture_cost(
            source, calls, child_program(), *map(pairs_of, (bare, observed))
        )
    except (OSError, ValueError, InputError):
        return None
    return CaptureCost(**record)


def child_program() -> list[str]:
    """The command line of the process that a measurement observes; the core adds two arguments."""
    work = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "try: import _core; _core.capture_cost_child(sys.argv[2], int(sys.argv[3]))\n"
        "except BaseException: sys.exit(1)"
    )
    return [sys.executable, "-I", "-S", "-c", work, str(Path(_core.__file__).parent)]


def _cost_path(source: str, calls: Sequence[str] | None) -> Path:
    """The file for a source and its calls. InputError for a user without a home."""
    name = f"capture-cost-{source}"
    if calls is not None:
        import hashlib

        name += "-" + hashlib.sha256(" ".join(calls).encode()).hexdigest()[:12]
    return user_folder("XDG_CACHE_HOME", ".cache") / f"{name}.json"


def _setting(source: str, calls: Sequence[str] | None) -> CostConditions:
    return CostConditions(
        **vars(CalibratedOn.this_machine()),
        source=source,
        calls=None if calls is None else list(calls),
        boot=proc_text("sys/kernel/random/boot_id").strip(),
    )


def cpu_model() -> str:
    """The CPU's model, or its architecture if the kernel does not give a model."""
    match = re.search(r"^model name\s*:\s*(.+)$", proc_text("cpuinfo"), re.MULTILINE)
    return match[1] if match else platform.machine()
