"""Real traces of the same job at several network latencies: parts of them, and fitted constants.

They are data of a public repository and not part of this one; without them there are no runs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast.evidence.oracle.trace import open_reader
from spillcast.forecast.oracle.evidence import TraceEvidence, read_traces
from spillcast.stats import NORMAL_95

Array = NDArray[np.float64]
FOLDER = Path(__file__).parents[2] / "shared" / "traces"
#: Files in addition to ``pairs/LATENCY_arrayROWS.trc``.
OTHERS = {
    "jks_ot_cdb1_3802_12ms_010.trc": (10, 12.0),
    "jks_ot_cdb1_30547_1ms_010.trc": (10, 1.0),
}
EVENT = "SQL*Net message from client"
#: A trace is cut into this many parts to measure the error of a part.
PARTS = (10, 30)
#: A part with fewer operations is too small for a forecast.
OPERATIONS_MIN = 5
#: From the first gain on the rest moves with the latency; up to the second it varies between runs,
#: as traces are from several days.
MOVES_FROM, ALIKE_UP_TO = 3.0, 2.0
_TIM = re.compile(r"tim=(\d+)")


@dataclass(frozen=True)
class Traced:
    """A run of the job: the rows it fetched at once, and the name of the network's latency."""

    path: Path
    rows: int
    latency_ms: float

    @cached_property
    def evidence(self) -> TraceEvidence:
        """The evidence as read for forecasts."""
        return read_traces([self.path])

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return self.evidence.events[EVENT].mean_s

    @cached_property
    def operations(self) -> tuple[Array, Array, Array]:
        """The end and duration of each round trip, and the time since the previous one (us)."""
        result: list[pa.RecordBatch] = []
        reader, _ = open_reader([self.path])
        reader.rows(lambda waits, *_: result.append(pa.record_batch(waits)))
        waits = pa.Table.from_batches(result)
        mine = np.array(waits["event"].to_pylist()) == EVENT
        elapsed = waits["elapsed_ns"].to_numpy()[mine] / 1e3
        end = waits["start_ns"].to_numpy()[mine] / 1e3 + elapsed
        return end[1:], elapsed[1:], np.diff(end) - elapsed[1:]

    def cut(self, path: Path, begin: float) -> Path:
        """Writes the tenth of the run that starts at this share of its time; returns its path."""
        lines = self.path.read_text(errors="replace").splitlines(keepends=True)
        tims = [
            (at, int(result[1])) for at, line in enumerate(lines) if (result := _TIM.search(line))
        ]
        first, span = tims[0][1], tims[-1][1] - tims[0][1]
        low, high = first + begin * span, first + (begin + 0.1) * span
        inside = [at for at, tim in tims if low <= tim <= high]
        path.write_text("".join(lines[: tims[0][0]] + lines[inside[0] : inside[-1] + 1]))
        return path


def traced() -> list[Traced]:
    """All runs; none without the traces."""
    matches = []
    for path in sorted((FOLDER / "pairs").glob("*ms_array*.trc")):
        latency, rows = path.stem.split("ms_array")
        matches.append(Traced(path, int(rows), float(latency)))
    others = [Traced(FOLDER / name, *about) for name, about in OTHERS.items()]
    return matches + [item for item in others if item.path.exists()]


def pairs(runs: Sequence[Traced]) -> Iterator[tuple[Traced, Traced]]:
    """Two runs that fetched as many rows at once, in either order."""
    for source in runs:
        for target in runs:
            if source.rows == target.rows and source is not target:
                yield source, target


def fitted(runs: Sequence[Traced]) -> Mapping[str, Any]:
    """Constants of parts of traces, and of the time outside the waits per operation."""
    outside_s = {item.path: float(item.operations[2].mean() / 1e6) for item in runs}
    moves, alike = [0.0], [0.0]
    for source, target in pairs(runs):
        gain = source.mean_s / target.mean_s
        off = abs(log(outside_s[target.path] / outside_s[source.path]))
        if gain >= MOVES_FROM:
            moves.append(off / log(gain))
        elif 1 <= gain <= ALIKE_UP_TO:
            alike.append(off)
    return {
        "oracle_latency_error": _error_of_a_part([item.operations[1] for item in runs], runs),
        "oracle_rest_error": _error_of_a_part([item.operations[2] for item in runs], runs),
        "oracle_rest_spread": float(np.quantile(alike, 0.9) / NORMAL_95),
        "oracle_rest_moves": float(np.quantile(moves, 0.9) / NORMAL_95),
        "oracle_rest_s": max(outside_s.values()),
    }


def _error_of_a_part(values: Sequence[Array], runs: Sequence[Traced]) -> list[float]:
    """Relative error of a part's mean: of any number of operations, and of a single one.

    The most likely pair, with normal errors of the logarithm of variance s**2 + k**2 / n.
    """
    off, counts = [], []
    for run, value in zip(runs, values, strict=True):
        end = run.operations[0]
        for parts in PARTS:
            place = (end - end[0]) * parts // (end[-1] - end[0] + 1)
            for part in range(parts):
                inside = value[place == part]
                if len(inside) >= OPERATIONS_MIN and inside.mean() > 0:
                    off.append(log(inside.mean() / value.mean()))
                    counts.append(len(inside))
    square, count = np.array(off) ** 2, np.array(counts, dtype=float)
    always, single = np.meshgrid(np.linspace(0, 0.5, 51), np.linspace(0.05, 5, 100))
    variance = always[..., None] ** 2 + single[..., None] ** 2 / count
    unlikely = (np.log(variance) + square / variance).sum(axis=-1)
    best = np.unravel_index(np.argmin(unlikely), unlikely.shape)
    return [float(always[best]), float(single[best])]
