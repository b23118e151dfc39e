"""Temp files are recognised without options, and base tables are not temp files."""

import json

import pytest

from cases import nightly
from harness import (
    account_of,
    available,
    check_rows,
    only_line,
    rows,
    spillcast,
    target,
)

CAPTURES = ["bpf", "perf", "preload"]
RECOGNISED = {
    "TMPDIR": ("temp/spill", ()),
    "unlinked": ("data/spill", ("--unlink",)),
    "DuckDB": ("data/duckdb_temp_storage_S96K-0.tmp", ()),
    "PostgreSQL": ("data/base/pgsql_tmp/pgsql_tmp4711.0", ()),
}


def record(places, capture, file, *options, requested=()):
    file.parent.mkdir(parents=True, exist_ok=True)
    output = places.root / "run.spill"
    command = target("spill", "--file", file, "--base", places.base, *options)
    result = spillcast(
        "record", "--capture", capture, *requested, "-o", output, "--", *command, env=places.env
    )
    return result, output


# File names are judged in one place for all sources; unlinked files by each source.
@pytest.mark.parametrize(
    ("kind", "capture"),
    [("DuckDB", "bpf"), ("PostgreSQL", "perf"), ("TMPDIR", "preload"),
     *(("unlinked", capture) for capture in CAPTURES)],
)  # fmt: skip
def test_temp_files_are_recognised_without_options(places, capture, kind):
    name, options = RECOGNISED[kind]
    result, output = record(places, capture, places.root / name, *options)
    assert result.returncode == 0, result.stderr
    account = account_of(result.stdout)
    check_rows(output, account, base=places.base)


@pytest.mark.parametrize("capture", ["perf", *nightly("bpf", "preload")])
def test_a_table_elsewhere_is_not_a_temp_file(places, capture):
    result, output = record(places, capture, places.data / "orders.db")
    assert result.returncode == 0, result.stderr
    # The table still exists, so its directory is not proposed.
    assert "did not spill" in result.stdout or "no temp I/O was seen" in result.stdout
    assert "--temp" not in result.stdout or "--temp DIR" in result.stdout
    account = account_of(result.stdout)
    seen = rows(output, files={operation[5] for operation in account["account"]})
    assert not any(row[-1] for row in seen)
    assert sum(seen.values()) == len(account["account"])


@pytest.mark.parametrize("capture", ["bpf", *nightly("perf", "preload")])
def test_only_files_below_a_named_directory_are_temp(places, capture):
    requested = ("--temp", places.data)
    result, output = record(places, capture, places.data / "spill", requested=requested)
    assert result.returncode == 0, result.stderr
    account = account_of(result.stdout)
    files = {operation[5] for operation in account["account"]}
    seen = rows(output, files=files)
    # The base table lies in that directory, too.
    assert all(row[-1] for row in seen)
    assert sum(seen.values()) == len(account["account"])


def test_a_named_directory_without_temp_io_is_reported(places):
    elsewhere = places.root / "elsewhere"
    elsewhere.mkdir()
    result, output = record(places, "auto", places.temp / "spill", requested=("--temp", elsewhere))
    assert result.returncode == 0, result.stderr
    assert f"under {elsewhere}" in result.stdout
    assert output.exists()


@pytest.mark.parametrize("capture", ["bpf", "preload", *nightly("perf")])
def test_a_command_without_a_spill_keeps_its_exit_status(places, capture):
    options = ("--capture", available(capture), "-o", places.root / "run.spill")
    command = ("sh", "-c", f"wc < {places.base}; exit $1", "sh")
    for status in (0, 7):
        result = spillcast("record", *options, "--force", "--", *command, status, env=places.env)
        assert result.returncode == status, result.stderr
    meta = json.loads((places.root / "run.spill" / "meta.json").read_text())
    # Neither preload nor perf sees all writes of a short program.
    assert meta["spilled"] in {"bpf": [False], "perf": [False, None], "preload": [None]}[capture]
    if meta["spilled"] is False:
        completed = spillcast("forecast", places.root / "run.spill", "--to", "latency:1ms")
        assert "spill" in only_line(completed, 3)


def test_a_named_directory_must_exist(places):
    missing = places.root / "missing"
    result, _ = record(places, "auto", places.temp / "spill", requested=("--temp", missing))
    assert f"--temp {missing}: there is no such directory" in only_line(result, 2)
