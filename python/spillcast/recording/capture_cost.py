"""The cost of a capture to observed processes: measured, and kept in the user's cache."""

import hashlib
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spillcast import _core
from spillcast.document import key, read, written
from spillcast.errors import InputError
from spillcast.gate import json_of, text_of
from spillcast.recording.capture import PRELOAD
from spillcast.recording.observed import preload_value

COST_SCHEMA = "spillcast.capture-cost/1"
#: How long a measurement serves as a rough cost, unless the machine reboots.
DAY_S = 86_400.0
#: How long it is valid for recordings that end: load and clock rates change within minutes.
FRESH_S = 600.0


@dataclass(frozen=True)
class CaptureCost:
    """Holds the losses of an observed thread. Low and high are quartiles of the measurement."""

    call_s: float = key("by a call", unit="s", example=3.6e-07)
    call_low_s: float = key("lower quartile", unit="s", example=3.4e-07)
    call_high_s: float = key("upper quartile", unit="s", example=3.8e-07)
    switch_s: float | None = key(
        "per context switch; null if the source does not observe them", unit="s", example=6.8e-06
    )
    switch_low_s: float | None = key("lower quartile", unit="s", example=6.7e-06)
    switch_high_s: float | None = key("upper quartile", unit="s", example=7.0e-06)

    def overhead_s(self, calls: int, switches: int | None) -> tuple[float, float, float]:
        """The loss of all observed threads by these costs: estimate, low, high."""
        calls_s = (self.call_s, self.call_low_s, self.call_high_s)
        switches_s = (self.switch_s, self.switch_low_s, self.switch_high_s)
        about_s, low_s, high_s = (
            calls * call_s + (switches or 0) * (switch_s or 0.0)
            for call_s, switch_s in zip(calls_s, switches_s, strict=True)
        )
        return about_s, low_s, high_s


@dataclass(frozen=True)
class Setting:
    """The conditions under which a cost is valid."""

    source: str = key("`--capture`", example="perf")
    calls: Sequence[str] | None = key("system calls observed; null for all relevant ones")
    spillcast: str = key("version that measured", example="0.1.0")
    kernel: str = key("its release", example="6.12.0-amd64")
    cpu: str = key("the CPU's model", example="AMD EPYC 9354")
    cpus: int | None = key("CPUs of the machine", example=64)
    boot: str = key("boot id of the kernel", example="0b5a2b5e-8b5c-4f6e-9f6e-4c1d2a7e3b10")


@dataclass(frozen=True)
class KeptCost:
    """The kept file of a measurement."""

    schema: str = key("the format", example=COST_SCHEMA)
    measured_at_s: float = key("time of the measurement", unit="s since 1970", example=1.8e9)
    setting: Setting = key("")
    cost: CaptureCost = key("")


def cost_of(source: str, calls: Sequence[str] | None = None) -> CaptureCost | None:
    """What a source costs with these calls: kept from the last minutes, or else measured and kept.

    If it cannot be measured now, the one of the last day; None without one.
    """
    if (kept := kept_cost(source, calls, FRESH_S)) is not None:
        return kept
    cost = measured_cost(source, calls)
    if cost is None:
        return kept_cost(source, calls)
    _keep(_path(source, calls), KeptCost(COST_SCHEMA, time.time(), _setting(source, calls), cost))
    return cost


def kept_cost(
    source: str, calls: Sequence[str] | None = None, within_s: float = DAY_S
) -> CaptureCost | None:
    """The kept cost; None if there is none, or it is too old, or of another machine or boot."""
    path = _path(source, calls)
    if path is None:
        return None
    try:
        kept = read(KeptCost, json_of(text_of(path), path), str(path), "")
    except (OSError, InputError):
        return None
    young = 0 <= time.time() - kept.measured_at_s <= within_s
    same = kept.schema == COST_SCHEMA and kept.setting == _setting(source, calls)
    return kept.cost if young and same else None


def measured_cost(source: str, calls: Sequence[str] | None = None) -> CaptureCost | None:
    """The cost to observed processes, measured on a child that does nothing else.

    None if it cannot be measured.
    """
    preload = preload_value() if source == PRELOAD else None
    bare = dict(os.environ)
    observed = bare if preload is None else bare | {"LD_PRELOAD": preload}
    try:
        record = _core.capture_cost(source, calls, child_program(), *map(_pairs, (bare, observed)))
    except (OSError, ValueError, InputError):
        return None
    return CaptureCost(**record)


def _pairs(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def child_program() -> list[str]:
    """The command line of the process that a measurement observes; the core adds two arguments."""
    work = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "try: import _core; _core.capture_cost_child(sys.argv[2], int(sys.argv[3]))\n"
        "except BaseException: sys.exit(1)"
    )
    return [sys.executable, "-I", "-S", "-c", work, str(Path(_core.__file__).parent)]


def _keep(path: Path | None, kept: KeptCost) -> None:
    """Write it whole or not at all; a folder that cannot be written keeps nothing."""
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}-")
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(written(kept), file, indent=1)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise


def _path(source: str, calls: Sequence[str] | None) -> Path | None:
    """The path of the file for a source and its calls; None for a user without a home."""
    try:
        folder = user_folder("XDG_CACHE_HOME", ".cache")
    except RuntimeError:
        return None
    name = f"capture-cost-{source}"
    if calls is not None:
        name += "-" + hashlib.sha256(" ".join(calls).encode()).hexdigest()[:12]
    return folder / f"{name}.json"


def _setting(source: str, calls: Sequence[str] | None) -> Setting:
    return Setting(
        source=source,
        calls=None if calls is None else list(calls),
        spillcast=_core.__version__,
        kernel=platform.release(),
        cpu=cpu_model(),
        cpus=os.cpu_count(),
        boot=_text("/proc/sys/kernel/random/boot_id"),
    )


def cpu_model() -> str:
    """The CPU's model, or its architecture where the kernel names none."""
    match = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return match[1] if match else platform.machine()


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def user_folder(variable: str, usual: str) -> Path:
    """Below what an environment variable names, or else ``usual`` of the home directory.

    RuntimeError for a user without a home.
    """
    folder = os.environ.get(variable, "")
    root = Path(folder) if os.path.isabs(folder) else Path.home() / usual
    return root / "spillcast"


def is_new(notice: str) -> bool:
    """Whether this user never got the notice, which counts as printed from now on.

    Where that cannot be kept, the notice is new each time.
    """
    try:
        path = user_folder("XDG_STATE_HOME", ".local/state") / "notices"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            file.seek(0)
            if notice in file.read().splitlines():
                return False
            file.write(notice + "\n")
    except (OSError, RuntimeError, UnicodeDecodeError):
        pass
    return True
