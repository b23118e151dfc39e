"""Recorded runs of Spark on volumes of a known bandwidth, page cache and dirty limit.

Each volume is an ext4 file system on a loop device. The root blkio cgroup limits the bandwidth of
the device, including writeback. Its backing device info (``/sys/class/bdi``) has a separate strict
dirty limit, because memory cgroups of version 1 have none. A memory cgroup bounds the page cache of
a job's processes. Each run gives an event log.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from spillcast import _core
from spillcast.engines.queries import TIMEOUT_S
from spillcast.errors import ExperimentFailed
from spillcast.evidence.spark import Application, read_application
from spillcast.lab.storages import file_name
from spillcast.recording import OPS, Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.observed import held_command, meminfo_bytes
from spillcast.recording.record import Recorder, held_and_observed
from spillcast.workspace import memory_group, undone_by
from spillcast_lab.kernel_slowed import BLKIO, PROGRAMS, make_file_system, missing, watched
from spillcast_lab.outcome import SUITES

BDI = Path("/sys/class/bdi")
#: Linux's default read-ahead of a disk.
READ_AHEAD_BYTES = 128 << 10
#: Reverts ``_limit`` and unmounts. The kernel removes the loop device with the mount.
_GUARD = """
n=0; while device=$(mountpoint -d "$1" 2>/dev/null) && [ $n -lt 100 ]; do
    for op in read write; do echo "$device 0" > "$2/blkio.throttle.${op}_bps_device"; done
    bdi="/sys/class/bdi/$device"
    echo 0 > "$bdi/strict_limit"; echo 0 > "$bdi/min_bytes"; echo 100 > "$bdi/max_ratio"
    umount "$1" 2>/dev/null || { sleep 0.1; n=$((n+1)); }
done
umount -l "$1" 2>/dev/null; rm -f "$3"; rmdir "$1" 2>/dev/null"""


@dataclass(frozen=True)
class Volume:
    """A place for Spark's local directories.

    ``bytes_per_s`` limits reads and writes separately; without it the image's disk limits them.
    ``in_memory`` is a directory in memory, without a device.
    """

    name: str
    bytes_per_s: int | None = None
    in_memory: bool = False

    @property
    def is_fast(self) -> bool:
        """Whether it has no limit."""
        return self.bytes_per_s is None

    @property
    def means(self) -> str:
        """The means that limits it: ``kernel`` or ``none``."""
        return "none" if self.is_fast else "kernel"

    @property
    def description(self) -> str:
        """The description for people."""
        if self.in_memory:
            return "a directory of /dev/shm, in memory"
        if self.bytes_per_s is None:
            return "ext4 on a file on the disk"
        return f"ext4 on a device of {self.bytes_per_s / 1e6:.0f} MB/s"


VOLUMES = (
    Volume("tmpfs", in_memory=True),
    Volume("disk"),
    Volume("118 MB/s", 118_000_000),
    Volume("58 MB/s", 58_000_000),
)


def unsupported_reason() -> str | None:
    """Why volumes cannot be made on this machine; None if they can."""
    if (reason := missing(("losetup", "mountpoint", *PROGRAMS))) is not None:
        return reason
    if not next(BDI.glob("7:*/strict_limit"), None):
        return "the kernel has no dirty limit of one device (/sys/class/bdi/*/strict_limit)"
    return None


@contextmanager
def mounted(volume: Volume, workdir: Path, fast: Path, dirty_bytes: int) -> Iterator[Path]:
    """The directory of a volume below ``workdir``; removed afterwards, even if killed.

    Images are in ``fast``, except the disk's, which is in ``workdir``. SpillcastError if it cannot
    be made.
    """
    if volume.in_memory:
        directory = fast / "spark"
        directory.mkdir()
        yield directory
        return
    if (reason := unsupported_reason()) is not None:
        raise ExperimentFailed(reason)
    folder = file_name(volume.name)
    mountpoint = (workdir / f"mnt-{folder}").resolve()
    image = ((fast if volume.bytes_per_s else workdir) / f"{folder}.img").resolve()
    mountpoint.mkdir()
    with undone_by(_GUARD, "guard", mountpoint, BLKIO, image):
        make_file_system(image, mountpoint)
        try:
            _limit(volume, mountpoint, dirty_bytes)
        except OSError as error:
            raise ExperimentFailed(f"{volume.name}: {error}") from error
        directory = mountpoint / "spark"
        directory.mkdir()
        yield directory


def _limit(volume: Volume, mountpoint: Path, dirty_bytes: int) -> None:
    device = os.stat(mountpoint).st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    if volume.bytes_per_s is None:
        # Otherwise the image has its own page cache.
        loop = f"/dev/{Path(f'/sys/dev/block/{numbers}').resolve().name}"
        subprocess.run(["losetup", "--direct-io=on", loop], check=True, capture_output=True)
    else:
        for op in OPS:
            limit = f"{numbers} {volume.bytes_per_s}"
            (BLKIO / f"blkio.throttle.{op}_bps_device").write_text(limit)
    (BDI / numbers / "read_ahead_kb").write_text(str(READ_AHEAD_BYTES >> 10))
    # The dirty limit of a device follows its recent writeback, but not below its minimum.
    for name, value in (
        ("max_bytes", dirty_bytes),
        ("min_bytes", dirty_bytes),
        ("strict_limit", 1),
    ):
        (BDI / numbers / name).write_text(str(value))


def clear(directory: Path) -> None:
    """Remove the leftovers of a run and write back dirty pages: the next run starts clean."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(exist_ok=True)
    subprocess.run(["sync", "--file-system", str(directory)], check=True, capture_output=True)


#: Memory of temp files on a node, and its dirty limit: Linux's vm.dirty_ratio.
PAGE_CACHE_BYTES, DIRTY_BYTES = 1 << 30, (1 << 30) // 5
HEAP = "1g"
CORES = 2
#: A driver with two threads; and two workers of a core each with their own executors.
MASTERS = {"local": f"local[{CORES}]", "cluster": f"local-cluster[{CORES},1,640]"}
PROPERTIES = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    # More bytes for the same CPU time.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.driver.memory": HEAP,
    "spark.executor.memory": "640m",
    # The heap is resident before the page cache grows, so that the group's limit bounds the cache.
    "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch",
    "spark.executor.extraJavaOptions": "-XX:+AlwaysPreTouch",
}
#: Interval between samples of a job's memory, which is in use from its start.
WATCH_S = 0.1


@dataclass(frozen=True)
class Job:
    """A job, its rows, and the master that runs it."""

    name: str
    rows: int
    master: str = "local"
    seed: int = 0

    @property
    def title(self) -> str:
        """Job and master."""
        return self.name if self.master == "local" else f"{self.name} on a cluster"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that select it: its words, and its suite if it is a suite's query."""
        suite = self.name.split()[0]
        return (self.title, suite) if suite in SUITES else (self.title,)


@dataclass(frozen=True)
class JobRun:
    """A run of a job, as its event log and its recording show it."""

    application: Application
    recording: Recording
    #: Memory used besides the page cache.
    memory_bytes: int


def run_job(
    job: Job,
    directory: Path,
    folder: Path,
    tables: Path,
    memory_bytes: int | None,
    on_tick: Callable[[], None] = lambda: None,
) -> JobRun:
    """Run a job with its local directories on a volume; log and recording go to ``folder``.

    ``memory_bytes`` limits the memory of its processes and their page cache together; None sets no
    limit. The recorder is this process, whose memory does not count.
    """
    clear(directory)
    logs = folder / "logs"
    logs.mkdir(parents=True)
    output = folder / "output.txt"
    settings = {
        "job": job.name,
        "rows": job.rows,
        "seed": job.seed,
        "master": MASTERS[job.master],
        "tables": str(tables),
        "output": str(output.resolve()),
        "properties": {
            **PROPERTIES,
            "spark.local.dir": str(directory),
            "spark.eventLog.dir": logs.resolve().as_uri(),
        },
    }
    command = [sys.executable, "-P", "-m", "spillcast_lab.spark.jobs", json.dumps(settings)]
    limit_bytes = memory_bytes or meminfo_bytes()["MemTotal"]
    with memory_group(limit_bytes) as group, watched(group, WATCH_S) as sizes_bytes:
        status, recording = _recorded(command, group, folder / "run.spill", on_tick)
    clear(directory)
    if status != 0:
        lines = output.read_text(errors="replace").strip().splitlines()
        raise ExperimentFailed(f"{job.title}: {lines[-1] if lines else f'status {status}'}")
    written = list(logs.iterdir())
    if len(written) != 1:
        raise ExperimentFailed(f"{job.title}: Spark wrote {len(written)} event logs")
    return JobRun(read_application(written[0]), recording, max(sizes_bytes))


def _recorded(
    command: Sequence[str], group: Path, output: Path, on_tick: Callable[[], None]
) -> tuple[int | None, Recording]:
    """Record a command in a memory cgroup; returns its exit status too."""

    def hold(environment: dict[str, str]) -> _core.Target:
        target = held_command(command, environment)
        try:
            (group / "cgroup.procs").write_text(str(target.pid))
        except BaseException:
            target.abandon()
            raise
        return target

    recorder = Recorder(output, RecordOptions())
    target = held_and_observed(recorder, command, hold)
    try:
        target.release()
        ends_s = time.monotonic() + TIMEOUT_S
        while not recorder.poll():
            on_tick()
            if time.monotonic() > ends_s:
                raise ExperimentFailed(f"the job took more than {TIMEOUT_S:.0f} s")
        return target.exit_status, recorder.finish()
    except BaseException:
        recorder.abandon()
        raise
    finally:
        # The processes of the job, its JVM and its executors.
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        target.wait(1.0)
