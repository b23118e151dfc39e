"""Warnings of a forecast: checks of the evidence, the projection and the target.

Each check yields its warnings. Forecasts from Oracle's traces share the checks of the target.
``explained.toml`` has a title and a next step for each code.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.forecast.caveat import Caveat
from spillcast.forecast.projection import BUSY_REPORTED, Projection, projection
from spillcast.forecast.remaining.progress import FILES_SOURCE
from spillcast.forecast.verdict import HELPS_LITTLE_SHARE
from spillcast.forecast.workload import SHARE_REPORTED, Workload
from spillcast.forecast.workload.load import Load, moved_bytes, operations, total_s
from spillcast.forecast.workload.resources import BURST_MIN_S
from spillcast.recording import OPS
from spillcast.recording.observed import IN_MEMORY
from spillcast.storage import Storage
from spillcast.storage.free_space import HEADROOM
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import nonnull_facts
from spillcast.units import format_bytes, format_duration, format_share

#: A CPU quota is reported if it throttles the run in more than this share of the time.
THROTTLED_REPORTED = 0.02
#: Calls without figures of the target are reported above this share of the elapsed time.
CHANGES_REPORTED = 0.01
#: Ratio of latencies above which the forecast amplifies errors of the recording.
AMPLIFIED = 20.0
#: An uncalibrated machine is reported if CPU time is uncertain by this share of the forecast.
UNCALIBRATED = 0.02
#: Shares of compressed blocks are equal if they differ by less than this.
COMPRESSED_TOLERANCE = 0.05
#: Dependent threads are reported if the times of the models differ by more than this share.
DEPENDENT = 0.1


def warnings_of(projected: Projection, ceiling_s: float) -> list[Caveat]:
    """All warnings of a forecast; ``ceiling_s`` is the time on zero-latency storage."""
    other_io = partial(_other_io, ceiling_s=ceiling_s)
    checks: Sequence[Callable[[Projection], Iterator[Caveat]]] = (
        _part, _evidence, _cpu_limits, other_io, _threads, _cpu_time, _figures, _source, _target,
        _limits, _page_cache,
    )  # fmt: skip
    engine = projected.workload.quality.engine
    return [warned.of_engine(engine) for check in checks for warned in check(projected)]


def _part(projected: Projection) -> Iterator[Caveat]:
    """A recording that covers a part of the query, and the assumptions about what remains."""
    workload = projected.workload
    part, left = workload.part, workload.to_come
    if part is not None:
        if left is not None and left.still_writing:
            yield Caveat("still-writing", left.still_writing_text)
        text = "this forecast is only for the recorded part; "
        if left is not None and left.reads_bytes.low:
            low = format_bytes(left.reads_bytes.low)
            text += f"at least {low} in temp files remain to be read; "
        text += "--elapsed TIME gives one for the whole run"
        if part.what == "process" and part.because == "late":
            life_s = (part.before_s or 0.0) + part.recorded_s
            text += f" (--elapsed {life_s:.1f}s if the query started with its process)"
        yield Caveat("part-only", text)
    elif workload.remaining is not None or workload.is_part:
        recorded = (
            f"{format_share(workload.elapsed_s / workload.total_s, 1)} of the query was recorded"
        )
        rest = "the rest is assumed to do temp I/O at the same rate"
        if workload.remaining is not None:
            rest = "the rest is forecast from what is known of it"
            if left is not None and left.writes_bytes.source == FILES_SOURCE:
                rest = "the rest is what its temp files hold; what follows is not in them"
        yield Caveat("part", f"{recorded}: {rest}")
    yield from (Caveat("not-used", f"not used: {reason}") for reason in workload.unused_hints)
    if part is not None:
        return
    read, written = (moved_bytes(workload.recorded_loads, op) for op in OPS)
    if workload.remaining is not None and not read:
        yield Caveat(
            "unread",
            "no temp read was recorded: the read latency here is a guess, and so is the elapsed "
            "time today",
        )
    elif workload.kind == "unread":
        unread = format_bytes(max(0, written - read))
        text = f"{unread} of temp files were written and not yet read: more reads will follow"
        yield Caveat("unread", text)


def _evidence(projected: Projection) -> Iterator[Caveat]:
    workload, quality = projected.workload, projected.workload.quality
    if (unseen := quality.unseen).notable:
        yield Caveat("unseen", f"{unseen.text}; {unseen.remedy}")
    yield from (Caveat("contradiction", check.text) for check in quality.contradictions)
    others_s = projected.baseline.others_s
    if others_s > BUSY_REPORTED * workload.elapsed_s:
        yield Caveat(
            "run-queue",
            f"the query was runnable but not scheduled for {format_duration(others_s)}, because "
            "other programs used the CPUs",
        )
    if (stalled_s := projected.baseline.memory_stalled_s) > SHARE_REPORTED * workload.total_s:
        yield Caveat(
            "memory-stalled",
            f"up to {format_duration(stalled_s)} outside temp I/O were waits for memory, while the "
            "kernel freed pages and wrote temp files back: they may change with the storage",
        )
    if quality.file_faults:
        yield Caveat(
            "file-faults",
            f"{quality.file_faults:,} page faults read files: their time is not known, and stays "
            "the same in the forecast",
        )
    if workload.threads.counted:
        text = (
            "only total counts and times are known, not caching, other load on the machine or the "
            "order of operations"
        )
        if quality.absent_because is not None:
            text = f"no I/O was recorded ({quality.absent_because}), so the plan is used: {text}"
        yield Caveat("counts-only", text)
    yield from (Caveat("incomplete", note) for note in quality.notes)
    if (unknown := quality.unknown) is not None:
        text = f"{unknown.text}; the interval covers both bounds; {unknown.remedy}"
        yield Caveat(unknown.code, text)
    if quality.timed_on is not None and not quality.time_unknown:
        text = f"temp I/O was not timed: the latency of {quality.timed_on} is assumed"
        yield Caveat("assumed", text)


def _cpu_limits(projected: Projection) -> Iterator[Caveat]:
    cpu, threads = projected.workload.cpu, projected.workload.threads
    source, target = threads.source, threads.target
    if cpu.exceeded_quota_cpus is not None and target.quota_ns is None:
        quota = f"a CPU quota of {cpu.exceeded_quota_cpus:g} CPUs"
        text = f"{quota} was seen, but the query had more CPU time: the forecast is without one"
        yield Caveat("quota", text)
        return
    throttled_s = cpu.throttled_s or 0.0
    was = throttled_s > THROTTLED_REPORTED * projected.workload.elapsed_s
    would = projected.throttled_share > THROTTLED_REPORTED
    if (source.quota_ns is None and target.quota_ns is None) or not (was or would):
        return
    text = "no CPU quota was in force"
    if source.quota_ns is not None:
        how_long = f"throttled {format_duration(throttled_s)}" if was else "hardly throttled"
        text = f"{source.quota_text} was in force, {how_long}"
    other = "is without one" if target.quota_ns is None else f"is for {target.quota_text}"
    text += f"; the forecast {'keeps it' if target == source else other}"
    if would and not was:
        text += ", which throttles the query there"
    yield Caveat("quota", text)


def _other_io(projected: Projection, ceiling_s: float) -> Iterator[Caveat]:
    """I/O on other files, and temp I/O that is a small part of the run."""
    quality, cold, total_s = (
        projected.workload.quality,
        projected.baseline.cold_data,
        projected.workload.total_s,
    )
    if cold is not None and cold.baseline_s > SHARE_REPORTED * total_s:
        took, total = map(format_duration, (cold.baseline_s, total_s))
        warm = format_duration(total_s - cold.baseline_s)
        yield Caveat(
            "cold-data",
            f"{took} of the {total} were reads of data files that were not cached: moving temp "
            f"files does not change that, and with warm caches the run takes about {warm} today",
        )
    little = f"temp I/O is only {format_share(projected.baseline.temp_s / total_s)} of the time"
    if quality.unrecognised is not None:
        yield Caveat("other-io", quality.unrecognised)
    elif ceiling_s <= HELPS_LITTLE_SHARE * total_s or quality.time_unknown:
        return
    elif quality.other_io_s is not None:
        other = format_duration(quality.other_io_s)
        text = f"{little}, I/O on other files took {other}: the forecast keeps that unchanged"
        yield Caveat("other-io", text)
    else:
        yield Caveat("little-io", f"{little}: no storage for temp files can help much")


def _threads(projected: Projection) -> Iterator[Caveat]:
    workload, overlap = projected.workload, projected.overlap
    if workload.threads.number == 1 or workload.quality.processes_unknown:
        return
    if projected.spinning_s > SHARE_REPORTED * workload.elapsed_s:
        yield Caveat(
            "spinning",
            f"a thread used a CPU for longer than {format_duration(BURST_MIN_S)} without a call "
            "while others did temp I/O, and no samples tell work from spinning: if it only waited "
            f"for them, the run is {format_duration(projected.spinning_s)} shorter",
        )
    elif not workload.quality.wakings_seen:
        text = "several threads do temp I/O, and how they wait for each other was not recorded"
        yield Caveat("threads", text)
    elif overlap.apart > 1 + DEPENDENT:
        text = (
            f"threads wait for each other: the run takes {format_duration(overlap.dynamic_s)} if a "
            f"free thread can take over work, {format_duration(overlap.static_s)} if not"
        )
        if overlap.replayed_s is not None:
            took = format_duration(overlap.replayed_s)
            text += f"; a replay of all threads on the target took {took}"
        yield Caveat("dependent", text)


def _cpu_time(projected: Projection) -> Iterator[Caveat]:
    workload = projected.workload
    compression, compressed = workload.compression, projected.compressed
    if (
        compression is not None
        and compressed is not None
        and abs(compressed - compression.share) >= COMPRESSED_TOLERANCE
    ):
        why = compression.explained("more" if compressed > compression.share else "less")
        share, before = format_share(compressed), format_share(compression.share)
        yield Caveat("compression", f"{why}: about {share} of its blocks instead of {before}")
    notable_s = UNCALIBRATED * (projected.total_s - sum(projected.changes_s))
    if workload.cpu.wait_cost is None and projected.cpu_change_error_s > notable_s:
        yield Caveat(
            "uncalibrated",
            "the interval is wide because how waits change CPU time was never measured on the "
            "recording machine",
        )


def _figures(projected: Projection) -> Iterator[Caveat]:
    yield from (Caveat(*warning) for warning in projected.storage.source.warnings)
    if projected.storage.source.of_device:
        return
    latencies = projected.latencies
    pairs = list(zip(projected.workload.loads, latencies, strict=True))
    total = operations(projected.workload.loads)
    beyond = sum(load.count for load, lat in pairs if lat.extrapolated) / total
    between = sum(load.count for load, lat in pairs if not lat.measured) / total - beyond
    error = max(latency.error for latency in latencies)
    yield from size_warnings("the", beyond, between, error)


def _source(projected: Projection) -> Iterator[Caveat]:
    places = projected.workload.temp_places
    if shared := [place for place in places if place.network]:
        where = ", ".join(f"{place.directory} ({place.filesystem})" for place in shared)
        yield Caveat(
            "source-network",
            f"temp files were on network storage, {where}: the recorded time includes the load of "
            "others",
        )
    total_bytes = sum(place.bytes for place in places)
    several = [place for place in places if place.bytes > SHARE_REPORTED * total_bytes]
    if len(several) > 1:
        shares = ", ".join(
            f"{format_share(place.bytes / total_bytes)} in {place.directory} ({place.filesystem})"
            for place in several
        )
        options = " or ".join(f"--temp {place.directory}" for place in several)
        yield Caveat(
            "devices",
            f"temp files were on {len(several)} devices: {shares}; the forecast moves them all to "
            f"the target; to move only one, use {options}",
        )


def _target(projected: Projection) -> Iterator[Caveat]:
    workload, storage = projected.workload, projected.storage
    yield from probe_warnings(storage.facts, workload.loads)
    yield from provenance_warnings(storage, workload.host)
    yield from free_space_warnings(workload, storage.facts)
    for part in storage.facts.get("parts", ()):
        shares = part.get("extrapolated_share", 0.0), part.get("between_share", 0.0)
        for warned in (
            *probe_warnings(part["facts"], workload.loads),
            *size_warnings("its", *shares, part.get("error", 0.0)),
        ):
            yield Caveat(warned.code, f"{part['name']}: {warned.message}")


def _limits(projected: Projection) -> Iterator[Caveat]:
    workload = projected.workload
    if projected.saturated:
        text = (
            f"the query would wait for the limit of {projected.storage.name}: {projected.saturated}"
        )
        yield Caveat("limit", text)
    if projected.changes_kept_s > CHANGES_REPORTED * workload.total_s:
        yield Caveat(
            "changes-kept",
            "the target has no figures for creating, resizing and removing temp files: the "
            f"recorded {format_duration(projected.changes_kept_s)} is assumed",
        )
    recorded_s, target_s = total_s(workload.loads), total_s(projected.loads)
    if target_s > AMPLIFIED * recorded_s > 0:
        times = f"temp I/O takes {target_s / recorded_s:.0f} times as long on the target"
        text = f"{times}: an error of the recording grows as much, and threads may overlap less"
        yield Caveat("amplified", text)


def _page_cache(projected: Projection) -> Iterator[Caveat]:
    """A page cache that serves temp I/O, on the target or in the recording, if it matters."""
    workload, forecast_s = projected.workload, projected.total_s
    cache = workload.threads.page_cache(workload.loads)

    def differs(elapsed_s: float) -> bool:
        return abs(elapsed_s - forecast_s) > SHARE_REPORTED * forecast_s

    if cache is None:
        return
    if (
        projected.missed is not None
        and projected.uncached_s is not None
        and differs(projected.uncached_s)
    ):
        free, spill = format_bytes(cache.free_bytes), format_bytes(workload.held_bytes)
        text = (
            f"the page cache serves {format_share(1 - projected.missed)} of the temp I/O: temp "
            f"files hold up to {spill}, and {free} of memory were free"
        )
        if workload.threads.counted:
            text = (
                "temp I/O was as fast as memory: the page cache held the temp files, or fast "
                "storage read them ahead; the cache is assumed to hold them on the target"
            )
        without = f"without it the run would take about {format_duration(projected.uncached_s)}"
        yield Caveat("page-cache-answers", f"{text}; {without}")
    on_disk = any(place.filesystem not in IN_MEMORY for place in workload.temp_places)
    if projected.storage.source is not ASSUMED or not on_disk:
        return
    cached_s = projection(projected.baseline, projected.storage, cached=True).total_s
    if differs(cached_s):
        yield Caveat(
            "page-cache-skipped",
            "every operation is assumed to take this long, even those that the page cache served "
            "in the recording; if it serves them again, the run takes about "
            f"{format_duration(cached_s)}",
        )


#: A storage may have changed since a measurement this many days ago.
DAYS_MAX = 30
#: Other programs disturb a probe above this share of the CPUs.
OTHERS_MAX = 0.1
#: Reads of files that the probe prefilled are reported above this share of the bytes read.
PREFILLED_MAX = 0.1


def probe_warnings(facts: Mapping[str, Any], loads: Sequence[Load] = ()) -> Iterator[Caveat]:
    """Weaknesses of a probe, and network storage, which other hosts may share."""
    facts = nonnull_facts(facts)
    replayed, skipped = facts.get("steps_replayed", 0), facts.get("steps_skipped", 0)
    if facts.get("steps_from") == "counts":
        text = "the probe's I/O is synthetic"
        if total := operations(loads):
            text += (
                f", made from {format_share(min(1.0, (replayed + skipped) / total))} of the counts"
            )
        yield Caveat("synthetic-io", f"{text}: files written sequentially, then read back")
    if skipped:
        share = replayed / (replayed + skipped)
        yield Caveat(
            "budget", f"the probe's budget was enough for {format_share(share)} of the I/O"
        )
    others_share = facts.get("others_cpu_share", 0.0)
    if others_share > OTHERS_MAX and replayed:
        yield Caveat(
            "disturbed",
            f"other programs had {format_share(others_share)} of the CPUs during the probe: its "
            "latencies may be too long",
        )
    prefilled = facts.get("prefilled_bytes", 0)
    if 0 < PREFILLED_MAX * moved_bytes(loads, "read") < prefilled:
        yield Caveat(
            "prefilled",
            f"{format_bytes(prefilled)} were read without a replayed write: more of it was cached "
            "than in the real run",
        )
    share, total = facts.get("byte_share", 1.0), facts.get("working_set_bytes", 0)
    if share < 1:
        of = f"{format_share(share, 1)} of {format_bytes(total)} of temp files"
        text = f"the byte budget was enough for {of}"
        if "memory_bound" not in facts:
            text += "; whether all of it fits the page cache was not tested"
        enough = f"{-(-total >> 30)}G"
        yield Caveat("byte-budget", f"{text}; --budget {enough} is enough for all")
    if (reason := facts.get("memory_bound_reason")) is not None:
        yield Caveat(
            "page-cache",
            f"the engine had {format_bytes(facts.get('page_cache_bytes', 0))} of page cache and "
            f"the probe more, because no memory cgroup could be made ({reason})",
        )
    if facts.get("network"):
        yield Caveat(
            "network",
            f"{facts.get('filesystem', 'it')} is network storage that others use too, and it was "
            "measured once",
        )


def size_warnings(whose: str, beyond: float, between: float, error: float) -> Iterator[Caveat]:
    """I/O of unmeasured sizes: a share outside the measured range, and a share within it."""
    if beyond > SHARE_REPORTED:
        text = f"{format_share(beyond)} of {whose} I/O has sizes outside the measured range"
        yield Caveat("extrapolated", f"{text}: extrapolated")
    if between > SHARE_REPORTED:
        text = f"{format_share(between)} of {whose} I/O has sizes between the measured ones"
        yield Caveat("sizes", f"{text}: interpolated, up to {format_share(error)} off")


def provenance_warnings(storage: Storage, recorded_host: str | None = None) -> Iterator[Caveat]:
    """Latencies that are old or of another host or mount; the query ran on ``recorded_host``."""
    origin = storage.provenance
    if origin is None:
        return
    if (days := origin.age_days) is not None and days > DAYS_MAX:
        date = (origin.measured_at or "")[:10]
        yield Caveat("stale", f"its latencies are {days:,} days old ({date})")
    # The user may mean another host's storage, but not its CPUs and memory.
    query_host = recorded_host or platform.node()
    if origin.host not in (None, query_host):
        purpose = "the query was recorded" if recorded_host else "this runs"
        yield Caveat(
            "another-host",
            f"its latencies were measured on host {origin.host}, and {purpose} on host "
            f"{query_host}",
        )
    if (now := origin.remounted) is not None:
        was_and_is = f"was {origin.mount_text} when it was measured, and is {now.mount_text} now"
        yield Caveat("another-mount", f"{origin.directory} {was_and_is}")


def free_space_warnings(workload: Workload, facts: Mapping[str, Any]) -> Iterator[Caveat]:
    """Free space below the size of the temp files, or barely above it."""
    facts = nonnull_facts(facts)
    quota = f" by the quota of {facts.get('quota_of')}"
    limits = (facts.get("free_bytes"), ""), (facts.get("quota_free_bytes"), quota)
    known = ((size, source) for size, source in limits if size is not None)
    free_bytes, limit = min(known, default=(None, ""))
    spill = workload.held_bytes
    needed = round(spill * HEADROOM)
    if free_bytes is None or free_bytes >= needed:
        return
    # The files held at most the bytes that were written.
    if workload.written_bytes is not None and workload.written_bytes * HEADROOM <= free_bytes:
        return
    free = f"{facts.get('directory', 'it')} had {format_bytes(free_bytes)} free{limit}"
    size = f"temp files take up to {format_bytes(spill)}, {free}"
    hint = f"free {format_bytes(needed)} there, or choose larger storage"
    if free_bytes < spill:
        yield Caveat("no-space", f"{size}: the query would fail; {hint}")
        return
    text = f"{size}: a run that spills a little more, or a second one beside it, would fail"
    yield Caveat("little-space", f"{text}; {hint}")
