"""ASH exports, CSV or Parquet, from V$ or DBA_HIST, as samples that know what they stand for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    FileUnreadable,
    OptionInvalid,
    SelectionEmpty,
)
from spillcast.evidence.oracle.ash import values
from spillcast.evidence.oracle.spooled import Damage, normal_name, read_spooled
from spillcast.evidence.text import distinct, repeated_words
from spillcast.gate import any_table_of, reading
from spillcast.recording.schema import SAMPLES_SCHEMA

Source = Literal["V$", "DBA_HIST"]
#: Memory is sampled each second; DBA_HIST keeps one sample in ten.
MEMORY_INTERVAL_US = 1_000_000
HISTORY_INTERVAL_US = 10 * MEMORY_INTERVAL_US
_EXTRA_TEXTS = ("wait_class", "exec_start", "plan_operation", "plan_options")
_TEXTS = ("event", "session_state", "sql_id", *_EXTRA_TEXTS)
_EXTRA_NUMBERS = ("p1", "p2", "p3", "instance", "coordinator_instance", "pga_bytes", "temp_bytes")
_NUMBERS = (
    *("session", "time_waited_us", "sql_exec_id", "plan_line", "coordinator"),
    *("usecs_per_row", "snap_id", *_EXTRA_NUMBERS),
)
#: Normal headings and what they are called here. SQL*Plus cuts the heading SESSION_STATE down to
#: the seven characters of its values.
_NAMES = {
    **{name: name for name in ("sample_time", *_TEXTS, *_NUMBERS) if name != "session"},
    "session": "session_state",
    "session_id": "session",
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
_NAME = pa.dictionary(pa.int32(), pa.string())
_NEEDED = "SAMPLE_TIME, and EVENT or SESSION_STATE"
_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True)
class Ash:
    """What active sessions did, instant by instant.

    ``samples`` has the columns of SAMPLES in recording/schema.py, by time, and p1, p2, p3,
    instance, coordinator_instance, wait_class, exec_start, plan_operation, plan_options, pga_bytes
    and temp_bytes (of the session) where the export has them. ``began``
    is the first sample's time as written, in no particular zone. ``exported`` are the columns that
    every file has, by these names.
    """

    samples: pa.Table
    source: Source
    began: datetime
    notes: list[str] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)
    exported: frozenset[str] = frozenset()

    @property
    def interval_us(self) -> int:
        """Time from one sample of a session to the next."""
        return HISTORY_INTERVAL_US if self.source == "DBA_HIST" else MEMORY_INTERVAL_US


@dataclass(frozen=True)
class _Export:
    """One file, its times still absolute."""

    samples: pa.Table
    source: Source
    damaged: list[Damage]
    has_clock: bool
    month_first: bool
    exported: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is asked of an export; None leaves all.

    ``since`` and ``until`` are times as the export has them, both included, or times of its day.
    """

    sql_id: str | None = None
    exec_id: int | None = None
    since: str | None = None
    until: str | None = None

    def of(self, samples: pa.Table, *, month_first: bool = False) -> pa.Table:
        """These rows, of which there is one; InputError names what there is.

        ``time_ns`` counts from 1970 here. With ``month_first`` 10/04/2024 is in October.
        """
        for name, wanted in (("sql_id", self.sql_id), ("sql_exec_id", self.exec_id)):
            if wanted is not None:
                samples = _with(samples, name, str(wanted))
        if self.since is None and self.until is None:
            return samples
        first_ns, last_ns = _ends_ns(samples)
        low_ns, high_ns = first_ns, last_ns
        if self.since is not None:
            low_ns = _time_ns("since", self.since, samples, month_first=month_first)
        if self.until is not None:
            high_ns = _time_ns("until", self.until, samples, month_first=month_first)
        times = samples["time_ns"]
        inside = pc.and_(pc.greater_equal(times, low_ns), pc.less_equal(times, high_ns))
        kept = samples.filter(inside)
        if kept.num_rows == 0:
            raise SelectionEmpty(
                f"no sample lies between {clock(low_ns)} and {clock(high_ns)}",
                f"the samples are of {clock(first_ns)} to {clock(last_ns)}",
            )
        return kept


#: All of an export.
ALL = Chosen()


class Columns:
    """The columns of one file, converted; what cannot be is damage of its line."""

    def __init__(
        self,
        path: Path,
        columns: dict[str, pa.Array],
        lines: list[int] | None,
        damaged: list[Damage],
    ) -> None:
        self.path, self.columns, self.lines, self.damaged = path, columns, lines, damaged
        self.rows = len(columns["sample_time"])
        self.has_clock = True
        #: Whether dates are such as 10/14/2024.
        self.month_first = False

    def times(self) -> pa.Array:
        """Nanoseconds since 1970; null and damage where there is none."""
        column = self.columns["sample_time"]
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            return column.cast(pa.timestamp("ns", getattr(column.type, "tz", None))).cast(
                pa.int64()
            )
        encoded = _encoded(column)
        texts = [text for text in encoded.dictionary.to_pylist() if text is not None]
        self.month_first = values.month_comes_first(texts)
        parsed = [values.parse_time_ns(text, month_first=self.month_first) for text in texts]
        times = pa.array(parsed, pa.int64()).take(encoded.indices)
        self.has_clock = any(map(values.has_clock, texts))
        for row in pc.indices_nonzero(pc.is_null(times)).to_pylist():
            self._damage(row, f"SAMPLE_TIME is {column[row].as_py()!r}: the row is skipped")
        return times

    def numbers(self, name: str) -> pa.Array:
        """Whole numbers; null where empty, null and damage where there is something else."""
        column = self.columns.get(name)
        if column is None or pa.types.is_null(column.type):
            return pa.nulls(self.rows, pa.int64())
        if pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        if pa.types.is_decimal(column.type) or pa.types.is_floating(column.type):
            return pc.round(column).cast(pa.int64())
        if not _is_text(column.type):
            raise EvidenceDamaged(f"{self.path}: column {name} holds {column.type}, not numbers")
        encoded = _encoded(column)
        parsed = [values.parse_integer(text) for text in encoded.dictionary.to_pylist()]
        numbers = pa.array(parsed, pa.int64()).take(encoded.indices)
        bad = pc.and_(pc.is_null(numbers), pc.is_valid(column))
        for row in pc.indices_nonzero(bad).to_pylist():
            self._damage(row, f"{name} is {column[row].as_py()!r}: treated as unknown")
        return numbers

    def texts(self, name: str) -> pa.Array:
        """Texts, null where empty."""
        column = self.columns.get(name)
        if column is None:
            return pa.nulls(self.rows, pa.string())
        column = column.cast(pa.string())
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)

    def _damage(self, row: int, problem: str) -> None:
        line = self.lines[row] if self.lines is not None else row + 1
        self.damaged.append(Damage(str(self.path), line, problem))


def read_ash(
    paths: str | Path | Sequence[str | Path],
    chosen: Chosen = ALL,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Ash:
    """Read ASH exports, or what is chosen of them; a file that is given twice counts once.

    InputError where a file lacks columns, where V$ and DBA_HIST are mixed, and where no row is
    left. Lines that cannot be read are in ``damaged``, each with its file. ``on_progress`` is told
    of the bytes read so far, about.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files, repeated = distinct([Path(path) for path in given])
    exports, before = [], 0
    for path in files:
        report_progress = None if on_progress is None else partial(_on, on_progress, before)
        with reading(path, "export it again"):
            exports.append(_read_export(path, report_progress))
        before += path.stat().st_size
    if len({export.source for export in exports}) > 1:
        raise EvidenceMixed(
            "V$ and DBA_HIST rows are mixed, and the second repeat one in ten of the first",
            "give files of one kind",
        )
    tables = [export.samples for export in exports]
    samples = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
    if samples.num_rows == 0:
        raise EvidenceIncomplete(f"{', '.join(map(str, files))}: no row could be read")
    month_first = any(export.month_first for export in exports)
    samples = chosen.of(samples, month_first=month_first).sort_by("time_ns")
    first_ns = samples["time_ns"][0].as_py()
    times = pc.subtract(samples["time_ns"], first_ns)
    notes = repeated_words(repeated)
    if not all(export.has_clock for export in exports):
        notes.append(
            "SAMPLE_TIME holds dates without a time of day: elapsed time is unknown; "
            "export it with to_char(sample_time, 'YYYY-MM-DD HH24:MI:SS.FF3')"
        )
    if any(export.source == "DBA_HIST" and "snap_id" not in export.exported for export in exports):
        notes.append("samples are 10 s apart: assumed to be from DBA_HIST, 10 s each")
    if any(_of_v_session(export) for export in exports):
        notes.append(
            "samples of V$SESSION, not of ASH: how long single waits took and which line of the "
            "plan they are of is not known"
        )
    return Ash(
        samples.set_column(0, samples.schema.field("time_ns"), times),
        exports[0].source,
        datetime.fromtimestamp(first_ns / 1e9, UTC).replace(tzinfo=None),
        notes,
        [damage for export in exports for damage in export.damaged],
        frozenset.intersection(*(export.exported for export in exports)),
    )


def _of_v_session(export: _Export) -> bool:
    """Whether these are the looks of ``collect oracle --without-pack``."""
    return "usecs_per_row" in export.exported and "time_waited_us" not in export.exported


def _on(on_progress: Callable[[int], None], before: int, count: int) -> None:
    on_progress(before + count)


def _read_export(path: Path, on_progress: Callable[[int], None] | None) -> _Export:
    if _is_parquet(path):
        heading, columns, lines, damaged = *_parquet_columns(path), None, []
    else:
        spooled = read_spooled(path, _NAMES, on_progress)
        heading, lines, damaged = spooled.heading, spooled.lines, list(spooled.damaged)
        columns = {name: pa.array(cells, pa.string()) for name, cells in spooled.columns.items()}
    if "sample_time" not in columns or not {"event", "session_state"} & columns.keys():
        heading_words = ", ".join(heading[:20]) or "nothing"
        raise EvidenceIncomplete(f"{path}: an ASH export needs {_NEEDED}; found: {heading_words}")
    reader = Columns(path, columns, lines, damaged)
    times = reader.times()
    numbers = {name: reader.numbers(name) for name in _NUMBERS}
    samples, source = _samples(times, numbers, {name: reader.texts(name) for name in _TEXTS})
    extra = {name: numbers[name] for name in _EXTRA_NUMBERS if name in columns}
    extra |= {name: reader.texts(name) for name in _EXTRA_TEXTS if name in columns}
    for name, column in extra.items():
        samples = samples.append_column(name, column)
    samples = samples.filter(pc.is_valid(times))
    damaged.sort(key=lambda damage: damage.line)
    clock = reader.has_clock, reader.month_first
    return _Export(_typed(samples), source, damaged, *clock, frozenset(columns))


def _samples(
    times: pa.Array, numbers: dict[str, pa.Array], texts: dict[str, pa.Array]
) -> tuple[pa.Table, Source]:
    on_cpu = pc.fill_null(pc.equal(pc.utf8_upper(texts["session_state"]), "ON CPU"), False)
    event = pc.if_else(on_cpu, pa.scalar(None, pa.string()), texts["event"])
    session = pc.fill_null(numbers["session"], 0)
    snapshots = numbers["snap_id"]
    if snapshots.null_count < len(snapshots) or 9 < _seen_each_s(session, times) < 11:
        source: Source = "DBA_HIST"
    else:
        source = "V$"
    usual_us = HISTORY_INTERVAL_US if source == "DBA_HIST" else MEMORY_INTERVAL_US
    # Serial sessions have no coordinator, which ASH writes as null or as 0.
    coordinator = numbers["coordinator"]
    serial = pc.fill_null(pc.equal(coordinator, 0), True)
    columns = {
        "time_ns": times,
        "session": session,
        "event": event,
        "time_waited_us": numbers["time_waited_us"],
        "weight_us": _positive_or(numbers["usecs_per_row"], usual_us),
        "sql_id": texts["sql_id"],
        "sql_exec_id": numbers["sql_exec_id"],
        "plan_line": numbers["plan_line"],
        "coordinator": pc.if_else(serial, pa.scalar(None, pa.int64()), coordinator),
    }
    return pa.table(columns), source


def _positive_or(numbers: pa.Array, usual: int) -> pa.Array:
    return pc.if_else(pc.fill_null(pc.greater(numbers, 0), False), numbers, usual)


def _seen_each_s(session: pa.Array, times: pa.Array) -> float:
    """Seconds between samples of a busy session: a low quantile, as idle gaps are longer."""
    table = pa.table({"session": session, "time": times}).filter(pc.is_valid(times))
    table = table.sort_by([("session", "ascending"), ("time", "ascending")])
    session, time = table["session"].to_numpy(), table["time"].to_numpy()
    gaps = (time[1:] - time[:-1])[(session[1:] == session[:-1]) & (time[1:] > time[:-1])]
    if len(gaps) < 3:
        return 0.0
    gaps.sort()
    return float(gaps[len(gaps) // 10]) / 1e9


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise FileUnreadable(f"{path}: {error.strerror}") from error


def _parquet_columns(path: Path) -> tuple[list[str], dict[str, pa.Array]]:
    # Columns of exports are of many types: what of them is used is converted, or told.
    table = any_table_of(path, "export it again")
    columns: dict[str, pa.Array] = {}
    for heading in table.column_names:
        if (name := _NAMES.get(normal_name(heading))) is not None and name not in columns:
            columns[name] = table[heading].combine_chunks()
    return table.column_names, columns


def no_samples() -> pa.Table:
    """The most columns that samples of an export may have, without rows."""
    samples = SAMPLES_SCHEMA.empty_table()
    for name in (*_EXTRA_NUMBERS, *_EXTRA_TEXTS):
        samples = samples.append_column(name, pa.array([], pa.null()))
    return _typed(samples)


def _typed(samples: pa.Table) -> pa.Table:
    """The columns in the types that schema.py gives them."""
    fields = list(SAMPLES_SCHEMA)
    for name in samples.column_names[len(fields) :]:
        fields.append(pa.field(name, _NAME if name in _EXTRA_TEXTS else pa.int64()))
    return samples.cast(pa.schema(fields))


def clock(time_ns: int) -> str:
    """A time as people read and write it, to the second."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def _with(samples: pa.Table, name: str, wanted: str) -> pa.Table:
    column = samples[name].cast(pa.string())
    chosen = samples.filter(pc.fill_null(pc.equal(column, wanted), False))
    if chosen.num_rows == 0:
        counts = pc.value_counts(column.drop_null()).to_pylist()
        counts.sort(key=lambda entry: (-entry["counts"], entry["values"]))
        top_values = ", ".join(entry["values"] for entry in counts[:5]) or "none"
        raise SelectionEmpty(f"no sample has {name.upper()} {wanted}", f"there are: {top_values}")
    return chosen


def _ends_ns(samples: pa.Table) -> tuple[int, int]:
    ends = pc.min_max(samples["time_ns"]).as_py()
    return ends["min"], ends["max"]


def _time_ns(option: str, text: str, samples: pa.Table, *, month_first: bool) -> int:
    """A time, or a time of the day that the samples are of."""
    first_ns, last_ns = _ends_ns(samples)
    day_ns = first_ns // _DAY_NS * _DAY_NS
    if (time_ns := values.parse_time_ns(text, month_first=month_first)) is not None:
        return time_ns
    time_ns = values.parse_time_ns(f"1970-01-01 {text}")
    if time_ns is None:
        raise OptionInvalid(
            f"--{option} '{text}' is not a time", f"write for example {clock(first_ns)}"
        )
    if last_ns // _DAY_NS * _DAY_NS != day_ns:
        raise EvidenceMixed(
            f"--{option} {text}: the samples are of several days",
            f"write the day too, as in '{clock(first_ns)}'",
        )
    return day_ns + time_ns


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return kind in (pa.string(), pa.large_string())


def _encoded(column: pa.Array) -> Any:
    """Distinct texts and who has which: each is parsed once."""
    return column.cast(pa.string()).dictionary_encode()
