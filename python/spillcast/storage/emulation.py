"""A FUSE mount with the latencies of a storage, and a report of its accuracy."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.document import Note, written
from spillcast.errors import OptionConflict, OptionInvalid, ProgramMissing, SystemFailed
from spillcast.interruptible import Forwarder
from spillcast.recording import OPS
from spillcast.storage.model import Behaviour, LatencyResampler, behaviour_of, fixed_behaviour
from spillcast.storage.storage import bytes_limit
from spillcast.storage.target import KNOWN, parse_assumed, resolve_storage
from spillcast.units import format_bytes, format_duration, parse_bytes_per_s, parse_latency_s
from spillcast.workspace import kept_from_forks, undone_by

#: Detaches a mount whose process was killed: every access to it fails. Usually the mount's guard in
#: the core was faster, but it runs that process's program, and what ended one may have ended both.
#: While the guard lives, the kernel may still answer from its cache.
_UNMOUNT = """
exec 2>/dev/null
n=0; while [ -z "$ended" ] && [ $n -lt 100 ] &&
    grep -qF -e "spillcast $2 fuse" /proc/self/mounts; do
    stat -- "$1" >/dev/null || umount -l -- "$1" || fusermount3 -u -z -- "$1"
    n=$((n+1)); sleep 0.1
done
"""
EMULATION_SCHEMA = "spillcast.emulation/1"
#: Operations that are late by over 10 % cause a warning above this share.
LATE = 0.05


class Mount:
    """A running mount."""

    def __init__(
        self,
        mounted: _core.Emulation,
        behaviour: Behaviour,
        mountpoint: Path,
        backing: Path,
        *,
        page_cache: bool,
    ) -> None:
        self.behaviour = behaviour
        self.mountpoint = mountpoint.absolute()
        self.backing = backing.absolute()
        self.page_cache = page_cache
        #: The time that the mount itself adds: op, size in bytes, ns.
        self.floor = mounted.floor()
        self._mounted = mounted
        self._since = time.monotonic()

    def is_mounted(self) -> bool:
        """Whether it is still mounted."""
        return self._mounted.is_mounted()

    def result(self) -> "EmulationResult":
        """The operations so far."""
        elapsed_s = time.monotonic() - self._since
        stats = json.loads(self._mounted.stats())
        return EmulationResult(self, elapsed_s, [{"op": op, **stats[op]} for op in OPS])

    def too_fast(self) -> dict[str, str]:
        """By op, a sentence about the requested latency that the mount exceeds most."""
        words = {}
        for op in OPS:
            wanted = [point for point in self.behaviour.idle_points if point.op == op]
            worst = max(wanted, key=self._excess_s, default=None)
            if worst is not None and self._excess_s(worst) > 0:
                median_s = self.behaviour.median_s(worst)
                words[op] = (
                    f"{op}s of {format_bytes(worst.size_bytes)} should take "
                    f"{format_duration(median_s)}, but the mount alone takes "
                    f"{format_duration(median_s + self._excess_s(worst))}"
                )
        return words

    def _excess_s(self, point: LatencyResampler) -> float:
        """The time by which the mount itself exceeds the latency of a point; negative if faster."""
        of_op = [(size, ns) for op, size, ns in self.floor if op == point.op]
        _, floor_ns = min(of_op, key=lambda known: abs(known[0] - point.size_bytes))
        return floor_ns / 1e9 - self.behaviour.median_s(point)


@dataclass(frozen=True)
class EmulationResult:
    """Reports the operations on a mount and how closely it kept their latencies."""

    mount: Mount
    elapsed_s: float
    #: One mapping for reads and one for writes, with the keys of docs/schema.md.
    operations: Sequence[Mapping[str, Any]]

    def warnings(self) -> list[Note]:
        """The weaknesses of the emulation."""
        too_fast = self.mount.too_fast()
        warnings = [Note(code="floor", message=words) for words in too_fast.values()]
        slow = f"the machine, or {self.mount.backing}, is too slow or too busy"
        for done in self.operations:
            share = done["late"] / done["count"] if done["count"] else 0.0
            if share > LATE:
                cause = "the mount alone takes longer" if done["op"] in too_fast else slow
                message = (
                    f"{share:.0%} of the {done['op']}s took over 10 % longer than requested: "
                    f"{cause}"
                )
                warnings.append(Note(code="late", message=message))
        return warnings

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        behaviour = self.mount.behaviour
        return {
            "schema": EMULATION_SCHEMA,
            "name": behaviour.name,
            "mountpoint": str(self.mount.mountpoint),
            "backing": str(self.mount.backing),
            "page_cache": self.mount.page_cache,
            "elapsed_s": self.elapsed_s,
            "servers": behaviour.servers,
            "limits": written(behaviour.limits),
            "floor": [
                {"op": op, "size_bytes": size_bytes, "added_ns": added_ns}
                for op, size_bytes, added_ns in self.mount.floor
            ],
            "operations": [dict(done) for done in self.operations],
            "warnings": self.warnings(),
        }


@contextmanager
def emulate(
    behaviour: Behaviour, mountpoint: Path, backing: Path, *, page_cache: bool = False
) -> Iterator[Mount]:
    """Mount ``backing`` at the empty directory ``mountpoint``, with the latencies of ``behaviour``.

    Opening, renaming and removing files takes no extra time. The mount ends with the block, or at
    once if this process is killed. This process must not use the mount: if killed during an
    operation, it would hang. InputError for an unusable directory, SpillcastError without FUSE.
    """
    path = os.path.realpath(mountpoint)
    listed = re.sub(r"[ \t\n\\]", lambda character: f"\\{ord(character[0]):03o}", path)
    with undone_by(_UNMOUNT, "guard", path, listed):
        try:
            mounted = _core.Emulation(backing, mountpoint, behaviour, page_cache=page_cache)
        except ValueError as error:
            raise OptionInvalid(*str(error).split("; ", 1)) from error
        except OSError as error:
            raise SystemFailed(*str(error.strerror or error).split("; ", 1)) from error
        try:
            # A fork that kept the device open would wait for answers for ever, even if killed.
            with kept_from_forks("/dev/fuse"):
                yield Mount(mounted, behaviour, mountpoint, backing, page_cache=page_cache)
        finally:
            mounted.unmount()


def model_of_options(
    storage: str | None,
    read: str | None,
    write: str | None,
    bandwidth: str | None,
    servers: int | None,
) -> Behaviour:
    """The behaviour that the options describe. InputError if they contradict each other."""
    if storage is not None and (read or write):
        raise OptionConflict(
            "--storage says how long reads and writes take", "leave --read, --write"
        )
    if not any((storage, read, write, bandwidth, servers)):
        message = "emulate needs --storage, or --read and --write"
        raise OptionInvalid(message, "for example --read 9ms --write 4ms")
    if storage is not None:
        kind, latency_s = parse_assumed(storage, "--storage") or ("", 0.0)
        if kind == "latency":
            model = fixed_behaviour(latency_s, latency_s)
        else:
            known = resolve_storage(storage, f"--storage {storage}", f"latency:8ms, {KNOWN}")
            model = behaviour_of(known)
    else:
        read_s = None if read is None else parse_latency_s(read, "--read")
        write_s = None if write is None else parse_latency_s(write, "--write")
        model = fixed_behaviour(read_s, write_s)
    if bandwidth is not None:
        per_s = parse_bytes_per_s(bandwidth, "--bandwidth")
        if per_s == 0:
            raise OptionInvalid(f"--bandwidth {bandwidth}: nothing would ever move")
        limit = bytes_limit(f"{format_bytes(per_s)}/s", per_s)
        model = replace(model, limits=[*model.limits, limit])
    return model if servers is None else replace(model, servers=servers)


#: The interval at which the mount is checked and its progress is shown.
TICK_S = 0.25


def check_program(command: Sequence[str]) -> None:
    """InputError if the program does not exist."""
    if shutil.which(command[0]) is None:
        raise ProgramMissing(f"{command[0]}: there is no such program", "name one after --")


def run_command(command: Sequence[str], on_tick: Callable[[], None]) -> int:
    """Run a command to its end; returns its exit status, or 128 plus the signal that ended it.

    Signals that would end this process are passed on to the command.
    """
    forwarder = Forwarder[subprocess.Popen[bytes]]()
    with forwarder.taken():
        process = subprocess.Popen(command)
        forwarder.to(process)
        while process.poll() is None:
            try:
                process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                on_tick()
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def wait_until_unmounted(mount: Mount, on_tick: Callable[[], None]) -> None:
    """Wait until the mount is unmounted; KeyboardInterrupt on Ctrl-C or SIGTERM."""
    while mount.is_mounted():
        on_tick()
        time.sleep(TICK_S)
