"""The page of a server, the ranking of its statements and the recordings of all its queries."""

import re
from html import unescape
from pathlib import Path

import pytest

from cases import cases
from harness import json_of, spillcast
from snapshot_files import TEXTS, Server, three_weeks
from spillcast.engines.postgres.rank.history import rank_snapshots, steps
from spillcast.engines.ranking import Gain, Ranked, RankRequest, RateLimit, ServerRanking
from spillcast.errors import OptionInvalid
from spillcast.fleet.snapshots import LiveSession
from spillcast.recording.observed import Server as ObservedServer
from spillcast.recording.server import QueryRecording, ServerRecording, UnkeptQuery
from spillcast.report.html import documents
from spillcast.report.recording import server_recording_text, status_line
from spillcast.report.servers import ranking_page


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server") / "looks"
    three_weeks(folder, mib=20)
    return folder


def page_of(output, *arguments):
    return json_of("report", *arguments, "-o", output), output.read_text()


@pytest.fixture(scope="module")
def page(looks):
    """The page of the folder, and the output of the command."""
    file = looks.parent / "page.html"
    return file, page_of(file, looks)[0]


def test_a_folder_of_snapshots_is_a_page(looks, page, tmp_path):
    file, made = page
    text = file.read_text()
    assert made["sections"][:2] == ["What to do first", "What changed"]
    assert len(made["charts"]) >= 2
    assert all(query in text for query in TEXTS.values())
    printed = spillcast("postgres", looks, "--json").stdout
    (tmp_path / "postgres.json").write_text(printed)
    from_document, _ = page_of(tmp_path / "again.html", tmp_path / "postgres.json")
    assert from_document["sections"] == made["sections"]


def test_a_page_has_intervals_of_the_requested_level(looks, tmp_path):
    _, text = page_of(tmp_path / "page.html", looks, "--confidence", "0.5")
    assert set(re.findall(r'"confidence": ([\d.]+)', unescape(text))) == {"0.5"}


def test_a_redacted_page_names_neither_statements_nor_hosts(looks, tmp_path):
    made, text = page_of(tmp_path / "page.html", looks, "--redact", "--to", "latency:1ms")
    for secret in ("sales", "orders", "lines", "db1"):
        assert secret not in text
    # Kinds of changes identify nobody, nor do settings.
    assert "table blocks per call" in text
    assert '"memory": "work_mem"' in unescape(text)
    assert len(made["charts"]) >= 2


def test_a_redacted_snapshot_has_no_texts(tmp_path):
    server = Server()
    server.look(tmp_path)
    for _ in range(2):
        server.call("1")
        server.look(tmp_path, redact=True)
    assert "select" not in spillcast("postgres", tmp_path, "--json").stdout


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.nightly
def test_the_page_fits_its_window(page, browser, width):
    window = browser.new_page(viewport={"width": width, "height": 800})
    window.goto(f"file://{page[0]}")
    assert window.evaluate("document.documentElement.scrollWidth") <= width


@cases(
    ("levels", "splits"),
    [
        ([1.0] * 9, []),
        ([1.0] * 5 + [2.0] * 4, [(5, False)]),
        ([1.0] * 5 + [2.0] * 4 + [1.0] * 6, [(5, False), (9, False)]),
        ([1.0, 2.0] * 6, []),
        ([0.1 * at for at in range(20)], [(10, True)]),
        ([1.0, 2.0], []),
    ],
)
def test_changes_of_level_are_detected(levels, splits):
    assert steps(levels) == splits


@cases(
    ("server_changes", "call", "workers", "cause"),
    [
        ({"version": "18.3"}, {}, 0, "version"),
        ({"settings": {"work_mem": "1024", "track_io_timing": "on"}}, {}, 0, "setting"),
        ({}, {"rows": 50, "blocks": 5000}, 0, "rows"),
        # Reads of tables grew as well, and not as much.
        ({}, {"blocks": 3000}, 0, "plan"),
        ({}, {}, 2, "plan"),
        # As with more rows in the tables.
        ({}, {"blocks": 5000}, 0, None),
        ({}, {}, 0, None),
    ],
)
def test_the_cause_of_a_change_follows_from_what_changed_with_it(
    tmp_path, server_changes, call, workers, cause
):
    """Calls spill 8 MiB, and 40 MiB from the seventh hour on."""
    server = Server(version="18.1")
    for hour in range(12):
        is_later = hour >= 6
        for name, value in server_changes.items() if is_later else ():
            setattr(server, name, value)
        server.call("1", 40 if is_later else 8, **(call if is_later else {}))
        server.rows["1"]["parallel_workers_to_launch"] += workers * is_later
        server.wait(3600)
        server.look(tmp_path / "looks")
    [ranking] = rank_snapshots(str(tmp_path / "looks"), RankRequest(["factor:10"]))
    [change] = ranking.history.changes
    assert (change.kind, change.cause) == ("more", cause)
    assert change.ratio == pytest.approx(5.0)


@cases("text", ["temp", "temp > 10G", "temp > x/h", "disk > 1G/h", "new > -1/d"])
def test_an_invalid_alert_rule_is_refused(text):
    with pytest.raises(OptionInvalid):
        RateLimit.of(text)


def test_a_rate_is_over_the_latest_snapshots_that_cover_its_period():
    rule = RateLimit.of("temp > 1G/h")
    gib = float(1 << 30)
    quiet, busy = (600.0, {"temp": 0.0}), (600.0, {"temp": gib / 4})
    assert rule.alert([busy] * 60 + [quiet] * 6).rate == 0
    assert rule.alert([quiet] * 60 + [busy] * 6).rate == pytest.approx(1.5 * gib)
    # Snapshots far apart give a mean; a shorter time than the period is not extrapolated.
    assert rule.alert([(7200.0, {"temp": 4 * gib})]).rate == pytest.approx(2 * gib)
    assert rule.alert([busy]).rate == pytest.approx(gib / 4)


def test_an_alert_over_a_short_time_shows_no_rate():
    """Bytes spilled in 5 s are not shown as a rate per hour."""
    moment = [(5.0, {"temp": float(2 << 20)})]
    for text, exceeded in (("temp > 1M/h", True), ("temp > 1G/h", False)):
        alert = RateLimit.of(text).alert(moment)
        assert alert.exceeded == exceeded
        _, _, measured = alert.text.partition(f"{text}: ")
        assert "/h" not in measured
        assert "2 MiB" in measured
        assert "5 s" in measured
    hour = RateLimit.of("temp > 1G/h").alert([(3600.0, {"temp": float(2 << 20)})])
    assert hour.text.endswith("2 MiB/h")


def _text(gains):
    item = Ranked("1", "select 1", 4, 2.0, 1 << 20, (0.1, 0.1), gains, Gain(0.1, (0.05, 0.2)))
    page = ranking_page(ServerRanking("db", 60.0, [item], list(gains), 0.9, elapsed_s=9.0), 5)
    return " ".join(page.text(100).split())


@cases(("running_s", "leads"), [(3.0, True), (1.0, False)])
def test_a_session_that_outlasts_all_calls_of_each_statement_leads_the_answer(running_s, leads):
    item = Ranked("1", "select 1", 4, 2.0, 1 << 20, (0.1, 0.1), {}, Gain(0.1, (0.05, 0.2)))
    live = [LiveSession(4711, "select 2", running_s, 1 << 20, None)]
    ranking = ServerRanking("db", 60.0, [item], [], 0.9, elapsed_s=9.0, live=live, record="record")
    assert ("4711" in ranking_page(ranking, 5).parts[0].sentences[0]) == leads
    # The first statement has a fix in either case.
    assert len(documents.server(ranking)[0].sentences) == 1 + leads


def test_storage_slower_than_the_page_cache_is_not_a_fix():
    answer = _text({"catalogue:aws-gp3": Gain(1.36e-6, (-8.0, 0.1), 10.0)})
    assert "1.36 us" not in answer
    assert "10 s on catalogue:aws-gp3 instead of 2 s" in answer


def test_only_bounds_of_a_saving_are_printed_where_only_bounds_are_known():
    """Temp I/O took between 4 ms and all of 2 s: the middle is not an estimate."""
    gain, no_spill = Gain(0.9, (-0.3, 1.7)), Gain(1.0, (0.0, 2.0))
    item = Ranked("1", "select 1", 4, 2.0, 1 << 20, (0.004, 2.0), {"flash": gain}, no_spill)
    page = ranking_page(ServerRanking("db", 60.0, [item], ["flash"], 0.9, elapsed_s=9.0), 5)
    for text in (page.text(100), page.text(200), page.markdown()):
        assert "-300 ms to 1.70 s" in " ".join(text.split())
        assert "900 ms" not in text
    [header, *rows] = [line.split(",") for line in page.data.csv().splitlines()]
    assert {row[header.index("saved_s")] for row in rows} == {""}


def test_a_saving_below_a_thousandth_is_shown_as_about_zero():
    answer = _text({"disk": Gain(1.9e-3, (1e-3, 3e-3)), "flash": Gain(0.08, (0.05, 0.1))})
    assert "1.9 ms (" not in answer
    assert "80 ms (50 ms to 100 ms)" in answer


def test_a_slower_storage_has_no_saving():
    answer = _text({"disk": Gain(-126.0, (-200.0, -60.0)), "flash": Gain(0.08, (0.05, 0.1))})
    assert "saves 2 min 06 s" not in answer
    assert "disk is 2 min 06 s slower (-3 min 20 s to -60 s)" in answer
    assert "flash saves 80 ms" in answer


FOLDER = Path("/a/rather/long/way/to/where/the/recordings/of/this/server/are/kept/server.spills")


def item(pid, temp_s, **changes):
    reported = {
        "path": FOLDER / f"{pid}-1.spill",
        "pid": pid,
        "user": "etl",
        "database": "dw",
        "application": "",
        "query": "select count(*)\n  from (select * from sales order by amount) s",
        "started_at": None,
        "elapsed_s": 10.0,
        "before_recording_s": 0.0,
        "ended_by": "query",
        "workers": 0,
        "reads": 256,
        "read_bytes": 2 << 20,
        "writes": 128,
        "written_bytes": 1 << 20,
        "temp_s": temp_s,
        "temp_share": temp_s / 10.0,
    }
    return QueryRecording(**{**reported, **changes})


def recorded(*recordings, **changes):
    server = ObservedServer("/run/postgresql", 5432, "dw", "postgres")
    reported = {
        "path": FOLDER,
        "server": server,
        "recorded_s": 60.0,
        "ended_by": "duration",
        "failure": None,
        "method": "perf",
        "lost": 0,
        "recordings": recordings,
        "unkept": [],
        "unassigned": 0,
    }
    return ServerRecording(**{**reported, **changes})


def test_each_query_has_a_line_and_the_largest_is_the_next_step():
    text = server_recording_text(recorded(item(11, 2.0), item(12, 5.0, user="", database="")), 120)
    head, _, _, _, first, second, _, after = text.splitlines()
    assert head == f"{FOLDER}: 2 recordings of queries that spilled, in 60 s"
    query = "select count(*) from (select * from sale..."
    assert first.split() == ["11-1.spill", "etl@dw", *query.split(), "10", "s", "2", "MiB",
                             "1", "MiB", "20", "%"]  # fmt: skip
    assert second.split()[:2] == ["12-1.spill", "-"]
    assert after == f"  next       spillcast forecast {FOLDER}/12-1.spill"


def test_lines_of_the_table_fit_a_narrow_terminal():
    text = server_recording_text(recorded(item(11, 2.0)), 60)
    assert all(len(line) <= 60 for line in text.splitlines() if str(FOLDER) not in line)


def test_a_server_without_spills():
    assert server_recording_text(recorded(), 80) == "no query did temp I/O in 60 s"


def test_caveats_of_recordings_are_shown():
    unkept = [UnkeptQuery(13, "select 1", "it was too much")]
    recording = recorded(
        item(11, 2.0), unkept=unkept, unassigned=7, lost=3, failure="no connection"
    )
    text = server_recording_text(recording, 120)
    assert "nothing kept of process 13, it was too much: select 1" in text
    assert "7 temp operations of no observed query" in text
    assert "perf lost 3 reports" in text
    assert "no connection" in text


def test_the_progress_line():
    counts = {"temp_reads": 1, "temp_writes": 1, "temp_ns": 5, "temp_bytes": 3 << 20, "lost": 0}
    sessions = {"active": 12, "spilling": 3, "recordings": 4}
    line = status_line({"elapsed_ns": 90_000_000_000, **counts, **sessions})
    for part in ("12 sessions active", "3 spilling", "3 MiB", "4 recordings"):
        assert part in line
