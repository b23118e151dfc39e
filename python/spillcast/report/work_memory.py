"""More work memory: sentences, and a table by storage."""

from collections import Counter
from collections.abc import Sequence

from spillcast.evidence.postgres.work_memory import PlanSpills, enough_bytes
from spillcast.forecast import Forecast
from spillcast.forecast.work_memory import (
    NOW,
    PGA_TARGET,
    MemoryAdvice,
    MemoryCell,
    MorePga,
    SpilledLines,
    WorkMemoryEffect,
    WorkMemorySetting,
    memory_sizes,
    with_memory,
)
from spillcast.report import PagePart, Prose
from spillcast.tabular import Column, PrintedTable
from spillcast.text import plan_line_text
from spillcast.units import (
    format_bytes,
    format_duration,
    format_estimate,
    format_interval,
    format_setting,
)

#: Upper limit of a serial query's work area, and of all work areas of a parallel query, as shares
#: of pga_aggregate_target; by undocumented parameters of Oracle (since 10.2).
SERIAL_SHARE, PARALLEL_SHARE = 0.1, 0.5


def work_memory_text(forecast: Forecast) -> list[str]:
    """Sentences about enough work memory, its upper bound, and one pass for sorts."""
    memory, is_bounded = forecast.work_memory, forecast.unknown_share is not None
    assert memory is not None
    enough = memory.enough
    was = f" (it was {format_setting(memory.current_bytes)})" if memory.current_bytes else ""
    lines = [
        f"With work_mem = '{format_setting(enough.work_mem_bytes)}'{was} nothing spills: "
        f"{_about(enough, is_bounded)}, if the plan stays as it is."
    ]
    plan = PlanSpills(memory.spills, memory.current_bytes)
    if plan.spills and (least_bytes := enough_bytes(plan, least=True)) < enough.work_mem_bytes:
        lines.append(
            f"  From PostgreSQL 15 on '{format_setting(least_bytes)}' may be enough: the plan does "
            "not contain hash_mem_multiplier, which SETTINGS shows."
        )
    if (in_one_pass := memory.one_pass) is not None:
        size, about = format_setting(in_one_pass.work_mem_bytes), _about(in_one_pass, is_bounded)
        lines.append(f"  With work_mem = '{size}' sorts finish in one pass: {about}.")
    if any(spill.any_state for spill in memory.spills):
        lines.append(
            "  The plan does not show the size of aggregate states: sums and averages fit, "
            "array_agg and string_agg may need more."
        )
    lines.append(f"  {_price(memory)}")
    return lines


def _about(setting: WorkMemorySetting, is_bounded: bool) -> str:
    if is_bounded:
        return format_interval(setting.interval_s)
    return f"about {format_estimate(setting.forecast_s, setting.interval_s)}"


def _price(memory: WorkMemoryEffect) -> str:
    """The memory that the setting allows: per node and process, and a multiple of it for hashes."""
    size = format_setting(memory.enough.work_mem_bytes)
    kinds = Counter((s.kind, s.processes, s.taken / s.processes) for s in memory.spills)
    parts = []
    for (kind, processes, times), count in kinds.items():
        plural = "" if count == 1 else "es" if kind == "hash" else "s"
        words = [f"{count} {kind}{plural}"]
        words += [f"x {processes} processes"] * (processes > 1) + [f"x {size}"]
        words += [f"x {times:g}"] * (times != 1)
        parts.append(" ".join(words))
    upper = format_bytes(memory.most_bytes)
    text = f"Each node of each process may use that much: {' + '.join(parts)}, up to {upper}"
    if memory.available_bytes is not None:
        available = format_bytes(memory.available_bytes)
        text += f"; this machine has {available} available"
        text += "" if memory.fits else ", too little"
    return f"{text}. It applies to every session that has the setting."


def spilled_sentences(spilled: SpilledLines) -> list[str]:
    """The line of an Oracle plan that spills, and the effect of more PGA."""
    lines = []
    if spilled.lines:
        line = spilled.lines[0]
        words = {0: "memory by now", 1: "one pass"}.get(line.passes or 0, f"{line.passes} passes")
        passes = "" if line.passes is None else f", in {words}"
        name = plan_line_text(line.operation, line.plan_line)
        lines.append(f"{name} does {100 * line.share:.0f} % of the spill{passes}.")
    if spilled.more_pga is not None:
        lines += _pga_sentences(spilled.more_pga)
    return lines


def _pga_sentences(more: MorePga) -> list[str]:
    several = more.work_areas > 1
    areas = f"its {more.work_areas} work areas that spill"
    areas = areas if several else "the work area that spills"
    source = "by Oracle's estimate" if more.estimated else "by what it held and spilled so far"
    held, needed = format_bytes(more.held_bytes), format_bytes(more.needed_bytes)
    text = f"More PGA instead: {areas} held {held} and would need about {needed}, {source}"
    if more.forecast_s is not None and more.interval_s is not None:
        left = format_estimate(more.forecast_s, more.interval_s)
        text += f"; that would leave about {left}, if the plan stays as it is"
    lines = [f"{text}."]
    if more.pga_target_bytes:
        share = PARALLEL_SHARE if several else SERIAL_SHARE
        upper = format_bytes(round(share * more.pga_target_bytes))
        scope = "all of a parallel query get" if several else "a work area of a serial query gets"
        target = format_bytes(more.pga_target_bytes)
        lines.append(f"Of {PGA_TARGET} ({target}) {scope} at most about {upper}.")
    return lines


#: Marks of the cheapest cell within the limit, and of forecast cells.
CHEAPEST, FORECAST = "<", "~"


def memory_cells(words: Sequence[str], forecasts: Sequence[Forecast]) -> list[MemoryCell]:
    """Cells of today's storage and of each forecast target; one size (None) without a plan."""
    answered = [(word, f) for word, f in zip(words, forecasts, strict=True) if f.forecast_s]
    if not answered:
        return []
    first = answered[0][1]
    sizes: Sequence[int | None] = [None]
    if first.work_memory is not None:
        sizes = memory_sizes(first.work_memory)
    today = MemoryCell(NOW, None, first.baseline_s, bounds_only=first.unknown_share is not None)
    targets = [
        MemoryCell(word, None, f.forecast_s or 0.0, f.interval_s, f.bounds_only)
        for word, f in answered
    ]
    return [
        with_memory(cell, size, first.work_memory) for cell in (today, *targets) for size in sizes
    ]


def memory_table(
    cells: Sequence[MemoryCell], advice: MemoryAdvice | None, *, measured: bool = False
) -> PrintedTable:
    """A row for each size of memory, a column for each storage.

    With ``measured``, cells without an interval are measured times, and other cells are marked.
    """
    rows: dict[int | None, dict[str, str]] = {}
    for cell in cells:
        cheapest = CHEAPEST if advice is not None and advice.cell == cell else ""
        about = f"{FORECAST} " if measured and cell.interval_s is not None else ""
        row = rows.setdefault(cell.memory_bytes, {})
        time = format_duration(cell.elapsed_s)
        if cell.bounds_only and cell.interval_s is not None:
            time = format_interval(cell.interval_s)
        row[cell.storage] = f"{cheapest} {about}{time}"
    storages = dict.fromkeys(cell.storage for cell in cells)
    return PrintedTable(
        [Column(name, None, "raw") for name in ("memory", *storages)],
        [
            ["today" if size is None else format_bytes(size), *map(row.get, storages)]
            for size, row in rows.items()
        ],
    )


def forecast_memory_parts(
    cells: Sequence[MemoryCell], advice: MemoryAdvice | None
) -> list[PagePart]:
    """The table of a forecast with known work memory; the cell of ``advice`` is marked."""
    if all(cell.memory_bytes is None for cell in cells):
        return []
    title = "Work memory by storage, if the plan stays as it is:"
    return [Prose([title]), memory_table(cells, advice)]


def advice_text(advice: MemoryAdvice) -> str:
    """A sentence with the cheapest cell, its interval and the order of cost."""
    limit = format_duration(advice.within_s)
    if advice.cell is None:
        priced = " that has a price" if advice.by == "price" else ""
        if advice.now_s is not None and advice.now_s < advice.within_s:
            now = format_duration(advice.now_s)
            return f"Today it takes {now}, and no memory and storage{priced} is known to be faster."
        return f"No memory and storage{priced} is known to take {limit} or less."
    cell, bounds = advice.cell, advice.cell.interval_s
    memory = "" if cell.memory_bytes is None else f"{format_bytes(cell.memory_bytes)} on "
    price = "" if advice.cost is None else f" at {advice.cost:g}"
    storage = "today's storage" if cell.storage == NOW else cell.storage
    order = ", by the storage's price, then memory" if advice.by == "price" else ", by least memory"
    if cell.memory_bytes is None:
        order = ""
    lead = "Cheapest" if order or advice.by == "price" else "Fastest"
    time = format_duration(cell.elapsed_s)
    if bounds is not None:
        between = f"{format_interval(bounds)}{'' if advice.sure else ': it may take longer'}"
        time = between if cell.bounds_only else f"{time} ({between})"
    return f"{lead} within {limit}: {memory}{storage}{price}, {time}{order}."
