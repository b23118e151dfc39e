"""The cheapest storage that meets a time limit, and the frontier of price and time."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from math import inf

from spillcast.calibrated import calibrated
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.sizing.products import (
    DAYS_PER_MONTH,
    FASTER_MIN,
    STEPS,
    Product,
    Search,
    Sized,
    setting_words,
)
from spillcast.forecast.sizing.result import Knob, SizeRow, Sizing
from spillcast.forecast.work_memory.advice import work_memory
from spillcast.recording.event_names import OPS
from spillcast.storage.catalogue.prices import Prices, provider_of
from spillcast.storage.catalogue.row import LatencyClass, rows_by_name
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import Storage
from spillcast.units import format_bytes, format_duration, format_setting

#: Rows of a frontier.
ROWS_MAX = 14
#: Without a limit the cheapest storage is chosen that saves this share of what the fastest saves.
WORTH = 0.9


def size(
    statements: Sequence[Sized],
    prices: Prices,
    *,
    within_s: float | None = None,
    confidence: float = CONFIDENCE,
    free_memory_bytes: int | None = None,
    today: date | None = None,
    steps: Mapping[str, float] = STEPS,
    products: Collection[str] | None = None,
) -> Sizing:
    """The cheapest storage for the temp files of all statements that meets ``within_s``.

    Without a limit the cheapest is chosen that saves nine tenths of what the fastest saves.
    ``free_memory_bytes`` is memory that temp files may take on a tmpfs. Only ``products`` are
    considered where they are given.
    """
    search = Search(statements, prices, within_s, confidence, steps)
    tried = sorted(
        _products(search, products), key=lambda product: product.cost(product.lowest) or inf
    )
    rows, settings_of = (
        list(_free_rows(search, free_memory_bytes)),
        dict[str, tuple[Product, dict[str, float]]](),
    )
    for product in tried:
        settings = list(product.path())
        if within_s is not None:
            bought = [row.cost_per_month for row in rows if row.meets and row.provider]
            below = min((cost for cost in bought if cost is not None), default=inf)
            if (meeting := product.cheapest(below)) is not None:
                settings.append(meeting)
        for chosen in settings:
            row = product.sized(chosen)
            if row is not None:
                rows.append(row)
                settings_of[row.target] = product, chosen
    priced = [row for row in rows if row.cost_per_month is not None]
    frontier, chosen_row = _frontier(priced), _chosen(priced, within_s, statements)
    knobs, binding = list[Knob](), None
    if chosen_row is not None and chosen_row.target in settings_of:
        product, settings_ = settings_of[chosen_row.target]
        knobs = list(_knobs(product, settings_, chosen_row))
        if len(statements) == 1:
            binding = statements[0].projector.binding(product.storage(settings_))
    fastest_s = min((row.elapsed_s for row in frontier), default=inf)
    ceilings = [statement.projector.zero_latency.forecast_s for statement in statements]
    unpriced = _frontier(
        [replace(row, cost_per_month=0.0) for row in rows if row.cost_per_month is None]
    )
    sizing = Sizing(
        baseline_s=_mean(statements, [statement.baseline_s for statement in statements]),
        ceiling_s=_mean(statements, ceilings),
        within_s=within_s,
        confidence=confidence,
        currency=prices.currency,
        chosen=chosen_row,
        frontier=_thinned(frontier, chosen_row),
        knobs=knobs,
        binding=binding,
        unpriced=[
            replace(row, cost_per_month=None)
            for row in unpriced
            if row.elapsed_s < (1 - FASTER_MIN) * fastest_s
        ],
        notes=(),
        prices=prices.notes(
            [
                row.target.removeprefix("catalogue:").partition("?")[0]
                for row in frontier
                if row.provider
            ],
            today or date.today(),
        ),
        statements=len(statements),
        forecasts=search.forecasts,
    )
    return replace(sizing, notes=list(_notes(sizing, rows, max(ceilings))))


def _mean(statements: Sequence[Sized], values: Sequence[float]) -> float:
    """The mean over one run of each statement, weighted by their runs."""
    weighted = sum(
        statement.weight * value for statement, value in zip(statements, values, strict=True)
    )
    return weighted / sum(statement.weight for statement in statements)


def _products(search: Search, names: Collection[str] | None) -> list[Product]:
    """Products of the providers, without those that another dominates at a lower price.

    Of fixed figures one is dominated by another of its latencies that is no slower anywhere.
    """
    providers = search.prices.regions
    products = [
        Product(row, search)
        for row in rows_by_name().values()
        if provider_of(row.name) in providers and (names is None or row.name in names)
    ]
    products = [product for product in products if product.fits]
    fixed = [(p, p.cost({})) for p in products if not p.grids]
    return [
        product
        for product in products
        if product.grids
        or not any(
            _dominates(other, other_cost, product, product.cost({})) for other, other_cost in fixed
        )
    ]


def _dominates(
    better: Product, better_cost: float | None, worse: Product, worse_cost: float | None
) -> bool:
    if better is worse or better_cost is None or better.row.latency != worse.row.latency:
        return False
    if worse_cost is not None and better_cost > worse_cost:
        return False
    a, b = better.row.figures, worse.row.figures
    rates = [name for name in b if name != "size_gib"]
    faster = a.keys() >= set(rates) and all(a[name] >= b[name] for name in rates)
    equal = faster and all(a[name] == b[name] for name in rates) and better_cost == worse_cost
    return faster and (not equal or better.row.name < worse.row.name)


def _free_rows(search: Search, free_memory_bytes: int | None) -> Iterator[SizeRow]:
    """What needs no storage to be bought: a tmpfs where memory allows, and more work memory."""
    if free_memory_bytes is not None and free_memory_bytes > search.room_bytes:
        room = f"memory of {format_bytes(search.room_bytes)}"
        row = search.row(_tmpfs(), room, 0.0, "while memory is free")
        if row is not None:
            yield row
    if len(search.statements) > 1:
        return
    statement = search.statements[0]
    memory = work_memory(statement.projector, search.confidence)
    if memory is None or not memory.fits:
        return
    enough = memory.enough
    upper_s = enough.interval_s[1]
    saved_h = None
    if statement.runs_per_day is not None:
        saved_s = statement.runs_per_day * (statement.baseline_s - enough.forecast_s)
        saved_h = saved_s * DAYS_PER_MONTH / 3600
    yield SizeRow(
        target=f"work_mem {format_setting(enough.work_mem_bytes)}",
        provider=None,
        settings=f"up to {format_bytes(memory.most_bytes)} of memory",
        cost_per_month=0.0,
        elapsed_s=enough.forecast_s,
        interval_s=enough.interval_s,
        meets=None if search.within_s is None else upper_s <= search.within_s,
        saved_h_per_month=saved_h,
        cost_per_saved_h=None,
        remark="if the plan stays",
    )


def _tmpfs() -> Storage:
    """Memory as a storage, by the machine's calibrated speed."""
    known = calibrated()
    base_ns = {(op, p): round(known.memory_s * 1e9) for op in OPS for p in ("random", "sequential")}
    per_byte = 1e9 / known.memory_bytes_per_s
    groups = LatencyClass("memory", base_ns, per_byte, 1.0, "", "").groups()
    return Storage("tmpfs", ASSUMED, groups)


def _frontier(rows: Sequence[SizeRow]) -> list[SizeRow]:
    """Rows that no cheaper one equals in time, the cheapest first."""
    frontier = list[SizeRow]()
    for row in sorted(rows, key=lambda row: (row.cost_per_month or 0.0, row.elapsed_s)):
        if not frontier or row.elapsed_s < frontier[-1].elapsed_s:
            frontier.append(row)
    return frontier


def _thinned(frontier: Sequence[SizeRow], chosen: SizeRow | None) -> list[SizeRow]:
    """At most ROWS_MAX rows: those that save least over the one before are left out."""
    rows = list(frontier)
    if chosen is not None and chosen not in rows:
        rows = sorted([*rows, chosen], key=lambda row: (row.cost_per_month or 0.0, -row.elapsed_s))

    def gain(at: int) -> float:
        if at == 0 or at == len(rows) - 1 or rows[at] is chosen:
            return inf
        return 1 - rows[at].elapsed_s / rows[at - 1].elapsed_s

    while len(rows) > 2:
        at = min(range(len(rows)), key=gain)
        if len(rows) <= ROWS_MAX and gain(at) >= FASTER_MIN:
            break
        if gain(at) == inf:
            break
        del rows[at]
    return rows


def _chosen(
    rows: Sequence[SizeRow], within_s: float | None, statements: Sequence[Sized]
) -> SizeRow | None:
    """The cheapest that meets the limit; without one, the cheapest that saves most of the time."""
    if within_s is not None:
        meeting = [row for row in rows if row.meets]
    elif rows:
        baseline_s = _mean(statements, [statement.baseline_s for statement in statements])
        fastest_s = min(row.elapsed_s for row in rows)
        if fastest_s >= baseline_s:
            return None
        meeting = [r for r in rows if baseline_s - r.elapsed_s >= WORTH * (baseline_s - fastest_s)]
    else:
        meeting = []
    return min(meeting, key=lambda r: (r.cost_per_month or 0.0, r.elapsed_s), default=None)


def _knobs(product: Product, chosen: Mapping[str, float], row: SizeRow) -> Iterator[Knob]:
    """What twice as much of each setting saves and costs."""
    for key, grid in product.grids.items():
        higher = next((value for value in grid if value >= 2 * chosen[key]), grid[-1])
        if higher <= chosen[key]:
            continue
        settings = {**chosen, key: higher}
        times, cost = product.search.times(product.storage(settings)), product.cost(settings)
        if times is not None:
            extra = None
            if cost is not None and row.cost_per_month is not None:
                extra = cost - row.cost_per_month
            yield Knob(
                setting=key,
                value=setting_words(key, higher, product.row),
                saved_s=row.elapsed_s - times.elapsed_s,
                cost_per_month=extra,
            )


def _notes(sizing: Sizing, rows: Sequence[SizeRow], ceiling_s: float) -> Iterator[str]:
    """What no storage does, in sentences."""
    if not rows:
        yield "no product allows a forecast"
        return
    within_s = sizing.within_s
    if within_s is not None and sizing.chosen is None:
        limit = format_duration(within_s)
        if ceiling_s > within_s:
            yield f"no storage meets {limit}: {format_duration(ceiling_s)} are outside temp I/O"
        else:
            best = min(rows, key=lambda row: row.interval_s[1])
            yield (
                f"no storage meets {limit} with the upper end of its interval; the closest is "
                f"{best.target}, up to {format_duration(best.interval_s[1])}"
            )
        if memory := [r for r in rows if r.target.startswith("work_mem") and r.meets]:
            yield f"{memory[0].target} meets it"
    elif sizing.chosen is None:
        yield "no product is faster than the storage of today, or none has a price"
