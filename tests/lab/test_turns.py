"""Runs take turns, and those that other work on the machine disturbed are made again."""

from itertools import count

import pytest

from spillcast.engines.duckdb import DuckDbLab
from spillcast.engines.queries import RunResult
from spillcast.lab.run import BUSY, RETRIES, least_disturbed
from spillcast_lab.turns import Series, take_turns

CPU_S = 0.5
SLOW_S = CPU_S + 2 * BUSY


class Machine:
    """Runs of one second, each with the delay and the CPU time given; calm when none is left."""

    def __init__(self):
        self.requested = []

    def series(self, place, wanted, delays_s=(), cpu_s=(), way="bare"):
        delays_s, cpu_s = iter(delays_s), iter(cpu_s)

        def attempt(number):
            self.requested.append((place, way, number))
            return RunResult(1.0, "", next(delays_s, 0.0), next(cpu_s, CPU_S)), number

        return Series(place, wanted, attempt)

    def attempts(self, **taken):
        """A run at each call, and its number."""
        attempt, numbers = self.series("a", 1, **taken).attempt, count()
        return lambda: attempt(next(numbers))


@pytest.fixture
def machine():
    return Machine()


def query(threads):
    return DuckDbLab.verified(threads)[0]


def counts(*series):
    return [len(item.runs) for item in series]


def test_runs_take_turns(machine):
    both = [machine.series(place, 3) for place in "ab"]
    take_turns(query(1), both)
    assert machine.requested == [(place, "bare", number) for number in range(3) for place in "ab"]


def test_who_wants_fewer_is_done_sooner(machine):
    recorded, bare = machine.series("a", 2, way="recorded"), machine.series("a", 3)
    take_turns(query(1), [recorded, bare])
    assert counts(recorded, bare) == [2, 3]


def test_a_run_that_waited_for_a_cpu_is_made_again_and_kept(machine):
    a, b = machine.series("a", 3, delays_s=[0.0, 2 * BUSY, 0.0, 0.0]), machine.series("b", 3)
    take_turns(query(1), [a, b])
    assert [ran.run_queue_delay_s for ran in a.runs] == [0.0, 2 * BUSY, 0.0, 0.0]
    assert counts(a, b) == [4, 3]


def test_a_run_whose_cpu_was_slow_is_made_again(machine):
    series = machine.series("a", 3, cpu_s=[SLOW_S, CPU_S, CPU_S, SLOW_S, CPU_S])
    take_turns(query(1), [series])
    assert counts(series) == [5]


def test_runs_in_one_place_tell_of_each_other(machine):
    """Two that were slow alike agree, until a third was not; what runs elsewhere says nothing."""
    recorded = machine.series("a", 2, cpu_s=[SLOW_S, SLOW_S], way="recorded")
    bare = machine.series("a", 3, cpu_s=[SLOW_S, SLOW_S])
    elsewhere = machine.series("b", 2, cpu_s=[SLOW_S, SLOW_S])
    take_turns(query(1), [recorded, bare, elsewhere])
    assert counts(recorded, bare, elsewhere) == [4, 5, 2]
    # In the third round it had two that seemed calm.
    assert recorded.calmest()[1] == 3


def test_runs_are_ranked_by_what_was_taken_from_them(machine):
    series = machine.series("a", 3, cpu_s=[0.9, 0.5, 0.7, 0.6, 0.8])
    take_turns(query(1), [series])
    assert [series.calmest(rank)[1] for rank in range(3)] == [1, 3, 2]
    assert series.calmest(99)[1] == 0


@pytest.mark.parametrize(
    ("cpu_s", "attempts", "chosen"),
    [
        ([CPU_S], 1, 0),
        # One alone is the calmest there is.
        ([SLOW_S, CPU_S], 1, 0),
    ],
)
def test_the_least_disturbed_of_what_was_run(machine, cpu_s, attempts, chosen):
    ran, number = least_disturbed(query(1), machine.attempts(cpu_s=cpu_s))
    assert (len(machine.requested), number, ran.cpu_s) == (attempts, chosen, cpu_s[chosen])


def test_waiting_for_a_cpu_shows_in_one_run_alone(machine):
    attempt = machine.attempts(delays_s=[3 * BUSY, 2 * BUSY, 4 * BUSY])
    assert least_disturbed(query(1), attempt)[1] == 1
    assert len(machine.requested) == 1 + RETRIES


def test_on_a_machine_that_never_rests_it_ends(machine):
    series = machine.series("a", 3, delays_s=[1.0] * 99)
    take_turns(query(1), [series])
    assert counts(series) == [3 + RETRIES]


def test_many_threads_are_compared_with_their_calmest_run(machine):
    """They wait for each other and for the server of their storage, whatever else goes on."""
    usual = 0.5
    series = machine.series("a", 3, delays_s=[usual, usual + BUSY / 2, usual + 2 * BUSY, usual])
    take_turns(query(64), [series])
    assert counts(series) == [4]
