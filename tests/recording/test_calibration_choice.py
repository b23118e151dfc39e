"""Which cost of a wait a recording takes: its engine's, of its version where that was measured."""

from dataclasses import replace

from cases import cases
from spillcast.recording.calibration import ANY, MachineCalibration, WaitCost


def cost(engine, version, queries):
    return WaitCost(engine, queries, 0.3, [1e-4], [1e-3], [[1.0]], version)


MEASURED = MachineCalibration(
    1.8e9,
    [cost("duckdb", "2.0.0", 1), cost("duckdb", "1.5.6", 2), cost("postgres", "18.6", 3),
     cost(ANY, "", 4)],
)  # fmt: skip


@cases(
    ("engine", "version", "queries"),
    [
        ("duckdb", "1.5.6", 2),
        ("duckdb", "2.0.0", 1),
        # Another version of the same engine comes before other engines.
        ("duckdb", "1.4.0", 1),
        ("duckdb", None, 1),
        ("postgres", "18.6 (Debian 18.6-1.pgdg13+1)", 3),
        ("postgres", "15.18", 3),
        ("clickhouse", "25.8", 4),
    ],
)
def test_the_nearest_measured_engine_counts(engine, version, queries):
    assert MEASURED.cost_of(engine, version).queries == queries


def test_a_program_is_known_by_its_temp_files():
    """A recorded command names no engine."""
    assert MEASURED.cost_of("process", None, "postgres").queries == 3
    assert MEASURED.cost_of("process", None, None).queries == 4
    assert MEASURED.cost_of("duckdb", "1.5.6", "postgres").queries == 2


def test_a_calibration_without_versions_serves_each_of_them():
    older = MachineCalibration(1.8e9, [replace(cost, version="") for cost in MEASURED.costs])
    assert older.cost_of("postgres", "18.6").queries == 3
