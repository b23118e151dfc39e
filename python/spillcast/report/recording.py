"""A recording in words, under way and when it is done."""

from collections.abc import Mapping
from typing import Any

from spillcast.recording import Recording
from spillcast.units import format_bytes, format_duration


def status_line(status: Mapping[str, Any]) -> str:
    """One line while recording: rate, share of time, latency, size, loss."""
    elapsed_s = max(status["elapsed_ns"], 1) / 1e9
    count = status["temp_reads"] + status["temp_writes"]
    temp_s = status["temp_ns"] / 1e9
    latency = format_duration(temp_s / count) if count else "-"
    size = format_bytes(status["temp_bytes"])
    line = (
        f"recording {format_duration(elapsed_s)}  temp I/O {count / elapsed_s:,.0f}/s  "
        f"{temp_s / elapsed_s:.0%} of the time  mean {latency}  {size}"
    )
    return line + (f"  lost {status['lost']:,}" if status["lost"] else "")


def recording_text(recording: Recording) -> str:
    """What was recorded, what it cost, and what to do next."""
    meta = recording.meta
    temp, capture = meta["temp"], meta["capture"]
    count = temp["reads"] + temp["writes"]
    lines = [
        f"{recording.path}: {format_duration(recording.elapsed_s)} recorded",
        f"  temp I/O   {temp['reads']:,} reads, {temp['writes']:,} writes, "
        f"{format_bytes(temp['bytes'])}; {format_duration(temp['total_s'])} in all, "
        f"mean {format_duration(temp['total_s'] / count)}",
        f"  capture    {capture['method']}: {capture['lost']:,} lost, cost about "
        f"{format_duration(capture['overhead_s'])} of the process and "
        f"{format_duration(capture['tracer_cpu_s'])} of another CPU",
    ]
    slices = meta["raw"]["slices_s"]
    if slices is not None:
        lines.append(f"  kept       {meta['raw']['rows']:,} waits in {len(slices)} slices")
    lines += [f"  warning    {text}" for text in _warnings(capture)]
    lines.append(f"  next       spillcast forecast {recording.path} --to DIRECTORY")
    return "\n".join(lines)


def _warnings(capture: Mapping[str, Any]) -> list[str]:
    texts = []
    if capture["io_uring"]:
        texts.append("the process uses io_uring; that I/O is not in the recording")
    if capture["mapped_temp_files"]:
        names = ", ".join(capture["mapped_temp_files"][:3])
        texts.append(
            f"temp files are mapped into memory ({names}); that I/O is not in the recording"
        )
    if capture["dropped"]:
        texts.append(f"{capture['dropped']:,} single waits were dropped; the seconds are whole")
    if capture["unknown_file"]:
        texts.append(
            f"{capture['unknown_file']:,} calls were on files closed before they were seen"
        )
    return texts
