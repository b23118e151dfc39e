"""Real traces of one job at several network latencies: parts of them, and what they ask for.

They are data of a public repository and no part of this one; where they are absent there is none.
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
#: Files beside ``pairs/LATENCY_arrayROWS.trc``.
OTHERS = {
    "jks_ot_cdb1_3802_12ms_010.trc": (10, 12.0),
    "jks_ot_cdb1_30547_1ms_010.trc": (10, 1.0),
}
EVENT = "SQL*Net message from client"
#: A trace is cut into so many parts to see how far a part is off.
PARTS = (10, 30)
#: A part with fewer operations is none that anyone would forecast from.
OPERATIONS_MIN = 5
#: From such a gain on the time outside moves with the latency, and up to such a one it differs
#: from run to run: traces are of several days.
MOVES_FROM, ALIKE_UP_TO = 3.0, 2.0
_TIM = re.compile(r"tim=(\d+)")


@dataclass(frozen=True)
class Traced:
    """One run of the job: the rows it fetched at once, and the network's latency by its name."""

    path: Path
    rows: int
    latency_ms: float

    @cached_property
    def evidence(self) -> TraceEvidence:
        """As forecasts read it."""
        return read_traces([self.path])

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return self.evidence.events[EVENT].mean_s

    @cached_property
    def operations(self) -> tuple[Array, Array, Array]:
        """When each round trip ended, how long it took, and the time since the one before (us)."""
        result: list[pa.RecordBatch] = []
        reader, _ = open_reader([self.path])
        reader.rows(lambda waits, *_: result.append(pa.record_batch(waits)))
        waits = pa.Table.from_batches(result)
        mine = np.array(waits["event"].to_pylist()) == EVENT
        elapsed = waits["elapsed_ns"].to_numpy()[mine] / 1e3
        end = waits["start_ns"].to_numpy()[mine] / 1e3 + elapsed
        return end[1:], elapsed[1:], np.diff(end) - elapsed[1:]

    def cut(self, path: Path, begin: float) -> Path:
        """Write the tenth of the run that begins at this share of its time; the path of it."""
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
    """All runs; none where the traces are absent."""
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
    """What the runs say of parts of traces, and of the time outside the waits per operation."""
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

    The likeliest pair with errors of the logarithm s**2 + k**2 / n that are normal.
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
