"""Reads SQL Server's actual execution plans, and rows of its views of queries and tempdb's files.

A plan counts pages of 8 KiB that sorts and hashes wrote to tempdb and read back, and the longest
waits of the query. It does not count operations, each of which moves from one page to 1 MiB.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import (
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    EvidenceUnsuited,
    NoTempIo,
    SelectionEmpty,
)
from spillcast.evidence.counts import (
    THREADS_MAX,
    Bounds,
    Counts,
    OpCounts,
    TempCounts,
    TempTimes,
    counts_of_figures,
    middle,
)
from spillcast.evidence.numbers import number_of, whole
from spillcast.evidence.oracle.spooled import SpooledRow, exported_rows
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import LEFT_OUT, unwrapped
from spillcast.gate import damaged, reading, xml_of
from spillcast.recording import OPS
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import CountedStatement
from spillcast.redaction import masked_text
from spillcast.units import format_bytes

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

PAGE_BYTES = 8192
#: The largest operation, a gather write of version 2016 and later; a read-ahead has up to 64 pages.
OPERATION_PAGES_MAX = 128
HINT = "make it with SET STATISTICS XML ON, or with Include Actual Execution Plan in SSMS"
DETAILS = "SQL Server 2016 and later write the pages of a spill into an actual plan"
LATENCY = "name the storage of tempdb with --from, or give sys.dm_io_virtual_file_stats"
OPERATIONS = "two snapshots of sys.dm_io_virtual_file_stats, around the query, count operations"
PLAN = "an actual plan of the query counts the threads that spilled"
#: The wait for I/O on spilled data, and waits that may also be for that.
SPILL_WAIT = "IO_COMPLETION"
POSSIBLE_WAITS = (
    *("SLEEP_TASK", "WRITE_COMPLETION"),
    *("PAGEIOLATCH_SH", "PAGEIOLATCH_EX", "PAGEIOLATCH_UP"),
)
_SHOWPLAN = re.compile(r"<ShowPlanXML\b(?>[^<]|<(?!/?ShowPlanXML\b))*+</ShowPlanXML>")
_DETAILS = {"SortSpillDetails", "HashSpillDetails", "ExchangeSpillDetails"}
_COUNTERS = "{*}RunTimeInformation/{*}RunTimeCountersPerThread"
_WARNINGS = {"SpillToTempDb", "SpillOccurred", *_DETAILS}


@dataclass(frozen=True)
class SpilledStatement:
    """A statement of an actual plan that spilled. Waits are summed over its threads.

    ``threads`` are the threads that spilled, or all threads if the plan does not count them.
    """

    text: str
    elapsed_s: float
    cpu_s: float | None
    threads: int
    parallelism: int
    #: 0 if only a warning shows that it spilled.
    read_pages: int
    written_pages: int
    #: Seconds and number of waits by type; None if the plan has none.
    waits: dict[str, tuple[float, int]] | None
    granted_kib: int | None
    used_kib: int | None

    @property
    def spill_waits(self) -> tuple[float, int]:
        """Seconds and number of the waits only for spills; 0 if the plan lists none."""
        return (self.waits or {}).get(SPILL_WAIT, (0.0, 0))


@reading(hint=HINT)
def read_plan(path: Path, selection: Selection) -> Counts:
    """The counts of a statement of an actual plan. InputError if it was not executed."""
    text = unwrapped(text_of(path))
    if "<ShowPlanXML" not in text:
        raise EvidenceIncomplete("a part of a plan: it lacks ShowPlanXML around it")
    if '<ShowPlanXML xmlns=""' in text:
        # In a CSV field, quotes are doubled.
        text = text.replace('""', '"')
    plans = _SHOWPLAN.findall(text)
    if len(plans) < text.count("<ShowPlanXML"):
        raise damaged("a plan has no end: </ShowPlanXML> is missing")
    roots = list(map(xml_of, plans))
    if any(LEFT_OUT.search(part) for root in roots for part in root.itertext()):
        raise EvidenceIncomplete("operators of the plan are left out")
    statements = [statement for root in roots for statement in _statements(root)]
    if not statements and all(root.find(".//{*}RunTimeInformation") is None for root in roots):
        raise EvidenceUnsuited(
            "an estimated plan: the query was not executed, so nothing was counted", HINT
        )
    if not statements:
        raise NoTempIo("no sort, hash or exchange of this plan spilled to tempdb")
    items = [
        SelectableRun(
            statement,
            statement.elapsed_s or None,
            size_bytes=(statement.written_pages + statement.read_pages) * PAGE_BYTES,
            text=statement.text,
        )
        for statement in statements
    ]
    run = select(items, selection)
    engine = ObservedEngine("sqlserver", roots[0].get("Build"))
    return _counts_of_plan(run, engine, selection)


def _statements(root: "Element") -> Iterator[SpilledStatement]:
    """The statements that spilled; an estimated plan has none."""
    for statement in root.iter():
        if not _tag(statement).startswith("Stmt"):
            continue
        text = masked_text(" ".join((statement.get("StatementText") or "").split()))
        plans = (
            plan
            for inner in ("", "{*}Condition/", "{*}CursorPlan/{*}Operation/")
            for plan in statement.iterfind(f"{inner}{{*}}QueryPlan")
        )
        for plan in plans:
            if spills := _spills(plan):
                yield _statement(plan, spills, text)


def _spills(plan: "Element") -> list[tuple["Element", list["Element"]]]:
    """The operators of a plan that spilled, each with its warnings about spills."""
    warned = (
        (operator, [warning for warning in warnings if _tag(warning) in _WARNINGS])
        for operator in plan.iterfind(".//{*}RelOp")
        for warnings in operator.iterfind("{*}Warnings")
    )
    return [(operator, warnings) for operator, warnings in warned if warnings]


def _tag(element: "Element") -> str:
    return element.tag.rpartition("}")[2]


def _statement(
    plan: "Element", spills: Sequence[tuple["Element", list["Element"]]], text: str
) -> SpilledStatement:
    """A plan's counts; ``spills`` is the result of ``_spills``."""
    warnings = [warning for _, of_operator in spills for warning in of_operator]
    threads = max(_attribute(warning, "SpilledThreadCount") or 0 for warning in warnings)
    pages = [_pages(operator, of_operator) for operator, of_operator in spills]
    times, waits = plan.find("{*}QueryTimeStats"), plan.find("{*}WaitStats")
    counters = plan.iterfind(f"{{*}}RelOp/{_COUNTERS}")
    elapsed_ms = _attribute(times, "ElapsedTime")
    if elapsed_ms is None:
        elapsed_ms = max((_attribute(c, "ActualElapsedms") or 0 for c in counters), default=0)
    cpu_ms, grant = _attribute(times, "CpuTime"), plan.find("{*}MemoryGrantInfo")
    parallelism = _attribute(plan, "DegreeOfParallelism") or 1
    return SpilledStatement(
        text=text,
        elapsed_s=elapsed_ms / 1e3,
        cpu_s=None if cpu_ms is None else cpu_ms / 1e3,
        threads=threads or parallelism,
        parallelism=max(threads, parallelism),
        read_pages=sum(read for read, _ in pages),
        written_pages=sum(written for _, written in pages),
        waits=None if waits is None else {w.get("WaitType", ""): _waited(w) for w in waits},
        granted_kib=_attribute(grant, "GrantedMemory"),
        used_kib=_attribute(grant, "MaxUsedMemory"),
    )


def _attribute(element: "Element | None", name: str) -> int | None:
    value = None if element is None else element.get(name)
    return None if value is None else whole(value, name)


def _waited(wait: "Element") -> tuple[float, int]:
    """The time (s) and the number of waits."""
    return (_attribute(wait, "WaitTimeMs") or 0) / 1e3, _attribute(wait, "WaitCount") or 0


def _pages(operator: "Element", warnings: Sequence["Element"]) -> tuple[int, int]:
    """The pages that an operator read and wrote, by its ``warnings`` about spills."""
    details = [warning for warning in warnings if _tag(warning) in _DETAILS]
    writes = sum(_attribute(detail, "WritesToTempDb") or 0 for detail in details)
    # An exchange reads all the pages that it wrote, but these reads are not counted.
    counted_reads = [_attribute(detail, "ReadsFromTempDb") for detail in details]
    reads = writes if None in counted_reads else sum(pages or 0 for pages in counted_reads)
    # Warnings of a sort in batch mode count the pages of one pass, these counters all passes.
    names = ("ActualPhysicalReads", "ActualReadAheads")
    counters = operator.iterfind(_COUNTERS)
    all_reads = sum(_attribute(counter, name) or 0 for counter in counters for name in names)
    if reads and all_reads > reads:
        return all_reads, round(writes * all_reads / reads)
    return reads, writes


def _counts_of_plan(run: SpilledStatement, engine: ObservedEngine, selection: Selection) -> Counts:
    if not run.written_pages:
        raise EvidenceIncomplete(
            "the plan says that the query spilled, and not how many pages", DETAILS
        )
    notes = []
    if run.granted_kib is not None:
        used = "" if run.used_kib is None else f" and used {format_bytes(run.used_kib << 10)}"
        notes.append(
            f"the query was granted {format_bytes(run.granted_kib << 10)} of memory{used}; a "
            "larger grant spills less: correct the row estimates, or raise MIN_GRANT_PERCENT"
        )
    return _with_bounds(
        selection,
        (run.read_pages, run.written_pages),
        _wait_bounds(run, selection.elapsed_s or run.elapsed_s),
        threads=run.threads,
        waits=run.spill_waits[1],
        elapsed_s=run.elapsed_s,
        elapsed_unknown="the plan has none, as before SQL Server 2014 SP2",
        cpu_s=run.cpu_s if run.threads == 1 else None,
        engine=engine,
        statement=CountedStatement(None, run.text, 1, 1) if run.text else None,
        notes=notes,
    )


def _wait_bounds(run: SpilledStatement, elapsed_s: float) -> Bounds[float]:
    """Bounds of the time (s) that a run of ``elapsed_s`` waited for its spills."""
    listed = run.waits or {}
    lower_s, waits = run.spill_waits
    upper_s = lower_s + sum(listed.get(name, (0.0, 0))[0] for name in POSSIBLE_WAITS)
    reason = f"{SPILL_WAIT} is for spills; other waits may have been for tempdb, too"
    if not waits:
        # For spills in batch mode no wait is listed; the rest of the elapsed time may be theirs.
        others_s = sum(waited_s for waited_s, _ in listed.values()) - upper_s
        busy_s = (run.cpu_s or 0.0) + others_s
        upper_s = max(upper_s, elapsed_s * run.parallelism - busy_s)
        reason = "the plan lists no wait for a spill"
    upper_s = min(upper_s, elapsed_s * run.threads)
    return Bounds(min(lower_s, upper_s), upper_s, reason, LATENCY)


def _with_bounds(
    selection: Selection,
    pages: tuple[int, int],
    time: Bounds[float],
    *,
    threads: int,
    waits: int = 0,
    **more: Any,
) -> Counts:
    """Counts of pages read and written, by at least as many operations as there were waits."""
    total_s, total_pages = middle(time), sum(pages)
    lower = min(max(total_pages / OPERATION_PAGES_MAX, waits), total_pages)

    sides = [(op, number / total_pages, number) for op, number in zip(OPS, pages, strict=True)]
    fewest = {op: (lower * share, number * PAGE_BYTES) for op, share, number in sides}
    most = {op: (number, number * PAGE_BYTES) for op, _, number in sides}
    read_s, write_s = (total_s * share for _, share, _ in sides)
    reason = (
        f"SQL Server counts pages, and an operation moves from 1 to {OPERATION_PAGES_MAX} of them"
    )
    times = TempTimes(read_s, write_s, time if time.lower < time.upper else None)
    temp = times.bounded(fewest, most, reason, OPERATIONS)
    return counts_of_figures(selection, temp, threads=threads, **more)


#: Rows of one snapshot have almost the same sample_ms.
SPAN_MAX_S = 1.0
_TEXTS = ("statement_text", "query_text", "text")
_NEEDED_OF_QUERIES = ("execution_count", "total_elapsed_time", "total_spills")
QUERY_STATS = (*_NEEDED_OF_QUERIES, "total_worker_time", "total_dop", "query_hash", *_TEXTS)
_NEEDED_OF_FILES = (
    *("sample_ms", "num_of_reads", "num_of_bytes_read", "io_stall_read_ms"),
    *("num_of_writes", "num_of_bytes_written", "io_stall_write_ms"),
)
FILE_STATS = (*_NEEDED_OF_FILES, "database_id", "database_name", "file_id", "type_desc")
HINT_QUERIES = f"export {', '.join(QUERY_STATS[:6])} of sys.dm_exec_query_stats"
HINT_FILES = "export all columns of sys.dm_io_virtual_file_stats(2, NULL)"


def _number(row: SpooledRow, name: str) -> float:
    number = number_of(row.get(name) or "")
    if number is None:
        raise EvidenceDamaged(f"{name} is {row.get(name)!r}, not a count")
    return number.value


@reading(hint=HINT_QUERIES)
def read_query_stats(path: Path, selection: Selection) -> Counts:
    """The mean execution of a row of sys.dm_exec_query_stats, whose times are in microseconds."""
    row, mean = _selected_row(path, selection)
    text = _text(row)
    elapsed_s, cpu_s = mean["total_elapsed_time"] / 1e6, mean.get("total_worker_time", 0.0) / 1e6
    pages = max(round(mean["total_spills"]), 1)
    threads = max(round(mean.get("total_dop", 1.0)), 1)
    upper_s = max((selection.elapsed_s or elapsed_s) * threads - cpu_s, 0.0)
    calls = round(_number(row, "execution_count"))
    return _with_bounds(
        selection,
        (pages, pages),
        Bounds(0.0, upper_s, "sys.dm_exec_query_stats has no waits", LATENCY),
        threads=threads,
        elapsed_s=elapsed_s,
        elapsed_unknown="total_elapsed_time is 0",
        cpu_s=cpu_s if threads == 1 and cpu_s else None,
        engine=ObservedEngine("sqlserver"),
        statement=CountedStatement(row.get("query_hash"), text and masked_text(text), calls, 1),
        notes=["total_spills counts pages that were spilled: each is assumed to be read once"],
    )


def _selected_row(path: Path, selection: Selection) -> tuple[SpooledRow, dict[str, float]]:
    """The row of a query that spilled, the only one or the selected one, and its means."""
    rows = exported_rows(path, QUERY_STATS, _NEEDED_OF_QUERIES)
    spilled = (row for row in rows if _number(row, "total_spills"))
    runs = [(row, _means(row)) for row in spilled]
    if not runs:
        raise NoTempIo("no row has spilled pages (total_spills)")
    if (wanted := selection.queryid) is not None:
        runs = [run for run in runs if (run[0].get("query_hash") or "").lower() == wanted.lower()]
        if not runs:
            raise SelectionEmpty(f"no row that spilled has query_hash {wanted}")
    items = [
        SelectableRun(
            (row, mean),
            mean["total_elapsed_time"] / 1e6,
            size_bytes=round(2 * mean["total_spills"]) * PAGE_BYTES,
            text=row.get("query_hash") or _text(row) or "",
        )
        for row, mean in runs
    ]
    return select(items, selection, ", or its query_hash with --queryid")


def _means(row: SpooledRow) -> dict[str, float]:
    """The columns of a row divided by its number of executions."""
    executions = _number(row, "execution_count")
    if executions < 1:
        raise EvidenceDamaged("execution_count is 0")
    needed = [name for name in _NEEDED_OF_QUERIES if name != "execution_count"]
    names = [*needed, *(name for name in ("total_worker_time", "total_dop") if row.get(name))]
    return {name: _number(row, name) / executions for name in names}


def _text(row: SpooledRow) -> str | None:
    """The statement, if a column with its text was exported."""
    return next((text for name in _TEXTS if (text := row.get(name))), None)


@dataclass(frozen=True)
class _Snapshot:
    """The I/O on tempdb's data files up to a time by the server's clock."""

    at_s: float
    reads: OpCounts
    writes: OpCounts
    #: The number of files.
    files: int


@reading(hint=HINT_FILES)
def read_file_stats(paths: Sequence[Path], selection: Selection) -> Counts:
    """I/O on the data files of tempdb between two snapshots, or since the server started."""
    snapshots: list[_Snapshot] = []
    for path in paths:
        with reading(path):
            snapshots += _snapshots(path)
    *earlier, last = sorted(snapshots, key=lambda snapshot: snapshot.at_s)
    if len(earlier) > 1:
        raise EvidenceMixed(f"{len(snapshots)} snapshots of tempdb's files", "give two, or one")
    elapsed_s, reads, writes = 0.0, last.reads, last.writes
    for first in earlier:
        if first.files != last.files:
            raise EvidenceContradictory("the snapshots have different files", HINT_FILES)
        elapsed_s = last.at_s - first.at_s
        reads, writes = (
            OpCounts(new.count - old.count, new.bytes - old.bytes, new.total_ns - old.total_ns)
            for old, new in ((first.reads, last.reads), (first.writes, last.writes))
        )
        if min(*vars(reads).values(), *vars(writes).values()) < 0:
            names = " and ".join(map(str, paths))
            raise EvidenceContradictory("the server was restarted between them", where=names)
    stalled_s = (reads.total_ns + writes.total_ns) / 1e9
    lower = max(1.0, stalled_s / (selection.elapsed_s or elapsed_s or stalled_s or 1.0))
    upper = min(max(2 * lower, 8.0), THREADS_MAX)
    return counts_of_figures(
        selection,
        TempCounts(reads, writes),
        elapsed_s=elapsed_s,
        elapsed_unknown="one snapshot has all I/O since the server began; give another one, which "
        "was taken after the query",
        threads=Bounds(lower, upper, "the view has no sessions", PLAN),
        engine=ObservedEngine("sqlserver"),
        subject="the interval between the snapshots" if earlier else None,
        notes=["the view counts the I/O of all sessions on tempdb"],
    )


def _snapshots(path: Path) -> Iterator[_Snapshot]:
    """The snapshots of tempdb's data files in an export."""
    rows = exported_rows(path, FILE_STATS, _NEEDED_OF_FILES)
    # A repeated row, as in a table that was pasted twice, counts once.
    rows = list({tuple(row.values()): row for row in rows}.values())
    if any(row.get("database_id") or row.get("database_name") for row in rows):
        rows = [
            row
            for row in rows
            if row.get("database_id") == "2" or (row.get("database_name") or "").lower() == "tempdb"
        ]
    # The log has file_id 2.
    rows = [row for row in rows if row.get("type_desc") != "LOG" and row.get("file_id") != "2"]
    if not rows:
        raise NoTempIo("none of its rows is of a data file of tempdb (database_id 2)")

    def total(taken: Sequence[SpooledRow], name: str) -> int:
        return round(sum(_number(row, name) for row in taken))

    timed = sorted(((total([row], "sample_ms") / 1e3, row) for row in rows), key=itemgetter(0))
    starts = [at for at, (s, _) in enumerate(timed) if at == 0 or s - timed[at - 1][0] > SPAN_MAX_S]
    for start, end in zip(starts, [*starts[1:], len(timed)], strict=True):
        taken = [row for _, row in timed[start:end]]
        reads, writes = (
            OpCounts.timed(
                total(taken, f"num_of_{op}s"),
                total(taken, f"num_of_bytes_{past}"),
                total(taken, f"io_stall_{op}_ms") / 1e3,
            )
            for op, past in (("read", "read"), ("write", "written"))
        )
        files = [row.get("file_id") for row in taken]
        if all(files) and len(set(files)) < len(files):
            raise EvidenceIncomplete("several rows of a file at one time", HINT_FILES)
        yield _Snapshot(timed[start][0], reads, writes, len(taken))
