"""The source of a storage's latencies: how, when and where they were measured."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import hypot, isfinite, log
from pathlib import Path
from typing import Any

from spillcast.document import key
from spillcast.recording.meta import Meta
from spillcast.recording.observed import Mounted, TempPlace, mounted
from spillcast.stats import NORMAL_95

#: Spread (standard deviation of the logarithm) of all latencies of a storage together: of the
#: engine's own latencies, from run to run.
LATENCY_NOISE = 0.05
#: The same between a replay's and the engine's latencies on one storage.
REPLAY_NOISE = 0.03
#: The same if the storage was measured with other I/O than the engine's.
GRID_NOISE = 0.10
#: The same for an assumed storage, without any measurement.
ASSUMED_NOISE = 0.15


@dataclass(frozen=True)
class StorageSource:
    """The source of a storage's figures; ``name`` is its name in storage.json.

    ``description`` is a text with ``{like}`` for a recording and ``{where}`` for a directory.
    ``warnings`` are codes and texts for a forecast's reader.
    """

    name: str
    description: str
    #: Spread of the logarithm of all latencies together.
    noise: float
    warnings: tuple[tuple[str, str], ...] = ()
    measured: bool = True
    #: Latencies are of an idle storage: depth affects them only by limits and servers.
    unloaded: bool = False
    #: Histograms are of the load that is forecast.
    of_load: bool = True
    #: Figures are without a page cache, which may serve some of the I/O.
    uncached: bool = False

    @property
    def of_device(self) -> bool:
        """Whether a formula of the device gives the figures: for any size, without readahead."""
        return self.uncached and not self.measured


PROBE = StorageSource("probe", "measured with the I/O of {like}{where}", REPLAY_NOISE)
GRID = StorageSource(
    "grid",
    "measured with its own reads and writes{where}",
    GRID_NOISE,
    (("grid", "measured with a grid, not with the I/O of this recording"),),
    of_load=False,
    uncached=True,
)
RECORDING = StorageSource("recording", "as an engine measured it in {like}", LATENCY_NOISE)
ASSUMED = StorageSource(
    "asked",
    "assumed: nothing was measured",
    ASSUMED_NOISE,
    (("not-measured", "nothing was measured: the latency is assumed"),),
    measured=False,
    unloaded=True,
)
#: A storage that no storage can beat; not in documents.
INSTANT = StorageSource("instant", "operations take no time", 0.0, measured=False)


def catalogue(spread: float, origin: str) -> StorageSource:
    """Figures from ``origin``, probably right within the factor ``spread`` in both directions."""
    text = f"nothing was measured: figures of {origin}, up to {spread:.2g}x off"
    return StorageSource(
        "catalogue",
        "looked up: nothing was measured",
        log(spread) / NORMAL_95,
        (("not-measured", text),),
        measured=False,
        unloaded=True,
        of_load=False,
        uncached=True,
    )


def cache(parts: Sequence[StorageSource], error: float = 0.0) -> StorageSource:
    """A simulated cache of these parts: its noise is that of the noisiest part.

    ``error`` is the relative standard error of figures of a part for operations of other sizes.
    """
    return StorageSource(
        "cache",
        "simulated: flash in front of a disk",
        hypot(max([LATENCY_NOISE, *(part.noise for part in parts)]), error),
        tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
        measured=all(part.measured for part in parts),
        of_load=False,
    )


def source_of(name: str, facts: Mapping[str, Any]) -> StorageSource:
    """The source named in a document, with the details in its ``facts``.

    ValueError, KeyError or TypeError for an unknown name or missing facts.
    """
    if name == "catalogue":
        spread = float(facts["spread"])
        if not (isfinite(spread) and spread >= 1):
            raise ValueError(f"facts.spread is {spread}, not a factor of 1 or more")
        return catalogue(spread, str(facts["source"]))
    if name == "cache":
        parts = facts.get("parts", ())
        error = max((float(part.get("error", 0.0)) for part in parts), default=0.0)
        if not (isfinite(error) and error >= 0):
            raise ValueError(f"facts.parts has an error of {error}")
        return cache([source_of(part["source"], part["facts"]) for part in parts], error)
    known = {source.name: source for source in (PROBE, GRID, RECORDING, ASSUMED)}
    if name not in known:
        names = ", ".join((*known, "catalogue", "cache"))
        raise ValueError(f"source is {name!r}, not one of {names}")
    return known[name]


@dataclass(frozen=True)
class Provenance:
    """When, where and on which mount a storage was measured; None for unknown parts."""

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
    def measured(self) -> datetime | None:
        """The time of the measurement in UTC; None if unknown."""
        if self.measured_at is None:
            return None
        then = datetime.fromisoformat(self.measured_at)
        return then.replace(tzinfo=then.tzinfo or UTC).astimezone(UTC)

    @property
    def age_days(self) -> int | None:
        """Whole days since the measurement; None if unknown."""
        return None if self.measured is None else (datetime.now(UTC) - self.measured).days

    def on_mount(self, mount: Mounted | TempPlace) -> "Provenance":
        """The same on a mount."""
        names = ("device", "device_name", "filesystem", "mount_point", "mount_options")
        return replace(self, **{name: getattr(mount, name) for name in names})

    @property
    def identity(self) -> tuple[str | None, ...]:
        """The values that identify the storage; device numbers change when it is mounted again."""
        named = self.device_name or self.filesystem
        return named, self.filesystem, self.mount_point, self.mount_options

    @property
    def remounted(self) -> "Provenance | None":
        """The provenance on the directory's current mount; None unless that is another mount."""
        if self.directory is None or self.mount_point is None or self.host != platform.node():
            return None
        mount = mounted(self.directory)
        now = None if mount is None else self.on_mount(mount)
        return None if now is None or now.identity == self.identity else now

    @property
    def mount_text(self) -> str:
        """``xfs on nvme0n1p2 at /mnt/nvme (rw,noatime)``."""
        device = f" on {self.device_name}" if self.device_name else ""
        return f"{self.filesystem}{device} at {self.mount_point} ({self.mount_options})"


def provenance_now(directory: Path) -> Provenance:
    """The current provenance of a directory."""
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
    return provenance if mount is None else provenance.on_mount(mount)


def recorded_provenance(meta: Meta) -> Provenance:
    """The provenance of the storage that held most of a recording's temp I/O."""
    provenance = Provenance(
        measured_at=meta.started_at,
        spillcast=meta.spillcast or None,
        host=meta.machine.host,
        kernel=meta.machine.kernel,
    )
    if not meta.temp_places:
        return provenance
    place = meta.temp_places[0]
    return replace(provenance, directory=place.directory).on_mount(place)
