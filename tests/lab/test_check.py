"""A saved forecast is compared with what really happened."""

import json

import pytest

import monitor_reports
from cases import cases
from evidence import recording
from harness import completed, only_line, spillcast
from spillcast.errors import EvidenceAmbiguous
from spillcast.forecast.question import Question
from spillcast.forecast.result import RUN_QUEUE
from spillcast.lab.case import read_truth
from spillcast.lab.check import actual_run_of_evidence
from spillcast.units import format_duration

#: 1,000 reads and 500 writes in a run with 1 s of other work.
READS, WRITES = 1000, 500


def run(folder, name, read_us, elapsed_s, reads=READS, **capture):
    loads = [("read", 8192, reads, read_us * 1000), ("write", 8192, WRITES, 100_000)]
    made = recording(folder / name, loads, elapsed_s=elapsed_s, **capture)
    assert made.waits.num_rows > 0
    return made.path


@pytest.fixture
def forecast(tmp_path):
    """From reads of 1 ms, for reads and writes of 100 us."""
    before = run(tmp_path, "before.spill", 1000, 2.05)
    result = completed("forecast", before, "--to", "latency:100us", "--to", "factor:3", "--json")
    path = tmp_path / "forecast.json"
    path.write_text(result.stdout)
    return path


def checked(*arguments, status=0):
    result = spillcast("check", *arguments, "--json")
    assert result.returncode == status, result.stderr
    return json.loads(result.stdout)


def test_a_run_as_forecast_is_inside_the_interval(forecast, tmp_path):
    after = run(tmp_path, "after.spill", 100, 1.15)
    result = checked(forecast, after, "--target", "latency:100us")
    assert result["inside"]
    assert result["measured_s"] == pytest.approx(1.15)
    assert result["error"] == pytest.approx(result["forecast_s"] / 1.15 - 1)
    assert result["work"] == 1.0
    terms = {term["name"]: term for term in result["terms"]}
    assert terms["temp read"]["baseline_s"] == pytest.approx(1.0, rel=0.02)
    assert terms["temp read"]["measured_s"] == pytest.approx(0.1, rel=0.02)
    words = spillcast("check", forecast, after, "--target", "latency:100us").stdout
    assert words.startswith("The forecast held: ")
    assert "; the forecast was " in " ".join(words.split())
    assert "44 % less than before" in " ".join(words.split())


def test_terms_are_unknown_where_the_run_has_only_bounds_of_them(tmp_path):
    lines = [(*line[:4], {}) for line in monitor_reports.LINES]
    path = tmp_path / "run.txt"
    for given, known in ((monitor_reports.LINES, True), (lines, False)):
        path.write_text(monitor_reports.text(lines=given))
        actual = actual_run_of_evidence([path], Question())
        assert actual.elapsed_s == 773
        assert bool(actual.terms_s) == known


def test_a_run_unlike_the_forecast_is_outside_the_interval(forecast, tmp_path):
    after = run(tmp_path, "after.spill", 4000, 5.05)
    assert not checked(forecast, after, "--target", "factor:3", status=1)["inside"]


@cases(("read_us", "status"), [(130, 0), (4000, 3)])
def test_a_storage_of_another_latency_is_not_the_assumed_one(forecast, tmp_path, read_us, status):
    after = run(tmp_path, "after.spill", read_us, 1.05 + read_us / 1000)
    result = checked(forecast, after, "--target", "latency:100us", status=status)
    assert (result["objection"] is None) == (status == 0)


def test_waiting_on_a_busy_machine_after_the_move_is_a_measured_term(forecast, tmp_path):
    waited = {"run_queue_delay_s": 2.0, "run_queue_others_s": 2.0}
    after = run(tmp_path, "after.spill", 100, 3.15, **waited)
    result = checked(forecast, after, "--target", "latency:100us", status=1)
    terms = {term["name"]: term for term in result["terms"]}
    assert terms[RUN_QUEUE]["measured_s"] == pytest.approx(2.0)
    for total in ("baseline_s", "forecast_s", "measured_s"):
        assert sum(term[total] for term in terms.values()) == pytest.approx(result[total])


def test_other_work_is_objected_to(forecast, tmp_path):
    after = run(tmp_path, "after.spill", 100, 1.35, reads=3 * READS)
    result = checked(forecast, after, "--target", "latency:100us", status=3)
    assert result["work"] == pytest.approx(7 / 3)
    assert "work" in result["objection"]


def test_the_run_before_the_move_is_objected_to(forecast, tmp_path):
    result = checked(forecast, tmp_path / "before.spill", "--target", "factor:3", status=3)
    assert "storage" in result["objection"]


#: A target, the directory and file system of a run's temp files, and whether they match.
PLACES = {
    "memory": ("tmpfs", "/x", "tmpfs", True),
    "no memory": ("tmpfs", "/x", "ext4", False),
    "a relative directory": ("new", "/dev/shm", "tmpfs", False),
    "in a relative directory": ("new", "new/pgsql_tmp", "ext4", True),
    # The storage that was probed, not the one where the file is saved.
    "a recording": ("FOLDER/before.spill", "/dev/shm", "tmpfs", True),
}


@cases("case", PLACES)
def test_a_run_on_other_storage_is_objected_to(forecast, tmp_path, case):
    target, directory, filesystem, is_there = PLACES[case]
    target = target.replace("FOLDER", str(forecast.parent))
    document = json.loads(forecast.read_text())
    document["targets"][0]["target"] = target
    forecast.write_text(json.dumps(document))
    (tmp_path / "new").mkdir()
    after = run(tmp_path, "after.spill", 100, 1.15)
    meta = json.loads((after / "meta.json").read_text())
    meta["temp_places"][0] |= {"directory": directory, "filesystem": filesystem}
    (after / "meta.json").write_text(json.dumps(meta))
    words = ("check", forecast, after, "--target", target, "--json")
    result = spillcast(*words, cwd=tmp_path)
    assert (result.returncode, json.loads(result.stdout)["objection"] is None) == (
        0 if is_there else 3,
        is_there,
    )


def test_a_log_is_read_as_cases(forecast, tmp_path):
    after, kept = run(tmp_path, "after.spill", 100, 1.15), tmp_path / "checks.parquet"
    for target in ("latency:100us", "factor:3"):
        spillcast("check", forecast, after, "--target", target, "--log", kept)
    document = json.loads(spillcast("verify", "--from", kept, "--json").stdout)
    assert [case["to"] for case in document["cases"]] == ["latency:100us", "factor:3"]
    assert [case["measured_to_s"] for case in document["cases"]] == [1.15, 1.15]


def test_one_of_several_targets_must_be_chosen(forecast, tmp_path):
    after = run(tmp_path, "after.spill", 100, 1.15)
    result = spillcast("check", forecast, after)
    assert "is for several targets" in only_line(result, 2)
    assert "latency:100us, factor:3" in result.stderr


def test_a_file_that_is_not_a_forecast_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    assert ": not a forecast" in only_line(spillcast("check", tmp_path / "x.json", "y"), 2)
    for targets in (5, [5], {}):
        document = {"schema": "spillcast.forecast/1", "targets": targets}
        (tmp_path / "x.json").write_text(json.dumps(document))
        assert "x.json: " in only_line(spillcast("check", tmp_path / "x.json", "y"), 2)


def test_an_elapsed_time_is_refused_for_a_server(forecast):
    arguments = (forecast, "dbname=dw", "--target", "factor:3", "--elapsed", "5m")
    assert "--elapsed is for a file" in only_line(spillcast("check", *arguments), 2)


def test_figures_are_not_taken_for_a_server(tmp_path):
    """Reads took 50 s of 100 s and writes 20 s: twice as fast they leave 65 s."""
    counts, kept = "reads=1000,read-bytes=8M,writes=1000,write-bytes=8M", tmp_path / "forecast.json"
    before = f"figures:elapsed=100,{counts},read-time=50,write-time=20"
    kept.write_text(spillcast("forecast", before, "--to", "factor:2", "--json").stdout)
    result = checked(kept, f"figures:elapsed=65,{counts},read-time=25,write-time=10")
    assert (result["measured_s"], result["inside"]) == (65.0, True)


def test_a_forecast_without_a_storage_is_refused(tmp_path):
    before, kept = run(tmp_path, "before.spill", 1000, 2.05), tmp_path / "forecast.json"
    kept.write_text(spillcast("forecast", before, "--json").stdout)
    assert "--to" in spillcast("check", kept, before).stderr
    idle = recording(tmp_path / "idle.spill", [], elapsed_s=1.0).path
    kept.write_text(spillcast("forecast", idle, "--to", "latency:1ms", "--json").stdout)
    assert "did not spill" in only_line(spillcast("check", kept, before), 2)


LOGGED = """\
2026-11-23 10:00:01 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192000
2026-11-23 10:00:01 UTC [42] LOG:  duration: 1100.000 ms  statement: select 1
2026-11-23 10:00:09 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.1", size 4096000
2026-11-23 10:00:09 UTC [42] LOG:  duration: 3100.000 ms  statement: select 2
"""


def test_a_log_without_plans_gives_the_duration_of_a_call(tmp_path):
    (tmp_path / "a.log").write_text(LOGGED)
    actual = actual_run_of_evidence([str(tmp_path / "a.log")], Question(item=1))
    assert (actual.elapsed_s, actual.operations, actual.terms_s) == (1.1, None, {})
    with pytest.raises(EvidenceAmbiguous):
        actual_run_of_evidence([str(tmp_path / "a.log")], Question())


def test_one_of_several_plans_is_chosen(tmp_path):
    plans = [f"Sort (actual rows=9 loops=1)\n  Buffers: temp read={n} written={n}\n"
             f"Execution Time: {n}.0 ms\n" for n in (300, 900)]  # fmt: skip
    (tmp_path / "plans.txt").write_text("\n".join(plans))
    for item in (1, 2):
        actual = actual_run_of_evidence([str(tmp_path / "plans.txt")], Question(item=item))
        assert actual.elapsed_s == pytest.approx((0.3, 0.9)[item - 1])


def test_the_middle_of_bounds_has_no_error(tmp_path):
    """The error of a forecast that is only bounds is the distance outside them."""
    (tmp_path / "a.log").write_text(LOGGED)
    words = ("--to", "latency:10us", "--item", "2", "--json")
    (tmp_path / "f.json").write_text(spillcast("forecast", tmp_path / "a.log", *words).stdout)
    result = checked(tmp_path / "f.json", tmp_path / "a.log", "--item", "1")
    assert result["inside"]
    assert result["error"] == 0
    truth = tmp_path / "checks.parquet"
    words = ("--item", "1", "--log", truth)
    page = spillcast("check", tmp_path / "f.json", tmp_path / "a.log", *words).stdout
    assert format_duration(result["forecast_s"]) not in page
    assert [case.error for case in read_truth(truth).cases] == [0]
    (tmp_path / "v.json").write_text(spillcast("verify", "--from", truth, "--json").stdout)
    spillcast("report", tmp_path / "v.json", "-o", tmp_path / "page.html")
    html = " ".join((tmp_path / "page.html").read_text().split())
    assert format_duration(result["measured_s"]) in html
    assert format_duration(result["forecast_s"]) not in html
