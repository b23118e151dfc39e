"""Recordings of queries with parallel workers beside EXPLAIN's own counts: ``python workers.py N``.

Each of N recordings by perf events and by eBPF, as root, is of a query with 1 to 4 workers. It
equals the plan within 2 blocks, or its unseen share covers what is missing.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from postgres_rig import JOIN, PARALLEL, private_server
from spillcast.engines.postgres.live.record import record_postgres
from spillcast.recording.checks import checks_of
from spillcast.recording.options import RecordOptions
from spillcast.workspace import workspace

ROWS = 150_000


def main(count: int) -> None:
    """Print a line for each source."""
    with workspace() as room, private_server(room) as server:
        with server.connect() as connection:
            connection.execute(
                "create table t as select hashint8(i) as id, repeat('x', 40) as f "
                f"from generate_series(1, {ROWS}) i"
            )
            connection.execute("analyze t")
        for capture in ("perf", "bpf"):
            equal = covered = 0
            for number in range(count):
                workers = {**PARALLEL, "max_parallel_workers_per_gather": 1 + number % 4}
                settings = {name: str(value) for name, value in workers.items()}
                run = record_postgres(
                    server.dsn,
                    room / f"{capture}-{number}.spill",
                    explain=JOIN,
                    settings={**settings, "work_mem": "256kB"},
                    options=RecordOptions(capture=capture),
                )
                read, written = list(checks_of(run))[:2]
                apart = [abs(check.expected - check.recorded) for check in (read, written)]
                counted = read.expected + written.expected
                equal += max(apart) <= 2
                covered += sum(apart) / counted <= run.meta.unseen.calls_share < 1
            print(f"{capture}: {equal} of {count} equal, {count - equal} not;", end=" ")
            print(f"{covered} within their unseen share", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
