"""What weakens a forecast, said in words; and what forbids one."""

from collections.abc import Sequence

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load, sessions
from spillcast.forecast.result import Warned
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.units import format_bytes, format_duration

LOST_SHARE_MAX = 0.02
#: Latency ratio from which a small error of the baseline becomes a large one of the forecast.
AMPLIFIED = 20.0


def refusal(baseline: Recording) -> str | None:
    """Why this recording carries no number at all; None where it does."""
    capture = baseline.meta["capture"]
    seen = baseline.meta["temp"]["reads"] + baseline.meta["temp"]["writes"]
    # Every call leaves two records, so this is the larger share.
    share = capture["lost"] / max(1, capture["lost"] + seen)
    if share > LOST_SHARE_MAX:
        return f"{capture['lost']:,} reports were lost, {share:.0%} of what there was: record again"
    if capture["mapped_temp_files"]:
        return "temp files are mapped into memory: their I/O makes no call that could be counted"
    if capture["io_uring"]:
        return "the process uses io_uring: its I/O makes no call that could be counted"
    return None


def warn(
    baseline: Recording,
    target: Storage,
    loads: Sequence[Load],
    found: Sequence[Latency],
    rest_share: float,
) -> list[Warned]:
    """Everything a reader of the number should know."""
    return [
        *_about_recording(baseline, rest_share),
        *_about_target(target, loads, found),
    ]


def _about_recording(baseline: Recording, rest_share: float) -> list[Warned]:
    capture, warnings = baseline.meta["capture"], []
    if capture["lost"]:
        warnings.append(Warned("lost", f"{capture['lost']:,} reports of the capture were lost"))
    seen = baseline.meta["temp"]["reads"] + baseline.meta["temp"]["writes"]
    if capture["unknown_file"] > 0.01 * seen:
        count = f"{capture['unknown_file']:,}"
        warnings.append(
            Warned("unknown-file", f"{count} calls were on files closed before they could be seen")
        )
    delay_s = capture["run_queue_delay_s"]
    if delay_s > 0.05 * baseline.elapsed_s:
        text = f"the query stood {format_duration(delay_s)} ready without a CPU: a busy machine"
        warnings.append(Warned("run-queue", text))
    if sessions(baseline) > 1:
        text = "several threads do temp I/O; where they wait for each other, the number is rough"
        warnings.append(Warned("threads", text))
    if rest_share > 0.9:
        text = f"temp I/O is only {1 - rest_share:.0%} of the time: no storage can help much"
        warnings.append(Warned("little-io", text))
    return warnings


def _about_target(target: Storage, loads: Sequence[Load], found: Sequence[Latency]) -> list[Warned]:
    warnings = []
    if target.source == "asked":
        warnings.append(Warned("not-measured", "nothing was measured: the latency is a wish"))
    guessed = [load for load, lat in zip(loads, found, strict=True) if not lat.measured]
    share = sum(load.count for load in guessed) / sum(load.count for load in loads)
    if share > 0.05:
        text = f"{share:.0%} of the I/O has sizes that were not measured: taken from others"
        warnings.append(Warned("sizes", text))
    here_s = sum(load.total_s for load in loads)
    there_s = sum(load.count * lat.mean_s for load, lat in zip(loads, found, strict=True))
    if there_s > AMPLIFIED * here_s:
        text = f"latency grows {there_s / here_s:.0f}-fold: how threads overlap may change"
        warnings.append(Warned("amplified", text))
    replayed, skipped = target.facts.get("steps_replayed", 0), target.facts.get("steps_skipped", 0)
    if skipped:
        text = f"the probe's budget allowed for {replayed / (replayed + skipped):.0%} of the I/O"
        warnings.append(Warned("budget", text))
    prefilled = target.facts.get("prefilled_bytes", 0)
    read = sum(load.bytes for load in loads if load.op == "read")
    if read and prefilled > 0.1 * read:
        text = (
            f"{format_bytes(prefilled)} were read without a recorded write: cached more than real"
        )
        warnings.append(Warned("prefilled", text))
    return warnings
