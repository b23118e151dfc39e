"""Savings of a fleet as tables, and the result of an ingest."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from spillcast.fleet import Fleet, Ingested
from spillcast.report import Drawing, Notes, Page, Prose, listed, with_bars
from spillcast.tabular import Column, PrintedTable
from spillcast.units import (
    format_bytes,
    format_count,
    format_duration,
    format_interval,
    interval_name,
)

#: Maximum number of columns of a bar.
BAR = 24
_SAVED = (
    Column("saved", "saved_s", "s"),
    Column("between", "saved_interval_s", "interval", spare=1),
)
_STATEMENTS = (
    Column("statement", "sql"),
    Column("database", "database"),
    Column(None, "evidence"),
    Column("elapsed", "elapsed_s", "s", spare=2),
    Column("in temp", "temp_s", "s"),
    *_SAVED,
    Column("share", "share", "percent1"),
    Column("so far", "cumulative_share", "percent1"),
    Column("no forecast", "refused", "words"),
)
_DATABASES = (
    Column("database", "database"),
    Column("spilling", "statements", "count"),
    Column("elapsed", "elapsed_s", "s"),
    Column("in temp", "temp_s", "s"),
    *_SAVED,
    Column("share", "share", "percent1"),
)
_DAYS = (Column("day", "day"), Column("in temp", "temp_s", "s"), *_SAVED)
_TARGETS = (
    Column("target", "target"),
    *_SAVED,
    Column("price", "cost", "number"),
    Column("an hour saved", "cost_per_saved_hour", "number"),
)
#: Maximum number of listed files and lines; --json has all.
_LISTED = 10


def ingested_text(done: Ingested) -> str:
    """Counts, and the first damaged lines."""
    files = format_count(done.files, "file")
    lines = [f"{done.dataset}: {files}, {format_bytes(done.bytes)} of evidence"]
    if count := done.seen_before:
        lines.append(f"  {format_count(count, 'file')} skipped: the dataset has the content")
    if done.set_aside:
        lines.append(f"  {len(done.set_aside):,} set aside")
    if done.unread:
        lines.append(f"  {len(done.unread):,} could not be read, and are tried again next time")
    if done.damaged:
        lines.append(f"  {format_count(done.damaged_lines, 'damaged line')} skipped")
        places = [f"{damage['file']}:{damage['line']}: {damage['what']}" for damage in done.damaged]
        lines += (f"    {line}" for line in listed(places, _LISTED))
    return "\n".join(lines)


def not_taken(done: Ingested) -> list[str]:
    """A line with the reason for each of the first files that were set aside or unreadable."""
    lines = [f"{source['file']}: set aside: {source['what']}" for source in done.set_aside]
    lines += [f"{source['file']}: could not be read: {source['what']}" for source in done.unread]
    return listed(lines, _LISTED)


def fleet_page(fleet: Fleet, top: int) -> Page:
    """The sentence, the first statements and databases, and the days; CSV has all statements."""
    statements = [asdict(row) for row in fleet.statements]
    for row in statements:
        row["sql"] = row["sql"] or "(none)"
        row["saved_interval_s"] = row["saved_interval_s"] and list(row["saved_interval_s"])
    extent = (
        f"{format_count(fleet.sources, 'source')}, "
        f"{format_count(sum(row.spills for row in fleet.statements), 'spilling statement')}, "
        f"{format_count(len(fleet.databases), 'database')}."
    )
    more = len(fleet.statements) - top
    below = [f"... and {more:,} more, see --top and --json"] if more > 0 else []
    return Page(
        [
            Prose([" ".join([extent, *savings(fleet)])], ""),
            PrintedTable.of(_STATEMENTS, [_known(row) for row in statements[:top]]),
            Prose(below),
            PrintedTable.of(_DATABASES, [_known(vars(row)) for row in fleet.databases[:top]]),
            Drawing(partial(with_bars, days_table(fleet), [day.temp_s for day in fleet.days], BAR)),
            Notes([f"warning: {text}" for text in fleet.warnings]),
        ],
        PrintedTable.of(_STATEMENTS, statements),
    )


def _known(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row as displayed: if the saving is unknown, so is its share."""
    unknown = {"share": None, "cumulative_share": None} if row["saved_s"] is None else {}
    return {**row, **unknown}


def targets_table(fleets: Sequence[Fleet]) -> PrintedTable:
    """The saving on each target, and its price."""
    return PrintedTable.of(_TARGETS, list(map(vars, fleets)))


def days_table(fleet: Fleet) -> PrintedTable:
    """Time in temp I/O and its saving, by day."""
    return PrintedTable.of(_DAYS, list(map(vars, fleet.days)))


def savings(fleet: Fleet) -> list[str]:
    """The saving on the target, and the share of it from a few statements."""
    on = f"Temp files on {fleet.target} save"
    bounds, (low_s, high_s) = format_interval(fleet.saved_interval_s), fleet.saved_interval_s
    is_inside = fleet.saved_s > 0 and low_s <= fleet.saved_s <= high_s
    # The bounds include statements with only bounds; the saving does not.
    bounded = [r for r in fleet.statements if r.saved_s is None and r.saved_interval_s is not None]
    aside = [f"{format_count(fleet.set_aside, 'source')} set aside."] if fleet.set_aside else []
    if bounded and high_s > 0 and not is_inside:
        return [f"{on} {bounds}: how long temp I/O took is not known.", *aside]
    if fleet.saved_s <= 0:
        return [f"{on} nothing.", *aside]
    interval = f"{interval_name(fleet.confidence)} {bounds}"
    lines = [f"{on} {format_duration(fleet.saved_s)} ({interval})."]
    if 0 < (count := fleet.statements_for_most) < len(fleet.statements):
        first = f"{count:,} statements bring" if count > 1 else "statement brings"
        lines.append(f"The first {first} {100 * fleet.most:.0f} % or more of that.")
    if (cost := fleet.cost_per_saved_hour) is not None:
        lines.append(f"An hour saved costs {float(f'{cost:.3g}'):,.10g}.")
    return [*lines, *aside]
