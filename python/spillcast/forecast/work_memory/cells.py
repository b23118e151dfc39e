"""Work memory by storage, from one recording: what each pair of them would take.

    T(M, S) = R + share(M) * IO(S)

share(M) is the temp I/O with so much memory over what it was, by PostgreSQL's own arithmetic. R is
that of the forecast: what the CPU spares by not spilling comes on top.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spillcast.forecast.result import Forecast
from spillcast.forecast.work_memory.advice import WorkMemory
from spillcast.forecast.work_memory.cheapest import Advice, Cell
from spillcast.forecast.work_memory.postgres import power_of_two

#: The storage that the recording was made on.
NOW = "now"
#: What PostgreSQL takes at least.
WORK_MEM_MIN_BYTES = 64 << 10
#: From so much less than it was.
LESS = 4


def memory_cells(words: Sequence[str], forecasts: Sequence[Forecast]) -> list[Cell]:
    """Cells of the storage as it is and of each target, by its word.

    Where no plan is known there is one size, None: what it was. Refused targets have no cells.
    """
    said = [(word, one) for word, one in zip(words, forecasts, strict=True) if one.forecast_s]
    if not said:
        return []
    here = said[0][1]
    memory = here.work_memory
    sizes: Sequence[int | None] = [None] if memory is None else memory_sizes(memory)
    io_s = sum(term.baseline_s for term in here.terms if term.op)
    cells = [Cell(NOW, size, _with(here.baseline_s, io_s, memory, size)) for size in sizes]
    for word, one in said:
        total_s, bounds = one.forecast_s or 0.0, one.interval_s or (0.0, 0.0)
        io_s = sum(term.forecast_s for term in one.terms if term.op)
        for size in sizes:
            elapsed_s = _with(total_s, io_s, memory, size)
            low_s, high_s = (elapsed_s * bound_s / total_s for bound_s in bounds)
            cells.append(Cell(word, size, elapsed_s, (low_s, high_s)))
    return cells


def memory_document(cells: Sequence[Cell], advice: Advice | None) -> dict[str, Any]:
    """The entry of docs/schema.md."""
    return {
        "cells": [asdict(cell) for cell in cells],
        "advice": None if advice is None else advice.to_json(),
    }


def memory_sizes(memory: WorkMemory) -> list[int]:
    """Powers of two from less than it was to what is enough, and these two."""
    enough = memory.enough.work_mem_bytes
    current = memory.current_bytes or enough // 64
    least = max(power_of_two(current // LESS), WORK_MEM_MIN_BYTES)
    sizes = {least << number for number in range((enough // least).bit_length())}
    known = {memory.current_bytes} if memory.current_bytes else set()
    return sorted({size for size in sizes | known if size < enough} | {enough})


def _with(elapsed_s: float, io_s: float, memory: WorkMemory | None, size: int | None) -> float:
    if memory is None or size is None:
        return elapsed_s
    return elapsed_s - io_s * (1 - memory.io_share(size))
