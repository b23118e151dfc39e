"""What weakens a forecast at its target: how, when and where it was measured; its free space."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spillcast.forecast.load import Load, moved_bytes, operations
from spillcast.forecast.result import Warned
from spillcast.forecast.workload import SHARE_REPORTED, Workload
from spillcast.recording.observed import mounted
from spillcast.storage import Storage
from spillcast.storage.memory import HEADROOM
from spillcast.storage.source import Provenance
from spillcast.units import format_bytes

#: A storage that was measured longer ago may be another by now.
DAYS_MAX = 30
#: Share of the CPUs that other programs may have during a probe.
OTHERS_MAX = 0.1
#: Share of the bytes read of which a probe had to write the files itself.
PREFILLED_MAX = 0.1


def about_measuring(facts: Mapping[str, Any], loads: Sequence[Load] = ()) -> Iterator[Warned]:
    """What a probe left open, and that others share the way to a storage."""
    replayed, skipped = facts.get("steps_replayed", 0), facts.get("steps_skipped", 0)
    if facts.get("steps_from") == "counts":
        share = min(1.0, (replayed + skipped) / operations(loads))
        yield Warned(
            "made-up",
            f"the probe's I/O is synthetic, made from {share:.0%} of the counts: files written "
            "sequentially, then read back",
        )
    if skipped:
        share = replayed / (replayed + skipped)
        yield Warned("budget", f"the probe's budget was enough for {share:.0%} of the I/O")
    others_share = facts.get("others_cpu_share") or 0.0
    if others_share > OTHERS_MAX and replayed:
        yield Warned(
            "disturbed",
            f"other programs had {others_share:.0%} of the CPUs during the probe: its latencies "
            "may be too long; probe again when the machine is quiet",
        )
    prefilled = facts.get("prefilled_bytes", 0)
    if 0 < PREFILLED_MAX * moved_bytes(loads, "read") < prefilled:
        yield Warned(
            "prefilled",
            f"{format_bytes(prefilled)} were read without a recorded write: more of it was cached "
            "than in the real run",
        )
    share, total = facts.get("byte_share", 1.0), facts.get("working_set_bytes", 0)
    if share < 1:
        text = f"the byte budget was enough for {share:.1%} of {format_bytes(total)} of temp files"
        if facts.get("memory_bound") is None:
            text += "; whether all of it fits the page cache was not tested"
        enough = f"{-(-total >> 30)}G"
        yield Warned("byte-budget", f"{text}; --budget {enough} is enough for all")
    if (reason := facts.get("memory_bound_reason")) is not None:
        yield Warned(
            "page-cache",
            f"the engine had {format_bytes(facts['page_cache_bytes'] or 0)} of page cache and the "
            f"probe more, because no memory cgroup could be made ({reason})",
        )
    if facts.get("network"):
        yield Warned(
            "network",
            f"{facts['filesystem']} is network storage that others use too, and it was measured "
            "once: probe it again at a busy time",
        )


def about_sizes(
    whose: str, beyond: float, between: float, error: float, remedy: str = ""
) -> Iterator[Warned]:
    """I/O of sizes that were not measured: a share beyond the measured ones, and one between."""
    if beyond > SHARE_REPORTED:
        text = f"{beyond:.0%} of {whose} I/O has sizes outside the measured range: extrapolated"
        yield Warned("extrapolated", text + remedy)
    if between > SHARE_REPORTED:
        text = f"{between:.0%} of {whose} I/O has sizes between the measured ones: interpolated"
        yield Warned("sizes", f"{text}, up to {error:.0%} off")


def about_provenance(storage: Storage, recorded_host: str | None = None) -> Iterator[Warned]:
    """When and where latencies were measured; ``recorded_host`` is where the query ran."""
    origin = storage.provenance
    if origin is None:
        return
    if (days := origin.age_days) is not None and days > DAYS_MAX:
        date = (origin.measured_at or "")[:10]
        yield Warned(
            "stale",
            f"its latencies are {days:,} days old ({date}): measure again if anything may have "
            "changed",
        )
    # Another host's storage may well be meant, but not its CPUs and memory.
    query_host = recorded_host or platform.node()
    if origin.host not in (None, query_host):
        purpose = "the query was recorded" if recorded_host else "this runs"
        yield Warned(
            "another-host",
            f"its latencies were measured on host {origin.host}, and {purpose} on host "
            f"{query_host}",
        )
    if origin.directory is None or origin.mount_point is None or origin.host != platform.node():
        return
    mount = mounted(origin.directory)
    if mount is not None and origin.on(mount).where != origin.where:
        was, now = _mount_words(origin), _mount_words(origin.on(mount))
        text = f"{origin.directory} was {was} when it was measured, and is {now} now"
        yield Warned("another-mount", f"{text}: probe it again")


def _mount_words(origin: Provenance) -> str:
    device = f" on {origin.device_name}" if origin.device_name else ""
    return f"{origin.filesystem}{device} at {origin.mount_point} ({origin.mount_options})"


def about_space(workload: Workload, facts: Mapping[str, Any]) -> Iterator[Warned]:
    """Free space that is less than what the temp files take, or hardly more."""
    quota = f" by the quota of {facts.get('quota_of')}"
    rooms = (facts.get("free_bytes"), ""), (facts.get("quota_free_bytes"), quota)
    room, limit = min(((room, of) for room, of in rooms if room is not None), default=(None, ""))
    spill = workload.held_bytes
    needed = round(spill * HEADROOM)
    if room is None or room >= needed:
        return
    # All that was written is no less than what the files held.
    if workload.written_bytes is not None and workload.written_bytes * HEADROOM <= room:
        return
    free = f"{facts.get('directory', 'it')} had {format_bytes(room)} free{limit}"
    size = f"temp files take up to {format_bytes(spill)}, {free}"
    hint = f"free {format_bytes(needed)} there, or choose larger storage"
    if room < spill:
        yield Warned("no-room", f"{size}: the query would fail; {hint}")
        return
    text = f"{size}: a run that spills a little more, or a second one beside it, would fail"
    yield Warned("little-room", f"{text}; {hint}")
