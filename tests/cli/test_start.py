"""Startup: a verb imports only what it uses; help and the first page."""

import json
import re

import pytest

from cases import cases
from harness import CONFINED, completed, spillcast
from spillcast.cli import VERBS


def test_a_forecast_imports_no_readers_of_other_evidence(spilled):
    under = ("env", "PYTHONPROFILEIMPORTTIME=1")
    done = completed("forecast", spilled.path, "--to", "catalogue:aws-gp3", under=under)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "numpy" in imported
    assert not {"pyarrow", "duckdb", "pandas"} & imported
    ours = {name for name in imported if name.startswith("spillcast")}
    others = {"storage.probe", "evidence.postgres.plan", "forecast.remaining.model"}
    others |= {"evidence.spark", "evidence.unwrap", "recording.record", "storage.rehearse"}
    assert not {f"spillcast.{name}" for name in others} & ours
    # So many modules a reader can follow.
    assert len(ours) <= 80


def test_a_report_of_single_waits_does_not_import_duckdb(spilled, tmp_path):
    pytest.importorskip("jinja2")
    page = tmp_path / "report.html"
    under = ("env", "PYTHONPROFILEIMPORTTIME=1")
    done = completed("report", spilled.path, "-o", page, under=under)
    assert page.stat().st_size > 10_000
    assert not re.search(r"\| +(duckdb|pyarrow)$", done.stderr, re.M)


@cases("target", ["catalogue:aws-gp3", "latency:1ms", "tmpfs"])
def test_a_forecast_in_a_directory_that_the_user_cannot_enter(spilled, tmp_path, target):
    (closed := tmp_path / "closed").mkdir()
    enter = ("sh", "-c", 'cd "$0" && chmod 0 . && exec "$@"', closed, *CONFINED)
    command = ("forecast", spilled.path, "--to", target, "--json")
    result = spillcast(*command, under=enter)
    assert (result.returncode, str(closed) in result.stderr) == (0, True), result.stderr
    assert json.loads(result.stdout)["target"] == target


@cases("by", ["event", "second", "minute"])
def test_a_trace_is_profiled_without_large_imports(tmp_path, by):
    trace = tmp_path / "t.trc"
    wait = "nam='direct path read temp' ela= 100 file number=201 first dba=1 block cnt=8 obj#=1"
    trace.write_text("".join(f"WAIT #1: {wait} tim={at * 10**7}\n" for at in range(1, 30)))
    done = completed(
        "profile", trace, "--by", by, "--json", under=("env", "PYTHONPROFILEIMPORTTIME=1")
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"numpy", "pyarrow", "duckdb", "pandas"}


def test_help_is_shown_by_each_usual_option():
    output = spillcast("forecast", "--help").stdout
    assert "--details" in output
    for words in (("forecast", "-h"), ("help", "forecast")):
        result = spillcast(*words)
        assert (result.returncode, result.stdout) == (0, output)


def test_the_first_page_lists_the_version_and_verbs_in_order_of_use():
    output = spillcast("-h").stdout
    assert output == spillcast("help").stdout == spillcast("--help").stdout
    assert "--version" in output
    listed = re.findall(r"^  (\S+)", output.partition("Commands:")[2], re.M)
    assert listed == list(VERBS)
