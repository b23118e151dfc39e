"""What recording a PostgreSQL query costs it: a spilling hash join with and without, in pairs."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.result import SPILLCAST, Result
from spillcast.engines.postgres_server import PrivateServer, private_server
from spillcast.storage.behaviour import fixed_behaviour
from spillcast.storage.emulation import emulate
from spillcast.workspace import workspace

TABLE = (
    "create table {name} as select hashint8(i) as id, repeat('x', 40) as f "
    "from generate_series(1, {rows}) i"
)

PAIRS = 7
AIM = 1.03
#: An operation takes about 5 us on shared memory, and being recorded 1.4 us.
AIM_ON_MEMORY = 1.1
SLOW_S = 0.0003
WORKERS = (0, 2)


@dataclass(frozen=True)
class _Case:
    place: str
    tablespace: str
    rows: int
    aim: float

    @property
    def join(self) -> str:
        return f"select max(x.f) from {self.tablespace} x join {self.tablespace} y using (id)"


CASES = (
    _Case("storage of 0.3 ms", "slow", 300_000, AIM),
    _Case("shared memory", "fast", 2_000_000, AIM_ON_MEMORY),
)


def run() -> Iterator[Result]:
    """Pairs in alternating order, on slow storage and where being recorded weighs most."""
    settings = {"work_mem": "1MB", "shared_buffers": "512MB"}
    with workspace(Path("/dev/shm")) as room, private_server(room, settings) as server:
        backing, mountpoint, fast = (room / name for name in ("backing", "slow", "fast"))
        for path in (backing, mountpoint, fast):
            path.mkdir()
        server.give(backing)
        server.give(fast)
        with emulate(fixed_behaviour(SLOW_S, SLOW_S), mountpoint, backing):
            with server.connect() as connection:
                for case in CASES:
                    name, rows = case.tablespace, case.rows
                    connection.execute(f"create tablespace {name} location '{room / name}'")
                    connection.execute(TABLE.format(name=name, rows=rows))
                    connection.execute(f"analyze {name}")
            for case in CASES:
                for workers in WORKERS:
                    yield _compare(server, room, case, workers)


def _compare(server: PrivateServer, room: Path, case: _Case, workers: int) -> Result:
    pairs = []
    for number in range(PAIRS):
        order = (True, False) if number % 2 else (False, True)
        elapsed_s = {
            recorded: _elapsed_s(server, room, case, workers, recorded) for recorded in order
        }
        pairs.append((elapsed_s[True], elapsed_s[False]))
    ratio = median(ours / bare for ours, bare in pairs)
    return Result(
        f"postgres: a hash join spilling to {case.place}, {workers} workers, {PAIRS} pairs",
        f"{median(ours for ours, _ in pairs):.2f} s recorded",
        f"{median(bare for _, bare in pairs):.2f} s not observed",
        ratio,
        f"median ratio at most {case.aim}",
        ratio <= case.aim,
    )


def _elapsed_s(
    server: PrivateServer, room: Path, case: _Case, workers: int, recorded: bool
) -> float:
    """Wall time of the join in a fresh session, which a recorder is attached to or not."""
    with server.connect() as connection:
        connection.execute(f"set max_parallel_workers_per_gather = {workers}")
        connection.execute("set parallel_setup_cost = 0; set parallel_tuple_cost = 0")
        connection.execute(f"set temp_tablespaces = {case.tablespace}")
        connection.execute(f"select count(*) from {case.tablespace}")
        if not recorded:
            return _timed_s(connection, case)
        output = room / "bench.spill"
        asked = ["--postgres", server.dsn, "--backend", str(connection.info.backend_pid)]
        recorder = subprocess.Popen(
            [*SPILLCAST, "record", *asked, "-o", str(output)], stdout=subprocess.DEVNULL
        )
        while not output.with_name("bench.spill.partial").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        elapsed_s = _timed_s(connection, case)
        if recorder.wait():
            raise SystemExit("the recorder failed")
        return elapsed_s


def _timed_s(connection: Any, case: _Case) -> float:
    start = time.perf_counter()
    connection.execute(case.join)
    return time.perf_counter() - start
