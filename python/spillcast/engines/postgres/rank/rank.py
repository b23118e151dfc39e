"""Statements ranked by what spilling costs them; each forecast as a row of counts is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast.engines.postgres.rank.logs import Logs, normal
from spillcast.engines.postgres.rank.look import Look
from spillcast.engines.ranking import Gain, Ranked
from spillcast.errors import InputError, Refusal, SpillcastError
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.sum.assumed import timed_on
from spillcast.gate import reading
from spillcast.recording import Recording
from spillcast.recording.explain.nodes import BLOCK_BYTES, amount
from spillcast.recording.explain.plan import recording_of_plan
from spillcast.recording.explain.statement_processes import shared_by
from spillcast.recording.explain.statement_rows import HOW, Row, merged
from spillcast.recording.explain.statements import recording_of_row
from spillcast.redaction import struck_text
from spillcast.storage.target import resolve

#: So many are forecast: the rest is told by its counts.
FORECAST_MAX = 12
_PLACE = Path("pg_stat_statements")


@dataclass(frozen=True)
class Asked:
    """What is wanted to know of each statement."""

    targets: Sequence[str]
    #: The storage that temp files are on, where I/O was not timed.
    origin: str | None
    confidence: float


def of_look(found: Look, logs: Logs | None, asked: Asked) -> list[Ranked]:
    """The statements of a look, with plans of logs where there are any."""
    with reading(_PLACE, HOW):
        rows = [row for row in merged(Row.of(one) for one in found.rows) if row.spills]
    rows.sort(key=lambda row: (row.temp_s, row.blocks), reverse=True)
    plans: dict[str, dict[str, Any]] = {} if logs is None else _plans_by_text(logs)
    ranked = [
        _of_row(row, plans.get(normal(row.query or "")), asked if at < FORECAST_MAX else None)
        for at, row in enumerate(rows)
    ]
    return sorted(ranked, key=lambda one: one.weight, reverse=True)


def of_logs(logs: Logs, asked: Asked) -> list[Ranked]:
    """The statements that logs tell of: temp files by their sizes, plans by what they counted."""
    sizes: dict[str, int] = {}
    texts: dict[str, tuple[str | None, str | None]] = {}
    for file in logs.temp:
        key = normal(file.query or "")
        sizes[key] = sizes.get(key, 0) + file.bytes
        texts.setdefault(key, (file.queryid, file.query))
    plans = _plans_by_text(logs)
    counts = {key: len(found) for key, found in _all_plans(logs).items()}
    elapsed = {
        key: sum(float(one.get("Execution Time", 0.0)) for one in found) / 1e3
        for key, found in _all_plans(logs).items()
    }
    for key, one_plan in plans.items():
        texts.setdefault(key, (None, struck_text(str(one_plan.get("Query Text", "")))))
    ranked = []
    for number, key in enumerate(sorted(texts, key=lambda one: -sizes.get(one, 0))):
        queryid, query = texts[key]
        one = Ranked(queryid, query, counts.get(key), elapsed.get(key), sizes.get(key, 0))
        if (plan := plans.get(key)) is not None and number < 2 * FORECAST_MAX:
            one = _of_plan(one, plan, counts[key], asked)
        ranked.append(one)
    return sorted(ranked, key=lambda one: one.weight, reverse=True)


def _of_row(row: Row, plan: Mapping[str, Any] | None, asked: Asked | None) -> Ranked:
    size = row.blocks * BLOCK_BYTES
    found = Ranked(row.queryid, row.query, row.calls, row.elapsed_s, size, _temp_s(row))
    if asked is None:
        text = f"only the {FORECAST_MAX} with the most temp I/O are forecast"
        return replace(found, refused=text)
    try:
        recording = recording_of_row(_PLACE, row, timed=asked.origin is None)
        found = _with_gains(found, _timed(recording, asked), row.calls, asked)
    except (InputError, Refusal) as error:
        return replace(found, refused=error.message.removeprefix(f"{_PLACE}: "))
    return replace(found, work_mem_bytes=None if plan is None else _enough(plan, asked))


def _temp_s(row: Row) -> tuple[float, float] | None:
    """Elapsed time of all calls in temp I/O, for the most processes and for the fewest."""
    if not row.temp_s:
        return None
    shared = shared_by(row)
    try:
        calls = row.calls
        per_call = row.elapsed_s / calls, row.temp_s / calls, row.other_s / calls
        shared = shared.within(*per_call)
    except Refusal:
        return row.temp_s / shared.most, min(row.temp_s, row.elapsed_s)
    return row.temp_s / shared.most, row.temp_s / shared.least


def _of_plan(found: Ranked, plan: Mapping[str, Any], calls: int, asked: Asked) -> Ranked:
    """What a plan tells of one call stands for all that were logged."""
    try:
        recording = recording_of_plan(plan, path=Path("a plan"), timed=asked.origin is None)
        temp = recording.meta.temp
        temp_s = calls * temp.total_s / (temp.processes or 1.0)
        found = replace(
            found, temp_bytes=max(found.temp_bytes, calls * temp.bytes), temp_s=(temp_s, temp_s)
        )
        found = _with_gains(found, _timed(recording, asked), calls, asked)
    except (InputError, Refusal) as error:
        return replace(found, refused=error.message.removeprefix("a plan: "))
    return replace(found, work_mem_bytes=_enough(plan, asked))


def _timed(recording: Recording, asked: Asked) -> Recording:
    if asked.origin is None:
        return recording
    return timed_on(recording, resolve(asked.origin, recording))


def _with_gains(found: Ranked, recording: Recording, calls: int, asked: Asked) -> Ranked:
    """What each target saves of all calls; what not spilling saves is as on no latency."""
    gains: dict[str, Gain] = {}
    said: Forecast | None = None
    for target in asked.targets:
        said = forecast(recording, resolve(target, recording), confidence=asked.confidence)
        if said.forecast_s is not None and said.interval_s is not None:
            gains[target] = _gain(said.baseline_s, said.forecast_s, said.interval_s, calls)
    if said is None or said.ceiling_interval_s is None:
        return replace(found, refused=None if said is None else said.refused)
    no_spill = _gain(said.baseline_s, said.ceiling_s, said.ceiling_interval_s, calls)
    return replace(found, gains=gains, no_spill=no_spill, refused=said.refused)


def _gain(now_s: float, then_s: float, bounds_s: tuple[float, float], calls: int) -> Gain:
    low_s, high_s = bounds_s
    return Gain(calls * (now_s - then_s), (calls * (now_s - high_s), calls * (now_s - low_s)))


def _enough(plan: Mapping[str, Any], asked: Asked) -> int | None:
    """The work_mem with which nothing of a plan spills."""
    try:
        recording = _timed(recording_of_plan(plan, timed=asked.origin is None), asked)
        said = forecast(recording, resolve("factor:2", recording))
    except SpillcastError:
        return None
    return None if said.work_memory is None else said.work_memory.enough.work_mem_bytes


def _plans_by_text(logs: Logs) -> dict[str, dict[str, Any]]:
    """Of each statement the plan with the most temp blocks."""
    return {key: max(found, key=_blocks) for key, found in _all_plans(logs).items()}


def _all_plans(logs: Logs) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for plan in logs.plans:
        if _blocks(plan):
            found.setdefault(normal(str(plan.get("Query Text", ""))), []).append(plan)
    return found


def _blocks(plan: Mapping[str, Any]) -> float:
    names = ("Temp Read Blocks", "Temp Written Blocks")
    with reading("a plan in the log", HOW):
        return sum(amount(plan["Plan"].get(name, 0), name) for name in names)
