"""The verdict on a query: where its time goes, whether storage helps, and what to do first."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from spillcast.forecast.assumptions import LITTLE
from spillcast.forecast.in_memory import in_memory_words, negligible, rank_s
from spillcast.forecast.told import Interval, Told, WorkMemory
from spillcast.recording.part import recorded_words
from spillcast.units import format_duration, format_setting

#: Share of the time that storage can save from which on it is the problem.
PROBLEM = 0.5
#: Share of the time that a sentence names.
NAMED = 0.1

#: ``storage`` is the problem; ``partly``: of a part of the time; ``data``: reads of tables are;
#: ``memory``: the page cache holds the temp files; ``other``: no storage for temp files helps;
#: ``none``: no target has a number.
Kind = Literal["storage", "partly", "data", "memory", "other", "none"]


@dataclass(frozen=True)
class Cure:
    """What may be done about a query: ``target`` is a storage, or more work memory."""

    target: str
    forecast_s: float
    interval_s: Interval
    work_mem_bytes: int | None = None
    cost: float | None = None
    best_value: bool = False

    def gains(self, baseline_s: float) -> bool:
        """Whether even the upper end of its interval is below today's time, by a notable part."""
        saved_s = baseline_s - self.interval_s[1]
        return saved_s > 0 and not negligible(saved_s, baseline_s)

    @property
    def words(self) -> str:
        """``nvme.json, 2.1 s (1.8 s to 2.6 s)``."""
        price = "" if self.cost is None else f" at {self.cost:g}"
        low, high = map(format_duration, self.interval_s)
        return f"{self.target}{price}, {format_duration(self.forecast_s)} ({low} to {high})"


@dataclass(frozen=True)
class Verdict:
    """One or two sentences that a person can act on, and what they rest on."""

    kind: Kind
    #: Where the time goes; then what to do.
    sentences: Sequence[str]
    #: Parts of today's elapsed time; None where that is not known.
    temp_share: float | None
    data_share: float | None
    #: The cures whose whole interval is a gain, the cheapest or fastest first.
    cures: Sequence[Cure]

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(self.sentences)

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        return {"text": self.text, **asdict(self)}


def verdict_of(forecasts: Sequence[Told]) -> Verdict:
    """The verdict on forecasts of one query, of which there is at least one."""
    given = [forecast for forecast in forecasts if forecast.forecast_s is not None]
    if not given:
        reasons = "; ".join(dict.fromkeys(forecast.refused or "" for forecast in forecasts))
        return Verdict("none", [f"No forecast: {reasons}."], None, None, [])
    query = given[0]
    cures = _cures(given)
    cached = {one.target: one.without_cache_s for one in given if one.without_cache_s is not None}
    place = _kind(query)
    kind: Kind = "memory" if cached else place
    # Where most of the time is reads of tables, that is said first in any case.
    lines = [_where(query, place if place == "data" else kind)]
    lines += _warm(query) if place == "data" else []
    if cached:
        lines += in_memory_words(cached, query.baseline_s)
    if not cached or any(cure.gains(query.baseline_s) for cure in cures):
        lines.append(_advice(query, kind, cures))
    return Verdict(kind, lines, _share(query, query.temp_s), _share(query, query.data_s),
                   [cure for cure in cures if cure.gains(query.baseline_s)])  # fmt: skip


def recommended(forecasts: Sequence[Told]) -> frozenset[str]:
    """The targets, and work memory by its name, that the verdict on one query recommends."""
    given = [one for one in forecasts if one.forecast_s is not None]
    verdict = verdict_of(forecasts)
    if not given or verdict.kind == "other" or _is_all_data(given[0], verdict.kind):
        return frozenset()
    return frozenset(cure.target for cure in verdict.cures)


def _share(query: Told, s: float) -> float:
    return s / query.observed_s if query.observed_s else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _kind(query: Told) -> Kind:
    saved = 1 - query.ceiling_s / query.observed_s if query.observed_s else 0.0
    if saved >= PROBLEM:
        return "storage"
    if query.data_s > max(query.temp_s, NAMED * query.observed_s):
        return "data"
    return "partly" if saved >= 1 - LITTLE else "other"


def _where(query: Told, kind: Kind) -> str:
    """Where the time goes, in a sentence."""
    of = "this part" if query.part is not None else f"this query{recorded_words(query.recorded_s)}"
    temp, data = (_percent(_share(query, s)) for s in (query.temp_s, query.data_s))
    moved, comma = query.moved, "," if "," in of else ""
    rest = ", ".join(_largest(query))
    if kind == "storage":
        sentence = f"{moved} is {temp} of {of}: storage is the problem."
    elif kind == "data":
        activity = "reading table files that were not cached"
        sentence = f"{data} of {of}{comma} is {activity}, {temp} is {moved}."
    elif kind in ("partly", "memory"):
        sentence = f"{moved} is {temp} of {of}" + (f", {rest}." if rest else ".")
    elif rest:
        sentence = f"no storage for temp files will help: of {of}{comma} {rest}, {temp} is {moved}."
    else:
        sentence = f"no storage for temp files will help: {moved} is {temp} of {of}."
    if query.part is not None:
        return f"{query.part.words}: {sentence}"
    return f"{sentence[0].upper()}{sentence[1:]}"


def _largest(query: Told) -> list[str]:
    """The part that stays and is worth a name."""
    other = query.other
    if other is None or (share := _share(query, other.baseline_s)) < NAMED:
        return []
    return [f"{_percent(share)} is {other.name}"]


def _cures(given: Sequence[Told]) -> list[Cure]:
    """All of them, the fastest first; but more work memory, which costs nothing, where it gains."""
    order = sorted(
        given, key=lambda one: (not one.best_value, rank_s(one.forecast_s, one.without_cache_s))
    )
    cures = [
        Cure(
            forecast.target,
            forecast.forecast_s,
            forecast.interval_s,
            None,
            forecast.cost,
            bool(forecast.best_value),
        )
        for forecast in order
        if forecast.forecast_s is not None and forecast.interval_s is not None
    ]
    memory = given[0].work_memory
    if memory is None:
        return cures
    more = work_mem_cure(memory)
    if memory.fits and more.gains(given[0].baseline_s):
        return [more, *cures]
    return sorted([*cures, more], key=lambda cure: (not cure.best_value, cure.interval_s[1]))


def work_mem_cure(memory: WorkMemory) -> Cure:
    """Enough of it that nothing spills."""
    enough = memory.enough
    name = f"work_mem {format_setting(enough.work_mem_bytes)}"
    return Cure(name, enough.forecast_s, enough.interval_s, enough.work_mem_bytes)


def _advice(query: Told, kind: Kind, cures: Sequence[Cure]) -> str:
    """What to do first, and next, in a sentence; or that nothing asked about is of any use."""
    now = format_duration(query.baseline_s)
    if _is_all_data(query, kind):
        return "No other storage for temp files will help."
    if kind == "other":
        return f"Even zero-latency storage would leave {format_duration(query.ceiling_s)} of {now}."
    gaining = [cure for cure in cures if cure.gains(query.baseline_s)]
    if not gaining:
        best = min(cures, key=lambda cure: cure.forecast_s)
        faster = "certainly faster" if best.forecast_s < query.baseline_s else "faster"
        low, high = map(format_duration, best.interval_s)
        if len(cures) == 1 and best.interval_s[0] > query.baseline_s:
            then = format_duration(best.forecast_s)
            return f"{best.target} makes it slower: {then} ({low} to {high}) instead of {now}."
        if len(cures) == 1:
            return f"It is not {faster} than the {now} now: {best.words}."
        return f"No target is {faster} than the {now} now; the fastest is {best.words}."
    first, *others = gaining
    if first.work_mem_bytes is not None:
        lead = "Cheapest fix"
    elif first.best_value:
        lead = "Best value"
    else:
        lead = "Fastest" if len(cures) > 1 else "Forecast"
    text = f"{lead}: {first.words} instead of {now}"
    return f"{text}; then {others[0].words}." if others else f"{text}."


def _is_all_data(query: Told, kind: Kind) -> bool:
    """Whether reads of tables take so much that temp I/O is of no matter."""
    return kind == "data" and query.temp_s < NAMED * query.observed_s


def _warm(query: Told) -> list[str]:
    """What it takes where it finds the tables in memory."""
    if query.warm is None:
        return []
    warm, now = map(format_duration, (query.warm.baseline_s, query.baseline_s))
    return [f"With those files cached it would take {warm} instead of {now}."]
