"""Volumes of a known bandwidth, page cache and dirty limit.

Each is an ext4 file system on a loop device. The root blkio cgroup limits the bandwidth of the
device, which includes what the kernel writes back. Its backing device info (``/sys/class/bdi``) has
a strict dirty limit of its own, because memory cgroups of version 1 have none. A memory cgroup
bounds the page cache of the processes in it.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import ExperimentFailed
from spillcast.recording import OPS
from spillcast.workspace import undone_by
from spillcast_lab.kernel_slowed import BLKIO, PROGRAMS, make_file_system, missing

BDI = Path("/sys/class/bdi")
#: Linux reads ahead so much of a disk.
READ_AHEAD_BYTES = 128 << 10
#: Undoes what ``_limit`` does and unmounts, once the owner's end of the pipe closes, however that
#: comes. The loop device goes with the mount.
_GUARD = """trap "" INT TERM HUP; cat >/dev/null
n=0; while device=$(mountpoint -d "$1" 2>/dev/null) && [ $n -lt 100 ]; do
    for op in read write; do echo "$device 0" > "$2/blkio.throttle.${op}_bps_device"; done
    bdi="/sys/class/bdi/$device"
    echo 0 > "$bdi/strict_limit"; echo 0 > "$bdi/min_bytes"; echo 100 > "$bdi/max_ratio"
    umount "$1" 2>/dev/null || { sleep 0.1; n=$((n+1)); }
done
umount -l "$1" 2>/dev/null; rm -f "$3"; rmdir "$1" 2>/dev/null"""


@dataclass(frozen=True)
class Volume:
    """Where Spark's local directories are.

    ``bytes_per_s`` limits reads and, apart from them, writes; None where the disk that holds its
    image does. ``in_memory`` is a directory in memory, without a device.
    """

    name: str
    bytes_per_s: int | None = None
    in_memory: bool = False

    @property
    def is_fast(self) -> bool:
        """Whether nothing makes it slow."""
        return self.bytes_per_s is None

    @property
    def means(self) -> str:
        """What makes it slow."""
        return "none" if self.is_fast else "kernel"

    @property
    def words(self) -> str:
        """What it is, for people."""
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


def why_not() -> str | None:
    """Why volumes cannot be made on this machine; None where they can."""
    if (reason := missing(("losetup", "mountpoint", *PROGRAMS))) is not None:
        return reason
    if not next(BDI.glob("7:*/strict_limit"), None):
        return "the kernel has no dirty limit of one device (/sys/class/bdi/*/strict_limit)"
    return None


@contextmanager
def mounted(volume: Volume, room: Path, fast: Path, dirty_bytes: int) -> Iterator[Path]:
    """The directory of a volume below ``room``; undone afterwards, also if this process is killed.

    Images are in ``fast``, of the disk's in ``room``. SpillcastError where it cannot be made.
    """
    if volume.in_memory:
        directory = fast / "spark"
        directory.mkdir()
        yield directory
        return
    if (reason := why_not()) is not None:
        raise ExperimentFailed(reason)
    folder = volume.name.replace("/", "").replace(" ", "-")
    mountpoint = (room / f"mnt-{folder}").resolve()
    image = ((fast if volume.bytes_per_s else room) / f"{folder}.img").resolve()
    mountpoint.mkdir()
    with undone_by(_GUARD, "spillcast-guard", mountpoint, BLKIO, image):
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
        # Else the image has a page cache of its own.
        loop = f"/dev/{Path(f'/sys/dev/block/{numbers}').resolve().name}"
        subprocess.run(["losetup", "--direct-io=on", loop], check=True, capture_output=True)
    else:
        for op in OPS:
            limit = f"{numbers} {volume.bytes_per_s}"
            (BLKIO / f"blkio.throttle.{op}_bps_device").write_text(limit)
    (BDI / numbers / "read_ahead_kb").write_text(str(READ_AHEAD_BYTES >> 10))
    # The limit of a device is a share of the bytes written back of late, but for its minimum.
    for name, value in (
        ("max_bytes", dirty_bytes),
        ("min_bytes", dirty_bytes),
        ("strict_limit", 1),
    ):
        (BDI / numbers / name).write_text(str(value))


def clear(directory: Path) -> None:
    """Remove what a run left and write back the rest, so that the next one begins without."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(exist_ok=True)
    subprocess.run(["sync", "--file-system", str(directory)], check=True, capture_output=True)
