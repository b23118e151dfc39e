"""docs/python.md shows what Python prints, and results have a display in notebooks."""

import copy
import doctest
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

import made_up
import spillcast
from cases import cases
from harness import TIMEOUT_S, environment
from oracle_files import ROOT, make_example
from spillcast.errors import EvidenceMissing, OptionInvalid, PathMissing, UsageInvalid
from spillcast.forecast import Caveat, Forecast, Forecasts, Term
from spillcast.profile import Profile
from spillcast.profile.result import bare_row
from spillcast.storage.source import ASSUMED

GUIDE = ROOT / "docs" / "python.md"
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def place(tmp_path_factory, spilled):
    """Oracle's example and a recording."""
    path = make_example(tmp_path_factory.mktemp("python"))
    (path / "run.spill").symlink_to(spilled.path)
    return path


def test_the_guide_prints_what_python_prints(place, monkeypatch):
    monkeypatch.chdir(place)
    blocks = re.findall(r"^```pycon\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, GUIDE.name, str(GUIDE), 0)
    matches = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=matches.append)
    assert not matches, "".join(matches)
    assert runner.tries > 10


def test_every_call_of_the_front_door_is_in_the_guide():
    for name in set(spillcast.__all__) - {"__version__", "Storage"}:
        assert f"spillcast.{name}" in GUIDE.read_text()


@cases(
    "call, kind",
    [
        (lambda: spillcast.profile(), EvidenceMissing),
        (lambda: spillcast.cache(), EvidenceMissing),
        (lambda: spillcast.forecast([], "latency:1ms"), EvidenceMissing),
        (lambda: spillcast.profile("hdd.trc", by="size", block_bytes=0), OptionInvalid),
        (lambda: spillcast.cache("run.spill", runs=0), OptionInvalid),
    ],
)
def test_impossible_arguments_are_refused_with_a_hint(place, monkeypatch, call, kind):
    monkeypatch.chdir(place)
    with pytest.raises(kind) as raised:
        call()
    # A traceback in a notebook shows the notes below the message.
    assert raised.value.__notes__ == [raised.value.hint]


@cases(
    "name, call",
    [
        ("baseline", lambda: spillcast.forecast(5, "latency:1ms")),
        ("baseline", lambda: spillcast.forecast(["hdd.trc", 3], "latency:1ms")),
        ("to", lambda: spillcast.forecast("hdd.trc", ["latency:1ms", 3])),
        ("elapsed_s", lambda: spillcast.forecast("hdd.trc", "latency:1ms", elapsed_s="773")),
        ("cpus", lambda: spillcast.forecast("run.spill", "latency:1ms", cpus="2")),
        ("cpus", lambda: spillcast.forecast("run.spill", "latency:1ms", cpus=True)),
        ("by", lambda: spillcast.profile("hdd.trc", by=5)),
        ("lenient", lambda: spillcast.profile("hdd.trc", lenient="no")),
        ("evidence", lambda: spillcast.profile(["hdd.trc"])),
        ("word", lambda: spillcast.storage(5)),
        ("runs", lambda: spillcast.cache("hdd.trc", runs="2")),
        ("temp", lambda: spillcast.record("new.spill", temp=5)),
        ("path", lambda: spillcast.Recording.open(5)),
        ("path", lambda: spillcast.Storage.load(5)),
        ("table", lambda: spillcast.Recording.open("run.spill").to_arrow("events")),
        ("sizes_bytes", lambda: spillcast.cache("hdd.trc").miss_ratios("1G")),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_name(place, monkeypatch, name, call):
    monkeypatch.chdir(place)
    with pytest.raises(OptionInvalid, match=rf"^{name}="):
        call()


@cases(
    "call, kind",
    [
        (lambda: spillcast.profile("hdd.trc", evnt="direct*"), UsageInvalid),
        (lambda: spillcast.forecast("hdd.trc", "latency:1ms", elapsed=773), UsageInvalid),
        (lambda: spillcast.forecast("hdd.trc"), UsageInvalid),
        (lambda: spillcast.Storage.load(), UsageInvalid),
        # A plan instead of the name of its file.
        (lambda: spillcast.forecast("Sort  (actual rows=1)\n" * 999, "latency:1ms"), PathMissing),
    ],
)
def test_a_wrong_call_has_a_hint(place, monkeypatch, call, kind):
    monkeypatch.chdir(place)
    with pytest.raises(kind) as raised:
        call()
    assert raised.value.hint
    assert "(cls" not in raised.value.hint


@cases("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.deepcopy])
def test_calls_and_results_can_be_pickled(place, monkeypatch, copied):
    monkeypatch.chdir(place)
    for call in (spillcast.forecast, spillcast.profile, spillcast.storage, spillcast.cache):
        assert copied(call) is call
    recording = spillcast.Recording.open("run.spill")
    several = spillcast.forecast(recording, ["latency:1ms", "catalogue:aws-gp3"])
    for result in (recording, several, several[0], spillcast.profile("hdd.trc")):
        assert copied(result).to_arrow().to_pylist() == result.to_arrow().to_pylist()
    for curve in (spillcast.cache("hdd.trc"), spillcast.cache("hdd.trc", rate=0.5)):
        other, sizes = copied(curve), curve.sizes(99)
        assert (other.sizes(99), other.miss_ratios(sizes)) == (sizes, curve.miss_ratios(sizes))
        assert (other.requests, other.error_max) == (curve.requests, curve.error_max)


def test_evidence_and_targets_may_be_any_iterables(place, monkeypatch):
    monkeypatch.chdir(place)
    words = ["latency:1ms", "latency:2ms"]
    several = spillcast.forecast(iter(["run.spill"]), iter(words))
    assert [forecast.target for forecast in several] == words


def committed():
    """The notebook of the repository."""
    import nbformat

    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook after a run in Jupyter."""
    # Imported here, as the import is slow for each test worker.
    from nbclient import NotebookClient

    notebook = committed()
    kernel = environment(IPYTHONDIR=tmp_path_factory.mktemp("ipython"))
    resources = {"metadata": {"path": str(NOTEBOOK.parent)}}
    before = set(NOTEBOOK.parent.rglob("*"))
    NotebookClient(notebook, timeout=TIMEOUT_S, resources=resources).execute(env=kernel)
    assert set(NOTEBOOK.parent.rglob("*")) == before, "it leaves files behind"
    return notebook


def shown(notebook):
    """The HTML output of the cells."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [o["data"]["text/html"] for o in outputs if "text/html" in o.get("data", {})]


@pytest.mark.nightly
def test_the_notebook_runs_and_displays_its_results(executed):
    tables = shown(executed)
    assert len(tables) >= 6
    assert any("this run would take about" in html for html in tables)


def test_the_committed_notebook_contains_its_output():
    assert len(shown(committed())) >= 6
    assert "Traceback" not in NOTEBOOK.read_text()


def test_results_display_themselves_as_short_text():
    terms = [Term("temp read", "read", 8192000, 1000, 1.5, 0.5)]
    forecast = made_up.forecast(
        target="nvme", baseline_s=2.0, forecast_s=1.0, interval_s=(0.9, 1.1), terms=terms
    )
    refused = Forecast.unanswered("gp3", 2.0, 0.9, refused="no latency is known")
    text = repr(Forecasts([forecast, refused]))
    rows = [line.split() for line in text.splitlines()]
    assert ["today", "2", "s"] in [row[:3] for row in rows]
    assert {"nvme", "gp3"} <= {row[0] for row in rows if row}
    assert "no latency is known" in text
    for result in (forecast, Forecasts([forecast]), Forecasts([])):
        assert 0 < len(repr(result)) < 1000
        assert "float64" not in repr(result)


def test_html_is_escaped_and_sets_no_colours():
    evil = "<script>alert(1)</script>"
    row = {"event": evil, **bare_row(5, 10), "file": evil}
    profile = Profile(["event", "file"], 1.0, [row], warnings=[evil])
    warned = [Caveat("code", evil)]
    forecast = made_up.forecast(target=evil, warnings=warned, advice=[evil])
    refused = Forecast.unanswered(evil, 2.0, 0.9, refused=evil)
    results = (profile, forecast, refused, Forecasts([forecast, refused]))
    for result in (*results, spillcast.Storage(evil, ASSUMED, [])):
        html = result._repr_html_()
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        assert "color" not in html


def test_tables_without_rows_keep_their_columns():
    refused = Forecast.unanswered("x", 2.0, 0.9, refused="because")
    assert refused.to_arrow().num_rows == 0
    assert refused.to_polars().columns[0] == "name"
    table = Forecasts([refused]).to_polars()
    assert table["forecast_s"].to_list() == [None]
    assert table["refused"].to_list() == ["because"]
    assert spillcast.Storage("x", ASSUMED, []).to_polars().columns[:2] == ["op", "size_class_bytes"]


def test_the_type_of_a_column_does_not_depend_on_the_order(place):
    profile = spillcast.profile(place / "hdd.trc")
    turned = Profile(profile.by, profile.elapsed_s, profile.rows[::-1])
    assert pa.table(turned.to_arrow()).schema == pa.table(profile.to_arrow()).schema
    assert turned.to_polars()["total_us"].sum() == pytest.approx(profile.elapsed_s * 1e6)


def test_forecast_takes_each_kind_of_evidence(place):
    recording = spillcast.Recording.open(place / "run.spill")
    matches = [
        spillcast.forecast(baseline, "latency:1ms").to_json()["ceiling_s"]
        for baseline in (recording, str(recording.path), Path(recording.path), [recording.path])
    ]
    assert len(set(matches)) == 1
    storage = spillcast.storage(str(recording.path))
    assert spillcast.forecast(recording, storage).target == storage.name
