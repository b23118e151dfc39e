"""Statements ranked by what spilling costs them; each forecast as a row of counts is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.engines.gains import FORECAST_MAX, RankRequest, timed_counts, with_gains
from spillcast.engines.postgres.rank.snapshot import Snapshot
from spillcast.engines.ranking import Ranked, ServerRanking, SpillNode
from spillcast.errors import InputError, Refusal, SpillcastError
from spillcast.evidence.counts import Counts, feasible_processes
from spillcast.evidence.postgres.logs import Logs, normal
from spillcast.evidence.postgres.nodes import BLOCK_BYTES, amount, nodes_of
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.evidence.postgres.statements import (
    HOW,
    PER_GATHER,
    Row,
    counts_of_row,
    merged,
    processes_of,
)
from spillcast.evidence.postgres.temp_files import TempFile
from spillcast.forecast import forecast
from spillcast.forecast.counted import timed_on
from spillcast.forecast.sizing import size
from spillcast.forecast.sizing.evidence import sized_rows
from spillcast.forecast.sizing.products import Sized
from spillcast.forecast.work_memory import work_mem_between
from spillcast.gate import reading
from spillcast.redaction import struck_text
from spillcast.storage.catalogue.prices import load_prices
from spillcast.storage.target import depends_on_recording, resolve

_PLACE = Path("pg_stat_statements")
#: What stands for spills of any size, and longer than they take on any storage.
_BLOCKS, _LONG_MS = 1000, 1e6


def rows_of(look: Snapshot) -> list[Row]:
    """The statements of a look."""
    with reading(_PLACE, HOW):
        return merged(Row.of(statement) for statement in look.rows)


def of_rows(every: Sequence[Row], logs: Logs | None, request: RankRequest) -> list[Ranked]:
    """The statements of a look, or of an export, that spill."""
    rows = [row for row in every if row.spills]
    rows.sort(key=lambda row: (row.temp_s, row.blocks), reverse=True)
    plans = {} if logs is None else _all_plans(logs)
    ranked = [
        _of_row(row, plans.get(normal(row.query or ""), []), request if at < FORECAST_MAX else None)
        for at, row in enumerate(rows)
    ]
    return sorted(ranked, key=lambda statement: statement.weight, reverse=True)


def with_sizing(ranking: ServerRanking) -> ServerRanking:
    """The ranking with storage to buy for all its statements, where their counts tell."""
    try:
        sizing = size(statements_to_size(ranking), load_prices(), confidence=ranking.confidence)
    except (InputError, Refusal):
        return ranking
    return replace(ranking, sizing=sizing)


def statements_to_size(
    ranking: ServerRanking, place: Path = _PLACE, runs_per_day: float | None = None
) -> list[Sized]:
    """The statements of a ranking that spill, with ``runs_per_day`` of all, else as counted."""
    rows = ranking.counted
    if runs_per_day is None and ranking.per_day is not None:
        runs_per_day = sum(row.calls for row in rows if row.spills) * ranking.per_day
    return sized_rows(place, rows, runs_per_day=runs_per_day)


def spill_s(size_bytes: int, request: RankRequest) -> dict[str, float]:
    """By target, the time to write so many bytes once and to read them once, a block at a time.

    None of a target that is relative to latencies of today, which nothing tells.
    """
    blocks = {"temp_blks_read": _BLOCKS, "temp_blks_written": _BLOCKS}
    row = Row.of({"calls": 1, "total_exec_time": _LONG_MS, PER_GATHER: 0, **blocks})
    counts = counts_of_row(_PLACE, row, timed=False)
    share = size_bytes / BLOCK_BYTES / _BLOCKS
    return {
        target: share * timed_on(counts, request.storage(target, counts)).total_s
        for target in request.targets
        if not depends_on_recording(target)
    }


def of_logs(logs: Logs, request: RankRequest) -> list[Ranked]:
    """The statements that logs tell of: temp files by their sizes, plans by what they counted."""
    sizes: dict[str, int] = {}
    texts: dict[str, tuple[str | None, str | None]] = {}
    files: dict[str, list[TempFile]] = {}
    for file in logs.temp:
        key = normal(file.query or "")
        files.setdefault(key, []).append(file)
        sizes[key] = sizes.get(key, 0) + file.bytes
        texts.setdefault(key, (file.queryid, file.query))
    all_plans = _all_plans(logs)
    for key, plans in all_plans.items():
        text = str(max(plans, key=_blocks).get("Query Text", ""))
        texts.setdefault(key, (None, struck_text(text)))
    ranked = []
    for number, key in enumerate(sorted(texts, key=lambda statement: -sizes.get(statement, 0))):
        statement = Ranked(*texts[key], None, None, sizes.get(key, 0))
        if plans := all_plans.get(key, []):
            elapsed_s = sum(float(plan.get("Execution Time", 0.0)) for plan in plans) / 1e3
            statement = replace(statement, calls=len(plans), elapsed_s=elapsed_s)
        if plans and number < 2 * FORECAST_MAX:
            statement = _of_plan(statement, max(plans, key=_blocks), len(plans), request)
        elif key in files:
            statement = _of_files(statement, files[key])
        ranked.append(statement)
    return sorted(ranked, key=lambda statement: statement.weight, reverse=True)


def _of_row(row: Row, plans: Sequence[Mapping[str, Any]], request: RankRequest | None) -> Ranked:
    moved_bytes = row.blocks * BLOCK_BYTES
    ranked = Ranked(row.queryid, row.query, row.calls, row.elapsed_s, moved_bytes, _temp_s(row))
    if request is None:
        text = f"only the {FORECAST_MAX} with the most temp I/O are forecast"
        return replace(ranked, refused=text)
    try:
        counts = timed_counts(counts_of_row(_PLACE, row, timed=request.origin is None), request)
        counts = replace(counts, calibration=request.calibration)
        if counts.time_bounds is not None:
            ranked = replace(ranked, temp_s=_temp_bounds_s(counts, row.calls))
        ranked = with_gains(ranked, _at_bounds(counts, plans), row.calls, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message.removeprefix(f"{_PLACE}: "))
    if not plans:
        return ranked
    largest = max(plans, key=_blocks)
    return replace(ranked, work_mem_bytes=_enough(largest, request), nodes=_spilling(largest))


def _at_bounds(counts: Counts, plans: Sequence[Mapping[str, Any]]) -> list[Counts]:
    """The same counts with the fewest and the most processes that may have shared their I/O.

    Plans of the statement tell how many there were, within what the counts allow for.
    """
    shared = counts.processes_bounds
    if shared is None or counts.time_bounds is not None:
        return counts.at_bounds() or [counts]
    processes = [counts_of_plan(plan, timed=False).processes for plan in plans]
    ends = sorted({min(max(number, shared.lower), shared.upper) for number in processes})
    ends = ends or [shared.lower, shared.upper]
    return [counts.with_processes(number) for number in dict.fromkeys((ends[0], ends[-1]))]


def _temp_s(row: Row) -> tuple[float, float] | None:
    """Elapsed time of all calls in temp I/O, for the most processes and for the fewest."""
    if not row.temp_s:
        return None
    shared, calls = processes_of(row), row.calls
    per_call = row.elapsed_s / calls, row.temp_s / calls, row.other_s / calls
    try:
        shared = feasible_processes(shared, *per_call)
    except Refusal:
        return row.temp_s / shared.upper, min(row.temp_s, row.elapsed_s)
    return row.temp_s / shared.upper, row.temp_s / shared.lower


def _of_files(ranked: Ranked, files: Sequence[TempFile]) -> Ranked:
    """Temp files alone: they took some of their calls' time, and no more than all."""
    ranked = replace(ranked, work_mem_between=work_mem_between(files))
    calls = {file.call: file.elapsed_s for file in files if file.elapsed_s is not None}
    if not calls:
        return ranked
    took_s = sum(calls.values())
    return replace(ranked, calls=len(calls), elapsed_s=took_s, temp_s=(0.0, took_s))


def _of_plan(ranked: Ranked, plan: Mapping[str, Any], calls: int, request: RankRequest) -> Ranked:
    """Extrapolate the plan of one call to all logged calls."""
    moved_bytes = round(calls * _blocks(plan) * BLOCK_BYTES)
    ranked = replace(ranked, temp_bytes=max(ranked.temp_bytes or 0, moved_bytes))
    try:
        counts = counts_of_plan(plan, path=Path("a plan"), timed=request.origin is None)
        counts = timed_counts(counts, request)
        ranked = replace(ranked, temp_s=_temp_bounds_s(counts, calls))
        ranked = with_gains(ranked, counts.at_bounds() or [counts], calls, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message.removeprefix("a plan: "))
    return replace(ranked, work_mem_bytes=_enough(plan, request), nodes=_spilling(plan))


def _temp_bounds_s(counts: Counts, calls: int) -> tuple[float, float]:
    """Bounds of the elapsed time of all calls in temp I/O."""
    each, time = calls / counts.processes, counts.time_bounds
    if time is None:
        return each * counts.total_s, each * counts.total_s
    return each * time.lower, each * time.upper


def _enough(plan: Mapping[str, Any], request: RankRequest) -> int | None:
    """The work_mem with which nothing of a plan spills."""
    try:
        counts = timed_counts(counts_of_plan(plan, timed=request.origin is None), request)
        doubled = forecast(counts, resolve("factor:2", counts))
    except SpillcastError:
        return None
    return None if doubled.work_memory is None else doubled.work_memory.enough.work_mem_bytes


#: What nodes say of their memory.
_DETAILS = ("Sort Method", "Hash Batches", "HashAgg Batches", "Disk Usage", "Workers Launched")


def _spilling(plan: Mapping[str, Any]) -> list[SpillNode]:
    """The nodes of a plan that did temp I/O themselves."""
    with reading("a plan in the log"):
        nodes = [node for node in nodes_of(plan["Plan"]).walk() if node.temp.blocks]
    nodes.sort(key=lambda node: -node.temp.blocks)
    return [
        SpillNode(
            node.kind,
            BLOCK_BYTES * node.temp.blocks,
            ", ".join(f"{name} {node.values[name]}" for name in _DETAILS if name in node.values),
        )
        for node in nodes
    ]


def _all_plans(logs: Logs) -> dict[str, list[dict[str, Any]]]:
    by_key: dict[str, list[dict[str, Any]]] = {}
    for plan in logs.plans:
        if _blocks(plan):
            by_key.setdefault(normal(str(plan.get("Query Text", ""))), []).append(plan)
    return by_key


def _blocks(plan: Mapping[str, Any]) -> float:
    names = ("Temp Read Blocks", "Temp Written Blocks")
    with reading("a plan in the log"):
        return sum(amount(plan["Plan"].get(name, 0), name) for name in names)
