"""What more work memory would do, in words."""

from collections import Counter

from spillcast.forecast.work_memory.advice import Cure, WorkMemory
from spillcast.units import format_bytes, format_duration, format_setting


def work_memory_text(memory: WorkMemory) -> list[str]:
    """Sentences: what is enough and what it may take, and what spares a sort its passes."""
    enough = memory.enough
    was = f" (it was {format_setting(memory.current_bytes)})" if memory.current_bytes else ""
    lines = [
        f"work_mem = '{format_setting(enough.work_mem_bytes)}'{was} would remove the spill and "
        f"leave {_about(enough)}, if the plan stays as it is."
    ]
    if memory.one_pass is not None:
        size = format_setting(memory.one_pass.work_mem_bytes)
        lines.append(
            f"  '{size}' would spare a sort its further passes: {_about(memory.one_pass)}."
        )
    if any(spill.any_state for spill in memory.spills):
        lines.append(
            "  The plan does not show how large the states of its hash aggregate are: sums and "
            "averages fit in this, array_agg and string_agg may need more."
        )
    lines.append(f"  {_price(memory)}")
    return lines


def _about(cure: Cure) -> str:
    low, high = map(format_duration, cure.interval_s)
    return f"about {format_duration(cure.forecast_s)} ({low} to {high})"


def _price(memory: WorkMemory) -> str:
    """It counts for each node in each process, and a hash may take a multiple."""
    size = format_setting(memory.enough.work_mem_bytes)
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
        available = format_bytes(memory.available_bytes)
        enough = memory.most_bytes < memory.available_bytes
        text += f", and this machine has {available} available" + ("" if enough else ": too little")
    return f"{text}; in every session that has it set."
