"""ASH exports, CSV or Parquet, from V$ or DBA_HIST, as samples that know what they stand for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from spillcast.errors import EvidenceIncomplete, EvidenceMixed, FileUnreadable
from spillcast.evidence.oracle.ash.chosen import ALL, Chosen
from spillcast.evidence.oracle.ash.columns import Columns
from spillcast.evidence.oracle.spooled import Damage, normal_name, read_spooled
from spillcast.evidence.same_file import distinct, repeated_words
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
    several, repeated = distinct([Path(path) for path in given])
    exports, before = [], 0
    for path in several:
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
        raise EvidenceIncomplete(f"{', '.join(map(str, several))}: no row could be read")
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
