"""Rankings of a server's statements that spill: counts, savings, history and alerts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import exp
from typing import Any, Literal

from spillcast.document import internal, key
from spillcast.errors import OptionInvalid
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.statements import StatementRow
from spillcast.evidence.postgres.temp_files import ExceededLimit
from spillcast.fleet.snapshots import DatabaseSpill, LiveSession, Unseen
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.ask import known_target
from spillcast.forecast.project import interval_of
from spillcast.forecast.sizing.products import Sizing
from spillcast.forecast.work_memory import MEMORY_SPREAD
from spillcast.recording.calibration import MachineCalibration
from spillcast.stats import NORMAL_95
from spillcast.storage import Storage
from spillcast.storage.target import depends_on_recording, resolve
from spillcast.units import DAY_S, format_bytes, format_duration, parse_bytes, parse_duration_s

#: Bounds of a time are too wide for an estimate if lower / upper is at most this.
BOUNDS_RATIO_MIN = 0.05
SCHEMA = "spillcast.server/1"


@dataclass(frozen=True)
class Gain:
    """Elapsed time that a remedy saves in all calls, its interval; negative if it costs time."""

    saved_s: float = key("", signed=True)
    interval_s: tuple[float, float] = key("", signed=True)
    #: Elapsed time of all calls without a page cache; None unless it holds the temp files, so that
    #: storage changes nothing.
    without_cache_s: float | None = None


@dataclass(frozen=True)
class SpillNode:
    """A node of a plan that spilled: its type, its temp bytes and its memory as text."""

    node: str
    temp_bytes: int
    detail: str


@dataclass(frozen=True)
class Ranked:
    """A statement that spills, with sums over its calls in the window of the ranking."""

    queryid: str | None
    query: str | None
    #: None if only the statement's temp files, from a log, are known.
    calls: int | None
    elapsed_s: float | None
    #: Temp bytes read and written, or only written if reads are unknown. None if not counted.
    temp_bytes: int | None
    #: Bounds of the elapsed time in temp I/O, with the most and the fewest processes that may have
    #: shared it. None if it was not timed.
    temp_s: tuple[float, float] | None = None
    #: The gain on each target, and with enough work memory that nothing spills.
    gains: Mapping[str, Gain] = field(default_factory=dict)
    no_spill: Gain | None = None
    #: The setting that avoids its spills, if it is not the server's ``memory``.
    memory: str | None = None
    #: The work_mem with which nothing spills, from a plan.
    work_mem_bytes: int | None = None
    #: Why there are no gains.
    refused: str | None = None
    #: Without a plan: bounds of the work_mem for its largest temp files. The upper bound is None if
    #: no log shows which files belong to one call.
    work_mem_between: tuple[int, int | None] | None = None
    #: Bounds of the memory with which no call spills, from its peak memory and its written bytes.
    memory_between: tuple[int, int] | None = None
    #: Temporary tables on disk and merge passes of sorts, if the server counts them.
    disk_tables: int | None = None
    merge_passes: int | None = None
    #: The nodes of the known plan with the most temp I/O, in descending order of temp bytes.
    nodes: Sequence[SpillNode] = ()
    #: The number of a plan without text in its file.
    item: int | None = internal(None)

    @property
    def name(self) -> str:
        """The text or the identifier of the statement, or the number of the plan."""
        unnamed = "(not known)" if self.item is None else f"plan {self.item}"
        return self.query or self.queryid or unnamed

    @property
    def is_bounded(self) -> bool:
        """Whether only bounds of its temp I/O time are known, too wide for an estimate."""
        return self.temp_s is not None and self.temp_s[0] <= BOUNDS_RATIO_MIN * self.temp_s[1]

    @property
    def temp_mean_s(self) -> float | None:
        """Elapsed time in temp I/O, as the mean of its bounds; None without an estimate."""
        return None if self.temp_s is None or self.is_bounded else sum(self.temp_s) / 2

    @property
    def weight(self) -> tuple[float, float]:
        """The sort key of a ranking: time saved without spills, or time in temp I/O; then bytes."""
        if self.no_spill is not None:
            return self.no_spill.saved_s, self.temp_bytes or 0
        return (sum(self.temp_s) / 2 if self.temp_s else 0.0), self.temp_bytes or 0


HISTORY_SCHEMA = "spillcast.history/1"
#: The units of an alert's rate, in seconds.
_RATE_UNITS_S = {"h": 3600.0, "d": 86_400.0}
#: The minimum share of a period that snapshots must cover to count as covering it.
COVERED = 0.99
_RULE = re.compile(r"(temp|files|time|new)\s*>([^/]+)/\s*(h|d)(?:our|ay)?", re.IGNORECASE)
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
    #: The time between the snapshots in it.
    covered_s: float
    #: Temp files and their bytes, as the databases count them.
    temp_files: int
    written_bytes: int
    #: Temp bytes read and written by statements, the time of processes in temp I/O (None if not
    #: counted), and the statements, in descending order of bytes.
    temp_bytes: int
    temp_s: float | None
    statements: Sequence[StatementBytes]


@dataclass(frozen=True)
class Change:
    """A statement that began to spill, or whose calls spill more or less than before."""

    kind: Literal["new", "more", "less"]
    queryid: str
    query: str | None
    #: Unix times (s) of the snapshots between which the change began.
    after_s: float
    by_s: float
    #: Temp bytes per call since the change, and their ratio to those before.
    bytes_per_call: float
    ratio: float | None
    is_gradual: bool
    cause: Literal["version", "setting", "rows", "plan", "statement"] | None
    evidence: Sequence[str]


@dataclass(frozen=True)
class ServerEvent:
    """A reset, a restart, a clock change and the like, detected at a snapshot (Unix time, s)."""

    at_s: float
    kind: str
    note: str


@dataclass(frozen=True)
class Alert:
    """A rule, and the rate that it limits over the latest snapshots; None if unknown.

    If the snapshots cover less than the rule's time, the rate is a lower bound, not extrapolated.
    """

    rule: str
    rate: float | None
    covered_s: float
    exceeded: bool

    @property
    def text(self) -> str:
        """Whether the limit is exceeded, and by which rate."""
        if self.rate is None:
            return f"alert unknown: {self.rule}: no recent snapshot shows it"
        rule, state = RateLimit.of(self.rule), "exceeded" if self.exceeded else "met"
        written = {"temp": format_bytes, "time": format_duration}.get(
            rule.measure, "{:,.0f}".format
        )
        per = f"/{self.rule.rpartition('/')[2].strip()}"
        if self.covered_s < COVERED * rule.per_s:
            state += "" if self.exceeded else " so far"
            per = f" in the {format_duration(self.covered_s)} of snapshots"
        return f"alert {state}: {self.rule}: {written(self.rate)}{per}"


@dataclass(frozen=True)
class SpillHistory:
    """The spills of a server between its snapshots."""

    #: The number of snapshots.
    looks: int
    first_s: float
    last_s: float
    version: str
    #: The length of a bucket (s).
    bucket_s: float
    buckets: Sequence[Bucket]
    changes: Sequence[Change] = ()
    events: Sequence[ServerEvent] = ()
    #: Numbers of statements whose sums are lower bounds, and whose calls may include earlier ones.
    lower_bounds: int = 0
    earlier_calls: int = 0
    alerts: Sequence[Alert] = field(default_factory=list)


@dataclass(frozen=True)
class RateLimit:
    """A limit of a rate: ``measure`` may grow by at most ``limit`` in ``per_s`` seconds."""

    text: str
    measure: str
    limit: float
    per_s: float

    @classmethod
    def of(cls, text: str) -> "RateLimit":
        """Parses the text of --alert. InputError if it is not a rule."""
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise OptionInvalid(f"--alert '{text}' is not a rule", _GRAMMAR)
        measure, limit = match[1].lower(), match[2].strip()
        per_s = _RATE_UNITS_S[match[3].lower()]
        if measure == "temp":
            return cls(text, measure, float(parse_bytes(limit, "--alert")), per_s)
        if measure == "time":
            return cls(text, measure, parse_duration_s(limit, "--alert"), per_s)
        if not re.fullmatch(r"\d+(?:\.\d+)?", limit):
            raise OptionInvalid(f"--alert '{text}': {limit} is not a count", _GRAMMAR)
        return cls(text, measure, float(limit), per_s)

    def alert(self, periods: Sequence[tuple[float, Mapping[str, float | None]]]) -> Alert:
        """Compares with the latest ``periods`` (length in s, sums) that cover the rule's time."""
        covered_s, total, is_known = 0.0, 0.0, bool(periods)
        for length_s, sums in reversed(periods):
            if covered_s >= COVERED * self.per_s:
                break
            covered_s += length_s
            value = sums[self.measure]
            is_known &= value is not None
            total += value or 0.0
        if not is_known or not covered_s:
            return Alert(self.text, None, covered_s, exceeded=False)
        # A shorter time is not extrapolated: the sum counts only if it already exceeds the limit.
        rate = total * self.per_s / max(covered_s, self.per_s)
        return Alert(self.text, rate, covered_s, rate > self.limit)


def outlasting(live: Sequence[LiveSession], statements: Sequence[Ranked]) -> LiveSession | None:
    """The longest session that spills now, if no statement took longer in all of its calls.

    Statements are counted when they end.
    """
    longest = max(live, key=lambda session: session.running_s, default=None)
    counted_s = max((statement.elapsed_s or 0.0 for statement in statements), default=0.0)
    return None if longest is None or longest.running_s < counted_s else longest


@dataclass(frozen=True)
class ServerRanking:
    """The statements of a server that spill, from a snapshot, its logs or its history."""

    source: str
    #: The time that all sums cover; None if unknown.
    window_s: float | None
    statements: Sequence[Ranked]
    targets: Sequence[str]
    confidence: float
    #: Number and elapsed time of all statements, including those that do not spill; None for logs.
    statements_seen: int | None = None
    elapsed_s: float | None = None
    databases: Sequence[DatabaseSpill] = ()
    #: Shell commands that make the server count statements; empty if it counts them.
    enable: Sequence[str] = ()
    #: Temp bytes of all databases, and the time of all backends in reads of data files.
    database_temp_bytes: int | None = None
    data_read_s: float | None = None
    live: Sequence[LiveSession] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The setting that avoids spills if it is large enough.
    memory: str = "work_mem"
    #: Figures that the user may not see, and the remedy.
    unseen: Sequence[Unseen] = ()
    #: Calls in logs that failed because they exceeded a limit of temp files.
    exceeded: Sequence[ExceededLimit] = ()
    #: The command that records the session that outlasts all statements, or the first statement.
    record: str | None = None
    #: How long the queries to the server took.
    asked_s: float | None = None
    #: The history from snapshots.
    history: SpillHistory | None = None
    #: Storage to buy for all statements: the frontier of price and time; None if unknown.
    sizing: Sizing | None = None
    #: The rows behind the ranking, for the sizing.
    counted: Sequence[StatementRow] = internal(())

    @property
    def per_day(self) -> float | None:
        """The factor from a sum to its amount per day; None if the time of the sums is unknown."""
        return DAY_S / self.window_s if self.window_s else None

    @property
    def outlasting(self) -> LiveSession | None:
        """The session that spills now for longer than any statement took, if there is one."""
        return outlasting(self.live, self.statements)

    @property
    def is_blind(self) -> bool:
        """Whether nothing counts the statements, so that no statement can be forecast."""
        return bool(self.enable)

    def to_json(self) -> dict[str, Any]:
        """The document that docs/schema.md describes."""
        document = {"schema": SCHEMA, **asdict(replace(self, counted=()))}
        del document["counted"]
        return document


def histories_document(address: str, rankings: Sequence[ServerRanking]) -> dict[str, Any]:
    """The document of the servers whose snapshots are at ``address``."""
    servers = [ranking.to_json() for ranking in rankings]
    return {"schema": HISTORY_SCHEMA, "dataset": address, "servers": servers}


#: The maximum number of statements with a forecast; others are listed with their counts.
FORECAST_MAX = 12


@dataclass(frozen=True)
class RankRequest:
    """The options that the forecasts of all statements share. InputError for unknown targets."""

    targets: Sequence[str]
    #: The current storage of temp files, for I/O that was not timed.
    origin: str | None = None
    confidence: float = 0.9
    #: The cost of waits on the server's machine; None if unknown.
    calibration: MachineCalibration | None = None
    _storages: dict[str, Storage] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for target in self.targets:
            known_target(target)
        if self.origin is not None:
            known_target(self.origin, "--from")

    def storage(self, target: str, counts: Counts, option: str = "--to") -> Storage:
        """The storage of a target; resolved only once unless it depends on ``counts``."""
        if depends_on_recording(target):
            return resolve(target, counts, option)
        if target not in self._storages:
            self._storages[target] = resolve(target, counts, option)
        return self._storages[target]


def temp_bounds_s(at_bounds: Sequence[Counts], calls: int) -> tuple[float, float]:
    """Bounds of the elapsed time (s) in temp I/O of all calls."""
    times_s = [calls * counts.total_s / counts.processes for counts in at_bounds]
    return min(times_s), max(times_s)


def with_gains(
    ranked: Ranked, at_bounds: Sequence[Counts], calls: int, request: RankRequest
) -> Ranked:
    """Adds to ``ranked`` the gains of all calls on each target, and the gain if nothing spilled.

    ``at_bounds`` are the counts of one call at each of their bounds; intervals span the savings
    for all of them.
    """
    if not request.targets:
        return ranked
    gains: dict[str, Gain] = {}
    forecasts: list[Forecast] = []
    for target in request.targets:
        forecasts = [
            forecast(counts, request.storage(target, counts), confidence=request.confidence)
            for counts in at_bounds
        ]
        gain = _gain([_elapsed_s(f) for f in forecasts], forecasts, calls)
        if gain is not None:
            cached = [f.without_cache_s for f in forecasts if f.without_cache_s is not None]
            without_s = calls * max(cached) if len(cached) == len(forecasts) else None
            gains[target] = replace(gain, without_cache_s=without_s)
    unspilled = [(f.ceiling_s, _without_spill_s(f)) for f in forecasts]
    no_spill = _gain(unspilled, forecasts, calls)
    refused = None if gains else next((f.refused for f in forecasts if f.refused), None)
    return replace(ranked, gains=gains, no_spill=no_spill, refused=refused)


def _elapsed_s(forecast: Forecast) -> tuple[float, tuple[float, float] | None]:
    """The elapsed time (s) and its interval, however wide; no interval after any other refusal."""
    if forecast.uncertainty is None:
        return forecast.forecast_s or 0.0, forecast.interval_s
    return forecast.uncertainty.forecast_s, interval_of(forecast)


def _without_spill_s(forecast: Forecast) -> tuple[float, float] | None:
    """The interval (s) of a run that does not spill, which may do more other work."""
    if forecast.ceiling_interval_s is None:
        return None
    low_s, high_s = forecast.ceiling_interval_s
    more_s = exp(NORMAL_95 * MEMORY_SPREAD) * high_s
    return low_s, max(high_s, min(more_s, forecast.baseline_s))


def _gain(
    times: Sequence[tuple[float, tuple[float, float] | None]],
    forecasts: Sequence[Forecast],
    calls: int,
) -> Gain | None:
    """The mean gain by ``times``, pairs of time (s) and interval; None if an interval is None."""
    saved_s, bounds_s = list[float](), list[float]()
    for (time_s, interval_s), projected in zip(times, forecasts, strict=True):
        if interval_s is None:
            return None
        saved_s.append(projected.baseline_s - time_s)
        bounds_s += [projected.baseline_s - end_s for end_s in interval_s]
    interval_s = calls * min(bounds_s), calls * max(bounds_s)
    return Gain(calls * sum(saved_s) / len(saved_s), interval_s)
