"""How far a scan of a data file is: what it feeds to a spill comes at the rate it did."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.forecast.sum.interval import NINE_IN_TEN
from spillcast.forecast.to_come.said import QuantityEstimate
from spillcast.forecast.to_come.seen import Seen
from spillcast.recording import Recording
from spillcast.recording.observed import SizedFile

#: A scan that went less far in the recording tells no rate.
MOVED_MIN = 0.02
#: A file that is read less than this is no input.
INPUT_BYTES_MIN = 1 << 20
#: Spread of the logarithm of what is left, for rows of a scan are not alike; what may be written
#: after this scan, over all that is written until then.
SPREAD, AGAIN = 0.2, 2.5
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


def estimates_by_input(recording: Recording, seen: Seen) -> list[QuantityEstimate]:
    """The bytes to be written yet, where a scan goes on that feeds a spill."""
    if "write" not in seen.doing or not seen.bytes["write"]:
        return []
    longest = max(
        scans(recording, seen.ahead_s),
        key=lambda candidate: candidate.end - candidate.begin,
        default=None,
    )
    if longest is None or longest.end - longest.begin < MOVED_MIN:
        return []
    rate = seen.bytes["write"] / (longest.end - longest.begin)
    source = f"the scan of {os.path.basename(longest.file)}, {longest.end:.0%} done"
    left = rate * max(1 - longest.end, LEFT_MIN)
    # What was spilled may be written again, and another scan may follow.
    most = left + AGAIN * (seen.done("write") + left)
    return [
        QuantityEstimate("writes", left * exp(-NINE_IN_TEN * SPREAD), left, most, "input", source)
    ]


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
