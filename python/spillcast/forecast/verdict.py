"""The verdict on forecasts of a query: where time goes, whether storage helps, the next step."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from spillcast.errors import OptionInvalid, Refusal, TargetUnknown
from spillcast.forecast.binding import NEGLIGIBLE
from spillcast.forecast.result import (
    CHANGES,
    DATA_READS,
    NOTABLE_SHARE,
    PROBLEM_SHARE,
    RECORDING,
    TIME_UNKNOWN,
    WAIT,
    ZERO_LATENCY,
    Forecast,
    Interval,
    Term,
)
from spillcast.forecast.work_memory import MemoryAdvice, MemoryCell, cheapest, compared_s
from spillcast.recording import WRITEBACK
from spillcast.tabular import Column, Display, Tabular
from spillcast.text import capitalized
from spillcast.units import (
    format_bytes,
    format_duration,
    format_estimate,
    format_interval,
    format_setting,
    format_share,
)

if TYPE_CHECKING:
    from spillcast.tables import Table

#: Storage for temp files helps little if it leaves at least this share of the time.
HELPS_LITTLE_SHARE = 0.9
#: The remedy for a partly recorded query without an upper bound.
UPPER_BOUND_HINT = (
    "For the entire query give --elapsed TIME, --written SIZE or a previous run (--history), or "
    "record until its temp writes slow down."
)

#: ``storage`` is the problem; ``partly``: for a part of the time; ``data``: reads of tables are;
#: ``memory``: the page cache holds the temp files; ``other``: no storage for temp files helps;
#: ``none``: no target has a number.
VerdictKind = Literal["storage", "partly", "data", "memory", "other", "none"]


@dataclass(frozen=True)
class Fix:
    """A storage or more work memory; ``forecast_s`` is None where only bounds are known."""

    target: str
    forecast_s: float | None
    interval_s: Interval
    work_mem_bytes: int | None = None
    cost: float | None = None
    best_value: bool = False

    def gains(self, baseline_s: float) -> bool:
        """Whether even the upper end of its interval is notably below today's time."""
        return notable_s(baseline_s - self.interval_s[1], baseline_s) > 0

    @property
    def rank(self) -> Interval:
        """The order of fixes: by time, or by the lower bound and then the upper."""
        return self.interval_s if self.forecast_s is None else (self.forecast_s,) * 2

    @property
    def times_text(self) -> str:
        """``2.1 s (1.8 s to 2.6 s)``, or ``1.8 s to 2.6 s``."""
        if self.forecast_s is None:
            return format_interval(self.interval_s)
        return format_estimate(self.forecast_s, self.interval_s)

    @property
    def description(self) -> str:
        """``nvme.json, 2.1 s (1.8 s to 2.6 s)``."""
        price = "" if self.cost is None else f" at {self.cost:g}"
        return f"{self.target}{price}, {self.times_text}"


@dataclass(frozen=True)
class Verdict:
    """One or two sentences that a user can act on, and the figures behind them."""

    kind: VerdictKind
    #: Where the time goes; then what to do.
    sentences: Sequence[str]
    #: Parts of today's elapsed time; None where that is not known.
    temp_share: float | None
    data_share: float | None
    #: The fixes whose whole interval is below today's time, the cheapest or fastest first.
    fixes: Sequence[Fix]

    @property
    def text(self) -> str:
        """All sentences."""
        return " ".join(self.sentences)

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        return {"text": self.text, **asdict(self)}


def verdict(forecasts: Sequence[Forecast]) -> Verdict:
    """The verdict on one or more forecasts of one query."""
    valid = [forecast for forecast in forecasts if forecast.forecast_s is not None]
    if not valid:
        reasons = "; ".join(dict.fromkeys(forecast.refused or "" for forecast in forecasts))
        return Verdict("none", [f"No forecast: {reasons}."], None, None, [])
    query = valid[0]
    fixes = _fixes(valid)
    gaining = [fix for fix in fixes if fix.gains(query.baseline_s)]
    cached = {f.target: f.without_cache_s for f in valid if f.without_cache_s is not None}
    uncached_kind: VerdictKind = "partly" if query.unknown_share else _kind(query)
    kind: VerdictKind = "memory" if cached else uncached_kind
    # Reads of tables come first, also if the page cache holds the temp files.
    lines = [_where_time_goes(query, "data" if uncached_kind == "data" else kind)]
    if uncached_kind == "data" and query.warm is not None:
        warm, now = map(format_duration, (query.warm.baseline_s, query.baseline_s))
        lines.append(f"With those files cached it would take {warm} instead of {now}.")
    if query.unknown_share is not None:
        lines += [w.next_step for w in query.warnings if w.code in TIME_UNKNOWN and w.next_step]
    if query.to_come is not None and query.to_come.still_writing:
        lines.insert(0, f"{capitalized(query.to_come.still_writing_text)}. {UPPER_BOUND_HINT}")
    if cached:
        lines += in_memory_sentences(cached, query.baseline_s)
    if not cached or gaining:
        lines.append(_advice(query, kind, fixes))
    return Verdict(
        kind=kind,
        sentences=lines,
        temp_share=None if query.unknown_share else _share(query, temp_s(query)),
        data_share=_share(query, _data_reads_s(query)),
        fixes=gaining,
    )


def recommended(forecasts: Sequence[Forecast]) -> frozenset[str]:
    """The names of targets and work memory that the verdict on one query recommends."""
    answer = verdict(forecasts)
    valid = [forecast for forecast in forecasts if forecast.forecast_s is not None]
    if answer.kind in ("none", "other") or _is_data_reads_only(valid[0], answer.kind):
        return frozenset()
    return frozenset(fix.target for fix in answer.fixes)


def rank(forecast: Forecast) -> Interval:
    """The sort key of storages: the time, or the two bounds if only these are known.

    A storage behind a page cache is ranked by its time without the cache.
    """
    if forecast.forecast_s is None:
        return float("inf"), float("inf")
    if forecast.interval_s is not None and forecast.unknown_share is not None:
        return forecast.interval_s
    return (max(forecast.forecast_s, forecast.without_cache_s or 0.0),) * 2


def notable_s(saved_s: float, elapsed_s: float) -> float:
    """A saving; 0.0 if it is too small a part of an elapsed time to matter."""
    return 0.0 if abs(saved_s) < NEGLIGIBLE * elapsed_s else saved_s


def temp_s(query: Forecast) -> float:
    """Time in calls on temp files, or in other I/O that depends on the storage."""
    return max(query.observed_s - sum(term.baseline_s for term in _independent_terms(query)), 0.0)


def _independent_terms(query: Forecast) -> list[Term]:
    """The terms that do not depend on the storage, without the cost of recording."""
    excluded = (CHANGES, WRITEBACK, RECORDING)
    return [t for t in query.terms if t.op is None and t.name not in excluded]


def _data_reads_s(query: Forecast) -> float:
    return sum(term.baseline_s for term in query.terms if term.name == DATA_READS)


def _io_name(query: Forecast) -> str:
    """The name of the I/O that depends on the storage, within a sentence."""
    names = [term.name for term in query.terms if term.op is not None]
    if _has_other_waits(query):
        return names[0] if len(names) == 1 else "time in the events of --temp-events"
    is_temp = all(name.startswith("temp ") or name.endswith(" temp") for name in names)
    return "temp I/O" if is_temp else "I/O on the storage to be replaced"


def _has_other_waits(query: Forecast) -> bool:
    """Whether events of --temp-events are waits for something other than storage."""
    return any(term.op == WAIT for term in query.terms)


def _share(query: Forecast, s: float) -> float:
    observed_s = query.observed_s
    return s / observed_s if observed_s else 0.0


def _kind(query: Forecast) -> VerdictKind:
    observed_s, data_s = query.observed_s, _data_reads_s(query)
    saved = 1 - query.ceiling_s / observed_s if observed_s else 0.0
    if saved >= PROBLEM_SHARE:
        return "storage"
    if data_s > max(temp_s(query), NOTABLE_SHARE * observed_s):
        return "data"
    return "partly" if saved >= 1 - HELPS_LITTLE_SHARE else "other"


def _where_time_goes(query: Forecast, kind: VerdictKind) -> str:
    """A sentence about where the time goes."""
    of = query.subject or f"this query{query.recorded_text}"
    of = of if query.part is None else "this part"
    times_s = temp_s(query), _data_reads_s(query)
    temp_share, data_share = (format_share(_share(query, s)) for s in times_s)
    io, comma = _io_name(query), "," if "," in of else ""
    other = _largest_other_term(query)
    if query.unknown_share is not None:
        bounds = " to ".join(map(format_share, query.unknown_share))
        sentence = f"how long {io} took is not known: {bounds} of {of}."
    elif kind == "storage":
        problem = "that" if _has_other_waits(query) else "storage"
        sentence = f"{io} is {temp_share} of {of}: {problem} is the problem."
    elif kind == "data":
        activity = "reading table files that were not cached"
        sentence = f"{data_share} of {of}{comma} is {activity}, {temp_share} is {io}."
    elif kind in ("partly", "memory"):
        sentence = f"{io} is {temp_share} of {of}" + (f", {other}." if other else ".")
    else:
        # Larger storage may help a part that failed.
        none = "no storage for temp files will help"
        none = none if query.part is None else "no faster storage would help"
        shares = f"of {of}{comma} {other}, {temp_share} is {io}"
        sentence = f"{none}: {shares if other else f'{io} is {temp_share} of {of}'}."
    if query.part is not None:
        return f"{query.part.text}: {sentence}"
    return capitalized(sentence)


def _largest_other_term(query: Forecast) -> str:
    """The largest term besides I/O and data reads; empty if it is below NOTABLE_SHARE."""
    others = [term for term in _independent_terms(query) if term.name != DATA_READS]
    largest = max(others, key=lambda term: term.baseline_s, default=None)
    if largest is None or (share := _share(query, largest.baseline_s)) < NOTABLE_SHARE:
        return ""
    return f"{format_share(share)} is {largest.name}"


def _fixes(valid: Sequence[Forecast]) -> list[Fix]:
    """All fixes, the fastest first; work memory, which costs nothing, precedes them if it gains."""
    order = sorted(valid, key=lambda forecast: (not forecast.best_value, rank(forecast)))
    fixes = [
        Fix(
            target=forecast.target,
            forecast_s=None if forecast.bounds_only else forecast.forecast_s,
            interval_s=forecast.interval_s,
            cost=forecast.cost,
            best_value=forecast.best_value,
        )
        for forecast in order
        if forecast.forecast_s is not None and forecast.interval_s is not None
    ]
    memory = valid[0].work_memory
    for more in memory_fixes(valid[0]):
        if memory is None:
            fixes = sorted([*fixes, more], key=lambda fix: (not fix.best_value, fix.rank))
        elif memory.fits and more.gains(valid[0].baseline_s):
            fixes = [more, *fixes]
        else:
            # Memory that may be in use comes first only if its upper bound is below all others.
            ends_s = [0.0 if fix.best_value else fix.interval_s[1] for fix in fixes]
            surer = [n for n, end_s in enumerate(ends_s, 1) if end_s <= more.interval_s[1]]
            fixes.insert(max(surer, default=0), more)
    return fixes


def memory_fixes(query: Forecast) -> list[Fix]:
    """Work memory, or memory of Spark's executors, with which nothing spills."""
    is_bounded, fixes = query.unknown_share is not None, list[Fix]()
    if query.work_memory is not None:
        enough = query.work_memory.enough
        fix = Fix(
            target=f"work_mem {format_setting(enough.work_mem_bytes)}",
            forecast_s=None if is_bounded else enough.forecast_s,
            interval_s=enough.interval_s,
            work_mem_bytes=enough.work_mem_bytes,
        )
        fixes.append(fix)
    if (memory := query.without_spills) is not None:
        forecast_s = None if is_bounded else memory.forecast_s
        target = f"executor memory {format_bytes(memory.memory_bytes)}"
        fixes.append(Fix(target=target, forecast_s=forecast_s, interval_s=memory.interval_s))
    return fixes


def _advice(query: Forecast, kind: VerdictKind, fixes: Sequence[Fix]) -> str:
    """A sentence about what to do first and next, or that no target helps."""
    now = format_duration(query.baseline_s)
    if _is_data_reads_only(query, kind):
        return "No other storage for temp files will help."
    if _has_other_waits(query) and (kind == "other" or query.target == ZERO_LATENCY):
        return f"Without these waits {format_duration(query.ceiling_s)} of {now} would be left."
    if kind == "other":
        return f"Even zero-latency storage would leave {format_duration(query.ceiling_s)} of {now}."
    gaining = [fix for fix in fixes if fix.gains(query.baseline_s)]
    if query.target == ZERO_LATENCY and {fix.target for fix in gaining} <= {ZERO_LATENCY}:
        if query.ceiling_interval_s is not None and query.unknown_share is not None:
            low, high = map(format_duration, query.ceiling_interval_s)
            return f"Zero-latency storage would leave {low} to {high} of {now}."
        return f"{capitalized(query.ceiling_text(of=f' of {now}'))}."
    if not gaining:
        # Bounds that are far apart follow forecasts: the lower one promises nothing.
        best = min(fixes, key=lambda fix: (fix.forecast_s is None, fix.rank))
        may_gain = any(fix.rank[0] <= query.baseline_s for fix in fixes)
        if len(fixes) == 1:
            verb = "is" if best.interval_s[0] > query.baseline_s else "may be"
            effect = "faster" if may_gain else "slower"
            later_s = best.interval_s[1] - query.baseline_s
            if may_gain and best.forecast_s is None and notable_s(later_s, query.baseline_s) > 0:
                effect = "faster or slower"
            return f"{best.target} {verb} {effect}: {best.times_text} instead of {now}."
        faster = f"{'certainly ' * may_gain}faster than the {now} now"
        return f"No target is {faster}; the fastest is {best.description}."
    first, *others = gaining
    if first.work_mem_bytes is not None:
        lead = "Cheapest fix"
    elif first.best_value:
        lead = "Best value"
    else:
        lead = "Fastest" if len(fixes) > 1 else "Forecast"
    text = f"{lead}: {first.description} instead of {now}"
    return f"{text}; then {others[0].description}." if others else f"{text}."


def in_memory_sentences(
    without_cache_s: Mapping[str, float], now_s: float, at_most: str = ""
) -> list[str]:
    """The effect of storage if the page cache holds the temp files, and the times without it.

    ``at_most`` precedes each time that is an upper bound.
    """
    times = " and ".join(
        f"{at_most}{format_duration(s)} on {name}" for name, s in without_cache_s.items()
    )
    return [
        "Today temp I/O is as fast as memory: storage changes nothing while memory is free.",
        f"Where it is not, {times} instead of {format_duration(now_s)}.",
    ]


def _is_data_reads_only(query: Forecast, kind: VerdictKind) -> bool:
    """Whether the problem is reads of tables, with temp I/O below NOTABLE_SHARE."""
    return kind == "data" and temp_s(query) < NOTABLE_SHARE * query.observed_s


def priced(
    targets: Sequence[str], forecasts: Sequence[Forecast], costs: Mapping[str, float]
) -> list[Forecast]:
    """Forecasts for ``targets``, in the same order, with ``costs`` by target."""
    pairs = zip(targets, forecasts, strict=True)
    results = [replace(forecast, cost=costs.get(target)) for target, forecast in pairs]
    # If savings per price are equal, as for free targets, the target that saves more.
    best = max((f for f in results if _gain(f)[0] > 0), key=_gain, default=None)
    return [replace(forecast, best_value=forecast is best) for forecast in results]


def cheapest_real(
    cells: Sequence[MemoryCell], within_s: float, costs: Mapping[str, float], now_s: float
) -> MemoryAdvice:
    """As ``cheapest``, of zero-latency storage only if nothing else is fast enough."""
    real = [cell for cell in cells if cell.storage != ZERO_LATENCY]
    advice = cheapest(real, within_s, costs, now_s)
    return advice if advice.cell is not None else cheapest(cells, within_s, costs, now_s)


def ranked(forecasts: Sequence[Forecast]) -> list[Forecast]:
    """From the fastest to the slowest, refused ones last."""
    return sorted(forecasts, key=rank)


def forecasts_document(forecasts: Sequence[Forecast]) -> dict[str, Any]:
    """The document of docs/schema.md for one or several targets, with the verdict on all."""
    answer = {"verdict": verdict(forecasts).to_json()}
    if len(forecasts) == 1:
        return forecasts[0].to_json() | answer
    targets = [forecast.to_json() for forecast in forecasts]
    return {"schema": Forecast.SCHEMA, **answer, "targets": targets}


def refusal_document(refusal: Refusal) -> dict[str, Any]:
    """The document for evidence that allows no forecast and has no elapsed time."""
    answer = Verdict("none", [f"No forecast: {refusal.message}."], None, None, [])
    return {
        "schema": Forecast.SCHEMA,
        "verdict": answer.to_json(),
        "targets": [],
        "refused": refusal.message,
        "refused_code": refusal.code,
        "hint": refusal.hint,
    }


def parse_costs(
    priced: Sequence[str], names: Sequence[str], option: str = "--to"
) -> dict[str, float]:
    """Prices such as ``catalogue:aws-gp3=96`` of the storages ``names``, given by ``option``.

    InputError for a text that is not a price, or whose name is not in ``names``.
    """
    costs = {}
    for text in priced:
        name, _, price = text.rpartition("=")
        try:
            cost = float(price)
        except ValueError:
            cost = -1.0
        if not name or not 0 <= cost < float("inf"):
            raise OptionInvalid(f"--cost {text}: not a price", "for example --cost /mnt/nvme=120")
        if name not in names:
            kind = "targets" if option == "--to" else "storages"
            hint = f"the {kind} are: {', '.join(names)}"
            raise TargetUnknown(f"--cost {text}: there is no {option} {name}", hint)
        costs[name] = cost
    return costs


def _gain(forecast: Forecast) -> tuple[float, float]:
    """Time saved (s) per unit of the price, and in total; 0 without a price or a forecast."""
    if (cost := forecast.cost) is None or forecast.forecast_s is None:
        return 0.0, 0.0
    interval_s, bounds_only = forecast.interval_s, forecast.bounds_only
    elapsed_s = compared_s(forecast.forecast_s, interval_s, bounds_only=bounds_only)
    saved_s = notable_s(forecast.baseline_s - elapsed_s, forecast.baseline_s)
    return saved_s / cost if cost else saved_s and saved_s * float("inf"), saved_s


class Forecasts(list[Forecast], Tabular):
    """Forecasts for several targets, in the order given."""

    def to_arrow(self) -> "Table":
        """A row for each target; the numbers are null if a forecast was refused."""
        from spillcast.columns import TEXT, fields_of
        from spillcast.tables import Table

        names = (
            *("baseline_s", "forecast_s", "low_s", "high_s"),
            *("ceiling_s", "ceiling_low_s", "ceiling_high_s", "speedup"),
        )
        types = {"target": TEXT, **dict.fromkeys(names, "float64"), "refused": TEXT}
        return Table.from_rows([forecast.figures() for forecast in self], fields_of(types))

    def display(self) -> Display:
        """The verdict, and a row for today and for each target."""
        if not self:
            return Display("no forecasts")
        rows: list[list[Any]] = [["today", self[0].baseline_s, None, None, ""]]
        for f in self:
            remarks = f.refused or ", ".join(warning.code for warning in f.warnings)
            elapsed_s, speedup = (None, None) if f.bounds_only else (f.forecast_s, f.speedup)
            rows.append([f.target, elapsed_s, f.interval_s, speedup, remarks])
        return Display(verdict(self).text, _TARGET_COLUMNS, rows)

    __repr__ = Tabular.__repr__


_TARGET_COLUMNS = (
    Column("storage", None),
    Column("elapsed", None, "s"),
    Column("interval", None, "interval"),
    Column("speed-up", None, "ratio"),
    Column("remarks", None, "words"),
)
