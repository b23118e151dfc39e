"""When, where and with what a storage was measured."""

import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from spillcast.document import key
from spillcast.recording.meta import Meta
from spillcast.recording.observed import Mounted, mounted


@dataclass(frozen=True)
class Provenance:
    """Holds the provenance; None for unknown parts."""

    measured_at: str | None = key(
        "time of measurement or recording",
        unit="ISO 8601", example="2026-11-21T02:38:45+00:00", default=None,
    )  # fmt: skip
    spillcast: str | None = key("version that measured", example="0.1.0", default=None)
    host: str | None = key("host", example="db-7", default=None)
    kernel: str | None = key("release of its kernel", example="6.8.0", default=None)
    directory: str | None = key(
        "absolute path of the directory, without links", example="/mnt/nvme", default=None
    )
    device: str | None = key("device number of that kernel", example="259:2", default=None)
    device_name: str | None = key(
        "the block device and the model of its disk; null for others",
        example="nvme0n1p2 (Samsung SSD 990 PRO)", default=None,
    )  # fmt: skip
    filesystem: str | None = key(
        "its file system as mount(8) writes it", example="ext4", default=None
    )
    mount_point: str | None = key("where it was mounted", example="/mnt/nvme", default=None)
    mount_options: str | None = key(
        "its options as mount(8) writes them", example="rw,noatime", default=None
    )

    def __post_init__(self) -> None:
        if self.measured_at is not None:
            datetime.fromisoformat(self.measured_at)

    @property
    def age_days(self) -> int | None:
        """Whole days since the measurement; None if unknown."""
        if self.measured_at is None:
            return None
        then = datetime.fromisoformat(self.measured_at)
        return (datetime.now(UTC) - then.replace(tzinfo=then.tzinfo or UTC)).days

    def on(self, mount: Mounted) -> "Provenance":
        """The same on a mount."""
        return replace(
            self,
            device=mount.device,
            device_name=mount.device_name,
            filesystem=mount.filesystem,
            mount_point=mount.point,
            mount_options=mount.options,
        )

    @property
    def where(self) -> tuple[str | None, ...]:
        """What has to be the same for the same storage to be meant; numbers of devices change."""
        named = self.device_name or self.filesystem
        return named, self.filesystem, self.mount_point, self.mount_options


def measured_now(directory: Path) -> Provenance:
    """The present provenance of a directory."""
    from spillcast._core import __version__

    path = str(directory.resolve())
    provenance = Provenance(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        spillcast=__version__,
        host=platform.node(),
        kernel=platform.release(),
        directory=path,
    )
    mount = mounted(path)
    return provenance if mount is None else provenance.on(mount)


def of_recording(meta: Meta) -> Provenance:
    """The provenance of the storage that held most of a recording's temp I/O."""
    provenance = Provenance(
        measured_at=meta.started_at if _is_instant(meta.started_at) else None,
        spillcast=meta.spillcast or None,
        host=meta.machine.host,
        kernel=meta.machine.kernel,
    )
    if not meta.temp_places:
        return provenance
    place = meta.temp_places[0]
    return replace(
        provenance,
        directory=place.directory,
        device=place.device,
        device_name=place.device_name,
        filesystem=place.filesystem,
        mount_point=place.mount_point,
        mount_options=place.mount_options,
    )


def _is_instant(text: str | None) -> bool:
    try:
        datetime.fromisoformat(text or "")
    except ValueError:
        return False
    return True
