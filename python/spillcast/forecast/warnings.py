"""What weakens a forecast in its workload, and what forbids one; storages have their own."""

from collections.abc import Sequence

from spillcast.forecast.assumptions import (
    AMPLIFIED,
    BURST_MIN_S,
    BUSY_REPORTED,
    CHANGES_REPORTED,
    COMPRESSED_ALIKE,
    DEPENDENT,
    IO_MOST,
    LITTLE,
    SEEN_MIN,
    SHARE_REPORTED,
    THROTTLED_REPORTED,
    UNCALIBRATED,
)
from spillcast.forecast.load import Latency, Load
from spillcast.forecast.projection import Baseline, Projection, projection
from spillcast.forecast.result import Warned
from spillcast.forecast.storage_warnings import storage_warnings
from spillcast.forecast.threads.cpus import Cpus
from spillcast.forecast.workload import Workload
from spillcast.recording.completeness import DIFFERENCE_MAX
from spillcast.storage.memory import IN_MEMORY
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import Storage
from spillcast.units import format_bytes, format_duration

_RECORD_AGAIN = "record it again"


def refusal(baseline: Baseline) -> str | None:
    """Why a workload carries no number for the query; None where it does."""
    workload = baseline.workload
    quality, total = workload.quality, workload.total_s
    if quality.unseen.excessive:
        return f"{quality.unseen.text}; {quality.unseen.remedy}"
    for check in quality.contradictions:
        if check.difference > DIFFERENCE_MAX:
            return f"parts of the recording contradict each other: {check.text}; record again"
    if quality.io_uring_depth > 1:
        at_once = f"up to {quality.io_uring_depth:,} at once"
        return f"temp files are read or written through io_uring, {at_once}: their times overlap"
    if quality.io_uring_busy_s:
        busy = format_duration(quality.io_uring_busy_s)
        return f"while temp I/O was under way in io_uring, its threads did other work for {busy}"
    temp_s = baseline.temp_s
    if temp_s > IO_MOST * total:
        io, elapsed = format_duration(temp_s), format_duration(total)
        return (
            f"its temp I/O takes {io}, longer than the elapsed time of {elapsed}: give the time of "
            "the whole query with --elapsed"
        )
    share = workload.elapsed_s / total
    if workload.remaining is None and share < SEEN_MIN and workload.kind == "unread":
        return (
            f"only {share:.1%} of the query was recorded, and hardly any temp data had been read "
            "back"
        )
    return None


def warnings_of(
    baseline: Baseline,
    storage: Storage,
    projected: Projection,
    ceiling_s: float,
    uncached_s: float | None,
) -> list[Warned]:
    """Everything a reader of the number should know.

    ``ceiling_s`` is the elapsed time with no latency at all, and ``uncached_s`` that without the
    page cache; None where no page cache is taken to be there.
    """
    workload = baseline.workload
    loads, latencies = workload.loads, projected.latencies
    warnings = [
        *_about_part(workload),
        *_about_evidence(baseline),
        *_about_cpu_limits(workload, projected.throttled_share),
        *_about_cold_data(baseline),
        *_about_little_io(baseline, ceiling_s),
        *_about_threads(workload, projected),
        *_about_compression(workload, projected),
        *_about_machine(workload, projected),
        *(Warned(*warning) for warning in storage.source.warnings),
        *(_about_sizes(loads, latencies) if not storage.source.any_size else []),
        *storage_warnings(workload, storage),
    ]
    if projected.saturated:
        text = f"the query would wait for the limit of {storage.name}: {projected.saturated}"
        warnings.append(Warned("limit", text))
    if projected.changes_kept_s > CHANGES_REPORTED * workload.total_s:
        text = (
            "the time to create, resize and remove temp files there is not known: "
            f"{format_duration(projected.changes_kept_s)} is assumed, as recorded"
        )
        warnings.append(Warned("changes-kept", text))
    recorded_s = sum(load.total_s for load in loads)
    target_s = sum(load.count * lat.mean_s for load, lat in zip(loads, latencies, strict=True))
    if target_s > AMPLIFIED * recorded_s > 0:
        text = f"latency grows {target_s / recorded_s:.0f}-fold: threads may overlap differently"
        warnings.append(Warned("amplified", text))
    return [
        *warnings,
        *_about_page_cache(workload, projected, uncached_s),
        *_about_skipped_cache(baseline, storage, projected.total_s),
    ]


def _about_evidence(baseline: Baseline) -> list[Warned]:
    workload = baseline.workload
    quality, warnings = workload.quality, []
    unseen = quality.unseen
    if unseen.notable:
        warnings.append(Warned("unseen", f"{unseen.text}; {unseen.remedy}"))
    warnings += [Warned("contradiction", check.text) for check in quality.contradictions]
    others_s = baseline.others_s
    if others_s > BUSY_REPORTED * workload.elapsed_s:
        text = (
            f"the query was runnable but not scheduled for {format_duration(others_s)}, because "
            "other "
            "programs used the CPUs"
        )
        warnings.append(Warned("run-queue", text))
    if quality.file_faults:
        text = (
            f"{quality.file_faults:,} page faults read files: this is not temp I/O, and its time "
            "is kept"
        )
        warnings.append(Warned("file-faults", text))
    if workload.counted:
        text = (
            "only total counts and times are known, not caching, other load on the machine or the "
            "order of operations"
        )
        if quality.absent_because is not None:
            text = f"no I/O was recorded ({quality.absent_because}), so the plan is used: {text}"
        warnings.append(Warned("counts-only", text))
    warnings += [Warned("untold", text) for text in quality.notes]
    if (unknown := quality.unknown) is not None:
        text = f"{unknown.words}; the interval covers both bounds, and {unknown.remedy}"
        warnings.append(Warned(unknown.code, text))
    if quality.timed_on is not None:
        text = f"temp I/O was not timed: the latency of {quality.timed_on} is assumed"
        warnings.append(Warned("assumed", text))
    return warnings


def unknown_cpu_limits(workload: Workload, throttled_share: float) -> str | None:
    """Why CPU limits leave no number for a target; None where they do.

    Where it was not seen how much CPU time threads had between waits, it may be all the time.
    """
    threads = workload.threads
    limited = threads.source.quota_ns or threads.target.quota_ns or threads.source != threads.target
    if not limited or threads.cpu_known:
        return None
    unseen = "the recording does not contain the CPU time of the threads"
    if threads.source != threads.target:
        return f"--cpus or --cpu-quota differ from the recording, and {unseen}: {_RECORD_AGAIN}"
    throttled_s = workload.cpu.throttled_s or 0.0
    if throttled_s > THROTTLED_REPORTED * workload.elapsed_s:
        held = f"{_quota(threads.source)} throttled it for {format_duration(throttled_s)}"
        return f"{held}, and {unseen}: {_RECORD_AGAIN}"
    if throttled_share > THROTTLED_REPORTED:
        return f"{_quota(threads.target)} may throttle it there, and {unseen}: {_RECORD_AGAIN}"
    return None


def _about_cpu_limits(workload: Workload, throttled_share: float) -> list[Warned]:
    """Warn that a quota held the run back, or would on the target."""
    threads = workload.threads
    exceeded = workload.cpu.exceeded_quota_cpus
    if exceeded is not None and threads.target.quota_ns is None:
        quota = f"a CPU quota of {exceeded:g} CPUs"
        text = f"{quota} was seen, but the query had more CPU time: the forecast is without one"
        return [Warned("quota", text)]
    if threads.source.quota_ns is None and threads.target.quota_ns is None:
        return []
    throttled_s = workload.cpu.throttled_s or 0.0
    was = throttled_s > THROTTLED_REPORTED * workload.elapsed_s
    would = throttled_share > THROTTLED_REPORTED
    if not (was or would):
        return []
    text = "no CPU quota was in force"
    if threads.source.quota_ns is not None:
        held = f", throttled {format_duration(throttled_s)}" if was else ", hardly throttled"
        text = f"{_quota(threads.source)} was in force{held}"
    if threads.target == threads.source:
        text += "; the forecast keeps it"
    elif threads.target.quota_ns is None:
        text += "; the forecast is without one"
    else:
        text += f"; the forecast is for {_quota(threads.target)}"
    if would and not was:
        text += ", which throttles the query there"
    return [Warned("quota", text)]


def _quota(cpus: Cpus) -> str:
    return f"a CPU quota of {cpus.quota_cpus:g} CPUs"


def _about_cold_data(baseline: Baseline) -> list[Warned]:
    """Warn that data came from storage, which a second run may find in memory."""
    cold, total = baseline.cold_data, baseline.workload.total_s
    if cold is None or cold.baseline_s <= SHARE_REPORTED * total:
        return []
    took, whole = map(format_duration, (cold.baseline_s, total))
    warm = format_duration(total - cold.baseline_s)
    text = (
        f"{took} of the {whole} were reads of data files that were not cached: moving temp files "
        f"does not change that, and with warm caches the run takes about {warm} today; to "
        "compare runs, record one with caches as warm as theirs"
    )
    return [Warned("cold-data", text)]


def _about_little_io(baseline: Baseline, ceiling_s: float) -> list[Warned]:
    """Warn that temp I/O is a small part of the run, or of its I/O."""
    quality, total = baseline.workload.quality, baseline.workload.total_s
    little = f"temp I/O is only {baseline.temp_s / total:.0%} of the time"
    if quality.unrecognised is not None:
        return [Warned("other-io", quality.unrecognised)]
    if ceiling_s <= LITTLE * total or quality.time_unknown:
        return []
    if quality.other_io_s is not None:
        other = format_duration(quality.other_io_s)
        text = f"{little}, I/O on other files took {other}: the forecast keeps that unchanged"
        return [Warned("other-io", text)]
    return [Warned("little-io", f"{little}: no storage for temp files can help much")]


def _about_part(workload: Workload) -> list[Warned]:
    """A recording that saw a part of the query, and what the rest may hold."""
    part, share = workload.part, workload.elapsed_s / workload.total_s
    unused = [Warned("not-used", f"not used: {reason}") for reason in workload.unused_hints]
    if part is not None:
        text, left = "this forecast is only for the recorded part; ", workload.min_remaining
        if left is not None and left.reads_bytes.low:
            low = format_bytes(left.reads_bytes.low)
            text += f"at least {low} in temp files remain to be read; "
        text += "--elapsed TIME gives one for the whole run"
        if part.what == "process" and part.because == "late":
            life_s = (part.before_s or 0.0) + part.recorded_s
            text += f" (--elapsed {life_s:.1f}s if the query started with its process)"
        warnings = [Warned("part-only", text), *unused]
        if left is not None and left.still_writing:
            warnings.insert(0, Warned("still-writing", left.open_ended_words))
        return warnings
    if workload.remaining is not None:
        text = (
            f"{share:.1%} of the query was recorded: the rest is forecast from what is known of it"
        )
        warnings = [Warned("part", text), *unused]
        if not any(load.op == "read" for load in workload.recorded_loads):
            text = (
                "no temp read was recorded: read latency here is a guess, and so is the elapsed "
                "time "
                "as it is; record a later part too"
            )
            warnings.append(Warned("unread", text))
        return warnings
    if not workload.is_part:
        return unused
    text = (
        f"{share:.1%} of the query was recorded: the rest is assumed to do temp I/O at the same "
        "rate"
    )
    warnings = [Warned("part", text), *unused]
    if workload.kind == "unread":
        unread_bytes = max(0, workload.moved_bytes("write") - workload.moved_bytes("read"))
        text = (
            f"{format_bytes(unread_bytes)} of temp files had been written and not yet "
            "read: "
            "more reads will follow; record a later part too"
        )
        warnings.append(Warned("unread", text))
    return warnings


def _about_threads(workload: Workload, projected: Projection) -> list[Warned]:
    """Threads of which it is not known, or much depends on, who waits for whom."""
    if workload.recorded_threads.threads == 1 or workload.quality.processes_unknown:
        return []
    if projected.spinning_s > SHARE_REPORTED * workload.elapsed_s:
        text = (
            "a thread used a CPU for longer than "
            f"{format_duration(BURST_MIN_S)} without a call while others did temp I/O, and no "
            "samples tell work from spinning: if it only waited for them, the run is "
            f"{format_duration(projected.spinning_s)} shorter; record with eBPF or perf events"
        )
        return [Warned("spinning", text)]
    if not workload.quality.wakings_seen:
        text = "several threads do temp I/O, and how they wait for each other was not recorded"
        return [Warned("threads", text)]
    overlap = projected.overlap
    if overlap.apart > 1 + DEPENDENT:
        text = (
            "threads wait for each other: the run takes "
            f"{format_duration(overlap.moving_s)} if a free thread can take over work, "
            f"{format_duration(overlap.fixed_s)} if not"
        )
        if overlap.replayed_s is not None:
            text += (
                "; a replay of all threads on the target took "
                f"{format_duration(overlap.replayed_s)}"
            )
        return [Warned("dependent", text)]
    return []


def _about_compression(workload: Workload, projected: Projection) -> list[Warned]:
    """Warn that an engine adapts compression to write speed, and so differs on the target."""
    if workload.compression is None or projected.compressed is None:
        return []
    was = workload.compression.share
    if abs(projected.compressed - was) < COMPRESSED_ALIKE:
        return []
    more = "more" if projected.compressed > was else "less"
    text = (
        f"{workload.compression.explained(more)}: about {projected.compressed:.0%} of its blocks "
        f"instead of {was:.0%}"
    )
    return [Warned("compression", text)]


def _about_machine(workload: Workload, projected: Projection) -> list[Warned]:
    """Warn that the CPU cost of waits is not calibrated on the machine, if much depends on it."""
    if workload.cpu.wait_cost is not None:
        return []
    if projected.drift_error_s <= UNCALIBRATED * (projected.total_s - projected.changes_s):
        return []
    text = (
        "the interval is wide because how waits change CPU time was never measured on the "
        "recording machine: run `spillcast calibrate` there"
    )
    return [Warned("uncalibrated", text)]


def _about_sizes(loads: Sequence[Load], latencies: Sequence[Latency]) -> list[Warned]:
    pairs, whole = list(zip(loads, latencies, strict=True)), sum(load.count for load in loads)
    beyond = sum(load.count for load, lat in pairs if lat.extrapolated) / whole
    between = sum(load.count for load, lat in pairs if not lat.measured) / whole - beyond
    warnings = []
    if beyond > SHARE_REPORTED:
        text = f"{beyond:.0%} of the I/O has sizes outside the measured range: extrapolated"
        warnings.append(Warned("extrapolated", text))
    if between > SHARE_REPORTED:
        error = max(lat.error for lat in latencies)
        text = (
            f"{between:.0%} of the I/O has sizes between the measured ones: interpolated, up to "
            f"{error:.0%} off"
        )
        warnings.append(Warned("sizes", text))
    return warnings


def page_cache_holds(projected: Projection) -> bool:
    """Whether the page cache before the target is taken to hold the temp files."""
    return projected.missed is not None and projected.missed <= SHARE_REPORTED


def _about_page_cache(
    workload: Workload, projected: Projection, uncached_s: float | None
) -> list[Warned]:
    """Warn that memory serves temp I/O on the target, where that makes a difference."""
    cache, missed = workload.threads.page_cache(workload.loads), projected.missed
    if cache is None or missed is None or uncached_s is None:
        return []
    if abs(uncached_s - projected.total_s) <= SHARE_REPORTED * projected.total_s:
        return []
    without = f"without it the run would take about {format_duration(uncached_s)}"
    if workload.counted:
        text = (
            "temp I/O was as fast as memory, so the page cache probably held the temp files; it is "
            f"assumed to hold all of them on the target too; {without}"
        )
    else:
        room, spill = format_bytes(cache.room_bytes), format_bytes(workload.held_bytes)
        text = (
            f"the page cache serves {1 - missed:.0%} of the temp I/O: temp files hold up to "
            f"{spill}, "
            f"and {room} of memory were free; {without}"
        )
    return [Warned("page-cache-answers", text)]


def _about_skipped_cache(baseline: Baseline, storage: Storage, forecast_s: float) -> list[Warned]:
    """Warn that an assumed latency also applies to I/O that the page cache served."""
    workload = baseline.workload
    on_disk = any(place.filesystem not in IN_MEMORY for place in workload.temp_places)
    if storage.source is not ASSUMED or not on_disk:
        return []
    if workload.threads.page_cache(workload.loads) is None:
        return []
    cached_s = projection(baseline, storage, cached=True).total_s
    if abs(cached_s - forecast_s) <= SHARE_REPORTED * forecast_s:
        return []
    text = (
        "every operation is assumed to take this long, even those that the page cache served in "
        f"the recording; if it serves them again, the run takes about {format_duration(cached_s)}"
    )
    return [Warned("page-cache-skipped", text)]
