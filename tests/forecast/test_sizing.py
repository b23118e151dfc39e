"""The limit that binds, and the cheapest storage within a time, against trying all settings."""

from dataclasses import replace
from itertools import product as combinations
from math import inf
from types import SimpleNamespace

import pytest

from cases import cases
from sizing_cases import (
    PRODUCTS,
    STEPS,
    cheapest_by_search,
    cheapest_by_trying,
    drawn_limit_s,
    drawn_storage,
    projector,
    wrong_binding,
)
from spillcast.errors import EvidenceAmbiguous, OptionInvalid
from spillcast.forecast import sizing as sizing_module
from spillcast.forecast.ask import LIMIT, ask
from spillcast.forecast.binding import BindingWait
from spillcast.forecast.project import interval_of
from spillcast.forecast.question import Question
from spillcast.forecast.sizing import Sized, parse_runs_per_day, size, statements_of
from spillcast.forecast.sizing.products import Product, Search
from spillcast.storage.catalogue import lookup, rows_by_name
from spillcast.storage.catalogue.prices import DEFAULT_REGIONS, Price, Prices, load_prices
from spillcast.units import format_duration
from statement_files import export, row
from varied_recording import write_varied_recording


@pytest.fixture(scope="module")
def forecasters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    return [projector(folder, seed, waits=1000) for seed in range(4)]


@pytest.fixture(scope="module")
def sizings(forecasters):
    """What to buy for each query if it runs 40 times a day."""
    # From hard disks to local SSDs.
    more = ("aws-sc1", "aws-m6gd-large", "aws-i4i-4xlarge", "gcp-local-ssd", "azure-p30")
    some = {"products": (*PRODUCTS, *more)}
    return [size([Sized(forecaster, 40.0)], load_prices(), **some) for forecaster in forecasters]


@cases(
    ("wait", "words", "step"),
    [
        ({"cause": "throughput", "bytes_per_s": 125 << 20}, "125 MiB/s", "+125 MiB/s"),
        ({"cause": "iops", "operations_per_s": 3000}, "3,000 IOPS", "+3,000 IOPS"),
        ({"cause": "latency"}, "latency", "half the latency"),
        ({"cause": "queue"}, "its queue", "twice the servers"),
        ({"cause": "device time"}, "the device's own rate", "a device twice as fast"),
    ],
)
def test_a_limit_and_its_next_step_are_named(wait, words, step):
    result = BindingWait(elapsed_s=1.0, **wait)
    assert (result.limit_text, result.step) == (words, step)


def test_the_limit_that_binds_saves_most_when_it_is_doubled(forecasters):
    wrong = {
        seed: mistake
        for seed in range(24)
        if (mistake := wrong_binding(forecasters[seed % 4], drawn_storage(seed))) is not None
    }
    assert not wrong


def test_two_limits_reached_together_are_both_named(forecasters):
    # Operations of 256 KiB: 500 a second are 125 MiB/s, and io2 moves 128 MiB/s with 500 IOPS.
    binding = forecasters[2].forecast(lookup("aws-io2?iops=500")).binding
    assert set(binding.bound_by) == {"iops", "throughput"}


@cases("seed", range(3))
def test_the_search_finds_the_cheapest_of_all_settings(forecasters, seed):
    forecaster = forecasters[seed]
    within_s = drawn_limit_s(forecaster, seed)
    cheapest, forecasts = cheapest_by_search(forecaster, within_s, STEPS)
    tried = cheapest_by_trying(forecaster, within_s, STEPS)
    assert (cheapest is None) == (tried is None)
    if tried is not None:
        assert cheapest == pytest.approx(tried, rel=0.01)
    assert forecasts < 120


def test_the_frontier_gets_faster_with_its_price(sizings):
    sizing = sizings[2]
    rows = sizing.frontier
    assert len(rows) > 2
    costs, times = ([getattr(row, key) for row in rows] for key in ("cost_per_month", "elapsed_s"))
    assert costs == sorted(costs)
    assert times == sorted(times, reverse=True)
    assert sizing.chosen in rows
    # 40 runs a day, 30.4 days a month.
    saved_h = 40 * 365.25 / 12 * (sizing.baseline_s - sizing.chosen.elapsed_s) / 3600
    assert sizing.chosen.saved_h_per_month == pytest.approx(saved_h)


def test_a_time_limit_that_nothing_meets_names_the_closest(forecasters):
    alone = {"prices": load_prices(), "products": PRODUCTS}
    ceiling_s = size([Sized(forecasters[0])], **alone).ceiling_s
    sizing = size([Sized(forecasters[0])], **alone, within_s=ceiling_s / 2)
    assert sizing.chosen is None
    assert sizing.frontier
    # Even without latency it takes longer.
    assert format_duration(ceiling_s) in sizing.notes[0]
    fastest = min(sizing.frontier, key=lambda row: row.interval_s[1])
    closest = size([Sized(forecasters[0])], **alone, within_s=ceiling_s * 1.0001)
    assert closest.chosen is None
    assert fastest.target in closest.notes[0]
    assert format_duration(ceiling_s) not in closest.notes[0].partition(";")[2]


def test_the_mean_over_statements_is_weighted_by_their_runs(forecasters):
    today_s = [f.workload.total_s for f in forecasters[:2]]
    for weights in ({"runs_per_day": 10.0}, {"calls": 10.0}):
        thirty = {name: 30.0 for name in weights}
        both = Sized(forecasters[0], **weights), Sized(forecasters[1], **thirty)
        sizing = size(both, load_prices(), products=("gcp-local-ssd",))
        assert sizing.baseline_s == pytest.approx((today_s[0] + 3 * today_s[1]) / 4)


def test_the_interval_of_several_statements_is_that_of_the_slowest(forecasters):
    search = Search([Sized(f, runs) for f, runs in zip(forecasters, (1.0, 3.0), strict=False)],
                    load_prices(), None)  # fmt: skip
    times = search.times_of([10.0, 30.0], [(5.0, 12.0), (25.0, 40.0)])
    assert (times.elapsed_s, times.interval_s) == (25.0, (25.0, 40.0))
    today_s = [f.workload.total_s for f in forecasters[:2]]
    saved_s = 1 * (today_s[0] - 10.0) + 3 * (today_s[1] - 30.0)
    assert times.saved_h_per_month == pytest.approx(365.25 / 12 * saved_s / 3600)


def test_the_choice_has_most_of_the_saving_of_the_fastest(sizings):
    for sizing in sizings:
        # Rows whose interval ends above the present time may save nothing.
        sure = [row for row in sizing.frontier if row.interval_s[1] < sizing.baseline_s]
        saved_s = [sizing.baseline_s - row.elapsed_s for row in sure]
        worth = [row for row, s in zip(sure, saved_s, strict=True) if s >= 0.9 * max(saved_s)]
        assert sizing.chosen == (worth[0] if worth else None)
        assert {line.split()[2].rstrip(",") for line in sizing.prices} == {
            row.provider for row in sizing.frontier
        }


@cases("unpriced", ["aws-sc1", "gcp-local-ssd"])
def test_unpriced_storage_is_named_if_it_is_faster_than_all_priced(forecasters, unpriced):
    prices = load_prices()
    known = replace(prices, prices=[p for p in prices.prices if p.product != unpriced])
    sizing = size([Sized(forecasters[2])], known, products=("aws-sc1", "gcp-local-ssd"))
    assert bool(sizing.frontier)
    targets = [row.target.partition("?")[0] for row in sizing.unpriced]
    assert targets == (["catalogue:gcp-local-ssd"] if unpriced == "gcp-local-ssd" else [])


GIB_PRICES = {"GiB-month": [(0, 2.0)], "IOPS-month": [(0, 0.0), (3000, 0.01)]}


@cases(
    ("name", "settings", "prices", "cost", "price_of"),
    [
        # Its size is the temp files' size in whole GiB, or larger if its IOPS require it.
        ("aws-io2", {"iops": 4000}, GIB_PRICES, 201 * 2.0 + 1000 * 0.01, None),
        ("aws-io2", {"iops": 256000}, GIB_PRICES, 256 * 2.0 + 253000 * 0.01, None),
        # It is sold as a disk of 375 GiB.
        ("gcp-local-ssd", {}, {"GiB-month": [(0, 2.0)]}, 375 * 2.0, None),
        # It has no minimum size.
        ("gcp-hyperdisk-extreme", {"iops": 2000}, GIB_PRICES, 200.5 * 2.0, None),
        ("azure-p30", {}, {"month": [(0, 99.0)]}, 99.0, None),
        ("aws-i4i-large", {}, {"instance-hour": [(0, 3.0)]}, 730 * 3.0, "instance"),
        (
            "aws-c5d-large",
            {},
            {"instance-hour": [(0, 3.0)], "instance-hour-without": [(0, 2.5)]},
            730 * 0.5,
            "difference",
        ),
        # The price per operation is missing.
        ("aws-io2", {"iops": 4000}, {"GiB-month": [(0, 2.0)]}, None, None),
        ("aws-io2", {"iops": 4000}, {}, None, None),
    ],
)
def test_the_monthly_cost_follows_the_price_list(name, settings, prices, cost, price_of):
    listed = [
        Price(name, unit, above, price, "USD", DEFAULT_REGIONS[name.partition("-")[0]], *[None] * 3)
        for unit, tiers in prices.items()
        for above, price in tiers
    ]
    search = SimpleNamespace(prices=Prices(listed, DEFAULT_REGIONS), needed_bytes=200.5 * 2**30)
    product = Product(rows_by_name()[name], search)
    assert product.cost(settings) == (None if cost is None else pytest.approx(cost))
    assert product.price_of == price_of


def test_settings_above_a_free_minimum_are_searched(forecasters):
    """A contract that includes gp3's volume and charges for what exceeds 3,000 IOPS, 125 MiB/s."""
    charged = {"GiB-month": (0, 0.0), "IOPS-month": (3000, 0.006), "throughput-month": (125, 0.05)}
    listed = [
        Price("aws-gp3", unit, above, price, "USD", "us-east-1", *[None] * 3)
        for unit, (above, price) in charged.items()
    ]
    prices = Prices(listed, DEFAULT_REGIONS)
    fastest = forecasters[0].forecast(lookup("aws-gp3?iops=80000&throughput=2000"), explain=False)
    limit_s = 1.05 * interval_of(fastest)[1]
    product = Product(
        rows_by_name()["aws-gp3"], Search([Sized(forecasters[0])], prices, limit_s, steps=STEPS)
    )
    assert product.cost(product.lowest) == 0
    settings = (
        dict(zip(product.grids, values, strict=True))
        for values in combinations(*product.grids.values())
    )
    expected = min(product.cost(chosen) for chosen in settings if product.meets(chosen))
    assert expected > 0
    assert product.cost(product.cheapest(inf)) == pytest.approx(expected)


def test_one_storage_for_several_statements_meets_the_limit_of_each(forecasters):
    limits = {"within_s": 2.0, "products": PRODUCTS}
    alone = [size([Sized(f)], load_prices(), **limits) for f in forecasters[:2]]
    both = size([Sized(f, 10.0) for f in forecasters[:2]], load_prices(), **limits)
    if both.chosen is not None:
        prices = [sizing.chosen.cost_per_month for sizing in alone]
        assert both.chosen.cost_per_month >= max(prices) - 1e-9
    assert both.statements == 2
    # The present storage suffices for a query that takes no longer than the limit.
    slowest_s = max(forecaster.workload.total_s for forecaster in forecasters[:2])
    for within_s, enough in ((slowest_s, True), (0.99 * slowest_s, False)):
        limits = {"within_s": within_s, "products": PRODUCTS}
        both = size([Sized(f, 10.0) for f in forecasters[:2]], load_prices(), **limits)
        assert both.suffices == enough
    assert replace(alone[0], within_s=alone[0].baseline_s).suffices
    assert not replace(alone[0], within_s=alone[0].baseline_s * 0.99).suffices


def test_free_memory_costs_nothing(forecasters):
    alone = {"prices": load_prices(), "products": PRODUCTS}
    sizing = size([Sized(forecasters[0])], **alone, free_memory_bytes=1 << 40)
    assert sizing.frontier[0].target == "tmpfs"
    assert sizing.frontier[0].cost_per_month == 0


def test_a_product_missing_from_the_price_list_has_no_price(forecasters):
    prices = load_prices()
    without = replace(prices, prices=[p for p in prices.prices if p.product != "aws-gp3"])
    sizing = size([Sized(forecasters[2])], without, products=("aws-gp3",))
    assert not sizing.frontier
    assert all(row.cost_per_month is None for row in sizing.unpriced)


def test_size_and_forecast_show_the_same_ceiling(tmp_path, monkeypatch):
    # The search of size uses a sample of the waits of a large recording.
    monkeypatch.setattr(sizing_module, "WHOLE_MAX", 1000)
    monkeypatch.setattr(sizing_module, "WAITS_MAX", 500)
    path = write_varied_recording(tmp_path / "large.spill", 8000, 3, 500)
    [(limit, _)] = ask([path], [LIMIT])
    statements = statements_of([str(path)], Question(), None)
    sizing = size(statements, load_prices(), products=("aws-gp3",))
    assert sizing.ceiling_s == limit.ceiling_s
    assert sizing.ceiling_interval_s == limit.ceiling_interval_s


@cases(("text", "runs"), [("40", 40), ("2/h", 48), ("5/12h", 10), ("7/week", 1), ("3/1d", 3)])
def test_runs_per_day_are_parsed(text, runs):
    assert parse_runs_per_day(text) == pytest.approx(runs)


@cases("text", ["0/day", "5/0s", "nan", "5/fortnight"])
def test_invalid_numbers_of_runs_are_refused(text):
    with pytest.raises(OptionInvalid):
        parse_runs_per_day(text)


def test_storage_that_saves_next_to_nothing_is_not_bought(tmp_path):
    """6 us per block is the time of the page cache, which no storage shortens."""
    cached = {"max_parallel_workers_per_gather": 0, "mean_ms": 45.0, "blocks": 1200}
    rows = [row(queryid, temp_ms=7.2, **cached) for queryid in (815, 816)]
    path = export(tmp_path / "statements.csv", 15, *rows)
    statements = statements_of([str(path)], Question(), None)
    sizing = size(statements, load_prices(), free_memory_bytes=0)
    assert sizing.frontier
    assert sizing.chosen is None
    in_memory = size(statements, load_prices(), free_memory_bytes=1 << 40).frontier[0]
    assert (in_memory.target, in_memory.elapsed_s) == ("tmpfs", pytest.approx(0.045, rel=0.01))


def test_the_present_storage_gives_the_io_times_of_an_export(tmp_path):
    """1,200 blocks of 1 ms each are 1.2 s of 2 s; PostgreSQL 14 does not measure them."""
    timed = {"max_parallel_workers_per_gather": 0, "mean_ms": 2000.0, "blocks": 1200}
    path = export(tmp_path / "statements.csv", 14, row(**timed), row(816, **timed))
    for queryid, elapsed_s in ((None, None), ("815", None), ("815", 3.0)):
        question = Question(origin="latency:1ms", queryid=queryid, elapsed_s=elapsed_s)
        statements = statements_of([str(path)], question, None)
        sizing = size(statements, load_prices(), products=("aws-gp3",))
        assert sizing.ceiling_s == pytest.approx((elapsed_s or 2.0) - 1.2, rel=0.01), queryid
    with pytest.raises(EvidenceAmbiguous):
        statements_of([str(path)], Question(elapsed_s=3.0), None)
