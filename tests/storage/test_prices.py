"""Prices of the catalogue: monthly costs as providers bill them, and price files."""

from datetime import date

import pytest

from cases import cases
from spillcast.errors import EvidenceDamaged, TargetUnknown
from spillcast.storage.catalogue import MOVABLE, managed_databases, rows_by_name, table
from spillcast.storage.catalogue.prices import load_prices

GIB = 1 << 30
HEADER = "product,unit,above,price,currency,region,as_of\n"


@cases(
    ("product", "values", "gib", "region", "cost"),
    [
        # infracost's monthly costs of the same volumes.
        ("aws-gp3", {"iops": 4000, "throughput": 130}, 40, "us-west-2", 3.20 + 5.00 + 0.20),
        ("aws-io1", {"iops": 300}, 30, "us-east-1", 3.75 + 19.50),
        ("aws-st1", {}, 40, "us-east-1", 1.80),
        ("azure-ultra", {"iops": 4000, "throughput": 20}, 2048, "eastus", 245.19 + 198.56 + 6.99),
        # AWS bills io2 IOPS beyond 32,000 and 64,000 at lower prices.
        ("aws-io2", {"iops": 70000}, 100, "us-east-1", 12.5 + 2080 + 1456 + 191.1),
        # m5d.large minus m5.large, 730 hours.
        ("aws-m5d-large", {}, 50, "us-east-1", (0.113 - 0.096) * 730),
    ],
)
def test_the_monthly_cost_equals_that_of_the_provider(product, values, gib, region, cost):
    prices = load_prices(region=region)
    assert prices.month(product, values, gib * GIB) == pytest.approx(cost, abs=0.01)


def test_a_product_without_a_price_has_no_cost():
    prices = load_prices()
    assert prices.month("gcp-hyperdisk-balanced", {"iops": 3000, "throughput": 140}, GIB) is None
    frankfurt = load_prices(region="eu-central-1")
    included = {"iops": 3000, "throughput": 125}
    assert frankfurt.month("aws-gp3", included, 10 * GIB) == pytest.approx(0.952)
    assert frankfurt.month("aws-gp3", {**included, "iops": 4000}, 10 * GIB) is None


def test_every_price_belongs_to_a_product_and_has_a_source():
    for record in table("prices"):
        assert record["product"] in rows_by_name()
        assert record["read"]
        assert record["source"]
        assert (
            "https://" in record["source"] or not record["price"] or "AWS Price" in record["source"]
        )


def test_notes_name_dates_regions_and_old_prices():
    (line,) = load_prices().notes(["gcp-pd-ssd"], date(2025, 4, 1))
    assert "us-central1" in line
    assert "2025-03" in line
    assert "year" not in line
    (line,) = load_prices().notes(["gcp-pd-ssd"], date(2026, 11, 26))
    assert "older than a year" in line


def test_a_price_file_replaces_prices(tmp_path):
    file = tmp_path / "prices.csv"
    file.write_text(
        HEADER + "aws-gp3,GiB-month,,0.05,USD,,2026-06-01\naws-gp3,IOPS-month,3000,0.01,,,\n"
    )
    prices = load_prices(file)
    assert prices.month("aws-gp3", {"iops": 4000}, 10 * GIB) == pytest.approx(0.5 + 10)
    assert prices.month("aws-gp2", {}, 10 * GIB) == pytest.approx(1.0)
    file.write_text(HEADER + "aws-gp3,GiB-month,,0.05,EUR,,\n")
    euros = load_prices(file)
    assert euros.currency == "EUR"
    assert euros.month("aws-gp2", {}, GIB) is None


@cases(
    ("text", "where"),
    [
        ("product,unit\naws-gp3,GiB-month\n", "price"),
        (HEADER, "prices"),
        # The limit on a field's length is global to the process: the error names the field or the
        # header.
        ("[" * 200_000, "field|column"),
        (HEADER + "aws-gp9,GiB-month,,1,,,\n", "line 2"),
        (HEADER + "aws-gp3,GB,,1,,,\n", "line 2"),
        # A device that no provider rents: its price would be unused.
        (HEADER + "samsung-ssd-990-pro-2tb,month,,1,,,\n", "line 2"),
        (HEADER + "aws-gp3,GiB-month,,-1,,,\n", "line 2"),
        (HEADER + "aws-gp3,GiB-month,,1,,,June\n", "line 2"),
        (HEADER + "aws-gp3,GiB-month,,1,EUR,,\naws-gp2,GiB-month,,1,USD,,\n", "EUR"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(tmp_path, text, where):
    file = tmp_path / "prices.csv"
    file.write_text(text)
    with pytest.raises(EvidenceDamaged, match=where) as refused:
        load_prices(file)
    assert refused.value.hint
    assert refused.value.where == str(file)


def test_a_region_without_prices_is_refused():
    with pytest.raises(TargetUnknown) as refused:
        load_prices(region="mars-1")
    assert "us-east-1" in refused.value.hint


def test_managed_databases_name_rows_and_sources():
    for service in managed_databases():
        assert set(service.rows.split()) <= rows_by_name().keys()
        assert service.movable in MOVABLE
        assert "https://" in service.source
