"""Time runnable but not scheduled: threads that waited for each other, or for other programs."""

import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import completed, target

CPUS = os.cpu_count()
#: The kernel counts the machine's CPU time in ticks, and samples are 0.25 s apart.
TICKS_S = 0.1
#: CPU time that each program burns.
BURNT_S = 0.3
BUSY = "import time\nwhile True: pass"


def machine_cpu_s():
    """The CPU time of all processes since the machine started."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def recorded(places, *, burners):
    """The capture account of a program with this many CPU-burning processes."""
    output = places.root / "run.spill"
    command = target(
        "burn", "--file", places.temp / "spill", "--processes", burners, "--cpu", BURNT_S
    )
    completed("record", "-o", output, "--", *command, env=places.env)
    return json.loads((output / "meta.json").read_text())["capture"]


def test_waiting_for_each_other_is_not_waiting_for_others(places):
    """With more processes than CPUs, other programs had the machine's CPU time minus theirs.

    On an otherwise idle machine that is next to nothing.
    """
    machine_s, children_s = machine_cpu_s(), children_cpu_s()
    capture = recorded(places, burners=CPUS + 2)
    most_s = (machine_cpu_s() - machine_s) - (children_cpu_s() - children_s)
    # Two processes more than CPUs.
    assert capture["run_queue_delay_s"] > BURNT_S
    assert 0 <= capture["run_queue_others_s"] <= capture["run_queue_delay_s"]
    # The recorder counts as another program, and is a child of this process.
    assert capture["run_queue_others_s"] <= most_s + capture["tracer_cpu_s"] + CPUS * TICKS_S


@contextmanager
def others(count):
    """Busy processes that are not observed."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for item in busy:
            item.kill()
            item.wait()


@pytest.mark.nightly
def test_waiting_for_others_is_reported(places):
    with others(CPUS):
        capture = recorded(places, burners=1)
    assert capture["run_queue_delay_s"] > 0
    assert capture["run_queue_others_s"] == pytest.approx(
        capture["run_queue_delay_s"], rel=0.1, abs=TICKS_S
    )
