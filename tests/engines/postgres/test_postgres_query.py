"""When a query begins and ends, told from what the server says of its session."""

from dataclasses import replace

from cases import cases
from spillcast.engines.activity import QueryLife, SessionState

#: A query that began at 100 s, seen a second later.
RUNNING = SessionState(1, None, None, None, 101.0, "active", 100.0, 100.0, 100.0, text_hash=1)


def life_of(*sessions):
    life = QueryLife()
    phases = [life.see(session) for session in sessions]
    return life, phases


def test_it_ends_when_the_session_says_that_it_is_idle():
    idle = replace(RUNNING, now_s=103.0, state="idle", xact_start_s=None, state_change_s=102.5)
    life, phases = life_of(RUNNING, replace(RUNNING, now_s=102.0), idle)
    assert phases == ["running", "running", "ended"]
    assert (life.started_s, life.ended_s, life.elapsed_s) == (100.0, 102.5, 2.5)
    assert life.unseen_s == 0.5


def test_a_session_that_is_gone_ends_where_it_was_last_seen():
    life, phases = life_of(RUNNING, replace(RUNNING, now_s=104.0), None)
    assert phases[-1] == "ended"
    assert life.ended_s == 104.0
    assert life.unseen_s == 0.0


def test_the_next_query_ends_the_last():
    after = replace(RUNNING, now_s=103.0, query_start_s=102.9, xact_start_s=102.9, text_hash=2)
    life, _ = life_of(RUNNING, after)
    assert life.ended_s == 102.9


def test_the_same_text_again_is_another_query():
    again = replace(RUNNING, now_s=103.0, query_start_s=102.9, xact_start_s=102.9)
    assert life_of(RUNNING, again)[0].ended_s == 102.9


def test_rows_fetched_in_portions_are_one_query():
    waits = replace(RUNNING, now_s=102.4, state="idle in transaction", state_change_s=102.0)
    fetches = replace(RUNNING, now_s=102.6, query_start_s=102.5, state_change_s=102.5)
    gone = replace(waits, now_s=105.0, query_start_s=102.5, state_change_s=103.0)
    life, phases = life_of(RUNNING, waits, fetches, gone)
    assert phases == ["running"] * 3 + ["ended"]
    assert life.ended_s == 103.0


def test_a_query_is_shown_before_its_transaction_has_a_start():
    life, phases = life_of(replace(RUNNING, xact_start_s=None), replace(RUNNING, now_s=101.5))
    assert phases == ["running", "running"]
    assert life.started_s == 100.0


@cases(("took_s", "phase"), [(0.05, "waiting"), (0.2, "ended")])
def test_what_comes_before_the_query_that_is_waited_for(took_s, phase):
    idle = SessionState(1, None, None, None, 99.0, "idle", 90.0, None, 91.0, text_hash=0)
    done = replace(
        idle, now_s=103.0, query_start_s=100.0, state_change_s=100.0 + took_s, text_hash=1
    )
    assert life_of(idle, RUNNING, done)[1] == ["waiting", "running", phase]


def test_a_query_that_runs_at_the_first_look_is_never_passed_over():
    idle = replace(RUNNING, state="idle", xact_start_s=None, state_change_s=100.01)
    assert life_of(RUNNING, idle)[1] == ["running", "ended"]
