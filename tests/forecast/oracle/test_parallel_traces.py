"""Forecasts from traces of a parallel query: a coordinator that waits, and its servers."""

import re

import pytest

from ash_files import execution, write_ash
from cases import cases
from harness import json_of
from oracle_files import HEADER, READ, blocks, write_trace
from spillcast.errors import EvidenceMixed
from spillcast.evidence.oracle.trace_recording import recording_of_traces
from spillcast.forecast.oracle import forecast_events, resolve_target
from spillcast.forecast.oracle.evidence import OracleEvidence, read_shares, read_traces
from spillcast.forecast.question import Question

TEMP = "direct path * temp"
CLIENT = "SQL*Net message from client"
REPLY = ("PX Deq: Execute Reply", 10_000_000, "sleeptime=200 passes=1 p3=0")
SLOW = (READ, 8_000_000, blocks(31))
LATCH = ("latch free", 2_000_000, "address=1 number=2 tries=0")
THINKS = (CLIENT, 30_000_000, "driver id=1 #bytes=1 p3=0")
SQL_ID = "4q7zf0d2m8kcx"
#: 20 s of another statement in the same session.
LATER = """\
PARSING IN CURSOR #8 len=17 dep=0 uid=1 oct=3 lid=1 tim=11000000 hv=2 ad='0' sqlid='1x6sr04nwu8y0'
select 2 from big
END OF STMT
WAIT #8: nam='latch free' ela= 20000000 address=1 number=2 tries=0 obj#=5 tim=31000000
"""


def traced(folder, sid, *waits, more=""):
    path = write_trace(folder / f"{sid}.trc", waits, header=HEADER.replace("(35.", f"({sid}."))
    path.write_text(path.read_text() + more)
    return path


@cases(
    ("coordinator", "more", "sql_id", "baseline_s"),
    [
        ([REPLY], "", None, 10),
        ([REPLY], "", SQL_ID, 10),
        # The client's time is no session's work.
        ([REPLY, THINKS], "", None, 40),
        ([REPLY, THINKS], "", SQL_ID, 10),
        # Nor does the coordinator's work change what the servers did.
        ([REPLY], LATER, SQL_ID, 10),
        ([REPLY], LATER, None, 30),
        ([REPLY, LATCH], "", None, 12),
    ],
)
def test_waiting_for_parallel_servers_takes_no_share(
    tmp_path, coordinator, more, sql_id, baseline_s
):
    """Four servers read for 8 of 10 s; the coordinator waits and adds nothing to the query."""
    blocked = ("PX Deq Credit: send blkd", 1_000_000, "sleeptime=200 passes=1 qref=0")
    message = ("PX Deq: Execution Msg", 1_000_000, "sleeptime=200 passes=1 p3=0")
    reads = [(READ, 6_400_000, blocks(31)), ("latch free", 1_600_000, LATCH[2])]
    paths = [traced(tmp_path, 35, *coordinator, more=more)]
    paths += [traced(tmp_path, 40 + n, message, *reads, blocked) for n in range(4)]
    evidence = OracleEvidence(traces=read_traces(paths, sql_id=sql_id))
    answer = forecast_events(
        resolve_target("factor:8"), evidence, Question(temp_events=TEMP, sql_id=sql_id)
    )
    assert (answer.baseline_s, answer.forecast_s) == pytest.approx((baseline_s, baseline_s - 7))


DATE = "2024-09-03T20:26:02.412000+02:00"


@cases(
    ("date", "more_us"),
    [
        (DATE, 37_111_000_000),
        # The same clock, or a second one in another time zone.
        ("2024-09-03T15:26:02.412000-03:00", 0),
        ("2024-09-03T15:26:02.412000-03:00", 37_111_000_000),
        ("2024-09-04T00:11:02.412000+05:45", -1_000),
        # Before release 12.2 the time zone is not known.
        ("2024-09-03 20:26:02.412", 37_111_000_000),
        ("2024-09-03 22:26:02.412", 0),
    ],
)
def test_servers_on_another_machine_use_another_clock(tmp_path, date, more_us):
    """Two servers read for 80 % of their time while the coordinator waits for 10 s."""
    message = ("PX Deq: Execution Msg", 2_000_000, "sleeptime=200 passes=1 p3=0")
    work = [(READ, 6_400_000, blocks(31)), ("latch free", 1_600_000, LATCH[2])]
    known = DATE if "T" in date else "2024-09-03 20:26:02.412"
    paths = [traced(tmp_path, 35, REPLY)]
    for sid, its_date, its_more_us in ((40, known, 0), (41, date, more_us)):
        path = traced(tmp_path, sid, message, *work)
        times = re.split(r"(?<=tim=)(\d+)", path.read_text().replace(DATE, its_date))
        times[1::2] = [str(int(tim) + its_more_us) for tim in times[1::2]]
        path.write_text("".join(times))
        paths.append(path)
    paths[0].write_text(paths[0].read_text().replace(DATE, known))
    merged = tmp_path / "merged.trc"
    merged.write_text("".join(path.read_text() for path in paths))
    # The time zone of a file is that of its first line.
    for given in (paths, *([[merged]] if date[19:] == known[19:] else ())):
        evidence = OracleEvidence(traces=read_traces(given))
        answer = forecast_events(resolve_target("factor:8"), evidence, Question(temp_events=TEMP))
        assert (answer.baseline_s, answer.forecast_s) == pytest.approx((10, 3), rel=1e-3)
        assert recording_of_traces(given, 8192).elapsed_s == pytest.approx(6.4, rel=0.01)


def test_waits_in_the_same_second_of_two_clocks_are_kept_apart(tmp_path):
    """A session without a number has a clock too; a number on two machines means two sessions."""
    wait = f"WAIT #1: nam='{READ}' ela= 1000000 {blocks(31)} obj#=-1 tim="
    dated = "*** 2024-10-14 10:00:00.000\n" + wait
    texts = [f"{dated}{tim}\n" for tim in (5_000_000_000, 905_000_000_000)]
    paths = [tmp_path / f"{number}.trc" for number in range(2)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    assert recording_of_traces(paths, 8192).elapsed_s == pytest.approx(1)
    merged = [f"*** SESSION ID:(7.{serial}) 2024-10-14 10:00:00.000\n" for serial in range(2)]
    paths[0].write_text("".join(map("".join, zip(merged, texts, strict=True))))
    with pytest.raises(EvidenceMixed) as refused:
        recording_of_traces(paths[:1], 8192)
    assert refused.value.hint


@cases(("more_us", "dated", "is_known"), [(0, False, True), (9e9, False, False), (9e9, True, True)])
def test_clocks_of_several_machines_are_known_only_with_dates(tmp_path, more_us, dated, is_known):
    message = ("PX Deq: Execution Msg", 2_000_000, "sleeptime=200 passes=1 p3=0")
    paths = [traced(tmp_path, 35, REPLY), traced(tmp_path, 40, message, SLOW)]
    for path, more in zip(paths, (0, more_us), strict=True):
        text = path.read_text()
        text = re.sub(r"(?<=tim=)\d+", lambda tim, more=more: f"{int(tim[0]) + more:.0f}", text)
        path.write_text(text if dated else re.sub(r"^\*\*\* 2.*\n", "", text))
    traces = read_traces(paths)
    assert (traces.notes == []) == is_known
    assert traces.elapsed_s == pytest.approx(10 if is_known else 20)


@cases("sql_id", [None, SQL_ID])
def test_a_coordinator_without_traces_of_its_servers_waits_for_its_query(tmp_path, sql_id):
    """It reads for 8 of 20 s, and is the only session of its query in the traces."""
    path = traced(tmp_path, 35, REPLY, SLOW, LATCH)
    evidence = OracleEvidence(traces=read_traces([path], sql_id=sql_id))
    question = Question(temp_events=TEMP, sql_id=sql_id)
    answer = forecast_events(resolve_target("factor:8"), evidence, question)
    assert (answer.baseline_s, answer.forecast_s) == pytest.approx((20, 13))
    # A server beside a session that does not wait for it.
    message = ("PX Deq: Execution Msg", *REPLY[1:])
    paths = [traced(tmp_path, 40, message, SLOW, LATCH), traced(tmp_path, 50, *[LATCH] * 10)]
    evidence = OracleEvidence(traces=read_traces(paths))
    answer = forecast_events(resolve_target("factor:8"), evidence, Question(temp_events=TEMP))
    assert (answer.baseline_s, answer.forecast_s) == pytest.approx((20, 16.5))
    # Two queries side by side.
    paths = [path, traced(tmp_path, 36, REPLY, SLOW, LATCH)]
    evidence = OracleEvidence(traces=read_traces(paths))
    answer = forecast_events(resolve_target("factor:8"), evidence, Question(temp_events=TEMP))
    assert (answer.baseline_s, answer.forecast_s) == pytest.approx((20, 13))


def test_waits_for_other_processes_may_be_the_temp_events(tmp_path):
    """These waits are at most the whole run."""
    paths = [traced(tmp_path, 40 + n, ("PX Deq: Execution Msg", *REPLY[1:])) for n in range(4)]
    paths.append(traced(tmp_path, 35, REPLY))
    evidence = OracleEvidence(traces=read_traces(paths))
    question = Question(temp_events="PX Deq*")
    answer = forecast_events(resolve_target("factor:2"), evidence, question)
    assert (answer.baseline_s, answer.forecast_s) == pytest.approx((10, 5))


@cases("mib_per_s", [125, 1000])
def test_sessions_of_ash_share_the_throughput_of_a_volume(tmp_path, mib_per_s):
    """16 sessions each wait for half of 600 s: 9 ms for each MiB."""
    sessions = [execution(600, session_id=100 + n, qc_session_id=35) for n in range(16)]
    ash = write_ash(tmp_path / "ash.csv", *sessions)
    trace = write_trace(tmp_path / "a.trc", [(READ, 9000, blocks(128))] * 400)
    target = f"limits:iops=16000,throughput={mib_per_s}MiB/s,latency=1ms"
    answer = json_of("forecast", ash, trace, "--elapsed", 600, "--block", "8K", "--to", target)
    moved_mib = 16 * 300 / 0.009
    assert answer["forecast_s"] == pytest.approx(moved_mib / mib_per_s, rel=0.02)


@cases("mib_per_s", [125, 1000])
def test_parallel_sessions_of_traces_share_the_throughput_of_a_volume(tmp_path, mib_per_s):
    """16 sessions each read 400 times 1 MiB, for 9 of 18 ms; then they share all that it moves."""
    waits = [(READ, 9000, blocks(128)), ("latch free", 9000, LATCH[2])] * 400
    traces = [traced(tmp_path, 40 + n, *waits) for n in range(16)]
    target = f"limits:iops=16000,throughput={mib_per_s}MiB/s,latency=1ms"
    answer = json_of("forecast", *traces, "--block", "8K", "--to", target)
    assert answer["forecast_s"] == pytest.approx(16 * 400 / mib_per_s, rel=0.02)


@cases("fraction", ["", ".400", ".600"])
def test_an_hour_that_the_clock_repeats_is_noticed(tmp_path, fraction):
    """80 minutes of samples, the last 20 by a clock that was set back by an hour."""
    rows = execution(3600) + execution(1200, after_s=1800)
    for row in rows:
        row["SQL_EXEC_START"] = rows[0]["SQL_EXEC_START"]
    for row in rows[3600:]:
        row["SAMPLE_TIME"] += fraction
    shares = read_shares([write_ash(tmp_path / "ash.csv", rows)], "direct path*")
    assert any("--elapsed" in note for note in shares.notes)
    # Without fractions the repeated samples are as those of a second session.
    assert shares.elapsed_s == pytest.approx(4800 if fraction else 3600)


def test_samples_of_two_instances_are_not_those_of_a_clock_that_was_set_back(tmp_path):
    """Each instance samples at times of its own; the export does not name them."""
    rows = execution(60)
    others = [{**row, "SESSION_ID": 77, "SAMPLE_TIME": row["SAMPLE_TIME"] + ".400"} for row in rows]
    for row in (*rows, *others):
        row["QC_SESSION_ID"] = 77
    columns = ("SAMPLE_TIME", "SESSION_ID", "QC_SESSION_ID", "SESSION_STATE", "EVENT")
    columns += ("SQL_ID", "SQL_EXEC_ID")
    path = write_ash(tmp_path / "ash.csv", rows, others, columns=columns)
    shares = read_shares([path], "direct path*")
    assert shares.elapsed_s == pytest.approx(60.4)
    assert shares.sessions == pytest.approx(2)
    assert shares.notes == []


def test_samples_of_a_named_instance_are_not_those_of_parallel_sessions(tmp_path):
    """The sampler takes alternately 0.99 s and 1.01 s, so two samples begin in the same second."""
    rows = execution(60)
    for before, row in zip(rows[::2], rows[1::2], strict=True):
        row["SAMPLE_TIME"] = before["SAMPLE_TIME"] + ".990"
    shares = read_shares([write_ash(tmp_path / "ash.csv", rows)], "direct path*")
    assert shares.instants == 60
    assert shares.sessions == pytest.approx(1)
