"""Drawn recordings on drawn storages: the limit that binds, and the cheapest setting by search."""

from dataclasses import replace
from itertools import product as combinations

import numpy as np

from spillcast.forecast.binding import relieved
from spillcast.forecast.project import Projector, interval_of
from spillcast.forecast.query import read_workload
from spillcast.forecast.question import Question
from spillcast.forecast.sizing import Sized, size
from spillcast.forecast.sizing.products import Product, Search
from spillcast.recording import Recording
from spillcast.storage.catalogue import lookup, rows_by_name
from spillcast.storage.catalogue.prices import load_prices
from spillcast.storage.storage import bytes_limit, operations_limit
from varied_recording import write_varied_recording

#: Steps coarse enough to try all settings.
STEPS = {"iops": 8000.0, "throughput": 250.0, "size": 500.0 * (1 << 30)}
PRODUCTS = ("aws-gp3", "aws-io1", "aws-gp2", "gcp-pd-ssd", "azure-premium-ssd-v2")


def projector(folder, seed, waits=8000, wait_us=500):
    path = write_varied_recording(folder / f"{seed}.spill", waits, seed, wait_us)
    workload, _ = read_workload(Recording.open(path), Question())
    return Projector(workload)


def drawn_storage(seed):
    """Limits from far too low to far too high; a third of the storages also limit device time."""
    draws = np.random.default_rng(seed)
    base = lookup(str(draws.choice(["aws-gp3", "aws-io2", "aws-i4i-large"])))
    limits = [
        replace(operations_limit(10 ** draws.uniform(2, 5), burst=10), operation_bytes=262144),
        bytes_limit("throughput", 10 ** draws.uniform(6.5, 10), burst=1 << 20),
    ]
    if draws.integers(3) == 0:
        limits.append(base.limits[0])
        limits[-1] = replace(limits[-1], name="device time", burst_ns=0.0)
    return replace(base, name=f"drawn-{seed}", limits=limits)


def wrong_binding(forecaster, storage):
    """Why a binding limit contradicts forecasts with each limit doubled; None if it is correct."""
    forecast = forecaster.forecast(storage)
    binding = forecast.binding

    def saved_s(causes):
        doubled = forecaster.forecast(relieved(storage, causes), explain=False)
        return _total_s(forecast) - _total_s(doubled)

    temp_s = sum(term.forecast_s for term in forecast.terms if term.op)
    if forecast.forecast_s and abs(sum(w.elapsed_s for w in binding.waits) - temp_s) > 1e-6:
        return "the waits are not the temp I/O of the terms"
    singles = {cause: saved_s([cause]) for cause in ("latency", *(x.name for x in storage.limits))}
    allowed = 0.005 * _total_s(forecast) + 1e-9
    bound_s = saved_s(binding.bound_by) if binding.bound_by else 0.0
    if max(singles.values()) > bound_s + allowed:
        return f"{binding.bound_by} saves {bound_s}, others {singles}"
    if abs(bound_s - binding.saved_s) > allowed:
        return f"{binding.bound_by} saves {bound_s}, not {binding.saved_s}"
    return None


def _total_s(forecast):
    return forecast.forecast_s or forecast.uncertainty.forecast_s


def cheapest_by_trying(forecaster, within_s, steps):
    """The lowest price of all settings of PRODUCTS whose upper bound meets the limit."""
    search = Search([Sized(forecaster)], load_prices(), within_s, steps=steps)
    costs = []
    for name in PRODUCTS:
        tried = Product(rows_by_name()[name], search)
        for values in combinations(*tried.grids.values()):
            chosen = dict(zip(tried.grids, values, strict=True))
            cost = tried.cost(chosen)
            if cost is None or (costs and cost >= min(costs)):
                continue
            forecast = forecaster.forecast(tried.storage(chosen), explain=False)
            if forecast.forecast_s is not None and forecast.interval_s[1] <= within_s:
                costs.append(cost)
    return min(costs, default=None)


def cheapest_by_search(forecaster, within_s, steps):
    """The price that ``size`` returns among PRODUCTS, and the number of forecasts that it took."""
    sizing = size(
        [Sized(forecaster)], load_prices(), within_s=within_s, steps=steps, products=PRODUCTS
    )
    return sizing.chosen and sizing.chosen.cost_per_month, sizing.forecasts


def drawn_limit_s(forecaster, seed):
    """A limit between the upper bounds on gp3 with the highest and the lowest settings."""
    uppers_s = [
        interval_of(forecaster.forecast(lookup(target), explain=False))[1]
        for target in ("aws-gp3?iops=80000&throughput=2000", "aws-gp3?size=1G")
    ]
    share = np.random.default_rng(seed).uniform(-0.1, 1.1)
    return float(uppers_s[0] * (uppers_s[1] / uppers_s[0]) ** share)
