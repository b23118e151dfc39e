"""Work memory by storage as one table, and the cheapest cell of it, in words."""

from collections.abc import Sequence

from spillcast.forecast.work_memory.cheapest import Advice, Cell
from spillcast.report.page import Part, Words
from spillcast.report.table import Column, Table
from spillcast.units import format_bytes, format_duration

#: Beside the cheapest cell that is fast enough, and beside what was not measured.
CHEAPEST, FORECAST = "<", "~"


def memory_table(cells: Sequence[Cell], advice: Advice | None, *, measured: bool = False) -> Table:
    """A row for each size of memory, a column for each storage.

    ``measured``: cells without an interval were, so the others are marked.
    """
    storages = list(dict.fromkeys(cell.storage for cell in cells))
    sizes = list(dict.fromkeys(cell.memory_bytes for cell in cells))
    by_place = {(cell.storage, cell.memory_bytes): cell for cell in cells}
    rows = []
    for size in sizes:
        row: list[str | None] = ["today" if size is None else format_bytes(size)]
        for storage in storages:
            cell = by_place.get((storage, size))
            row.append(None if cell is None else _cell_text(cell, advice, measured))
        rows.append(row)
    return Table([Column("memory", None, "raw"), *(Column(s, None, "raw") for s in storages)], rows)


def forecast_memory_parts(cells: Sequence[Cell], advice: Advice | None) -> list[Part]:
    """The table of a forecast where work memory is known, the cell of ``advice`` marked."""
    if all(cell.memory_bytes is None for cell in cells):
        return []
    title = "Work memory by storage, if the plan stays as it is:"
    return [Words([title]), memory_table(cells, advice)]


def _cell_text(cell: Cell, advice: Advice | None, measured: bool) -> str:
    chosen = advice is not None and advice.cell == cell
    about = f"{FORECAST} " if measured and cell.interval_s is not None else ""
    return f"{CHEAPEST if chosen else ''} {about}{format_duration(cell.elapsed_s)}"


def advice_text(advice: Advice) -> str:
    """A sentence: what to take, how sure it is, and what cheap means."""
    limit = format_duration(advice.within_s)
    if advice.cell is None:
        priced = " that has a price" if advice.by == "price" else ""
        if advice.now_s is not None and advice.now_s < advice.within_s:
            now = format_duration(advice.now_s)
            return f"Today it takes {now}, and no memory and storage{priced} makes it faster."
        return f"No memory and storage{priced} takes {limit} or less."
    cell, bounds = advice.cell, advice.cell.interval_s
    memory = "" if cell.memory_bytes is None else f"{format_bytes(cell.memory_bytes)} on "
    price = "" if advice.cost is None else f" at {advice.cost:g}"
    text = f"Cheapest within {limit}: {memory}{cell.storage}{price}, "
    text += format_duration(cell.elapsed_s)
    if bounds is not None:
        low, high = map(format_duration, bounds)
        text += f" ({low} to {high}{'' if advice.sure else ': it may take longer'})"
    by = "the storage's price, then memory" if advice.by == "price" else "least memory"
    return f"{text}, by {by}."
