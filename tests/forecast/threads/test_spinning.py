"""A thread that spins on a CPU for another's temp I/O: detected by samples, or unknown."""

from dataclasses import replace

import pytest

from cases import cases
from evidence import change, change_on_disk, storage, warned
from forecast.threads.test_overlap import MS, US, recorded, turn
from spillcast.forecast import forecast
from spillcast.forecast.remaining import hints_of

#: One thread computes for 1 ms and reads for 7 ms, this often; the other is on a CPU meanwhile.
TURNS, WORK_NS, READ_NS = 500, MS, 7 * MS
LAST_NS = TURNS * (WORK_NS + READ_NS)
SPUN_S, WORKED_S = LAST_NS / 1e9, TURNS * WORK_NS / 1e9


def beside(path, meanwhile, *, spun_s, read_ns=READ_NS):
    """``meanwhile`` are the other thread's rows between its two reads of ``read_ns``."""
    last_ns = TURNS * (WORK_NS + read_ns)
    reads = [turn(1, (n + 1) * WORK_NS + n * read_ns, read_ns, WORK_NS, n) for n in range(TURNS)]
    burned_ns = 0 if meanwhile else last_ns - read_ns
    other = [turn(2, 0, read_ns, 0, 0), *meanwhile, turn(2, last_ns, read_ns, burned_ns, 1)]
    run = recorded(path, [*reads, *other], elapsed_ns=last_ns + read_ns, latency_ns=read_ns)
    cpu_s = (TURNS * WORK_NS + burned_ns) / 1e9
    change(run, capture=replace(run.meta.capture, spun_s=spun_s), cpu_s=cpu_s)
    change_on_disk(run, cpu_s=cpu_s)
    return run


MEMORY = storage({("read", 4096): 10 * US})


def test_spinning_ends_when_the_other_thread_finishes_its_io(tmp_path):
    row = {
        "start_ns": READ_NS, "elapsed_ns": LAST_NS - READ_NS, "session": 2, "event": "spinning",
        "temp": False, "blocked": False, "cpu_before_ns": 0, "woken_by": 1,
    }  # fmt: skip
    answer = forecast(beside(tmp_path / "r.spill", [row], spun_s=SPUN_S), MEMORY)
    assert answer.forecast_s == pytest.approx(WORKED_S, rel=0.1)


def test_a_burst_without_samples_may_be_work_or_a_wait(tmp_path):
    unknown = forecast(beside(tmp_path / "a.spill", [], spun_s=None), MEMORY)
    assert "spinning" in warned(unknown)
    work = forecast(beside(tmp_path / "b.spill", [], spun_s=0.0), MEMORY)
    assert "spinning" not in warned(work)
    # Work may or may not move to a free thread; a wait ends with the I/O.
    assert work.forecast_s == unknown.forecast_s > 4 * WORKED_S
    assert unknown.interval_s[0] <= WORKED_S * 1.2 < work.interval_s[0]
    assert unknown.interval_s[1] >= work.forecast_s


def test_an_earlier_run_on_other_storage_identifies_a_burst_as_a_wait(tmp_path):
    """Its CPU time was lower by as much as its I/O was shorter, which no cost of waits explains."""
    slow = beside(tmp_path / "slow.spill", [], spun_s=None)
    former = beside(tmp_path / "former.spill", [], spun_s=None, read_ns=10 * US)
    known = hints_of([former.path])
    answer = forecast(slow, MEMORY, known=known)
    assert "spinning" not in warned(answer)
    assert answer.forecast_s == pytest.approx(WORKED_S, rel=0.1)


def test_an_earlier_run_with_equal_cpu_time_identifies_a_burst_as_work(tmp_path):
    slow = beside(tmp_path / "slow.spill", [], spun_s=None)
    former = beside(tmp_path / "former.spill", [], spun_s=None, read_ns=10 * US)
    change_on_disk(former, cpu_s=slow.meta.cpu_s)
    answer = forecast(slow, MEMORY, known=hints_of([former.path]))
    assert answer.forecast_s > 4 * WORKED_S


@cases("latency_ns", [US, 10 * US, 100 * US])
def test_temp_io_adds_at_most_the_time_of_its_operations(tmp_path, latency_ns):
    run = beside(tmp_path / "r.spill", [], spun_s=0.0)
    answer = forecast(run, storage({("read", 4096): latency_ns}))
    [term] = [term for term in answer.terms if term.op == "read"]
    assert term.forecast_s <= (TURNS + 2) * latency_ns / 1e9


def test_a_probe_disturbed_by_other_programs_widens_the_interval(tmp_path):
    run = beside(tmp_path / "r.spill", [], spun_s=0.0)
    slow = storage({("read", 4096): 20 * MS})
    facts = {"steps_replayed": TURNS, "others_cpu_share": 0.5}
    quiet, disturbed = forecast(run, slow), forecast(run, replace(slow, facts=facts))
    assert "disturbed" in warned(disturbed)
    widths = [answer.interval_s[1] / answer.interval_s[0] for answer in (quiet, disturbed)]
    assert widths[1] > widths[0] * 1.1
