"""A fleet: which statements gain most from other storage, which databases, and on which days."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.report.html.charts.bars import time_bars
from spillcast.report.html.page import Figure, Section, Table, figure
from spillcast.report.html.words import NOTHING, between, count, percent, seconds
from spillcast.units import format_count

Document = Mapping[str, Any]
Bar = tuple[str, float, str, str]
#: Bars of a chart; the tables hold more.
STATEMENTS_MAX, DATABASES_MAX, DAYS_MAX = 12, 12, 31


def fleets(documents: Sequence[Document]) -> list[Section]:
    """Three charts of each: savings by statement and by database, temp I/O by day."""
    return [_fleet(document) for document in documents]


def _fleet(fleet: Document) -> Section:
    statements = [one for one in fleet["statements"] if one["saved_s"] is not None]
    figures = [
        _bars(
            "Saving by statement, the largest first",
            [
                _saving(f"{one['sql'] or NOTHING}, {one['database']}", one)
                for one in statements[:STATEMENTS_MAX]
            ],
            len(statements),
            _statements(fleet["statements"]),
        ),
        _bars(
            "Saving by database",
            [_saving(str(one["database"]), one) for one in fleet["databases"][:DATABASES_MAX]],
            len(fleet["databases"]),
            _databases(fleet["databases"]),
        ),
        _bars(
            "Temp I/O by day",
            [
                (str(one["day"]), one["temp_s"], seconds(one["temp_s"]), "read")
                for one in fleet["days"][-DAYS_MAX:]
            ],
            len(fleet["days"]),
            _days(fleet["days"]),
        ),
    ]
    refused = [one for one in fleet["statements"] if one["refused"]]
    words = [f"No forecast for {format_count(len(refused), 'statement')}; the table says why."]
    return Section(
        f"What {fleet['target']} would save",
        words if refused else (),
        [one for one in figures if one is not None],
    )


def _saving(name: str, row: Document) -> Bar:
    words = f"{seconds(row['saved_s'])}, {percent(row['share'], 0)}"
    return name, max(row["saved_s"], 0.0), words, "there"


def _bars(title: str, bars: Sequence[Bar], of: int, table: Table) -> Figure | None:
    if not bars:
        return None
    return figure(
        title,
        f"{len(bars)} of {count(of)}; the figures hold more." if of > len(bars) else "",
        "Bars: " + "; ".join(f"{name} {words}" for name, _, words, _ in bars),
        partial(time_bars, bars),
        table,
    )


def _statements(statements: Sequence[Document]) -> Table:
    header = ["statement", "database", "elapsed", "in temp", "saved", "interval", "share", "so far"]
    rows = [
        [
            str(one["sql"] or NOTHING),
            str(one["database"]),
            seconds(one["elapsed_s"]),
            seconds(one["temp_s"]),
            seconds(one["saved_s"]) if one["refused"] is None else str(one["refused"]),
            between(one["saved_interval_s"]),
            percent(one["share"]),
            percent(one["cumulative_share"]),
        ]
        for one in statements
    ]
    return Table(header, rows, left=(0, 1))


def _databases(databases: Sequence[Document]) -> Table:
    header = ["database", "statements", "elapsed", "in temp", "saved", "interval", "share"]
    rows = [
        [
            str(one["database"]),
            count(one["statements"]),
            seconds(one["elapsed_s"]),
            seconds(one["temp_s"]),
            seconds(one["saved_s"]),
            between(one["saved_interval_s"]),
            percent(one["share"]),
        ]
        for one in databases
    ]
    return Table(header, rows)


def _days(days: Sequence[Document]) -> Table:
    rows = [[str(one["day"]), seconds(one["temp_s"]), seconds(one["saved_s"])] for one in days]
    return Table(["day", "in temp", "saved"], rows)
