"""Products of the catalogue with their settings, the statements simulated on them, and the answer.

A setting that raises a rate makes no query slower, so bisection finds the cheapest combination that
meets a limit: with all others at their maximum, each setting has a lowest sufficient value, and the
cheapest combination lies at or above these values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf

from spillcast.document import PrintedDocument, key
from spillcast.errors import Refusal
from spillcast.forecast.binding import LATENCY, MEMORY, QUEUE, Binding, Outcome
from spillcast.forecast.project import Projector
from spillcast.forecast.projection import ZERO_LATENCY_STORAGE
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.result import Forecast, Interval
from spillcast.storage.catalogue import CatalogueEntry
from spillcast.storage.catalogue.formulas import GIB, with_defaults
from spillcast.storage.catalogue.prices import Prices, provider_of
from spillcast.storage.model import CREDIT_S
from spillcast.storage.storage import Storage


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """A storage with settings and price; ``elapsed_s`` is the weighted mean over the statements."""

    #: A target of ``forecast``; ``work_mem 512MB`` or ``tmpfs`` if nothing is bought.
    target: str
    provider: str | None
    #: ``size``, ``iops`` and ``throughput`` with their units, or the ``memory`` needed.
    settings: Mapping[str, str]
    #: None if no price is known.
    cost_per_month: float | None
    elapsed_s: float
    #: The interval of the statement with the highest upper end.
    interval_s: Interval
    #: Whether every statement's interval ends within the limit; None without a limit.
    meets: bool | None
    #: The sum over all statements; None if their runs per day are unknown.
    saved_h_per_month: float | None = key("", signed=True)
    cost_per_saved_h: float | None
    #: For local disks: ``difference`` to the same instance without disks, or ``instance``.
    price_of: str | None = None
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """The saving and the cost of a higher setting of the chosen storage."""

    setting: str
    value: str
    saved_s: float = key("", signed=True)
    cost_per_month: float | None = key("", signed=True)


@dataclass(frozen=True, kw_only=True)
class Sizing(PrintedDocument):
    """What to buy: the chosen row, the frontier of price and time, and limits of any storage."""

    SCHEMA = "spillcast.size/1"

    baseline_s: float
    #: Today's elapsed time of the slowest statement.
    slowest_s: float
    #: The time on zero-latency storage, and its interval if there is a single statement.
    ceiling_s: float
    ceiling_interval_s: Interval | None
    within_s: float | None
    confidence: float
    currency: str
    #: The row to buy; None if no row meets the limit or has a price.
    chosen: SizeRow | None
    #: The cheapest first; each is faster than all cheaper ones.
    frontier: Sequence[SizeRow]
    knobs: Sequence[Knob]
    binding: Binding | None
    #: Storages without a known price that are faster than the frontier.
    unpriced: Sequence[SizeRow]
    notes: Sequence[str]
    #: Dates and regions of the prices.
    prices: Sequence[str]
    statements: int = 1
    #: Whether only bounds of the time of temp I/O are known, so that times are ranges.
    bounds_only: bool = False
    #: Forecasts that the search made.
    forecasts: int = field(default=0, compare=False)

    @property
    def suffices(self) -> bool:
        """Whether each statement meets the limit on today's storage."""
        return self.within_s is not None and self.slowest_s <= self.within_s


#: Steps in which settings are tried: operations and MiB (or MB) per second, bytes.
STEPS: Mapping[str, float] = {"iops": 1000.0, "throughput": 25.0, "size": 50.0 * GIB}
#: Space that temp files need, over the space that they took.
SPACE_FACTOR = 1.25
#: The factor by which a path raises the binding setting, and the least share of time in its waits.
PATH_FACTOR, FASTER_MIN = 1.5, 0.03
#: The smallest local disk of an instance, if the catalogue does not have its size.
SMALLEST_DISK_GIB = 46.0
DAYS_PER_MONTH = 365.25 / 12


@dataclass(frozen=True, eq=False)
class Sized:
    """A statement that the storage is for."""

    projector: Projector
    runs_per_day: float | None = None
    name: str = ""
    #: Calls in an export, by which statements are weighted if their runs are unknown.
    calls: float | None = None
    #: A forecast from all waits, if the search uses a sample.
    limit_of_all_waits: Forecast | None = None

    @cached_property
    def baseline_s(self) -> float:
        """Its elapsed time today."""
        return self.projector.workload.total_s

    @cached_property
    def limit(self) -> Forecast:
        """The forecast for zero-latency storage, which contains the limit of any storage."""
        return self.limit_of_all_waits or self.projector.forecast(
            ZERO_LATENCY_STORAGE, explain=False
        )

    @property
    def weight(self) -> float:
        """Its weight in a mean over statements."""
        return self.runs_per_day or self.calls or 1.0


@dataclass(frozen=True)
class Times:
    """The statements on one storage: mean time, interval of the slowest, hours saved per month."""

    elapsed_s: float
    interval_s: Interval
    saved_h_per_month: float | None


@dataclass
class Search:
    """Cached forecasts of all statements on products with settings."""

    statements: Sequence[Sized]
    prices: Prices
    within_s: float | None
    confidence: float = CONFIDENCE
    steps: Mapping[str, float] = field(default_factory=lambda: STEPS)
    forecasts: int = 0
    _outcomes: dict[str, Outcome | None] = field(default_factory=dict)
    _times: dict[str, Times | None] = field(default_factory=dict)

    @cached_property
    def needed_bytes(self) -> float:
        """Space for the temp files of the statement that needs most."""
        held = max(statement.projector.workload.held_bytes for statement in self.statements)
        return max(SPACE_FACTOR * held, GIB)

    def mean(self, values: Sequence[float]) -> float:
        """The mean of a value per run over all statements, weighted by their runs."""
        weights = [statement.weight for statement in self.statements]
        pairs = zip(weights, values, strict=True)
        return sum(weight * value for weight, value in pairs) / sum(weights)

    def outcome(self, storage: Storage) -> Outcome | None:
        """The mean time and its waits by cause, without an interval; None if refused."""
        if storage.name not in self._outcomes:
            self.forecasts += len(self.statements)
            try:
                outcomes = [statement.projector.outcome(storage) for statement in self.statements]
            except Refusal:
                self._outcomes[storage.name] = None
                return None
            causes = {cause for _, causes_s in outcomes for cause in causes_s}
            self._outcomes[storage.name] = (
                self.mean([elapsed_s for elapsed_s, _ in outcomes]),
                {c: self.mean([causes_s.get(c, 0.0) for _, causes_s in outcomes]) for c in causes},
            )
        return self._outcomes[storage.name]

    def times(self, storage: Storage) -> Times | None:
        """The times with an interval; None if refused or too wide."""
        if storage.name not in self._times:
            self._times[storage.name] = self._forecast(storage)
        return self._times[storage.name]

    def _forecast(self, storage: Storage) -> Times | None:
        times_s, intervals_s = list[float](), list[Interval]()
        self.forecasts += len(self.statements)
        for statement in self.statements:
            forecast = statement.projector.forecast(storage, self.confidence, explain=False)
            if forecast.forecast_s is None or forecast.interval_s is None:
                return None
            times_s.append(forecast.forecast_s)
            intervals_s.append(forecast.interval_s)
        return self.times_of(times_s, intervals_s)

    def times_of(self, times_s: Sequence[float], intervals_s: Sequence[Interval]) -> Times:
        """The times and intervals of all statements, combined."""
        saved_s: float | None = 0.0
        for statement, elapsed_s in zip(self.statements, times_s, strict=True):
            if saved_s is None or statement.runs_per_day is None:
                saved_s = None
            else:
                saved_s += statement.runs_per_day * (statement.baseline_s - elapsed_s)
        return Times(
            self.mean(times_s),
            max(intervals_s, key=lambda interval_s: interval_s[1]),
            None if saved_s is None else saved_s * DAYS_PER_MONTH / 3600,
        )

    def row(
        self,
        target: str,
        times: Times,
        settings: Mapping[str, str],
        cost: float | None,
        price_of: str | None = None,
        remark: str = "",
    ) -> SizeRow:
        """A row of the answer."""
        saved_h = times.saved_h_per_month
        paid = cost is not None and saved_h is not None and saved_h > 0
        kind, _, product = target.partition(":")
        return SizeRow(
            target=target,
            provider=provider_of(product) if kind == "catalogue" else None,
            settings=settings,
            cost_per_month=cost,
            elapsed_s=times.elapsed_s,
            interval_s=times.interval_s,
            meets=None if self.within_s is None else times.interval_s[1] <= self.within_s,
            saved_h_per_month=saved_h,
            cost_per_saved_h=(cost or 0.0) / (saved_h or 1.0) if paid else None,
            price_of=price_of,
            remark=remark,
        )


@dataclass
class Product:
    """A product of the catalogue with the settings that are tried."""

    row: CatalogueEntry
    search: Search

    @cached_property
    def grids(self) -> Mapping[str, Sequence[float]]:
        """The values of each setting that are tried, the lowest first."""
        return {
            p.key: self._grid(p.key, p.low, p.high)
            for p in self.row.parameters
            # The size is varied only if rates of the product depend on it.
            if p.key != "size" or "throughput_per_gib" in self.row.figures
        }

    def _grid(self, key: str, low: float, high: float) -> list[float]:
        step = self.search.steps[key]
        low = max(low, ceil(self.search.needed_bytes / GIB) * GIB) if key == "size" else low
        inner = [n * step for n in range(int(low // step) + 1, ceil(high / step))]
        return [low, *inner, high] if high > low else [low]

    @property
    def fits(self) -> bool:
        """Whether the temp files fit; a volume of unknown size is large enough."""
        sizes = [p.high for p in self.row.parameters if p.key == "size"]
        known_gib = self.row.figures.get("size_gib")
        if not sizes and known_gib is None and self.row.kind == "device":
            known_gib = SMALLEST_DISK_GIB
        size = sizes[0] if sizes else (inf if known_gib is None else known_gib * GIB)
        return size >= self.search.needed_bytes

    def settings(self, chosen: Mapping[str, float]) -> dict[str, float]:
        """The chosen settings, raised to a valid combination of the product."""
        figures, values = self.row.figures, dict(chosen)
        if "throughput" in values and "throughput_max_per_iops" in figures:
            needed = ceil(values["throughput"] / figures["throughput_max_per_iops"])
            values["iops"] = max(values["iops"], needed)
        parameters = {p.key: p for p in self.row.parameters}
        if "size" in parameters and "size" not in values:
            gib = self.search.needed_bytes / GIB
            if "iops" in values and "iops_max_per_gib" in figures:
                gib = max(gib, values["iops"] / figures["iops_max_per_gib"])
            values["size"] = max(ceil(gib) * GIB, parameters["size"].low)
        return values

    def storage(self, chosen: Mapping[str, float]) -> Storage:
        """The storage with these settings."""
        values = self.settings(chosen).items()
        return self.row.storage(
            {k: f"{round(v / GIB)}G" if k == "size" else f"{v:.10g}" for k, v in values}
        )

    def cost(self, chosen: Mapping[str, float]) -> float | None:
        """The price of a month; None if it is unknown."""
        values = self.settings(chosen)
        figures = with_defaults(self.row.name, self.row.figures, values)
        size = figures.get("size") or self.row.figures.get("size_gib", 0.0) * GIB
        return self.search.prices.month(self.row.name, figures, size or self.search.needed_bytes)

    @property
    def price_of(self) -> str | None:
        """The scope of a local disk's price; None for volumes."""
        units = {price.unit for price in self.search.prices.of(self.row.name)}
        if "instance-hour-without" in units:
            return "difference"
        return "instance" if "instance-hour" in units else None

    def price(self, chosen: Mapping[str, float]) -> float:
        """The price of a month for comparisons: infinite if it is unknown."""
        cost = self.cost(chosen)
        return inf if cost is None else cost

    @property
    def remark(self) -> str:
        """The assumption of the forecast."""
        credits = any(limit.burst_ns > CREDIT_S * 1e9 for limit in self.row.storage().limits)
        return "with full burst credits" if credits else ""

    @property
    def lowest(self) -> dict[str, float]:
        """All settings at their lowest values."""
        return {key: grid[0] for key, grid in self.grids.items()}

    @property
    def highest(self) -> dict[str, float]:
        """All settings at their highest values."""
        return {key: grid[-1] for key, grid in self.grids.items()}

    def meets(self, chosen: Mapping[str, float]) -> bool:
        """Whether the upper end of the interval of every statement is within the limit, if any."""
        search, storage = self.search, self.storage(chosen)
        max_s = inf if search.within_s is None else search.within_s
        outcome = search.outcome(storage)
        if outcome is None or (len(search.statements) == 1 and outcome[0] > max_s):
            return False
        times = search.times(storage)
        return times is not None and times.interval_s[1] <= max_s

    def cheapest(self, below: float) -> dict[str, float] | None:
        """The cheapest settings that meet the limit and cost less than ``below``; None if none."""
        if self.price(self.lowest) >= below or not self.meets(self.highest):
            return None
        if self.meets(self.lowest):
            return self.lowest
        needed = {key: self._first(key, self.highest) for key in self.grids}
        if self.meets(needed):
            return needed if self.price(needed) < below else None
        # With several settings the cheapest combination may lie above the lowest sufficient values:
        # try each value of the first setting with the lowest sufficient value of the other.
        first, *others = self.grids
        best, best_cost = None, below
        for value in self.grids[first]:
            floor = {**needed, first: value}
            if value < needed[first] or not others:
                continue
            if self.price(floor) >= best_cost:
                break
            candidate = {**floor, others[0]: self._first(others[0], {**self.highest, first: value})}
            price = self.price(candidate)
            if price < best_cost and self.meets(candidate):
                best, best_cost = candidate, price
        return best

    def _first(self, key: str, others: Mapping[str, float]) -> float:
        """The lowest value of a setting that meets the limit with ``others``, else the highest."""
        grid = self.grids[key]
        low, high = 0, len(grid) - 1
        while low < high:
            middle = (low + high) // 2
            if self.meets({**others, key: grid[middle]}):
                high = middle
            else:
                low = middle + 1
        return grid[low]

    def path(self) -> Iterator[dict[str, float]]:
        """Settings from the lowest up; each step raises the setting that binds the previous one."""
        chosen = self.lowest
        while (outcome := self.search.outcome(self.storage(chosen))) is not None:
            yield chosen
            elapsed_s, causes_s = outcome
            waits = {key: _waits_of(key, causes_s) for key in self.grids}
            more = {k: v for k, v in waits.items() if v and chosen[k] < self.grids[k][-1]}
            if not more or max(more.values()) < FASTER_MIN * elapsed_s:
                return
            key = max(more, key=lambda name: more[name])
            wanted = PATH_FACTOR * chosen[key]
            chosen = {
                **chosen,
                key: next((v for v in self.grids[key] if v >= wanted), self.grids[key][-1]),
            }


def _waits_of(key: str, causes_s: Mapping[str, float]) -> float:
    """Waits for the limits that a setting raises."""
    limits = {"iops": ("iops",), "throughput": ("throughput",)}.get(key)
    return sum(
        s
        for cause, s in causes_s.items()
        if (cause.startswith(limits) if limits else cause not in (LATENCY, MEMORY, QUEUE))
    )


def setting_with_unit(key: str, value: float, row: CatalogueEntry) -> str:
    """A setting with its unit."""
    if key == "size":
        return f"{value / GIB:,.0f} GiB"
    unit = next(p.unit for p in row.parameters if p.key == key)
    return f"{value:,.10g} {unit}"
