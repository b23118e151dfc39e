"""What weakens a forecast, said in words; and what forbids one."""

from collections.abc import Sequence

from spillcast.forecast.assumptions import (
    AMPLIFIED,
    BUSY_MAX,
    BUSY_REPORTED,
    CHANGES_REPORTED,
    COMPRESSED_ALIKE,
    DEPENDENT,
    IO_MOST,
    LITTLE,
    SEEN_MIN,
    SHARE_REPORTED,
    UNCALIBRATED,
)
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load, sessions
from spillcast.forecast.result import Warned
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.coverage import is_part, kind_of_evidence, unread_bytes
from spillcast.forecast.sum.cpu_limits import about_cpu_limits
from spillcast.forecast.sum.projection import Projection
from spillcast.forecast.sum.shared import known_from, unknown_words
from spillcast.forecast.sum.target_warnings import about_storages
from spillcast.recording import Recording
from spillcast.recording.completeness import DIFFERENCE_MAX, large_other_io, unrecognised
from spillcast.recording.thread_trace import wakings_seen
from spillcast.storage import Storage
from spillcast.units import format_bytes, format_duration


def refusal(baseline: Baseline) -> str | None:
    """Why a recording carries no number for the query; None where it does."""
    recording, whole_s = baseline.recording, baseline.whole_s
    capture, unseen = recording.meta.capture, recording.meta.unseen
    if unseen.excessive:
        return f"{unseen.text}; {unseen.remedy}"
    for check in recording.contradictions:
        if check.difference > DIFFERENCE_MAX:
            return f"parts of the recording contradict each other: {check.text}; record again"
    if capture.io_uring_depth > 1:
        at_once = f"up to {capture.io_uring_depth:,} at once"
        return f"temp files are read or written through io_uring, {at_once}: their times overlap"
    if capture.io_uring_busy_s > BUSY_MAX * recording.meta.temp.total_s:
        busy = format_duration(capture.io_uring_busy_s)
        return f"while temp I/O was under way in io_uring, its threads did other work for {busy}"
    io_s = sum(baseline.io_s) + baseline.changes_s
    if io_s > IO_MOST * whole_s:
        took, whole = format_duration(io_s), format_duration(whole_s)
        return (
            f"its temp I/O takes {took}, longer than the elapsed time of {whole}: give the time of "
            "the whole query with --elapsed"
        )
    share = recording.elapsed_s / whole_s
    if baseline.to_come is not None:
        return None
    if share < SEEN_MIN and kind_of_evidence(recording, whole_s) == "unread":
        return (
            f"only {share:.1%} of the query was recorded, and hardly any temp data had been read "
            "back"
        )
    return None


def warn(
    baseline: Baseline, target: Storage, projection: Projection, ceiling_s: float
) -> list[Warned]:
    """Everything a reader of the number should know. ``ceiling_s`` is with no latency at all."""
    recording, loads, latencies = baseline.recording, baseline.loads, projection.latencies
    warnings = [
        *_about_part(baseline),
        *_about_recording(baseline),
        *about_cpu_limits(baseline, projection.throttled_share),
        *_about_cold_data(baseline),
        *_about_little_io(baseline, ceiling_s),
        *_about_threads(recording, projection),
        *_about_compression(baseline, projection),
        *_about_machine(baseline, projection),
        *(Warned(*warning) for warning in target.source.warnings),
        *(_about_sizes(loads, latencies) if not target.source.any_size else []),
        *about_storages(recording, target, loads),
    ]
    if projection.saturated:
        text = f"the query would wait for the limit of {target.name}: {projection.saturated}"
        warnings.append(Warned("limit", text))
    if projection.changes_kept_s > CHANGES_REPORTED * baseline.whole_s:
        text = (
            "the time to create, resize and remove temp files there is not known: "
            f"{format_duration(projection.changes_kept_s)} is assumed, as recorded"
        )
        warnings.append(Warned("changes-kept", text))
    recorded_s = sum(load.total_s for load in loads)
    target_s = sum(load.count * lat.mean_s for load, lat in zip(loads, latencies, strict=True))
    if target_s > AMPLIFIED * recorded_s > 0:
        text = f"latency grows {target_s / recorded_s:.0f}-fold: threads may overlap differently"
        warnings.append(Warned("amplified", text))
    return warnings


def _about_recording(baseline: Baseline) -> list[Warned]:
    recording = baseline.recording
    capture, warnings = recording.meta.capture, []
    unseen = recording.meta.unseen
    if unseen.notable:
        warnings.append(Warned("unseen", f"{unseen.text}; {unseen.remedy}"))
    warnings += [Warned("contradiction", check.text) for check in recording.contradictions]
    others_s = baseline.others_s
    if others_s > BUSY_REPORTED * recording.elapsed_s:
        text = (
            f"the query was runnable but not scheduled for {format_duration(others_s)}, because "
            "other "
            "programs used the CPUs"
        )
        warnings.append(Warned("run-queue", text))
    # Where it is known how long they took they are data reads, a term of the forecast.
    temp, faults = recording.meta.temp, (capture.file_faults or 0)
    faults *= capture.file_fault_s is None
    if faults * temp.total_s / max(temp.operations, 1) > SHARE_REPORTED * recording.elapsed_s:
        text = f"{faults:,} page faults read files: this is not temp I/O, and its time is kept"
        warnings.append(Warned("file-faults", text))
    if recording.meta.only_counts:
        text = (
            "only total counts and times are known, not caching, other load on the machine or the "
            "order of operations"
        )
        if capture.absent_because is not None:
            text = f"no I/O was recorded ({capture.absent_because}), so the plan is used: {text}"
        warnings.append(Warned("counts-only", text))
    warnings += [Warned("untold", text) for text in recording.meta.temp.untold]
    if (words := unknown_words(recording)) is not None:
        text = f"{words}; the interval covers both bounds, and {known_from(recording)}"
        if recording.ends is not None:
            warnings.append(Warned("io-unknown", text))
        elif (within := recording.meta.temp.within) is None:
            warnings.append(Warned("processes", text))
        elif within.close:
            warnings.append(Warned("untold", text))
        else:
            warnings.append(Warned("time-unknown", text))
    if (storage := recording.meta.temp.timed_on) is not None:
        text = f"temp I/O was not timed: the latency of {storage} is assumed"
        warnings.append(Warned("assumed", text))
    return warnings


def _about_cold_data(baseline: Baseline) -> list[Warned]:
    """Warn that data came from storage, which a second run may find in memory."""
    cold = baseline.cold_data
    if cold is None or cold.baseline_s <= SHARE_REPORTED * baseline.whole_s:
        return []
    took, whole = map(format_duration, (cold.baseline_s, baseline.whole_s))
    warm = format_duration(baseline.whole_s - cold.baseline_s)
    text = (
        f"{took} of the {whole} were reads of data files that were not cached: moving temp files "
        f"does not change that, and with warm caches the run takes about {warm} today; to "
        "compare runs, record one with caches as warm as theirs"
    )
    return [Warned("cold-data", text)]


def _about_little_io(baseline: Baseline, ceiling_s: float) -> list[Warned]:
    """Warn that temp I/O is a small part of the run, or of its I/O."""
    recording = baseline.recording
    share = (sum(baseline.io_s) + baseline.changes_s) / baseline.whole_s
    little = f"temp I/O is only {share:.0%} of the time"
    if (text := unrecognised(recording)) is not None:
        return [Warned("other-io", text)]
    within = recording.meta.temp.within
    if ceiling_s <= LITTLE * baseline.whole_s or (within is not None and not within.close):
        return []
    if large_other_io(recording):
        other = format_duration(recording.meta.other_io.total_s)
        text = f"{little}, I/O on other files took {other}: the forecast keeps that unchanged"
        return [Warned("other-io", text)]
    return [Warned("little-io", f"{little}: no storage for temp files can help much")]


def _about_part(baseline: Baseline) -> list[Warned]:
    """A recording that saw a part of the query, and what the rest may hold."""
    recording, whole_s, part = baseline.recording, baseline.whole_s, baseline.part
    unused = [Warned("not-used", f"not used: {reason}") for reason in baseline.unused]
    if part is not None:
        text = "this forecast is only for the recorded part; "
        if baseline.unread_bytes:
            left = format_bytes(baseline.unread_bytes)
            text += f"at least {left} in temp files remain to be read; "
        text += "--elapsed TIME gives one for the whole run"
        if part.what == "process" and part.because == "late":
            life_s = (part.before_s or 0.0) + part.recorded_s
            text += f" (--elapsed {life_s:.1f}s if the query started with its process)"
        return [Warned("part-only", text), *unused]
    if baseline.to_come is not None:
        share = recording.elapsed_s / whole_s
        text = (
            f"{share:.1%} of the query was recorded: the rest is forecast from what is known of it"
        )
        part_warnings = [Warned("part", text), *unused]
        if not any(load.op == "read" for load in baseline.recorded):
            text = (
                "no temp read was recorded: read latency here is a guess, and so is the elapsed "
                "time "
                "as it is; record a later part too"
            )
            part_warnings.append(Warned("unread", text))
        return part_warnings
    if not is_part(recording, whole_s):
        return unused
    share = recording.elapsed_s / whole_s
    text = (
        f"{share:.1%} of the query was recorded: the rest is assumed to do temp I/O at the same "
        "rate"
    )
    warnings = [Warned("part", text), *unused]
    if kind_of_evidence(recording, whole_s) == "unread":
        text = (
            f"{format_bytes(unread_bytes(recording))} of temp files had been written and not yet "
            "read: "
            "more reads will follow; record a later part too"
        )
        warnings.append(Warned("unread", text))
    return warnings


def _about_threads(recording: Recording, projection: Projection) -> list[Warned]:
    """Threads of which it is not known, or much depends on, who waits for whom."""
    if sessions(recording) == 1 or recording.meta.temp.shared_by is not None:
        return []
    if not wakings_seen(recording):
        text = "several threads do temp I/O, and how they wait for each other was not recorded"
        return [Warned("threads", text)]
    overlap = projection.overlap
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


def _about_compression(baseline: Baseline, projection: Projection) -> list[Warned]:
    """Warn that an engine adapts compression to write speed, and so differs on the target."""
    if baseline.compression is None or projection.compressed is None:
        return []
    was = baseline.compression.share
    if abs(projection.compressed - was) < COMPRESSED_ALIKE:
        return []
    more = "more" if projection.compressed > was else "less"
    text = (
        f"DuckDB would compress {more}, because it chooses by how long writes take: about "
        f"{projection.compressed:.0%} of its blocks instead of {was:.0%}"
    )
    return [Warned("compression", text)]


def _about_machine(baseline: Baseline, projection: Projection) -> list[Warned]:
    """Warn that the CPU cost of waits is not calibrated on the machine, if much depends on it."""
    if baseline.recording.meta.machine.calibration is not None:
        return []
    forecast_s = baseline.remainder_s + baseline.limits_s
    forecast_s += projection.drift_s + sum(projection.io_s)
    if projection.drift_error_s <= UNCALIBRATED * forecast_s:
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
