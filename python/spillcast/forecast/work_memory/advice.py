"""Work memory: whether more work_mem would remove a spill, what time that leaves, how sure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot
from pathlib import Path
from typing import Any

from spillcast.evidence.counts import Counts
from spillcast.forecast.assumptions import MEMORY_SPREAD
from spillcast.forecast.elapsed import Elapsed, zero_latency
from spillcast.forecast.more_memory import Spill, WorkMemory, WorkMemorySetting, io_share
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.work_memory.postgres import rounded_up
from spillcast.forecast.workload import PlanSpills, Workload
from spillcast.gate import reading
from spillcast.recording import Recording
from spillcast.recording.observed import meminfo_bytes

#: What is computed was up to a tenth less than what servers of version 15 and 18 took.
SPARE = 1.12
_UNITS = {"": 1024, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def plan_spills(recording: Recording) -> PlanSpills | None:
    """The nodes that spill of the plan beside a recording, if it was run and has buffers."""
    file = recording.meta.engine.plan_file
    if file is None or not (path := recording.path / file).is_file():
        return None
    from spillcast.evidence.postgres.document import read_documents

    settings, machine = recording.meta.engine.settings, recording.meta.machine
    available = meminfo_bytes().get("MemAvailable") if machine.is_this_one else None
    return _spills(recording.path, read_documents(path)[0], settings, available)


def plan_spills_of(counts: Counts) -> PlanSpills | None:
    """The nodes that spill of the plan that counts are from."""
    return _spills(counts.path, counts.engine.document, counts.engine.settings, None)


def _spills(
    path: Path,
    document: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    available_bytes: int | None,
) -> PlanSpills | None:
    plan = (document or {}).get("Plan", {})
    if document is None or not {"Actual Loops", "Temp Written Blocks"} <= plan.keys():
        return None
    from spillcast.evidence.postgres.nodes import amount, nodes_of
    from spillcast.forecast.work_memory.spills import HASH_MEM_MULTIPLIER, spills_of

    with reading(f"{path}: its plan"):
        settings = {**settings, **document.get("Settings", {})}
        name = "hash_mem_multiplier"
        multiplier = amount(float(settings.get(name, HASH_MEM_MULTIPLIER)), name)
        spills = spills_of(nodes_of(plan), multiplier)
    if not any(spill.weight for spill in spills):
        return None
    current = size_of_setting(settings["work_mem"]) if "work_mem" in settings else None
    return PlanSpills(spills, current, available_bytes)


def work_memory(workload: Workload, confidence: float = CONFIDENCE) -> WorkMemory | None:
    """What more work_mem would do; None where no plan with its counts is known."""
    plan = workload.plan
    if plan is None:
        return None
    spills, current = plan.spills, plan.current_bytes
    needed = max(spill.needed_bytes for spill in spills)
    # It did spill, whatever the figures say.
    enough = rounded_up(max(SPARE * needed, (current or 0) + 1))
    one_pass = _single_pass_bytes(spills, current or 0, enough)
    without = _without_spill(workload, enough, confidence)
    fewer = None
    if one_pass is not None:
        fewer = _between(workload, without, one_pass, io_share(spills, one_pass))
    return WorkMemory(
        current_bytes=current,
        spills=spills,
        enough=without,
        one_pass=fewer,
        most_bytes=round(enough * sum(spill.taken for spill in spills)),
        available_bytes=plan.available_bytes,
    )


def _without_spill(workload: Workload, work_mem_bytes: int, confidence: float) -> WorkMemorySetting:
    """With what is enough: as on storage of no latency, as far as other memory is no other work."""

    def bounds_s(elapsed: Elapsed) -> tuple[float, float]:
        known = elapsed.uncertainty
        below, above = (hypot(spread, MEMORY_SPREAD) for spread in (known.below, known.above))
        return replace(known, below=below, above=above).bounds_s(confidence)

    zero = zero_latency(workload)
    intervals = [bounds_s(zero), *(bounds_s(zero_latency(at)) for at in workload.at_bounds)]
    low_s, high_s = intervals[0]
    if workload.at_bounds:
        max_s = max(workload.total_s, zero.forecast_s)
        low_s = min(*(low for low, _ in intervals), max_s)
        high_s = min(max(high for _, high in intervals), max_s)
    return WorkMemorySetting(work_mem_bytes, zero.forecast_s, (low_s, high_s))


def _between(
    workload: Workload, enough: WorkMemorySetting, work_mem_bytes: int, share: float
) -> WorkMemorySetting:
    """With less than enough, where ``share`` of the temp I/O is left."""

    def left_s(without_s: float) -> float:
        return without_s + share * (workload.total_s - without_s)

    low_s, high_s = enough.interval_s
    return WorkMemorySetting(
        work_mem_bytes, left_s(enough.forecast_s), (left_s(low_s), left_s(high_s))
    )


def size_of_setting(text: str) -> int:
    """Bytes of a setting as PostgreSQL writes it: ``64MB``, ``4096kB``, or kB without a unit."""
    match = re.fullmatch(r"\s*(\d+)\s*+([a-zA-Z]*)\s*", str(text))
    return int(match[1]) * _UNITS.get(match[2].lower(), 1024) if match else 0


def _single_pass_bytes(spills: Sequence[Spill], current: int, enough: int) -> int | None:
    sorts = [spill for spill in spills if (spill.passes or 1) > 1]
    if not sorts:
        return None
    size = rounded_up(current + 1)
    while any((spill.passes_with(size) or 1) > 1 for spill in sorts):
        size = rounded_up(size + 1)
    return size if 2 * size <= enough else None
