"""This machine: supported features, and the CPU cost of waits."""

import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from spillcast.lab.doctor import Diagnosis
from spillcast.recording.calibration import ANY, Calibration, Point, WaitCost, is_old
from spillcast.report.page import Drawn, Page, Words
from spillcast.report.table import Column, Table
from spillcast.units import format_count, format_duration

_WORKS = (Column("works", "works"), Column("what", "what"), Column("how", "detail"))
_FIX = Column("fixes", "mend")


def doctor_page(diagnosis: Diagnosis) -> Page:
    """What works, and a command for each fix."""
    commit = f" ({diagnosis.commit})" if diagnosis.commit else ""
    version = (
        f"spillcast {diagnosis.spillcast}{commit}, Python {diagnosis.python}, "
        f"Linux {diagnosis.kernel}"
    )
    rows = [
        ["yes" if finding.works else "no", finding.name, finding.detail, finding.mend]
        for finding in diagnosis.findings
    ]
    works = Table(_WORKS, [row[:3] for row in rows])
    mends = [
        f"{finding.name}: {finding.mend}"
        for finding in diagnosis.findings
        if finding.mend is not None
    ]
    # A command is copied, so it keeps its line however wide that is.
    fixes = [Drawn(lambda _: "\n".join(["fixes", *mends]))] if mends else []
    return Page([Words([version]), works, *fixes], Table((*_WORKS, _FIX), rows))


#: What the cost is told for.
WAIT_S, WORK_S = 1e-3, (1e-4, 1e-3)
_RUNS = (
    Column("engine", "engine"),
    Column("query", "query"),
    Column("storage", "storage"),
    Column("runs", "runs", "count", spare=2),
    Column("operations", "operations", "integer", spare=1),
    Column("mean wait", "latency_s", "s"),
    Column("CPU an operation", "cpu_per_operation_s", "s"),
)


def machine_page(calibration: Calibration) -> Page:
    """The measurements by query and storage, and those that were skipped."""
    measured = time.strftime("%Y-%m-%d %H:%M", time.localtime(calibration.measured_at_s))
    machine = calibration.machine
    cpus = [format_count(machine.cpus, "CPU")] if machine.cpus else []
    on = ", ".join([machine.host, *cpus, *([machine.cpu] if machine.cpu else [])])
    words = [f"measured {measured} in {format_duration(calibration.took_s)} on {on}"]
    if is_old(calibration.measured_at_s):
        words.append("that is more than 30 days ago: run `spillcast calibrate` again")
    words += [_cost(cost) for cost in calibration.costs]
    words += [f"not measured: {why}" for why in calibration.skipped]
    table = Table(_RUNS, list(_rows(calibration.points)), grouped=2)
    return Page([Words(words), table], table)


def _cost(cost: WaitCost) -> str:
    """The fitted cost for two amounts of work."""
    takes = [
        f"{format_duration(work_s)} of work takes {format_duration(work_s + added_s)}"
        for work_s, added_s in zip(WORK_S, cost.extra_s(np.array(WORK_S), WAIT_S), strict=True)
    ]
    whose = "other engines" if cost.engine == ANY else f"{cost.engine} {cost.version}".rstrip()
    after = f"{whose}: after a wait of {format_duration(WAIT_S)}, {', '.join(takes)}"
    return f"{after}; the added time differs by {cost.spread:.0%} between queries"


def _rows(points: Sequence[Point]) -> Iterator[Sequence[Any]]:
    """A row for each query on each storage, medians of its runs."""
    for engine, query, storage in dict.fromkeys((p.engine, p.query, p.storage) for p in points):
        runs = [p for p in points if (p.engine, p.query, p.storage) == (engine, query, storage)]
        yield [
            engine,
            query,
            storage,
            len(runs),
            median(run.operations for run in runs),
            median(run.latency_s for run in runs),
            median(run.cpu_per_operation_s for run in runs),
        ]
