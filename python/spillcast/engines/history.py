"""What a server's statements spilled over time, and what changed; alerts on it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spillcast.errors import OptionInvalid
from spillcast.units import parse_bytes, parse_duration_s

HISTORY_SCHEMA = "spillcast.history/1"
#: The periods over which an alert's rate is taken (s).
_PER_S = {"h": 3600.0, "d": 86_400.0}
_RULE = re.compile(r"(temp|files|time|new)\s*>\s*(\S.*?)\s*/\s*(h|d)(?:our|ay)?", re.IGNORECASE)
_GRAMMAR = (
    "write 'temp > 10G/h' (bytes written), 'files > 1000/h' (temp files), 'time > 20min/h' (of "
    "processes in temp I/O) or 'new > 0/d' (statements that spill for the first time)"
)


@dataclass(frozen=True)
class StatementBytes:
    """Temp bytes that a statement read and wrote."""

    queryid: str
    temp_bytes: int


@dataclass(frozen=True)
class Bucket:
    """An hour, a day or a few minutes of a history, in UTC."""

    start: str
    #: The time between the looks in it.
    covered_s: float
    #: As the databases count them.
    temp_files: int
    written_bytes: int
    #: Temp bytes read and written by statements, the time of processes in it, and the statements
    #: with their bytes, the most first.
    temp_bytes: int
    temp_s: float
    statements: Sequence[StatementBytes]


@dataclass(frozen=True)
class Change:
    """A statement that began to spill, or whose calls spill more or less than they did."""

    kind: Literal["new", "more", "less"]
    queryid: str
    query: str | None
    #: Unix times (s) of the looks between which it began.
    after_s: float
    by_s: float
    #: Temp bytes of a call from then on, and by which factor that is more than before.
    bytes_per_call: float
    ratio: float | None
    is_gradual: bool
    cause: Literal["version", "setting", "rows", "plan", "statement"] | None
    evidence: Sequence[str]


@dataclass(frozen=True)
class Event:
    """A reset, a restart, a jump of the clock and the like, found at a look (Unix time, s)."""

    at_s: float
    kind: str
    note: str


@dataclass(frozen=True)
class Alert:
    """A rule, and the rate that it limits over the latest looks; None if unknown."""

    rule: str
    rate: float | None
    covered_s: float
    exceeded: bool


@dataclass(frozen=True)
class History:
    """What the looks at a server say of the time between them."""

    looks: int
    first_s: float
    last_s: float
    version: str
    #: How long a bucket is (s).
    bucket_s: float
    buckets: Sequence[Bucket]
    changes: Sequence[Change] = ()
    events: Sequence[Event] = ()
    #: Statements whose sums are lower bounds, and those whose calls may include earlier ones.
    lower_bounds: int = 0
    earlier_calls: int = 0
    alerts: Sequence[Alert] = field(default_factory=list)


@dataclass(frozen=True)
class Rule:
    """A limit of a rate: what ``measure`` may add in ``per_s`` seconds."""

    text: str
    measure: str
    limit: float
    per_s: float

    @classmethod
    def of(cls, text: str) -> "Rule":
        """From its text. InputError for another grammar."""
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise OptionInvalid(f"--alert '{text}' is not a rule", _GRAMMAR)
        measure, limit = match[1].lower(), match[2]
        per_s = _PER_S[match[3].lower()]
        if measure == "temp":
            return cls(text, measure, float(parse_bytes(limit, "--alert")), per_s)
        if measure == "time":
            return cls(text, measure, parse_duration_s(limit, "--alert"), per_s)
        if not re.fullmatch(r"\d+(?:\.\d+)?", limit):
            raise OptionInvalid(f"--alert '{text}': {limit} is not a count", _GRAMMAR)
        return cls(text, measure, float(limit), per_s)

    def alert(self, periods: Sequence[tuple[float, Mapping[str, float | None]]]) -> Alert:
        """Compare with the latest ``periods``, each a length (s) and sums by measure.

        As many as cover the rule's time; the last one if looks are less frequent.
        """
        covered_s, total, is_known = 0.0, 0.0, bool(periods)
        for length_s, sums in reversed(periods):
            if covered_s >= 0.99 * self.per_s:
                break
            covered_s += length_s
            value = sums[self.measure]
            is_known &= value is not None
            total += value or 0.0
        if not is_known or not covered_s:
            return Alert(self.text, None, covered_s, exceeded=False)
        # A shorter time is not extrapolated: what is above the limit already stays above.
        rate = total * self.per_s / max(covered_s, self.per_s)
        return Alert(self.text, rate, covered_s, rate > self.limit)


#: A change of temp bytes per call by a smaller factor is none.
_RATIO_MIN = 1.5
#: Shares of the points on their side of the middle between two levels, and of an abrupt change.
_SEPARATE_MIN, _ABRUPT_MIN = 0.9, 0.6
_SIDE_MIN = 3


def steps(levels: Sequence[float]) -> list[tuple[int, bool]]:
    """Where a series of logarithms changes its level: indices, and whether it changed gradually.

    Each is the split with the smallest squares around both means, if both sides are separate.
    """
    import numpy as np

    count = len(levels)
    if count < 2 * _SIDE_MIN:
        return []
    values = np.asarray(levels, dtype=float)
    ends = np.arange(1, count)
    below, total = np.cumsum(values)[:-1], values.sum()
    gain = below**2 / ends + (total - below) ** 2 / (count - ends)
    gain[: _SIDE_MIN - 1] = gain[count - _SIDE_MIN :] = -1.0
    at = int(ends[int(np.argmax(gain))])
    left, right = values[:at], values[at:]
    change = right.mean() - left.mean()
    middle = (left.mean() + right.mean()) / 2
    sides = ((left - middle) * change < 0).mean(), ((right - middle) * change > 0).mean()
    if abs(change) < np.log(_RATIO_MIN):
        return []
    if min(sides) < _SEPARATE_MIN:
        # Perhaps a level that was left and came back.
        earlier = steps(levels[:at])
        begin = earlier[-1][0] if earlier else at
        return [*earlier, *((begin + step, slow) for step, slow in steps(levels[begin:]))]
    if (values[at] - values[at - 1]) * np.sign(change) < _ABRUPT_MIN * abs(change):
        return [(at, True)]
    later = [(at + step, slow) for step, slow in steps(levels[at:])]
    return [*steps(levels[:at]), (at, False), *later]
