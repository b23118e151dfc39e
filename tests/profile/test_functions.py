"""Functions of recordings: counted from known stacks, and from real engines."""

import json
import sys
from collections import Counter

import pytest

from cases import nightly
from evidence import recording as made_up_recording
from harness import available, completed, spillcast
from postgres_rig import private_server
from spillcast.errors import EvidenceDamaged, EvidenceUnsuited, OptionConflict, QueryInvalid
from spillcast.profile import profile
from spillcast.profile.functions import Frame, drawn_frames, stacks_of
from spillcast.recording import Recording
from spillcast.workspace import workspace

DOCUMENT = {
    "schema": "spillcast.stacks/1",
    "samples_per_s": 100.0,
    "samples": 103,
    "left_out": 3,
    "modules": [
        {"name": "engine", "build_id": "ab12", "symbols": "all"},
        {"name": "lib.so", "build_id": None, "symbols": "exported"},
    ],
    "functions": [
        {"name": "main", "module": 0},
        {"name": "sort<int, int>", "module": 0},
        {"name": None, "module": 1},
    ],
    "stacks": [
        # A recursive function, a function without a name, and a truncated stack.
        {"thread": "w", "functions": [1, 1, 0], "complete": True, "samples": 60},
        {"thread": "w", "functions": [2, 1, 0], "complete": True, "samples": 25},
        {"thread": "v", "functions": [1], "complete": False, "samples": 15},
    ],
}
SORT = """
import duckdb
connection = duckdb.connect(config={"memory_limit": "150MB", "threads": 2})
rows = "select range a, hash(range) h, range::varchar s from range(3000000)"
connection.sql(f"select sum(a) from (from ({rows}) order by h offset 1)").fetchall()
"""


@pytest.fixture
def run(tmp_path):
    """A recording with the stacks of DOCUMENT."""
    made = made_up_recording(tmp_path / "run.spill", [("read", 8192, 9, 1000)], elapsed_s=2)
    write(made.path, DOCUMENT)
    return made.path


def write(path, document):
    (path / "stacks.json").write_text(json.dumps(document))


def by_name(rows):
    return {row["function"]: row for row in rows}


def test_each_sample_counts_once_for_a_function_and_once_for_its_callers(run):
    result = profile(run, by=["function"])
    rows = by_name(result.rows)
    assert [row["function"] for row in result.rows] == [
        "sort<int, int>",
        "[unknown] below sort<int, int>",
        "main",
    ]
    sort = rows["sort<int, int>"]
    assert (sort["count"], sort["share"], sort["total_us"]) == (75, 0.75, 750_000)
    assert (sort["with_callees_share"], sort["module"]) == (1.0, "engine")
    assert (rows["main"]["count"], rows["main"]["with_callees_us"]) == (0, 850_000)
    assert sum(row["share"] for row in result.rows) == pytest.approx(1)
    # A quarter has no name, 15 samples have no callers, 3 were dropped.
    assert len(result.warnings) == 3
    assert "lib.so" in result.warnings[0]
    split = profile(run, by=["function", "thread"]).rows
    assert {(row["function"], row["thread"]) for row in split} >= {
        ("main", "w"),
        ("sort<int, int>", "v"),
    }


def test_the_verb_prints_functions_and_folded_stacks(run):
    printed = json.loads(spillcast("profile", run, "--by", "function", "--json").stdout)
    assert printed["rows"][0]["function"] == "sort<int, int>"
    page = spillcast("profile", run, "--by", "function", "--top", "1").stdout
    assert "sort<int" in page
    assert "main" not in page
    folded = spillcast("profile", run, "--by", "function", "--folded").stdout.splitlines()
    counts = dict(line.rsplit(" ", 1) for line in folded)
    assert counts["w;main;sort<int, int>;sort<int, int>"] == "60"
    assert sum(map(int, counts.values())) == 100
    assert spillcast("profile", run, "--folded").returncode == 2


def test_a_report_draws_functions_and_redacts_their_names(run, tmp_path):
    for words in ((), ("--redact",)):
        output = tmp_path / f"page{len(words)}.html"
        assert spillcast("report", run, "-o", output, *words).returncode == 0
        page = output.read_text()
        assert 'class="flame"' in page
        assert ("sort&lt;int, int&gt;" in page) == (not words)
        assert ("lib.so" in page) == (not words)


def test_narrow_frames_and_deep_rows_of_a_flame_graph_are_not_drawn():
    """Of 1,000 samples, 3 and 8 are in leaves, and all others in 100 levels of a recursion."""
    root = Frame("main", samples=1000)
    leaves = (Frame("narrow", samples=3), Frame("wide", samples=8))
    root.callees = {(leaf.name, ""): leaf for leaf in leaves}
    caller = root
    for _ in range(100):
        callee = Frame("visit", samples=989)
        caller.callees["visit", ""] = callee
        caller = callee
    drawn = [(frame["function"], frame["depth"], frame["start"]) for frame in drawn_frames(root)]
    assert drawn[:3] == [("main", 0, 0.0), ("visit", 1, 0.0), ("wide", 1, 0.989)]
    assert drawn[3:] == [("visit", depth, 0.0) for depth in range(2, 60)]


def test_invalid_options_and_damaged_functions_are_refused(run):
    with pytest.raises(QueryInvalid):
        profile(run, by=["function", "size"])
    with pytest.raises(OptionConflict):
        profile(run, by=["function"], where="temp")
    damages = (
        {"stacks": [{**DOCUMENT["stacks"][0], "functions": [3]}]},
        {"functions": [{"name": "f", "module": 2}]},
        {"samples_per_s": 0},
        {"stacks": [{**DOCUMENT["stacks"][0], "samples": -1}]},
    )
    for damage in damages:
        write(run, DOCUMENT | damage)
        with pytest.raises(EvidenceDamaged):
            profile(run, by=["function"])
    (run / "stacks.json").unlink()
    with pytest.raises(EvidenceUnsuited):
        profile(run, by=["function"])


@pytest.mark.parametrize("capture", ["bpf", *nightly("perf")])
def test_a_sort_of_duckdb_is_below_its_thread(capture, tmp_path):
    run = tmp_path / "sort.spill"
    completed(
        "record", "--capture", available(capture), "-o", run, "--", sys.executable, "-c", SORT,
        cwd=tmp_path,
    )  # fmt: skip
    stacks = stacks_of(Recording.open(run))
    assert sum(stack.samples for stack in stacks.stacks) == stacks.samples - stacks.left_out
    # Workers and the main thread reach the same operator, below exported functions.
    inclusive = Counter()
    for stack in stacks.stacks:
        names = {stacks.functions[at].name for at in stack.functions}
        inclusive.update(dict.fromkeys(names, stack.samples))
    assert inclusive["duckdb::PipelineExecutor::Execute"] > 0.4 * stacks.samples
    modules = {row["module"] for row in profile(run, by=["function"]).rows[:5]}
    assert any("duckdb" in module for module in modules)


def test_functions_of_postgresql_are_named(tmp_path):
    available("perf")
    with workspace() as room, private_server(room, {"work_mem": "1MB"}) as server:
        rows = "select md5(n::text) m from generate_series(1, 400000) n order by m"
        sql = f"select count(*) from ({rows}) s"
        run = tmp_path / "sort.spill"
        completed("record", "--postgres", server.dsn, "--explain", sql, "-o", run)
    rows = by_name(profile(run, by=["function"]).rows)
    assert rows["tuplesort_performsort"]["with_callees_share"] > 0.05
    assert (
        rows["ExecSort"]["with_callees_share"] > rows["tuplesort_performsort"]["with_callees_share"]
    )
