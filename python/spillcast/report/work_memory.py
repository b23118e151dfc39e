"""What more work memory would do, in words."""

from collections import Counter
from collections.abc import Sequence

from spillcast.forecast import Forecast
from spillcast.forecast.work_memory.advice import Cure, WorkMemory
from spillcast.units import format_bytes, format_duration


def leads(memory: WorkMemory, forecasts: Sequence[Forecast]) -> bool:
    """Whether enough is sure to be faster than the run as it is and on any storage asked about.

    And there, where that is known.
    """
    if memory.available_bytes is not None and memory.most_bytes >= memory.available_bytes:
        return False
    lows_s = [one.interval_s[0] for one in forecasts if one.interval_s is not None]
    return memory.enough.wins([forecasts[0].baseline_s, *lows_s])


def work_memory_said(memory: WorkMemory, best: Forecast, *, first: bool) -> list[str]:
    """Sentences: the cure beside the best storage's, what it may take; ``first`` where it leads."""
    enough = memory.enough
    was = f" (it was {setting(memory.current_bytes)})" if memory.current_bytes else ""
    text = (
        f"{'Work memory first' if first else 'Work memory'}: "
        f"work_mem = '{setting(enough.work_mem_bytes)}'{was} would remove the spill and leave "
        f"{_about(enough)}, if the plan stays as it is"
    )
    if best.forecast_s is not None:
        text += f"; {best.target} about {format_duration(best.forecast_s)}"
    if not enough.wins([best.baseline_s]):
        now = format_duration(best.baseline_s)
        text += f". It may as well be slower than the {now} now: try it before"
    lines = [f"{text}."]
    if memory.one_pass is not None:
        size = setting(memory.one_pass.work_mem_bytes)
        lines.append(
            f"  '{size}' would spare a sort its further passes: {_about(memory.one_pass)}."
        )
    lines.append(f"  {_price(memory)}")
    return lines


def _about(cure: Cure) -> str:
    low, high = map(format_duration, cure.interval_s)
    return f"about {format_duration(cure.forecast_s)} ({low} to {high})"


def setting(size: int) -> str:
    """Bytes as PostgreSQL writes a setting: ``64MB``, ``1536kB``."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20)):
        if size % scale == 0 and size:
            return f"{size // scale}{unit}"
    return f"{size // 1024}kB"


def _price(memory: WorkMemory) -> str:
    """It counts for each node in each process, and a hash may take a multiple."""
    size = setting(memory.enough.work_mem_bytes)
    kinds = Counter((s.kind, s.processes, s.taken / s.processes) for s in memory.spills)
    parts = []
    for (kind, processes, times), count in kinds.items():
        plural = "" if count == 1 else "es" if kind == "hash" else "s"
        words = [f"{count} {kind}{plural}"]
        words += [f"x {processes} processes"] * (processes > 1) + [f"x {size}"]
        words += [f"x {times:g}"] * (times != 1)
        parts.append(" ".join(words))
    most = format_bytes(memory.most_bytes)
    text = f"It counts for each node in each process: {' + '.join(parts)} may take {most}"
    if memory.available_bytes is not None:
        there = format_bytes(memory.available_bytes)
        enough = memory.most_bytes < memory.available_bytes
        text += f", and this machine has {there} available" + ("" if enough else ": too little")
    return f"{text}; in every session that has it set."
