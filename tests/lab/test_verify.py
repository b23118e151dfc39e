"""A small verification of either engine: all cases exist and match the measurements."""

import json
import signal
import subprocess
from dataclasses import replace

import pytest

from harness import environment, only_line, spillcast_command, until
from spillcast.cli.progress import TerminalStage
from spillcast.engines import duckdb as duckdb_queries
from spillcast.engines.postgres import lab as postgres_queries
from spillcast.lab.case import document, read_truth, write_truth
from spillcast_lab import cell as lab_cell
from spillcast_lab.draw import Drawn
from spillcast_lab.matrix import Cell, choose_storages
from spillcast_lab.verify import verify

NAMES = ("disk", "1 ms", "10 us/KiB")
#: If processes share work differently in another run, they run again this often.
ATTEMPTS = 3


def small(processes):
    """A hash join of a tenth of a second."""
    [join, *_] = postgres_queries.PostgresLab.verified(processes)
    sql = postgres_queries.JOIN.format(kept=24_000)
    return replace(join, sql=sql, rows=80_000, memory=f"{256 // processes}kB")


SORT = replace(duckdb_queries.DuckDbLab.verified(1)[2], rows=600_000, memory="24MB")
CELLS = [
    Cell("postgres", small(1), NAMES),
    Cell("postgres", small(3), NAMES[:2]),
    Cell("duckdb", SORT, NAMES[:2]),
]


def answer(case):
    """The fields of a case that a report uses."""
    reply = case.forecast
    terms = list(reply.warnings), list(reply.terms)
    return keys([case], case.evidence.name), case.error, reply.interval_s, terms


def verified(cells, **options):
    with TerminalStage() as stage:
        drawn, storages = Drawn(cells, [], 0.0), choose_storages(NAMES)
        return verify(stage, drawn, storages, repeat=1, **options)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """The truth, and every state of its file on the way, as counts of cases."""
    pytest.importorskip("psycopg")
    path, states = tmp_path_factory.mktemp("truth") / "cases.parquet", []

    def keep(truth):
        write_truth(path, truth)
        states.append(len(read_truth(path).cases))

    truth = verified(CELLS, on_truth=keep)
    kept = read_truth(path)
    assert kept.about == truth.about
    assert list(map(answer, kept.cases)) == list(map(answer, truth.cases))
    return truth, states


def keys(cases, evidence):
    return {
        (case.engine.split()[0], case.threads, case.source, case.target)
        for case in cases
        if case.evidence.name == evidence
    }


def test_every_pair_is_forecast_from_its_recording(result):
    expected = {
        (engine, cell.workload.threads, source, target)
        for cell in CELLS
        for engine in [{"duckdb": "DuckDB", "postgres": "PostgreSQL"}[cell.engine]]
        for source in cell.storages
        for target in cell.storages
        if source != target
    }
    assert keys(result[0].cases, "recording") == expected


def test_parts_and_plans_are_forecast_for_one_target_each(result):
    parts = keys(result[0].cases, "first_fifth")
    assert len(parts) == len({key[:3] for key in parts}) == sum(len(c.storages) for c in CELLS)
    assert keys(result[0].cases, "first_fifth_alone") == keys(result[0].cases, "minute") == parts
    assert keys(result[0].cases, "plan") == {
        ("PostgreSQL", threads, "disk", "1 ms") for threads in (1, 3)
    }


def test_every_run_is_kept(result):
    for case in result[0].cases:
        assert case.on_target.made
        assert min(case.on_target.elapsed_s) <= case.measured_to_s <= max(case.on_target.elapsed_s)


def counts_on_disk(cases):
    """Reads and writes of PostgreSQL by processes and evidence."""
    return {
        (case.threads, case.evidence.name): [
            sum(term.count for term in case.forecast.terms if term.op == op)
            for op in ("read", "write")
        ]
        for case in cases
        if case.engine.startswith("PostgreSQL") and case.source == "disk"
    }


def test_counts_of_a_recording_equal_those_of_the_plan(result):
    """PostgreSQL's counters are of another run, in which processes share work differently."""
    counts = counts_on_disk(result[0].cases)
    assert counts[1, "recording"] == counts[1, "plan"]
    for _ in range(ATTEMPTS):
        if counts[3, "recording"] == pytest.approx(counts[3, "plan"], rel=0.25):
            return
        counts = counts_on_disk(verified(CELLS[1:2]).cases)
    pytest.fail(f"reads and writes: {counts}")


def test_a_slow_storage_takes_at_least_the_time_of_its_operations(result):
    for case in result[0].cases:
        if case.target == "1 ms" and case.evidence.name == "recording":
            operations = sum(term.count for term in case.forecast.terms if term.op)
            assert case.measured_to_s > 0.001 * operations / case.threads
            assert case.forecast.forecast_s > 0.001 * operations / case.threads


def test_the_direction_depends_on_the_storages(result):
    reported = {(case.source, case.target): case.direction for case in result[0].cases}
    assert reported["disk", "1 ms"] == "fast to slow"
    assert reported["1 ms", "disk"] == "slow to fast"
    assert reported["1 ms", "10 us/KiB"] == "slow to slow"


def test_the_file_is_complete_after_each_query(result):
    truth, states = result
    assert len(states) == len(CELLS)
    assert states == sorted(set(states))
    assert states[-1] == len(truth.cases)


def test_the_document_has_all_cases(result):
    truth, _ = result
    parsed = json.loads(json.dumps(document(truth.cases, truth.about)))
    assert len(parsed["cases"]) == len(truth.cases)
    assert [item["storages"] for item in parsed["drawn"]] == [list(cell.storages) for cell in CELLS]
    assert parsed["left_out"] == []


def test_a_failing_query_is_left_out_with_its_message():
    """DuckDB reports that the memory is too small."""
    cells = [replace(CELLS[2], workload=replace(SORT, memory="1MB")), CELLS[2]]
    with TerminalStage() as stage:
        truth = verify(stage, Drawn(cells, [], 0.0), choose_storages(NAMES[:2]), repeat=1)
    [left] = truth.about["left_out"]
    assert "Memory" in left["why"] or "memory" in left["why"]
    assert truth.cases


def test_without_time_nothing_runs_and_everything_is_listed(monkeypatch):
    def never(*_arguments):
        raise AssertionError("no time was left, and yet it ran")

    monkeypatch.setattr(lab_cell.CellRun, "verify", never)
    drawn = Drawn(CELLS[2:], CELLS[:2], 0.0)
    with TerminalStage() as stage:
        truth = verify(stage, drawn, choose_storages(NAMES[:2]), repeat=1, budget_s=0.1)
    whys = [(left["engine"], left["why"]) for left in truth.about["left_out"]]
    assert whys == [
        ("postgres", "the budget has no time for it"),
        ("postgres", "the budget has no time for it"),
        ("duckdb", "no time was left"),
    ]


def test_an_interrupted_verification_keeps_finished_cases_only(tmp_path):
    output, work = tmp_path / "cases.parquet", tmp_path / "work"
    work.mkdir()
    options = ["--workload", "sort", "--storage", "tmpfs", "--storage", "disk", "--repeat", 1]
    command = spillcast_command("verify", *options, "-o", output, "--work", work)
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=environment(NO_COLOR=1)) as process:  # fmt: skip
        until(output.exists, "the first query")
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode != 0
    assert read_truth(output).cases
    until(lambda: not any(work.iterdir()), "the end of the work")


def test_a_single_storage_is_refused(tmp_path):
    command = spillcast_command("verify", "--storage", "1 ms")
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "name two" in only_line(done, 2)
