"""Prices of the catalogue's products by region, from the built-in table or a CSV file of the user.

``data/prices.csv`` has the date that the source of each price states and the date on which it was
read. A row without a price means that no source was found; nothing is estimated.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

from spillcast.errors import EvidenceDamaged, TargetUnknown
from spillcast.gate import reading, text_of
from spillcast.storage.catalogue import nearest, rows_by_name, table
from spillcast.storage.catalogue.formulas import GIB

PROVIDERS = ("aws", "gcp", "azure")
#: The default region of each provider.
DEFAULT_REGIONS = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}
#: A price is per unit and month, or per hour of an instance. The price without local disks is
#: subtracted.
UNITS = (
    "GiB-month", "IOPS-month", "throughput-month", "month", "instance-hour",
    "instance-hour-without",
)  # fmt: skip
#: Hours per month in price lists.
MONTH_H = 730
#: Prices whose source is older than this are reported as old.
OLD_DAYS = 365
_REQUIRED = ("product", "unit", "price")
_COLUMNS = "product,unit,above,price,currency,region,as_of,read,source"


@dataclass(frozen=True)
class Price:
    """A price of a product in a region. ``price`` is None if no source was found."""

    product: str
    unit: str
    #: The quantity above which it applies; less is included or has another price.
    above: float
    price: float | None
    currency: str
    region: str
    #: The date that the source states; None if it does not.
    as_of: date | None
    read: date | None
    source: str


@dataclass(frozen=True)
class Prices:
    """Prices of products in one region for each provider."""

    prices: Sequence[Price]
    regions: Mapping[str, str]

    @cached_property
    def _by_product(self) -> Mapping[str, Sequence[Price]]:
        by_product: dict[str, list[Price]] = {}
        for price in self.prices:
            if price.region == self.regions.get(provider_of(price.product)):
                by_product.setdefault(price.product, []).append(price)
        return by_product

    def of(self, product: str) -> Sequence[Price]:
        """The prices of a product; empty if the region has none."""
        return self._by_product.get(product, ())

    @property
    def currency(self) -> str:
        """The currency of all prices."""
        return next((price.currency for price in self.prices), "USD")

    def month(self, product: str, values: Mapping[str, float], size_bytes: float) -> float | None:
        """The cost of a month with these settings; None if a price is missing.

        ``values`` holds IOPS and throughput by the keys of the catalogue; ``size_bytes`` is
        provisioned.
        """
        by_unit: dict[str, list[Price]] = {}
        for price in self.of(product):
            by_unit.setdefault(price.unit, []).append(price)
        quantities = {
            "GiB-month": size_bytes / GIB,
            "IOPS-month": values.get("iops"),
            "throughput-month": values.get("throughput"),
            "month": 1.0,
            "instance-hour": float(MONTH_H),
            "instance-hour-without": -float(MONTH_H),
        }
        charged = {unit for unit in UNITS[1:3] if quantities[unit] is not None}
        if not by_unit or not charged <= by_unit.keys():
            return None
        cost = 0.0
        for unit, tiers in by_unit.items():
            part = _tiered(tiers, quantities[unit] or 0.0)
            if part is None:
                return None
            cost += part
        return cost

    def notes(self, products: Iterable[str], today: date) -> list[str]:
        """The dates and regions of prices of products, and which of them are old or undated."""
        used: dict[str, list[Price]] = {}
        for product in products:
            used.setdefault(provider_of(product), []).extend(self.of(product))
        lines = []
        for provider, prices in used.items():
            dates = [price.as_of for price in prices if price.as_of is not None]
            words = f"prices of {provider}, {self.regions[provider]}: "
            if dates:
                first, last = (f"{day:%Y-%m}" for day in (min(dates), max(dates)))
                words += first if first == last else f"{first} to {last}"
            undated = sorted({price.product for price in prices if price.as_of is None})
            if undated:
                words += "; " * bool(dates) + f"the source has no date for {', '.join(undated)}"
            if dates and (today - min(dates)).days > OLD_DAYS:
                words += "; some are older than a year: check them or give --prices"
            lines.append(words)
        return lines


def _tiered(tiers: Sequence[Price], quantity: float) -> float | None:
    """The cost of a quantity, each part at its tier's price; None if a tier has no price."""
    cost, order = 0.0, sorted(tiers, key=lambda price: price.above)
    if quantity < 0:
        return None if order[0].price is None else quantity * order[0].price
    for price, following in zip(order, [*order[1:], None], strict=True):
        end = quantity if following is None else min(quantity, following.above)
        if end > price.above:
            if price.price is None:
                return None
            cost += (end - price.above) * price.price
    return cost


def provider_of(product: str) -> str:
    """``aws`` of ``aws-gp3``."""
    return product.partition("-")[0]


def load_prices(
    file: Path | None = None,
    region: str | None = None,
    providers: Sequence[str] = PROVIDERS,
) -> Prices:
    """The built-in prices, replaced by a file's prices for the products and regions in it.

    InputError gives the line of a damaged file, or the regions that have prices.
    """
    prices = [_price(record) for record in table("prices")]
    if file is not None:
        given = _read(file)
        replaced = {(price.product, price.region) for price in given}
        # Prices in another currency cannot be compared with the built-in ones.
        kept = prices if given[0].currency == prices[0].currency else []
        prices = [p for p in kept if (p.product, p.region) not in replaced] + given
    known: dict[str, set[str]] = {}
    for price in prices:
        known.setdefault(provider_of(price.product), set()).add(price.region)
    regions = {provider: DEFAULT_REGIONS[provider] for provider in providers}
    if region is not None:
        regions = {p: region for p in providers if region in known.get(p, ())}
        if not regions:
            lists = "; ".join(
                f"{p}: {', '.join(sorted(known[p]))}" for p in providers if p in known
            )
            hint = f"give them with --prices FILE ({_COLUMNS}), or choose one of {lists}"
            raise TargetUnknown(f"--region {region}: there are no prices for it", hint)
    return Prices([p for p in prices if provider_of(p.product) in regions], regions)


def _read(file: Path) -> list[Price]:
    """The prices of a CSV file."""
    header = f"the first line names the columns: {_COLUMNS}"
    with reading(file, header):
        reader = csv.DictReader(text_of(file).splitlines())
        if missing := [name for name in _REQUIRED if name not in (reader.fieldnames or ())]:
            raise EvidenceDamaged(f"no column {', '.join(missing)}")
        prices = list[Price]()
        for record in reader:
            try:
                prices.append(_price(record))
            except EvidenceDamaged as error:
                message = f"line {reader.line_num}: {error.message}"
                raise EvidenceDamaged(message, error.hint) from error
        if not prices:
            raise EvidenceDamaged("holds no prices")
        if len(currencies := sorted({price.currency for price in prices})) > 1:
            raise EvidenceDamaged(f"several currencies: {', '.join(currencies)}", "use one")
        return prices


def _price(record: Mapping[str, str | None]) -> Price:
    """A line of a table of prices. EvidenceDamaged if it is invalid."""
    cells = {name: (value or "").strip() for name, value in record.items() if name}
    product, unit = cells["product"].removeprefix("catalogue:"), cells["unit"]
    if product not in rows_by_name():
        near = " or ".join(nearest(product))
        hint = f"do you mean {near}?" if near else "see: spillcast storage list"
        raise EvidenceDamaged(f"product {product or 'is empty'}: not in the catalogue", hint)
    if provider_of(product) not in PROVIDERS:
        hint = f"products with a price are those of {', '.join(PROVIDERS)}"
        raise EvidenceDamaged(f"product {product}: it cannot be rented", hint)
    if unit not in UNITS:
        raise EvidenceDamaged(f"unit {unit or 'is empty'}", f"units are {', '.join(UNITS)}")
    return Price(
        product=product,
        unit=unit,
        above=_number(cells.get("above") or "0", "above") or 0.0,
        price=_number(cells["price"], "price"),
        currency=cells.get("currency") or "USD",
        region=cells.get("region") or DEFAULT_REGIONS.get(provider_of(product), ""),
        as_of=_date(cells.get("as_of"), "as_of"),
        read=_date(cells.get("read"), "read"),
        source=cells.get("source") or "given with --prices",
    )


def _number(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise EvidenceDamaged(f"{name} {text}: not a number of 0 or more", "such as 0.08")
    return number


def _date(text: str | None, name: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        hint = "dates are written 2026-06-30"
        raise EvidenceDamaged(f"{name} {text}: not a date", hint) from None
