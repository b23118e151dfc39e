"""The cheapest storage that meets a time limit, and the frontier of price and time."""

import platform
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from math import inf

from spillcast.calibrated import calibrated
from spillcast.errors import (
    EvidenceUnsuited,
    NoTempIo,
    OptionInvalid,
    RecordingInsufficient,
    Refusal,
)
from spillcast.evidence.numbers import number_of, value_of
from spillcast.evidence.open import find_evidence, open_evidence
from spillcast.evidence.postgres.statements import (
    StatementRow,
    counts_of_row,
    read_rows,
    spilling_rows,
)
from spillcast.forecast.ask import LIMIT, ask
from spillcast.forecast.binding import Binding
from spillcast.forecast.project import Projector, interval_of
from spillcast.forecast.query import read_workload
from spillcast.forecast.question import CONFIDENCE, Question
from spillcast.forecast.result import Forecast
from spillcast.forecast.sizing.products import (
    FASTER_MIN,
    STEPS,
    Knob,
    Product,
    Search,
    Sized,
    SizeRow,
    Sizing,
    setting_with_unit,
)
from spillcast.forecast.verdict import notable_s
from spillcast.forecast.workload.counted import timed_on, workload_of_counts
from spillcast.gate import reading
from spillcast.recording import OPS, Recording
from spillcast.storage.catalogue import lookup, rows_by_name
from spillcast.storage.catalogue.prices import Prices, provider_of
from spillcast.storage.free_space import machine_cache_bytes
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import PATTERNS, Storage, unloaded_groups
from spillcast.text import shell_word
from spillcast.units import DAY_S, format_bytes, format_duration, format_setting, parse_duration_s

#: Maximum number of rows of a frontier.
ROWS_MAX = 14
#: Without a limit, the cheapest storage with this share of the fastest one's saving is chosen.
SAVING_SHARE_MIN = 0.9


def size(
    statements: Sequence[Sized],
    prices: Prices,
    *,
    within_s: float | None = None,
    confidence: float = CONFIDENCE,
    free_memory_bytes: int | None = None,
    steps: Mapping[str, float] = STEPS,
    products: Collection[str] | None = None,
) -> Sizing:
    """The cheapest storage for the temp files of all statements that meets ``within_s``.

    Without a limit, it is the cheapest that saves nine tenths of the fastest one's saving.
    ``free_memory_bytes`` is memory that temp files may take on a tmpfs. Only ``products`` are
    considered, if given.
    """
    search = Search(statements, prices, within_s, confidence, steps)
    tried = _candidates(search, products, free_memory_bytes)
    priced = [candidate for candidate in tried if candidate.cost is not None]
    best = None if within_s is None else _cheapest(priced, search)
    # Memory is free only while nothing else needs it, so the frontier excludes it.
    free = [candidate for candidate in priced if candidate.product is None]
    frontier = _frontier([candidate for candidate in priced if candidate.product is not None])
    thinned = [*free, *_thinned(frontier, None if best in free else best)]
    shown = [(candidate, row) for candidate in thinned if (row := candidate.row(search))]
    if within_s is None:
        best = _worthwhile(shown, search)
    rows = [row for _, row in shown]
    targets = {row.target for row in rows}
    sold = [c.product.row.name for c in priced if c.product is not None and c.name in targets]
    chosen, knobs, binding = _bought(best, search)
    limits = [statement.limit for statement in statements]
    sizing = Sizing(
        baseline_s=search.mean([statement.baseline_s for statement in statements]),
        slowest_s=max(statement.baseline_s for statement in statements),
        ceiling_s=search.mean([limit.ceiling_s for limit in limits]),
        ceiling_interval_s=limits[0].ceiling_interval_s if len(limits) == 1 else None,
        within_s=within_s,
        confidence=confidence,
        currency=prices.currency,
        chosen=chosen,
        frontier=rows,
        knobs=knobs,
        binding=binding,
        unpriced=_unpriced_rows(tried, search),
        notes=(),
        prices=prices.notes(sold, date.today()),
        statements=len(statements),
        bounds_only=any(s.projector.workload.quality.time_unknown for s in statements),
        forecasts=search.forecasts,
    )
    wide = dict.fromkeys(c.name.partition("?")[0] for c in thinned if c.row(search) is None)
    ceiling_s = max(limit.ceiling_s for limit in limits)
    return replace(sizing, notes=list(_notes(sizing, ceiling_s, list(wide))))


def _unpriced_rows(tried: "Sequence[Candidate]", search: Search) -> list[SizeRow]:
    """The fastest storage without a price, if it is clearly faster than all priced storages."""
    fastest_s = min((c.elapsed_s for c in tried if c.cost is not None), default=inf)
    best = min((c for c in tried if c.cost is None), key=lambda c: c.elapsed_s, default=None)
    if best is None or best.elapsed_s >= (1 - FASTER_MIN) * fastest_s:
        return []
    row = best.row(search)
    return [] if row is None else [row]


@dataclass(frozen=True)
class Candidate:
    """A storage that is compared by its price and its time, without an interval."""

    name: str
    cost: float | None
    elapsed_s: float
    product: Product | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    #: The row of the answer for memory, which is not a product.
    free: SizeRow | None = None

    def row(self, search: Search) -> SizeRow | None:
        """Its row of the answer, with an interval; None if that is too wide."""
        if (product := self.product) is None:
            return self.free
        if (times := search.times(product.storage(self.settings))) is None:
            return None
        values = product.settings(self.settings).items()
        texts = {key: setting_with_unit(key, value, product.row) for key, value in values}
        return search.row(self.name, times, texts, self.cost, product.price_of, product.remark)


def _candidates(
    search: Search, names: Collection[str] | None, free_memory_bytes: int | None
) -> list[Candidate]:
    """Settings of all products for the frontier, and each one's cheapest that meet the limit."""
    candidates = [
        Candidate(row.target, 0.0, row.elapsed_s, free=row)
        for row in _free_rows(search, free_memory_bytes)
    ]
    below = inf
    products = _products(search, names)
    for product in sorted(products, key=lambda product: product.price(product.lowest)):
        settings = list(product.path())
        if search.within_s is not None and (meeting := product.cheapest(below)) is not None:
            settings.append(meeting)
            below = min(below, product.price(meeting))
        for chosen in settings:
            storage = product.storage(chosen)
            outcome = search.outcome(storage)
            if outcome is not None:
                cost = product.cost(chosen)
                candidates.append(Candidate(storage.name, cost, outcome[0], product, chosen))
    return candidates


def free_memory_bytes(statements: Sequence[Sized]) -> int | None:
    """Memory for temp files on a tmpfs; None unless all statements ran on this machine."""
    hosts = {statement.projector.workload.host for statement in statements}
    return machine_cache_bytes() // 2 if hosts == {platform.node()} else None


def _products(search: Search, names: Collection[str] | None) -> list[Product]:
    """The providers' products, except those with fixed rates that a cheaper product dominates."""
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
    """Rows that need no purchase: a tmpfs if memory allows it, and more work memory."""
    if free_memory_bytes is not None and free_memory_bytes > search.needed_bytes:
        known = calibrated()
        base_ns = {(op, pattern): known.memory_s * 1e9 for op in OPS for pattern in PATTERNS}
        groups = unloaded_groups(base_ns, 1e9 / known.memory_bytes_per_s)
        # The page cache served recorded operations as fast as a tmpfs would.
        source = replace(ASSUMED, uncached=True)
        if (times := search.times(Storage("tmpfs", source, groups))) is not None:
            settings = {"memory": format_bytes(search.needed_bytes)}
            yield search.row("tmpfs", times, settings, 0.0, remark="while memory is free")
    if len(search.statements) > 1:
        return
    memory = search.statements[0].projector.work_memory(search.confidence)
    if memory is None or not memory.fits:
        return
    enough = memory.enough
    row = search.row(
        f"work_mem {format_setting(enough.work_mem_bytes)}",
        search.times_of([enough.forecast_s], [enough.interval_s]),
        {"memory": format_bytes(memory.most_bytes)},
        0.0,
        remark="if the plan stays",
    )
    yield replace(row, cost_per_saved_h=None)


def _frontier(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that are faster than all cheaper ones, the cheapest first."""
    frontier = list[Candidate]()
    for candidate in sorted(candidates, key=lambda c: (c.cost or 0.0, c.elapsed_s)):
        if not frontier or candidate.elapsed_s < frontier[-1].elapsed_s:
            frontier.append(candidate)
    return frontier


def _thinned(frontier: Sequence[Candidate], best: Candidate | None) -> list[Candidate]:
    """At most ROWS_MAX candidates, without those that save least over the previous one."""
    kept = list(frontier)
    if best is not None and best not in kept:
        kept = sorted([*kept, best], key=lambda c: (c.cost or 0.0, -c.elapsed_s))

    def gain(at: int) -> float:
        if at in (0, len(kept) - 1) or kept[at] is best:
            return inf
        return 1 - kept[at].elapsed_s / kept[at - 1].elapsed_s

    while len(kept) > 2:
        at = min(range(len(kept)), key=gain)
        if gain(at) == inf or (len(kept) <= ROWS_MAX and gain(at) >= FASTER_MIN):
            break
        del kept[at]
    return kept


def _cheapest(priced: Sequence[Candidate], search: Search) -> Candidate | None:
    """The cheapest candidate that meets the limit."""
    for candidate in sorted(priced, key=lambda c: (c.cost or 0.0, c.elapsed_s)):
        row = candidate.row(search) if candidate.elapsed_s <= (search.within_s or inf) else None
        if row is not None and row.meets:
            return candidate
    return None


def _worthwhile(shown: Sequence[tuple[Candidate, SizeRow]], search: Search) -> Candidate | None:
    """The cheapest candidate with certain gains and SAVING_SHARE_MIN of the largest saving."""
    baseline_s = search.mean([statement.baseline_s for statement in search.statements])
    # With several statements the interval is of the slowest statement, not of the mean.
    one_only = len(search.statements) == 1
    sure = [
        (candidate, row)
        for candidate, row in shown
        if (row.interval_s[1] if one_only else row.elapsed_s) < baseline_s
        and notable_s(baseline_s - row.elapsed_s, baseline_s)
    ]
    fastest_s = min((row.elapsed_s for _, row in sure), default=inf)
    limit_s = baseline_s - SAVING_SHARE_MIN * (baseline_s - fastest_s)
    return next((candidate for candidate, row in sure if row.elapsed_s <= limit_s), None)


def _bought(
    best: Candidate | None, search: Search
) -> tuple[SizeRow | None, list[Knob], Binding | None]:
    """The row of a candidate, its knobs, and the limits that a single statement waits for."""
    chosen = None if best is None else best.row(search)
    if best is None or chosen is None or (product := best.product) is None:
        return chosen, [], None
    knobs, binding = list(_knobs(product, best.settings, chosen)), None
    if len(search.statements) == 1:
        binding = search.statements[0].projector.binding(product.storage(best.settings))
    return chosen, knobs, binding


def _knobs(product: Product, chosen: Mapping[str, float], row: SizeRow) -> Iterator[Knob]:
    """The saving and the cost of doubling each setting."""
    for key, grid in product.grids.items():
        higher = next((value for value in grid if value >= 2 * chosen[key]), grid[-1])
        settings = {**chosen, key: higher}
        if higher <= chosen[key]:
            continue
        if (times := product.search.times(product.storage(settings))) is None:
            continue
        cost, today = product.cost(settings), row.cost_per_month
        yield Knob(
            setting=key,
            value=setting_with_unit(key, higher, product.row),
            saved_s=row.elapsed_s - times.elapsed_s,
            cost_per_month=None if cost is None or today is None else cost - today,
        )


def _notes(sizing: Sizing, ceiling_s: float, wide: Sequence[str]) -> Iterator[str]:
    """Sentences about the limits of the answer; ``wide`` are storages with too wide an interval."""
    within_s = sizing.within_s
    if not sizing.frontier and not sizing.unpriced:
        yield "no product allows a forecast"
    elif sizing.suffices and within_s is not None:
        slowest, limit = format_duration(sizing.slowest_s), format_duration(within_s)
        of = " for the slowest statement" if sizing.statements > 1 else ""
        yield f"nothing to buy: today's storage takes {slowest}{of}, within {limit}"
    elif sizing.chosen is None and within_s is None:
        today = format_duration(sizing.baseline_s)
        yield f"nothing to buy: no storage with a price is certainly faster than today's {today}"
    elif sizing.chosen is None and within_s is not None:
        limit = format_duration(within_s)
        if ceiling_s > within_s and not sizing.bounds_only:
            yield f"no storage meets {limit}: {format_duration(ceiling_s)} are outside temp I/O"
        elif sizing.frontier:
            best = min(sizing.frontier, key=lambda row: row.interval_s[1])
            yield (
                f"no storage is certain to meet {limit}; the closest is {best.target}, up to "
                f"{format_duration(best.interval_s[1])}"
            )
        else:
            yield f"no storage with a price meets {limit}"
    if sizing.bounds_only:
        yield (
            "how long temp I/O took is not known, so that each time is a range: record the query, "
            "or run it again with I/O timing"
        )
    if wide:
        yield f"no number for {', '.join(wide)}: the interval is too wide"


#: A recording of more than WHOLE_MAX waits is sampled to WAITS_MAX.
WHOLE_MAX, WAITS_MAX = 60_000, 20_000
#: Maximum number of statements of an export that are simulated.
STATEMENTS_MAX = 20
#: A statement without a forecast for this storage is left out.
REFERENCE_PRODUCT = "aws-gp3"


def parse_runs_per_day(text: str) -> float:
    """Runs per day from ``40/day``, ``2/h``, ``5/12h`` or ``40``. OptionInvalid for other texts."""
    count, _, period = (part.strip() for part in text.partition("/"))
    periods_s = {"": DAY_S, "day": DAY_S, "week": 7 * DAY_S, "hour": 3600.0, "month": 30.4 * DAY_S}
    try:
        number = None if re.search(r"[^\d.,]", count) else number_of(count)
        runs = value_of(number) or 0.0
        length = period if period[:1].isdigit() else f"1{period}"
        period_s = periods_s.get(period) or parse_duration_s(length)
    except (ValueError, OptionInvalid):
        runs, period_s = 0.0, 1.0
    if not 0 < runs < inf or period_s <= 0:
        raise OptionInvalid(f"--runs {text}: not a number of runs", "such as --runs 40/day")
    return runs * DAY_S / period_s


def statements_of(
    arguments: Sequence[str],
    question: Question,
    runs_per_day: float | None,
    limit: Forecast | None = None,
) -> list[Sized]:
    """A statement for each recording, plan or report, and for each spilling row of an export.

    ``runs_per_day`` are the runs of each statement, but for an export the runs of all rows
    together, which are divided in proportion to their calls. ``limit`` is a forecast of a single
    recording from all its waits. InputError for evidence without counts or waits, Refusal without
    any forecast.
    """
    files = find_evidence(arguments)
    of_plan = [Recording.open(path).plan_alone is not None for path in files.recordings]
    question.check(files, of_plan=any(of_plan))
    statements = list[Sized]()
    for argument in arguments:
        evidence = find_evidence([argument])
        if evidence.traces or evidence.ash or evidence.spark:
            kind = "event logs of Spark" if evidence.spark else "SQL traces and ASH exports"
            hint = (
                f"name storages and their prices: spillcast forecast {shell_word(argument)} "
                "--to A --to B --cost A=PRICE --cost B=PRICE"
            )
            raise EvidenceUnsuited(f"size does not take {kind}", hint, argument)
        # A stated elapsed time is of one statement.
        of_one = (question.queryid, question.item, question.elapsed_s) != (None, None, None)
        if evidence.statements and not of_one:
            path = evidence.statements[0]
            with reading(path):
                statements += sized_rows(read_rows(path), question, runs_per_day)
            continue
        run = open_evidence(evidence, question.selection)
        is_large = isinstance(run, Recording) and run.meta.raw.rows > WHOLE_MAX
        workload, _ = read_workload(run, question, WAITS_MAX if is_large else None)
        of_all_waits = (limit or ask(run, [LIMIT], question)[0][0]) if is_large else None
        projector, name = Projector(workload), workload.name
        statements.append(Sized(projector, runs_per_day, name, limit_of_all_waits=of_all_waits))
    return statements


def sized_rows(
    rows: Sequence[StatementRow], question: Question, runs_per_day: float | None
) -> list[Sized]:
    """The statements of an export that do the most temp I/O."""
    spilling = spilling_rows(rows)
    if not spilling:
        raise NoTempIo("its queries do not spill: there are no temp blocks")
    statements, refusals = list[Sized](), list[Refusal]()
    origin: Storage | None = None
    for row in spilling[:STATEMENTS_MAX]:
        try:
            counts = counts_of_row(row, timed=question.origin is None)
        except Refusal as refusal:
            refusals.append(refusal)
            continue
        if question.origin is not None:
            # A directory is probed once, with the I/O of the statement with the most temp I/O.
            origin = origin or question.storage(question.origin, counts)
            counts = timed_on(counts, origin)
        projector = Projector(workload_of_counts(counts))
        forecast = projector.forecast(lookup(REFERENCE_PRODUCT), explain=False)
        if interval_of(forecast) is None:
            refusals.append(RecordingInsufficient(str(forecast.refused)))
            continue
        statements.append(Sized(projector, None, row.queryid or "", row.calls))
    if not statements:
        raise refusals[0]
    if runs_per_day is None:
        return statements
    calls = sum(statement.weight for statement in statements)
    return [
        replace(statement, runs_per_day=runs_per_day * statement.weight / calls)
        for statement in statements
    ]
