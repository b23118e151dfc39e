"""Of a query that was seen in part: what is to come, and what tells that."""

from collections.abc import Sequence
from typing import Any

from spillcast.forecast import Forecast
from spillcast.forecast.result import Remaining, RemainingQuantity
from spillcast.report.page import Part, Words
from spillcast.report.table import Column, Table
from spillcast.units import format_duration

_COLUMNS = (
    Column("remaining", "figure"),
    Column("from", "low", "bytes"),
    Column("about", "centre", "bytes"),
    Column("to", "high", "bytes"),
    Column("known from", "source", "words"),
)


def to_come_parts(forecast: Forecast) -> list[Part]:
    """Nothing for a query that was seen from its beginning to its end."""
    if (coming := forecast.to_come) is None:
        return []
    unused = [f"  not used: {reason}" for reason in coming.unused]
    return [to_come_table(coming), Words([f"  {left_words(forecast, coming)}", *unused])]


def to_come_table(coming: Remaining) -> Table:
    """Bytes to come, with what tells each."""
    rows = [_row("temp reads", coming.reads_bytes), _row("temp writes", coming.writes_bytes)]
    return Table(_COLUMNS, rows)


def _row(name: str, left: RemainingQuantity) -> Sequence[Any]:
    return [name, left.low, left.centre, left.high, left.source]


def left_words(forecast: Forecast, coming: Remaining) -> str:
    """What is gained by moving it now, which loses what was done."""
    alone = coming.elapsed_s
    about, low, high = map(format_duration, (alone.centre, alone.low, alone.high))
    words = f"left running it takes about another {about} ({low} to {high})"
    if forecast.forecast_s is None:
        return f"{words}: known from {alone.source}"
    anew = format_duration(forecast.forecast_s)
    return f"moved now and restarted: {anew}; {words}: known from {alone.source}"
