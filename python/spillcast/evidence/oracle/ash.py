"""Reads ASH exports in CSV or Parquet, from V$ or DBA_HIST, as samples with weights."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Literal

import numpy as np

from spillcast.columns import NAME, TEXT, ColumnValues, Field, Flags, Integers
from spillcast.errors import EvidenceIncomplete, EvidenceMixed, SelectionEmpty
from spillcast.evidence.oracle.spooled import (
    SECOND_NS,
    Damage,
    Spooled,
    by_text,
    chosen_time_ns,
    clock,
    has_seconds_in,
    month_comes_first,
    parse_time_ns,
    read_spooled,
)
from spillcast.evidence.selection import NO_FILTER, Filter
from spillcast.evidence.text import distinct, repeated_notes
from spillcast.gate import reading
from spillcast.recording.schema import SAMPLES
from spillcast.tables import Table
from spillcast.text import several

AshSource = Literal["V$", "DBA_HIST"]
#: ASH in memory has a sample each second; DBA_HIST keeps every tenth.
MEMORY_INTERVAL_US = 1_000_000
HISTORY_INTERVAL_US = 10 * MEMORY_INTERVAL_US
_EXTRA_TEXTS = ("wait_class", "exec_start", "plan_operation", "plan_options")
_TEXTS = ("event", "session_state", "sql_id", *_EXTRA_TEXTS)
_EXTRA_NUMBERS = ("p1", "p2", "p3", "instance", "coordinator_instance", "pga_bytes", "temp_bytes")
_NUMBERS = (
    *("session", "time_waited_us", "sql_exec_id", "plan_line", "coordinator"),
    *("usecs_per_row", "snap_id", *_EXTRA_NUMBERS),
)
#: Column names by normalised heading. SQL*Plus truncates the heading SESSION_STATE to the width of
#: its values, seven characters.
_NAMES = {
    **{name: name for name in ("sample_time", *_TEXTS, *_NUMBERS) if name != "session"},
    "session": "session_state",
    "session_id": "session",
    "event_name": "event",
    "wait_event": "event",
    "sid": "session",
    "time_waited": "time_waited_us",
    "sql_plan_line_id": "plan_line",
    "sql_plan_operation": "plan_operation",
    "sql_plan_options": "plan_options",
    "pga_allocated": "pga_bytes",
    "temp_space_allocated": "temp_bytes",
    "sql_exec_start": "exec_start",
    "qc_session_id": "coordinator",
    "qc_instance_id": "coordinator_instance",
    "inst_id": "instance",
    "instance_number": "instance",
}
#: The minimum share of distinct samples in an export; with fewer, its rows are duplicated.
_DISTINCT_SHARE_MIN = 0.7
#: The least time between consecutive days that are read as years, whatever their times of day.
_YEAR_NS = 364 * 86_400 * SECOND_NS
_NEEDED = "SAMPLE_TIME, and EVENT or SESSION_STATE"
#: Without seconds, samples cannot be distinguished, and do not show how long a run took.
NO_SECONDS = "SAMPLE_TIME has no time of day to the second: elapsed time is unknown"
WITH_SECONDS = "export it with to_char(sample_time, 'YYYY-MM-DD HH24:MI:SS.FF3')"


@dataclass(frozen=True)
class Ash:
    """Samples of active sessions, by time.

    ``samples`` has the columns of SAMPLES in recording/schema.py, and those of p1, p2, p3,
    instance, coordinator_instance, wait_class, exec_start, plan_operation, plan_options, pga_bytes
    and temp_bytes (of the session) that the export has. ``began`` is the time of the first sample
    as written, without a time zone. ``exported`` are the columns that every file has, and
    ``has_seconds`` is whether the times of every file have seconds.
    """

    samples: Table
    source: AshSource
    began: datetime
    notes: list[str] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)
    exported: frozenset[str] = frozenset()
    has_seconds: bool = True

    @property
    def began_ns(self) -> int:
        """``began`` in ns since 1970."""
        return round(self.began.replace(tzinfo=UTC).timestamp() * 1e6) * 1000

    @property
    def interval_us(self) -> int:
        """Time between successive samples of a session."""
        return HISTORY_INTERVAL_US if self.source == "DBA_HIST" else MEMORY_INTERVAL_US


@dataclass(frozen=True)
class _Export:
    """One file; the times of its samples count from 1970."""

    samples: Table
    source: AshSource
    damaged: list[Damage]
    has_seconds: bool
    #: Whether the month comes first in its dates; None if they are ambiguous.
    month_first: bool | None
    exported: frozenset[str]


def read_ash(
    paths: str | Path | Sequence[str | Path],
    chosen: Filter = NO_FILTER,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Ash:
    """Reads ASH exports, or the chosen samples of them; a file that is given twice counts once.

    InputError if a file lacks columns, if V$ and DBA_HIST are mixed, and if no row remains.
    ``damaged`` has the lines that cannot be read. ``on_progress`` gets the approximate number of
    bytes read so far.
    """
    files, repeated = distinct(list(map(Path, several(paths))))
    exports = _read_exports(files, on_progress)
    month_first = any(export.month_first for export in exports)
    # The union of the columns of all files.
    fields = {field.name: field for export in exports for field in export.samples.fields}
    samples = Table.concat([export.samples.cast(fields.values()) for export in exports])
    if samples.num_rows == 0:
        problems = [f": {each.problem}" for export in exports for each in export.damaged[:1]]
        message = f"no row could be read{''.join(problems[:1])}"
        hint = "if its months are unknown, export it with NLS_DATE_LANGUAGE = AMERICAN"
        raise EvidenceIncomplete(message, hint if problems else None, ", ".join(map(str, files)))
    first = _first_seen(exports, samples)
    notes = [*repeated_notes(repeated), *_notes(exports)]
    if again := len(first) - int(first.sum()):
        notes.append(f"{again:,} samples are repeated and count once")
    samples = samples.filter(first)
    samples = _selected(samples, chosen, month_first=month_first).sort_by("time_ns")
    first_ns = samples["time_ns"][0]
    return Ash(
        samples.with_column("time_ns", samples["time_ns"].values - first_ns),
        exports[0].source,
        datetime.fromtimestamp(first_ns / 1e9, UTC).replace(tzinfo=None),
        notes,
        [damage for export in exports for damage in export.damaged],
        frozenset.intersection(*(export.exported for export in exports)),
        all(export.has_seconds for export in exports),
    )


def _read_exports(
    files: Sequence[Path], on_progress: Callable[[int], None] | None
) -> list[_Export]:
    """The export of each file, with the order of day and month that any of them shows."""
    exports, before = [], 0

    def report_progress(count: int) -> None:
        if on_progress is not None:
            on_progress(before + count)

    for path in files:
        with reading(path, "export it again"):
            exports.append(_read_export(path, report_progress))
        before += path.stat().st_size
    if any(export.month_first for export in exports):
        exports = [
            _read_export(path, lambda _: None, month_first=True)
            if export.month_first is None
            else export
            for path, export in zip(files, exports, strict=True)
        ]
    if len({export.source for export in exports}) > 1:
        raise EvidenceMixed(
            "V$ and DBA_HIST rows are mixed, and the second repeat one in ten of the first",
            "give files of one kind",
        )
    return exports


def _first_seen(exports: Sequence[_Export], samples: Table) -> Flags:
    """Whether each sample of the concatenated exports is absent from all earlier exports.

    TIME_WAITED of a sample changes: it is 0 until the wait has ended. In one export, a few samples
    of sessions of different instances may be equal; if many are, rows were exported twice.
    """
    first_seen: Flags = np.ones(samples.num_rows, dtype=bool)
    if not all(export.has_seconds for export in exports):
        return first_seen
    shared = set.intersection(*(set(export.samples.column_names) for export in exports))
    number = samples.group_by(*sorted(shared - {"time_waited_us"})).number
    _, first = np.unique(number, return_index=True)
    if len(exports) > 1:
        file = np.repeat(np.arange(len(exports)), [export.samples.num_rows for export in exports])
        return file == file[first][number]  # type: ignore[no-any-return]
    if "session" in exports[0].exported and len(first) < _DISTINCT_SHARE_MIN * len(number):
        first_seen[:] = False
        first_seen[first] = True
    return first_seen


def _notes(exports: Sequence[_Export]) -> list[str]:
    """Sentences about the limits of the exports."""
    notes = []
    if not all(export.has_seconds for export in exports):
        notes.append(f"{NO_SECONDS}; {WITH_SECONDS}")
    if any(export.source == "DBA_HIST" and "snap_id" not in export.exported for export in exports):
        notes.append("samples are 10 s apart: assumed to be from DBA_HIST, 10 s each")
    # ``collect oracle --without-pack`` exports samples without the time of a wait.
    wait_columns = {"usecs_per_row", "time_waited_us"}
    if any(wait_columns & export.exported == {"usecs_per_row"} for export in exports):
        notes.append(
            "samples of V$SESSION, not of ASH: the lengths of single waits and their lines of the "
            "plan are not known"
        )
    return notes


def _read_export(
    path: Path, on_progress: Callable[[int], None], *, month_first: bool | None = None
) -> _Export:
    reader = read_spooled(path, _NAMES, on_progress)
    columns, damaged = reader.columns, reader.damaged
    if "sample_time" not in columns or not {"event", "session_state"} & columns.keys():
        heading_words = ", ".join(reader.heading[:20]) or "nothing"
        raise EvidenceIncomplete(f"an ASH export needs {_NEEDED}; found: {heading_words}")
    states = {name.upper() for name in reader.texts("session_state").names}
    if "event" not in columns and states - {"", "ON CPU"}:
        raise EvidenceIncomplete("sessions wait in its samples, and the column EVENT is missing")
    times, has_seconds, month_first = _times(reader, month_first)
    numbers = {name: reader.numbers(name) for name in _NUMBERS}
    samples, source = _samples(times, numbers, {name: reader.texts(name) for name in _TEXTS})
    extra = {name: numbers[name] for name in _EXTRA_NUMBERS if name in columns}
    extra |= {name: reader.texts(name) for name in _EXTRA_TEXTS if name in columns}
    samples = Table({**samples.columns, **extra}).filter(times.is_valid())
    more = [Field(name, NAME if name in _EXTRA_TEXTS else "int64") for name in extra]
    damaged.sort(key=lambda damage: damage.line)
    samples = samples.cast([*SAMPLES, *more])
    return _Export(samples, source, damaged, has_seconds, month_first, frozenset(columns))


def _span_ns(times: Sequence[int | None]) -> float:
    """The time between the first and the last; infinite if none is known."""
    known = [time for time in times if time is not None]
    return max(known) - min(known) if known else inf


def _times(reader: Spooled, month_first: bool | None) -> tuple[ColumnValues, bool, bool | None]:
    """Nanoseconds since 1970; null, and a damaged line, for a text that is not a time.

    Also returns whether there are seconds, and whether the month comes first (10/14/2024), which
    is derived from the dates unless it is given.
    """
    column = reader.columns["sample_time"]
    if column.type == "timestamp":
        return replace(column, type="int64"), True, month_first
    column = column.cast(TEXT)
    if month_first is None:
        month_first = month_comes_first(column.names)
    parsed = [parse_time_ns(text, month_first=bool(month_first)) for text in column.names]
    # In RR-MM-DD the year is first. Read as the day, it makes years of days.
    if _span_ns(parsed) >= _YEAR_NS:
        by_year = [parse_time_ns(f"20{text}") for text in column.names]
        if by_year.count(None) <= parsed.count(None) and _span_ns(by_year) < _YEAR_NS:
            parsed = by_year
    times = by_text(column, parsed)
    for row in np.flatnonzero(times.is_null()).tolist():
        reader.damage(row, f"SAMPLE_TIME is {column[row]!r}: the row is skipped")
    return times, any(map(has_seconds_in, column.names)), month_first


def _samples(
    times: ColumnValues, numbers: dict[str, ColumnValues], texts: dict[str, ColumnValues]
) -> tuple[Table, AshSource]:
    state, event = texts["session_state"], texts["event"]
    on_cpu = state.isin(name for name in state.names if name.upper() == "ON CPU")
    session = numbers["session"].filled(0)
    snapshots = numbers["snap_id"]
    if snapshots.null_count < len(snapshots) or 9 < _seen_each_s(session, times) < 11:
        source: AshSource = "DBA_HIST"
    else:
        source = "V$"
    usual_us = HISTORY_INTERVAL_US if source == "DBA_HIST" else MEMORY_INTERVAL_US
    # Serial sessions have no coordinator, which ASH writes as null or as 0.
    coordinator = numbers["coordinator"]
    weight_us = numbers["usecs_per_row"].filled(0)
    columns = {
        "time_ns": times,
        "session": session,
        "event": replace(event, values=np.where(on_cpu, -1, event.values)),
        "time_waited_us": numbers["time_waited_us"],
        "weight_us": np.where(weight_us > 0, weight_us, usual_us),
        "sql_id": texts["sql_id"],
        "sql_exec_id": numbers["sql_exec_id"],
        "plan_line": numbers["plan_line"],
        "coordinator": replace(coordinator, valid=coordinator.filled(0) != 0),
    }
    return Table(columns), source


def _seen_each_s(session: Integers, times: ColumnValues) -> float:
    """Seconds between samples of a busy session: a low quantile, because idle gaps are longer."""
    table = Table({"session": session, "time": times}).filter(times.is_valid())
    table = table.sort_by("session", "time")
    session, time = table["session"].values, table["time"].values
    gaps = (time[1:] - time[:-1])[(session[1:] == session[:-1]) & (time[1:] > time[:-1])]
    if len(gaps) < 3:
        return 0.0
    gaps.sort()
    return float(gaps[len(gaps) // 10]) / 1e9


def _selected(samples: Table, chosen: Filter, *, month_first: bool) -> Table:
    """The chosen rows. InputError if there are none; it names what the export has.

    ``time_ns`` counts from 1970. With ``month_first``, 10/04/2024 is in October.
    """
    for name, wanted in (("sql_id", chosen.sql_id), ("sql_exec_id", chosen.exec_id)):
        if wanted is None:
            continue
        column = samples[name].cast(TEXT)
        samples = samples.filter(column.equals(str(wanted)))
        if samples.num_rows == 0:
            counts = Counter(column.drop_null().to_pylist())
            ranked = sorted(counts, key=lambda value: (-counts[value], value))
            raise SelectionEmpty(
                f"no sample has {name.upper()} {wanted}",
                f"there are: {', '.join(ranked[:5]) or 'none'}",
            )
    if chosen.since is None and chosen.until is None:
        return samples
    times = samples["time_ns"].values
    ends_ns = first_ns, last_ns = int(times.min()), int(times.max())
    low_ns, high_ns = ends_ns
    if chosen.since is not None:
        low_ns = chosen_time_ns("since", chosen.since, ends_ns, month_first=month_first)
    if chosen.until is not None:
        high_ns = chosen_time_ns("until", chosen.until, ends_ns, month_first=month_first)
        # A whole second includes its fractions, which listings do not show.
        high_ns += (SECOND_NS - 1) * (high_ns % SECOND_NS == 0)
    kept = samples.filter((times >= low_ns) & (times <= high_ns))
    if kept.num_rows == 0:
        raise SelectionEmpty(
            f"no sample lies between {clock(low_ns)} and {clock(high_ns)}",
            f"the samples are from {clock(first_ns)} to {clock(last_ns)}",
        )
    return kept
