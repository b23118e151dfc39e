"""Forecasts between real traces of the same job, against the plain sum with an unchanged rest.

The target's evidence is a tenth of its trace, the first or a random one, or only its mean latency;
the truth is the time of the whole trace. Constants are fitted without the runs whose fetch size
equals that of the judged runs.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

from bench.oracle_traces import EVENT, Traced, fitted, pairs, traced
from bench.result import Result
from spillcast.calibrated import calibrated
from spillcast.forecast.oracle import forecast_events
from spillcast.forecast.oracle.evidence import EventTarget, OracleEvidence, read_traces
from spillcast.forecast.question import Question

SEED = 1
#: Random tenths of each trace.
DRAWN = 5
#: Ranges of gains in the output.
GAINS = (0.0, 1.0, 3.0, 10.0, float("inf"))
FIRST, RANDOM, LATENCY = "first tenth", "random tenth", "latency alone"
AIM_ERROR = 0.12
AIM_HELD = 0.85


@dataclass(frozen=True)
class Case:
    """A forecast, and the plain sum of the same evidence."""

    evidence: str
    gain: float
    #: Relative, signed.
    error: float
    plain: float
    held: bool
    half_width: float


def run() -> Iterator[Result]:
    """Prints all gains and kinds of evidence; the result is for gains above ten-fold."""
    runs = traced()
    if not runs:
        print("oracle_pairs: the traces are absent, skipped", file=sys.stderr)
        return
    result = cases(runs)
    print(table(result))
    for evidence in (FIRST, RANDOM):
        high = [item for item in result if item.evidence == evidence and item.gain > GAINS[-2]]
        ours, plain = (np.median(np.abs([getattr(c, n) for c in high])) for n in ("error", "plain"))
        held = float(np.mean([item.held for item in high]))
        yield Result(
            f"oracle_pairs: gains above ten-fold from the {evidence} of the target's trace",
            f"{ours:.1%} off in the median, {held:.0%} of {len(high)} held",
            f"{plain:.1%} (the plain sum)",
            float(ours / plain),
            f"at most {AIM_ERROR:.0%}, at least {AIM_HELD:.0%} held",
            bool(ours <= AIM_ERROR and held >= AIM_HELD),
        )


def cases(runs: Sequence[Traced]) -> list[Case]:
    """Every ordered pair with every kind of evidence."""
    matches = []
    random = Random(SEED)
    begins = {item.path: [0.9 * random.random() for _ in range(DRAWN)] for item in runs}
    with TemporaryDirectory(prefix="spillcast-bench-") as folder:
        cut = Path(folder) / "cut.trc"
        for rows in sorted({item.rows for item in runs}):
            others = [item for item in runs if item.rows != rows]
            known = replace(calibrated(), **fitted(others))
            with patch("spillcast.forecast.oracle.parts.calibrated", lambda known=known: known):
                for source, target in pairs([item for item in runs if item.rows == rows]):
                    name = target.path.name
                    wished = EventTarget(name, latency_s=target.mean_s)
                    matches.append(_case(source, target, wished, LATENCY))
                    for begin in (0.0, *begins[target.path]):
                        evidence = read_traces([target.cut(cut, begin)], lenient=True)
                        kind = RANDOM if begin else FIRST
                        matches.append(
                            _case(source, target, EventTarget(name, traces=evidence), kind)
                        )
    return matches


def _case(source: Traced, destination: Traced, target: EventTarget, evidence: str) -> Case:
    seen = OracleEvidence(traces=source.evidence)
    ours = forecast_events(target, seen, Question(temp_events=EVENT))
    plain = forecast_events(target, seen, Question(temp_events=EVENT, without=("rest",)))
    truth_s = destination.evidence.elapsed_s
    ours_s, plain_s = ours.forecast_s, plain.forecast_s
    if ours_s is None or plain_s is None or ours.interval_s is None:
        raise ValueError(f"{source.path.name} to {destination.path.name}: refused")
    low, high = ours.interval_s
    return Case(
        evidence,
        source.mean_s / destination.mean_s,
        ours_s / truth_s - 1,
        plain_s / truth_s - 1,
        low <= truth_s <= high,
        (high - low) / 2 / ours_s,
    )


def table(result: Sequence[Case]) -> str:
    """A row for each kind of evidence and range of gains."""
    lines = ["evidence        gain        cases  plain sum         ours   held  half-width"]
    for evidence in (FIRST, RANDOM, LATENCY):
        for low, high in pairwise(GAINS):
            some = [c for c in result if c.evidence == evidence and low < c.gain <= high]
            if not some:
                continue
            plain = [c.plain for c in some]
            error, span, wide = (
                np.median(np.abs([c.error for c in some])),
                f"{min(plain):+.0%} to {max(plain):+.0%}",
                np.median([c.half_width for c in some]),
            )
            lines.append(
                f"{evidence:14s} {low:4g} - {high:4g} {len(some):5d} "
                f"{np.median(np.abs(plain)):6.1%} {span:>14s} {error:6.1%} "
                f"{sum(c.held for c in some):3d} {wide:6.1%}"
            )
    return "\n".join(lines)
