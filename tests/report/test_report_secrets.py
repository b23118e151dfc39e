"""Untrusted text on a page is never executed, and secrets are shown only if requested."""

import json
import re
import socket
import sys
from dataclasses import fields, is_dataclass, replace

import pytest

from cases import cases, nightly
from evidence import recording as made_up_recording
from evidence import storage
from harness import completed, spillcast
from oracle_files import HEADER, READ, blocks, write_trace
from report_documents import cache, fleet, forecast, io_size_sweep, memory_sweep, save
from spillcast.document import written
from spillcast.engines.ranking import DatabaseSpill, Gain, Ranked, ServerRanking
from spillcast.evidence.open import find_evidence
from spillcast.forecast.caveat import explanations
from spillcast.profile import Profile
from spillcast.report.html.evidence import add_runs
from spillcast.report.html.inputs import Fact, Inputs
from spillcast.report.html.redact import FIGURES, Redactor, redacted
from spillcast.storage.source import ASSUMED, GRID
from spillcast.storage.source import cache as cache_source
from spillcast.storage.source import catalogue as catalogue_source

SQL = "select name from customers where iban = 'DE02120300000000202051' and note <> '<b>'"
SCRIPT = "select '<script>window.ran = 1</script><img src=x onerror=window.ran=2>' from \"t&amp;\""
HOST, SECRET_HOST = "prod-db-17", "replica.corp.example.com"
FOLDER = "customer-acme"
SECRETS = (
    "customers", "DE02120300000000202051", "iban", HOST, SECRET_HOST, "10.20.30.40", FOLDER,
    "/srv/acme", "/mnt/acme-nvme", "nightly-load", "hdd-night", "flash-night", "orders_2026",
    "acme",
)  # fmt: skip


def page_of(folder, *arguments):
    output = folder / "report.html"
    completed("report", *arguments, "-o", output)
    return output.read_text()


def trace_of(path, sql, waits=400):
    header = HEADER.replace("select 1 from big", sql)
    return write_trace(path, [(READ, 9000, blocks(31))] * waits, header=header)


@pytest.mark.nightly
def test_a_statement_is_shown_and_not_executed(tmp_path, browser):
    page_of(tmp_path, trace_of(tmp_path / "t.trc", SCRIPT))
    page = browser.new_page()
    errors = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto(f"file://{tmp_path / 'report.html'}")
    assert page.locator("pre code", has_text=SCRIPT).count() == 1
    assert page.evaluate("window.ran") is None
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0
    assert errors == []


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Evidence and documents in which all text that can be secret is."""
    folder = tmp_path_factory.mktemp("secrets") / FOLDER
    folder.mkdir()
    loads = [("read", 8192, 400, 900_000), ("write", 8192, 400, 400_000)]
    recording = made_up_recording(folder / "nightly-load.spill", loads, elapsed_s=1.0, cpu_s=0.3)
    meta = json.loads((recording.path / "meta.json").read_text())
    meta["machine"] |= {"host": HOST, "cpus": 2}
    meta["engine"] = {
        "name": "postgres", "version": "18.6", "query": SQL, "work_mem": "4MB",
        "command": ["/srv/acme/bin/duckdb", "/srv/acme/wh.db", "-c", SQL],
        "server": {"host": SECRET_HOST, "port": 5432, "dbname": "erp", "user": "etl"},
    }  # fmt: skip
    meta["asked"] |= {"temp_dirs": ["/srv/acme/tmp"]}
    meta["capture"] |= {"mapped_temp_files": ["/srv/acme/tmp/x.tmp"], "dropped": 3}
    (recording.path / "meta.json").write_text(json.dumps(meta))
    warned = [
        {"code": "network", "message": f"{HOST}:/srv/acme lies behind a network at 10.20.30.40"},
        {"code": "statement", "message": f"{SECRET_HOST} said of {SQL}: cancelled"},
    ]
    answer = forecast("/mnt/acme-nvme", warnings=warned, advice=["mount /mnt/acme-nvme/t"])
    swept = io_size_sweep("/mnt/acme-nvme", "nightly-load.spill")
    cached = json.loads(json.dumps(cache()).replace("orders", "orders_2026"))
    return {
        "recording": recording.path,
        "here": trace_of(folder / "hdd-night.trc", SQL),
        "there": trace_of(folder / "flash-night.trc", SQL.replace("iban", "bic")),
        "forecast": save(folder / "acme.json", answer),
        "sweep": save(folder / "sweep.json", swept),
        "cache": save(folder / "cache.json", cached),
        "fleet": save(folder / "fleet.json", fleet("s3://acme-evidence/fleet")),
    }


def arguments_of(inputs, kind):
    if kind == "traces":
        return [inputs["here"], "--to", inputs["there"]]
    documents = [inputs[name] for name in ("forecast", "sweep", "cache", "fleet")]
    if kind == "documents":
        return documents
    return [inputs["recording"], *documents, "--to", "latency:20us", "--to", inputs["recording"]]


def test_a_redacted_page_makes_the_same_decisions(tmp_path):
    """Warnings are identified by code: where only bounds are known, no middle is shown."""
    warned = [{"code": "time-unknown", "message": f"{HOST} timed nothing"}]
    document = forecast(interval_s=[12.0, 900.0], ceiling_interval_s=[0.0, 773.0], warnings=warned)
    page = page_of(tmp_path, save(tmp_path / "f.json", document), "--redact")
    assert explanations()["time-unknown"].title in page
    assert "5\u00a0min\u00a050\u00a0s" not in page


def test_a_redacted_page_has_the_advice_of_the_engine(tmp_path):
    step = explanations()["assumed"].by_engine["postgresql"]
    for given, shown in ((step, step), (f"ask {HOST}", explanations()["assumed"].next_step)):
        warned = {"code": "assumed", "message": "made up", "title": "t", "next_step": given}
        document = save(tmp_path / "f.json", forecast(warnings=[warned]))
        assert shown.rstrip(".") in page_of(tmp_path, document, "--redact")


@pytest.mark.parametrize("kind", ["recording", "traces", "documents"])
def test_a_redacted_page_holds_no_secret(inputs, tmp_path, kind):
    text = page_of(tmp_path, *arguments_of(inputs, kind), "--redact")
    assert [secret for secret in SECRETS if secret.lower() in text.lower()] == []
    # No absolute path, except in spillcast's own text.
    assert re.findall(r"""(?<=[\s"'>=])/(?!\*)\w[\w.-]*/[\w./-]+""", text) == []
    assert str(tmp_path.parent) not in text
    assert "sql-1" in text or "storage-1" in text


def test_an_unredacted_page_shows_the_secrets(inputs, tmp_path):
    """Otherwise the test above would pass on any page."""
    text = page_of(tmp_path, *arguments_of(inputs, "recording"))
    for secret in ("customers", HOST, "/srv/acme", "/mnt/acme-nvme", "nightly-load", "orders_2026"):
        assert secret in text


def test_placeholders_are_stable_and_figures_stay(inputs, tmp_path):
    first, second = (
        page_of(tmp_path, *arguments_of(inputs, "recording"), "--redact") for _ in range(2)
    )
    assert first == second
    assert "sql-1" in first
    assert re.search(r"<dt>host</dt><dd>host-\d</dd>", first)
    # Names of states and engines are on every page, whoever ran the query.
    for word in (
        "temp reads",
        "temp writes",
        "PostgreSQL 18.6",
        "5 min 50 s".replace(" ", "\u00a0"),
    ):
        assert word in first


@cases(
    ("key", "text"),
    [
        ("schema", "spillcast.forecast/1"), ("op", "read"), ("day", "2026-03-01"),
        ("sql", "09bmj7j9q8a5z"), ("queryid", "-2715243170932466837"), ("target", "latency:150us"),
        ("target", "catalogue:aws-gp3?iops=6000"), ("storage", "tmpfs"), ("by", "event"),
        ("engine", "PostgreSQL 18.6"), ("database", "unknown"), ("event", "direct path read temp"),
        ("event", "BuffileRead"), ("event", "pread64"), ("terms.name", "CPU and other waits"),
        ("class", "temp write"), ("op", "temp"), ("op", "wait"),
    ],
)  # fmt: skip
def test_values_that_identify_no_user_are_kept(key, text):
    assert Redactor().value(text, key) == text


@cases(
    ("key", "text"),
    [
        # The same text under another key, and other text under these keys.
        ("host", "read"), ("name", "direct path read temp"), ("event", "acme read temp"),
        ("target", "latency:acme"), ("target", "catalogue:acme"), ("sql", "customerstore"),
        ("by", "substr(text, 1, 9)"), ("engine", "PostgreSQL 18.6 (acme)"), ("message", "read"),
        ("anything", "tmpfs"), ("op", "read acme"), ("target", "catalogue:aws-gp3?a=acme"),
    ],
)  # fmt: skip
def test_all_other_values_are_replaced(key, text):
    assert text not in Redactor().value(text, key)


#: Keys whose values spillcast chooses, on which a page's structure depends.
STRUCTURE = {"schema", "op", "kind", "policy", "class", "code", "method", "engine", "day", "source"}


class Planted:
    """Unique markers, one for each text of a document."""

    def __init__(self):
        self.marks = []

    def mark(self):
        self.marks.append(f"Zqx{'abcdefghij'[len(self.marks) % 10]}q{len(self.marks)}wvy")
        return self.marks[-1]

    def __call__(self, tree, key=""):
        if isinstance(tree, dict):
            return {name: self(value, name) for name, value in tree.items()}
        if isinstance(tree, list):
            return [self(value, key) for value in tree]
        if not isinstance(tree, str) or key in STRUCTURE:
            return tree
        # The whole name, and as a word in prose.
        return f"{tree} {self.mark()}" if " " in tree else self.mark()


def everywhere(value, planted):
    """Replaces texts of a value by marks, except those that html/evidence.py makes of numbers."""
    if isinstance(value, Fact) and value.label in FIGURES:
        return value
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, Fact):
            del parts["label"]
        return replace(value, **{name: everywhere(part, planted) for name, part in parts.items()})
    if isinstance(value, dict):
        return {name if name.isidentifier() else planted.mark(): everywhere(part, planted)
                for name, part in value.items()}  # fmt: skip
    if isinstance(value, list | tuple):
        return type(value)(everywhere(part, planted) for part in value)
    return planted.mark() if isinstance(value, str) else value


def test_no_unknown_text_of_any_document_is_shown(inputs, tmp_path):
    """Runs, forecasts and all documents, with a unique mark in place of every text."""
    page = Inputs()
    evidence = find_evidence([inputs["recording"], inputs["here"]])
    add_runs(page, evidence, lenient=False)
    for make in (cache, fleet, forecast, io_size_sweep, memory_sweep, ranking):
        page.add_document("document.json", make())
    profile = Profile(["a || b"], 1.0, [{"a || b": "c", "total_us": 1.0}])
    page.documents.append(("profile.json", profile))
    planted = Planted()
    marked = Inputs(**{each.name: everywhere(getattr(page, each.name), planted)
                       for each in fields(Inputs)})  # fmt: skip
    assert len(planted.marks) > 120
    made = redacted(marked)
    text = repr([
        written([made.runs, made.latencies]),
        [(name, value.to_json()) for name, value in made.documents],
    ])  # fmt: skip
    assert [mark for mark in planted.marks if mark.lower() in text.lower()] == []


@cases("source", [ASSUMED, cache_source([GRID, catalogue_source(2.0, "https://acme.example")])])
def test_a_storage_of_any_source_has_a_redacted_page(tmp_path, source):
    made = storage({("read", 8192): 1_000_000}, name=FOLDER)
    parts = [("grid", {}), ("catalogue", {"spread": 2.0, "source": SECRET_HOST})]
    facts = {"parts": [{"name": FOLDER, "source": word, "facts": of} for word, of in parts]}
    path = tmp_path / "s.json"
    replace(made, source=source, facts=facts).save(path)
    assert SECRET_HOST in page_of(tmp_path, path)
    page = page_of(tmp_path, path, "--redact")
    assert [secret for secret in SECRETS if secret in page] == []


def ranking():
    item = Ranked("-3", "select iban", 4, 9.0, 9 << 30, (4.0, 6.0), {}, Gain(5.0, (4.0, 6.0)))
    databases = [DatabaseSpill("acme", 10, 9 << 30, 1.7e9, 400.0)]
    made = ServerRanking("acme", 9.0, [item], [], 0.9, 1, 4.0, databases, record="x").to_json()
    return json.loads(json.dumps(made))


@cases("make", [cache, fleet, forecast, io_size_sweep])
def test_an_unknown_word_is_on_no_redacted_page(tmp_path, make):
    planted = Planted()
    document = planted(make())
    if "warnings" in document:
        warned = f"somebody said {planted.mark()}.{planted.mark()} of '{planted.mark()}'"
        structured = make in (forecast, io_size_sweep)
        document["warnings"] += [{"code": "x", "message": warned}] if structured else [warned]
    name = f"{planted.mark()}.json"
    arguments = [save(tmp_path / name, document)]
    shown = page_of(tmp_path, *arguments)
    assert sum(mark in shown for mark in planted.marks) >= 3
    page = page_of(tmp_path, *arguments, "--redact")
    assert [mark for mark in planted.marks if mark.lower() in page.lower()] == []


def test_texts_of_a_recording_are_on_no_redacted_page(tmp_path):
    planted = Planted()
    folder = tmp_path / planted.mark()
    folder.mkdir()
    loads = [("read", 8192, 400, 900_000), ("write", 8192, 400, 400_000)]
    made = made_up_recording(folder / f"{planted.mark()}.spill", loads, elapsed_s=1.0, cpu_s=0.3)
    meta = json.loads((made.path / "meta.json").read_text())
    meta["machine"] |= {"host": planted.mark(), "cpus": 2, "kernel": f"6.1-{planted.mark()}"}
    meta["engine"] = {
        "name": "postgres", "version": f"18.6 ({planted.mark()})", "query": planted.mark(),
        "work_mem": planted.mark(), "command": [planted.mark(), f"-x{planted.mark()}"],
        "server": {"host": planted.mark(), "port": 5432, "dbname": planted.mark(),
                   "user": planted.mark()},
    }  # fmt: skip
    meta["asked"] |= {"temp_dirs": [f"/{planted.mark()}"]}
    meta["capture"] |= {"mapped_temp_files": [planted.mark(), f"/t/{planted.mark()}.map"]}
    (made.path / "meta.json").write_text(json.dumps(meta))
    arguments = [made.path, "--to", "latency:20us"]
    shown = page_of(tmp_path, *arguments)
    assert sum(mark in shown for mark in planted.marks) >= 6
    page = page_of(tmp_path, *arguments, "--redact")
    assert [mark for mark in planted.marks if mark.lower() in page.lower()] == []


def test_a_database_named_by_an_ordinary_word_is_redacted(tmp_path):
    document = json.loads(json.dumps(fleet()).replace("erp01", "storage").replace("erp02", "time"))
    page = page_of(tmp_path, save(tmp_path / "f.json", document), "--redact")
    assert ">storage<" not in page
    assert ">time<" not in page
    assert "database-1" in page


#: A program that spills a little, with a secret name and query.
SPILLS = """
import os, sys
query = "select iban from orders_2026"
with open(sys.argv[1] + "/spill.tmp", "w+b", buffering=0) as file:
    for _ in range(200):
        file.write(bytes(8192))
    file.seek(0)
    while file.read(8192):
        pass
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A real recording, a probe like it and a forecast, in a folder named after a user."""
    folder = tmp_path_factory.mktemp("real") / FOLDER
    (folder / "tmp").mkdir(parents=True)
    run, storage = folder / "nightly-load.spill", folder / "flash-night.json"
    command = [sys.executable, "-c", SPILLS, folder / "tmp"]
    done = [
        spillcast("record", "--temp", folder / "tmp", "-o", run, "--", *command),
        spillcast("probe", folder, "--like", run, "-o", storage, "--budget", "1s"),
        spillcast("forecast", run, "--to", storage, "--json"),
    ]
    assert [item.returncode for item in done] == [0, 0, 0], [item.stderr for item in done]
    (folder / "acme.json").write_text(done[-1].stdout)
    return folder


#: Host names: this machine's; of two letters, common in prose; a word of spillcast's own.
@pytest.mark.parametrize("host", [socket.gethostname(), *nightly("vm", "storage")])
def test_a_real_recordings_host_user_paths_and_statements_are_redacted(recorded, tmp_path, host):
    for path in (recorded / "nightly-load.spill" / "meta.json", recorded / "flash-night.json"):
        text = re.sub(r'("host": ?)"[^"]*"', lambda key: f'{key[1]}"{host}"', path.read_text())
        path.write_text(text)
    run, storage = recorded / "nightly-load.spill", recorded / "flash-night.json"
    inputs = [run, storage, recorded / "acme.json", "--to", storage, "--to", "latency:1ms"]
    shown, page = page_of(tmp_path, *inputs), page_of(tmp_path, *inputs, "--redact")
    assert f"<dt>host</dt><dd>{host}</dd>" in shown
    assert "iban" in shown
    assert re.search(r"<dt>host</dt><dd>host-\d</dd>", page)
    # An ordinary word is kept in prose, but not where it names the host.
    names = (
        [r"host&#34;: &#34;storage", "host storage"]
        if host == "storage"
        else [rf"\b{re.escape(host)}\b"]
    )
    names += [r"\biban\b", "orders_2026", "spill\\.tmp", FOLDER, "nightly-load", "flash-night"]
    names += [re.escape(str(recorded.parent)), re.escape(sys.executable)]
    assert [name for name in names if re.search(name, page, re.IGNORECASE)] == []
