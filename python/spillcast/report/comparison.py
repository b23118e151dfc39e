"""Storages side by side, and the verdict in a sentence each."""

from collections.abc import Sequence
from string import ascii_uppercase

from spillcast.report.storage_words import origin_words
from spillcast.report.table import paragraph, table_text
from spillcast.storage.comparison import Comparison, Row, Verdict
from spillcast.units import format_bytes, format_duration, format_speedup

#: Ratios this close to 1 are no difference; those this far apart are told of by size.
ALIKE, APART = 1.05, 1.3
#: Rows of a larger error than this say nothing worth reading.
ERROR_MAX = 0.5


def comparison_text(comparison: Comparison, width: int) -> str:
    """Who is who, a line for every storage under each op and size, and who is faster."""
    legend = [
        paragraph(f"{_letter(at)}  {name}: {origin_words(storage)}", "   ", width)
        for at, (name, storage) in enumerate(
            zip(comparison.names, comparison.storages, strict=True)
        )
    ]
    rows = [row for row in comparison.rows if _worth_reading(row)]
    patterns = len({row.pattern for row in rows}) > 1
    key = ["op", "size", "pattern"] if patterns else ["op", "size"]
    lines = [_line(row, at, patterns) for row in rows for at in range(len(comparison.names))]
    left = (0, 2, 3) if patterns else (0, 2)
    table = table_text([*key, "", "p50", "mean", "p99", "speed-up"], lines, left=left)
    return "\n\n".join(
        [
            "\n".join(legend),
            table + _notes(rows, len(comparison.rows) - len(rows)),
            "\n".join(
                paragraph(_sentence(comparison, at), "  ", width)
                for at in range(1, len(comparison.names))
            ),
        ]
    )


def _letter(at: int) -> str:
    return ascii_uppercase[at]


def _line(row: Row, at: int, patterns: bool) -> list[str]:
    key = [row.op, format_bytes(row.size_class_bytes), *([row.pattern] if patterns else [])]
    if at:
        key = [""] * len(key)
    found, speedup = row.found[at], row.speedup(at)
    if found is None:
        return [*key, _letter(at), "-", "-", "-", "-"]
    mark = "" if found.measured else " ?" if found.extrapolated else " ~"
    return [
        *key,
        _letter(at) + mark,
        format_duration(found.quantile_s(0.5)),
        format_duration(found.mean_s),
        format_duration(found.quantile_s(0.99)),
        format_speedup(speedup) if at and speedup else "",
    ]


def _worth_reading(row: Row) -> bool:
    return all(found is None or found.error <= ERROR_MAX for found in row.found)


def _notes(rows: Sequence[Row], left_out: int) -> str:
    """What the marks mean, with the largest error of each, and what is not shown."""
    found = [e for row in rows for e in row.found if e is not None and not e.measured]
    notes = []
    for mark, extrapolated, where in (("~", False, "between"), ("?", True, "beyond")):
        errors = [e.error for e in found if e.extrapolated == extrapolated]
        if errors:
            notes.append(f"{mark} {where} what is known, give or take {_percent(max(errors))}")
    if left_out:
        are = "row is" if left_out == 1 else "rows are"
        notes.append(f"{left_out:,} more {are} too far from what is known: see --json")
    return "".join(f"\n  {note}" for note in notes)


def _sentence(comparison: Comparison, at: int) -> str:
    """``B reads 12.3 times faster and writes 1.5 times slower than A.``"""
    first, name = comparison.names[0], comparison.names[at]
    verdicts = [verdict for verdict in comparison.verdicts if verdict.storage == at]
    if not verdicts:
        return f"{name} has no figures for what {first} has."
    known = [verdict for verdict in verdicts if verdict.error <= ERROR_MAX]
    if not known:
        return f"{name} and {first} were measured too far apart to be compared."
    *said, last = [_verb(verdict) for verdict in known]
    text = f"{', '.join(said)} and {last}" if said else last
    return f"{name} {text} {'as' if text.endswith(' as fast') else 'than'} {first}."


def _verb(verdict: Verdict) -> str:
    order = {"random": " at random", "sequential": " in sequence"}.get(verdict.pattern, "")
    verb, speedup = f"{verdict.op}s{order}", verdict.speedup
    if 1 / ALIKE < speedup < ALIKE:
        return f"{verb} as fast"
    low, high = sorted(max(s, 1 / s) for s in (verdict.low, verdict.high))
    remarks = []
    if verdict.low < 1 < verdict.high:
        remarks.append(f"{format_speedup(verdict.low)} to {format_speedup(verdict.high)} by size")
    elif high > APART * low:
        remarks.append(f"{_times(low)} to {_times(high)} by size")
    if verdict.error > ALIKE - 1:
        remarks.append(f"give or take {_percent(verdict.error)}")
    times, how = (speedup, "faster") if speedup > 1 else (1 / speedup, "slower")
    return f"{verb} {_times(times)} times {how}" + (f" ({', '.join(remarks)})" if remarks else "")


def _times(ratio: float) -> str:
    return format_speedup(ratio).removesuffix("x")


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"
