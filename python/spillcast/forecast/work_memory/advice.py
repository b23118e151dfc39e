"""Work memory: whether more work_mem would remove a spill, what time that leaves, how sure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot
from typing import Any

from spillcast.evidence.postgres.nodes import amount, nodes_of
from spillcast.forecast.assumptions import MEMORY_SPREAD
from spillcast.forecast.more_memory import Spill, WorkMemory, WorkMemorySetting, io_share
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.ceiling import Ceiling
from spillcast.forecast.sum.shared import around, ends_of
from spillcast.forecast.work_memory.postgres import rounded_up
from spillcast.forecast.work_memory.spills import HASH_MEM_MULTIPLIER, spills_of
from spillcast.gate import reading
from spillcast.recording import Recording
from spillcast.recording.observed import meminfo_bytes

#: What is computed was up to a tenth less than what servers of version 15 and 18 took.
SPARE = 1.12
_UNITS = {"": 1024, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def work_memory(baseline: Baseline, confidence: float = CONFIDENCE) -> WorkMemory | None:
    """What more work_mem would do; None where no plan with its counts is known."""
    recording = baseline.recording
    plan = _plan(recording)
    if plan is None:
        return None
    with reading(f"{recording.path}: its plan"):
        settings = {**recording.meta.engine.settings, **plan.get("Settings", {})}
        name = "hash_mem_multiplier"
        multiplier = amount(float(settings.get(name, HASH_MEM_MULTIPLIER)), name)
        spills = spills_of(nodes_of(plan["Plan"]), multiplier)
    if not any(spill.weight for spill in spills):
        return None
    current = size_of_setting(settings["work_mem"]) if "work_mem" in settings else None
    needed = max(spill.needed_bytes for spill in spills)
    # It did spill, whatever the figures say.
    enough = rounded_up(max(SPARE * needed, (current or 0) + 1))
    one_pass = _single_pass_bytes(spills, current or 0, enough)
    without = _without_spill(baseline, enough, confidence)
    fewer = None
    if one_pass is not None:
        fewer = _between(baseline, without, one_pass, io_share(spills, one_pass))
    return WorkMemory(
        current_bytes=current,
        spills=spills,
        enough=without,
        one_pass=fewer,
        most_bytes=round(enough * sum(spill.taken for spill in spills)),
        available_bytes=_available_bytes(recording),
    )


def _without_spill(baseline: Baseline, work_mem_bytes: int, confidence: float) -> WorkMemorySetting:
    """With what is enough: as on storage of no latency, as far as other memory is no other work."""

    def bounds_s(ceiling: Ceiling) -> tuple[float, float]:
        known = ceiling.uncertainty
        below, above = (hypot(spread, MEMORY_SPREAD) for spread in (known.below, known.above))
        return replace(known, below=below, above=above).bounds_s(confidence)

    about_s, interval_s = baseline.ceiling.about_s, bounds_s(baseline.ceiling)
    if ends := ends_of(baseline):
        each = [interval_s, *(bounds_s(end.ceiling) for end in ends)]
        interval_s = around(each, most_s=max(baseline.whole_s, about_s))
    return WorkMemorySetting(work_mem_bytes, about_s, interval_s)


def _between(
    baseline: Baseline, enough: WorkMemorySetting, work_mem_bytes: int, share: float
) -> WorkMemorySetting:
    """With less than enough, where ``share`` of the temp I/O is left."""

    def left_s(without_s: float) -> float:
        return without_s + share * (baseline.whole_s - without_s)

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


def _plan(baseline: Recording) -> Mapping[str, Any] | None:
    """The plan of a recording in memory, or beside one on disk, if it was run and has buffers."""
    document, file = baseline.meta.engine.document, baseline.meta.engine.plan_file
    if file is not None and (path := baseline.path / file).is_file():
        from spillcast.evidence.postgres.document import read_documents

        document = read_documents(path)[0]
    plan = (document or {}).get("Plan", {})
    return document if {"Actual Loops", "Temp Written Blocks"} <= plan.keys() else None


def _available_bytes(baseline: Recording) -> int | None:
    return meminfo_bytes().get("MemAvailable") if baseline.meta.machine.is_this_one else None
