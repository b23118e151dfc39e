"""Pages of reports, and a browser to open them."""

import json
import shutil
import sys
from dataclasses import replace

import pytest

from evidence import recording
from harness import completed, environment
from oracle_files import make_example
from report_documents import cache, fleet, io_size_sweep, memory_sweep, save
from spillcast.recording.observed import RecordedQuery

CHROMIUM = shutil.which("chromium")
QUERY = """
import duckdb, sys
con = duckdb.connect(config={"temp_directory": sys.argv[1], "memory_limit": "60MB", "threads": 1})
con.execute("create table a as select range as id, hash(range) as h from range(1200000)")
con.execute("select max(a.h + b.h::hugeint) from a join a b on a.id = b.id").fetchall()
"""


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, headless."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        result = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield result
        result.close()


def made(*arguments):
    """The page that a report writes, which must succeed."""
    return completed("report", *arguments)


def a_part(path):
    """A recording of 250 blocks, after 2.4 s of a query that continued."""
    moved = [("write", 8192, 200, 2_000_000), ("read", 8192, 50, 2_000_000)]
    made = recording(path, moved, elapsed_s=1.0)
    query = RecordedQuery(7, None, None, 2.4, "duration", None, [], 0, [])
    meta = replace(made.meta, ended_by="duration", server=query)
    (path / "meta.json").write_text(json.dumps(meta.to_json()))
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a DuckDB run with forecasts, the Oracle example, sweeps, and a run without waits."""
    folder = tmp_path_factory.mktemp("pages")
    temp, target = folder / "temp", folder / "there"
    temp.mkdir()
    target.mkdir()
    run = folder / "duckdb.spill"
    command = [sys.executable, "-c", QUERY, str(temp)]
    completed("record", "-o", run, "--", *command, env=environment(TMPDIR=temp))
    result = {
        name: folder / f"{name}.html" for name in ("demo", "oracle", "sweeps", "part", "idle")
    }
    targets = ("--to", target, "--to", "latency:5ms", "--to", "catalogue:aws-gp3")
    made(run, *targets, "--budget", "5s,256M", "-o", result["demo"])
    known = ("--to", "latency:200us", "--written", "8M")
    made(a_part(folder / "part.spill"), *known, "-o", result["part"])
    recording(folder / "idle.spill", [], elapsed_s=1.0)
    made(folder / "idle.spill", "-o", result["idle"])
    example = make_example(folder / "oracle")
    to = ("--to", example / "flash.trc", "--elapsed", "773")
    made(example / "ash.csv", example / "hdd.trc", *to, "-o", result["oracle"])
    documents = {"io.json": io_size_sweep(), "memory.json": memory_sweep(), "cache.json": cache()}
    documents["fleet.json"] = fleet()
    files = [save(folder / name, document) for name, document in documents.items()]
    made(*files, "-o", result["sweeps"])
    return result
