"""A folder of recordings, as ``record --all`` makes it, is evidence as its recordings are."""

import json

import pytest

from evidence import recording
from harness import completed, json_of, only_line, spillcast

#: By name: reads of temp files of 5 ms each, and the elapsed time (s) of the query.
QUERIES = {"4711-1.spill": (100, 2.0), "4712-1.spill": (200, 4.0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "server.spills"
    path.mkdir()
    for name, (reads, elapsed_s) in QUERIES.items():
        recording(path / name, [("read", 8192, reads, 5_000_000)], elapsed_s=elapsed_s, cpu_s=1.0)
    return path


def test_forecast_has_a_row_for_each_query(folder):
    documents = json_of("forecast", folder, "--to", "latency:1ms")["recordings"]
    assert [document["recording"] for document in documents] == [
        str(folder / name) for name in QUERIES
    ]
    for document, (reads, elapsed_s) in zip(documents, QUERIES.values(), strict=True):
        assert document["baseline_s"] == pytest.approx(elapsed_s)
        # Each read takes 1 ms instead of 5 ms.
        assert document["forecast_s"] == pytest.approx(elapsed_s - reads * 0.004, rel=0.05)
    table = spillcast("forecast", folder, "--to", "latency:1ms", "--csv").stdout.splitlines()
    assert {line.partition(",")[0] for line in table[1:]} == set(QUERIES)


def test_options_of_a_single_run_are_refused_for_a_folder(folder):
    for option in (("--within", "5s"), ("--details",)):
        done = spillcast("forecast", folder, "--to", "latency:1ms", *option)
        assert option[0] in only_line(done, 2)


def test_profile_separates_recordings(folder):
    document = json.loads(spillcast("profile", folder, "--by", "op", "--json").stdout)
    reads = {
        row["recording"]: row["total_us"] for row in document["rows"] if row.get("op") == "read"
    }
    assert reads == {name: reads * 5000 for name, (reads, _) in QUERIES.items()}
    assert document["elapsed_s"] == pytest.approx(6.0)


def test_report_has_all_recordings(folder, tmp_path):
    page = tmp_path / "report.html"
    completed("report", folder, "-o", page)
    assert all(name in page.read_text() for name in QUERIES)
