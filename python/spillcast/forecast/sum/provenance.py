"""What weakens a forecast in when and where the target was measured: age, host, mount."""

import platform

from spillcast.forecast.result import Warned
from spillcast.recording.observed import mounted
from spillcast.storage import Storage
from spillcast.storage.source import Provenance

#: A storage that was measured longer ago may be another by now.
DAYS_MAX = 30


def about_provenance(storage: Storage, recorded_host: str | None = None) -> list[Warned]:
    """All of it; ``recorded_host`` is where the query ran, if that is known."""
    known = storage.provenance
    if known is None:
        return []
    return [*_about_age(known), *_about_host(known, recorded_host), *_about_mount(known)]


def _about_age(known: Provenance) -> list[Warned]:
    days = known.age_days
    if days is None or days <= DAYS_MAX:
        return []
    text = (
        f"its latencies are {days:,} days old ({(known.measured_at or '')[:10]}): measure "
        "again if anything may have changed"
    )
    return [Warned("stale", text)]


def _about_host(known: Provenance, recorded_host: str | None) -> list[Warned]:
    """Another host's storage may well be meant; it is said, for CPUs and memory are not its."""
    measured_host = recorded_host or platform.node()
    if known.host in (None, measured_host):
        return []
    purpose = "the query was recorded" if recorded_host else "this runs"
    text = (
        f"its latencies were measured on host {known.host}, and {purpose} on host {measured_host}"
    )
    return [Warned("another-host", text)]


def _about_mount(known: Provenance) -> list[Warned]:
    """Warn that another storage is now mounted where a directory of this host was measured."""
    if known.directory is None or known.mount_point is None or known.host != platform.node():
        return []
    mount = mounted(known.directory)
    if mount is None or known.on(mount).where == known.where:
        return []
    was, now = _words(known), _words(known.on(mount))
    text = f"{known.directory} was {was} when it was measured, and is {now} now"
    return [Warned("another-mount", f"{text}: probe it again")]


def _words(known: Provenance) -> str:
    device = f" on {known.device_name}" if known.device_name else ""
    return f"{known.filesystem}{device} at {known.mount_point} ({known.mount_options})"
