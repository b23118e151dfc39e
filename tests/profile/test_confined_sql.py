"""A query can read the evidence and no other file, whoever wrote the query."""

import json
import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cases import cases, nightly
from harness import TIMEOUT_S, spillcast, spillcast_command, until
from spillcast.errors import QueryInvalid
from spillcast.gate import reading
from spillcast.profile.sql import run_sql


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("word\nhunter2\n")
    return path


@cases(
    "query",
    [
        "from '{secret}'",
        "from read_text('{secret}')",
        "from glob('{folder}/*')",
        "copy (select 1) to '{folder}/out.csv'",
        "copy waits to '{folder}/out.csv'",
        "attach '{folder}/new.db'",
        "install httpfs",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
        "from read_csv('/dev/stdin')",
        "from query",
    ],
)
def test_no_other_file_can_be_opened(spilled, secret, query):
    before = sorted(secret.parent.iterdir())
    with pytest.raises(QueryInvalid) as refused:
        run_sql(query.format(secret=secret, folder=secret.parent), [str(spilled.path)])
    assert "hunter2" not in str(refused.value)
    assert sorted(secret.parent.iterdir()) == before


def test_the_evidence_can_be_read(spilled, example):
    assert run_sql("select count(*) from waits where temp", [str(spilled.path)])[1][0][0] > 0
    assert run_sql("select count(*) from waits", [str(example / "hdd.trc")])[1][0][0] > 0


def test_trace_rows_cannot_be_copied_to_files(tmp_path, example):
    with pytest.raises(QueryInvalid):
        run_sql(f"copy waits to '{tmp_path}/out.csv'", [str(example / "flash.trc")])
    assert not list(tmp_path.iterdir())


def test_an_interrupted_query_raises_keyboard_interrupt():
    """It is neither damage of the file that is read, nor a traceback."""
    with pytest.raises(KeyboardInterrupt), reading("a.parquet"):
        raise RuntimeError("Query interrupted")


@pytest.mark.parametrize("number", [signal.SIGINT, *nightly(signal.SIGTERM)])
def test_an_endless_query_can_be_interrupted(spilled, number):
    query = "select count(*) from range(100000000000000)"
    requested = spillcast_command("profile", spilled.path, "--sql", query)
    with subprocess.Popen(requested, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: cpu_s(process.pid) > 1, "the query")
        process.send_signal(number)
        _, answer = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + number
    assert answer.strip() == "spillcast: interrupted"


def cpu_s(pid):
    """CPU time of a process."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_nan_and_infinity_are_null_in_json(example):
    requested = "select 'nan'::double, -'inf'::double, 1.5::double"
    output = spillcast("profile", example / "flash.trc", "--sql", requested, "--json").stdout
    assert json.loads(output, parse_constant=pytest.fail)["rows"] == [[None, None, 1.5]]


def test_a_timestamp_with_time_zone_needs_no_package(example):
    query = "select '2026-11-01 12:00:00+01'::timestamptz at_, 1 as at_"
    answer = spillcast("profile", example / "flash.trc", "--sql", query, "--json").stdout
    [(time, number)] = json.loads(answer)["rows"]
    assert datetime.fromisoformat(time) == datetime(2026, 11, 1, 11, tzinfo=UTC)
    assert number == 1
