"""Turns evidence into rows of a dataset: sums of traces and ASH; recordings and plans unchanged."""

import hashlib
import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spillcast import _core
from spillcast.errors import EvidenceIncomplete, EvidenceMixed, FileTooLarge
from spillcast.evidence.counts import Counts
from spillcast.evidence.oracle.ash import Ash
from spillcast.evidence.oracle.ash_profile import WAITS, active_samples
from spillcast.evidence.oracle.collected import header_of
from spillcast.evidence.oracle.spooled import read_spooled
from spillcast.evidence.oracle.trace import Traces, failures_as_errors, open_reader
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.selection import Selection
from spillcast.evidence.spark import Application, read_application
from spillcast.evidence.text import remove_copies
from spillcast.fleet.dataset import ACTIVE, ASH_SUMS, CPU, UNKNOWN, WAIT
from spillcast.forecast.oracle.evidence import servers_of
from spillcast.gate import COUNT_MAX, damaged, reading
from spillcast.recording import Recording
from spillcast.recording.meta import Meta
from spillcast.tabular import records

#: Patterns of database, instance, host and day in the header of a trace. All instances of a
#: database share the first: diag/rdbms/UNIQUE_NAME/INSTANCE/trace.
_HEADER = (
    re.compile(rb"^Trace file \S*/rdbms/([^/\s]+)/[^/\s]+/trace/", re.MULTILINE),
    re.compile(rb"^Instance name: (\S+)", re.MULTILINE),
    re.compile(rb"^Node name:\s*(\S+)", re.MULTILINE),
    re.compile(rb"^\*\*\* .*?(\d{4}-\d{2}-\d{2})[ T]\d{2}:\d{2}:\d{2}", re.MULTILINE),
)


@dataclass(frozen=True)
class Identity:
    """The name of a database in its evidence, and the day on which the evidence begins.

    ``instance`` and ``host`` distinguish databases with the same name; empty if unknown.
    """

    database: str = UNKNOWN
    host: str = ""
    instance: str = ""
    day: str = UNKNOWN

    def named(self, database: str | None) -> "Identity":
        """The identity with another database name, if one is given."""
        return self if database is None else replace(self, database=database)

    def of_run(self, source: str, kind: str) -> dict[str, Any]:
        """The columns of FACTS and RUNS that identify a run."""
        return {"source": source, "kind": kind, "host": self.host, "instance": self.instance}


def identity_of_trace(path: Path) -> Identity:
    """The identity in the header of a trace; ``unknown`` for missing parts."""
    head = header_of(path)
    matches = (pattern.search(head) for pattern in _HEADER)
    database, instance, host, day = (
        "" if m is None else m[1].decode("utf-8", "replace") for m in matches
    )
    return Identity(database or instance or UNKNOWN, host, instance, day or UNKNOWN)


def identity_of_recording(meta: Meta) -> Identity:
    """The identity of a server's database, or of an engine without a server."""
    host, day = meta.machine.host or "", (meta.started_at or UNKNOWN)[:10]
    server = meta.engine.server
    if server is None:
        return Identity(meta.engine.name or UNKNOWN, host, day=day)
    return Identity(server.dbname or meta.engine.name, server.host or host, str(server.port), day)


TRACE = "trace"
_NO_INSTANTS: dict[str, Any] = {"instant": [], **{f"instant_{name}": [] for name in ASH_SUMS}}
_under_way: set[_core.TraceReader] = set()


def read_trace(path: Path) -> Traces:
    """The sums of a trace by event and statement. InputError if it has no trace lines."""
    with ExitStack() as stack:
        stack.callback(remove_copies, path)
        reader, _ = open_reader([path])
        _under_way.add(reader)
        stack.callback(_under_way.discard, reader)
        with failures_as_errors():
            groups, facts = reader.profile(["event", "sql", "session"])
    return Traces([path], groups, facts["files"])


def cancel_reading() -> None:
    """Stops reads of traces in other threads; a large trace would delay an interrupt."""
    for reader in list(_under_way):
        reader.cancel()


def facts_of_trace(read: Traces, source: str, who: Identity) -> list[dict[str, Any]]:
    """Rows of FACTS from a trace, by session, sorted by statement and event."""
    servers = servers_of(read.groups)
    rows = [
        {
            **who.of_run(source, TRACE),
            "sql_id": group["sql"] or "",
            "measure": CPU if group["event"] is None else WAIT,
            "event": group["event"] or group["call"],
            "op": group["op"],
            "idle": bool(group["idle"]),
            "server": group["session"] in servers,
            "count": group["count"],
            "total_us": group["total_us"],
            "blocks": group["blocks_sum"],
            "blocks_count": group["blocks_count"],
            "sampled_us": 0,
            "waits_e6": 0,
            **_NO_INSTANTS,
            "latency_ns": group["latency_ns"].tolist(),
            "latency_count": group["latency_count"].tolist(),
        }
        for group in read.groups
    ]
    return sorted(rows, key=itemgetter("sql_id", "measure", "event"))


#: Kinds of evidence by the view of ASH: DBA_HIST has every tenth sample of V$.
ASH_KINDS = {"V$": "ash", "DBA_HIST": "ash history"}
#: Columns that may name the database, in order of preference.
_NAMES = ("database", "db_name", "dbname", "instance_name", "dbid", "con_dbid")

_FACTS = f"""
with known as materialized (
    select
        strftime(make_timestamp(at_ns // 1000), '%Y-%m-%d') as day,
        coalesce(sql_id::varchar, '') as sql_id,
        coalesce(sql_exec_id, -1) as sql_exec_id,
        coordinator,
        instant,
        weight_us,
        event_name as event,
        {WAITS} as stands_for
    from active
),
instants as (
    select day, sql_id, sql_exec_id, coordinator, instant,
        avg(weight_us) as weight_us, count(*) as sessions
    from known group by all
),
hits as (
    select day, sql_id, sql_exec_id, coordinator, instant, event,
        count(*) as sessions, sum(weight_us) as sampled_us, sum(stands_for) as waits
    from known group by all
),
parts as (
    select
        day, sql_id, '{WAIT}' as measure, event,
        concat_ws('/', sql_exec_id, coordinator, instant) as instant,
        hits.sessions as count,
        round(instants.weight_us * hits.sessions / instants.sessions * 1e3)::bigint as total_ns,
        sampled_us::bigint as sampled_us,
        round(waits * 1e6)::bigint as waits_e6
    from hits join instants using (day, sql_id, sql_exec_id, coordinator, instant)
    union all
    select day, sql_id, '{ACTIVE}', '', concat_ws('/', sql_exec_id, coordinator, instant),
        1, round(weight_us * 1e3)::bigint, 0, 0
    from instants
)
select
    day, sql_id, measure, event,
    sum(count)::bigint as count,
    round(sum(total_ns) / 1e3)::bigint as total_us,
    sum(sampled_us)::bigint as sampled_us,
    sum(waits_e6)::bigint as waits_e6,
    list(instant order by instant) as instant,
    {", ".join(f"list({name} order by instant) as instant_{name}" for name in ASH_SUMS)}
from parts
group by all
order by day, sql_id, measure, event
"""


def database_of_export(path: Path) -> str:
    """The database in an export of ASH. InputError if no column names it, or names several."""
    columns = read_spooled(path, {name: name for name in _NAMES}).columns
    for column in (columns[name] for name in _NAMES if name in columns):
        names = {str(value) for value in column.unique() if value != ""}
        if len(names) > 1:
            raise EvidenceMixed(
                f"rows of {len(names)} databases", "export each database into its own file", path
            )
        if names:
            return names.pop()
    raise EvidenceIncomplete("names no database", "say which it is with: --database NAME", path)


#: Columns of FACTS that have no values in ASH.
_NOT_IN_ASH: dict[str, Any] = {
    "op": None, "idle": False, "server": False, "blocks": 0, "blocks_count": 0, "latency_ns": [],
    "latency_count": [],
}  # fmt: skip


def facts_of_ash(ash: Ash, source: str, who: Identity) -> dict[str, list[dict[str, Any]]]:
    """Rows of FACTS from ASH, by day."""
    with active_samples(ash) as connection:
        rows = records(connection.sql(_FACTS))
    by_day: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        day = row.pop("day") or UNKNOWN
        of_run = who.of_run(source, ASH_KINDS[ash.source])
        by_day.setdefault(day, []).append(of_run | row | _NOT_IN_ASH)
    return by_day


RECORDING, PLAN, APPLICATION = "recording", "plan", "application"
#: The maximum size of evidence in a value of a table; event logs are compressed first.
_BYTES_MAX = 64 << 20
#: A larger event log is not decompressed.
_LOG_BYTES_MAX = 4 << 30
#: The timestamp of all packed files, so that equal recordings are packed into equal bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def pack(path: Path, kind: str, source: str, who: Identity) -> dict[str, Any]:
    """A row of RUNS with the files at ``path``. InputError for other files and for large ones."""
    files = sorted(f for f in path.iterdir() if f.is_file()) if path.is_dir() else [path]
    total = sum(file.stat().st_size for file in files)
    if kind != APPLICATION:
        _check_size(total, "record with --slices 10, which keeps what a forecast needs")
    method = zipfile.ZIP_DEFLATED if kind == APPLICATION else zipfile.ZIP_STORED
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method, compresslevel=1) as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.name, _NO_TIME)
            entry.compress_type = method
            with file.open("rb") as content, archive.open(entry, "w", force_zip64=True) as packed:
                shutil.copyfileobj(content, packed, 1 << 20)
            _check_size(buffer.tell(), "forecast it by itself: spillcast forecast LOG")
    return {
        **who.of_run(source, kind),
        "sql_id": _statement(path, kind),
        "name": path.name,
        "evidence": buffer.getvalue(),
    }


def _check_size(size_bytes: int, hint: str) -> None:
    if size_bytes > _BYTES_MAX:
        raise FileTooLarge(
            f"{size_bytes >> 20} MiB, and evidence of up to {_BYTES_MAX >> 20} MiB is kept", hint
        )


def _statement(path: Path, kind: str) -> str:
    """The name of a Spark application, the identifier of a query, or a hash of its text."""
    if kind == APPLICATION:
        log = read_application(path).log
        return log.properties.get("spark.app.name") or log.id or path.name
    if kind == RECORDING:
        engine = Recording.open(path).meta.engine
        text = engine.query or engine.command or path.name
    else:
        document = read_plan(path, Selection(timed=False)).document or {}
        if identifier := document.get("Query Identifier"):
            return str(identifier)
        text = document.get("Query Text") or path.name
    if not isinstance(text, str):
        text = json.dumps(text)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


@contextmanager
def unpacked(
    row: Mapping[str, Any], selection: Selection, workdir: Path
) -> Iterator[Recording | Counts | Application]:
    """The recording, the counts or the application in a row. Refusal as in ``read_plan``."""
    name = row["name"]
    with TemporaryDirectory(dir=workdir) as folder:
        path = Path(folder) / name
        is_file = row["kind"] == PLAN
        with reading(name), zipfile.ZipFile(io.BytesIO(row["evidence"])) as archive:
            is_name = Path(name).name == name and name not in ("", "..")
            if not is_name or row["kind"] not in (RECORDING, PLAN, APPLICATION):
                raise damaged(f"no {RECORDING}, {PLAN} or {APPLICATION} of that name")
            max_bytes = _LOG_BYTES_MAX if row["kind"] == APPLICATION else _BYTES_MAX
            if sum(file.file_size for file in archive.infolist()) > max_bytes:
                raise damaged(f"more than {max_bytes >> 20} MiB of evidence")
            is_file = is_file or archive.namelist() == [name]
            archive.extractall(path.parent if is_file else path)
        if row["kind"] == APPLICATION:
            yield read_application(path)
        else:
            yield Recording.open(path) if row["kind"] == RECORDING else read_plan(path, selection)


#: Reads are large, because threads take turns at each read and each update.
_CHUNK_BYTES = 16 << 20


def content_hash(path: Path) -> str:
    """SHA-256, cut to 128 bits, of a file's bytes, or of names and bytes of a folder's files."""
    digest, files = hashlib.sha256(), [path]
    if path.is_dir():
        # rglob skips a folder that may not be read.
        os.listdir(path)
        files = sorted(f for f in path.rglob("*") if f.is_file())
    for file in files:
        if file != path:
            digest.update(os.fsencode(file.relative_to(path)) + b"\0")
        with file.open("rb", buffering=0) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()[:32]


_SUMS = ("count", "total_us", "blocks", "blocks_count", "sampled_us", "waits_e6")


def check_facts(rows: Iterable[Mapping[str, Any]]) -> None:
    """InputError for sums beyond the range that readers of a dataset accept."""
    for row in rows:
        for name in _SUMS:
            if not 0 <= row[name] <= COUNT_MAX:
                raise damaged(f"{name} of {row['event'] or 'all'} is {row[name]:,}")
        if max(row["latency_ns"], default=0) > COUNT_MAX:
            raise damaged(f"a wait for {row['event']} took {max(row['latency_ns']):,} ns")
