"""A small verification on PostgreSQL: every case is there, in its group, and as it was measured."""

import json
from dataclasses import replace

import pytest

from spillcast.cli.stage import TerminalStage
from spillcast.lab.case import document
from spillcast.lab.matrix import MATRICES, Matrix
from spillcast.lab.postgres_queries import JOIN, VERIFIED
from spillcast.lab.storages import Emulated
from spillcast.lab.verify import verify
from spillcast.report.verify import groups, verify_markdown, verify_text

ROWS = 200_000
STORAGES = (Emulated("1 ms", 0.001, 0.001), Emulated("0.1 ms, 100 MB/s", 0.0001, 0.0001, 100e6))


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    alone, together = (
        replace(workload, sql=JOIN.format(kept=60_000), rows=ROWS, memory=memory)
        for workload, memory in ((VERIFIED[0], "512kB"), (VERIFIED[-1], "128kB"))
    )
    matrix = Matrix("postgres", [alone, together], STORAGES, "disk", sources=("disk",))
    with TerminalStage() as stage:
        return verify(stage, matrix, repeat=1)


def test_every_query_storage_and_evidence_is_a_case(cases):
    assert {(c.workload, c.threads, c.source, c.target, c.evidence) for c in cases} == {
        (workload, threads, "disk", storage.name, evidence)
        for workload, threads in (("hash join", 1), ("parallel hash join", 3))
        for storage in STORAGES
        for evidence in ("recording", "plan")
    }


def test_counts_of_a_recording_are_those_of_the_plan(cases):
    """PostgreSQL's own counters are the peer, of another run: three processes share it anew."""
    counts = {
        (case.threads, case.evidence): [
            sum(term.count for term in case.forecast.terms if term.op == op)
            for op in ("read", "write")
        ]
        for case in cases
    }
    assert counts[1, "recording"] == counts[1, "plan"]
    assert counts[3, "recording"] == pytest.approx(counts[3, "plan"], rel=0.25)


def test_a_slow_storage_takes_what_its_operations_take(cases):
    for case in cases:
        if case.target == "1 ms":
            operations = sum(term.count for term in case.forecast.terms if term.op)
            assert case.measured_to_s > 0.001 * operations / case.threads
            assert case.forecast.forecast_s > 0.001 * operations / case.threads


def test_reports_have_a_table_for_each_group(cases):
    assert len(groups(cases)) == 4
    text, page = verify_text(cases), verify_markdown(cases, 1)
    for heading in groups(cases):
        assert heading in text
        assert f"## {heading}\n" in page
    assert len(json.loads(json.dumps(document(cases)))["cases"]) == len(cases)


def test_what_is_verified_spills_on_what_the_issue_names():
    postgres = MATRICES["postgres"]
    assert {"hash join", "merge join", "count distinct", "sort", "group by"} < {
        workload.name for workload in postgres.workloads
    }
    assert {0.0003, 0.001, 0.005} <= {storage.read_s for storage in postgres.storages}
    assert any(storage.bytes_per_s for storage in postgres.storages)
