"""A verification continues after an error, and resumes after an interruption."""

from dataclasses import replace

import pytest

from cases import cases
from made_up import case
from spillcast.cli.progress import TerminalStage
from spillcast.engines.duckdb import DuckDbLab
from spillcast.errors import OptionConflict
from spillcast.lab.case import read_truth, write_truth
from spillcast_lab.cell import CellRun
from spillcast_lab.draw import Drawn
from spillcast_lab.matrix import Cell, choose_storages
from spillcast_lab.verify import verify

NAMES = ("disk", "tmpfs")
CELLS = [Cell("duckdb", workload, NAMES) for workload in DuckDbLab.verified(1)[:3]]


@pytest.fixture
def begun(monkeypatch):
    """The names of started queries; each gives one case, or an error that is set for it."""
    names, errors = [], {}

    def run(self, _room, _repeat, _parts):
        name = self._workload.name
        names.append(name)
        if name in errors:
            raise errors[name]
        return [case(workload=name)]

    monkeypatch.setattr(CellRun, "verify", run)
    return names, errors


def verify_cells(path, **options):
    with TerminalStage() as stage:
        return verify(
            stage,
            Drawn(CELLS, [], 0.0, 7),
            choose_storages(NAMES),
            on_truth=lambda truth: write_truth(path, truth),
            **options,
        )


def test_an_error_of_the_program_skips_one_query(tmp_path, begun):
    names, errors = begun
    errors[CELLS[1].workload.name] = ZeroDivisionError("by nothing")
    truth = verify_cells(tmp_path / "cases.parquet")
    assert names == [cell.workload.name for cell in CELLS]
    assert [item.workload for item in truth.cases] == [names[0], names[2]]
    [left] = truth.about["left_out"]
    assert left["workload"] == names[1]
    assert "by nothing" in left["why"]


def test_an_interrupted_run_is_continued(tmp_path, begun):
    names, errors = begun
    path = tmp_path / "cases.parquet"
    errors[CELLS[0].workload.name] = ZeroDivisionError()
    errors[CELLS[1].workload.name] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        verify_cells(path)
    errors.clear()
    names.clear()
    truth = verify_cells(path, former=read_truth(path))
    # The failed query is not tried again, but the interrupted one is.
    assert names == [cell.workload.name for cell in CELLS[1:]]
    kept = read_truth(path)
    assert [item.workload for item in kept.cases] == names
    assert kept.about == truth.about
    assert kept.about["handled"] == len(CELLS)
    assert len(kept.about["left_out"]) == 1


@cases("options", [{"repeat": 2}, {"parts": False}, {"budget_s": 60.0}])
def test_a_run_with_other_options_is_not_continued(tmp_path, begun, options):
    path = tmp_path / "cases.parquet"
    verify_cells(path)
    former = read_truth(path)
    with pytest.raises(OptionConflict):
        verify_cells(path, former=former, **options)
    other = replace(former, about={**former.about, "drawn": []})
    with pytest.raises(OptionConflict):
        verify_cells(path, former=other)


def test_the_time_of_the_interrupted_run_counts(tmp_path, begun):
    names, _ = begun
    path = tmp_path / "cases.parquet"
    verify_cells(path, budget_s=1000.0)
    former = read_truth(path)
    about = {**former.about, "handled": 1, "spent_s": 999.0, "left_out": []}
    names.clear()
    truth = verify_cells(path, budget_s=1000.0, former=replace(former, about=about))
    assert names == []
    assert [left["why"] for left in truth.about["left_out"]] == ["no time was left"] * 2
