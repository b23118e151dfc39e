"""Recognises the kind of a file by its content: the kind with the highest score."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import EvidenceMixed, EvidenceUnknown, EvidenceUnsuited
from spillcast.evidence.clickhouse import is_parquet_log, is_query_log
from spillcast.evidence.oracle import SAMPLE_COUNTS
from spillcast.evidence.other_engines import BYTE_COUNTERS, COUNTER_HEADING, TEXTS
from spillcast.evidence.postgres.columns import renamed
from spillcast.evidence.selection import FIGURES_HINT
from spillcast.evidence.shippers import unshipper
from spillcast.evidence.spark import is_event_log, plain_log
from spillcast.evidence.table_rows import SEPARATORS, split_at, table_of
from spillcast.evidence.text import HEAD_BYTES, head_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import reading

if TYPE_CHECKING:
    from spillcast.evidence.counts import Counts
    from spillcast.evidence.selection import Selection

#: Wrappings are removed from this many leading characters. Pasted texts are shorter.
_UNWRAPPED_LENGTH = 1 << 17
#: The number of leading characters that are searched for a table's heading, and for fixed names.
_HEADING_LENGTH, _NAMES_LENGTH = 1 << 16, 4096
#: The number of leading bytes that are searched for evidence of other sources.
_CHECKED_BYTES = 4 << 20
#: Lines that may precede a heading: echoed commands and the text of a mail.
_HEADING_LINES_MAX = 200
_ASH_COLUMNS = {"sample_time", "session_state", "wait_class", "time_waited", "event", "sql_exec_id"}
#: Marks that only one source's plans, reports or logs have where a statement cannot quote them.
_SOURCES = {
    source: re.compile(mark, re.MULTILINE)
    for source, mark in (
        ("a plan or a log of PostgreSQL",
         r"\(cost=\d++\.\d\d\.\.\d++\.\d\d rows=\d++ width=\d++\)|\bLOG:  temporary file: path"
         r"|[^\W\d_] ?:  [^\"«»\d\n]{5,40}[\"«»][^\"«»\n]{,200}/pgsql_tmp\d++\.\d"
         r"|^[^\w\n]*+(?:Plan\W++)?Node[ -]Type\"?[:>]"),
        # The heading, if numbers follow below.
        ("rows of pg_stat_statements",
         r'^(?=[\w",;|\t ]*+\n(?:[-+| ]++\n)?["| ]*+-?\d)(?=[^\n]*\btemp_blks_read\b)'
         r"[^\n]*\btemp_blks_written\b"),
        ("a plan of MySQL or MariaDB", r'^[^\w\n]*+query_block"\s*+:'),
        ("a plan of SQL Server", r"^[^\w\n]*+(?:xml [^\n<]*+<)?ShowPlanXML\b"),
        ("a profile of DuckDB", r'^[^\w\n]*+operator_timing"\s*+:'),
        ("a report of AWR or Statspack", r"WORKLOAD REPOSITORY report\b|STATSPACK report\b"),
        ("a report of ASH", r"ASH Report For\b"),
        ("a report of SQL Monitor", r"^[^\w\n]*+SQL Monitoring Report\b"),
        ("a plan of DBMS_XPLAN", r"^[^\w\n]*+SQL_ID\W++\w{13}, child number \d"),
        ("an extended SQL trace", r"^(?:EXEC|FETCH|PARSE) #\d+:c=\d"),
        ("a report of tkprof", r"TKPROF: Release\b|^[^\w\n]*+call +count +cpu +elapsed\b"),
    )
}  # fmt: skip
#: Tags of a SQL Server execution plan, and of fragments that describe a spill.
_SHOWPLAN = ("ShowPlanXML", "SortSpillDetails", "HashSpillDetails", "SpillToTempDb", "<RelOp ")


@dataclass(frozen=True)
class FileHead:
    """The beginning of a file: ``raw``, and ``text`` without its wrapping."""

    path: Path
    raw: str
    text: str

    @cached_property
    def columns(self) -> set[str]:
        """Names in lower case in the first row of a CSV table, or in any row of JSON."""
        start = table_of(self.text)[:_HEADING_LENGTH]
        if start[:1] in ("[", "{"):
            return {name.lower() for name in re.findall(r'"(\w+)"\s*[]:,}]', start)}
        heading = start.split("\n", 1)[0]
        names = split_at(max(SEPARATORS, key=heading.count), heading)
        return {name.lower() for name in names}


@dataclass(frozen=True)
class EvidenceKind:
    """A kind of evidence; ``name`` is the field of ``EvidenceFiles`` with its paths.

    ``score`` is 0 for a text that is not of the kind, at most ``score_max``, and higher the more
    certain the kind is. ``reader`` is the function below ``spillcast.evidence`` that reads a file
    of figures or, if it ``joins``, the files that are parts of one report. ``selects`` names the
    fields of ``Selection`` that the reader uses. A kind whose figures do not suffice for a forecast
    has no reader, but the ``reason`` and a ``hint`` for its error.
    """

    name: str
    words: str
    score: Callable[[FileHead], float]
    reader: str = ""
    joins: bool = False
    selects: frozenset[str] = frozenset()
    reason: str = ""
    hint: str = ""
    score_max: float = inf

    def read(self, paths: Sequence[Path], selection: "Selection") -> "Counts":
        """The counts of the selected run. InputError if the files are damaged."""
        if self.reason:
            raise EvidenceUnsuited(self.reason, self.hint, paths[0])
        module, _, function = f"spillcast.evidence.{self.reader}".rpartition(".")
        read = getattr(import_module(module), function)
        with reading(paths[0]):
            counts: Counts = read(paths if self.joins else paths[0], selection)
            return counts.of_file(paths[0])


def recognise(path: Path, score_min: float = 0.0) -> EvidenceKind | None:
    """The most likely kind of a file; None if no score is above 0 and at least ``score_min``.

    InputError if the file is damaged or holds evidence of several sources.
    """
    raw = head_of(path)
    # Rows are unwrapped only if the last one is whole.
    end = raw.rfind("\n", 0, _UNWRAPPED_LENGTH) if len(raw) > _UNWRAPPED_LENGTH else -1
    end = _UNWRAPPED_LENGTH if end < 0 else end
    sample = FileHead(path, raw, unwrapped(raw[:end]) + raw[end:])
    best, best_score = None, 0.0
    for kind in sorted(KINDS, key=lambda kind: -kind.score_max):
        # Kinds that cannot win are skipped: scoring them would take most of the time.
        if kind.score_max > best_score and (score := kind.score(sample)) > best_score:
            best, best_score = kind, score
    if best is None or best_score < score_min:
        return None
    if best.name in ("plans", "statements", "figures", "traces"):
        _check_single(best, sample)
    return best


#: The score above which evidence is named in the error of a reader of another kind.
_NAMED = 0.4


def refuse_other_kinds(path: Path, words: str, *read: str) -> None:
    """Raises EvidenceUnknown for a kind if neither its name nor its reader is among ``read``."""
    if (kind := recognise(path, _NAMED)) and not {kind.name, kind.reader} & {*read}:
        hint = kind.hint or "forecast that run: spillcast forecast FILE --to TARGET"
        raise EvidenceUnknown(f"{kind.words}, and no {words}", hint, path)


def _check_single(kind: EvidenceKind, sample: FileHead) -> None:
    """Raises EvidenceMixed for evidence of several sources: only one of them would be read."""
    # In the raw text, quotes within a statement do not begin a line; unwrapped, they would.
    text = sample.raw
    if len(text) >= HEAD_BYTES // 2 and not text.startswith("PAR1"):
        text = head_of(sample.path, _CHECKED_BYTES)
    sources = [
        source for source, mark in _SOURCES.items() if source == kind.words or mark.search(text)
    ]
    if len(sources) > 1:
        hint = "give each in a file of its own"
        raise EvidenceMixed(" and ".join(sources), hint, sample.path)


def marks(*weights: tuple[float, str]) -> Callable[[FileHead], float]:
    """A score: the sum of the weights of the patterns that occur in a text."""
    patterns = [(weight, re.compile(pattern, re.M)) for weight, pattern in weights]
    return lambda sample: sum(
        weight for weight, pattern in patterns if pattern.search(sample.text) is not None
    )


def columns(score: float, *groups: str) -> Callable[[FileHead], float]:
    """A score: ``score`` if a table has a column of each group of names."""
    wanted = [set(group.split()) for group in groups]
    return lambda sample: score * all(group & sample.columns for group in wanted)


def _report(
    score: float, words: str, reader: str, pattern: str, selects: str = "", **more: Any
) -> EvidenceKind:
    """A kind of figures, by a pattern of its text; ``more`` are fields of EvidenceKind."""
    mark = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    more |= {"selects": frozenset(selects.split()), "score_max": score}
    return EvidenceKind(
        "figures", words, lambda s: score * (mark.search(s.text) is not None), reader, **more
    )


def _too_little(
    words: str, pattern: str, reason: str, hint: str, score: float = 1.2
) -> EvidenceKind:
    """A kind of figures that do not suffice for a forecast, in a text of no other kind."""
    return _report(score, words, "", pattern, reason=reason, hint=hint)


def _begin(*groups: str) -> str:
    """A pattern: the first characters of a text contain all names of a group."""
    return "|".join(
        r"\A" + "".join(rf"(?=[\s\S]{{,{_NAMES_LENGTH}}}\b{name}\b)" for name in group.split())
        for group in groups
    )


def _heading(*groups: str) -> str:
    """A pattern: a line with a name of each group, even below an echoed statement or in a mail."""
    names = "".join(rf"(?=.*\b(?:{group.replace(' ', '|')})\b)" for group in groups)
    return (
        rf"\A(?:.*\n){{,{_HEADING_LINES_MAX}}}?"
        rf"(?!.*\bselect\b){names}(?>[\w#$\",;|]|[^\S\n])++$"
    )


def _statements(sample: FileHead) -> float:
    names = renamed(dict.fromkeys(sample.columns)).keys()
    has_more = not names.isdisjoint(("calls", "total_time", "total_exec_time", "query"))
    has_blocks = not names.isdisjoint(("temp_blks_written", "temp_blks_read"))
    return (4.0 if has_more else 1.0) * has_blocks


def _abridged_statements(sample: FileHead) -> float:
    """A score for calls and times of statements, even if a query renamed the columns."""
    names = sample.columns
    timed = any(name.startswith(("total_", "mean_", "avg_")) for name in names)
    return 0.9 * (not names.isdisjoint(("calls", "ncalls")) and timed)


def _query_log(sample: FileHead) -> float:
    if sample.raw.startswith("PAR1"):
        return 6.5 * (sample.path.is_file() and is_parquet_log(sample.path))
    start = sample.text[:_HEADING_LENGTH]
    # Databend's history has a column with the same name.
    is_databend = "_spilled_bytes" in start and "ProfileEvents" not in start
    return 6.5 * (is_query_log(start) and not is_databend)


def _event_log(sample: FileHead) -> float:
    """A score for an event log of Spark, perhaps behind the prefix of a shipper, or wrapped."""
    unshipped = unshipper(sample.raw)
    raw = sample.raw if unshipped is None else unshipped(sample.raw)
    return 5.0 * (is_event_log(sample.text) or is_event_log(plain_log(raw[:_UNWRAPPED_LENGTH])))


_REDSHIFT_HINT = (
    "give query_temp_blocks_to_disk of SVL_QUERY_METRICS_SUMMARY, which are blocks of 1 MB, as "
    "figures: figures:elapsed=ELAPSED,spilled=SIZE,size=1M"
)
#: Nodes that only plans of MySQL have, with or without arrows before them.
_MYSQL_NODE = (
    r"(?-i:(?:Table|Index|Index range|Covering index) (?:skip )?(?:scan|lookup) on |Single-row "
    r"|Nested loop [a-z]|Temporary table\b|Stream results\b|Limit: \d+ row|Window aggregate\b)"
    r"[^\n]*(?:\n[^\w\n]*)?\((?:cost=|actual )"
)
KINDS: Sequence[EvidenceKind] = (
    EvidenceKind("spark", "an event log of Spark", _event_log),
    EvidenceKind("plans", "a plan of EXPLAIN or a log of PostgreSQL", marks(
        (2.0, r"\(cost=\d++(?:\.\d++)?\.\.[\d.]++ rows=\d+(?: width=\d+)?\)"
              r"|\(actual (?:time|rows)="),
        (2.1, r'"Plan":\s*(?:\{|\Z)|"Node Type": "|"Temp (?:Read|Written) Blocks": '),
        (2.2, r"<explain|^- Plan:|^ *Plan:\s"),
        (1.5, r"\b(?:LOG|ERROR|FATAL|STATEMENT|DETAIL|HINT|CONTEXT|WARNING):  "),
        (2.3, r'"(?:message|textPayload|log|msg)":\s*"[^"\n]*(?:LOG:  |ms  plan:)'),
        (2.4, r'temporary file: path \\?"|"error_severity": ?"'
              r'|/pgsql_tmp\d[^\"«»“”\n]{,999}[\"«»“”]{1,2}(?:: |[,、][^\d\n]{1,20}\d)'),
        (2.5, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \w+,(?:[^,\n]*,){10}(?:LOG|ERROR|FATAL)"),
        (0.5, r"QUERY PLAN|Buffers: |Planning [Tt]ime: |Sort Method: |Memory Usage: \d+kB"),
        (1.0, r"(?:Execution [Tt]ime|Total runtime): [\d.]+ ms|ms\s+plan:"),
    )),
    EvidenceKind("statements", "rows of pg_stat_statements", _statements),
    EvidenceKind("figures", "rows of pg_stat_statements without temp blocks",
         _abridged_statements,
         reason="rows of pg_stat_statements without temp_blks_read and temp_blks_written",
         hint="export all columns: \\copy (select * from pg_stat_statements) to "
              "'statements.csv' csv header"),
    EvidenceKind("figures", "rows of system.query_log", _query_log, "clickhouse.read",
         selects=frozenset({"item", "queryid"})),
    EvidenceKind("figures", "rows of system.query_thread_log", columns(7.0, "master_thread_id"),
         reason="rows of system.query_thread_log count the events of one thread of a query",
         hint="give the row of the query in system.query_log"),
    EvidenceKind("figures", "an execution plan of SQL Server",
         lambda sample: 6.5 * any(mark in sample.raw for mark in _SHOWPLAN), "sqlserver.read_plan",
         selects=frozenset({"item"})),
    _report(6.4, "rows of sys.dm_exec_query_stats", "sqlserver.read_query_stats",
            _begin("total_spills execution_count", "total_spills total_elapsed_time",
                    "total spills executions", "totalspills executioncount"),
            "item queryid"),
    _report(6.3, "rows of sys.dm_io_virtual_file_stats", "sqlserver.read_file_stats",
            _begin("io_stall_write_ms num_of_writes"), joins=True),
    _report(6.0, "a report of SQL Monitor", "oracle.monitor_reports.read_xml",
            r"<sql_monitor_report|FXTMODEL", "item sql_id exec_id"),
    _report(5.75, "a report of SQL Monitor", "oracle.monitor_reports.read_text",
            r"SQL Monitoring Report|SQL Plan Monitoring Details|\| Elapsed \|\s+Cpu\s+\|"
            r"|Global Information\W+Status\s*:",
            "item sql_id exec_id"),
    _report(5.5, "a report of ASH", "oracle.sample_shares.read_shares",
            r"ASH Report For|%This\b.{,999}\b(?:EVENT\d?|WAIT_CHAIN)\b|Top User Events"),
    _report(5.25, "a report of AWR or Statspack", "oracle.awr.read",
            r"WORKLOAD REPOSITORY|AWR Report for DB|STATSPACK report"
            r"|Top \d+ (?:Timed|Foreground|Wait)\b"
            r"|\bEvent\W+(?:%\w+\s+)?Waits\b[^\n]*+\n\s*+(?=[^\w\n]*+\n)[^\n-]*+-{3}",
            "sql_id block"),
    _report(5.0, "rows of V$SQL_MONITOR", "oracle.monitor_reports.read_views",
            _begin("physical_read_requests sql_exec_id"), "item sql_id exec_id", joins=True),
    _report(4.75, "rows of a view of waits", "oracle.awr.read",
            _heading("event", "total_waits wait_count",
                     "time_waited time_waited_micro wait_time_milli wait_time_micro"),
            "item block"),
    _report(4.5, "a report of tkprof", "oracle.tkprof.read",
            r"TKPROF: Release|call\s+count\s+cpu\s+(?:time\s+)?elapsed"
            # A fragment without lines of a trace.
            r"|\A(?![\s\S]*^WAIT #\d)[\s\S]*(?:\bEvent waited on\b|Row Source Operation)",
            "item sql_id block"),
    _report(4.25, "a plan of DBMS_XPLAN", "oracle.xplan.read",
            r"\|\s*Id\s*\|\s*Operation\s*\|", "item sql_id block"),
    _report(4.1, "a plan of MySQL or MariaDB", "mysql.read",
            rf'"query_block"\s*:|^(?:[^\w\n]*|[^\n]{{,200}}?-> ){_MYSQL_NODE}|\| r_filtered\b'
            r'|^[^\w\n]*+(?:id\W++)?select_type\b|"(?:actual_last_row_ms|r_total_time_ms)"\s*:'),
    _report(4.0, "a profile of DuckDB", "duckdb.read",
            r'[│┃]\s*Total Time:|"(?:(?:cumulative|operator)_cardinality|operator_timing|extra-info'
            r'|(?:system_)?peak_temp_dir_size|(?:total_)?intermediate_size_bytes'
            r'|total_bytes_spilled)"'),
    _report(3.9, "a plan of Databend", "databend.read",
            r"[├└]── (?:estimated rows: \d|(?:cpu|wait) time: \d"
            r"|(?:(?:numbers|bytes) )?(?:local |remote )?spilled (?:time )?by \w+: )"),
    _report(3.75, "figures of a run", "figures.read",
            r'\A(?![\s\S]*"(?:schema|Plan)")(?:\s*\{[\s\S]*elapsed_s|[\s\S]*^elapsed_s\s*=)'),
    _report(3.5, "a plan that counts bytes", "figures.refuse_byte_counts",
            "|".join([COUNTER_HEADING, *(counter for _, counter, _ in BYTE_COUNTERS)])),
    _report(1.6, "counts of ASH samples", "oracle.sample_shares.read_shares",
            rf"{SAMPLE_COUNTS}(?=[\s\S]*^[^'\n]*\bdirect path (?:read|write) temp\b)"),
    _report(1.5, "waits by event", "oracle.awr.read",
            r"^(?:[^\w\n]|\d)*direct path (?:read|write) temp(?=[^\w|]*+\||[ \t])\W*+\d"
            r"|direct path (?:read|write) temp(?:\s*</?t[dr]\b|['\"]? *[,;\t])"
            r"|:\s*direct path (?:read|write) temp\s",
            "item sql_id block"),
    _too_little("samples of Snapper", r"^[^\S\n]*ActSes\s+%Thread\b",
                "samples of Snapper have no number of waits",
                "let it print waits, too: @snapper ash,stats,gather=w 30 1 SID"),
    _too_little("statistics and advice of Oracle",
                r"^[^\w\n]*(?:(?:DETAILED )?ADDM Report for Task|SQL Monitoring List)\b"
                r"|physical (?:reads|writes) direct temporary tablespace|\(TEMP_SPACE_ALLOCATED\)"
                r"|\bsorts \(disk\)|^User I/O Wait Time \(ms\)|\bTotal Temp space used:"
                r"|\b(?:HASH-JOIN|GROUP BY \((?:SORT|HASH)\)).{,200}\b(?:OPTIMAL|PASS(?:ES)?)\b"
                # Not within a line of a trace.
                r"|(?<!nam=')\bdirect path (?:read|write) temp\b"
                r"|\b(?:(?:DIRECT|LAST_DISK)_WRITES|SEGTYPE|(?-i:TEMPORARY\s(?:DATA|HASH|SORT|LOB_DATA))|(?:LAST_|MAX_)?TEMP(?:SEG_)?SIZE"
                r"|(?:TEMPSEG|SORT)_(?:USAGE|SEGMENT)|WORKAREA_MAX_TEMPSEG|SECONDS_IN_WAIT|TOTAL_WAITS|TIME_REMAINING"
                r"|FILETYPE_NAME|PHYRDS)\b",
                "figures of Oracle without numbers and times of temp waits, or in an unknown form",
                "export event, total_waits and time_waited_micro of v$session_event, or give a "
                "report of SQL Monitor or DBMS_XPLAN, ASH or a trace"),
    _too_little("counters and times of MySQL",
                r"^(?:# )?Query_time: |(?:\b|_)(?:(?:Created_)?tmp_disk_tables|disk_tmp_tables"
                r"|Sort_merge_passes)\b|^(?:# )?(?:Attribute +(?:pct +)?total +min |Exec time +\d)"
                r"|(?:^[^\w\n]*+|[|\t] *+)(?:Copying to tmp table|Creating sort|converting HEAP)\b"
                r"|\bwait/io/file/|@@tmpdir/|\bnum_initial_chunks_spilled_to_disk\b",
                "MySQL counts merge passes and tables, times its stages, and the files of all "
                "statements; none of these shows what the query read and wrote on disk",
                f"record the query: spillcast record --mysql DSN --query PATTERN; {FIGURES_HINT}"),
    # pg_enhanced_query_logging writes the format of MySQL's log.
    _too_little("a slow log of PostgreSQL", r"^# Temp_blks_read: ",
                "a slow log of PostgreSQL is not read, and has counts of temp I/O without times",
                "give figures of a call: figures:elapsed=Query_time,reads=Temp_blks_read,"
                "writes=Temp_blks_written,size=8K", 1.3),
    _too_little("pages of STATISTICS IO",
                # In all languages: six counts behind the name of a table, or two times.
                r"['\"][.。] ?"
                r"(?>[^\d,\uff0c、\n]{2,60}\d+[^\d,\uff0c、.。\n]{,3}[,\uff0c、.。] ?){6}"
                r"|\bSQL Server\b[^\n=]{,60}\n[^\d=\n]{2,40}= \d+ [^\d=\n]{3,60}= \d"
                r"|\bSQL Server parse and compile|\|--[A-Z][\w ]*\(.{,200}:\("
                r"|['\"](?:Worktable|Workfile)['\"]|\b(?:(?:sort|hash)_warning|exchange_spill|hash_spill_details)\b"
                r"|\bused tempdb to spill\b|\b(?:Scan count|Scananzahl) \d"
                r"|\b(?:tempdb_allocations|(?:user|internal)_objects_alloc_page_count|\w+_tempdb_space_used(?:_mb)?|(?:avg|last|max)_spills"
                r"|waiting_tasks_count|wait_category(?:_desc)?)\b|^[^\w\n]*IO_COMPLETION\b",
                "STATISTICS IO, sp_WhoIsActive and the Query Store of SQL Server count pages in "
                "tempdb, also those in memory, a plan as text counts none, waits are of all files, "
                "and a warning of a spill is without its plan and its times",
                "give the actual plan: SET STATISTICS XML ON, or Include Actual Execution Plan; or "
                "sys.dm_io_virtual_file_stats(2, NULL) from before and after the query"),
    # Some of these engines have a log like MySQL's, or views like Oracle's.
    *(_too_little(f"a text of {name}", mark,
    f"output of {name} in an unknown form, or of a query that did not spill",
    f"record the query: spillcast record --pid PID; {FIGURES_HINT}", 1.3)
      for name, mark in TEXTS),
    _too_little("pages and logs of Spark",
                r"\bSpill \((?:Disk|Memory)\)|^[^\w\n]*(?:Stage Id\s*[|\t]|spill size\b)"
                r"|(?:memory|disk) ?Bytes ?Spilled|\bWholeStageCodegen\b"
                r"|^== Physical Plan ==|\bspilling [\w-]+(?: \w+)? of [\d.]+ \w+ to disk",
                "pages and logs of Spark have sizes of tasks, not how they read and wrote",
                "give the event log of the application (spark.eventLog.dir)"),
    _too_little("a plan of Redshift", r"^[^\w\n]*XN [A-Z][^\n(]*\(cost=",
                "a plan of Redshift is an estimate, not a run",
                _REDSHIFT_HINT, score=4.2),
    _too_little("rows of Redshift's system views",
                r"\bis_diskbased\b|\bquery_temp_blocks_to_disk\b",
                "Redshift shows whether a step spilled (t), or blocks, not its reads and writes",
                _REDSHIFT_HINT),
    _too_little("a report of pgBadger", r"\bpgBadger\b|generating the most temporary|tempfile_info",
                "a report of pgBadger has sums of temp files by statement, and not of one call",
                "give the server's log that it was made of"),
    _too_little("statistics of a whole server",
                r"^(?![^\n]{,999}(?i:select))[^\n]{,999}\btemp_files\b[^\n]{,999}\btemp_bytes\b"
                r"|^(?=[^\n]*+\n)(?=.*\bobject\b)(?=.*\bcontext\b).*\bbackend_type\b"
                r"|\bdb\.wait_event\b|(?:^|\"__name__\"\s*:\s*\")(?=\w*temp_(?:blks|bytes))\w++[{\"]",
                "pg_stat_database, pg_stat_io and metrics count for all calls and not for one",
                "give rows of pg_stat_statements, or a log with log_temp_files = 0"),
    _too_little("rows of pg_stat_activity", r"\bBufFile(?:Read|Write|Truncate)\b",
                "a look at PostgreSQL's sessions shows that one waits for temp files, not how long",
                "record its query: spillcast record --postgres DSN --backend PID"),
    _too_little("a log of ClickHouse",
                r"\[ \d+ \] \{[\da-f-]{0,36}\} |\bDB::Exception: |\bAggregat(?:or|ingTransform): ",
                "a log of ClickHouse counts what some spills wrote, and no reads or times",
                "give the row of the query in system.query_log"),
    _too_little("a part of a row of system.query_log",
                r"\bProfileEvents\b|\bExternal(?:Sort|Aggregation|Join|Processing)[A-Z]\w+\W+\d",
                "it has events of a query of ClickHouse, and no rows with query_duration_ms",
                "give whole rows: SELECT * FROM system.query_log FORMAT JSONEachRow"),
    _too_little("counts of a device",
                r"^ *r +b +swpd|^(?=.*\bDevice\b).*\b(?:[rw]/s|tps)(?!\w)|\"sysstat\"\s*:"
                r"|\bavg RTT \(ms\)|-dsk/\w|\bDEV +tps\b|\bkB_rd/s\b|\b(?-i:DISK READ)\b"
                r"|^ *[mun]?secs +: count\b|^% time +seconds +usecs/call|^@(?:us|usecs|nsecs)\b"
                r"|\bLAT\((?:ms|us)\)|\brtps +wtps\b|^ *\d+ +\d+ [\w-]+(?: \d+){11,}$"
                r"|^ *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +[A-Z]+ +[A-Z]+ ",
                "iostat and similar tools count all I/O of a device or process, not temp I/O alone",
                "record the query: spillcast record --pid PID; or measure the storage: "
                "spillcast probe DIR --grid -o storage.json; its mean wait is a target as "
                "latency:0.8ms"),
    _too_little("output of strace",
                r"^(?:\[pid +\d+\] |\d+ +)?(?:[\d.:]+ )?"
                r"p?(?:read|write)v?(?:64|2)?\(\d+[<,].*(?:\) += \d|<unfinished)"
                r"|\bp?(?:read|write)v?(?:64)?\(fd: \d|^ +syscall +calls +errors +total\b",
                "strace and perf trace slow the calls that they print, and show no waits",
                "record the query: spillcast record -o run.spill -- COMMAND, or --pid PID"),
    _too_little("output of fio",
                r"^[^\w\n]*+(?:read|write)[ \t]*: (?:IOPS|io)=|^(?:\d;)?fio-\d"
                r"|\bc?lat (?:percentiles )?\([num]sec\)"
                r"|[\"'](?:clat(?:_ns)?|lat_ns|latency_window|fio version)[\"']\s*:",
                "fio measures a storage, and only its whole JSON has latencies by size",
                "give the JSON with --to: fio --output-format=json --output=fio.json JOBFILE; "
                "or the mean latency of single operations, as latency:97us"),
    _too_little("output of a tool that measures storage",
                r"\brequests completed in [\d.]+ |^min/avg/max/mdev = |^\d+\+\d+ [^\W\d]+ [^\W\d]+$"
                r"|\d \w+ \([\d.,]+ [kKMGT]i?B\b[^)\n]*\) \w+, \d|\bdiskspd\b|^thread \| +bytes +\|"
                r"|(?<![a-z])IOPS\b|^ *Timing .* disk reads:|\d ops/sec\b|^ *reads/s: |-Per Chr-"
                r"|: request=\d+ time=\d|^Run status group \d|\d,? [kKMGT]i?B/s\b"
                r"|<ReadMilliseconds>|%-ile\b|\bQ\d+ ?T\d+\b|\bQ= *\d+, ?T= *\d+\b",
                "figures of a storage without its latencies by size",
                "give what it measured with --to, such as latency:1.4ms or "
                "limits:iops=3000,throughput=125MB/s,latency=1ms; or measure all sizes: "
                "spillcast probe DIR --grid -o storage.json"),
    _too_little("a file of LZF", r"\AZV[\x00\x01]",
                "it is compressed by LZF, which is not supported",
                "unpack it, or have Spark write it with spark.eventLog.compression.codec=zstd"),
    _too_little("sizes of spills",
                r"spill[\w ]{0,20}(?:bytes|data|size|stat)|bytes[\w ]{0,20}spill"
                r"|\btemp (?:read|written)=\d|\bpgsql_tmp\d+\.\d|\btemp\w* disk usage\b"
                r"|\bSpilled [\d.]+ ?[KMGT]i?B\b|\bexternal merge\b|\btemp_blks_written\W+\d",
                "it shows what spilled in an unknown form",
                FIGURES_HINT, score=0.4),
    EvidenceKind("parameters", "parameters of a database",
         lambda sample: 1.0 * ("db_block_size" in sample.text[:4096].lower())),
    EvidenceKind("work_areas", "work areas", columns(2.0, "number_passes", "operation_type")),
    EvidenceKind("temp_usage", "rows of temp usage", columns(2.0, "segtype", "extents")),
    EvidenceKind("statistics", "statistics of sessions", columns(2.0, "accumulated", "value")),
    EvidenceKind("ash", "an ASH export", columns(2.0, "sample_time", "event session_id sql_id")),
    EvidenceKind("ash", "an ASH export", marks(
        (2.0, "(?i)" + _heading("sample_time", "event session_id sql_id")),
        (1.6, "(?i)" + _heading("session_state", "event")))),
    EvidenceKind("ash", "an ASH export", lambda sample: 3.0 * sample.raw.startswith("PAR1")),
    # If a table has only some of ASH's columns, the reader names the missing ones.
    EvidenceKind("ash", "an ASH export", lambda sample: 0.2 * bool(_ASH_COLUMNS & sample.columns)),
    EvidenceKind("traces", "an extended SQL trace", marks(
        (3.0, r"^(?:WAIT|PARSING IN CURSOR|EXEC|FETCH|PARSE|STAT|CLOSE) #\d"),
        (0.2, r"^(?:\*\*\* \S|\w+ #\d|Trace file )"),
        (0.5, r"[\s:\"](?:EXEC|FETCH|WAIT|STAT) #\d+(?:: ?\w+=| id=)"),
    )),
)  # fmt: skip
