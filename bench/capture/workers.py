"""Recordings of queries with parallel workers against EXPLAIN's counts: ``python workers.py N``.

Each of N recordings by each source is of a query with 1 to 4 workers: by perf events as root and as
an ordinary user, and by eBPF. It must equal the plan within 2 blocks, or report what may be
missing, or be refused a forecast.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from harness import ordinary_user
from postgres_rig import JOIN, PARALLEL, private_server
from spillcast.engines.postgres.live import record_postgres
from spillcast.evidence.postgres.spills import recorded_plan
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.completeness import (
    BLOCK_MARGIN,
    DIFFERENCE_MAX,
    checks_of,
    contradictions_of,
)
from spillcast.workspace import workspace

ROWS = 150_000
WORKERS_MAX = 4


def main(count: int) -> None:
    """Prints a line for each source and number of workers."""
    sources = ("perf", "bpf") if os.geteuid() == 0 else ("perf",)
    with workspace() as room, private_server(room) as server:
        with server.connect() as connection:
            connection.execute(
                "create table t as select hashint8(i) as id, repeat('x', 40) as f "
                f"from generate_series(1, {ROWS}) i"
            )
            connection.execute("analyze t")
        for capture in sources:
            outcomes = Counter[tuple[int, str]]()
            for number in range(count):
                workers = 1 + number % WORKERS_MAX
                run = recorded(server.dsn, room / f"{capture}-{number}.spill", capture, workers)
                outcomes[workers, outcome(run)] += 1
            user = "root" if os.geteuid() == 0 else "an ordinary user"
            for workers in range(1, WORKERS_MAX + 1):
                kinds = {kind: n for (of, kind), n in sorted(outcomes.items()) if of == workers}
                print(f"{capture} as {user}, {workers} workers: {kinds}", flush=True)
    if os.geteuid() == 0:
        subprocess.run([*ordinary_user(), sys.executable, *sys.argv], check=True)


def recorded(dsn: str, folder: Path, capture: str, workers: int) -> Recording:
    """A recording of the query with this many planned workers."""
    settings = {**PARALLEL, "max_parallel_workers_per_gather": workers, "work_mem": "256kB"}
    return record_postgres(
        dsn,
        folder,
        explain=JOIN,
        settings={name: str(value) for name, value in settings.items()},
        options=RecordOptions(capture=capture),
    )


def outcome(run: Recording) -> str:
    """Whether it equals the plan, or reports that it does not."""
    planned = recorded_plan(run)[0]
    read, written = checks_of(run, planned)[:2]
    apart = [abs(check.expected - check.recorded) for check in (read, written)]
    if max(apart) <= BLOCK_MARGIN:
        return "equal"
    unseen = run.meta.unseen
    if unseen.excessive or any(
        c.difference > DIFFERENCE_MAX for c in contradictions_of(run, planned)
    ):
        return "refused"
    covered = sum(apart) / (read.expected + written.expected) <= unseen.calls_share
    print(f"  {read.text}; {written.text}; {unseen.text}", flush=True)
    return "stated" if covered else "not stated"


if __name__ == "__main__":
    main(int(sys.argv[1]))
