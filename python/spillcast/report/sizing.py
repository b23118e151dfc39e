"""The storage to buy: the answer, the frontier of price and time, the value of settings."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from spillcast.forecast.sizing import SAVING_SHARE_MIN
from spillcast.forecast.sizing.products import Knob, SizeRow, Sizing
from spillcast.report import Page, PagePart, Prose
from spillcast.report.forecast import NO_LATENCY, NOW
from spillcast.tabular import Column, PrintedTable
from spillcast.text import sentence
from spillcast.units import format_duration, format_estimate, format_interval, interval_name

#: The mark of each kind of price, and its meaning.
_PRICES = {
    "difference": ("+", "+ on top of the price of the same instance without local disks"),
    "instance": ("*", "* the price of the entire instance"),
}
#: Settings of a row that have a column.
_SETTINGS = ("memory", "size", "iops", "throughput")


def size_page(sizing: Sizing) -> Page:
    """The answer, the frontier, the effect of more of each setting, and the dates of prices."""
    bound = [] if sizing.binding is None else [f"  {sizing.binding.text}"]
    parts: list[PagePart] = [
        Prose(answer(sizing), indent=""),
        *([frontier_table(sizing)] if sizing.frontier else []),
        Prose([*bound, *(f"  {_setting_value(knob, sizing)}" for knob in sizing.knobs)]),
        Prose([f"  {text}" for text in remarks(sizing)]),
    ]
    keys = [field.name for field in fields(SizeRow)]
    return Page(parts, PrintedTable.of_records([asdict(row) for row in sizing.frontier], keys))


def answer(sizing: Sizing) -> list[str]:
    """Sentences: the chosen storage and its saving, or first why no other storage is needed."""
    notes = list(map(sentence, sizing.notes))
    leading = 1 if sizing.chosen is None or sizing.suffices else 0
    # The middle of bounds would be taken for a forecast.
    text = [] if sizing.chosen is None and sizing.bounds_only else [answer_text(sizing)]
    return [*notes[:leading], *text, *notes[leading:]]


def answer_text(sizing: Sizing) -> str:
    """The chosen storage with its price and time, or what zero-latency storage would leave."""
    chosen, today = sizing.chosen, format_duration(sizing.baseline_s)
    if chosen is None:
        left = format_estimate(sizing.ceiling_s, sizing.ceiling_interval_s)
        return f"Zero-latency storage would leave {left} of {today}."
    lead = f"Cheapest with {100 * SAVING_SHARE_MIN:.0f} % of the largest saving"
    if sizing.within_s is not None:
        cheapest = "If it is to change anyway, the cheapest" if sizing.suffices else "Cheapest"
        lead = f"{cheapest} within {format_duration(sizing.within_s)}"
    elapsed = format_estimate(chosen.elapsed_s, chosen.interval_s)
    if sizing.bounds_only:
        elapsed = format_interval(chosen.interval_s)
    price = money(chosen.cost_per_month, sizing.currency)
    text = f"{lead}: {chosen.target}, {price} a month: {elapsed} instead of {today}"
    if sizing.statements > 1:
        text += f", the mean of {sizing.statements} statements and the interval of the slowest"
    if chosen.saved_h_per_month is not None:
        hours = chosen.saved_h_per_month
        saved = format_duration(3600 * abs(hours))
        text += f". It saves {saved} a month" if hours >= 0 else f". It takes {saved} more a month"
        if chosen.cost_per_saved_h:
            text += f", {money(chosen.cost_per_saved_h, sizing.currency)} for each hour"
    return f"{text}."


def frontier_table(sizing: Sizing) -> PrintedTable:
    """The frontier, the cheapest first, with today and the limit of all storage."""
    columns = [
        Column("storage", None),
        *(Column(key, None, "raw", spare=3 * (key in ("size", "memory"))) for key in _SETTINGS),
        Column(f"{sizing.currency}/month", None, "raw"),
        Column("elapsed", None, "s"),
        Column(interval_name(sizing.confidence), None, "interval", spare=1),
        Column("saved/month", None, "s", spare=2),
        Column("", None, "words", spare=3),
    ]
    rows = [_cells(row, sizing) for row in sizing.frontier]
    nothing = [None] * (len(_SETTINGS) + 1)
    rows.append([NOW, *nothing, sizing.baseline_s, None, None, ""])
    if not sizing.bounds_only:
        limit_s, bounds_s = sizing.ceiling_s, sizing.ceiling_interval_s
        rows.append([NO_LATENCY, *nothing, limit_s, bounds_s, None, ""])
    return PrintedTable(columns, rows)


def _cells(row: SizeRow, sizing: Sizing) -> list[Any]:
    hours = row.saved_h_per_month
    saved_s = None if hours is None or sizing.bounds_only else 3600 * hours
    price = None
    if row.cost_per_month is not None:
        mark, _ = _PRICES.get(row.price_of or "", ("", ""))
        price = f"{mark}{row.cost_per_month:,.2f}"
    marks = ["chosen"] * (row == sizing.chosen) + ["too slow"] * (row.meets is False)
    return [
        row.target.removeprefix("catalogue:").partition("?")[0],
        *(row.settings.get(key, "").removesuffix(" IOPS") or None for key in _SETTINGS),
        price,
        None if sizing.bounds_only else row.elapsed_s,
        row.interval_s,
        saved_s,
        ", ".join(filter(None, [*marks, row.remark])),
    ]


def _setting_value(knob: Knob, sizing: Sizing) -> str:
    """The saving and the cost of a higher setting of the chosen storage."""
    is_negligible = knob.saved_s < 0.005 * sizing.baseline_s
    saved = "nothing" if is_negligible else format_duration(knob.saved_s)
    text = f"{knob.value} instead saves {saved}"
    if knob.cost_per_month is None:
        return text
    return f"{text} for {money(knob.cost_per_month, sizing.currency)} more a month"


def remarks(sizing: Sizing) -> Sequence[str]:
    """Marks of prices, their sources, and faster storage without a price."""
    covered = {row.price_of for row in sizing.frontier}
    lines = [note for price_of, (_, note) in _PRICES.items() if price_of in covered]
    lines += sizing.prices
    # The middle of bounds would be taken for a forecast.
    between = sizing.bounds_only
    if faster := [
        f"{r.target} ({format_interval(r.interval_s) if between else format_duration(r.elapsed_s)})"
        for r in sizing.unpriced
    ]:
        names = ", ".join(faster)
        lines.append(f"faster, without a known price: {names}; give it with --prices")
    lines.append("a month of all hours; data transfer, snapshots and backups are not included")
    return lines


def money(amount: float | None, currency: str) -> str:
    """``42.22 USD``."""
    if amount is None:
        return "no known price"
    return "nothing" if not amount else f"{amount:,.2f} {currency}"
