"""The cost of waits on this machine, as ``spillcast calibrate`` measured and kept it."""

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast import _core
from spillcast.document import key, read, written
from spillcast.errors import InputError, PathMissing
from spillcast.gate import json_of, text_of
from spillcast.recording.capture_cost import cpu_model
from spillcast.recording.user_folder import user_folder
from spillcast.recording.wait_cost import MachineCalibration, WaitCost
from spillcast.workspace import whole_file

CALIBRATION_SCHEMA = "spillcast.calibration/1"
AGAIN = "run `spillcast calibrate` again"
#: How long a calibration stays valid.
OLD_S = 30 * 86_400.0


@dataclass(frozen=True)
class Point:
    """Describes a recorded run of a query on a storage."""

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
class Chase:
    """Holds times of memory reads in an order that defeats prefetchers, warm and after waits."""

    bytes: int = key("memory read through", unit="bytes", example=1048576)
    hops: int = key("cache lines read", example=3000)
    dependent: bool = key("whether each read contains the address of the next one", example=True)
    waited: str = key("how: `not`, `spinning` or `sleeping`", example="sleeping")
    wait_ns: int = key("how long", unit="ns", example=500000)
    elapsed_ns: int = key("median CPU time of the reads", unit="ns", example=223000)


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
        """This machine, as it is now."""
        return CalibratedOn(
            platform.node(), _core.__version__, platform.release(), cpu_model(), os.cpu_count()
        )


@dataclass(frozen=True)
class Calibration:
    """The kept file with all measurements."""

    schema: str = key("the format", example=CALIBRATION_SCHEMA)
    measured_at_s: float = key("time of the measurement", unit="s since 1970", example=1.8e9)
    took_s: float = key("how long that took", unit="s", example=113.0)
    machine: CalibratedOn = key("")
    costs: Sequence[WaitCost] = key(
        "cost of a wait by engine; the last entry is for all engines together"
    )
    points: Sequence[Point] = key("a recorded run each")
    chases: Sequence[Chase] = key("reads of memory after waits")
    skipped: Sequence[str] = key("engines that were not measured, and why")

    @property
    def for_recordings(self) -> MachineCalibration | None:
        """The part of it that a recording contains."""
        return MachineCalibration(self.measured_at_s, self.costs) if self.costs else None


def keep(calibration: Calibration) -> Path:
    """Write it whole or not at all, in place of an older one; where it is. OSError says why not."""
    path = calibration_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        partial.write_text(json.dumps(written(calibration), indent=1) + "\n")
    return path


def kept_calibration() -> Calibration | None:
    """The calibration of this machine; None if there is none, or the file is damaged."""
    try:
        path = calibration_path()
        kept = read(Calibration, json_of(text_of(path), path, AGAIN), str(path), AGAIN)
    except (OSError, InputError):
        return None
    holds = kept.schema == CALIBRATION_SCHEMA and kept.machine == CalibratedOn.this_machine()
    return kept if holds else None


def is_old(measured_at_s: float) -> bool:
    """Whether the machine may have changed since."""
    return time.time() - measured_at_s > OLD_S


def calibration_path() -> Path:
    """The file of the user. InputError for a user without a home."""
    try:
        return user_folder("XDG_STATE_HOME", ".local/state") / "calibration.json"
    except RuntimeError as error:
        raise PathMissing(f"no home directory: {error}", "set XDG_STATE_HOME") from error
