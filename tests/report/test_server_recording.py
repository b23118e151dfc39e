"""What is said of the recordings of a whole server."""

from pathlib import Path

from spillcast.recording.observed import Server
from spillcast.recording.server import QueryRecording, ServerRecording, UnkeptQuery
from spillcast.report.recording import server_recording_text, status_line

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
    server = Server("/run/postgresql", 5432, "dw", "postgres")
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


def test_a_line_a_query_and_the_largest_is_what_to_ask_next():
    text = server_recording_text(recorded(item(11, 2.0), item(12, 5.0, user="", database="")), 120)
    head, _, _, _, first, second, _, after = text.splitlines()
    assert head == f"{FOLDER}: 2 recordings of queries that spilled, in 60 s"
    query = "select count(*) from (select * from sale..."
    assert first.split() == ["11-1.spill", "etl@dw", *query.split(), "10", "s", "2", "MiB",
                             "1", "MiB", "20", "%"]  # fmt: skip
    assert second.split()[:2] == ["12-1.spill", "-"]
    assert after == f"  next       spillcast forecast {FOLDER}/12-1.spill"


def test_a_narrow_terminal_gets_no_longer_lines_in_the_table():
    text = server_recording_text(recorded(item(11, 2.0)), 60)
    assert all(len(line) <= 60 for line in text.splitlines() if str(FOLDER) not in line)


def test_nothing_spilled():
    assert server_recording_text(recorded(), 80) == "no query did temp I/O in 60 s"


def test_what_weakens_them_is_told():
    unkept = [UnkeptQuery(13, "select 1", "it was too much")]
    recording = recorded(
        item(11, 2.0), unkept=unkept, unassigned=7, lost=3, failure="no connection"
    )
    text = server_recording_text(recording, 120)
    assert "nothing kept of process 13, it was too much: select 1" in text
    assert "7 temp operations of no observed query" in text
    assert "perf lost 3 reports" in text
    assert "no connection" in text


def test_the_line_while_it_goes_on():
    counts = {"temp_reads": 1, "temp_writes": 1, "temp_ns": 5, "temp_bytes": 3 << 20, "lost": 0}
    sessions = {"active": 12, "spilling": 3, "recordings": 4}
    line = status_line({"elapsed_ns": 90_000_000_000, **counts, **sessions})
    for part in ("12 sessions active", "3 spilling", "3 MiB", "4 recordings"):
        assert part in line
