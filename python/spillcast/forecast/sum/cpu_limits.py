"""Warnings about CPU limits: what they hold back, and where the amount is unknown."""

from spillcast.forecast.assumptions import THROTTLED_REPORTED
from spillcast.forecast.result import Warned
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.threads.cpus import Cpus, quota_exceeded
from spillcast.forecast.threads.simulated import Simulated
from spillcast.units import format_duration

_HINT = "record it again"


def unknown_limits(baseline: Baseline, simulated: Simulated) -> str | None:
    """Why CPU limits leave no number for a target; None where they do.

    Where it was not seen how much CPU time threads had between waits, it may be all the time.
    """
    threads, recording = baseline.threads, baseline.recording
    limited = threads.source.quota_ns or threads.target.quota_ns or threads.source != threads.target
    if not limited or threads.cpu_known:
        return None
    unseen = "the recording does not contain the CPU time of the threads"
    if threads.source != threads.target:
        return f"--cpus or --cpu-quota differ from the recording, and {unseen}: {_HINT}"
    throttled_s = recording.meta.cpu_limits.throttled_s or 0.0
    if throttled_s > THROTTLED_REPORTED * recording.elapsed_s:
        held = f"{_quota(threads.source)} throttled it for {format_duration(throttled_s)}"
        return f"{held}, and {unseen}: {_HINT}"
    if threads.throttled_share(simulated) > THROTTLED_REPORTED:
        return f"{_quota(threads.target)} may throttle it there, and {unseen}: {_HINT}"
    return None


def about_cpu_limits(baseline: Baseline, throttled_share: float) -> list[Warned]:
    """Warn that a quota held the run back, or would on the target."""
    threads, recording = baseline.threads, baseline.recording
    if quota_exceeded(recording) and threads.target.quota_ns is None:
        quota = f"a CPU quota of {recording.meta.cpu_limits.quota_cpus:g} CPUs"
        text = f"{quota} was seen, but the query had more CPU time: the forecast is without one"
        return [Warned("quota", text)]
    if threads.source.quota_ns is None and threads.target.quota_ns is None:
        return []
    throttled_s = recording.meta.cpu_limits.throttled_s or 0.0
    was = throttled_s > THROTTLED_REPORTED * recording.elapsed_s
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
