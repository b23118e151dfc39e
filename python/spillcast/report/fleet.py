"""What a fleet would gain, as tables; and what an ingest did."""

from collections.abc import Sequence

from spillcast.fleet.ingest import Ingested
from spillcast.fleet.result import MOST, Fleet, Row
from spillcast.report.table import paragraph, table_text
from spillcast.units import format_bytes, format_duration

#: Files, lines and days that are listed; --json has all.
_LISTED = 10


def ingested_text(done: Ingested) -> str:
    """Counts, and the first files that are set aside or damaged."""
    lines = [
        f"{done.dataset}: {_counted(done.files, 'file')}, {format_bytes(done.bytes)} of evidence"
    ]
    if done.seen_before:
        lines.append(f"  {done.seen_before:,} were there before, by their content")
    lines += _listed(
        f"{len(done.set_aside):,} set aside",
        [f"{one['file']}: {one['what']}" for one in done.set_aside],
    )
    lines += _listed(
        f"{len(done.unread):,} could not be read, and are tried again next time",
        [f"{one['file']}: {one['what']}" for one in done.unread],
    )
    lines += _listed(
        f"{done.damaged_lines:,} damaged lines left out",
        [f"{one['file']}:{one['line']}: {one['what']}" for one in done.damaged],
    )
    return "\n".join(lines)


def _listed(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = (
        [f"    ... and {len(items) - _LISTED:,} more, see --json"] if (len(items) > _LISTED) else []
    )
    return [f"  {title}", *(f"    {item}" for item in items[:_LISTED]), *more]


def fleet_text(found: Fleet, top: int, width: int) -> str:
    """The sentence, the statements, the databases and the days; ``width`` in columns."""
    lines = [paragraph(_sentence(found), width=width), "", _statements(found.rows[:top], width)]
    if len(found.rows) > top:
        lines.append(f"  ... and {len(found.rows) - top:,} more, see --top and --json")
    lines += ["", _databases(found, top, width), "", _days(found)]
    lines += [paragraph(f"  warning: {text}", "  ", width) for text in found.warnings]
    return "\n".join(lines)


def _sentence(found: Fleet) -> str:
    low_s, high_s = map(format_duration, found.saved_interval_s)
    text = (
        f"{_counted(found.sources, 'source')}, {_counted(len(found.rows), 'spilling statement')}, "
        f"{_counted(len(found.databases), 'database')}. On {found.to} that saves "
        f"{format_duration(found.saved_s)} ({found.confidence:.0%} between {low_s} and {high_s})."
    ).replace("%", " %")
    if found.statements_for_most > 1:
        text += (
            f" Move the temp of the first {found.statements_for_most:,}, and {MOST * 100:.0f} % of "
            "the gain is had."
        )
    if (cost := found.cost_per_saved_hour) is not None:
        text += f" An hour saved costs {cost:.3g}."
    if found.set_aside:
        text += f" {found.set_aside:,} sources were set aside."
    return text


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _statements(rows: Sequence[Row], width: int) -> str:
    cells = [
        [
            row.sql or "(none)",
            row.database,
            format_duration(row.temp_s),
            "refused" if row.saved_s is None else format_duration(row.saved_s),
            _bounds(row.saved_interval_s),
            _share(row.share),
            _share(row.cumulative_share),
        ]
        for row in rows
    ]
    header = ["statement", "database", "in temp", "saved", "between", "share", "so far"]
    return _fitting(header, cells, (0, 1), width)


def _databases(found: Fleet, top: int, width: int) -> str:
    cells = [
        [
            row.database,
            f"{row.statements:,}",
            format_duration(row.elapsed_s),
            format_duration(row.temp_s),
            format_duration(row.saved_s),
            _bounds(row.saved_interval_s),
            _share(row.share),
        ]
        for row in found.databases[:top]
    ]
    header = ["database", "spilling", "elapsed", "in temp", "saved", "between", "share"]
    return _fitting(header, cells, (0,), width)


def _days(found: Fleet) -> str:
    most_s = max((row.temp_s for row in found.days), default=0.0) or 1.0
    cells = [
        [
            row.day,
            format_duration(row.temp_s),
            format_duration(row.saved_s),
            "#" * round(24 * row.temp_s / most_s),
        ]
        for row in found.days
    ]
    return table_text(["day", "in temp", "saved", "in temp"], cells, left=(0, 3))


def _fitting(header: list[str], cells: list[list[str]], left: Sequence[int], width: int) -> str:
    """The table, without the bounds where they do not fit."""
    whole = table_text(header, cells, left=left)
    if max(map(len, whole.splitlines())) <= width:
        return whole
    bounds = header.index("between")
    fewer = [[cell for n, cell in enumerate(row) if n != bounds] for row in (header, *cells)]
    return table_text(fewer[0], fewer[1:], left=left)


def _bounds(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else " .. ".join(map(format_duration, bounds))


def _share(share: float) -> str:
    return f"{share * 100:.1f} %"
