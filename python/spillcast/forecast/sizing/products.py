"""Products of the catalogue with their settings, and the statements simulated on them.

A setting that raises a rate makes no query slower, so the cheapest one that meets a limit is found
by bisection: with all others at their maximum each setting has a lowest value that suffices, and
the cheapest combination lies at or above these values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf

from spillcast.forecast.binding import LATENCY, MEMORY, QUEUE
from spillcast.forecast.project import Projector, interval_of
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.result import Interval
from spillcast.forecast.sizing.result import SizeRow
from spillcast.storage.catalogue.formulas import GIB, settled
from spillcast.storage.catalogue.prices import Prices, provider_of
from spillcast.storage.catalogue.row import Row
from spillcast.storage.model import CREDIT_S
from spillcast.storage.storage import Storage

#: Steps in which settings are tried: operations and MiB (or MB) per second, bytes.
STEPS: Mapping[str, float] = {"iops": 1000.0, "throughput": 25.0, "size": 50.0 * GIB}
#: Temp files need this much room more than they took.
ROOM = 1.25
#: By how much a path raises the setting that binds; it ends where that saves less than FASTER_MIN.
PATH_FACTOR, FASTER_MIN = 1.5, 0.03
DAYS_PER_MONTH = 365.25 / 12


@dataclass(frozen=True, eq=False)
class Sized:
    """A statement that the storage is for."""

    projector: Projector
    runs_per_day: float | None = None
    name: str = ""

    @cached_property
    def baseline_s(self) -> float:
        """Its elapsed time today."""
        return self.projector.workload.total_s

    @property
    def weight(self) -> float:
        """Its part of a mean over statements."""
        return 1.0 if self.runs_per_day is None else self.runs_per_day


@dataclass(frozen=True)
class Times:
    """The statements on one storage."""

    elapsed_s: float
    interval_s: Interval
    saved_s_per_day: float | None
    causes_s: Mapping[str, float]


@dataclass
class Search:
    """Forecasts of all statements on settings of products, each made once."""

    statements: Sequence[Sized]
    prices: Prices
    within_s: float | None
    confidence: float = CONFIDENCE
    steps: Mapping[str, float] = field(default_factory=lambda: STEPS)
    forecasts: int = 0
    _times: dict[str, Times | None] = field(default_factory=dict)

    @cached_property
    def room_bytes(self) -> float:
        """Room that the temp files of one statement need, those of the largest."""
        held = max(statement.projector.workload.held_bytes for statement in self.statements)
        return max(ROOM * held, GIB)

    def times(self, storage: Storage) -> Times | None:
        """The statements on a storage; None where it allows no forecast of one."""
        if storage.name not in self._times:
            self.forecasts += len(self.statements)
            self._times[storage.name] = self._forecast(storage)
        return self._times[storage.name]

    def _forecast(self, storage: Storage) -> Times | None:
        elapsed_s, saved_s, bounds, causes_s = 0.0, 0.0, list[Interval](), dict[str, float]()
        for statement in self.statements:
            forecast = statement.projector.forecast(storage, self.confidence, explain=False)
            bound = interval_of(forecast)
            if bound is None or forecast.uncertainty is None:
                return None
            total_s = forecast.uncertainty.forecast_s
            elapsed_s += statement.weight * total_s
            saved_s += statement.weight * (statement.baseline_s - total_s)
            bounds.append(bound)
            for cause, s in (forecast.causes_s or {}).items():
                causes_s[cause] = causes_s.get(cause, 0.0) + statement.weight * s
        total = sum(statement.weight for statement in self.statements)
        known = all(statement.runs_per_day is not None for statement in self.statements)
        widest = max(bounds, key=lambda interval_s: interval_s[1])
        return Times(elapsed_s / total, widest, saved_s if known else None, causes_s)

    def meets(self, times: Times | None) -> bool:
        """Whether the upper end of the interval is within the limit."""
        return times is not None and times.interval_s[1] <= (self.within_s or inf)

    def row(
        self, storage: Storage, settings: str, cost: float | None, remark: str = ""
    ) -> SizeRow | None:
        """A row of the answer."""
        if (times := self.times(storage)) is None:
            return None
        saved_s = times.saved_s_per_day
        saved_h = None if saved_s is None else saved_s * DAYS_PER_MONTH / 3600
        paid = cost is not None and saved_h is not None and saved_h > 0
        of_catalogue = storage.name.startswith("catalogue:")
        return SizeRow(
            target=storage.name,
            provider=provider_of(storage.name.removeprefix("catalogue:")) if of_catalogue else None,
            settings=settings,
            cost_per_month=cost,
            elapsed_s=times.elapsed_s,
            interval_s=times.interval_s,
            meets=None if self.within_s is None else self.meets(times),
            saved_h_per_month=saved_h,
            cost_per_saved_h=(cost or 0.0) / (saved_h or 1.0) if paid else None,
            remark=remark,
        )


@dataclass
class Product:
    """A product of the catalogue with the settings that are tried."""

    row: Row
    search: Search

    @cached_property
    def grids(self) -> Mapping[str, Sequence[float]]:
        """The values of each setting, the lowest first."""
        return {
            p.key: self._grid(p.key, p.low, p.high)
            for p in self.row.parameters
            if self._is_knob(p.key)
        }

    def _is_knob(self, key: str) -> bool:
        """Whether a setting changes a rate: size does only where rates follow from it."""
        return key != "size" or "throughput_per_gib" in self.row.figures

    def _grid(self, key: str, low: float, high: float) -> list[float]:
        step = self.search.steps[key]
        low = max(low, ceil(self.search.room_bytes / GIB) * GIB) if key == "size" else low
        inner = [n * step for n in range(int(low // step) + 1, ceil(high / step))]
        return [low, *inner, high] if high > low else [low]

    @property
    def fits(self) -> bool:
        """Whether the temp files fit, as far as the size is known."""
        sizes = [p.high for p in self.row.parameters if p.key == "size"]
        size = sizes[0] if sizes else self.row.figures.get("size_gib", inf) * GIB
        return size >= self.search.room_bytes

    def settings(self, chosen: Mapping[str, float]) -> dict[str, float]:
        """Values that the product sells together, with at least those chosen."""
        figures, values = self.row.figures, dict(chosen)
        if "throughput" in values and "throughput_max_per_iops" in figures:
            needed = ceil(values["throughput"] / figures["throughput_max_per_iops"])
            values["iops"] = max(values["iops"], needed)
        parameters = {p.key: p for p in self.row.parameters}
        if "size" in parameters and "size" not in values:
            gib = self.search.room_bytes / GIB
            if "iops" in values and "iops_max_per_gib" in figures:
                gib = max(gib, values["iops"] / figures["iops_max_per_gib"])
            values["size"] = max(ceil(gib) * GIB, parameters["size"].low)
        return values

    def storage(self, chosen: Mapping[str, float]) -> Storage:
        """The storage with these settings."""
        values = self.settings(chosen)
        return self.row.storage({key: _written(key, value) for key, value in values.items()})

    def cost(self, chosen: Mapping[str, float]) -> float | None:
        """What a month costs; None where a price is missing."""
        values = self.settings(chosen)
        figures = settled(self.row.name, self.row.figures, values)
        size = figures.get("size") or self.row.figures.get("size_gib", 0.0) * GIB
        return self.search.prices.month(self.row.name, figures, size or self.search.room_bytes)

    def sized(self, chosen: Mapping[str, float]) -> SizeRow | None:
        """The row of these settings."""
        values = self.settings(chosen)
        words = [setting_words(key, value, self.row) for key, value in values.items()]
        settings = ", ".join([self.row.title, *words] if words else [self.row.description])
        cost = self.cost(chosen)
        return self.search.row(self.storage(chosen), settings, cost, ", ".join(self.remarks))

    @property
    def remarks(self) -> list[str]:
        """What the price covers, and what the catalogue does not know."""
        remarks = []
        if any(limit.burst_ns > CREDIT_S * 1e9 for limit in self.row.storage().limits):
            remarks.append("with full burst credits")
        units = {price.unit for price in self.search.prices.of(self.row.name)}
        if "instance-hour-without" in units:
            remarks.append("price over the instance without disks")
        elif "instance-hour" in units:
            remarks.append("price of the entire instance")
        if not self.row.parameters and "size_gib" not in self.row.figures:
            remarks.append("check its capacity")
        return remarks

    @property
    def lowest(self) -> dict[str, float]:
        """All settings at their lowest values."""
        return {key: grid[0] for key, grid in self.grids.items()}

    @property
    def highest(self) -> dict[str, float]:
        """All settings at their highest values."""
        return {key: grid[-1] for key, grid in self.grids.items()}

    def meets(self, chosen: Mapping[str, float]) -> bool:
        """Whether these settings meet the limit."""
        return self.search.meets(self.search.times(self.storage(chosen)))

    def cheapest(self, below: float) -> dict[str, float] | None:
        """The cheapest settings that meet the limit and cost less than ``below``; None if none."""
        if (self.cost(self.lowest) or inf) >= below or not self.meets(self.highest):
            return None
        if self.meets(self.lowest):
            return self.lowest
        needed = {key: self._first(key, self.highest) for key in self.grids}
        if self.meets(needed):
            return needed if (self.cost(needed) or inf) < below else None
        # All settings of more than one dimension lie above the corner: walk along one of them.
        first, *others = self.grids
        best, best_cost = None, below
        for value in self.grids[first]:
            floor = {**needed, first: value}
            if value < needed[first] or not others:
                continue
            if (self.cost(floor) or inf) >= best_cost:
                break
            candidate = {**floor, others[0]: self._first(others[0], {**self.highest, first: value})}
            if (
                (cost := self.cost(candidate)) is not None
                and cost < best_cost
                and self.meets(candidate)
            ):
                best, best_cost = candidate, cost
        return best

    def _first(self, key: str, others: Mapping[str, float]) -> float:
        """The lowest value of a setting that meets the limit with the others, else the highest."""
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
        """Settings from the lowest up, each with more of what binds the one before."""
        chosen = self.lowest
        while (times := self.search.times(self.storage(chosen))) is not None:
            yield chosen
            waits = {key: _waits_of(key, times.causes_s) for key in self.grids}
            more = {k: v for k, v in waits.items() if v and chosen[k] < self.grids[k][-1]}
            if not more or max(more.values()) < FASTER_MIN * times.elapsed_s:
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


def _written(key: str, value: float) -> str:
    return f"{round(value / GIB)}G" if key == "size" else f"{value:.10g}"


def setting_words(key: str, value: float, row: Row) -> str:
    """A setting with its unit."""
    if key == "size":
        return f"{value / GIB:,.0f} GiB"
    unit = next(p.unit for p in row.parameters if p.key == key)
    return f"{value:,.10g} {unit}"
