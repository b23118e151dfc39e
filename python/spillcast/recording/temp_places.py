"""The storages that temp files were on while they were recorded: what is mounted there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.document import key
from spillcast.recording.mounted import Mounted, mounted

if TYPE_CHECKING:
    from spillcast.recording.meta import Meta


@dataclass(frozen=True)
class TempPlace:
    """A device that temp files were on."""

    directory: str = key(
        "the directory that contains all of them on that file system", example="/mnt/temp"
    )
    device: str = key("device number of the kernel", example="254:0")
    filesystem: str = key("its file system as mount(8) writes it", example="ext4")
    network: bool | None = key("whether it is network storage; null if unknown", example=False)
    bytes: int = key(
        "read and written there, by the single waits that were kept",
        unit="bytes",
        example=921108480,
    )
    device_name: str | None = key(
        "the block device and the model of its disk; null for others",
        example="nvme0n1 (Samsung SSD 990 PRO)", default=None, later=True,
    )  # fmt: skip
    mount_point: str | None = key(
        "where it is mounted", example="/mnt/temp", default=None, later=True
    )
    mount_options: str | None = key(
        "its options as mount(8) writes them", example="rw,noatime", default=None, later=True
    )


def temp_places(folders: Mapping[str, int]) -> list[TempPlace]:
    """By device, of the bytes moved on the temp files in each folder; the most bytes first.

    As this process sees its mounts: a folder in another's may be told wrong.
    """
    by_mount: dict[Mounted, dict[str, int]] = {}
    for folder, count in folders.items():
        place_mount = mounted(folder)
        if place_mount is not None:
            by_mount.setdefault(place_mount, {})[folder] = count
    places = [
        TempPlace(
            directory=os.path.commonpath(those),
            device=mount.device,
            filesystem=mount.filesystem,
            network=mount.network,
            bytes=sum(those.values()),
            device_name=mount.device_name,
            mount_point=mount.point,
            mount_options=mount.options,
        )
        for mount, those in by_mount.items()
    ]
    return sorted(places, key=lambda place: -place.bytes)


def named_temp_places(meta: "Meta") -> list[TempPlace]:
    """Those of a recording, without what lies elsewhere where the user named directories."""
    # A path that is relative was so to a directory that nobody knows.
    lines = [str(path) for path in map(Path, meta.asked.temp_dirs) if path.is_absolute()]
    return [
        place
        for place in meta.temp_places
        if not lines
        or any(
            os.path.commonpath((place.directory, text)) in (place.directory, text) for text in lines
        )
    ]
