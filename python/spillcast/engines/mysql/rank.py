"""Ranks the statements of a server that spill, by performance_schema's counts of each digest."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.engines import mysql
from spillcast.engines.ranking import FORECAST_MAX, Ranked, RankRequest, ServerRanking, with_gains
from spillcast.engines.registry import MYSQL
from spillcast.errors import InputError, PermissionDenied, Refusal, ServerUnsuited
from spillcast.evidence.counts import Bounds, Counts, OpCounts, TempCounts
from spillcast.fleet.snapshots import DatabaseSpill, Unseen
from spillcast.recording.meta import ObservedEngine
from spillcast.redaction import masked_text
from spillcast.text import shell_word
from spillcast.units import format_count

#: Timers of performance_schema are in picoseconds.
PS = 1e-12
#: Excludes statements on the server's own tables, such as ours: they create temporary tables, too.
_STATEMENTS = """
select digest, digest_text, sum(count_star) calls, sum(sum_timer_wait) elapsed,
       sum(sum_created_tmp_disk_tables) disk_tables, sum(sum_sort_merge_passes) merge_passes,
       timestampdiff(microsecond, min(first_seen), now(6)) since_us
  from performance_schema.events_statements_summary_by_digest
 where digest is null
    or digest_text not like '%performance_schema%' and digest_text not like '%information_schema%'
 group by digest, digest_text
"""
_SUMS = (
    "sum(count_read) read_count, sum(sum_number_of_bytes_read) read_bytes,"
    " sum(sum_timer_read) read_ps, sum(count_write) write_count,"
    " sum(sum_number_of_bytes_write) written_bytes, sum(sum_timer_write) written_ps"
)
_EVENTS = (
    "('wait/io/file/sql/io_cache', 'wait/io/file/sql/hash_join', 'wait/io/file/aria/MAD', "
    "'wait/io/file/aria/MAI', 'wait/io/file/myisam/dfile', 'wait/io/file/myisam/kfile', "
    "'wait/io/file/innodb/innodb_temp_file')"
)
#: I/O on all files of these kinds, and on those of them that are not temp files.
_FILES = (
    f"select {_SUMS} from performance_schema.file_summary_by_event_name "
    f"where event_name in {_EVENTS}"
)
_OTHER_FILES = (
    f"select {_SUMS} from performance_schema.file_summary_by_instance "
    f"where event_name in {_EVENTS} "
    "and file_name not rlike '#sql|/#innodb_temp/|/temp_[0-9]+[.]ibt|Innodb Merge Temp File$'"
)
#: What the server does not count.
_STATEMENT_IO = (
    "temp I/O of a statement: the server counts its temporary tables on disk and merge passes, "
    "not their bytes and time, so it took at most as long as the statement; a hash join or "
    "count(distinct ...) that went to disk is not counted"
)
_DIGESTS = (
    "statements that did not fit into the server's table of digests: truncate "
    "performance_schema.events_statements_summary_by_digest, or raise "
    "performance_schema_digests_size"
)
_SORTS = "temp files of sorts: MariaDB times only reads of temporary tables on disk"
_WRITES = (
    "writes of temporary tables alone: MariaDB counts them with those of permanent Aria tables, "
    "so bytes are at most what is shown"
)
#: The maximum number of words of a statement in the command that records it.
PATTERN_WORDS = 6
#: Pages written of MariaDB's temporary and permanent Aria tables: performance_schema counts the
#: reads of each file, but no writes.
_PAGES = "aria_pagecache_writes"
_STATUS = ("created_tmp_files", "created_tmp_disk_tables", "sort_merge_passes", "uptime", _PAGES)


def rank_mysql(dsn: str, request: RankRequest) -> ServerRanking:
    """Ranks the statements that spill. InputError if the server is down or counts nothing."""
    unseen = [Unseen("statement-io", _STATEMENT_IO)]
    with mysql.connected(dsn) as connection:
        server = mysql.server_of(connection)
        names = ", ".join(f"'{name}'" for name in _STATUS)
        answer = mysql.rows(connection, f"show global status where variable_name in ({names})")
        status = {row["variable_name"].lower(): int(row["value"]) for row in answer}
        if not server.instrumented:
            raise _not_instrumented(dsn, server, status)
        counted = mysql.rows(connection, _STATEMENTS)
        try:
            with mysql.checked(connection):
                temp = _temp_files(connection, status.get(_PAGES, 0))
        except PermissionDenied as error:
            temp = None
            refusal = f"bytes and times of temp files: {error.message} ({error.hint})"
            unseen.append(Unseen("rights", refusal))
        settings = mysql.variables(connection, *MYSQL.settings, "tmpdir")
    if lost := sum(int(row["calls"]) for row in counted if row["digest"] is None):
        unseen.append(Unseen("digests", f"{lost:,} calls of {_DIGESTS}"))
    known = [row for row in counted if row["digest"] is not None]
    spilling = [row for row in known if row["disk_tables"] or row["merge_passes"]]
    spilling.sort(key=lambda row: row["elapsed"], reverse=True)
    statements = [
        _ranked(row, temp, server, request if at < FORECAST_MAX else None)
        for at, row in enumerate(spilling)
    ]
    files = status["created_tmp_files"] + status["created_tmp_disk_tables"]
    if server.flavor == "mariadb":
        unseen += [Unseen("sorts", _SORTS), Unseen("writes", _WRITES)]
    return ServerRanking(
        source=mysql.shown_dsn(dsn),
        # A table of digests that was truncated has no statement from before.
        window_s=max((float(row["since_us"]) / 1e6 for row in counted), default=None),
        statements=statements,
        targets=request.targets,
        confidence=request.confidence,
        statements_seen=len(known),
        elapsed_s=sum(float(row["elapsed"]) for row in counted) * PS,
        databases=[]
        if temp is None
        else [DatabaseSpill(server.host, files, temp.writes.bytes, None, _timed_s(temp) or None)],
        database_temp_bytes=None if temp is None else temp.writes.bytes,
        settings={**settings, **{name: str(value) for name, value in status.items()}},
        unseen=unseen,
        record=_record_command(dsn, statements[0].query or "") if statements else None,
        memory="sort_buffer_size or tmp_table_size",
    )


def _not_instrumented(
    dsn: str, server: mysql.MysqlServer, status: Mapping[str, int]
) -> ServerUnsuited:
    """The error for a server without performance_schema, with its counts of all statements."""
    made = (
        format_count(status["created_tmp_disk_tables"], "temporary disk table"),
        format_count(status["created_tmp_files"], "other temp file"),
        format_count(status["sort_merge_passes"], "merge pass"),
    )
    # MySQL shows the thread of a session only in performance_schema.
    session = f"--mysql {shell_word(mysql.shown_dsn(dsn))} --query PATTERN"
    wanted = session if server.flavor == "mariadb" else "--pid PID"
    return ServerUnsuited(
        "MySQL: performance_schema is off, so no statement is counted; since its start "
        f"the server made {', '.join(made)}",
        "set performance_schema = ON in the server's my.cnf and restart it; without a "
        f"restart, record a query while it runs: spillcast record {wanted}",
    )


def _record_command(dsn: str, digest: str) -> str | None:
    """The command that records a statement by its longest run of words; None without words."""
    runs = re.findall(r"[A-Za-z_]\w*(?: (?:[A-Za-z_]\w*))*", digest.replace("`", ""))
    words = max(runs, key=len, default="").split()
    if not words:
        return None
    # Any white space may separate the words.
    address, pattern = mysql.shown_dsn(dsn), r"\W+".join(words[:PATTERN_WORDS])
    return (
        f"spillcast record --mysql {shell_word(address)} --query {shell_word(pattern)} -o run.spill"
    )


def _temp_files(connection: mysql.Connection, pages: int) -> TempCounts:
    """The I/O on temp files since the server's start, by the server's counts and times.

    Up to ``pages`` pages of Aria were written without being timed; each is assumed to take as long
    as a read.
    """
    [total], [other] = mysql.rows(connection, _FILES), mysql.rows(connection, _OTHER_FILES)
    sums = {name: int(total[name] or 0) - int(other[name] or 0) for name in total}
    reads = OpCounts.timed(sums["read_count"], sums["read_bytes"], sums["read_ps"] * PS)
    page_bytes = int(mysql.variables(connection, "aria_block_size").get("aria_block_size", 0))
    pages_s = pages * reads.total_ns / 1e9 / max(reads.count, 1)
    return TempCounts(
        reads,
        OpCounts.timed(
            sums["write_count"] + pages,
            sums["written_bytes"] + pages * page_bytes,
            sums["written_ps"] * PS + pages_s,
        ),
    )


def _timed_s(temp: TempCounts) -> float:
    return (temp.reads.total_ns + temp.writes.total_ns) / 1e9


def _ranked(
    row: dict[str, Any],
    temp: TempCounts | None,
    server: mysql.MysqlServer,
    request: RankRequest | None,
) -> Ranked:
    calls, elapsed_s = int(row["calls"]), float(row["elapsed"]) * PS
    ranked = Ranked(
        queryid=row["digest"],
        query=masked_text(row["digest_text"]),
        calls=calls,
        elapsed_s=elapsed_s,
        temp_bytes=None,
        temp_s=(0.0, elapsed_s),
        disk_tables=int(row["disk_tables"]),
        merge_passes=int(row["merge_passes"]),
    )
    if request is None:
        return replace(ranked, refused=f"only the {FORECAST_MAX} longest are forecast")
    if temp is None:
        return replace(ranked, refused="the latency of temp files is not known; record it")
    if not _timed_s(temp) or not elapsed_s:
        return replace(
            ranked, refused="the server timed no temp file: record the query for their latency"
        )
    try:
        counts = _counts(temp, elapsed_s / calls, server)
        return with_gains(ranked, counts.at_bounds(), calls, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message)


def _counts(temp: TempCounts, elapsed_s: float, server: mysql.MysqlServer) -> Counts:
    """One call, with operations of the mean size and latency; the total time has bounds."""
    counts = Counts(
        path=Path("performance_schema"),
        elapsed_s=elapsed_s,
        reads=temp.reads,
        writes=temp.writes,
        source="figures",
        engine=ObservedEngine(server.flavor, server.version),
        counts_follow_time=True,
    )
    middle = counts.with_total_s(elapsed_s / 2)
    reason = "the server does not time the temp files of a statement"
    return replace(middle, time_bounds=Bounds(0.0, elapsed_s, reason, "record the query"))
