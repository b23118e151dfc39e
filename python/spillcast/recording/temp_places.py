"""The storages that temp files were on while they were recorded: what is mounted there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillcast.document import key

if TYPE_CHECKING:
    from spillcast.recording.meta import Meta


@dataclass(frozen=True)
class TempPlace:
    """A device that temp files were on."""

    directory: str = key("the folder that holds all of them there", example="/mnt/temp")
    device: str = key("the device as the kernel numbers it", example="254:0")
    filesystem: str = key("its file system as mount(8) writes it", example="ext4")
    network: bool | None = key(
        "whether that lies behind a network; null where nothing is known", example=False
    )
    bytes: int = key(
        "read and written there, as far as single waits tell", unit="bytes", example=921108480
    )


def temp_places(folders: Mapping[str, int]) -> list[TempPlace]:
    """By device, of the bytes moved on the temp files in each folder; the most bytes first.

    As this process sees its mounts: a folder in another's may be told wrong.
    """
    from spillcast import _core

    by_device: dict[tuple[str, str, bool | None], dict[str, int]] = {}
    for folder, count in folders.items():
        found = _core.mounted(folder)
        if found is not None:
            by_device.setdefault(found, {})[folder] = count
    places = [
        TempPlace(os.path.commonpath(those), *device, sum(those.values()))
        for device, those in by_device.items()
    ]
    return sorted(places, key=lambda place: -place.bytes)


def told_places(meta: "Meta") -> list[TempPlace]:
    """Those of a recording, without what lies elsewhere where the user named directories."""
    asked = [str(path) for path in meta.asked.temp_dirs]
    return [
        place
        for place in meta.temp_places
        if not asked
        or any(
            os.path.commonpath((place.directory, one)) in (place.directory, one) for one in asked
        )
    ]
