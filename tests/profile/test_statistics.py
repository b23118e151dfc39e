"""Spooled session statistics are shown, queried in SQL, and warn that temp is already on flash."""

import json

import pytest

from harness import spillcast
from oracle_files import make_example

HEADING = '"NAME","VALUE","PER_SECOND","ACCUMULATED"'
#: The figures of a join that probes its table, with temp in the flash cache, over 3 s.
PROBING = (
    ("cell flash cache read hits for temp IO", 1_796, 598, 213_697),
    ("physical read IO requests", 1_796, 598, 437_439),
    ("physical reads", 55_676, 18_558, 29_052_068),
    ("physical reads direct temporary tablespace", 55_676, 18_558, 6_624_080),
)


@pytest.fixture
def statistics(tmp_path):
    path = tmp_path / "statistics.csv"
    lines = [HEADING]
    for _ in range(2):
        lines += [f'"{name}",{",".join(map(str, numbers))}' for name, *numbers in PROBING]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_growth_adds_up_over_intervals(statistics):
    document = json.loads(spillcast("profile", statistics, "--json").stdout)
    for row, (name, value, per_second, accumulated) in zip(document["rows"], PROBING, strict=True):
        assert row == {
            "event": name,
            "value": 2 * value,
            "per_second_max": per_second,
            "accumulated": accumulated,
        }


def test_sql_sees_every_interval(statistics):
    query = "select max(interval), count(*) from statistics"
    assert json.loads(spillcast("profile", statistics, "--sql", query, "--json").stdout)[
        "rows"
    ] == [[1, 8]]


def test_any_other_query_is_refused(statistics):
    result = spillcast("profile", statistics, "--by", "file")
    assert result.returncode == 2
    assert "statistics" in result.stderr


def test_a_forecast_warns_that_flash_serves_temp(statistics, tmp_path):
    make_example(tmp_path)
    result = spillcast(
        "forecast", tmp_path / "ash.csv", tmp_path / "hdd.trc", statistics,
        "--to", tmp_path / "flash.trc", "--json",
    )  # fmt: skip
    codes = {warning["code"] for warning in json.loads(result.stdout)["warnings"]}
    assert "flash-cache" in codes
