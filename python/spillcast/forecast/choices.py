"""Several targets side by side: which is the fastest, and what each is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.document import read
from spillcast.errors import InputError
from spillcast.forecast.in_memory import negligible, rank_s
from spillcast.forecast.result import FORECAST_SCHEMA, Forecast
from spillcast.forecast.told import Told
from spillcast.forecast.verdict import Verdict, verdict_of


@dataclass(frozen=True)
class Choice:
    """A target with its price, in whatever unit all prices are given."""

    forecast: Forecast
    cost: float | None = None
    #: It saves the most time for its price.
    best_value: bool = False

    @property
    def value_s(self) -> float | None:
        """Time saved for each unit of the price; None without a price or a number."""
        if self.cost is None or self.forecast.forecast_s is None:
            return None
        if not self.cost:
            return float("inf") if self.saved_s > 0 else self.saved_s
        return self.saved_s / self.cost

    @property
    def saved_s(self) -> float:
        """Time saved; 0 without a number, and where it is about nothing."""
        forecast = self.forecast
        saved_s = 0.0 if forecast.forecast_s is None else forecast.baseline_s - forecast.forecast_s
        return 0.0 if negligible(saved_s, forecast.baseline_s) else saved_s

    def to_json(self) -> dict[str, Any]:
        """The forecast's document, with the price."""
        return {**self.forecast.to_json(), "cost": self.cost, "best_value": self.best_value}


def choices(
    words: Sequence[str], forecasts: Sequence[Forecast], costs: Mapping[str, float] | None = None
) -> list[Choice]:
    """Forecasts for the targets that ``words`` asked for, in the same order; ``costs`` by word."""
    costs = costs or {}
    priced = [Choice(f, costs.get(word)) for word, f in zip(words, forecasts, strict=True)]
    worth = [choice for choice in priced if (choice.value_s or 0) > 0]
    # Of what costs nothing, or as much for each second, the one that saves more.
    best = max(worth, key=lambda choice: (choice.value_s or 0, choice.saved_s), default=None)
    return [Choice(c.forecast, c.cost, c is best) for c in priced]


def ranked(choices: Sequence[Choice]) -> list[Choice]:
    """From the fastest to the slowest, refused ones last."""
    return sorted(
        choices,
        key=lambda choice: rank_s(choice.forecast.forecast_s, choice.forecast.without_cache_s),
    )


def told_of(choices: Sequence[Choice]) -> list[Told]:
    """The forecasts as their documents tell them."""
    return [read(Told, choice.to_json(), "a forecast", "forecast again") for choice in choices]


def verdict(choices: Sequence[Choice]) -> Verdict:
    """On all targets together."""
    return verdict_of(told_of(choices))


def choices_document(choices: Sequence[Choice]) -> dict[str, Any]:
    """The document of docs/schema.md: of one target, or of several; with the verdict on all."""
    answer = {"verdict": verdict(choices).to_json()}
    if len(choices) == 1:
        return choices[0].to_json() | answer
    targets = [choice.to_json() for choice in choices]
    return {"schema": FORECAST_SCHEMA, **answer, "targets": targets}


def refusal_document(reason: str, hint: str | None) -> dict[str, Any]:
    """The document where the evidence allows a forecast for no target, and tells no time either."""
    verdict = Verdict("none", [f"No forecast: {reason}."], None, None, [])
    return {
        "schema": FORECAST_SCHEMA,
        "verdict": verdict.to_json(),
        "targets": [],
        "refused": reason,
        "hint": hint,
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
            raise InputError(f"--cost {text}: not a price", "for example --cost /mnt/nvme=120")
        if name not in words:
            kind = "targets" if option == "--to" else "storages"
            hint = f"the {kind} are: {', '.join(words)}"
            raise InputError(f"--cost {text}: there is no {option} {name}", hint)
        costs[name] = cost
    return costs
