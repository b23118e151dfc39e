"""Fixtures of ClickHouse: the query log of real queries, made by chdb, and their recording."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import clickhouse_runs
from harness import completed


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Folder with query log exports of queries that spilled, and their recording ``run.spill``."""
    if find_spec("chdb") is None:
        pytest.skip("chdb is not installed: pip install chdb")
    folder = tmp_path_factory.mktemp("clickhouse")
    command = [sys.executable, Path(clickhouse_runs.__file__), "run", folder]
    completed("record", "-o", folder / "run.spill", "--", *command)
    return folder


@pytest.fixture(scope="session")
def server(runs):
    """The address of a server with this log."""
    command = [sys.executable, Path(clickhouse_runs.__file__), "serve", runs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline().strip()
        yield f"http://monitor@127.0.0.1:{port}"
        process.kill()
