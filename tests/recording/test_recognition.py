"""Temp files are recognised by themselves, and base tables are not."""

import pytest

from harness import account_of, expected_rows, only_line, rows, spillcast, target

CAPTURES = ["bpf", "perf", "preload"]
RECOGNISED = {
    "TMPDIR": ("temp/spill", ()),
    "unlinked": ("data/spill", ("--unlink",)),
    "DuckDB": ("data/duckdb_temp_storage_S96K-0.tmp", ()),
    "PostgreSQL": ("data/base/pgsql_tmp/pgsql_tmp4711.0", ()),
}


def record(places, capture, file, *options, asked=()):
    file.parent.mkdir(parents=True, exist_ok=True)
    output = places.root / "run.spill"
    command = target("spill", "--file", file, "--base", places.base, *options)
    result = spillcast(
        "record", "--capture", capture, *asked, "-o", output, "--", *command, env=places.env
    )
    return result, output


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("kind", RECOGNISED)
def test_recognised_by_itself(places, capture, kind):
    name, options = RECOGNISED[kind]
    result, output = record(places, capture, places.root / name, *options)
    assert result.returncode == 0, result.stderr
    account = account_of(result.stdout)
    files = {operation[5] for operation in account["account"]}
    assert rows(output, files=files) == expected_rows(account, base=places.base)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_table_elsewhere_is_no_temp_file(places, capture):
    result, output = record(places, capture, places.data / "orders.db")
    assert result.returncode == 0, result.stderr
    assert "no temp I/O was seen (" in result.stdout
    # The table is still there, so nothing proposes its directory.
    assert f"spillcast forecast {output} --temp DIR" in result.stdout
    account = account_of(result.stdout)
    seen = rows(output, files={operation[5] for operation in account["account"]})
    assert not any(row[-1] for row in seen)
    assert sum(seen.values()) == len(account["account"])


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_named_directory_is_the_only_one(places, capture):
    asked = ("--temp", places.data)
    result, output = record(places, capture, places.data / "spill", asked=asked)
    assert result.returncode == 0, result.stderr
    account = account_of(result.stdout)
    files = {operation[5] for operation in account["account"]}
    seen = rows(output, files=files)
    # The base table lies in that directory, too.
    assert all(row[-1] for row in seen)
    assert sum(seen.values()) == len(account["account"])


def test_no_temp_io_under_the_named_directory(places):
    elsewhere = places.root / "elsewhere"
    elsewhere.mkdir()
    result, output = record(places, "auto", places.temp / "spill", asked=("--temp", elsewhere))
    assert result.returncode == 0, result.stderr
    assert f"no temp I/O was seen under {elsewhere}" in result.stdout
    assert output.exists()


def test_what_writes_nothing_cannot_spill(places):
    output = places.root / "run.spill"
    result = spillcast("record", "-o", output, "--", "wc", places.base, env=places.env)
    assert result.returncode == 2
    assert "spillcast: no temp I/O was seen (" in result.stderr
    assert "--temp DIR" in result.stderr
    assert not output.exists()


def test_a_named_directory_must_exist(places):
    missing = places.root / "missing"
    result, _ = record(places, "auto", places.temp / "spill", asked=("--temp", missing))
    assert f"--temp {missing}: there is no such directory" in only_line(result, 2)
