"""The recorder of sessions that a server lists, on a server on paper: no capture, states alone."""

import pytest

from spillcast.engines.engine import SessionSelector
from spillcast.engines.live import Session, record_listed
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

SQL = "select * from orders where password = 'secret-word' order by 1"


class PaperServer:
    """A server whose sessions are those of a script: one list for each look, the last for ever."""

    rate_hz, tells_end, hint = 200, True, "see the paper"

    def __init__(self, *looks):
        self.looks = list(looks)

    def sessions(self):
        listed = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(listed, Exception):
            raise listed
        return listed

    def process(self):
        return None, "it runs on paper"

    def temp_places(self):
        return []

    def describe(self, session):
        return ObservedEngine("paper", "1.0", pid=session.thread)

    def table_calls(self, _session):
        return None


def idle(number=7, query_id=1):
    return Session(number, "etl", "dw", False, 0.0, None, None, query_id, None)


def runs(seconds, number=7, query_id=2, state="sorting"):
    return Session(number, "etl", "dw", True, seconds, state, SQL, query_id, None)


def recorded(tmp_path, wanted, *looks, duration_s=None):
    recorder = Recorder(tmp_path / "run.spill", RecordOptions(duration_s=duration_s))
    said = []
    recording = record_listed(PaperServer(*looks), recorder, wanted, said.append, lambda *_: None)
    assert any("it runs on paper" in text for text in said)
    return recording


def test_the_next_query_of_an_idle_session_is_recorded_to_its_end(tmp_path):
    looks = [idle()], [idle()], *([runs(0.005 * n)] for n in range(1, 20)), [idle(query_id=2)]
    recording = recorded(tmp_path, SessionSelector(7), *looks)
    query = recording.meta.server
    assert (recording.meta.ended_by, query.ended_by, query.backend) == ("end", "query", 7)
    assert query.before_recording_s == 0
    assert recording.meta.sampling.samples > 0
    assert set(recording.samples["event"].to_pylist()) == {"sorting"}
    assert "secret-word" not in recording.meta.engine.query
    assert "from orders" in recording.meta.engine.query


def test_a_running_query_is_selected_by_its_text_and_counts_from_its_start(tmp_path):
    looks = *([runs(12 + 0.005 * n), idle(8)] for n in range(20)), [idle(query_id=2), idle(8)]
    recording = recorded(tmp_path, SessionSelector(query="FROM orders"), *looks)
    assert recording.meta.server.before_recording_s >= 12
    assert recording.meta.server.query_elapsed_s >= 12


def test_another_execution_of_the_same_text_ends_the_first(tmp_path):
    looks = *([runs(1.0 + 0.005 * n)] for n in range(9)), [runs(0.001, query_id=3)]
    assert recorded(tmp_path, SessionSelector(7), *looks).meta.ended_by == "end"


def test_a_lost_connection_keeps_what_was_seen(tmp_path):
    looks = *([runs(1.0 + 0.005 * n)] for n in range(9)), StatementFailed("gone away")
    meta = recorded(tmp_path, SessionSelector(7), *looks).meta
    assert (meta.ended_by, meta.server.ended_by) == ("failure", "failure")
    assert "gone away" in meta.server.failure


@pytest.mark.parametrize(
    ("wanted", "look", "error"),
    [
        (SessionSelector(9), [idle()], ProcessMissing),
        (SessionSelector(query="orders"), [runs(1.0), runs(2.0, 8)], SessionAmbiguous),
        (SessionSelector(query="customers"), [runs(1.0)], TimedOut),
        (SessionSelector(7), [idle()], TimedOut),
        (SessionSelector(query="("), [idle()], InputError),
    ],
)
def test_what_cannot_be_recorded(tmp_path, wanted, look, error):
    with pytest.raises(error):
        recorded(tmp_path, wanted, look, duration_s=0.05)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("later", [[], [idle(query_id=2)]])
def test_a_query_that_was_never_seen_running_is_none(tmp_path, later):
    with pytest.raises(QueryEnded):
        recorded(tmp_path, SessionSelector(7), [idle()], [idle()], later)


def test_a_source_that_cannot_attach_is_refused(tmp_path):
    recorder = Recorder(tmp_path / "run.spill", RecordOptions(capture="preload"))
    with pytest.raises(CaptureUnavailable):
        record_listed(PaperServer([idle()]), recorder, SessionSelector(7), print, lambda *_: None)
