"""``spillcast size``: its document, its exit status, and refusals."""

import json
import re

import pytest

from cases import cases
from harness import completed, json_of, only_line, spillcast
from snapshot_files import Server
from spillcast.units import format_duration, format_interval
from statement_files import export, row

RUN = "figures:elapsed=773s,io=430s,reads=4645,read-bytes=1.1G,writes=4348,write-bytes=1G,threads=1"


def test_the_document_has_the_frontier_and_the_chosen_storage():
    document = json_of("size", RUN, "--provider", "aws,gcp", "--runs", "2/h")
    assert document["schema"] == "spillcast.size/1"
    assert document["chosen"] in document["frontier"]
    assert {row["provider"] for row in document["frontier"]} <= {"aws", "gcp"}
    saved_h = 48 * 365.25 / 12 * (773 - document["chosen"]["elapsed_s"]) / 3600
    assert document["chosen"]["saved_h_per_month"] == pytest.approx(saved_h)
    waits_s = sum(wait["elapsed_s"] for wait in document["binding"]["waits"])
    # Without I/O, 773 - 430 s remain.
    assert waits_s == pytest.approx(document["chosen"]["elapsed_s"] - 343, abs=1)


def test_a_limit_that_no_storage_meets_exits_with_3():
    result = spillcast("size", RUN, "--within", "5min", "--provider", "aws")
    assert result.returncode == 3
    assert "5 min 43 s" in result.stdout


def test_a_limit_met_by_todays_storage_needs_no_purchase():
    result = completed("size", RUN, "--within", "1h", "--provider", "aws")
    lead, *rest = result.stdout.splitlines()
    assert "12 min 53 s" in lead
    assert "catalogue:" not in lead
    assert any("catalogue:" in line for line in rest)
    assert "If it is to change anyway, the cheapest within 1 h 00 min" in " ".join(
        result.stdout.split()
    )


def test_an_unknown_time_of_temp_io_gives_only_intervals(tmp_path):
    file = tmp_path / "statements.csv"
    export(file, 15, row(1, calls=1, mean_ms=4000.0, temp_ms=0.0))
    result = completed("size", file, "--provider", "aws", "--json")
    assert json.loads(result.stdout)["bounds_only"]
    shown = spillcast("size", file, "--provider", "aws").stdout.splitlines()
    _today, *others = (line for line in reversed(shown) if re.match(r"  (today|aws-|gcp-)", line))
    assert others
    # Each storage has an interval instead of a time.
    assert all(re.fullmatch(r".* - +\S+ \S+ to \S+ \S+.*", line) for line in others)
    # A page does not draw the middle of an interval either.
    (tmp_path / "size.json").write_text(result.stdout)
    page = spillcast("report", tmp_path / "size.json", "-o", tmp_path / "page.html", "--json")
    assert json.loads(page.stdout)["charts"] == []
    words = ("forecast", file, "--to", "latency:20us", "--within", "1h", "--cost", "latency:20us=3")
    document = json.loads(spillcast(*words, "--json").stdout)
    # It may be slower than today's storage.
    assert document["interval_s"][1] > document["baseline_s"]
    assert document["memory"]["advice"]["cell"] is None
    shown = " ".join(spillcast(*words).stdout.split())
    assert format_interval(document["interval_s"]) in shown
    assert format_duration(document["forecast_s"]) not in shown


@cases(
    "options",
    [
        ("--provider", "ibm"),
        ("--region", "mars-1"),
        ("--runs", "often"),
        # A decimal comma, not a thousands separator.
        ("--runs", "1,5/day"),
        ("--prices", "absent.csv"),
    ],
)
def test_invalid_options_are_refused_with_a_hint(options):
    result = spillcast("size", RUN, *options)
    assert result.returncode == 2
    assert options[1] in result.stderr
    assert "Traceback" not in result.stderr


def test_an_export_of_statements_gets_a_single_storage(tmp_path):
    file = tmp_path / "statements.csv"
    rows = row(1, calls=30, mean_ms=2000.0, temp_ms=900.0), row(2, calls=10, mean_ms=4000.0)
    export(file, 15, *rows)
    document = json_of("size", file, "--provider", "aws", "--runs", "400/day")
    assert document["statements"] == 2
    # The mean of 30 calls of 2 s and 10 of 4 s.
    assert document["baseline_s"] == pytest.approx(2.5)


def test_a_report_shows_the_frontier_and_the_recommended_storage(tmp_path):
    document = tmp_path / "size.json"
    document.write_text(spillcast("size", RUN, "--provider", "aws", "--json").stdout)
    for options in ((), ("--redact",)):
        page = tmp_path / f"page{len(options)}.html"
        summary = json_of("report", document, "-o", page, *options)
        assert "What to buy" in summary["sections"]
        assert "Price and time" in summary["charts"]
        assert json.loads(document.read_text())["chosen"]["target"] in " ".join(summary["answer"])
        # The time on today's storage, which has no price, is a horizontal line.
        lines = re.findall(r'<path d="M[\d.]+ ([\d.]+) ?L[\d.]+ ([\d.]+)"', page.read_text())
        assert sum(left == right for left, right in lines) == 1


@cases("options", [("--elapsed", "20m"), ("--queryid", "1"), ("--item", "2")])
def test_no_single_statement_of_snapshots_can_be_selected(tmp_path, options):
    server = Server()
    server.look(tmp_path)
    server.call("1")
    server.look(tmp_path)
    refusal = only_line(spillcast("size", tmp_path, *options), 2)
    assert f"{options[0]} does not apply" in refusal
