"""A small sweep of work memory on either engine: counts, passes and forecasts against runs."""

from dataclasses import replace
from statistics import median

import pytest

from spillcast.cli.progress import TerminalStage
from spillcast.cli.sizing import _workload
from spillcast.engines import duckdb as duckdb_queries
from spillcast.engines.postgres import lab as postgres_queries
from spillcast.engines.registry import lab_of
from spillcast.errors import OptionInvalid
from spillcast.lab.memory_sweep import SweepPlan, memory_sizes, sweep_memory
from spillcast.lab.storages import named_places
from spillcast.workspace import workspace

M = 1 << 20
STORAGES = ("tmpfs", "latency:1ms")


def postgres_sort():
    [_, _, sort, *_] = postgres_queries.PostgresLab.verified(1)
    return replace(sort, sql=postgres_queries.SORT.format(kept=60_000), rows=200_000)


DUCKDB_SORT = replace(duckdb_queries.DuckDbLab.verified(1)[2], rows=1_000_000, memory="")


def swept(engine, workload, memory, points=None, **options):
    plan = SweepPlan(engine, workload, memory_sizes(engine, memory, points), **options)
    with (
        workspace() as room,
        named_places(STORAGES, room) as places,
        TerminalStage() as stage,
    ):
        return sweep_memory(stage, lab_of(engine)(room), plan, places)


@pytest.fixture(scope="module")
def postgres():
    pytest.importorskip("psycopg")
    return swept("postgres", postgres_sort(), "128K..8M", 5, measure=3, check=True)


@pytest.fixture(scope="module")
def duckdb():
    return swept("duckdb", DUCKDB_SORT, "16M..256M", measure=4, check=True)


@pytest.fixture(params=["postgres", "duckdb"])
def result(request):
    return request.getfixturevalue(request.param)


def test_every_pair_has_a_time(result):
    pairs = [(point.storage, point.memory_bytes) for point in result.points]
    assert pairs == [(name, size) for name in STORAGES for size in result.sizes]
    assert all(point.elapsed_s > 0 for point in result.points)
    assert {result.sizes[0], result.sizes[-1]} <= {
        p.memory_bytes for p in result.points if p.measured
    }


def test_forecasts_are_verified_by_runs(result):
    forecasts = [point for point in result.points if not point.measured]
    assert [(error.storage, error.memory_bytes) for error in result.errors] == [
        (point.storage, point.memory_bytes) for point in forecasts
    ]
    assert all(point.interval_s[0] <= point.elapsed_s <= point.interval_s[1] for point in forecasts)
    errors = [abs(point.elapsed_s / point.run.elapsed_s - 1) for point in forecasts]
    assert result.median_error == pytest.approx(median(errors))


def test_more_memory_spills_less(result):
    for storage in STORAGES:
        written = [p.spilled_bytes for p in result.points if p.storage == storage]
        assert written[0] > 0
        assert written[-1] == 0
        assert result.turns[-1].after == "none"


def test_a_run_that_fits_is_measured_once_for_all_storages(result):
    [most] = [p for p in result.points if p.memory_bytes == result.sizes[-1] and p.measured]
    other = next(p for p in result.points if p.memory_bytes == result.sizes[-1] and not p.measured)
    assert most.storage == STORAGES[0]
    assert not most.run.ops
    assert other.reads == other.writes == 0


def test_postgres_counts_between_sizes_equal_those_of_runs(postgres):
    """Passes and blocks follow from the plan with the least memory and PostgreSQL's arithmetic.

    Partly filled blocks, one per run, are a twentieth of such a small sort.
    """
    checked = [p for p in postgres.points if not p.measured and p.run.ops]
    assert checked
    for point in checked:
        for op, count in (("read", point.reads), ("write", point.writes)):
            assert count == pytest.approx(point.run.ops[op].count, rel=0.1)


def test_postgres_turning_points_are_those_of_its_passes(postgres):
    assert [turn.after for turn in postgres.turns] == ["one-pass", "none"]
    passes = [p.passes for p in postgres.points if p.storage == STORAGES[0]]
    assert passes == sorted(passes, reverse=True)
    assert passes[0] > 1


def test_slow_storage_takes_the_time_of_its_operations(result):
    for point in result.points:
        if point.storage == "latency:1ms":
            operations = point.reads + point.writes
            assert point.elapsed_s > 0.001 * operations


def test_the_smallest_memory_may_be_refused():
    with pytest.raises(OptionInvalid, match="--memory 1 MiB: too little for sort: DuckDB: Out of"):
        swept("duckdb", DUCKDB_SORT, "1M..256M", measure=2)


def test_an_exhausted_budget_measures_only_the_ends_and_says_so():
    result = swept("duckdb", DUCKDB_SORT, "16M..256M", measure=5, budget_s=0.1)
    assert [p.memory_bytes for p in result.points if p.storage == "tmpfs" and p.measured] == [
        16 * M, 256 * M,
    ]  # fmt: skip
    assert "budget" in [warning["code"] for warning in result.warnings]


@pytest.mark.parametrize(("engine", "threads"), [("sort", 9), ("mysql", 2)])
def test_more_threads_than_any_query_has_are_refused(engine, threads):
    """Each query of MySQL has one thread."""
    with pytest.raises(OptionInvalid):
        _workload(engine, None, threads)
