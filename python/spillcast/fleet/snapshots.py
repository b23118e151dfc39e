"""Snapshots of the counters of PostgreSQL servers, and a server's activity between two of them.

Counters only grow until they are reset. So the difference of two snapshots is exact, or a lower
bound if counters were reset in between; nothing counts twice. Differences are taken only between
snapshots of one instance: a primary and its standby share a system identifier, not a postmaster.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from spillcast.document import internal, read
from spillcast.evidence.numbers import unix_time_s
from spillcast.evidence.postgres.statements import MAINTENANCE, PER_GATHER, TEMP_TIMES, StatementRow
from spillcast.evidence.text import decoded
from spillcast.fleet.dataset import SNAPSHOTS_FOLDER, Dataset
from spillcast.gate import bounded, json_of, reading

SNAPSHOT_SCHEMA = "spillcast.look/1"
#: Texts of statements are shortened until a stored snapshot has at most this size.
SNAPSHOT_BYTES_MAX = 100_000
#: Maximum lengths of a statement's text; the first that makes the snapshot small enough is used.
_TEXTS_MAX = (2000, 500, 120, 0)
#: The columns of pg_stat_statements that identify a statement, and others that are not sums.
KEY = ("userid", "dbid", "queryid", "toplevel")
_FACTS = ("query", "stats_since", "min_exec_time", "max_exec_time")
_NAME = re.compile(r"looks/server=[^/]+/day=[^/]+/(\d{6,})-\d{8}T\d{12}Z\.json\.gz")
_DAMAGED_HINT = "remove the file, or save into a new folder"
#: A clock jumped if its advance differs by more than this from that of the client's uptime.
_JUMP_S, _JUMP_SHARE = 2.0, 0.01


@dataclass(frozen=True)
class DatabaseSpill:
    """Temp files that the sessions of a database have written, by its own counts."""

    name: str
    temp_files: int
    temp_bytes: int
    #: The start of its counts as Unix time; None if unknown.
    since_s: float | None
    #: Run time of statements in it, an upper bound of their temp I/O. None before PostgreSQL 14.
    active_s: float | None
    #: The time by target to write these bytes once and read them once, by one process.
    spill_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LiveSession:
    """A session that currently has temp files, or waits for them."""

    pid: int
    query: str
    running_s: float
    temp_bytes: int
    wait: str | None


@dataclass(frozen=True)
class Unseen:
    """Figures that could not be read: a stable code, and a text for people, with the remedy."""

    code: str
    message: str


NESTED = Unseen(
    "nested",
    "sums without calls inside others: they count twice; set pg_stat_statements.track = top",
)


@dataclass(frozen=True)
class Snapshot:
    """The counters of a server at one time; times are Unix times (s) by the server's clock.

    Files of earlier versions lack some keys.
    """

    taken_s: float
    #: The start of the counts of statements; None if unknown.
    since_s: float | None
    #: Rows of pg_stat_statements.
    rows: Sequence[Mapping[str, Any]]
    #: The number of all its statements; None without pg_stat_statements.
    statements_seen: int | None = None
    databases: Sequence[DatabaseSpill] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The number of statements whose identifiers the role may not see.
    hidden: int = 0
    #: The system identifier, which copies of the data directory share.
    server: str | None = None
    #: Host and port to which the client connected, and for TCP the server's own address.
    name: str = ""
    address: str | None = None
    version: str = ""
    started_s: float | None = None
    #: The last reset of pg_stat_statements, and the number of its evictions.
    reset_s: float | None = None
    evictions: int | None = None
    #: The boot ID of the client's machine, and the time since its boot (s).
    boot_id: str | None = None
    boot_s: float | None = None
    number: int = internal(0)
    #: Elapsed time of all statements, and time in reads of data files, summed over backends.
    elapsed_s: float | None = None
    data_read_s: float | None = None
    live: Sequence[LiveSession] = ()
    #: Figures that could not be read, with the remedy. Not read from files; older files have texts.
    unseen: Sequence[Unseen] = internal(())
    #: The duration of the queries.
    asked_s: float = 0.0

    @property
    def limits(self) -> dict[str, str | None]:
        """The settings that limit parallel workers, as further columns of its rows."""
        return {name: self.settings.get(name) for name in (PER_GATHER, MAINTENANCE)}


def store_snapshot(address: str, document: Mapping[str, Any], *, redact: bool) -> tuple[str, int]:
    """Writes a snapshot into the dataset at ``address``. Returns the name and size of its file.

    InputError if the place holds something else, SpillcastError if it cannot be written to.
    """
    dataset = Dataset.open(address, create=True)
    dataset.write_head()
    dataset.place.remove_stale(SNAPSHOTS_FOLDER)
    numbers = [number for number, _ in _names(dataset)]
    at = datetime.fromtimestamp(document["taken_s"], UTC)
    folder = f"{SNAPSHOTS_FOLDER}/server={quote(document['name'], safe='')}/day={at:%Y-%m-%d}"
    name = f"{folder}/{max(numbers, default=0) + 1:06}-{at:%Y%m%dT%H%M%S%f}Z.json.gz"
    content = b""
    for characters in (0,) if redact else _TEXTS_MAX:
        content = _packed(document, characters)
        if len(content) <= SNAPSHOT_BYTES_MAX:
            break
    dataset.place.write(name, content)
    return f"{dataset.place.address}/{name}", len(content)


def _packed(document: Mapping[str, Any], characters: int) -> bytes:
    rows = [
        {
            name: value
            for name, value in row.items()
            if name in (*KEY, *_FACTS) or name in count_names(row)
        }
        | {"query": str(row.get("query") or "")[:characters] or None}
        for row in document["rows"]
        if row.get("queryid") is not None
    ]
    hidden = len(document["rows"]) - len(rows)
    kept = {**document, "schema": SNAPSHOT_SCHEMA, "rows": rows, "hidden": hidden, "live": []}
    return gzip.compress(json.dumps(kept, default=str).encode(), mtime=0)


def read_snapshots(dataset: Dataset) -> Iterator[Snapshot]:
    """All snapshots in the order in which they were saved. InputError for a damaged file."""
    for number, name in sorted(_names(dataset)):
        path = f"{dataset.place.address}/{name}"
        with reading(path, _DAMAGED_HINT):
            content = gzip.decompress(dataset.place.read(name))
            document = json_of(decoded(bounded(content)))
            snapshot = replace(read(Snapshot, document), number=number)
            _check(snapshot)
        yield snapshot


def _check(snapshot: Snapshot) -> None:
    """KeyError, TypeError, ValueError or OSError if a time or a row cannot come from a server."""
    datetime.fromtimestamp(snapshot.taken_s, UTC)
    for row in snapshot.rows:
        # The text is not checked, which would take longer than all numbers.
        StatementRow.of({**row, **snapshot.limits, "query": None})
        is_named = row["queryid"] is not None and isinstance(row["query"], str | None)
        if not is_named or not {"calls", "total_exec_time"} <= {*count_names(row)}:
            raise ValueError("a row has no identifier, no text, no count of calls, or no time")


def _names(dataset: Dataset) -> list[tuple[int, str]]:
    names = dataset.place.names(SNAPSHOTS_FOLDER)
    return [(int(match[1]), name) for name in names if (match := _NAME.fullmatch(name))]


@dataclass(frozen=True)
class Grown:
    """A statement in a period: its row, with the sums of this period only."""

    row: Mapping[str, Any]
    #: Whether its sums restarted in the period, so that they are lower bounds.
    is_lower_bound: bool = False
    #: Whether the sums may include earlier calls, which did not spill.
    includes_earlier: bool = False


@dataclass(frozen=True)
class Period:
    """A server's activity between two snapshots; ``length_s`` is None if no clock shows it."""

    before: Snapshot
    after: Snapshot
    length_s: float | None
    statements: Sequence[Grown]
    #: Temp files and bytes by database; lower bounds if its counters restarted.
    databases: Mapping[str, tuple[int, int]]
    #: A sentence for each kind of event.
    events: Mapping[str, str]

    @property
    def middle_s(self) -> float:
        """The middle of the period. Its day is the period's, even for a snapshot after midnight."""
        return self.after.taken_s - (self.length_s or 0.0) / 2


def chains(snapshots: Iterable[Snapshot]) -> list[list[Snapshot]]:
    """The snapshots of each instance; a restarted instance continues the chain of its address."""
    ordered = list(snapshots)
    last_at = {(_group(snapshot), snapshot.started_s): at for at, snapshot in enumerate(ordered)}
    by_instance: list[list[Snapshot]] = []
    for at, snapshot in enumerate(ordered):
        ends = [chain for chain in by_instance if _group(chain[-1]) == _group(snapshot)]
        same = [chain for chain in ends if chain[-1].started_s == snapshot.started_s]
        ended = [
            chain
            for chain in reversed(ends)
            if last_at[_group(snapshot), chain[-1].started_s] < at
            and (chain[-1].name, chain[-1].address) == (snapshot.name, snapshot.address)
        ]
        if joined := same or ended:
            joined[0].append(snapshot)
        else:
            by_instance.append([snapshot])
    return by_instance


def _group(snapshot: Snapshot) -> str:
    return snapshot.server or snapshot.name


def periods(chain: Sequence[Snapshot]) -> Iterator[Period]:
    """The activity of an instance between each two consecutive snapshots."""
    for before, after in pairwise(chain):
        length_s, jumped = _length_s(before, after)
        events = dict(_events(before, after))
        if jumped:
            events["clock"] = f"the server's clock jumped by {jumped:+,.0f} s"
        statements = list(_statements(before, after))
        databases = {
            database.name: (database.temp_files, database.temp_bytes)
            for database in _databases(before, after)
        }
        yield Period(before, after, length_s, statements, databases, events)


def _length_s(before: Snapshot, after: Snapshot) -> tuple[float | None, float]:
    """The length of a period, and the jump of the server's clock in it (s)."""
    by_clock_s = after.taken_s - before.taken_s
    if before.boot_id != after.boot_id or None in (before.boot_s, after.boot_s, after.boot_id):
        return (by_clock_s, 0.0) if by_clock_s > 0 else (None, by_clock_s)
    length_s = (after.boot_s or 0.0) - (before.boot_s or 0.0)
    jump_s = by_clock_s - length_s
    return length_s, jump_s if abs(jump_s) > max(_JUMP_S, _JUMP_SHARE * length_s) else 0.0


def _events(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    """Events of the server or its counters: kinds and sentences."""
    if before.version != after.version:
        yield "version", f"PostgreSQL {after.version} instead of {before.version}"
    if before.started_s != after.started_s:
        yield "restart", "the server was restarted"
    if is_reset(before, after):
        yield "reset", "pg_stat_statements was reset: spills of statements are a lower bound"
    elif after.evictions and after.evictions > (before.evictions or 0):
        times = after.evictions - (before.evictions or 0)
        yield "evicted", f"pg_stat_statements evicted statements {times:,} times; raise its max"
    if after.statements_seen is None:
        yield "uncounted", "pg_stat_statements was not there: no statement was counted"
    if before.hidden or after.hidden:
        yield "hidden", "statements of others are not counted: grant pg_monitor to this role"
    for name in ("work_mem", "hash_mem_multiplier"):
        values = before.settings.get(name), after.settings.get(name)
        if None not in values and values[0] != values[1]:
            yield name, f"{name} was changed from {values[0]} to {values[1]}"


def is_reset(before: Snapshot, after: Snapshot) -> bool:
    """Whether all statements' counters restarted."""
    return None not in (before.reset_s, after.reset_s) and before.reset_s != after.reset_s


def _statements(before: Snapshot, after: Snapshot) -> Iterator[Grown]:
    """The growth of each statement, without those that ``before`` could not see."""
    if before.statements_seen is None:
        return
    rows, reset = {key_of(row): row for row in before.rows}, is_reset(before, after)
    for row in after.rows:
        was, since_s = rows.get(key_of(row)), unix_time_s(row.get("stats_since"))
        is_counted_since = reset or (since_s is not None and since_s >= before.taken_s)
        if was is None and before.hidden and not is_counted_since:
            continue
        sums, anew = growth(row, was, reset=reset)
        if sums["calls"]:
            yield Grown({**row, **sums}, anew, was is None and not is_counted_since)


def between(before: Snapshot, after: Snapshot) -> Snapshot:
    """The growth between two snapshots, as a snapshot whose counts start at the first one."""
    was = {key_of(row): row for row in before.rows}
    reset = is_reset(before, after)
    rows = [{**row, **growth(row, was.get(key_of(row)), reset=reset)[0]} for row in after.rows]
    length_s, jump_s = _length_s(before, after)
    since_s = None if length_s is None else after.taken_s - length_s
    if since_s is not None and (reset or not jump_s):
        since_s = max(since_s, (after.reset_s if reset else after.since_s) or 0.0)
    return replace(
        after,
        since_s=since_s,
        rows=[row for row in rows if row.get("calls")],
        elapsed_s=_increase(after.elapsed_s, before.elapsed_s),
        databases=_databases(before, after),
        data_read_s=_increase(after.data_read_s, before.data_read_s),
    )


def _databases(before: Snapshot, after: Snapshot) -> list[DatabaseSpill]:
    """The growth of each database's counts since ``before``, or all of them if they shrank."""
    databases, former = [], {database.name: database for database in before.databases}
    for database in after.databases:
        old = former.get(database.name)
        if old is not None and not (
            old.temp_bytes > database.temp_bytes or old.temp_files > database.temp_files
        ):
            database = replace(
                database,
                temp_files=database.temp_files - old.temp_files,
                temp_bytes=database.temp_bytes - old.temp_bytes,
                active_s=_increase(database.active_s, old.active_s),
                since_s=before.taken_s,
            )
        if database.temp_bytes:
            databases.append(database)
    return databases


def _increase(now: float | None, was: float | None) -> float | None:
    if now is None or was is None:
        return None
    return now - was if now >= was else now


def growth(
    row: Mapping[str, Any], was: Mapping[str, Any] | None, *, reset: bool = False
) -> tuple[dict[str, Any], bool]:
    """The growth of a row's sums, and whether they restarted, so that it is a lower bound.

    They restarted if one of them is smaller than before, if the longest call has become shorter
    or the shortest longer, or if the server shows it. The growth of a column that ``was`` lacks, as
    before an update of the extension, is None.
    """
    sums = {name: row[name] for name in count_names(row)}
    if was is None:
        return sums, reset
    if reset or row.get("stats_since") != was.get("stats_since", row.get("stats_since")):
        return sums, True
    grown = {
        name: value - was[name]
        for name, value in sums.items()
        if isinstance(was.get(name), int | float)
    }
    longest, shortest = (
        (row.get(name) or 0.0, was.get(name) or 0.0) for name in ("max_exec_time", "min_exec_time")
    )
    is_anew = min(grown.values(), default=0) < 0
    # Since version 17, these can be reset alone, and stats_since shows a reset of the sums.
    if "stats_since" not in row and was.get("calls"):
        is_anew |= longest[0] < longest[1] or shortest[0] > shortest[1]
    return (sums, True) if is_anew else ({**dict.fromkeys(sums), **grown}, False)


def count_names(row: Mapping[str, Any]) -> list[str]:
    """The columns that are sums over calls: not names, settings, minima or means."""
    return [
        name
        for name, value in row.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and (
            name in ("calls", "rows", "total_exec_time")
            or ("blk" in name and name not in KEY)
            or "parallel_workers" in name
        )
    ]


def sums_of(statements: Iterable[Grown]) -> dict[str, dict[str, Any]]:
    """The sums of each statement by its identifier, as a row with its text.

    If only some of a statement's temp I/O is timed, its temp times are 0.
    """
    sums: dict[str, dict[str, Any]] = {}
    for row in (grown.row for grown in statements):
        queryid = str(row["queryid"])
        total = sums.setdefault(queryid, {"queryid": queryid, "query": row["query"]})
        are_timed = {any(map(part.get, TEMP_TIMES)) for part in (total, row) if temp_blocks(part)}
        for name in count_names(row):
            total[name] = total.get(name, 0) + row[name]
        if len(are_timed) > 1:
            total.update(dict.fromkeys(TEMP_TIMES, 0.0))
    return sums


def temp_blocks(row: Mapping[str, Any]) -> int:
    """Temp blocks that a row counts as read and written."""
    return int(row.get("temp_blks_read") or 0) + int(row.get("temp_blks_written") or 0)


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The user, database, identifier and level of a statement."""
    return tuple(row.get(name) for name in KEY)
