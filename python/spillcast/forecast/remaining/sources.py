"""Estimates of the entire query by the user, by its files, by a scan and by previous runs."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot

import numpy as np

from spillcast.errors import OptionInvalid
from spillcast.evidence.counts import Counts
from spillcast.forecast.counted import loads_of
from spillcast.forecast.interval import NINE_IN_TEN
from spillcast.forecast.load import moved_bytes
from spillcast.forecast.recorded_io import recorded_threads, temp_load
from spillcast.forecast.remaining import UserEstimate
from spillcast.forecast.remaining.estimate import (
    CALLS_SOURCE,
    ELAPSED,
    FILES_SOURCE,
    HISTORY_SOURCE,
    Estimate,
    Quantity,
)
from spillcast.forecast.remaining.progress import Array, Progress
from spillcast.forecast.spill_spread import relative_spread
from spillcast.recording import Recording
from spillcast.recording.completeness import Part
from spillcast.recording.meta import NOBODY
from spillcast.recording.observed import SizedFile
from spillcast.units import format_bytes, format_duration

#: Standard deviations of the logarithm of what a user states; a share is rounded, and of work
#: rather than of time.
USER_ELAPSED_SPREAD, USER_WRITTEN_SPREAD, PROGRESS_SPREAD = 0.02, 0.05, 0.15


def estimate_from_user(given: UserEstimate, progress: Progress) -> list[Estimate]:
    """OptionInvalid for what the recording contradicts."""
    estimates = []
    if given.elapsed_s is not None:
        elapsed = Estimate.around("elapsed", given.elapsed_s, USER_ELAPSED_SPREAD, ELAPSED)
        estimates.append(elapsed)
    if given.progress is not None:
        spread = PROGRESS_SPREAD * (1 - given.progress) + USER_ELAPSED_SPREAD
        total_s = progress.done_s / given.progress
        estimates.append(Estimate.around("elapsed", total_s, spread, "--progress"))
    if given.written_bytes is not None:
        done = progress.bytes["write"]
        if given.written_bytes < done:
            raise OptionInvalid(
                f"--written {format_bytes(given.written_bytes)}: {format_bytes(done)} were written "
                "while it was recorded",
                "it is what the whole query writes to temp files",
            )
        written = Estimate.around("written", given.written_bytes, USER_WRITTEN_SPREAD, "--written")
        estimates.append(written)
    return estimates


#: Of what was written, the share that may come after writing has ended: another part of the query
#: may spill.
FILES_MORE = 0.3
#: Of what was written, the share that must be unread for the rest to be its reading.
MIN_UNREAD = 0.02
#: A query that drains its files writes again what it has read, or what does not fit while it reads:
#: from, about and to this multiple of what lies unread.
REWRITTEN = (0.06, 0.5, 2.5)


def estimate_from_files(progress: Progress) -> list[Estimate]:
    """The bytes to be written yet; nothing bounds them while writing goes on at its full rate."""
    written, unread = progress.done("write"), progress.unread
    if not written or unread.upper < MIN_UNREAD * written or progress.writes_at_full_rate:
        return []
    if "write" not in progress.doing:
        return [Estimate("writes", 0.0, 0.0, FILES_MORE * written, FILES_SOURCE)]
    if "read" not in progress.doing:
        return []
    lower, middle, upper = (share * unread.middle for share in REWRITTEN)
    return [Estimate("writes", lower, middle, upper, FILES_SOURCE)]


#: A scan that moved less than this share of its table shows no rate.
MIN_MOVED = 0.02
#: A file with fewer bytes read is no input.
MIN_INPUT_BYTES = 1 << 20
#: Spread of the logarithm of what is left, for rows of a scan are not alike; what may be written
#: after this scan, over all that is written until then.
SCAN_SPREAD, SCAN_AGAIN = 0.2, 2.5
#: The end of a scan is not seen to the last block.
MIN_LEFT = 0.01
#: The share of reads that may lie by this share behind the scan.
BEHIND = 0.1
#: Reads beyond this share of a file show nothing, for a scan may need its last blocks all the time;
#: nor do fewer reads than this.
ENDS, MIN_READS = 0.95, 4
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
        scans(recording, progress.ahead_s), key=lambda scan: scan.end - scan.begin, default=None
    )
    if longest is None or longest.end - longest.begin < MIN_MOVED:
        return []
    rate = progress.bytes["write"] / (longest.end - longest.begin)
    source = f"the scan of {os.path.basename(longest.file)}, {longest.end:.0%} done"
    left = rate * max(1 - longest.end, MIN_LEFT)
    # What was spilled may be written again, and another scan may follow.
    upper = left + SCAN_AGAIN * (progress.done("write") + left)
    return [Estimate("writes", left * exp(-NINE_IN_TEN * SCAN_SPREAD), left, upper, source)]


def scans(recording: Recording, after_s: float = 0.0) -> Sequence[Scan]:
    """Of tables whose files have a known size and are read in order, from some time on."""
    waits = recording.waits
    known = waits["offset"].is_valid() & waits["file"].is_valid()
    later = waits["start_ns"].values >= round(after_s * 1e9)
    rows = waits.filter(known & later & waits["op"].equals("read") & ~waits["temp"].values)
    names = rows["file"].to_numpy()
    offset, size = rows["offset"].values, rows["bytes"].filled(0)
    results = []
    for table, parts in _tables(recording.meta.inputs).items():
        which = np.array([name in parts for name in names], dtype=bool)
        table_bytes = sum(part_bytes for _, part_bytes in parts.values())
        if int(size[which].sum()) < MIN_INPUT_BYTES or not table_bytes:
            continue
        begin = np.array([parts[name][0] for name in names[which]], dtype=np.int64)
        span = _span((begin + offset[which] + size[which]) / table_bytes)
        if span is not None:
            results.append(Scan(table, *span))
    return results


def _tables(inputs: Sequence[SizedFile]) -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """By table its files, each with where it begins and its size."""
    tables: dict[str, dict[str, tuple[int, int]]] = {}
    for part in inputs:
        match = _SEGMENT.search(part.file)
        table = part.file[: match.start()] if match else part.file
        begin = int(match[1]) * _SEGMENT_BYTES if match else 0
        tables.setdefault(table, {})[part.file] = begin, part.bytes
    return tables


def _span(share: Array) -> tuple[float, float] | None:
    """Where a scan began and ended; None of reads that are not mostly one after the other."""
    share = share[share < ENDS]
    if len(share) < MIN_READS:
        return None
    tops = np.maximum.accumulate(share)
    if float((share < tops - BEHIND).mean()) > BEHIND:
        return None
    return float(np.median(share[: max(len(share) // 10, 1)])), float(tops[-1])


#: Standard deviations of the logarithm by which runs of a query differ: in what they spill (at
#: least), in the time outside temp I/O, and in it where not all temp I/O was timed.
HISTORY_COUNTS_SPREAD, HISTORY_REST_SPREAD, UNTIMED_SPREAD = 0.03, 0.15, 0.3
#: Calls of a statement have other constants, and so other amounts; one call shows not by how much.
CALLS_SPREAD = 0.3
#: A previous run that spilled less than this share of what was seen, or took less than this share
#: of the time outside temp I/O, was of another query.
HISTORY_LESS, HISTORY_LESS_REST = 0.9, 0.5
_MEMORY = ("work_mem", "memory_limit", "hash_mem_multiplier", "threads")


def estimate_from_history(
    history: Recording | Counts, recording: Recording, progress: Progress
) -> list[Estimate] | str:
    """Figures of the entire query by a previous run, or why it is not used."""
    if (reason := reason_against(history, recording)) is not None:
        return reason
    loads = loads_of(history) if isinstance(history, Counts) else temp_load(history)
    written, read = moved_bytes(loads, "write"), moved_bytes(loads, "read")
    io_s = sum(load.total_s for load in loads)
    if written < HISTORY_LESS * progress.bytes["write"]:
        wrote, seen = format_bytes(written), format_bytes(progress.bytes["write"])
        return f"it wrote {wrote} in all, this one {seen} while it was recorded"
    calls = _calls_spread(history)
    source = HISTORY_SOURCE if calls is None else CALLS_SOURCE
    by_memory = relative_spread(history) if isinstance(history, Recording) else None
    counts_spread = max(HISTORY_COUNTS_SPREAD, by_memory or 0.0)

    def of(quantity: Quantity, centre: float, spread: float) -> Estimate:
        return Estimate.around(quantity, centre, hypot(spread, calls or 0.0), source)

    estimates = []
    if written:
        estimates.append(of("written", written, counts_spread))
    if read:
        estimates.append(of("read", read, counts_spread))
    if not io_s:
        return [*estimates, of("elapsed", history.elapsed_s, UNTIMED_SPREAD)]
    if isinstance(history, Counts):
        of_waits = 1 / history.processes
    else:
        of_waits = recorded_threads(history).simulation.of_waits
    rest_s = history.elapsed_s - of_waits * io_s
    if rest_s < HISTORY_LESS_REST * progress.rest_s:
        took, seen = format_duration(max(rest_s, 0.0)), format_duration(progress.rest_s)
        return f"it took {took} outside temp I/O in all, this one {seen} while it was recorded"
    if rest_s > 0:
        estimates.append(of("rest", rest_s, HISTORY_REST_SPREAD))
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
