"""What weakens a forecast in what is known of the storages: probes, age, room, sharing, parts."""

import platform
from collections.abc import Mapping, Sequence
from typing import Any

from spillcast.forecast.assumptions import SHARE_REPORTED
from spillcast.forecast.load import Load, operations
from spillcast.forecast.result import Warned
from spillcast.forecast.workload import Workload
from spillcast.recording.observed import TempPlace, mounted
from spillcast.storage import Storage
from spillcast.storage.memory import HEADROOM
from spillcast.storage.source import Provenance
from spillcast.units import format_bytes

Facts = Mapping[str, Any]
#: A storage that was measured longer ago may be another by now.
DAYS_MAX = 30
#: Share of the CPUs that other programs may have during a probe.
OTHERS_MAX = 0.1


def storage_warnings(workload: Workload, storage: Storage) -> list[Warned]:
    """All warnings about the storage of today and the target."""
    return [
        *_about_source(workload.temp_places),
        *about_measuring(storage.facts, workload.loads),
        *about_provenance(storage, workload.host),
        *_about_room(workload, storage.facts),
        *_about_parts(storage, workload.loads),
    ]


def about_network(facts: Facts) -> list[Warned]:
    """Warn that others share the path to a storage, according to its probe."""
    if not facts.get("network"):
        return []
    text = (
        f"{facts['filesystem']} is network storage that others use too, and it was measured once: "
        "probe it again at a busy time"
    )
    return [Warned("network", text)]


def _about_source(places: Sequence[TempPlace]) -> list[Warned]:
    """Warn that temp files were on a shared storage, or on several at once."""
    warnings = []
    shared = [place for place in places if place.network]
    if shared:
        where = ", ".join(f"{place.directory} ({place.filesystem})" for place in shared)
        text = (
            f"temp files were on network storage, {where}: the recorded time includes the load of "
            "others; record again when it is quiet"
        )
        warnings.append(Warned("source-network", text))
    whole = sum(place.bytes for place in places)
    several = [place for place in places if place.bytes > SHARE_REPORTED * whole]
    if len(several) > 1:
        origin = ", ".join(
            f"{place.bytes / whole:.0%} in {place.directory} ({place.filesystem})"
            for place in several
        )
        options = " or ".join(f"--temp {place.directory}" for place in several)
        text = (
            f"temp files were on {len(several)} devices: {origin}; the forecast moves them all to "
            "the "
            f"target; to move only one, use {options}"
        )
        warnings.append(Warned("devices", text))
    return warnings


def about_measuring(facts: Facts, loads: Sequence[Load] = ()) -> list[Warned]:
    """What a probe left open, and that others share the way to a storage."""
    return [*_about_replay(facts, loads), *_about_probe(facts), *about_network(facts)]


def _about_replay(facts: Facts, loads: Sequence[Load]) -> list[Warned]:
    warnings = []
    replayed, skipped = facts.get("steps_replayed", 0), facts.get("steps_skipped", 0)
    if facts.get("steps_from") == "counts":
        count = operations(loads)
        text = (
            "the probe's I/O is synthetic, made from "
            f"{min(1.0, (replayed + skipped) / count):.0%} of the counts: files written "
            "sequentially, then read back"
        )
        warnings.append(Warned("made-up", text))
    if skipped:
        text = f"the probe's budget was enough for {replayed / (replayed + skipped):.0%} of the I/O"
        warnings.append(Warned("budget", text))
    others_share = facts.get("others_cpu_share") or 0.0
    if others_share > OTHERS_MAX and replayed:
        text = (
            f"other programs had {others_share:.0%} of the CPUs during the probe: its latencies "
            "may be too long; probe again when the machine is quiet"
        )
        warnings.append(Warned("disturbed", text))
    prefilled = facts.get("prefilled_bytes", 0)
    read = sum(load.bytes for load in loads if load.op == "read")
    if read and prefilled > 0.1 * read:
        text = (
            f"{format_bytes(prefilled)} were read without a recorded write: more of it was cached "
            "than in the real run"
        )
        warnings.append(Warned("prefilled", text))
    return warnings


def _about_probe(facts: Facts) -> list[Warned]:
    """What the budget and the memory of the probe left open."""
    warnings = []
    share, whole = facts.get("byte_share", 1.0), facts.get("working_set_bytes", 0)
    if share < 1:
        text = f"the byte budget was enough for {share:.1%} of {format_bytes(whole)} of temp files"
        if facts.get("memory_bound") is None:
            text += "; whether all of it fits the page cache was not tested"
        lifted = f"{-(-whole >> 30)}G"
        warnings.append(Warned("byte-budget", f"{text}; --budget {lifted} is enough for all"))
    reason = facts.get("memory_bound_reason")
    if reason is not None:
        text = (
            f"the engine had {format_bytes(facts['page_cache_bytes'] or 0)} of page cache and the "
            f"probe more, because no memory cgroup could be made ({reason})"
        )
        warnings.append(Warned("page-cache", text))
    return warnings


def _about_room(workload: Workload, facts: Facts) -> list[Warned]:
    """Warn that the temp files hardly fit, or do not, into the space free at the probe."""
    free, left = facts.get("free_bytes"), facts.get("quota_free_bytes")
    rooms = [
        (count, limit_words)
        for count, limit_words in ((free, ""), (left, f" by the quota of {facts.get('quota_of')}"))
        if count is not None
    ]
    if not rooms:
        return []
    room, limit = min(rooms)
    # All that was written is no less than what was held.
    if workload.written_bytes is not None and workload.written_bytes * HEADROOM <= room:
        return []
    spill = workload.held_bytes
    wanted = round(spill * HEADROOM)
    if room >= wanted:
        return []
    room_words = f"{facts.get('directory', 'it')} had {format_bytes(room)} free{limit}"
    holds = f"temp files take up to {format_bytes(spill)}, {room_words}"
    hint = f"free {format_bytes(wanted)} there, or choose larger storage"
    if room < spill:
        return [Warned("no-room", f"{holds}: the query would fail; {hint}")]
    text = f"{holds}: a run that spills a little more, or a second one beside it, would fail"
    return [Warned("little-room", f"{text}; {hint}")]


def _about_parts(target: Storage, loads: Sequence[Load]) -> list[Warned]:
    """What weakens the parts that a cache is simulated of, each with the name of its part."""
    warnings = []
    for part in target.facts.get("parts", ()):
        for warned in (*about_measuring(part["facts"], loads), *_about_figures(part)):
            warnings.append(Warned(warned.code, f"{part['name']}: {warned.message}"))
    return warnings


def _about_figures(part: Facts) -> list[Warned]:
    """How far a part's figures are from the operations that it serves."""
    beyond, between = part.get("extrapolated_share", 0.0), part.get("between_share", 0.0)
    warnings = []
    if beyond > SHARE_REPORTED:
        text = f"{beyond:.0%} of its I/O has sizes outside the measured range: extrapolated"
        warnings.append(Warned("extrapolated", f"{text}: probe it with the recording (--like)"))
    if between > SHARE_REPORTED:
        error = part.get("error", 0.0)
        text = (
            f"{between:.0%} of its I/O has sizes between the measured ones: interpolated, up to "
            f"{error:.0%} off"
        )
        warnings.append(Warned("sizes", text))
    return warnings


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
