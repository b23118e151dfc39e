"""Profiles as OpenMetrics, parsed by the format's own parser."""

import json
import re
import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from cases import cases
from evidence import recording
from harness import TIMEOUT_S, completed, environment, only_line, spillcast, spillcast_command
from oracle_files import ROOT, blocks, make_example, write_trace
from snapshot_files import three_weeks
from spillcast.profile import Profile, profile
from spillcast.profile.result import bare_row
from spillcast.report.export import openmetrics_text


def families(text):
    """Families by name, as the parser returns them."""
    assert text.endswith("# EOF\n")
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(family, suffix, **labels):
    return {
        sample.labels.get("le"): sample.value
        for sample in family.samples
        if sample.name == family.name + suffix and labels.items() <= sample.labels.items()
    }


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """Metrics of 4 reads of 1 ms, 3 of 30 us and 2 writes of 7 us; 1 s with 0.25 s of CPU."""
    loads = [("read", 8192, 4, 1_000_000), ("read", 8192, 3, 30_000), ("write", 4096, 2, 7_000)]
    path = tmp_path_factory.mktemp("openmetrics") / "run.spill"
    made = recording(path, loads, elapsed_s=1.0, cpu_s=0.25)
    return families("".join(openmetrics_text(profile(path), made)))


def test_buckets_count_values_up_to_their_bound(metrics):
    waits = metrics["spillcast_wait_seconds"]
    assert (waits.type, waits.unit) == ("histogram", "seconds")
    reads = samples(waits, "_bucket", op="read")
    assert [reads[le] for le in ("2e-05", "5e-05", "0.0005", "0.001", "0.002", "+Inf")] == [
        0, 3, 3, 7, 7, 7,
    ]  # fmt: skip
    assert samples(waits, "_count", op="read") == {None: 7}
    assert samples(waits, "_sum", op="read")[None] == pytest.approx(0.00409)
    writes = samples(waits, "_bucket", op="write")
    assert (writes["5e-06"], writes["1e-05"]) == (0, 2)


def test_text_is_utf_8_in_any_locale(tmp_path):
    recording(tmp_path / "run.spill", [("read", 8192, 4, 1_000_000)], elapsed_s=1.0)
    words = "export", "run.spill", "--format", "openmetrics", "--by", "chr(233)"
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    env = environment(**locale)
    command = spillcast_command(*words)
    printed = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=TIMEOUT_S)
    assert '="\u00e9"' in printed.stdout.decode()
    subprocess.run([*command, "-o", "run.prom"], cwd=tmp_path, env=env, check=True)
    assert (tmp_path / "run.prom").read_bytes() == printed.stdout


def test_counters_match_the_profile(metrics):
    time = metrics["spillcast_time_seconds"]
    assert (time.type, time.unit) == ("counter", "seconds")
    assert samples(time, "_total", event="CPU") == {None: 0.25}
    moved = metrics["spillcast_io_bytes"]
    assert (moved.type, moved.unit) == ("counter", "bytes")
    assert samples(moved, "_total", op="read", temp="true") == {None: 7 * 8192}
    assert samples(moved, "_total", op="write", temp="true") == {None: 2 * 4096}
    assert samples(metrics["spillcast_elapsed_seconds"], "") == {None: 1.0}


def test_labels_are_escaped():
    rows = [{"event": 'a "b"\\\nc', **bare_row(5, 10)}]
    result = families(
        "".join(openmetrics_text(Profile(["event"], 1e-5, rows, histograms=[([], [])])))
    )
    assert samples(result["spillcast_time_seconds"], "_total", event='a "b"\\\nc') == {None: 5e-6}


@cases("evidence", ["ash.csv", "hdd.trc"])
def test_the_oracle_example_is_valid_openmetrics(tmp_path, evidence):
    make_example(tmp_path)
    result = completed("export", evidence, "--format", "openmetrics", cwd=tmp_path)
    output = families(result.stdout)
    label = {"event": "direct path read temp"}
    count = 418 if evidence == "ash.csv" else 797
    name, suffix = ("samples", "_total") if evidence == "ash.csv" else ("wait_seconds", "_count")
    assert samples(output[f"spillcast_{name}"], suffix, **label) == {None: count}


def test_labels_are_the_names_given_by_option(tmp_path):
    write_trace(tmp_path / "a.trc", [("db file sequential read", 40, "file#=3 block#=1 blocks=1")])
    columns = "event,coalesce(file, 'none')"
    arguments = ("--format", "openmetrics", "--by", columns, "-o", "metrics.txt", "--json")
    assert spillcast("export", "a.trc", *arguments, cwd=tmp_path).returncode == 0
    result = families((tmp_path / "metrics.txt").read_text())
    waits = result["spillcast_wait_seconds"]
    assert samples(waits, "_count", event="db file sequential read", coalesce_file_none="3") == {
        None: 1
    }


def test_metrics_of_statistics_are_refused(tmp_path):
    (tmp_path / "s.csv").write_text("NAME,VALUE,ACCUMULATED\nphysical reads,5,5\n")
    only_line(spillcast("export", "s.csv", "--format", "openmetrics", cwd=tmp_path), 2)


def test_labels_of_expressions_are_names(tmp_path):
    trace = write_trace(tmp_path / "a.trc", [("read", 100, blocks(3)), ("", 7, blocks(1))])
    by = ["p1 // 7", "p1 % 7", "1", "event || ''"]
    result = families("".join(openmetrics_text(profile(trace, by=by))))
    labels = [item.labels for item in result["spillcast_time_seconds"].samples]
    assert labels == [
        {"p1_7": "28", "p1_7_2": "5", "by_1": "1", "event": event, "idle": "false"}
        for event in ("read", "")
    ]


def test_an_event_without_a_name_is_not_cpu(tmp_path):
    trace = write_trace(tmp_path / "a.trc", [("", 7, blocks(1))])
    assert [row["event"] for row in profile(trace).rows] == [""]


def test_the_history_of_a_server_has_the_metrics_of_its_dashboard(tmp_path):
    three_weeks(tmp_path)
    printed = completed("export", tmp_path, "--format", "openmetrics")
    metrics = families(printed.stdout)
    moved = metrics["spillcast_io_bytes"]
    # A snapshot each six hours, the first of which counts nothing: 84 snapshots, calls of 200 MiB.
    calls = samples(metrics["spillcast_calls"], "_total", sql="1")[None]
    assert calls == 3 * 83
    assert samples(moved, "_total", sql="1", temp="true") == {None: calls * (200 << 20)}
    first = metrics["spillcast_first_spill_timestamp_seconds"]
    assert [sample.labels["sql"] for sample in first.samples] == ["3"]
    dashboard = ROOT / "examples" / "grafana" / "spillcast-servers.json"
    panels = json.loads(dashboard.read_text())["panels"]
    queried = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"spillcast_\w+", target["expr"])
    }
    assert len(queried) > 5
    assert queried <= {sample.name for family in metrics.values() for sample in family.samples}
