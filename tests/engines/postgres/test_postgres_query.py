"""When a query begins and ends, derived from the states that the server shows of its session."""

from dataclasses import replace
from unittest import mock

from cases import cases
from spillcast.engines import activity
from spillcast.engines.activity import QueryLife, ServerClock, SessionState

#: A query that began at 100 s, sampled a second later.
RUNNING = SessionState(1, None, None, None, 101.0, "active", 100.0, 100.0, 100.0, text_hash=1)


class Clock:
    """The recorder's clock, and a server with a session or none."""

    now_s, session = 0.0, None

    def monotonic(self):
        return self.now_s

    def sessions(self):
        return [] if self.session is None else [self.session]


def life_of(*sessions, set_s=0.0):
    """The query's life after these samples, and its phases; the clock is set after the second."""
    ours, clock = Clock(), ServerClock()
    life, phases = QueryLife(clock), []
    with mock.patch.object(activity, "time", ours):
        for number, session in enumerate(sessions):
            ours.session = session
            if session is not None:
                ours.now_s = session.now_s - (set_s if number > 1 else 0)
            clock.look(ours)
            phases.append(life.see(session))
    return life, phases


def test_a_query_ends_when_its_session_is_idle():
    idle = replace(RUNNING, now_s=103.0, state="idle", xact_start_s=None, state_change_s=102.5)
    life, phases = life_of(RUNNING, replace(RUNNING, now_s=102.0), idle)
    assert phases == ["running", "running", "ended"]
    assert (life.started_s, life.ended_s, life.elapsed_s) == (100.0, 102.5, 2.5)
    assert life.unseen_s == 0.5


def test_a_session_that_disappears_ends_at_its_last_sample():
    life, phases = life_of(RUNNING, replace(RUNNING, now_s=104.0), None)
    assert phases[-1] == "ended"
    assert life.ended_s == 104.0
    assert life.unseen_s == 0.0


def test_the_next_query_ends_the_previous_one():
    after = replace(RUNNING, now_s=103.0, query_start_s=102.9, xact_start_s=102.9, text_hash=2)
    life, _ = life_of(RUNNING, after)
    assert life.ended_s == 102.9


def test_a_repeated_text_is_another_query():
    again = replace(RUNNING, now_s=103.0, query_start_s=102.9, xact_start_s=102.9)
    assert life_of(RUNNING, again)[0].ended_s == 102.9


def test_rows_fetched_in_portions_are_one_query():
    waits = replace(RUNNING, now_s=102.4, state="idle in transaction", state_change_s=102.0)
    fetches = replace(RUNNING, now_s=102.6, query_start_s=102.5, state_change_s=102.5)
    waits_again = replace(waits, now_s=103.2, query_start_s=102.5, state_change_s=103.0)
    gone = replace(waits_again, now_s=105.0)
    life, phases = life_of(RUNNING, waits, fetches, waits_again, gone)
    assert phases == ["running"] * 4 + ["ended"]
    assert life.ended_s == 103.0


@cases("set_s", [-3600.0, -5.0, 0.0, 3600.0])
def test_a_clock_step_neither_hides_nor_ends_a_query(set_s):
    """An NTP step, or a virtual machine that was migrated."""
    idle = SessionState(1, None, None, None, 99.0, "idle", 90.0, None, 91.0, text_hash=0)
    runs = replace(RUNNING, now_s=109.0 + set_s)
    changed_s, states = 110.0 + set_s, ("idle in transaction", "idle")
    for state, now_s in zip(states, (111.5, 110.5), strict=True):
        waits = replace(runs, state=state, state_change_s=changed_s, now_s=110.5 + set_s)
        gone = replace(waits, now_s=now_s + set_s)
        life, phases = life_of(idle, RUNNING, runs, waits, gone, set_s=set_s)
        assert phases[:3] == ["waiting", "running", "running"]
        assert phases[-1] == "ended"
        assert abs(life.elapsed_s - 10.0) < 1e-6


def test_a_query_is_shown_before_its_transaction_has_a_start():
    life, phases = life_of(replace(RUNNING, xact_start_s=None), replace(RUNNING, now_s=101.5))
    assert phases == ["running", "running"]
    assert life.started_s == 100.0


def test_a_procedure_that_commits_continues():
    again = replace(RUNNING, now_s=104.0, xact_start_s=103.0)
    life, phases = life_of(RUNNING, again, replace(again, now_s=105.0))
    assert phases == ["running"] * 3
    assert life.elapsed_s == 5.0


@cases(("took_s", "phase"), [(0.05, "waiting"), (0.2, "ended")])
def test_statements_before_the_awaited_query_are_skipped(took_s, phase):
    idle = SessionState(1, None, None, None, 99.0, "idle", 90.0, None, 91.0, text_hash=0)
    done = replace(
        idle, now_s=103.0, query_start_s=100.0, state_change_s=100.0 + took_s, text_hash=1
    )
    seen = replace(RUNNING, now_s=100.03)
    assert life_of(idle, seen, done)[1] == ["waiting", "running", phase]


def test_a_query_right_after_a_statement_begins_at_its_own_start():
    idle = SessionState(1, None, None, None, 99.0, "idle", 90.0, None, 91.0, text_hash=0)
    runs = replace(RUNNING, now_s=100.12, query_start_s=100.05, state_change_s=100.05, text_hash=2)
    looks = idle, replace(RUNNING, now_s=100.03), runs, replace(runs, now_s=100.22)
    life, phases = life_of(*looks)
    assert phases == ["waiting", "running", "running", "running"]
    assert life.began_s == 100.05


def test_a_query_that_runs_at_the_first_sample_is_never_skipped():
    idle = replace(RUNNING, state="idle", xact_start_s=None, state_change_s=100.01)
    assert life_of(RUNNING, idle)[1] == ["running", "ended"]
