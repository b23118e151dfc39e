"""The core's counts, made while it reads, equal those of DuckDB over the rows."""

import random

import pytest

from cases import cases
from oracle_files import READ, WRITE, blocks, real, write_trace
from spillcast.profile.result import DIMENSIONS, QUANTILES
from spillcast.profile.rows import of_trace_rows
from spillcast.profile.traces import of_traces

REAL = [
    "jks_ot_combine_main.trc",
    "jks_demos_js12c1_ora_21055.trc",
    "jks_orabinds_js122a1_ora_9039.trc",
    "pairs/0.2ms_array500.trc",
]
CLIENT = "SQL*Net message from client"
#: All names that the core counts by; calls count too unless a column is among them.
BY = [
    ["event", "temp"],
    ["event", "op", "idle"],
    ["op", "blocks", "sql_id"],
    ["size", "file", "p1"],
    ["object", "cursor", "p2"],
    ["sql", "session", "second", "p3"],
    ["minute", "bytes", "event"],
]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Waits of every kind, with and without an object, in random order."""
    draw = random.Random(26)
    events = [
        (READ, blocks(3)),
        (READ, blocks(31, 203)),
        (WRITE, blocks(31)),
        (CLIENT, "driver id=1413697536 #bytes=1 p3=0"),
        ("db file sequential read", "file#=4 block#=77 blocks=1"),
        ("log file sync", "p1=-7 p2=0 p3=0"),
    ]
    waits = [
        (event, round(10 ** draw.uniform(0, 6.5)), parameters)
        for event, parameters in draw.choices(events, k=3_000)
    ]
    return write_trace(tmp_path_factory.mktemp("slow") / "generated.trc", waits)


def same(path, by):
    """Asserts that both are equal, except for quantiles, which a histogram has to within 1 %."""
    slow = of_trace_rows([path], by, None)
    core = of_traces([path], by)
    keys = [name for name in (*by, "idle", "op") if name in core.rows[0]]
    order = lambda row: str([row[name] for name in keys])  # noqa: E731
    result, expected = sorted(core.rows, key=order), sorted(slow.rows, key=order)
    assert core.warnings == slow.warnings
    assert (core.elapsed_s, core.damaged) == (slow.elapsed_s, slow.damaged)
    for row, twin in zip(result, expected, strict=True):
        assert set(row) == set(twin)
        near = {"mean_us", "share", *QUANTILES}
        assert {k: v for k, v in row.items() if k not in near} == {
            k: v for k, v in twin.items() if k not in near
        }
        for name in near:
            assert row[name] == pytest.approx(twin[name], rel=0.011 if name in QUANTILES else 1e-9)
    return result


@cases("by", BY)
def test_generated_waits_match_duckdb(generated, by):
    assert same(generated, by)


@cases("name", REAL)
@pytest.mark.nightly
def test_real_traces(name):
    for by in BY:
        if not set(by) <= set(DIMENSIONS):
            same(real(name), by)
