"""Engines with a single declaration: real processes spill, and their temp files are recognised."""

import os
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest

from harness import completed
from spillcast import _core
from spillcast.engines.registry import lab_of
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import plain
from spillcast.recording import Recording

DATAFUSION = """
import datafusion
options = datafusion.RuntimeEnvBuilder().with_fair_spill_pool(4_000_000)
context = datafusion.SessionContext(
    datafusion.SessionConfig().with_target_partitions(1),
    options.with_disk_manager_specified({temp!r}),
)
rows = "select (value * 7919) % 1000003 as k, count(*) as n from range(400000) group by 1"
context.sql(f"select count(*), max(n) from ({{rows}})").collect()
"""
POLARS = """
import os
os.environ.update(
    POLARS_OOC_MEMORY_BUDGET_MB="10", POLARS_OOC_SPILL_DIR={temp!r}, POLARS_MAX_THREADS="2"
)
import polars as pl
rows = pl.LazyFrame({{"n": [0]}}).select(pl.int_range(1_000_000).alias("a"))
rows = rows.with_columns((pl.col("a") * 7919 % 1000003).alias("b"), pl.col("a").hash().alias("c"))
rows.sort("b", "c").select(pl.col("a").last(), pl.len()).collect(engine="streaming")
"""
SQLITE = """
import sqlite3
connection = sqlite3.connect({temp!r} + "/some.db")
connection.execute("pragma cache_size = -500")
connection.execute(
    "with recursive r(i) as (select 1 union all select i + 1 from r where i < 100000) "
    "select max(k) from (select i * 7919 % 1000003 k, hex(i) h from r order by 1, 2 limit 99999)"
).fetchall()
"""
DASK = """
import os
from distributed.spill import SpillBuffer
folder = os.path.join({temp!r}, "dask-scratch-space-0", "worker-a", "storage")
buffer = SpillBuffer(folder, target=2_000_000)
for n in range(20):
    buffer[f"x-{{n}}"] = os.urandom(500_000)
assert sum(len(buffer[f"x-{{n}}"]) for n in range(20)) == 10_000_000
"""
PROGRAMS = {"datafusion": DATAFUSION, "polars": POLARS, "sqlite": SQLITE, "dask": DASK}


def temp_owners(output):
    """The engines recognised by the names of files of temp I/O, with the bytes of each."""
    waits = Recording.open(output).waits
    temp = waits.filter(waits["temp"].values)
    owners = {}
    for file, size in zip(temp["file"].to_pylist(), temp["bytes"].to_pylist(), strict=True):
        owner = (_core.temp_name_of(file) or (None,))[0]
        owners[owner] = owners.get(owner, 0) + (size or 0)
    return owners


def skip_unnamed(engine):
    """Skips DataFusion for an ordinary user: perf events miss names of files closed at once."""
    if engine == "datafusion" and os.geteuid() != 0:
        pytest.skip("perf events do not show an ordinary user the temp files of DataFusion")


@pytest.mark.parametrize("engine", [*PROGRAMS, "sort"])
def test_a_spill_is_recognised_by_file_names_alone(places, engine):
    """The directory is not one that a process is expected to put temp files in."""
    module = {"sqlite": "sqlite3", "dask": "distributed"}.get(engine, engine)
    env = {**places.env, "SQLITE_TMPDIR": str(places.data)}
    if engine == "sort":
        numbers = places.data / "numbers"
        numbers.write_text("".join(f"{n * 7919 % 1000003}\n" for n in range(300_000)))
        output = places.data / "sorted"
        command = ["sort", "-n", "-S", "300K", "-T", places.data, numbers, "-o", output]
    elif find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    else:
        skip_unnamed(engine)
        script = places.root / "spill.py"
        script.write_text(PROGRAMS[engine].format(temp=str(places.data)))
        command = [sys.executable, script]
    output = places.root / "run.spill"
    completed("record", "-o", output, "--", *command, env=env)
    owners = temp_owners(output)
    assert owners.keys() == {engine}
    assert owners[engine] > 1_000_000


@pytest.mark.parametrize("name", ["sort", "datafusion"])
def test_a_lab_query_spills_the_expected_amount(tmp_path, name):
    if name == "datafusion":
        pytest.importorskip("datafusion")
        skip_unnamed(name)
    lab = lab_of(name)(tmp_path)
    query = lab.verified(1)[0]
    if name == "datafusion":
        # A third of it takes a third of the time.
        query = replace(query, rows=query.rows // 3, memory="12M")
    lab.build(query.rows)
    place = plain("disk", tmp_path / "temp")
    ran, recording = run_recorded(lab, query, place, tmp_path / "run.spill")
    temp = recording.meta.temp
    assert ran.cpu_s > 0
    if name == "sort":
        # Each line is written to a run once, and read once to be merged.
        assert temp.bytes == 2 * next(tmp_path.glob("*.txt")).stat().st_size
    assert temp.writes > 500
    assert temp_owners(recording.path).keys() == {name}


@pytest.mark.parametrize("name", ["duckdb", "datafusion"])
def test_a_quote_in_a_directory_does_not_end_a_statement(tmp_path, name):
    pytest.importorskip(name)
    temp = tmp_path / "o'temp"
    temp.mkdir()
    lab = lab_of(name)(temp)
    query = replace(lab.verified(1)[0], rows=1000)
    lab.build(query.rows)
    with lab.hold(query, temp, {}) as held:
        held.start()
        assert held.result().rows
