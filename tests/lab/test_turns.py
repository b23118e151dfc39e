"""Runs take turns, and runs disturbed by other work on the machine are repeated."""

from itertools import count

import pytest

from cases import cases
from spillcast.engines.duckdb import DuckDbLab
from spillcast.engines.queries import RunResult
from spillcast.lab.run import BUSY, RETRIES, least_disturbed
from spillcast_lab.turns import Series, take_turns

CPU_S = 0.5
SLOW_S = CPU_S + 2 * BUSY


class Machine:
    """Runs of one second with the given delays and CPU times; undisturbed after the last one."""

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


def test_a_series_with_fewer_runs_ends_earlier(machine):
    recorded, bare = machine.series("a", 2, way="recorded"), machine.series("a", 3)
    take_turns(query(1), [recorded, bare])
    assert counts(recorded, bare) == [2, 3]


@cases(
    ("threads", "taken", "runs"),
    [
        # A run that waited for a CPU, or had a slow CPU, is repeated and kept.
        (1, {"delays_s": [0.0, 2 * BUSY, 0.0, 0.0]}, 4),
        (1, {"cpu_s": [SLOW_S, CPU_S, CPU_S, SLOW_S, CPU_S]}, 5),
        # The series ends even on a machine that is always busy.
        (1, {"delays_s": [1.0] * 99}, 3 + RETRIES),
        # Many threads always wait for each other and for the server of their storage: they are
        # compared with their least delayed run.
        (64, {"delays_s": [0.5, 0.5 + BUSY / 2, 0.5 + 2 * BUSY, 0.5]}, 4),
    ],
)
def test_a_disturbed_run_is_repeated(threads, taken, runs):
    machine = Machine()
    series, other = machine.series("a", 3, **taken), machine.series("b", 3)
    take_turns(query(threads), [series, other])
    assert counts(series, other) == [runs, 3]
    delays_s = taken.get("delays_s", [0.0] * runs)
    assert [ran.run_queue_delay_s for ran in series.runs] == delays_s[:runs]


def test_runs_in_the_same_place_are_compared_with_each_other(machine):
    """Two equally slow runs agree until a third is faster; runs elsewhere do not count."""
    recorded = machine.series("a", 2, cpu_s=[SLOW_S, SLOW_S], way="recorded")
    bare = machine.series("a", 3, cpu_s=[SLOW_S, SLOW_S])
    elsewhere = machine.series("b", 2, cpu_s=[SLOW_S, SLOW_S])
    take_turns(query(1), [recorded, bare, elsewhere])
    assert counts(recorded, bare, elsewhere) == [4, 5, 2]
    # In the third round it had two runs that seemed undisturbed.
    assert recorded.least_disturbed()[1] == 3


def test_runs_are_ranked_by_their_disturbance(machine):
    series = machine.series("a", 3, cpu_s=[0.9, 0.5, 0.7, 0.6, 0.8])
    take_turns(query(1), [series])
    assert [series.least_disturbed(rank)[1] for rank in range(3)] == [1, 3, 2]
    assert series.least_disturbed(99)[1] == 0


@pytest.mark.parametrize(
    ("cpu_s", "attempts", "chosen"),
    [
        ([CPU_S], 1, 0),
        # A single run is the least disturbed one.
        ([SLOW_S, CPU_S], 1, 0),
    ],
)
def test_the_least_disturbed_run_is_chosen(machine, cpu_s, attempts, chosen):
    ran, number = least_disturbed(query(1), machine.attempts(cpu_s=cpu_s))
    assert (len(machine.requested), number, ran.cpu_s) == (attempts, chosen, cpu_s[chosen])


def test_waiting_for_a_cpu_is_seen_in_a_single_run(machine):
    attempt = machine.attempts(delays_s=[3 * BUSY, 2 * BUSY, 4 * BUSY])
    assert least_disturbed(query(1), attempt)[1] == 1
    assert len(machine.requested) == 1 + RETRIES
