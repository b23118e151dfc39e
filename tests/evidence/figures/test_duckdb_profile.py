"""DuckDB's profiles: real ones beside a recording of the same run, older forms, and damage."""

import json
import re
import subprocess
import sys

import pytest

from cases import cases, nightly
from harness import only_line, spillcast
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceDamaged,
    EvidenceIncomplete,
    InputError,
    NoTempIo,
)
from spillcast.evidence.open import read_figures
from spillcast.evidence.selection import Selection
from spillcast.recording import Recording

SCRIPT = """
import sys, duckdb
made = duckdb.connect(sys.argv[1])
settings = {"temp_directory": sys.argv[1] + ".tmp", "memory_limit": sys.argv[3], "threads": "2",
            "preserve_insertion_order": "false", "enable_profiling": "json",
            "profiling_output": sys.argv[2]}
made.execute("create table t as select i, md5(i::text) as m from range(1000000) r(i)")
for name, value in settings.items():
    made.execute(f"set {name} = '{value}'")
made.execute(sys.argv[4]).fetchall()
"""
SORT = "select count(*) from (select * from t order by m, i offset 1)"
JOIN = "select count(*), max(a.i) from t a join t b on a.m = b.m"
GROUPS = "select max(c), max(i) from (select m, count(*) as c, max(i) as i from t group by m)"
#: The top of DuckDB's profile of a sort, written by versions 1.4.4 and 1.1.3.
OLD = {
    "total_bytes_written": 0, "total_bytes_read": 0, "rows_returned": 1, "latency": 5.097661695,
    "result_set_size": 8, "query_name": "select 1", "blocked_thread_time": 0.0,
    "system_peak_buffer_memory": 59977728, "system_peak_temp_dir_size": 163020800,
    "cpu_time": 5.069936453000001, "extra_info": {}, "cumulative_cardinality": 12000000,
    "cumulative_rows_scanned": 3000000, "children": [],
}  # fmt: skip

#: The same profile in the groups of DuckDB 2.
GROUPED = {
    "query": {"sql": "select 1", "total_time": OLD["latency"]},
    "system": {"peak_temp_dir_size": OLD["system_peak_temp_dir_size"]},
}


def command(place, query, memory="60MB"):
    script = place / "run.py"
    script.write_text(SCRIPT)
    return [sys.executable, script, place / "x.db", place / "profile.json", memory, query]


@pytest.fixture(
    scope="module", params=[SORT, *nightly(JOIN, GROUPS)], ids=["sort", "join", "groups"]
)
def observed(request, tmp_path_factory):
    """A profile, and the recording of the same run."""
    place = tmp_path_factory.mktemp("profiled")
    result = spillcast("record", "-o", place / "run.spill", "--", *command(place, request.param))
    assert result.returncode == 0, result.stderr
    return place / "profile.json", Recording.open(place / "run.spill")


def document_in(folder, **changes):
    path = folder / "profile.json"
    kept = {name: value for name, value in {**OLD, **changes}.items() if value is not None}
    path.write_text(json.dumps(kept))
    return path


@cases(
    ("text", "document"),
    [
        ("let profile = json!({\n" + json.dumps(OLD, indent=4)[1:] + ");\n", OLD),
        (json.dumps({"query_id": "base", "stage": "match", "profile": OLD}), OLD),
        # A document as Python prints it, a row of EXPLAIN ANALYZE, and a document with groups.
        (repr(OLD), OLD),
        (repr(OLD).replace("163020800,", "163020800,  # it's 155 MiB\n"), OLD),
        # A cell that a client copied.
        ('"{}"\n'.format(json.dumps(OLD, indent=4).replace('"', '""')), OLD),
        (repr([("analyzed_plan", json.dumps(OLD, indent=4))]), OLD),
        (f"profile = {GROUPED | {'note': 'it spills'}!r}\n", GROUPED),
    ],
)
def test_a_profile_within_other_text_or_a_document(tmp_path, figures, text, document):
    (path := tmp_path / "paste.txt").write_text(text)
    assert read_figures([path]).writes == figures(json.dumps(document)).writes


def test_bounds_contain_the_recorded_counts(observed):
    path, recorded = observed
    result = read_figures([path], Selection(timed=False))
    assert result.engine.name == "duckdb"
    assert result.elapsed_s == json.loads(path.read_text())["query"]["total_time"]
    least, most = result.io_bounds.lower, result.io_bounds.upper
    seen = recorded.meta.temp
    assert least.writes.count <= seen.writes <= most.writes.count
    assert least.bytes / 2 <= seen.bytes <= most.bytes
    assert result.statement.query.startswith("select ")


def test_without_a_storage_temp_time_is_at_most_the_run_of_each_thread(observed):
    path, recorded = observed
    result = read_figures([path])
    for threads in (1, 64):
        times_s = [run.total_s for run in result.at_bounds() if run.processes == threads]
        assert min(times_s) <= recorded.meta.temp.total_s / threads
        assert max(times_s) == pytest.approx(threads * result.elapsed_s)


def test_the_ceiling_of_a_profile_is_between_zero_and_the_run(tmp_path):
    document = json.loads(spillcast("forecast", document_in(tmp_path), "--json").stdout)
    assert document["interval_s"] == document["ceiling_interval_s"] == [0, OLD["latency"]]


@cases(
    ("metrics", "written"),
    [
        # DuckDB 2.0.1: a join, a sort, and an aggregation, each in a separate process.
        ({"total_bytes_spilled": 220135424, "peak_temp_dir_size": 238760755}, 312156121),
        ({"total_bytes_spilled": 58916864, "peak_temp_dir_size": 52638515}, 70059000),
        ({"total_bytes_spilled": 49217536, "peak_temp_dir_size": 53687091}, 53676000),
        # DuckDB 1.5.6: a window after a join, whose temp files were larger, in one process.
        ({"system_peak_temp_dir_size": 252936192}, 41649000),
        # DuckDB 2.0.1: an ordered aggregate whose temp files came and went within a call, and a
        # maximum of a table in memory, which had moved to disk before.
        (
            {"total_bytes_spilled": 6815744, "peak_temp_dir_size": 0, "io": (19103744, 6815744)},
            24745763,
        ),
        (
            {"total_bytes_spilled": 6160384, "peak_temp_dir_size": 24936448, "io": (5537792, 0)},
            7738466,
        ),
        # DuckDB 2.0.0: windows whose temp files came and went within a call.
        ({"peak_temp_dir_size": 0, "io": (688128, 1507328)}, 2431941),
        ({"peak_temp_dir_size": 491520, "io": (425984, 3145728)}, 5085968),
    ],
)
def test_bounds_contain_the_counts_of_the_kernel(tmp_path, metrics, written):
    metrics = dict(metrics)
    read, counted = metrics.pop("io", (0, 0))
    files = {"total_bytes_read": read, "total_bytes_written": counted}
    groups = {"query": {"total_time": 9.0}, "system": metrics, "io": files}
    form = groups if "peak_temp_dir_size" in metrics else {"latency": 9.0, "total_bytes_written": 0}
    (tmp_path / "profile.json").write_text(json.dumps({**form, **metrics}))
    bounds = read_figures([tmp_path / "profile.json"], Selection(timed=False)).io_bounds
    assert bounds.lower.writes.bytes <= 1.001 * written
    assert written <= bounds.upper.writes.bytes <= 20 * written


def test_a_window_of_duckdb_1_may_write_many_times_the_peak(tmp_path):
    """DuckDB 1.4.4, 70 MB of memory, lag(...) over (order by ...): 638.5 MB by /proc/PID/io."""
    window = {"operator_type": "WINDOW", "children": []}
    path = document_in(tmp_path, system_peak_temp_dir_size=119_500_000, children=[window])
    bounds = read_figures([path], Selection(timed=False)).io_bounds
    assert bounds.lower.writes.bytes <= 638_500_000 <= bounds.upper.writes.bytes


def test_the_interval_contains_the_forecast_of_the_recording(observed, tmp_path):
    """The profile's storage is that of the recording, with its observed latencies."""
    path, recorded = observed
    elapsed_s = read_figures([path], Selection(timed=False)).elapsed_s
    private = recorded.meta.temp
    changed_s = (private.reads + private.writes) * 20e-6 - private.total_s
    requested = ("forecast", path, "--from", recorded.path, "--to", "latency:20us", "--json")
    result = spillcast(*requested)
    assert result.returncode in (0, 3), result.stderr
    document = json.loads(result.stdout)
    if document["refused"] is not None:
        assert "a profile of DuckDB contains no reads and writes" in document["refused"]
        return
    low_s, high_s = document["interval_s"]
    # By a single thread or by two.
    assert low_s <= elapsed_s + changed_s / 2 <= high_s
    assert {"io-unknown", "assumed", "counts-only"} <= {w["code"] for w in document["warnings"]}


def test_bounds_of_older_profiles_match_those_by_hand(tmp_path):
    result = read_figures([document_in(tmp_path)], Selection(timed=False))
    assert result.elapsed_s == OLD["latency"]
    held = OLD["system_peak_temp_dir_size"]
    ends = {"lower": (32768, 32768), "upper": (3 * held, 32768)}
    for name, (written, block) in ends.items():
        temp = getattr(result.io_bounds, name)
        # Blocks may stay unread.
        read = 0 if name == "lower" else written
        assert temp.reads.count == round(read / block)
        assert temp.writes.count == round(written / block)
        assert temp.bytes == read + written
        assert (temp.processes_bounds.lower, temp.processes_bounds.upper) == (1, 64)


def test_the_interval_covers_all_bounds(tmp_path):
    """The bounds are the same counts given as figures, for each block size and thread count."""
    held = 32 << 20
    path = document_in(tmp_path, system_peak_temp_dir_size=held, latency=100.0)
    targets = ("--from", "latency:1ms", "--to", "latency:50us", "--json")
    document = json.loads(spillcast("forecast", path, *targets).stdout)
    bounds = []
    for written, block in ((32768, 32768), (3 * held, 32768)):
        count = written // block
        for threads in (1, 64):
            word = f"figures:elapsed=100s,threads={threads}"
            for op in ("read", "write"):
                word += f",{op}s={count},{op}-bytes={written}"
            result = spillcast("forecast", word, *targets)
            bounds.append(json.loads(result.stdout)["interval_s"])
    assert document["interval_s"][0] == pytest.approx(min(low for low, _ in bounds), rel=1e-3)
    # The minimum may be a single operation, whose time is less certain than the mean of many.
    highest = max(high for _, high in bounds)
    assert highest <= document["interval_s"][1] <= 1.05 * highest


def test_a_query_that_does_not_spill(tmp_path):
    subprocess.run(command(tmp_path, SORT, "2GB"), check=True)
    result = spillcast("forecast", tmp_path / "profile.json", "--to", "latency:1ms")
    assert "does not spill" in only_line(result, 2)


def test_a_window_that_may_have_spilled_between_samples_is_named(tmp_path):
    """DuckDB 2.0.0: a window that wrote 4.6 MB by /proc/PID/io, and had these metrics."""
    metrics = {"peak_temp_dir_size": 0}
    files = {"total_bytes_read": 0, "total_bytes_written": 0}
    groups = {"query": {"total_time": 1.0}, "system": metrics, "io": files}
    (path := tmp_path / "profile.json").write_text(
        json.dumps({**groups, "operator": [{"type": "WINDOW"}]})
    )
    with pytest.raises(NoTempIo) as reported:
        read_figures([path])
    assert "total_bytes_spilled" in reported.value.hint
    # DuckDB 2.0.1 counts what a window wrote.
    metrics["total_bytes_spilled"] = 0
    path.write_text(json.dumps({**groups, "operator": [{"type": "WINDOW"}]}))
    with pytest.raises(NoTempIo) as reported:
        read_figures([path])
    assert "total_bytes_spilled" not in reported.value.hint


def test_check_takes_the_elapsed_time_of_a_profile(tmp_path):
    (tmp_path / "run.toml").write_text(
        "elapsed_s = 9\nio_s = 6\n[reads]\ncount = 900\nbytes = 9e8\n[writes]\ncount = 900\n"
        "bytes = 9e8\n"
    )
    completed = spillcast("forecast", tmp_path / "run.toml", "--to", "factor:10", "--json")
    (tmp_path / "forecast.json").write_text(completed.stdout)
    result = spillcast("check", tmp_path / "forecast.json", document_in(tmp_path), "--json")
    document = json.loads(result.stdout)
    assert (document["measured_s"], document["work"]) == (OLD["latency"], None)


@cases(
    ("changes", "words"),
    [
        ({"system_peak_temp_dir_size": None}, "no size of temp files"),
        ({"system_peak_temp_dir_size": -1}, "system_peak_temp_dir_size"),
        ({"system_peak_temp_dir_size": 10**30}, "too large|above"),
        ({"latency": "soon"}, "latency"),
        ({"latency": None}, "query"),
        ({"latency": 0}, "no elapsed time"),
    ],
)
def test_missing_and_impossible_values_are_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        read_figures([document_in(tmp_path, **changes)], Selection(timed=False))


@cases(
    "text",
    [
        '{"result": 1.5, "timing": 1.5, "cardinality": 0, "extra-info": "", "timings": []}',
        "\u2502 Query Profiling Information \u2502\n\u2502 Total Time: 1.5s \u2502\n",
    ],
)
def test_a_profile_without_sizes_names_the_figures_to_give(figures, text):
    with pytest.raises(EvidenceIncomplete) as refused:
        figures(text, timed=False)
    word = re.search(r"figures:\S+", refused.value.hint)[0]
    assert read_figures([word], Selection(timed=False)).elapsed_s == 1.5


@cases("held", [0, 4329480, 64942200])
def test_a_profile_of_a_sort_before_1_4_is_refused(tmp_path, held):
    """DuckDB 1.3.2 wrote 33.2, 39.0 and 587 MB for sorts with these values in its profile."""
    form = {"total_bytes_written": None, "total_bytes_read": None}
    form["system_peak_temp_dir_size"] = held or 97746944
    groups = {"operator_type": "HASH_GROUP_BY", "children": []}
    path = document_in(tmp_path, children=[groups], **form)
    assert read_figures([path], Selection(timed=False)).writes.bytes
    form |= {"system_peak_temp_dir_size": held, "query_name": "select total_bytes_read from t"}
    window = {"operator_type": "PROJECTION", "children": [{"operator_type": "WINDOW"}]}
    path = document_in(tmp_path, children=[window], **form)
    for text in (path.read_text(), '"' + path.read_text().replace('"', '""') + '"\n'):
        path.write_text(text)
        with pytest.raises(EvidenceIncomplete, match="total_bytes_written"):
            read_figures([path], Selection(timed=False))


@cases("form", ["{0}", '{{"query": {0}, "system": {{"peak_temp_dir_size": 0}}}}'])
def test_a_profile_without_sums_shows_no_spill_and_none_missing(tmp_path, form):
    """EXPLAIN (ANALYZE, FORMAT json) of DuckDB 1.3.2 and 1.4.5, of a join that wrote 23 MB."""
    sums = {"latency": 0.0, "total_time": 0.0, "cpu_time": 0.0, "system_peak_temp_dir_size": 0}
    path = tmp_path / "explain.json"
    for elapsed_s in (0.0, 0.153):
        path.write_text(
            form.format(json.dumps(sums | dict.fromkeys(("latency", "total_time"), elapsed_s)))
        )
        with pytest.raises(EvidenceIncomplete):
            read_figures([path], Selection(timed=False))


def test_a_cut_profile_is_refused(tmp_path):
    path = document_in(tmp_path)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(EvidenceDamaged):
        read_figures([path], Selection(timed=False))


def test_a_profile_in_other_text_is_read_and_two_are_refused(tmp_path):
    path = document_in(tmp_path)
    plain, text = read_figures([path], Selection(timed=False)), path.read_text()
    quoted = "\n".join(f"> {line}" for line in json.dumps(OLD, indent=2).split("\n"))
    for pasted in (f"Hi,\n\n```\n{text}\n```\n\nAny ideas?\n", quoted, f"{text}\nD \n"):
        path.write_text(pasted)
        assert read_figures([path], Selection(timed=False)) == plain
    for two in (f"{text}\n{text}\n", f"[{text},\n{text}]"):
        path.write_text(two)
        with pytest.raises(EvidenceAmbiguous, match="2 profiles"):
            read_figures([path], Selection(timed=False))
