"""Oracle's evidence of one run: traces, ASH, statistics of a flash cache, lines that spill."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from spillcast.columns import Floats, Integers
from spillcast.errors import InputError, NoTempIo, SelectionEmpty
from spillcast.evidence.open import EvidenceFiles
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.ash_profile import (
    check_single_execution,
    hints,
    profile_ash,
    wall_clock_share,
)
from spillcast.evidence.oracle.collected import (
    ASSUMED_BLOCK,
    BLOCKS_MAX,
    BlockSize,
    LineKey,
    block_size,
    parameter_of,
    passes_by_line,
    read_statistics,
    read_work_areas,
    temp_on_flash,
)
from spillcast.evidence.oracle.row_sources import (
    RowSource,
    row_sources_of_samples,
    row_sources_of_traces,
    spilling,
)
from spillcast.evidence.oracle.trace import Progress, TraceOptions, profile_traces
from spillcast.evidence.oracle.trace_recording import recording_of_traces
from spillcast.evidence.selection import NO_FILTER, Filter
from spillcast.evidence.text import repeated_notes
from spillcast.forecast.question import Question
from spillcast.forecast.work_memory import PGA_TARGET, MorePga, SpilledLines, SpillingLine
from spillcast.recording import TEMP_EVENTS, is_like
from spillcast.storage import Storage
from spillcast.tables import Table

#: Traces are read again for their STAT lines, unless they are larger in total.
_TRACES_BYTES_MAX = 64 << 20
#: Waits of a parallel query's processes for each other, and the wait of its coordinator alone.
_PEER_WAITS, _COORDINATOR_WAITS = "PX Deq", "PX Deq: Execute Reply"
_CLOCKS_UNKNOWN = (
    "sessions of a parallel query are at different times, which are added up: if they ran on "
    "several machines, give traces with all their dates (the lines with ***)"
)


@dataclass(frozen=True)
class EventLatency:
    """The waits for one event in traces."""

    event: str
    op: str | None
    idle: bool
    count: int
    total_s: float
    #: Mean number of database blocks that an operation moves; None if unknown.
    blocks: float | None
    #: Count and mean latency (s) of each second, shape (seconds, 2).
    stretches: Floats
    #: These seconds, by the database's clock.
    seconds: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    #: Operations by the number of blocks that they move; empty if unknown.
    sizes: dict[float, int] = field(default_factory=dict)

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return self.total_s / self.count


@dataclass(frozen=True)
class TraceEvidence:
    """The events of a set of traces, and the time that the traces cover.

    ``sessions_s`` is the sum over all sessions: more than ``elapsed_s`` if they ran in parallel.
    ``shares`` is the share of ``elapsed_s`` by event if there are traces of a parallel query's
    servers, which work while other sessions wait for them. If it is empty, sessions share the time.
    ``calls`` is the number of database calls by kind; None unless the traces cover whole sessions.
    ``open_s`` is the time of waits after which no call ended; ``ended`` is the reason why traces
    may end before the statement. ``unmeasured`` is the number of ``damaged`` lines that are waits
    of impossible length. ``excess`` is a sentence if waits and CPU time do not fit sessions, and
    ``notes`` are sentences about the files.
    """

    name: str
    elapsed_s: float
    sessions_s: float
    events: dict[str, EventLatency]
    damaged: int
    open_s: float = 0.0
    ended: str = ""
    shares: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] | None = None
    unmeasured: int = 0
    excess: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AshEvidence:
    """Shares of the elapsed time by event, and the number of sampled instants behind them."""

    elapsed_s: float
    instants: int
    share: dict[str, float]
    latency_s: dict[str, float]
    notes: list[str] = field(default_factory=list)
    #: The SQL_IDs in the export.
    statements: frozenset[str] = frozenset()
    #: The samples; None if only their sums are kept, as in a fleet dataset.
    samples: Table | None = None
    #: Mean number of active sessions.
    sessions: float = 1.0


@dataclass(frozen=True)
class EventTarget:
    """The other storage: traces made there, its figures, one latency for all events, or a gain."""

    name: str
    traces: TraceEvidence | None = None
    latency_s: float | None = None
    factor: float | None = None
    storage: Storage | None = None


@dataclass(frozen=True, kw_only=True)
class OracleEvidence:
    """Traces, ASH or both; ``flash`` is the share of temp I/O that a flash cache serves, by op.

    ``statements`` are the SQL_IDs of the run, and ``paths`` the files of ``traces``.
    """

    traces: TraceEvidence | None = None
    ash: AshEvidence | None = None
    flash: Mapping[str, float] = field(default_factory=dict)
    statements: frozenset[str] = frozenset()
    block: BlockSize = ASSUMED_BLOCK
    paths: Sequence[Path] = ()
    lenient: bool = False
    #: Which lines of the plan spill, and what more PGA would save; None if not in the evidence.
    spilled: SpilledLines | None = None

    @cached_property
    def sequential(self) -> Mapping[tuple[str, int], float]:
        """The share of sequential temp I/O by op and size class (bytes).

        Empty if no trace names file, block and count.
        """
        if not self.paths:
            return {}
        try:
            run = recording_of_traces(self.paths, self.block.bytes, lenient=self.lenient)
        except InputError:
            return {}
        return run.work.sequential

    @property
    def covered_s(self) -> float:
        """Elapsed time (s) that the evidence covers."""
        if self.ash is not None:
            return self.ash.elapsed_s
        return self.traces.elapsed_s if self.traces is not None else 0.0


def read_evidence(
    evidence: EvidenceFiles, question: Question, *, name_statements: bool = False
) -> OracleEvidence:
    """Read the files. InputError if they do not allow an answer to the question.

    With ``name_statements`` traces are read again for the SQL_IDs of their statements.
    """
    traces = ash = None
    temp_events = question.temp_events or TEMP_EVENTS
    statements: frozenset[str] = frozenset()
    if evidence.traces:
        # With ASH, traces are used only for latencies, and may be of another run.
        of_traces = None if evidence.ash else question.sql_id
        with question.reading(evidence.traces) as read:
            traces = read_traces(
                evidence.traces, sql_id=of_traces, lenient=question.lenient, on_progress=read
            )
    if evidence.ash:
        with question.reading(evidence.ash) as read:
            ash = read_shares(evidence.ash, temp_events, question.chosen, read)
        statements = ash.statements
    elif question.sql_id is not None:
        statements = frozenset([question.sql_id])
    elif name_statements and evidence.traces:
        statements = statements_of(evidence.traces, temp_events, lenient=question.lenient)
    statistics = evidence.statistics
    block = block_size(question.block, evidence.parameters, evidence.traces)
    spilled = None
    if question.temp_events is None:
        samples = None if ash is None else ash.samples
        spilled = spilled_of(evidence, samples, block.bytes, lenient=question.lenient)
    return OracleEvidence(
        traces=traces,
        ash=ash,
        flash=temp_on_flash(read_statistics(statistics)) if statistics else {},
        statements=statements,
        block=block,
        paths=evidence.traces,
        lenient=question.lenient,
        spilled=spilled,
    )


def read_traces(
    paths: Sequence[Path],
    *,
    sql_id: str | None = None,
    lenient: bool = False,
    on_progress: Progress | None = None,
) -> TraceEvidence:
    """Latencies and sizes by event, of one statement or of all.

    A statement's time is the CPU time of its calls, its non-idle waits, and its waits for other
    processes of a parallel query, without the time of its servers if other sessions wait for them.
    InputError without trace lines, or without lines of that statement.
    """
    by = ["event", "blocks", "second", "session"] + (["sql"] if sql_id is not None else [])
    read = profile_traces(paths, by, TraceOptions(lenient=lenient, on_progress=on_progress))
    groups = read.groups if sql_id is None else _of_statement(read.groups, sql_id)
    whole_us = [(session["sid"], session["elapsed_us"]) for session in read.sessions()]
    of_sessions = whole_us if sql_id is None else None
    servers, notes = servers_of(read.groups), repeated_notes(read.repeated)
    times = times_s(groups, servers, read.wall_s(), of_sessions)
    if servers and sql_id is None and read.clocks_unknown:
        notes.append(_CLOCKS_UNKNOWN)
    by_event: dict[str, list[dict[str, Any]]] = {}
    calls = Counter[str]()
    for group in groups:
        if group["event"] is not None:
            by_event.setdefault(group["event"], []).append(group)
        else:
            calls[group["call"]] += group["count"]
    events = {name: _latency(name, event_groups) for name, event_groups in by_event.items()}
    names = [path.name for path in read.paths]
    return TraceEvidence(
        ", ".join(names[:2]) + (", ..." if len(names) > 2 else ""),
        *times[:2],
        events,
        read.total("damaged"),
        open_s=read.open_s,
        ended="; ".join(read.ended()),
        shares=times[2],
        calls=calls if sql_id is None else None,
        unmeasured=read.total("waits_unmeasured"),
        excess=read.excess_text(),
        notes=notes,
    )


def servers_of(groups: Sequence[Mapping[str, Any]]) -> set[int | None]:
    """The sessions that are servers of a parallel query, for which other sessions wait."""
    coordinators = {g["session"] for g in groups if g["event"] == _COORDINATOR_WAITS}
    return {g["session"] for g in groups if _is_for_peers(g)} - coordinators


def times_s(
    groups: Sequence[Mapping[str, Any]],
    servers: Set[int | None],
    wall_s: float = inf,
    whole_us: Sequence[tuple[int | None, int]] | None = None,
) -> tuple[float, float, dict[str, float]]:
    """``elapsed_s``, ``sessions_s`` and ``shares`` of TraceEvidence.

    Groups have session, event, idle and total_us. They are of one statement, or of sessions with
    the times ``whole_us``. Together they took at most ``wall_s`` of elapsed time.
    """
    spans_us = Counter[int | None]()
    of_statement = (
        (g["session"], g["total_us"]) for g in groups if _is_for_peers(g) or not g["idle"]
    )
    for session, us in of_statement if whole_us is None else whole_us:
        spans_us[session] += us
    sessions_s = spans_us.total() / 1e6
    elapsed_s = sessions_s if whole_us is None else wall_s
    others_us = sum(us for session, us in spans_us.items() if session not in servers)
    is_parallel = any(map(_is_for_peers, groups)) if whole_us is None else sessions_s > wall_s
    # Other sessions that do not wait for the servers run other queries.
    is_known = not others_us or any(group["event"] == _COORDINATOR_WAITS for group in groups)
    if not (is_parallel and is_known and others_us / 1e6 < sessions_s):
        return elapsed_s, sessions_s, {}
    if whole_us is None:
        elapsed_s = min((others_us or max(spans_us.values())) / 1e6, wall_s or inf)
    return elapsed_s, sessions_s, _shares(groups, servers, others_us)


def _shares(
    groups: Sequence[Mapping[str, Any]], servers: Set[int | None], others_us: int
) -> dict[str, float]:
    """The share of each event in ``others_us``, the time of all sessions except ``servers``.

    Their waits for servers are divided in proportion to the servers' work.
    """
    others_of_event_us, servers_of_event_us = Counter[str | None](), Counter[str | None]()
    waits_us = 0
    for group in groups:
        event, us, is_for_peers = group["event"], group["total_us"], _is_for_peers(group)
        if group["session"] not in servers:
            others_of_event_us[event] += us
            waits_us += us if is_for_peers else 0
        elif not (is_for_peers or group["idle"]):
            servers_of_event_us[event] += us
    of_servers = (waits_us / others_us if others_us else 1.0) / max(servers_of_event_us.total(), 1)
    return {
        event: others_of_event_us[event] / max(others_us, 1)
        + servers_of_event_us[event] * of_servers
        for event in {group["event"] for group in groups if group["event"] is not None}
    }


def _is_for_peers(group: Mapping[str, Any]) -> bool:
    return (group["event"] or "").startswith(_PEER_WAITS)


def statements_of(
    paths: Sequence[Path], temp_events: str, *, lenient: bool = False
) -> frozenset[str]:
    """The SQL_IDs in the traces of statements that waited for events like ``temp_events``.

    InputError without trace lines.
    """
    groups = profile_traces(paths, ["event", "sql"], TraceOptions(lenient=lenient)).groups
    waits = [group for group in groups if group["event"] is not None and group["sql"]]
    return frozenset(group["sql"] for group in waits if is_like(group["event"], temp_events))


def _of_statement(groups: list[dict[str, Any]], sql_id: str) -> list[dict[str, Any]]:
    """The groups of one statement. InputError without any lists the statements, longest first."""
    matching_groups = [group for group in groups if group["sql"] == sql_id]
    if not matching_groups:
        total_us = Counter[str]()
        for group in groups:
            if group["sql"] and not group["idle"]:
                total_us[group["sql"]] += group["total_us"]
        known_ids = [sql for sql, _ in total_us.most_common(5)]
        raise SelectionEmpty(
            f"no line of the traces is of SQL_ID {sql_id}",
            f"there are: {', '.join(known_ids) or 'none'}",
        )
    return matching_groups


def _latency(name: str, groups: list[dict[str, Any]]) -> EventLatency:
    count = np.array([group["count"] for group in groups])
    total_us = np.array([group["total_us"] for group in groups], dtype=float)
    blocks = np.array([_blocks(group) for group in groups], dtype=float)
    measured, sizes = blocks > 0, Counter[float]()
    for size, operations in zip(blocks[measured].tolist(), count[measured].tolist(), strict=True):
        sizes[size] += operations
    seconds, second_of = np.unique([group["second"] for group in groups], return_inverse=True)
    counts = np.bincount(second_of, weights=count, minlength=len(seconds))
    totals_s = np.bincount(second_of, weights=total_us, minlength=len(seconds)) / 1e6
    return EventLatency(
        event=name,
        op=groups[0]["op"],
        idle=bool(groups[0]["idle"]),
        count=int(count.sum()),
        total_s=float(total_us.sum() / 1e6),
        blocks=float(np.average(blocks[measured], weights=count[measured])) if sizes else None,
        stretches=np.column_stack([counts, totals_s / counts]),
        seconds=seconds.astype(np.int64),
        sizes=sizes,
    )


def _blocks(group: Mapping[str, Any]) -> int:
    """Blocks that each operation of a group moves; 0 if unknown or damaged."""
    blocks = group["blocks"] or 0
    return blocks if 0 < blocks <= BLOCKS_MAX else 0


def read_shares(
    paths: Sequence[Path],
    temp_events: str,
    chosen: Filter = NO_FILTER,
    on_progress: Progress | None = None,
) -> AshEvidence:
    """The share of the elapsed time in each event like ``temp_events``, from exports of ASH.

    InputError lists the executions if the selection has several.
    """
    ash = read_ash(list(paths), chosen, on_progress=on_progress)
    check_single_execution(ash)
    wall_clock = wall_clock_share(ash, temp_events)
    # Names of events may contain pattern characters.
    literals = {event: re.sub(r"([*?[])", r"[\1]", event) for event in wall_clock.events}
    share = {event: wall_clock_share(ash, name).share for event, name in literals.items()}
    latency_s = {
        row["event"]: row["latency_us"] / 1e6
        for row in profile_ash(ash).to_pylist()
        if row["latency_us"] is not None
    }
    statements = frozenset(map(str, ash.samples["sql_id"].unique()))
    notes = [*ash.notes, *hints(ash)]
    sampled = wall_clock.elapsed_s, wall_clock.instants
    sessions = len(ash.samples) / wall_clock.instants
    return AshEvidence(*sampled, share, latency_s, notes, statements, ash.samples, sessions)


def matching(names: Sequence[str], temp_events: str) -> list[str]:
    """The names like ``temp_events``, in upper or lower case. InputError if there are none."""
    matches = [name for name in names if is_like(name, temp_events)]
    if not matches:
        hint = "it has no waits, which a trace holds from level 8 of event 10046 on"
        if names:
            is_old = any(is_like(name, "direct path*") for name in names)
            remedy = "up to release 9.2 give 'direct path*'; " if is_old else ""
            hint = f"{remedy}the events are {', '.join(sorted(names))}"
        remark = " (the default)" if temp_events == TEMP_EVENTS else ""
        raise NoTempIo(f"--temp-events '{temp_events}'{remark} matches no event of the run", hint)
    return matches


def spilled_of(
    evidence: EvidenceFiles, samples: Table | None, block_bytes: int, *, lenient: bool
) -> SpilledLines | None:
    """Which plan lines spill, and what more PGA would save; None if the evidence shows neither."""
    areas = read_work_areas(evidence.work_areas).to_pylist() if evidence.work_areas else []
    try:
        if samples is not None:
            sources = row_sources_of_samples(samples, block_bytes)
        else:
            sources = _of_traces(evidence.traces, lenient)
    except ModuleNotFoundError:
        # The base install has no SQL, and a forecast from traces does not need it.
        sources = []
    lines = _lines(sources, areas)
    more = _more_pga([row for row in areas if row["temp_bytes"]], evidence.parameters)
    return SpilledLines(lines, more) if lines or more is not None else None


def _of_traces(paths: Sequence[Path], lenient: bool) -> list[RowSource]:
    files = [path for path in paths if path.is_file()]
    size_bytes = sum(path.stat().st_size for path in files)
    if len(files) < len(paths) or not 0 < size_bytes < _TRACES_BYTES_MAX:
        return []
    # Shares do not depend on the block size.
    return row_sources_of_traces(files, 1, TraceOptions(lenient=lenient))[1]


def _lines(sources: Sequence[RowSource], areas: Sequence[dict[str, Any]]) -> list[SpillingLine]:
    """The lines of the plan that spill: from samples or STAT lines, else from work areas."""
    passes, temp = passes_by_line(areas), Counter[LineKey]()
    names: dict[LineKey, str] = {}
    for area in areas:
        key = area["sql_id"], area["plan_line"]
        names[key] = (area["operation"] or "").replace("-", " ")
        temp[key] += area["temp_bytes"] or 0
    shares: list[tuple[str | None, int | None, str, float, int | None]] = [
        (source.sql_id, source.plan_line, source.operation, share, source.passes)
        for source, share in spilling(sources)
        if source.plan_line is not None
    ]
    if not shares and (total := sum(temp.values())):
        shares = [(*key, "", size / total, None) for key, size in temp.most_common() if size]
    return [
        SpillingLine(
            *(key := (sql, line)), name or names.get(key, ""), share, passes.get(key, measured)
        )
        for sql, line, name, share, measured in shares
    ]


def _more_pga(areas: Sequence[dict[str, Any]], parameters: Sequence[Path]) -> MorePga | None:
    """What more PGA would save for work areas that had spilled by the time of their sample."""
    if not areas:
        return None
    needed_bytes, estimated = 0, True
    for area in areas:
        held_bytes = area["memory_bytes_max"] or 0
        optimal = area["optimal_bytes"] or 0
        # The work area spilled, so an estimate that does not exceed the memory it held is too low.
        is_optimal = optimal > held_bytes
        needed_bytes += optimal if is_optimal else held_bytes + area["temp_bytes"]
        estimated = estimated and is_optimal
    targets = [size for path in parameters if (size := parameter_of(path, PGA_TARGET))]
    held_bytes = sum(area["memory_bytes_max"] or 0 for area in areas)
    return MorePga(held_bytes, needed_bytes, estimated, len(areas), targets[0] if targets else None)
