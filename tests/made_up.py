"""Made-up cases for the arithmetic of reports; parameters not given have ordinary values."""

from spillcast.engines.queries import RunResult
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.result import Forecast, Term
from spillcast.lab.case import Case, CaseEvidence, Runs, Variant


def forecast(**changes):
    """A forecast of 10 s instead of 20 s."""
    usual = {
        "target": "target", "baseline_s": 20.0, "forecast_s": 10.0, "interval_s": (9.0, 11.0),
        "confidence": 0.9, "ceiling_s": 4.0, "terms": [], "warnings": [], "refused": None,
    }  # fmt: skip
    return Forecast(**usual | changes)


def runs(*elapsed_s, delays_s=None, cpu_s=None, wanted=None):
    """Runs with the same CPU time each, and without delays where none are given."""
    count = len(elapsed_s)
    figures = zip(elapsed_s, delays_s or [0.0] * count, cpu_s or [1.0] * count, strict=True)
    return Runs(
        [RunResult(elapsed_s, "", *others) for elapsed_s, *others in figures], wanted or count
    )


def case(
    forecast_s=10.0,
    measured_s=10.0,
    *,
    half_width=0.1,
    interval_s=None,
    seed_s=None,
    refused=None,
    evidence="recording",
    workload="sort",
    threads=1,
    engine="DuckDB 2.0.0",
    source="1 ms",
    target="tmpfs",
    direction="slow to fast",
    covers_s=3.0,
    probe_s=2.0,
    on_target=None,
    uncertainty=None,
    ceiling_interval_s=None,
    means=(None, None),
    variants=None,
):
    """A case whose interval is ``forecast_s`` plus or minus ``half_width`` of it."""
    if refused is not None:
        forecast_s = interval_s = None
    elif interval_s is None:
        interval_s = (forecast_s * (1 - half_width), forecast_s * (1 + half_width))
    rest = Term("CPU", None, None, None, 4.0, 4.0)
    io = Term("temp read", "read", 8192, 1, 16.0, (forecast_s or 4.0) - 4.0)
    on_target = on_target or runs(measured_s)
    on_source = runs(20.0, 20.0, 20.0, wanted=on_target.wanted)
    warned = [Caveat("threads", "several threads do temp I/O")]
    answer = forecast(
        target=target,
        forecast_s=forecast_s,
        interval_s=interval_s,
        terms=[rest, io],
        warnings=warned,
        refused=refused,
        uncertainty=uncertainty,
        ceiling_interval_s=ceiling_interval_s,
    )
    return Case(
        engine, workload, threads, source, target, direction, on_source, on_target, answer, seed_s,
        CaseEvidence(evidence, covers_s, 0.1, probe_s, 0.001, 0.00001), *means, variants or {},
    )  # fmt: skip


def otherwise(forecast_s=None, *, half_width=0.1, ceiling_low_s=3.5):
    """The numbers of an alternative forecast; refused where there is none."""
    bounds = None
    if forecast_s is not None:
        bounds = forecast_s * (1 - half_width), forecast_s * (1 + half_width)
    return Variant(forecast_s, bounds, 4.0, (ceiling_low_s, 4.5))
