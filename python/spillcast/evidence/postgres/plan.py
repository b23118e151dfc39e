"""Counts the temp I/O of a plan of EXPLAIN (ANALYZE, BUFFERS)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import (
    EvidenceIncomplete,
    EvidenceUnknown,
    NoTempIo,
    Refusal,
    TimesContradictory,
)
from spillcast.evidence.counts import Counts, feasible_processes
from spillcast.evidence.numbers import FigureCheck, amount, check_all
from spillcast.evidence.postgres import BLOCK_BYTES, TEMP_BLOCKS
from spillcast.evidence.postgres.document import (
    CUT,
    HINT,
    check_sums,
    is_log,
    none_spilled,
    read_documents,
)
from spillcast.evidence.postgres.node_times import (
    data_read_s,
    least_outside_s,
    sharing_processes,
)
from spillcast.evidence.postgres.nodes import (
    SIZES_NOTE,
    Node,
    by_process,
    counts_of_blocks,
    nodes_of,
    sorts_kib,
)
from spillcast.evidence.postgres.sizes import bounded_by_sizes, uncounted
from spillcast.evidence.postgres.spills import plan_spills
from spillcast.evidence.postgres.text import CITUS_STATEMENTS
from spillcast.evidence.selection import ONLY_RUN, SelectableRun, Selection, select
from spillcast.gate import reading
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import CountedStatement
from spillcast.redaction import masked_text
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast.evidence.postgres.logs import Logs
    from spillcast.recording.recording import Recording

#: An upper bound of the time of a query: 30 years.
LONGEST_MS = 1e12
#: The remedy for a plan without times of temp I/O.
TIMED = (
    "set track_io_timing = on and make it again: PostgreSQL 15 or newer times temp I/O; "
    "or name the storage with --from"
)
_UNTIMED = (
    "the plan has no times of it, so it took from the speed of memory to all the time of nodes "
    "that spill"
)
_SPLIT = "give all times of one run; EXPLAIN (ANALYZE, BUFFERS, VERBOSE) counts by process"
#: If an excerpt's first node took at least this share of the run, omitted nodes hardly spilled.
_EXCERPT_SHARE = 0.95
_OF_FUNCTIONS = "if it calls functions, EXPLAIN (ANALYZE, BUFFERS) shows whether those do"
_ELAPSED = "give the time of the query with --elapsed, such as --elapsed 812ms"
#: Values that only a node that ran has.
_RAN = frozenset(("Sort Method", "Sort Space Used", "Disk Usage"))


def read_plan(
    path: Path, selection: Selection = ONLY_RUN, settings: Mapping[str, Any] | None = None
) -> Counts:
    """The counts of a plan in a file, or of a call whose temp files are in a log.

    ``settings`` are settings of the session; those in the plan take precedence. InputError for a
    file that is not a plan, is cut, lacks buffers, does not spill or has several plans. Refusal for
    impossible I/O.
    """
    with reading(path, HINT):
        documents, logs = _read_plans(path)
        if logs is not None and not documents:
            from spillcast.evidence.postgres.logs import counts_of_logs

            return counts_of_logs(logs, selection).of_file(path)
        documents = [task for document in documents for task in _with_tasks(document)]
        selected = picked(documents, selection)
        spilling = sum(blocks_of(document["Plan"]) > 0 for document in documents)
        counts = counts_of_plan(
            selected, elapsed_s=selection.elapsed_s, timed=selection.timed, settings=settings
        ).of_file(path)
    notes = [*counts.notes, *([] if logs is None else logs.notes)]
    most_of = spilling if selection.item is None else 1
    return replace(counts, statement=_statement(selected, most_of), notes=notes)


def plans_in(path: Path) -> list[dict[str, Any]]:
    """The plans in a file or a log, in the form of FORMAT JSON. InputError if there is none."""
    documents, _ = _read_plans(path)
    if not documents:
        hint = "load auto_explain to log them"
        raise EvidenceUnknown("a log without plans", hint, path)
    return documents


def _read_plans(path: Path) -> "tuple[list[dict[str, Any]], Logs | None]":
    """The plans in a file and, for a log, its contents; none if only calls without plan spill."""
    if not is_log(path):
        return read_documents(path), None
    from spillcast.evidence.postgres.logs import read_logs

    logs = read_logs(path)
    is_listed = not logs.temp or any(blocks_of(plan["Plan"]) for plan in logs.plans)
    return logs.plans if is_listed else [], logs


def _with_tasks(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The plan, or those of tasks and subplans, which a Citus server runs as other statements."""
    top = nodes_of(document["Plan"])
    tasks = [node for node in top.walk() if node.kind in CITUS_STATEMENTS and node.children]
    if not tasks or blocks_of(document["Plan"]):
        return [document]
    count = next((n.values["Task Count"] for n in top.walk() if "Task Count" in n.values), None)
    task_note = "this is one task on its node" + ("" if count is None else f", of {int(count)}")
    notes = {
        "Task": f"{task_note}: the others spill on theirs, and are not counted",
        "Distributed": "this is a subplan that ran before the rest, which is not counted",
    }
    shown = [
        {
            **document,
            **{name: value for name, value in task.values.items() if name == "Execution Time"},
            "Plan": dict(task.children[0].values),
            "Notes": [notes[task.kind]],
        }
        for task in tasks
    ]
    return [task for task in shown if blocks_of(task["Plan"])] or [document]


def picked(documents: Sequence[dict[str, Any]], selection: Selection) -> dict[str, Any]:
    """The selected plan, the only plan, or the only plan of a log that spills."""
    spilling = [document for document in documents if blocks_of(document["Plan"])]
    is_log = any("Query Text" in document for document in documents)
    distinct = {
        (str(document.get("Query Text")), blocks_of(document["Plan"])) for document in spilling
    }
    is_run = spilling or any("Actual Loops" in document["Plan"] for document in documents)
    if selection.item is None and ((is_log and len(distinct) < 2) or not is_run):
        return (spilling or list(documents))[0]
    items = [
        SelectableRun(
            document,
            (_elapsed_ms(document) or 0.0) / 1e3 or None,
            size_bytes=blocks_of(document["Plan"]) * BLOCK_BYTES,
            text=str(document.get("Query Text") or document["Plan"].get("Node Type", "?")),
        )
        for document in documents
    ]
    return select(items, selection, title="plan")


def counts_of_plan(
    document: Mapping[str, Any] | list[Mapping[str, Any]],
    *,
    elapsed_s: float | None = None,
    timed: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Counts:
    """The counts of a plan as ``EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)`` returns it.

    Times that were not measured have bounds if ``timed``: from the speed of memory to the time of
    the run without that of nodes without temp I/O. Errors are those of ``read_plan``.
    """
    if isinstance(document, list):
        document = document[0]
    with reading(None, HINT):
        if not document["Plan"].keys() >= {*TEMP_BLOCKS} and (
            "Actual Loops" in document["Plan"] or (elapsed_s and not blocks_of(document["Plan"]))
        ):
            if none_spilled(document):
                raise NoTempIo("this query does not spill: no node needs temp files", _OF_FUNCTIONS)
            raise EvidenceIncomplete("without BUFFERS, or cut: its first node has no temp blocks")
        plan_s = elapsed_s or elapsed_of(document)
        if elapsed_s is None:
            _check_elapsed(document, plan_s)
        top = nodes_of(document["Plan"])
        check_sums(top)
        temp = top.all_temp
        first_s = document["Plan"].get("Actual Total Time", 0.0) / 1e3
        is_all = temp.blocks and first_s >= _EXCERPT_SHARE * plan_s
        if "Excerpt" in document and not is_all:
            raise EvidenceIncomplete(CUT)
        if not temp.blocks:
            raise NoTempIo(f"this query does not spill: {_no_temp_reason(top)}")
        shared = sharing_processes(top)
        if temp.total_s and plan_s:
            widest = replace(shared, upper=sharing_processes(top, evenly=True).upper)
            try:
                lower = feasible_processes(widest, plan_s, temp.total_s).lower
            except Refusal as refusal:
                raise TimesContradictory(str(refusal), _SPLIT) from refusal
            shared = replace(shared, lower=lower, upper=max(lower, shared.upper))
        plan_settings = document.get("Settings", {})
        read_s = data_read_s(top, plan_s)
        # The times of nodes do not apply to the elapsed time of another run.
        is_bounded = not (elapsed_s or temp.total_s)
        outside_s = least_outside_s(top, plan_s, shared.lower) if is_bounded else 0.0
        spills = plan_spills(top, {**(settings or {}), **plan_settings})
        counts = counts_of_blocks(
            plan_s,
            temp,
            ObservedEngine("postgresql", settings=dict(plan_settings)),
            shared,
            (_UNTIMED, TIMED) if timed else None,
            other_s=max(read_s, outside_s),
            held_bytes=_held_bytes(top),
            files=_files(top),
            notes=_notes(document, top),
            data_read_s=read_s,
            document=document,
            plan=spills,
        )
    if SIZES_NOTE not in counts.notes:
        return counts
    return bounded_by_sizes(counts, top, {**(settings or {}), **plan_settings})


def _uses_temp_tables(top: Node) -> bool:
    return any(top.values.get(f"Local {name} Blocks") for name in ("Read", "Written"))


def _no_temp_reason(top: Node) -> str:
    """Why the plan has no temp I/O."""
    if not _uses_temp_tables(top):
        return "its plan has no temp blocks"
    local_s = sum(top.values.get(f"Local I/O {name} Time", 0.0) / 1e3 for name in ("Read", "Write"))
    duration = f" ({format_duration(local_s)})" if local_s else ""
    return (
        f"its plan has no temp blocks; it reads and writes temp tables{duration}, and those move "
        "with temp_tablespaces as well"
    )


def _notes(document: Mapping[str, Any], top: Node) -> Sequence[str]:
    """Sentences about the limits of the counts."""
    notes = list(document.get("Notes", ()))
    if "Execution Time" not in document:
        notes.append("a plan without Execution Time: the time of its first node is used")
        if SIZES_NOTE in notes:
            notes.append("if its end is cut, what the missing nodes spilled does not count")
    elif SIZES_NOTE in notes and ("Abridged" in document or any(map(_lacks_method, top.walk()))):
        notes.append("lines of the plan are left out: what their nodes spilled does not count")
    if SIZES_NOTE in notes:
        notes += uncounted(top)
    ran = [node for node in top.walk() if node.processes > 1 and "Actual Rows" in node.values]
    if any("Actual Loops" not in node.values for node in ran):
        notes.append("nodes below a Gather without loops= are assumed to have run in each process")
    if _uses_temp_tables(top):
        notes.append(
            "reads and writes of temp tables are not part of this forecast: temp_tablespaces "
            "moves them as well"
        )
    return notes


def _lacks_method(node: Node) -> bool:
    """Whether a sort that was executed shows neither a size on disk nor one in memory."""
    has_run = "Actual Rows" in node.values and node.values.get("Actual Loops", 1) > 0
    sizes = ("Sort Space Type" in process for process in by_process(node.values))
    return node.kind == "Sort" and has_run and not any(sizes)


def _statement(document: Mapping[str, Any], spilling: int) -> CountedStatement | None:
    """The statement of a plan, one of ``spilling`` plans; None for a single plan without text."""
    query, queryid = document.get("Query Text"), document.get("Query Identifier")
    if query is None and spilling < 2:
        return None
    return CountedStatement(
        None if queryid is None else str(queryid),
        None if query is None else masked_text(str(query)),
        1,
        spilling,
    )


def _elapsed_ms(document: Mapping[str, Any]) -> float | None:
    """The time of the run, or of a first node that covers all of it; None if unknown."""
    node_ms = None if document.get("Cut") else document["Plan"].get("Actual Total Time")
    ms: float | None = document.get("Execution Time", node_ms)
    return ms


def elapsed_of(document: Mapping[str, Any]) -> float:
    """The time (s) of the query. InputError if the plan lacks figures of ANALYZE."""
    plan = document["Plan"]
    if "Actual Loops" not in plan:
        nodes = nodes_of(plan).walk()
        if "Execution Time" in document or any(_RAN & {*node.values} for node in nodes):
            problem = "its first node has no actual rows, though it was run"
            raise EvidenceIncomplete(problem, _ELAPSED)
        raise EvidenceIncomplete("a plan without ANALYZE: it was not run")
    if (elapsed_ms := _elapsed_ms(document)) is None:
        if "Excerpt" in document:
            raise EvidenceIncomplete(CUT)
        raise EvidenceIncomplete(
            "no Execution Time: cut, or made with SUMMARY OFF and TIMING OFF", _ELAPSED
        )
    return amount(elapsed_ms, "the time of the query", LONGEST_MS) / 1e3


def _check_elapsed(document: Mapping[str, Any], elapsed_s: float) -> None:
    """InputError if the first node took longer than the query: the text is of two runs."""
    node_s = document["Plan"].get("Actual Total Time", 0.0) / 1e3
    part = f"{format_duration(node_s)} of the first node"
    run = f"{format_duration(elapsed_s)} of the run"
    check_all([FigureCheck("part-of-whole", node_s, part, elapsed_s, run)], _ELAPSED)


def blocks_of(plan: Mapping[str, Any]) -> int:
    """Temp blocks that a plan read and wrote; 0 if it has no counts."""
    return sum(int(plan.get(name, 0)) for name in TEMP_BLOCKS)


def _held_bytes(top: Node) -> int:
    """The size of the temp files: the bytes that each node wrote, or the sizes of its sorts."""
    held_bytes = 0
    for node in top.walk():
        written = node.temp.written * BLOCK_BYTES
        sorts_bytes = 1024 * int(sum(sorts_kib(node.values)))
        held_bytes += min(sorts_bytes or written, written)
    return held_bytes


def _files(top: Node) -> int:
    """Files that the node with the most writes alternates between: batches of a hash, or one."""
    writer = max(top.walk(), key=lambda node: node.temp.written)
    batches = (node.values.get("Hash Batches", 1) for node in (writer, *writer.children))
    return max(1, int(max(batches)) - 1)


def plan_counts(recording: "Recording", selection: Selection = ONLY_RUN) -> Counts:
    """The counts of the plan in a recording of a server whose processes could not be observed.

    Errors are those of ``read_plan``.
    """
    path, meta = recording.plan_alone, recording.meta
    assert path is not None
    counts = read_plan(path, selection, meta.engine.settings)
    return replace(counts, engine=meta.engine, absent_because=meta.capture.absent_because)


@dataclass(frozen=True)
class Executed:
    """The elapsed time of a call, and its temp operations of one block each, if known.

    ``counts`` is None if the call did no temp I/O or the time of its temp I/O is unknown.
    """

    elapsed_s: float
    operations: int | None
    counts: Counts | None = None

    @property
    def bytes(self) -> int | None:
        """Bytes read and written."""
        return None if self.operations is None else self.operations * BLOCK_BYTES


def executed_plan(path: Path, selection: Selection) -> Executed:
    """The run of a plan: of several, the one with the most temp I/O of the selected statement.

    A log without plans has only the elapsed time of a call with temp files. InputError for a file
    that is not a plan, and for a plan that was not executed.
    """
    with reading(path, HINT):
        documents, logs = _read_plans(path)
        if logs is not None and not documents:
            of_statement = [
                file for file in logs.temp if file.queryid and file.queryid == selection.queryid
            ]
            logs = replace(logs, temp=of_statement or logs.temp)
            from spillcast.evidence.postgres.logs import counts_of_logs

            return Executed(counts_of_logs(logs, selection).elapsed_s, None)
        wanted = selection.queryid
        candidates = [d for d in documents if str(d.get("Query Identifier", "")) == wanted]
        if selection.item is not None:
            candidates = [picked(documents, selection)]
        document = max(candidates or documents, key=lambda d: (blocks_of(d["Plan"]), elapsed_of(d)))
        call_s = selection.elapsed_s or elapsed_of(document)
        blocks = blocks_of(document["Plan"])
        # Sizes on disk are a lower bound of the temp I/O, which is not comparable with other runs.
        is_counted = "Temp Written Blocks" in document["Plan"]
        if not is_counted or SIZES_NOTE in document.get("Notes", ()):
            return Executed(call_s, None)
        return executed(
            call_s, blocks, lambda: counts_of_plan(document, elapsed_s=selection.elapsed_s)
        )


def executed(elapsed_s: float, blocks: int, read: Callable[[], Counts]) -> Executed:
    """A call with the counts that ``read`` returns, unless the time of temp I/O has only bounds."""
    counts = None
    with suppress(Refusal):
        counts = read() if blocks else None
    return Executed(elapsed_s, blocks, None if counts is None or counts.time_bounds else counts)
