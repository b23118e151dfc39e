"""The recorder of a session, on a simulated server: no capture, only session states."""

from dataclasses import replace

import pytest

from cases import cases
from spillcast.engines import SessionSelector, activity, sampler
from spillcast.engines.activity import SessionState
from spillcast.engines.live import SessionRecorder, prepare, wait_for_session
from spillcast.engines.mysql.record import ListedSession, MySqlActivity, chosen
from spillcast.engines.sampler import Sampler
from spillcast.errors import (
    CaptureUnavailable,
    InputError,
    ProcessMissing,
    QueryEnded,
    SessionAmbiguous,
    StatementFailed,
    TimedOut,
)
from spillcast.recording.capture import RecordOptions
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.record import Recorder
from spillcast.redaction import masked_text

SQL = "select * from orders where password = 'secret-word' order by 1"
RATE_HZ = 200


class PaperSession(SessionRecorder):
    """The recording of a session of a server that cannot be observed."""

    option, rate_hz, rate_alone_hz = "--session", RATE_HZ, RATE_HZ

    def observe(self):
        raise AssertionError("there is nothing to attach to")

    def describe_engine(self):
        return ObservedEngine("paper", "1.0", query=masked_text(self.query.text))


def script(*looks):
    """Lists of sessions: one for each sample, the last repeatedly."""
    left = list(looks)

    def look():
        listed = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(listed, Exception):
            raise listed
        return listed

    return look


def idle(number=7, query_id=1):
    return ListedSession(number, "etl", "dw", False, 0.0, None, None, query_id, None)


def runs(seconds, number=7, query_id=2, state="sorting"):
    return ListedSession(number, "etl", "dw", True, seconds, state, SQL, query_id, None)


def recorded(tmp_path, wanted, *looks, duration_s=None, capture="auto", messages=None):
    options = RecordOptions(duration_s=duration_s, capture=capture)
    recorder = Recorder(tmp_path / "run.spill", options)
    answer, look = [] if messages is None else messages, script(*looks)
    absent_because = prepare(recorder, None, "it runs on paper", answer.append)
    selected = wait_for_session(
        lambda: chosen(look(), wanted),
        wanted,
        answer.append,
        within_s=duration_s,
        look_s=1 / RATE_HZ,
    )
    activity = MySqlActivity(look, selected.id, reports_end=True)
    runs = selected.runs and wanted.backend is None
    session = PaperSession(recorder, activity, selected.id, 0, runs=runs)
    session.begin(absent_because, answer.append)
    recording = session.until_the_end(lambda *_: None)
    assert any("it runs on paper" in text for text in answer)
    return recording


def test_the_next_query_of_an_idle_session_is_recorded_to_its_end(tmp_path):
    looks = [idle()], [idle()], *([runs(0.005 * n)] for n in range(60)), [idle(query_id=2)]
    recording = recorded(tmp_path, SessionSelector(7), *looks)
    query = recording.meta.server
    assert (recording.meta.ended_by, query.ended_by, query.backend) == ("end", "query", 7)
    assert query.before_recording_s == 0
    assert recording.meta.sampling.samples > 0
    assert set(recording.samples["event"].to_pylist()) == {"sorting"}
    assert "secret-word" not in recording.meta.engine.query
    assert "from orders" in recording.meta.engine.query


def test_the_wait_for_a_query_is_shown_once(tmp_path, monkeypatch):
    monkeypatch.setattr("spillcast.engines.live.ENDED_S", 0.0)
    monkeypatch.setattr("spillcast.engines.live.TICK_S", 1 / RATE_HZ)
    looks = *([idle()] for _ in range(20)), *([runs(0.005 * n)] for n in range(60))
    messages = []
    recorded(tmp_path, SessionSelector(7), *looks, [idle(query_id=2)], messages=messages)
    assert sum("session 7" in text for text in messages) == 1


def test_a_running_query_is_selected_by_its_text_and_counts_from_its_start(tmp_path):
    looks = *([runs(1200 + 0.005 * n), idle(8)] for n in range(20)), [idle(query_id=2), idle(8)]
    recording = recorded(tmp_path, SessionSelector(query="FROM orders"), *looks)
    # Simulated ages grow at another rate than this machine's clock.
    assert recording.meta.server.before_recording_s > 1100
    assert recording.meta.server.query_elapsed_s > 1100


def test_another_execution_of_the_same_text_ends_the_first(tmp_path):
    looks = *([runs(1.0 + 0.005 * n)] for n in range(9)), [runs(0.001, query_id=3)]
    assert recorded(tmp_path, SessionSelector(7), *looks).meta.ended_by == "end"


def test_a_lost_connection_keeps_the_samples(tmp_path):
    looks = *([runs(1.0 + 0.005 * n)] for n in range(9)), StatementFailed("gone away")
    meta = recorded(tmp_path, SessionSelector(7), *looks).meta
    assert (meta.ended_by, meta.server.ended_by) == ("failure", "failure")
    assert "gone away" in meta.server.failure


@cases(
    ("wanted", "look", "error"),
    [
        (SessionSelector(9), [idle()], ProcessMissing),
        (SessionSelector(query="orders"), [runs(1.0), runs(2.0, 8)], SessionAmbiguous),
        (SessionSelector(query="customers"), [runs(1.0)], TimedOut),
        (SessionSelector(7), [idle()], TimedOut),
        (SessionSelector(query="("), [idle()], InputError),
    ],
)
def test_sessions_that_cannot_be_recorded(tmp_path, wanted, look, error):
    with pytest.raises(error):
        recorded(tmp_path, wanted, look, duration_s=0.05)
    assert list(tmp_path.iterdir()) == []


def test_a_query_that_ended_before_its_first_sample_is_refused(tmp_path):
    with pytest.raises(QueryEnded):
        recorded(tmp_path, SessionSelector(query="orders"), [runs(1.0)], [idle()])


def test_a_duration_that_ends_after_a_short_statement_has_no_query(tmp_path, monkeypatch):
    monkeypatch.setattr("spillcast.engines.live.TICK_S", 1 / RATE_HZ)
    # Whatever time this machine takes, that is short.
    monkeypatch.setattr(activity, "SKIPPED_S", 60.0)
    over = replace(idle(query_id=2), seconds=60.0)
    looks = [idle()], [idle()], *([runs(0.005 * n)] for n in range(20)), [over]
    with pytest.raises(TimedOut):
        recorded(tmp_path, SessionSelector(7), *looks, duration_s=0.7)


def test_a_session_that_ends_without_a_query_has_none(tmp_path):
    with pytest.raises(QueryEnded):
        recorded(tmp_path, SessionSelector(7), [idle()], [idle()], [])


def test_a_source_that_cannot_attach_is_refused(tmp_path):
    with pytest.raises(CaptureUnavailable):
        recorded(tmp_path, SessionSelector(7), [idle()], capture="preload")


class Late:
    """The clock, and a server with slow responses, except for every seventh.

    Its session runs a query from 5 s to 15 s; the clock is ahead, and set by ``set_s`` at 12 s.
    """

    process, ahead_s = None, 1e9

    def __init__(self, set_s):
        self.now_s, self.looks, self.set_s = 0.0, 0, set_s

    def monotonic(self):
        self.now_s += 0.001
        return self.now_s

    def monotonic_ns(self):
        return round(self.now_s * 1e9)

    def thread_time(self):
        return 0.0

    def wait(self, pause_s):
        self.now_s += pause_s

    def sessions(self):
        self.looks += 1
        now_s = self.now_s
        assert now_s < 60, "it has ended at 15 s"
        self.now_s += 0.3 if self.looks % 7 else 0.001
        state, changed_s = max(
            (at_s, state)
            for at_s, state in ((0, "idle"), (5, "active"), (15, "idle"))
            if at_s <= now_s
        )[::-1]
        begun_s = self.ahead_s + 5
        now_s, changed_s = (
            self.ahead_s + at_s + (self.set_s if at_s >= 12 else 0) for at_s in (now_s, changed_s)
        )
        return [SessionState(7, None, None, None, now_s, state, begun_s, begun_s, changed_s, 1)]

    def statements(self, _pids):
        return []

    def temp_files(self):
        return []


def sampled(monkeypatch, server):
    """The query of its session 7, by the server's clock."""
    monkeypatch.setattr(sampler, "time", server)
    monkeypatch.setattr(activity, "time", server)
    sampling = Sampler(server, 0, rate_hz=100, session=7)
    monkeypatch.setattr(sampling._halt, "wait", server.wait)
    sampling.run()
    assert sampling.failure is None
    [query] = sampling.take_ended()
    return query


@cases("set_s", [0, 3600, -3600])
def test_slow_responses_change_neither_start_nor_end_of_a_query(monkeypatch, set_s):
    """On a busy machine, the first moments of a query belong to it."""
    query = sampled(monkeypatch, Late(set_s))
    assert query.started_ns / 1e9 == pytest.approx(5, abs=0.01)
    assert query.ended_ns / 1e9 == pytest.approx(15, abs=0.01)
    assert query.life.elapsed_s == pytest.approx(10, abs=0.01)


class Preceded(Late):
    """Its session runs a statement of 30 ms from 1 s on, then immediately a query until 3 s."""

    def sessions(self):
        self.now_s += 0.01
        now_s = self.now_s
        assert now_s < 60, "it has ended at 3 s"
        if 1 <= now_s < 1.03:
            return [SessionState(7, None, None, "1", now_s, "active", 1.0, 1.0, 1.0, 1)]
        state, changed_s = ("idle", 0.0) if now_s < 1 else ("active", 1.03)
        if now_s >= 3:
            state, changed_s = "idle", 3.0
        return [SessionState(7, None, None, "2", now_s, state, 1.03, 1.03, changed_s, 2)]


def test_a_statement_before_the_query_gives_it_neither_start_nor_identifier(monkeypatch):
    query = sampled(monkeypatch, Preceded(0))
    assert query.queryid == "2"
    assert query.started_ns / 1e9 == pytest.approx(1.03, abs=0.003)
