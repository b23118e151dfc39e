"""Storages that the kernel slows, without a FUSE server on the cores of the query.

Each is an ext4 file system on a loop device over memory. A blkio cgroup limits its I/O, a memory
cgroup bounds its page cache, both only for the processes in them. The kernel enforces the rate per
tenth of a second: operations run at full speed until its quota is used up, and then wait for the
next tenth. Reads and synchronous writes are limited; writeback by kernel threads is not.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from spillcast.errors import ExperimentFailed, SpillcastError
from spillcast.lab.storages import SpillDirectory, file_name
from spillcast.recording import OPS
from spillcast.recording.observed import meminfo_bytes
from spillcast.units import format_bytes, format_duration
from spillcast.workspace import NoMemoryGroup, join_memory_group, memory_group, undone_by, workspace

BLKIO = Path("/sys/fs/cgroup/blkio")
#: Size of the file system; its sparse image takes only the used space.
IMAGE_BYTES = 8 << 30
PROGRAMS = ("mkfs.ext4", "mount", "umount")
#: Device writes per synchronous write: data, inode and bitmaps.
WRITES_EACH = 3
#: Page cache in addition to the engine's memory without a limit: less than the 12 MiB that
#: PostgreSQL's queries spill.
CACHE_BYTES = 4 << 20
WATCH_S = 0.01
#: Receives the names of mount, group and image before they exist. A running command gets a moment
#: to end. The kernel removes the loop device with the mount.
_GUARD = """
n=0; until [ $n -ge 300 ]; do
    while umount -l "$1" 2>/dev/null; do :; done
    [ -d "$2" ] && rmdir "$2" 2>/dev/null
    [ $n -ge 2 ] && [ ! -d "$2" ] && break
    n=$((n+1)); sleep 0.1
done
rm -f "$3"; rmdir "$1" 2>/dev/null"""


@dataclass(frozen=True)
class KernelSlowed:
    """A storage with limited rates, given as the time per read, write and byte."""

    name: str
    read_s: float
    write_s: float
    s_per_byte: float = 0.0
    #: Whether writes are synchronous; otherwise the kernel writes back later, without a limit.
    synchronous: bool = False
    read_ahead_bytes: int = 128 << 10
    #: Operations served concurrently: 1, because the rate is for all operations together.
    servers: int | None = field(default=1, init=False)

    @property
    def expected_s(self) -> float:
        """Approximate time of an operation of 64 KiB."""
        reads = max(1, (64 << 10) / self.read_ahead_bytes)
        write_s = self.write_s * WRITES_EACH if self.synchronous else 0.0
        return (self.read_s * reads + write_s) / 2 + (64 << 10) * self.s_per_byte

    @property
    def description(self) -> str:
        """The description for people."""
        rates = f"{1 / self.read_s:,.0f} reads and {1 / self.write_s:,.0f} writes a second"
        by_size = f", {format_duration(self.s_per_byte * 1024)} a KiB" if self.s_per_byte else ""
        writes = "waited for" if self.synchronous else "written back later"
        ahead = format_bytes(self.read_ahead_bytes)
        return f"limited by the kernel: {rates}{by_size}, writes {writes}, read-ahead {ahead}"

    def limits(self) -> dict[str, int]:
        """Limits by the name of their file in a blkio cgroup."""
        limits = {"read_iops": round(1 / self.read_s), "write_iops": round(1 / self.write_s)}
        if self.s_per_byte:
            limits |= {f"{op}_bps": round(1 / self.s_per_byte) for op in OPS}
        return limits


class SlowGroups:
    """The control groups of a place; processes started ``inside`` stay in them."""

    def __init__(self, blkio: Path, memory: Path) -> None:
        self._blkio = blkio
        self._memory = memory

    def limited(self) -> AbstractContextManager[None]:
        """Keep this process in the group that limits I/O."""
        return moved(self._blkio, "blkio")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Keep this process in both groups."""
        with self.limited(), moved(self._memory, "memory"):
            yield

    @contextmanager
    def unbounded(self, spread: float) -> Iterator[None]:
        """Lift the memory limit; afterwards it is the memory used meanwhile, plus CACHE_BYTES."""
        self._set_memory(meminfo_bytes()["MemTotal"])
        with watched(self._memory, WATCH_S) as held_bytes:
            yield
        self._set_memory(round(max(held_bytes) * (1 + spread)) + CACHE_BYTES)

    def _set_memory(self, limit_bytes: int) -> None:
        (self._memory / "memory.limit_in_bytes").write_text(str(limit_bytes))


@dataclass(frozen=True, kw_only=True)
class SlowedPlace(SpillDirectory):
    """A place that is slow only for the processes in its groups."""

    groups: SlowGroups


def held_in(group: Path) -> int:
    """Memory of a cgroup without pages of files, in bytes."""
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    used = int((group / "memory.usage_in_bytes").read_text())
    return max(0, used - int(stat["active_file"]) - int(stat["inactive_file"]))


@contextmanager
def watched(group: Path, interval_s: float) -> Iterator[list[int]]:
    """Memory of a cgroup without pages of files (bytes), sampled during the block."""
    sizes_bytes, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(interval_s):
            sizes_bytes.append(held_in(group))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield sizes_bytes
    finally:
        over.set()
        watcher.join()


@contextmanager
def kernel_slowed(storage: KernelSlowed, workdir: Path, below: Path) -> Iterator[SlowedPlace]:
    """A file system in ``workdir`` with its image in ``below``; removed afterwards, also if killed.

    SpillcastError if this machine does not support it.
    """
    reason = missing(PROGRAMS)
    if reason is not None:
        raise ExperimentFailed(reason)
    folder = file_name(storage.name)
    mountpoint, image = (workdir / f"mnt-{folder}").resolve(), (below / f"{folder}.img").resolve()
    mountpoint.mkdir()
    with ExitStack() as stack:
        parent = BLKIO / _own_cgroup("blkio").lstrip("/")
        blkio = parent / f"spillcast-{os.getpid()}-{folder}"
        stack.enter_context(undone_by(_GUARD, "guard", mountpoint, blkio, image))
        try:
            memory = stack.enter_context(memory_group(meminfo_bytes()["MemTotal"]))
            if not (memory / "memory.limit_in_bytes").exists():
                raise ExperimentFailed("the memory cgroups are of version 2; version 1 is needed")
            make_file_system(image, mountpoint, ",sync" if storage.synchronous else "")
            device = os.stat(mountpoint).st_dev
            numbers = f"{os.major(device)}:{os.minor(device)}"
            ahead = Path(f"/sys/dev/block/{numbers}/queue/read_ahead_kb")
            ahead.write_text(str(storage.read_ahead_bytes >> 10))
            blkio.mkdir()
            for name, limit in storage.limits().items():
                (blkio / f"blkio.throttle.{name}_device").write_text(f"{numbers} {limit}")
        except (OSError, NoMemoryGroup) as error:
            raise ExperimentFailed(f"{storage.name}: {error}") from error
        directory = mountpoint / "spill"
        directory.mkdir()
        groups = SlowGroups(blkio, memory)
        yield SlowedPlace(
            storage.name,
            directory,
            {},
            "kernel",
            fast=False,
            inside=groups.inside,
            groups=groups,
        )


@cache
def unsupported_reason() -> str | None:
    """Why this machine does not support such storages, found by trying; None if it does."""
    storage = KernelSlowed("trial", 0.001, 0.001)
    try:
        with (
            workspace() as workdir,
            kernel_slowed(storage, workdir, workdir) as place,
            place.inside(),
        ):
            return None
    except SpillcastError as error:
        return str(error)


def missing(programs: Sequence[str]) -> str | None:
    """Why this process cannot mount file systems and limit their I/O; None if it can."""
    if os.geteuid() != 0:
        return "only root can mount file systems and limit their I/O"
    for program in programs:
        if shutil.which(program) is None:
            return f"there is no {program}"
    if not (BLKIO / "blkio.throttle.read_iops_device").exists():
        return "the kernel has no blkio limits of cgroups version 1"
    return None


def _own_cgroup(controller: str) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    raise ExperimentFailed(f"this process is in no {controller} cgroup")


@contextmanager
def moved(group: Path, controller: str) -> Iterator[None]:
    """Keep this process in a group during the block; processes that it starts stay in it."""
    before = Path("/sys/fs/cgroup") / controller / _own_cgroup(controller).lstrip("/")
    try:
        join_memory_group(group)
    except NoMemoryGroup as error:
        raise ExperimentFailed(str(error)) from error
    try:
        yield
    finally:
        join_memory_group(before)


def make_file_system(image: Path, mountpoint: Path, options: str = "") -> None:
    """Make an ext4 file system in a sparse file and mount it, with more ``options`` if given.

    SpillcastError has the message of the program that failed.
    """
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    # No journal, because its kernel thread would not be limited.
    options = f"loop,noatime,discard{options}"
    for command in (
        ["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(image)],
        ["mount", "-t", "ext4", "-o", options, str(image), str(mountpoint)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise ExperimentFailed(f"{command[0]}: {reason}")
