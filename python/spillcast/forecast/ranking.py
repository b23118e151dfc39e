"""Several targets side by side: which is the fastest, what each is worth, and their document."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spillcast.errors import OptionInvalid, Refusal, TargetUnknown
from spillcast.forecast.result import FORECAST_SCHEMA, Forecast
from spillcast.forecast.verdict import Verdict, negligible, rank_s, verdict


def priced(
    words: Sequence[str], forecasts: Sequence[Forecast], costs: Mapping[str, float]
) -> list[Forecast]:
    """Forecasts for the targets that ``words`` name, in the same order, with ``costs`` by word."""
    results = [replace(f, cost=costs.get(word)) for word, f in zip(words, forecasts, strict=True)]
    worth = [forecast for forecast in results if (_saved_per_cost_s(forecast) or 0) > 0]
    # Of what costs nothing, or as much for each second, the one that saves more.
    best = max(worth, key=lambda f: (_saved_per_cost_s(f) or 0, _saved_s(f)), default=None)
    return [replace(forecast, best_value=forecast is best) for forecast in results]


def ranked(forecasts: Sequence[Forecast]) -> list[Forecast]:
    """From the fastest to the slowest, refused ones last."""
    return sorted(forecasts, key=rank_s)


def forecasts_document(forecasts: Sequence[Forecast]) -> dict[str, Any]:
    """The document of docs/schema.md: of one target, or of several; with the verdict on all."""
    answer = {"verdict": verdict(forecasts).to_json()}
    if len(forecasts) == 1:
        return forecasts[0].to_json() | answer
    targets = [forecast.to_json() for forecast in forecasts]
    return {"schema": FORECAST_SCHEMA, **answer, "targets": targets}


def refusal_document(refusal: Refusal) -> dict[str, Any]:
    """The document where the evidence allows a forecast for no target, and tells no time either."""
    answer = Verdict("none", [f"No forecast: {refusal.message}."], None, None, [])
    return {
        "schema": FORECAST_SCHEMA,
        "verdict": answer.to_json(),
        "targets": [],
        "refused": refusal.message,
        "refused_code": refusal.code,
        "hint": refusal.hint,
    }


def parse_costs(
    priced: Sequence[str], words: Sequence[str], option: str = "--to"
) -> dict[str, float]:
    """Prices such as ``catalogue:aws-gp3=96`` of the storages in ``words``, given by ``option``.

    InputError names one that is no price, or of no such storage.
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
        if name not in words:
            kind = "targets" if option == "--to" else "storages"
            hint = f"the {kind} are: {', '.join(words)}"
            raise TargetUnknown(f"--cost {text}: there is no {option} {name}", hint)
        costs[name] = cost
    return costs


def _saved_s(forecast: Forecast) -> float:
    """Time saved; 0 without a number, and where it is about nothing."""
    if forecast.forecast_s is None:
        return 0.0
    saved_s = forecast.baseline_s - forecast.forecast_s
    return 0.0 if negligible(saved_s, forecast.baseline_s) else saved_s


def _saved_per_cost_s(forecast: Forecast) -> float | None:
    """Time saved for each unit of the price; None without a price or a number."""
    if forecast.cost is None or forecast.forecast_s is None:
        return None
    saved_s = _saved_s(forecast)
    if not forecast.cost:
        return float("inf") if saved_s > 0 else saved_s
    return saved_s / forecast.cost
