"""Sources of the whole of a partly recorded query: its files, scan, plan, previous runs, user."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.errors import OptionInvalid
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.nodes import amount
from spillcast.forecast.counted import loads_of
from spillcast.forecast.interval import NINE_IN_TEN
from spillcast.forecast.recorded_io import recorded_threads, temp_load
from spillcast.forecast.remaining import UserEstimate
from spillcast.forecast.remaining.progress import Array, Progress
from spillcast.forecast.threads.overlap import simulated_threads
from spillcast.forecast.work_memory import (
    SLOT_BYTES,
    aggregate_bytes,
    hash_batches,
    hash_tuple_bytes,
    sort_passes,
    tuple_bytes,
)
from spillcast.forecast.work_memory.spills import HASH_MEM_MULTIPLIER
from spillcast.recording import Recording
from spillcast.recording.completeness import Part
from spillcast.recording.meta import NOBODY
from spillcast.recording.observed import SizedFile
from spillcast.stats import inverse_variance
from spillcast.units import format_bytes, format_duration, parse_bytes

#: Bytes that the whole query writes to temp files, and reads from them; its time outside temp I/O,
#: and all of it. ``writes`` are bytes that remain to be written.
Quantity = Literal["written", "read", "rest", "elapsed", "writes"]
#: No estimate is taken to be surer than this (standard deviation of its logarithm).
SURE = 0.01
#: Where nothing is the most likely: standard deviations above which there is something.
LIKELY = 0.5


@dataclass(frozen=True)
class Estimate:
    """A quantity of the whole query on the storage that it was recorded on, nine in ten within."""

    quantity: Quantity
    low: float
    centre: float
    high: float
    #: ``spill``, ``input``, ``plan``, ``history`` or ``told``, and what it is known from.
    kind: str
    source: str

    @property
    def spreads(self) -> tuple[float, float]:
        """Standard deviations of the logarithm, below and above."""
        below = log(self.centre / self.low) / NINE_IN_TEN if self.low > 0 else 1.0
        return max(below, SURE), max(log(self.high / self.centre) / NINE_IN_TEN, SURE)

    def drawn(self, normal: Array) -> Array:
        """Draws, from draws of a standard normal."""
        if not self.centre:
            # More likely than not there is nothing of it.
            beyond = np.maximum(normal - LIKELY, 0.0) / (NINE_IN_TEN - LIKELY)
            return np.asarray(self.high * beyond)
        below, above = self.spreads
        draws: Array = self.centre * np.exp(np.where(normal < 0, below, above) * normal)
        return draws


def estimate(
    quantity: Quantity,
    centre: float,
    spread: float,
    kind: str,
    source: str,
    above: float | None = None,
) -> Estimate:
    """An estimate with a standard deviation of its logarithm, ``above`` where that differs."""
    low = centre * exp(-NINE_IN_TEN * spread)
    high = centre * exp(NINE_IN_TEN * (spread if above is None else above))
    return Estimate(quantity, low, centre, high, kind, source)


def pool(estimates: Sequence[Estimate]) -> Estimate:
    """One estimate of several, each with a weight of one over its spread squared.

    Where they are further apart than that explains, the spread grows by as much (Birge).
    """
    if len(estimates) == 1:
        return estimates[0]
    spreads = np.array([hypot(*estimate.spreads) / 2**0.5 for estimate in estimates])
    logs = np.array([log(estimate.centre) for estimate in estimates])
    weights, spread = inverse_variance(logs, spreads)
    centre = float(weights @ logs)
    order = np.argsort(-weights, kind="stable")
    source = " and ".join(dict.fromkeys(estimates[at].source for at in order))
    return estimate(estimates[0].quantity, exp(centre), spread, estimates[order[0]].kind, source)


#: What a user states is meant to within so much (standard deviation of the logarithm).
USER_ELAPSED_SPREAD, USER_WRITTEN_SPREAD = 0.02, 0.05
#: What tells the elapsed time for sure.
ELAPSED = "--elapsed"
#: A share is rounded, and of work rather than of time.
PROGRESS_SPREAD = 0.15


def estimate_from_user(given: UserEstimate, progress: Progress) -> list[Estimate]:
    """InputError for what cannot be, by what was progress."""
    estimates = []
    if given.elapsed_s is not None:
        estimates.append(estimate("elapsed", given.elapsed_s, USER_ELAPSED_SPREAD, "told", ELAPSED))
    if given.progress is not None:
        spread = PROGRESS_SPREAD * (1 - given.progress) + USER_ELAPSED_SPREAD
        whole_s = progress.done_s / given.progress
        estimates.append(estimate("elapsed", whole_s, spread, "told", "--progress"))
    if given.written_bytes is not None:
        done = progress.bytes["write"]
        if given.written_bytes < done:
            raise OptionInvalid(
                f"--written {format_bytes(given.written_bytes)}: {format_bytes(done)} were written "
                "while it was recorded",
                "it is what the whole query writes to temp files",
            )
        estimates.append(
            estimate("written", given.written_bytes, USER_WRITTEN_SPREAD, "told", "--written")
        )
    return estimates


#: Of what was written, so much more may come once nothing is written any more: another part of the
#: query may spill.
FILES_MORE = 0.3
#: Of what was written, so much must be unread for the rest to be its reading.
UNREAD_MIN = 0.02
#: While a query reads and writes, it writes again what it has read, or what does not fit while it
#: reads: from, about and to so many times what lies unread.
REWRITTEN = (0.06, 0.5, 2.5)
FILES_SOURCE = "files written and not yet read"


def estimate_from_files(progress: Progress) -> list[Estimate]:
    """The bytes to be written yet; nothing tells them while it only writes."""
    written, unread = progress.done("write"), progress.unread
    if not written or unread.high < UNREAD_MIN * written:
        return []
    if "write" not in progress.doing:
        return [Estimate("writes", 0.0, 0.0, FILES_MORE * written, "spill", FILES_SOURCE)]
    if "read" not in progress.doing:
        return []
    low, about, high = (each * unread.about for each in REWRITTEN)
    return [Estimate("writes", low, about, high, "spill", FILES_SOURCE)]


#: A scan that went less far in the recording tells no rate.
MOVED_MIN = 0.02
#: A file that is read less than this is no input.
INPUT_BYTES_MIN = 1 << 20
#: Spread of the logarithm of what is left, for rows of a scan are not alike; what may be written
#: after this scan, over all that is written until then.
SCAN_SPREAD, SCAN_AGAIN = 0.2, 2.5
#: The end of a scan is not seen to the last block.
LEFT_MIN = 0.01
#: Of all reads in a stretch, those that may lie behind where the scan is.
BEHIND = 0.1
#: Reads from there on, as a share of a file, tell nothing; and so do so few.
ENDS, FEW = 0.95, 4
#: PostgreSQL's segments of one table.
_SEGMENT = re.compile(r"\.(\d+)$")
_SEGMENT_BYTES = 1 << 30


@dataclass(frozen=True)
class Scan:
    """A table that is read from its beginning on: shares at the recording's start and end."""

    file: str
    begin: float
    end: float


def estimate_from_scan(recording: Recording, progress: Progress) -> list[Estimate]:
    """The bytes to be written yet, where a scan goes on that feeds a spill."""
    if "write" not in progress.doing or not progress.bytes["write"]:
        return []
    longest = max(
        scans(recording, progress.ahead_s),
        key=lambda candidate: candidate.end - candidate.begin,
        default=None,
    )
    if longest is None or longest.end - longest.begin < MOVED_MIN:
        return []
    rate = progress.bytes["write"] / (longest.end - longest.begin)
    source = f"the scan of {os.path.basename(longest.file)}, {longest.end:.0%} done"
    left = rate * max(1 - longest.end, LEFT_MIN)
    # What was spilled may be written again, and another scan may follow.
    most = left + SCAN_AGAIN * (progress.done("write") + left)
    return [Estimate("writes", left * exp(-NINE_IN_TEN * SCAN_SPREAD), left, most, "input", source)]


def scans(recording: Recording, after_s: float = 0.0) -> Sequence[Scan]:
    """Of tables whose files have a known size and are read in order, from some time on."""
    waits = recording.waits
    waits = waits.filter(pa.compute.greater_equal(waits["start_ns"], round(after_s * 1e9)))
    read = pa.compute.equal(waits["op"].cast(pa.string()), "read")
    known = pa.compute.and_(waits["offset"].is_valid(), waits["file"].is_valid())
    rows = waits.filter(
        pa.compute.fill_null(
            pa.compute.and_(pa.compute.and_(read, known), pa.compute.invert(waits["temp"])), False
        )
    )
    names = np.array(rows["file"].cast(pa.string()).to_pylist(), dtype=object)
    offset, size = rows["offset"].to_numpy(), rows["bytes"].fill_null(0).to_numpy()
    results = []
    for table, parts in _tables(recording.meta.inputs).items():
        which = np.array([name in parts for name in names], dtype=bool)
        whole = sum(name for _, name in parts.values())
        if int(size[which].sum()) < INPUT_BYTES_MIN or not whole:
            continue
        base = np.array([parts[name][0] for name in names[which]], dtype=np.int64)
        span = _span((base + offset[which] + size[which]) / whole)
        if span is not None:
            results.append(Scan(table, *span))
    return results


def _tables(inputs: Sequence[SizedFile]) -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """By table its files, each with where it begins and its size."""
    tables: dict[str, dict[str, tuple[int, int]]] = {}
    for observed_input in inputs:
        match = _SEGMENT.search(observed_input.file)
        table = observed_input.file[: match.start()] if match else observed_input.file
        begins = int(match[1]) * _SEGMENT_BYTES if match else 0
        tables.setdefault(table, {})[observed_input.file] = begins, observed_input.bytes
    return tables


def _span(share: np.ndarray) -> tuple[float, float] | None:
    """Where a scan began and ended; None of reads that are not mostly one after the other.

    The last blocks of a file may hold what a scan needs all the time.
    """
    share = share[share < ENDS]
    if len(share) < FEW:
        return None
    tops = np.maximum.accumulate(share)
    if float((share < tops - BEHIND).mean()) > BEHIND:
        return None
    few = max(len(share) // 10, 1)
    return float(np.median(share[:few])), float(tops[-1])


PLAN_SOURCE = "the plan, which was not run"
#: Rows and widths are estimates: standard deviation of the logarithm of what they make. Each join
#: below multiplies them by another.
PLAN_SPREAD = 0.3
#: A session may have set its work memory to so much less than is seen from outside.
LESS_MOST = 64
#: Hash aggregates write partitions again that are too large still, nobody knows how often.
AGGREGATED = 0.5
#: Each partition of theirs takes blocks of the file ahead of need, and zeros are written to those
#: that others are written behind: a block is written twice, and read once.
AGGREGATE_WRITES = 2
#: Progress so much more than the plan has in all, it is of another query or of other settings.
PLAN_MORE = 1.3
#: A row in a file beside its columns: of sorts and stores, and of hashes.
_SORT_ROW_BYTES, _HASH_ROW_BYTES = 10, 20
_WORK_MEM = "4MB"
JOINS = {"Hash Join", "Merge Join", "Nested Loop"}


@dataclass(frozen=True)
class PlannedBytes:
    """Temp bytes of a plan's nodes together, and what of them hash aggregates write."""

    written: float
    read: float
    aggregated: float = 0.0
    #: Joins below the nodes that spill, the mean of all bytes written.
    joins: float = 0.0


def estimate_from_plan(
    document: Mapping[str, Any],
    settings: Mapping[str, Any],
    progress: Progress,
    *,
    in_recording: bool = False,
) -> list[Estimate] | str:
    """What a plan of EXPLAIN says, or why it is not used.

    ``settings`` are those of the session where the plan names none; a plan that is kept
    ``in_recording`` is of the session's own text.
    """
    spilled, less = planned_bytes(document, settings), 1
    least = progress.bytes["write"] / PLAN_MORE if in_recording else 0.0
    # It does spill: the session has set less work memory by itself, which nobody else sees.
    while spilled.written <= least and less < LESS_MOST:
        less *= 2
        spilled = planned_bytes(document, settings, less)
    done = progress.done("write")
    if not spilled.written:
        return "by its estimates nothing spills, whatever the work memory"
    if spilled.written * PLAN_MORE < progress.bytes["write"]:
        has, planned = format_bytes(progress.bytes["write"]), format_bytes(spilled.written)
        return f"by its estimates {planned} are written in all, and {has} were already"
    # Where more was written than the plan has, its rows were too few, nobody knows by how much.
    written = max(spilled.written, done * 1.02)
    sure = written > done * 1.02 and less == 1
    spread = PLAN_SPREAD * (1 + spilled.joins) ** 0.5 * (1 if sure else 2)
    above = spread + AGGREGATED * spilled.aggregated / spilled.written
    return [
        estimate("written", written, spread, "plan", PLAN_SOURCE, above),
        estimate(
            "read", written * spilled.read / spilled.written, spread, "plan", PLAN_SOURCE, above
        ),
    ]


def planned_bytes(
    document: Mapping[str, Any], settings: Mapping[str, Any], less: int = 1
) -> PlannedBytes:
    """Temp bytes by the estimates of a plan, with work memory as its settings say, or ``less``."""
    given = {**settings, **(document.get("Settings") or {})}
    memory = parse_bytes(_setting_bytes(given.get("work_mem")), "work_mem") // less
    multiplier = float(given.get("hash_mem_multiplier") or HASH_MEM_MULTIPLIER)
    written = read = aggregated = joins = 0.0
    for node, processes in _nodes(document["Plan"], 1.0):
        of_node = _node(node, memory, multiplier) * processes
        aggregate = node.get("Node Type") == "Aggregate"
        read += of_node
        wrote = of_node * (AGGREGATE_WRITES if aggregate else 1)
        written += wrote
        aggregated += wrote if aggregate else 0.0
        joins += wrote * _joins_below(node)
    return PlannedBytes(written, read, aggregated, joins / written if written else 0.0)


def _setting_bytes(text: Any) -> str:
    """A setting as PostgreSQL writes it: a plain number is KiB."""
    setting = str(text or _WORK_MEM).strip()
    return f"{setting}kB" if setting.isdigit() else setting


def _nodes(
    plan: Mapping[str, Any], processes: float, above: str = ""
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Each node, and how many processes do so much each: rows of a plan are those of one."""
    # A merge join goes back in sorted rows a little, and keeps no more of them.
    if (plan.get("Node Type"), above) != ("Materialize", "Merge Join"):
        yield plan, processes
    workers = plan.get("Workers Planned")
    below = processes if workers is None else 1.0 + amount(workers, "Workers Planned", 1024)
    for child in plan.get("Plans", ()):
        yield from _nodes(child, below, str(plan.get("Node Type")))


def _joins_below(node: Mapping[str, Any]) -> int:
    below = node.get("Plans", ())
    return sum(_joins_below(child) + (child.get("Node Type") in JOINS) for child in below)


def _rows(node: Mapping[str, Any]) -> tuple[float, float]:
    """Estimated rows and the bytes of one."""
    return tuple(float(amount(node.get(name, 0), name)) for name in ("Plan Rows", "Plan Width"))  # type: ignore[return-value]


def _node(node: Mapping[str, Any], memory: int, multiplier: float) -> float:
    """Bytes that a node spills, each of which it reads once."""
    kind, below = node.get("Node Type"), list(node.get("Plans", ()))
    if not below:
        return 0.0
    if kind in {"Sort", "Incremental Sort"}:
        rows, width = _rows(below[0])
        row = tuple_bytes(width + _SORT_ROW_BYTES, 0)
        return rows * (width + _SORT_ROW_BYTES) * sort_passes(rows, row, memory)
    if kind == "Hash Join" and len(below) > 1 and below[1].get("Node Type") == "Hash":
        inner_rows, inner_width = _rows(below[1])
        outer_rows, outer_width = _rows(below[0])
        batches = hash_batches(
            inner_rows, hash_tuple_bytes(inner_width), round(memory * multiplier), balanced=False
        )
        size = inner_rows * (inner_width + _HASH_ROW_BYTES)
        size += outer_rows * (outer_width + _HASH_ROW_BYTES)
        return size * (1 - 1 / batches)
    if kind == "Aggregate" and node.get("Strategy") in {"Hashed", "Mixed"}:
        rows, width = _rows(below[0])
        groups, group_width = _rows(node)
        needed = aggregate_bytes(groups, group_width, width, older=True)
        kept = memory * multiplier / max(needed, 1)
        return rows * (width + _HASH_ROW_BYTES) * max(1 - kept, 0.0)
    if kind == "Materialize":
        rows, width = _rows(below[0])
        size = rows * (width + _SORT_ROW_BYTES)
        return size if rows * (width + SLOT_BYTES) > memory else 0.0
    return 0.0


HISTORY_SOURCE, CALLS_SOURCE = "a previous run", "previous calls, by pg_stat_statements"
#: Runs of a query differ by so much in what they spill (standard deviation of the logarithm).
HISTORY_COUNTS_SPREAD = 0.03
#: And in the time outside temp I/O; of a run whose temp I/O was not timed in all.
HISTORY_REST_SPREAD, UNTIMED_SPREAD = 0.15, 0.3
#: Calls of a statement have other constants, and so other amounts: of one alone nothing tells by
#: how much they differ.
CALLS_SPREAD = 0.3
#: A previous run spilled so much less than was seen already that it was another query's.
HISTORY_LESS = 0.9
#: And took so much less outside temp I/O than this one did while it was recorded.
HISTORY_LESS_REST = 0.5
_MEMORY = ("work_mem", "memory_limit", "hash_mem_multiplier", "threads")


def estimate_from_history(
    history: Recording | Counts, recording: Recording, progress: Progress
) -> list[Estimate] | str:
    """What it says, or why it is not used."""
    loads = loads_of(history) if isinstance(history, Counts) else temp_load(history)
    if (reason := reason_against(history, recording)) is not None:
        return reason
    moved = {"read": 0.0, "write": 0.0}
    took_s = {"read": 0.0, "write": 0.0}
    for load in loads:
        moved[load.op] += load.bytes
        took_s[load.op] += load.total_s
    if moved["write"] < HISTORY_LESS * progress.bytes["write"]:
        wrote, has = format_bytes(moved["write"]), format_bytes(progress.bytes["write"])
        return f"it wrote {wrote} in all, this one {has} while it was recorded"
    calls = _calls_spread(history)
    source = HISTORY_SOURCE if calls is None else CALLS_SOURCE
    counts, rest, untimed = (
        hypot(spread, calls or 0.0)
        for spread in (HISTORY_COUNTS_SPREAD, HISTORY_REST_SPREAD, UNTIMED_SPREAD)
    )
    estimates = []
    if moved["write"]:
        estimates.append(estimate("written", moved["write"], counts, "history", source))
    if moved["read"]:
        estimates.append(estimate("read", moved["read"], counts, "history", source))
    if not sum(took_s.values()):
        return [*estimates, estimate("elapsed", history.elapsed_s, untimed, "history", source)]
    if isinstance(history, Counts):
        of_waits = 1 / history.processes
    else:
        of_waits = simulated_threads(recorded_threads(history)).of_waits
    rest_s = history.elapsed_s - of_waits * sum(took_s.values())
    if rest_s < HISTORY_LESS_REST * progress.rest_s:
        took, has_taken = format_duration(max(rest_s, 0.0)), format_duration(progress.rest_s)
        return f"it took {took} outside temp I/O in all, this one {has_taken} while it was recorded"
    if rest_s > 0:
        estimates.append(estimate("rest", rest_s, rest, "history", source))
    return estimates


def _calls_spread(history: Recording | Counts) -> float | None:
    """How far calls are from their mean, by so many of them; None of a single run."""
    statement = history.statement if isinstance(history, Counts) else None
    if statement is None or statement.spread is None:
        return None
    others = max(statement.calls - 1, 0)
    variance = others * statement.spread**2 + CALLS_SPREAD**2
    return float((variance / (others + 1)) ** 0.5)


def reason_against(history: Recording | Counts, recording: Recording) -> str | None:
    """Why it is no previous run of this query with these settings; None where it may be one."""
    then, now = history.engine, recording.engine
    if isinstance(history, Recording) and Part.of(history.meta) is not None:
        return "it covers only part of a run itself"
    # Some evidence calls an engine by a longer name than other.
    shorter, longer = sorted((then.name, now.name), key=len)
    if NOBODY.name not in (shorter, longer) and not longer.startswith(shorter):
        return f"it is of {then.name}, this one of {now.name}"
    texts = [_query_text(engine) for engine in (then, now)]
    if all(texts) and texts[0] != texts[1]:
        return "it is of another query"
    for name in _MEMORY:
        before, after = (engine.settings.get(name) for engine in (then, now))
        if None not in (before, after) and str(before) != str(after):
            return f"it had {name} = {before}, this one has {after}"
    return None


def same_text(history: Recording | Counts, recording: Recording) -> bool:
    """Whether the texts of both queries are known, and alike."""
    return bool(now := _query_text(recording.engine)) and now == _query_text(history.engine)


def _query_text(engine: object) -> str:
    """The text of a query as far as it is known, blanks alike."""
    command = " ".join(getattr(engine, "command", None) or ())
    text = getattr(engine, "query", None) or getattr(engine, "sql", None) or command
    return " ".join(text.split()).rstrip(";").lower()
