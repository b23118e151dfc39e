"""What to buy: the frontier of price and time as a chart and a table."""

from collections.abc import Sequence

from spillcast.forecast.sizing.result import SizeRow, Sizing
from spillcast.report.html import charts
from spillcast.report.html.axes import money_ticks
from spillcast.report.html.page import Figure, Section, sentence
from spillcast.report.size import answer, frontier_table, knob_words, remarks


def section(sizing: Sizing) -> Section:
    """The answer, the chart of all rows that cost something, and the table of all."""
    words = [*answer(sizing), *map(sentence, [*knob_words(sizing), *remarks(sizing)])]
    if not sizing.frontier:
        return Section("What to buy", words, answer=answer(sizing))
    table = frontier_table(sizing)
    bought = [row for row in sizing.frontier if row.cost_per_month]
    figures = [_chart(sizing, bought)] if len(bought) > 1 else []
    return Section("What to buy", words, figures, [("", table)], answer=answer(sizing))


def _chart(sizing: Sizing, bought: Sequence[SizeRow]) -> Figure:
    """Elapsed time over price."""
    series = {"cheapest storage for its time": [_point(row) for row in bought]}
    if sizing.chosen in bought:
        series["chosen"] = [_point(row) for row in bought if row == sizing.chosen]
    title = f"price, {sizing.currency} a month"
    chart = charts.lines_by_size(
        series, title, "elapsed time", logarithmic=True, x_ticks=money_ticks
    )
    caption = "Each line across a point is its interval."
    return Figure("Price and time", caption, chart, frontier_table(sizing))


def _point(row: SizeRow) -> charts.Point:
    return row.cost_per_month or 0.0, row.elapsed_s, row.interval_s, True
