"""The answers, output and refusals of a report."""

import html
import json
import re
import subprocess
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from cases import cases
from harness import TIMEOUT_S, completed, json_of, only_line, spillcast, started
from large_recording import SPACE_NS, write_large_recording
from report_documents import cache, fleet, forecast, io_size_sweep, memory_sweep, save
from spillcast.document import read
from spillcast.engines.ranking import DatabaseSpill, Gain, Ranked, ServerRanking
from spillcast.forecast import Forecast
from spillcast.forecast.verdict import ranked, verdict
from spillcast.profile import timeline
from spillcast.recording import Recording
from spillcast.report.html import TableCells, runs, write
from spillcast.report.html.inputs import Fact, Inputs, RunContents, StatementText
from spillcast.report.html.write import compose

ANSWER = {
    "type": "object",
    "required": ["schema", "path", "bytes", "redacted", "answer", "sections", "charts"],
    "properties": {
        "schema": {"const": "spillcast.report/1"}, "path": {"type": "string"},
        "bytes": {"type": "integer"}, "redacted": {"type": "boolean"},
    } | {key: {"items": {"type": "string"}} for key in ("answer", "sections", "charts")},
}  # fmt: skip


def answer_of(*documents):
    inputs = Inputs()
    for document in documents:
        inputs.add_document("document.json", document)
    return " ".join(compose(inputs).answer)


def titles_of(document):
    inputs = Inputs()
    inputs.add_document("document.json", document)
    return [section.title for section in compose(inputs).sections]


SLOW = forecast("disk", forecast_s=900.0, interval_s=[850.0, 950.0], speedup=0.86)
REFUSED = forecast("tmpfs", forecast_s=None, interval_s=None, speedup=None, refused="it was lost")
STATEMENT = {"queryid": "-33", "query": "select much\nfrom big", "calls": 4, "most_of": 1}


def with_memory(high_s=450.0, most_bytes=1 << 27, **memory):
    """A forecast beside one with 64 MiB of work memory."""
    enough = {"work_mem_bytes": 64 << 20, "forecast_s": 341.0, "interval_s": [250.0, high_s]}
    return forecast(work_memory={"enough": enough, "most_bytes": most_bytes, **memory})


#: Documents, and text that the answer contains or, after a "not", lacks.
ANSWERS = {
    # Of 12 min 53 s, the document's terms leave 5 min 40 s.
    "a forecast": (
        [forecast()],
        "Temp I/O is 56 % of this query: storage is the problem. Forecast: local NVMe, 5 min 50 s "
        "(5 min 30 s to 6 min 12 s) instead of 12 min 53 s.",
    ),
    "of many statements one": (
        [forecast(statement=STATEMENT)],
        "Statement -33, the mean of 4 calls: select much from big.",
    ),
    "of several the fastest": ([SLOW, forecast()], "Fastest: local NVMe, 5 min 50 s ("),
    "a slower one": (
        [SLOW],
        "disk is slower: 15 min 00 s (14 min 10 s to 15 min 50 s) instead of 12 min 53 s.",
    ),
    "a refusal": ([REFUSED], "No forecast: it was lost."),
    "a refusal beside a forecast": ([REFUSED, forecast()], "local NVMe"),
    "more work memory": (
        [with_memory()],
        "Cheapest fix: work_mem 64MB, 5 min 41 s (4 min 10 s to 7 min 30 s) instead",
    ),
    "memory that may not help": ([with_memory(773.5)], "not work_mem"),
    "memory that is not there": (
        [with_memory(most_bytes=1 << 37, available_bytes=1 << 34)], "not Cheapest",
    ),
    "sizes of I/O": ([io_size_sweep()], "Best on /mnt/nvme: 256K/256K"),
    "sizes of memory": ([memory_sweep()], "With 1 GiB of memory on tmpfs"),
    "a cache": ([cache()], "512 MiB"),
    "a fleet": ([fleet()], "save 1 h 07 min (90 % interval 1 h 00 min to 1 h 13 min)"),
    "most of a fleet": ([fleet()], "first 2 statements bring 80 %"),
    "one for most": ([fleet() | {"statements_for_most": 1}], "first statement brings 80 %"),
    "all for most": ([fleet() | {"statements_for_most": 3}], "not 80 %"),
    "a fleet without a gain": ([fleet() | {"saved_s": 0.0}], "save nothing"),
}  # fmt: skip


@cases("case", ANSWERS)
def test_the_answer_of_each_document(case):
    documents, words = ANSWERS[case]
    lacks = words.startswith("not ")
    assert (words.removeprefix("not ") in answer_of(*documents)) != lacks


def test_the_statement_text_is_omitted_from_a_redacted_page(tmp_path):
    which = {"queryid": "-33", "query": "call much()", "calls": 4, "most_of": 1}
    path, page = save(tmp_path / "said.json", forecast(statement=which)), tmp_path / "said.html"
    result = completed("report", path, "--redact", "--json", "-o", page)
    assert "Statement -33, the mean of 4 calls: sql-1" in " ".join(
        json.loads(result.stdout)["answer"]
    )
    assert "much()" not in page.read_text() + result.stdout


def test_two_queries_have_two_verdicts():
    other = forecast(baseline_s=400.0, ceiling_s=390.0, forecast_s=395.0, interval_s=[392, 398])
    answer = answer_of(forecast(), other)
    assert answer.count("this query") == 2


def test_a_warning_of_several_queries_names_its_target_once():
    warned = [{"code": "synthetic-io", "message": "the I/O is made up"}]
    inputs = Inputs()
    for baseline_s in (773.0, 800.0):
        disk = forecast("disk", baseline_s=baseline_s, warnings=warned)
        for document in (disk, forecast("nvme", baseline_s=baseline_s)):
            inputs.add_document("document.json", document)
    (warning,) = compose(inputs).sections[-1].weaknesses
    assert warning.targets == "disk"


def test_advice_is_given_only_where_storage_helps():
    """Temp I/O takes 1 of 100 s, too little for other storage."""
    advice = ["mount -t tmpfs"]
    terms = [
        {"name": "CPU", "op": None, "bytes": None, "count": None, "baseline_s": 99.0,
         "forecast_s": 99.0},
        {"name": "temp read", "op": "read", "bytes": 1 << 20, "count": 46, "baseline_s": 1.0,
         "forecast_s": 0.1},
    ]  # fmt: skip
    no_help = forecast(
        "tmpfs", baseline_s=100.0, forecast_s=99.1, interval_s=[99.0, 99.2], ceiling_s=99.0,
        ceiling_interval_s=[98.9, 99.1], terms=terms, advice=advice,
    )  # fmt: skip
    assert "What to do" not in titles_of(no_help)
    assert "What to do" in titles_of(forecast("tmpfs", advice=advice))


def test_a_page_begins_with_the_measurement():
    about = [Fact("host", "db7"), Fact("recorded", "2026-03-01 10:00")]
    about.append(Fact("command", "duckdb -f q.sql"))
    run = RunContents(
        name="r.spill", kind="recording", elapsed_s=90.0, time_s=90.0, sessions_are="threads",
        timeline=timeline.Timeline(1.0, {}, {}), about=about,
    )  # fmt: skip
    statement = StatementText(None, "select\n1", None)
    by_command, by_statement = runs.subjects([run, replace(run, statements=[statement])])
    assert "duckdb -f q.sql" in by_command
    assert "select 1" in by_statement
    for part in ("db7", "2026-03-01 10:00", "90 s"):
        assert part in by_statement


def ranking():
    query = "select l_orderkey from lineitem order by 1"
    gains = {"catalogue:aws-gp3": Gain(-7.7, (-9.0, -6.0))}
    item = Ranked("-33", query, 14, 190.0, 9 << 30, (40.0, 60.0), gains, Gain(50.0, (40.0, 60.0)))
    return ServerRanking(
        "host=db7 dbname=acme", 3600.0, [item], ["catalogue:aws-gp3"], 0.9, 120, 400.0,
        [DatabaseSpill("acme", 10, 9 << 30, 1.7e9, 400.0)],
        record=f"spillcast record --postgres 'host=db7 dbname=acme' --query '{query}'",
    )  # fmt: skip


@cases("redacted", [False, True])
def test_the_ranking_of_a_server_is_a_page(tmp_path, redacted):
    path, page = save(tmp_path / "rank.json", ranking().to_json()), tmp_path / "rank.html"
    result = completed("report", path, "-o", page, *["--redact"] * redacted)
    assert "1 of 120 statements spills" in result.stdout
    text = html.unescape(page.read_text())
    assert "7.70 s slower" in re.sub("\u00a0", " ", text)
    for secret in ("db7", "acme", "lineitem", "l_orderkey"):
        assert (secret in text) is not redacted


def test_no_middle_is_shown_where_only_bounds_are_known():
    """Temp I/O took between 0 s and all of 773 s: the middle, 350 s, is not an answer."""
    warned = [{"code": "time-unknown", "message": "how long temp I/O took is not known"}]
    memory = {"enough": {"work_mem_bytes": 64 << 20, "forecast_s": 351.0,
                         "interval_s": [0.0, 773.0]}, "most_bytes": 1 << 27}  # fmt: skip
    inputs = Inputs()
    document = forecast(interval_s=[12.0, 900.0], ceiling_interval_s=[0.0, 773.0], warnings=warned,
                        work_memory=memory)  # fmt: skip
    inputs.add_document("document.json", document)
    page = compose(inputs)
    [figure] = [figure for section in page.sections for figure in section.figures]
    assert 'class="interval"' in figure.chart.html
    assert "point" not in figure.chart.html
    tables = [table for section in page.sections for _, table in section.tables]
    shown = [figure.chart, *(TableCells.of(table) for table in (figure.table, *tables))]
    for middle in ("5 min 50 s", "5 min 51 s", "5 min 40 s", "2.21x"):
        assert middle not in repr(shown).replace("\\xa0", " ")


def bounded(target, low_s, high_s):
    """A forecast with only bounds, whose middle must not be shown or used to sort."""
    warned = [{"code": "time-unknown", "message": "how long temp I/O took is not known"}]
    return forecast(
        target, forecast_s=(low_s + high_s) / 2, interval_s=[low_s, high_s], warnings=warned,
        ceiling_interval_s=[0.0, 773.0],
    )  # fmt: skip


def test_bounds_are_sorted_by_lower_then_upper_and_shown_without_a_middle():
    documents = [
        bounded("a", 600.0, 700.0),
        bounded("b", 400.0, 1000.0),
        bounded("c", 400.0, 800.0),
    ]
    read_back = [read(Forecast, document) for document in documents]
    assert [item.target for item in ranked(read_back)] == ["c", "b", "a"]
    answer = verdict(read_back)
    assert [(fix.target, fix.forecast_s) for fix in answer.fixes] == [("a", None)]
    assert answer.temp_share is None
    slower = answer_of(bounded("a", 900.0, 1200.0))
    assert "15 min 00 s to 20 min 00 s" in slower
    assert "17 min 30 s" not in slower


def test_memory_that_makes_no_difference_is_not_compared():
    """Every size is sufficient."""
    sweep = memory_sweep(["tmpfs"])
    flat = sweep | {"points": [point | {"elapsed_s": 5.0} for point in sweep["points"]]}
    assert answer_of(flat) == (
        "With 16 MiB of memory on tmpfs this query takes about 5 s, and more memory hardly helps."
    )
    halved = [point | {"elapsed_s": 64 / 2**n} for n, point in enumerate(sweep["points"])]
    assert "hardly" not in answer_of(sweep | {"points": halved})


def test_charts_of_many_storages_have_different_titles(tmp_path):
    document = save(tmp_path / "memory.json", memory_sweep([f"{at} ms" for at in range(1, 7)]))
    charts = json_of("report", document, "-o", tmp_path / "page.html")["charts"]
    assert len(set(charts)) == 2


def test_the_largest_row_of_a_profile_is_named():
    """Plan lines in the order of their plan, none of them with half of the time."""
    rows = [
        {
            "row-source": name,
            "total_us": us,
            "share": us / 1e6,
            "idle": False,
            "operation": name,
            "depth": 0,
        }
        for name, us in (("SELECT", 100_000), ("SORT", 480_000), ("TABLE", 420_000))
    ]
    profile = {"schema": "spillcast.profile/1", "by": ["row-source"], "elapsed_s": 1, "rows": rows}
    assert answer_of(profile) == "The most time goes into SORT: 480 ms, 48 % of the time."


def test_a_fleet_with_only_bounds():
    """A statement without a forecast has no bounds; one with bounds alone is in their sum."""

    def answer(saved_s, bounds_s, **changes):
        sums = {"saved_s": saved_s, "saved_interval_s": bounds_s}
        document = fleet() | sums
        document["statements"][0] |= {"saved_s": None, "forecast_s": None, **changes}
        return answer_of(document)

    refused = {"interval_s": None, "saved_interval_s": None, "refused": "no temp I/O"}
    assert "save nothing" in answer(-20.0, [-60.0, 30.0], **refused)
    assert "save 0 s to 30 s: how long" in answer(0.0, [0.0, 30.0])
    assert "save 20 s to 30 s: how long" in answer(10.0, [20.0, 30.0])
    assert " (90 % interval 5 s to 30 s)" in answer(10.0, [5.0, 30.0])


@cases(
    ("other", "charts"),
    [({"target": "tmpfs"}, 5), ({"target": "tmpfs", "dataset": "/srv/others"}, 4)],
)
def test_storages_of_one_fleet_are_compared_by_their_savings(tmp_path, other, charts):
    """Each has a chart of statements and one of days; the best is first in any order."""
    best = fleet() | {"saved_s": 4100.0, "saved_interval_s": [3700.0, 4500.0]} | other
    paths = [save(tmp_path / "gp3.json", fleet()), save(tmp_path / "tmpfs.json", best)]
    made = json_of("report", *paths, "-o", tmp_path / "page.html")
    assert "tmpfs" in made["answer"][0]
    assert len(made["charts"]) == charts


def slow_timeline(path, length_ns):
    """Nanoseconds by state and slice, computed for each wait."""
    rows = pq.read_table(path / "waits.parquet").to_pylist()
    result = {}

    def add(state, low, high):
        while low < high:
            stretch = low // length_ns
            until = min(high, (stretch + 1) * length_ns)
            result[state, stretch] = result.get((state, stretch), 0) + until - low
            low = until

    for row in rows:
        begin = row["start_ns"]
        name = {"read": timeline.READ, "write": timeline.WRITE, None: timeline.WAITS}[row["op"]]
        add(name, begin, begin + row["elapsed_ns"])
        add(timeline.CPU, max(begin - row["cpu_before_ns"], 0), begin)
    return result


def test_a_time_line_is_the_sum_of_its_waits(tmp_path):
    """Against a slow version; slices of 5 ms divide many waits."""
    recording = Recording.open(write_large_recording(tmp_path / "some.spill", 6000))
    line = timeline.of_recording(recording)
    length_ns = round(line.length_s * 1e9)
    expected = slow_timeline(recording.path, length_ns)
    for state, busy in line.busy.items():
        for stretch, mean in enumerate(busy[:-1]):
            requested = expected.get((state, stretch), 0) / length_ns
            assert mean == pytest.approx(requested, rel=1e-6)
    assert set(line.busy) == {timeline.CPU, timeline.READ, timeline.WRITE, timeline.WAITS}


def test_many_waits_take_little_memory_and_a_small_page(tmp_path):
    """A twentieth of the ten million of `python -m bench large`."""
    waits = 500_000
    path = write_large_recording(tmp_path / "large.spill", waits)
    code = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "sys.argv = ['spillcast', 'report', sys.argv[1], '-o', sys.argv[2], '--json']\n"
        "from spillcast.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert end.code == 0, end.code\n"
        # ru_maxrss would be this process's, if larger, as it survives exec.
        "status = Path('/proc/self/status').read_text()\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', status)[1], file=sys.stderr)\n"
    )
    output = tmp_path / "report.html"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(output)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    document = json.loads(done.stdout)
    Draft202012Validator(ANSWER).validate(document)
    assert document["bytes"] == output.stat().st_size < 3_000_000
    assert int(done.stderr.split()[-1]) < 500_000
    assert len(document["charts"]) == 4
    meta = json.loads((path / "meta.json").read_text())
    assert waits / 2 * SPACE_NS == 60e9
    # The time of both sessions, and temp I/O that covers a known share of it.
    share = meta["temp"]["total_s"] / (meta["temp"]["total_s"] + meta["cpu_s"])
    reported = int(re.search(r"(\d+) % of the", document["answer"][0])[1]) / 100
    assert reported == pytest.approx(share, abs=0.06)
    assert "took 60 s," in document["answer"][0]


def test_a_page_has_the_slowest_of_many_queries(tmp_path, monkeypatch):
    """Charts and raw figures of all 60 would exceed the limit of a page."""
    monkeypatch.setattr(write, "BYTES_MAX", 200_000)
    inputs = Inputs()
    for number in range(60):
        inputs.add_document("document.json", forecast() | {"baseline_s": 1000.0 + number})
    document = write.write_report(inputs, tmp_path / "report.html")
    compared = [title for title in document["sections"] if "compared" in title]
    assert document["bytes"] == (tmp_path / "report.html").stat().st_size <= 200_000
    assert 5 < len(compared) < 60
    shown = inputs.first(len(compared))[0].of_type(Forecast)
    assert {answer.baseline_s for answer in shown} == {1059.0 - at for at in range(len(compared))}


@cases(
    ("arguments", "words"),
    [
        (["missing.spill"], "missing.spill: no such recording"),
        (["cut.json"], "cut.json: cut or damaged: not JSON"),
        (["other.json"], "other.json: schema is 'spillcast.sql/1'"),
        (["less.json"], "less.json: damaged: Object missing required field `ceiling_s`"),
        (
            ["within.json"],
            "within.json: damaged: Object missing required field `op` - at `$.terms[0]`",
        ),
        (["profile.json"], "profile.json: damaged: Expected `int | null`, got `array`"),
        (["whole.json", "-o", "nowhere/report.html"], "nowhere/report.html: there is no directory"),
        (["whole.json", "--elapsed", "5m"], "for a forecast"),
        (["whole.json", "--written", "5G"], "--written is for a forecast"),
        (["whole.json", "--executors", "2"], "--executors is for a forecast"),
        (["plan.json"], "plans and logs of PostgreSQL"),
        (["temp.csv"], "rows of temp usage"),
        (["whole.json", "--to", "tmpfs"], "--to is for evidence"),
    ],
)
def test_invalid_input_is_refused_in_one_line(arguments, words, tmp_path):
    whole = forecast()
    save(tmp_path / "whole.json", whole)
    (tmp_path / "cut.json").write_text(json.dumps(whole)[:200])
    save(tmp_path / "other.json", {"schema": "spillcast.sql/1"})
    save(tmp_path / "less.json", {k: v for k, v in whole.items() if k != "ceiling_s"})
    save(tmp_path / "within.json", whole | {"terms": [{"name": "temp read"}]})
    save(tmp_path / "plan.json", [{"Plan": {"Node Type": "Sort"}}])
    (tmp_path / "temp.csv").write_text("USERNAME,SEGTYPE,EXTENTS\nBATCH,HASH,3541\n")
    row = {"event": "direct path read temp", "size": [31], "total_us": 5}
    profile = {"schema": "spillcast.profile/1", "by": ["event", "size"], "elapsed_s": 0.3}
    save(tmp_path / "profile.json", profile | {"rows": [row]})
    output = () if "-o" in arguments else ("-o", "report.html")
    assert words in only_line(spillcast("report", *arguments, *output, cwd=tmp_path), 2)
    assert not list(tmp_path.glob("*.html*"))


def test_without_its_packages_the_error_names_the_extra(tmp_path):
    """As in an environment with only spillcast's own requirements."""
    path = save(tmp_path / "whole.json", forecast())
    code = (
        "import sys\n"
        "sys.modules['jinja2'] = None\n"
        "sys.argv = ['spillcast', 'report', sys.argv[1], '-o', sys.argv[1] + '.html']\n"
        "from spillcast.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert "pip install 'spillcast[report]'" in only_line(result, 2)


def test_a_document_on_standard_input(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = started("report", "-", "-o", tmp_path / "report.html", **pipes)
    printed, _ = process.communicate(json.dumps(forecast()), timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert "5 min 50 s" in printed
