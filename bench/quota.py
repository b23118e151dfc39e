"""CPU quotas: forecasts of queries in a limited group against their time on faster storage.

DuckDB in a CPU cgroup spills to a slow emulated storage and is recorded there; the truth is the
same query in the same group on a fast one with known figures. The peer is the same forecast without
the quota. The groups take precedence over other work on the machine.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from bench.cpu_group import cpu_group, inside, limit
from bench.page_cache import storage_of
from bench.result import Result
from spillcast.engines import Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.forecast.ask import forecast
from spillcast.forecast.result import Forecast
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import SHARED_MEMORY, Emulated, emulated
from spillcast.recording.observed import CpuLimits
from spillcast.workspace import workspace

QUOTAS = (0.4, 1.0, 1.5)
THREADS = (1, 4)
#: Queries of a verification.
CHOSEN = ("hash join", "sort", "count distinct")
AIM, RUNS = 0.12, 3
SLOW = Emulated("slow", 4e-3, 4e-3, 4e-9)
FAST = Emulated("fast", 3e-4, 3e-4, 1e-9)
#: Other groups have 1,024.
FIRST = 200_000


def run() -> Iterator[Result]:
    """Each query with each quota."""
    errors, peers, held, refused = [], [], 0, 0
    with ExitStack() as stack:
        room = stack.enter_context(workspace())
        unlimited = stack.enter_context(cpu_group(None, FIRST))
        limited = stack.enter_context(cpu_group(None, FIRST))
        stack.enter_context(inside(unlimited))
        engine = lab_of("duckdb")(room)
        for query in (item for n in THREADS for item in engine.verified(n) if item.name in CHOSEN):
            for quota, answer, without, measured_s in of_query(engine, query, limited, room):
                subject = f"{query.name}, threads {query.threads}, quota {quota}"
                if without.forecast_s is not None:
                    peers.append(abs(without.forecast_s / measured_s - 1))
                if answer.forecast_s is None or answer.interval_s is None:
                    refused += 1
                    print(f"{subject}: measured {measured_s:.2f} s, {answer.refused}", flush=True)
                    continue
                errors.append(abs(answer.forecast_s / measured_s - 1))
                ok = answer.interval_s[0] <= measured_s <= answer.interval_s[1]
                held += ok
                peer = "refused" if without.forecast_s is None else f"{without.forecast_s:.2f} s"
                print(
                    f"{subject}: {answer.forecast_s:.2f} s, as if without {peer}, measured "
                    f"{measured_s:.2f} s from {answer.baseline_s:.2f} s, {errors[-1]:.1%} off, "
                    f"{'held' if ok else 'missed'}",
                    flush=True,
                )
    off, usual = median(errors), median(peers)
    yield Result(
        f"quota: {len(errors) + refused} runs with 0.4 to 1.5 of {os.cpu_count()} CPUs",
        f"{off:.1%} off in the median, {held} held, {refused} refused",
        f"without quotas: {usual:.0%} off",
        off / usual,
        f"{AIM:.0%}",
        off <= AIM,
    )


def of_query(
    engine: Lab, query: LabQuery, group: Path, room: Path
) -> Iterator[tuple[float, Forecast, Forecast, float]]:
    """Quota, forecast, forecast without the quota, and the measured time."""
    engine.build(query.rows)
    with ExitStack() as stack:
        below = stack.enter_context(workspace(SHARED_MEMORY))
        above = stack.enter_context(workspace())
        slow, fast = (
            replace(
                stack.enter_context(emulated(item, above, below)), inside=partial(inside, group)
            )
            for item in (SLOW, FAST)
        )
        for quota in QUOTAS:
            limit(group, quota)
            output = room / f"{query.name}-{query.threads}-{quota}.spill"
            _, recording = run_recorded(engine, query, slow, output)
            measured_s = median(run_bare(engine, query, fast).elapsed_s for _ in range(RUNS))
            limit(group, None)
            answer = forecast(recording, storage_of(FAST))
            recording.meta = replace(recording.meta, cpu_limits=CpuLimits())
            yield quota, answer, forecast(recording, storage_of(FAST)), measured_s
