"""The registry: features of engines, refusals by name, and no heavy imports."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from cases import cases
from harness import generator
from spillcast import _core
from spillcast.engines.registry import (
    engine_of,
    engines,
    feature_of,
    known_as,
    lab_of,
    work_memory_of,
)
from spillcast.errors import ChoiceUnknown, EngineUnsupported
from spillcast.lab.case import read_truth

ROOT = Path(__file__).parents[2]
generate = generator("engines")


def test_engines_by_feature():
    offered = {
        feature: {engine.name for engine in engines(feature)}
        for feature in ("lab", "memory", "collect", "move")
    }
    assert offered["lab"] >= offered["memory"] >= {"duckdb", "postgres"}
    assert offered["move"] >= {"oracle", "duckdb", "postgres"}
    assert "oracle" in offered["collect"] - offered["lab"]
    assert "postgres" in {engine.name for engine in engines() if engine.server}


def test_each_feature_can_be_imported():
    offered = [
        feature_of(engine, name)
        for name in ("lab", "record", "move", "collect", "notice")
        for engine in engines(name)
    ]
    assert all(map(callable, offered))
    assert len(offered) >= 15


def test_the_engines_page_is_up_to_date():
    assert generate.PAGE.read_text() == generate.page(), "docs/generate_engines.py"


def test_measured_errors_match_the_cases():
    cases = read_truth(ROOT / "docs" / "accuracy" / "cases.parquet").cases
    errors = [abs(case.error) for case in cases if case.error is not None
              and case.engine.startswith("DuckDB") and case.threads == 1
              and case.evidence.name == "recording"]  # fmt: skip
    measured = generate.measured({"sort": {"cases": 1}}, cases)
    assert measured["duckdb"]["median_errors"]["1"] == pytest.approx(np.median(errors), abs=1e-4)
    assert measured["sort"] == {"cases": 1}
    assert tomllib.loads(generate.measured_text({"duckdb": measured["duckdb"]})) == {
        "duckdb": measured["duckdb"]
    }


def test_the_recorder_has_the_names_of_temp_files():
    assert generate.TEMP_NAMES.read_text() == generate.temp_names(), "docs/generate_engines.py"
    patterns = [(name, kind) for engine in engines() for kind, name in engine.temp_names.items()]
    for name, _kind in patterns:
        path = "/data/" + name.replace("*", "1").replace("?", "x") + "x" * name.endswith("/")
        known = _core.temp_name_of(path)
        assert known, f"{name} is unknown to the recorder: make build"
        # Of two engines with one pattern, the recorder names the first.
        assert (name, known[1]) in patterns


def test_unknown_engines_and_missing_features_are_refused_by_name():
    with pytest.raises(ChoiceUnknown, match="--engine db2: no such engine"):
        engine_of("db2")
    with pytest.raises(
        EngineUnsupported, match=r"--engine oracle: Oracle does not support this: no experiments"
    ):
        lab_of("oracle")
    with pytest.raises(EngineUnsupported, match=r"--engine oracle: Oracle .* work memory"):
        work_memory_of("oracle")


@cases(
    ("name", "label"),
    [("postgres", "PostgreSQL"), ("postgresql", "PostgreSQL"), ("process", None), ("db2", None)],
)
def test_engine_names_in_documents_are_recognised(name, label):
    known = known_as(name)
    assert (known and known.label) == label


def test_listing_all_features_imports_no_driver():
    code = (
        "import sys; from spillcast.engines.registry import engines; engines(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"psycopg", "duckdb", "typer", "pyarrow", "numpy", "spillcast._core"}
    assert heavy & set(done.stdout.split()) == set()
