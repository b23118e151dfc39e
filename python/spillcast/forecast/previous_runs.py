"""Previous runs of a recorded query: their files, the spread of the spill, the CPU cost of waits.

The spill of a process depends on when each of its threads takes memory from their common limit:

    spread^2 = far^2 + (share * memory / spill)^2

where memory is the peak resident memory and spill the bytes written. ``far`` and ``share`` were
measured for one and for several threads (calibrated.toml). Each session of a server has its own
limit, which a plan reaches at the same row in each run. Previous runs measure the spread itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spillcast.calibrated import calibrated
from spillcast.errors import EvidenceUnknown, InputError, Refusal
from spillcast.evidence.counts import Counts
from spillcast.evidence.selection import Selection
from spillcast.forecast.cpu import spinning_s, weight_moved
from spillcast.forecast.result import SpillSpread
from spillcast.forecast.workload import PreviousRun, Workload
from spillcast.forecast.workload.counted import counted_loads
from spillcast.forecast.workload.load import Load, mean_latency_s, moved_bytes, operations
from spillcast.forecast.workload.recorded import recorded_loads
from spillcast.recording import OPS, Recording
from spillcast.recording.completeness import RecordedPart
from spillcast.recording.meta import CALLS_FILE, ESTIMATE_FILE, NO_ENGINE, ObservedEngine

#: The spills of two runs are comparable only if these settings are equal.
_MEMORY_SETTINGS = ("work_mem", "memory_limit", "hash_mem_multiplier", "threads")


class HistoryFile(NamedTuple):
    """A file of ``--history`` or of the recording: a previous run, or a plan that was not run."""

    path: Path
    run: Recording | Counts | None
    plan: Mapping[str, Any] | None = None
    #: Why a file without either is not used.
    unused: str = ""


def read_history(path: Path) -> HistoryFile:
    """A file of ``--history``. InputError for other kinds of evidence."""
    from spillcast.evidence.open import find_evidence
    from spillcast.evidence.postgres.plan import plans_in, read_plan
    from spillcast.evidence.postgres.statements import read_statements

    kind = find_evidence([path]).only_kind()
    if kind == "recordings":
        return HistoryFile(path, Recording.open(path))
    if kind == "plans":
        [document, *others] = plans_in(path)
        if others or "Actual Loops" in document["Plan"] or "Execution Time" in document:
            return HistoryFile(path, read_plan(path, Selection(timed=False)))
        return HistoryFile(path, None, document)
    if kind == "statements":
        return HistoryFile(path, read_statements(path, Selection(timed=False)))
    raise EvidenceUnknown(
        f"--history {path}: neither a recording, a plan nor a row of pg_stat_statements",
        "give an earlier run of the same query",
    )


def kept_history(recording: Recording) -> list[HistoryFile]:
    """The plan and the earlier calls of a server's query that its recording contains."""
    from spillcast.evidence.postgres.document import document_of

    files, folder = list[HistoryFile](), recording.path
    if plan := recording.decoded(ESTIMATE_FILE, document_of):
        files.append(HistoryFile(folder / ESTIMATE_FILE, None, plan))
    try:
        if calls := _earlier_calls(recording):
            files.append(HistoryFile(folder / CALLS_FILE, calls))
    except (InputError, Refusal) as error:
        unused = error.message.removeprefix(f"{folder / CALLS_FILE}: ")
        files.append(HistoryFile(folder / CALLS_FILE, None, unused=unused))
    return files


def _earlier_calls(recording: Recording) -> Counts | None:
    """The mean of a recorded statement's earlier calls; None if they are not kept."""
    from spillcast.evidence.postgres.statements import chosen, counts_of_row, rows_of_document

    if (rows := recording.decoded(CALLS_FILE, rows_of_document)) is None:
        return None
    # A kept row has no text, and the recording knows the processes.
    server = recording.meta.server
    row = replace(
        chosen(rows),
        query=recording.engine.query,
        looks=recording.samples.num_rows,
        workers_seen=len(server.workers) if server else 0,
    )
    return counts_of_row(row, timed=False)


def reason_against(run: Recording | Counts, now: ObservedEngine) -> str | None:
    """Why ``run`` is not a previous run of the query of ``now``; None if it may be one."""
    before = run.engine
    if isinstance(run, Recording) and RecordedPart.of(run.meta) is not None:
        return "it covers only part of a run, too"
    # Kinds of evidence name an engine differently: one name begins with the other.
    shorter, longer = sorted((before.name, now.name), key=len)
    if NO_ENGINE.name not in (shorter, longer) and not longer.startswith(shorter):
        return f"it is of {before.name}, this one of {now.name}"
    texts = [query_text(engine) for engine in (before, now)]
    if all(texts) and texts[0] != texts[1]:
        return "it is of another query"
    for name in _MEMORY_SETTINGS:
        was, is_now = (engine.settings.get(name) for engine in (before, now))
        if None not in (was, is_now) and str(was) != str(is_now):
            return f"it had {name} = {was}, this run has {is_now}"
    return None


def run_instead_of(
    recording: Recording, runs: Sequence[Recording | Counts]
) -> Recording | Counts | None:
    """A previous run of the query, if the recorded part has no temp I/O; else None."""
    if recording.meta.temp.operations or not recording.meta.ended_early:
        return None
    engine, text = recording.engine, query_text(recording.engine)
    same = [run for run in runs if text and text == query_text(run.engine)]
    if not runs:
        same = [file.run for file in kept_history(recording) if file.run is not None]
    return next((run for run in same if reason_against(run, engine) is None), None)


def run_loads(run: Recording | Counts) -> list[Load]:
    """The loads of any run."""
    return counted_loads(run) if isinstance(run, Counts) else recorded_loads(run)


def query_text(engine: ObservedEngine) -> str:
    """The text of a query for comparison, in lower case with single blanks; empty if unknown."""
    text = engine.query or engine.sql or " ".join(engine.command or ())
    return " ".join(text.split()).rstrip(";").lower()


#: Largest spread of the spills of one query (standard deviation of the logarithm).
MAX_SPREAD = 1.0
#: Weight of the relation of memory and spill, in runs.
RELATION_RUNS = 2


def recorded_spread(recording: Recording) -> float | None:
    """The spread by the spill's relation to memory; None if unknown or without a shared limit."""
    memory, spill = recording.meta.memory.peak_rss_bytes, recording.written_bytes.temp
    if recording.meta.server is not None or not memory or not spill:
        return None
    far, share = calibrated().spill_spread[recording.work.threads > 1]
    return min(hypot(far, share * memory / spill), MAX_SPREAD)


def spill_spread(recording: Recording, runs: Sequence[Sequence[Load]]) -> SpillSpread | None:
    """The spread of the spill, by its relation to memory and the loads of runs, this run first."""
    relation = recorded_spread(recording)
    written = [moved_bytes(loads, "write") for loads in runs]
    logs = np.array([log(run_bytes) for run_bytes in written if run_bytes])
    degrees, squares = len(logs) - 1, float(len(logs) * logs.var()) if len(logs) else 0.0
    if relation is not None:
        squares, degrees = squares + RELATION_RUNS * relation**2, degrees + RELATION_RUNS
    if degrees <= 0:
        return None
    spread = min((squares / degrees) ** 0.5, MAX_SPREAD)
    usual, _ = calibrated().spill_spread[0]
    return SpillSpread(
        spread=spread,
        added=max(spread**2 - usual**2, 0.0) ** 0.5,
        written_bytes=written[0],
        memory_bytes=None if relation is None else recording.meta.memory.peak_rss_bytes,
        runs=len(logs),
    )


#: Runs whose numbers of temp operations differ by a larger share did different work.
SAME_OPERATIONS = 0.2
#: Least difference of mean weights of waits that shows their effect: 0.5 is 1 ms against 1.7 ms.
WEIGHT_MIN = 0.5


def with_other_runs(
    workload: Workload, recording: Recording, others: Sequence[Recording | Counts]
) -> Workload:
    """The workload with the spread of its spill and the CPU time of previous runs of its query."""
    loads, threads = workload.loads, workload.threads
    runs = [(run, run_loads(run)) for run in others]
    previous = [known for run, of_run in runs if (known := _comparable(run, of_run, loads))]
    cpu = replace(workload.cpu, previous_runs=previous)
    if previous and not threads.sampled:
        spun_s = spinning_s(previous, cpu, loads, threads.cores_per_thread)
        if spun_s and (shorter := threads.with_spinning(spun_s)) is not None:
            cpu, threads = replace(cpu, spun_s=spun_s), shorter
    spread = spill_spread(recording, [loads, *(of_run for _, of_run in runs)])
    return replace(workload, spill_spread=spread, cpu=cpu, threads=threads)


def _comparable(
    run: Recording | Counts, loads: Sequence[Load], known: Sequence[Load]
) -> PreviousRun | None:
    """A run with about as many temp operations and notably different latencies; else None."""
    if not isinstance(run, Recording) or run.meta.cpu_s is None:
        return None
    count = operations(known)
    if abs(operations(loads) - count) > SAME_OPERATIONS * count:
        return None
    by_op = {op: [load for load in loads if load.op == op] for op in OPS}
    wait_s = {op: mean_latency_s(of_op) for op, of_op in by_op.items() if of_op}
    previous = PreviousRun(run.meta.cpu_s, wait_s)
    weight = weight_moved(known, previous.latencies(known))
    return previous if abs(weight) >= WEIGHT_MIN * count else None
