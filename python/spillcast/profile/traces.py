"""Profiles traces from groups, which the core counts without storing rows and without DuckDB."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillcast.evidence.oracle.trace import WHOLE, TraceOptions, Traces, profile_traces
from spillcast.evidence.text import repeated_notes
from spillcast.profile.result import (
    COLUMNS,
    DIMENSIONS,
    QUANTILES,
    LatencyCounts,
    Profile,
    bare_row,
)
from spillcast.units import format_count

#: The warning for a grouping by columns that calls lack.
WAITS_ALONE = "rows hold waits only: --by event also shows CPU time"


def of_traces(
    paths: Sequence[Path],
    by: Sequence[str],
    options: TraceOptions = WHOLE,
) -> Profile:
    """Waits and CPU time by DIMENSIONS; waits alone if ``by`` has one of COLUMNS."""
    waits_alone = not all(name in DIMENSIONS for name in by)
    dimensions = {name: DIMENSIONS.get(name) or COLUMNS.get(name, name) for name in by}
    read = profile_traces(
        paths,
        sorted(set(dimensions.values())),
        options,
        calls=not waits_alone,
        quantiles=QUANTILES,
    )
    sessions = read.sessions()
    elapsed_us = read.elapsed_us()
    _name_groups(read)
    waits = read.total("waits")
    # There may be a group for each second: each is freed when its row is created.
    groups = read.groups[::-1]
    read.groups.clear()
    rows: list[dict[str, Any]] = []
    histograms: list[LatencyCounts] = []
    while groups:
        group = groups.pop()
        count, total_us = group["count"], group["total_us"]
        row = {name: group[dimension] for name, dimension in dimensions.items()} | {
            "op": group["op"],
            "idle": group["idle"],
            "count": count,
            "count_share": group["waits"] / waits if group["waits"] else None,
            "total_us": total_us,
            "share": total_us / elapsed_us if elapsed_us else None,
            "min_us": group["min_us"],
            "mean_us": total_us / count,
            **{name: group[name] for name in QUANTILES},
            "max_us": group["max_us"],
            "longest_at": f"{read.paths[group['max_file']]}:{group['max_line']}",
        }
        rows.append(row)
        histograms.append((group["latency_ns"], group["latency_count"]))
    unaccounted_us = sum(session["unaccounted_us"] for session in sessions)
    warnings = trace_warnings(read)
    if waits_alone:
        warnings.append(WAITS_ALONE)
    elif "event" in by and unaccounted_us > 0:
        keys = dict.fromkeys(by) | {"event": "unaccounted-for"}
        rows.append(keys | bare_row(unaccounted_us, elapsed_us) | {"count_share": None})
        histograms.append(([], []))
    return Profile(
        by, elapsed_us / 1e6, rows, read.damaged(), warnings, histograms=histograms
    ).sorted()


def _name_groups(read: Traces) -> None:
    """Replaces the keys of groups for display: names of CPU time, seconds from the start."""
    first_second = read.first_second()
    for group in read.groups:
        # Old servers write events without a name.
        if "call" in group and group["event"] is None:
            group["event"] = f"CPU: {group['call']}"
        if "second" in group:
            group["second"] -= first_second
        if "minute" in group:
            group["minute"] -= first_second // 60
        if group.get("file") is not None:
            group["file"] = str(group["file"])


def trace_warnings(read: Traces) -> list[str]:
    """Warnings about lines and time that the profile of a trace lacks or counts twice."""
    warnings = [*repeated_notes(read.repeated), *read.ended()]
    unmeasured = read.total("waits_unmeasured")
    if damaged := read.total("damaged") - unmeasured:
        warnings.append(f"not in the profile: {format_count(damaged, 'damaged line')}")
    if unmeasured:
        text = "with an impossible time (ela= below zero): counted apart, in no row"
        warnings.append(f"{format_count(unmeasured, 'wait')} {text}")
    for path, file in zip(read.paths, read.files, strict=True):
        if file["waits_in_text"]:
            warnings.append(
                f"{path}: {format_count(file['waits_in_text'], 'wait')} within other text"
            )
    if (excess := read.excess_text()) is not None:
        warnings.append(f"{excess}, and shares are wrong")
    return warnings
