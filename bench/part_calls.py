"""A part of a call of a PostgreSQL statement, whose earlier calls the server counted.

Six statements are called with other constants each time, on a mount of 1 ms per operation. The
fourth call is recorded for a tenth of the mean of the earlier ones, from a random moment of its
first 80 %, and continues to its end, which is the truth. The peer is the mean of the earlier calls.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING

from bench.part import judge, summary
from bench.result import Result
from spillcast.engines import LabQuery, SessionSelector
from spillcast.engines.postgres.lab import HASH, SETTINGS, TABLE, PostgresLab
from spillcast.engines.postgres.live import record_postgres
from spillcast.engines.postgres.server import PrivateServer, make_cluster, serve
from spillcast.forecast.remaining import RemainingWorkHints
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
from spillcast.storage.observed import observed
from spillcast.workspace import workspace

if TYPE_CHECKING:
    import psycopg

SEED, ROWS, LATENCY_S = 62092, 2_000_000, 0.001
EARLIER, SHARE, LATEST = 3, 0.1, 0.8
#: The largest relative distance of a call's constants from those of the lab's queries.
APART = (0.1, 0.4)
COUNTING = {**SETTINGS, "shared_preload_libraries": "pg_stat_statements", "track_io_timing": "on"}
MEDIAN_AIM, REFUSED_AIM = 0.12, 0.15


@dataclass(frozen=True)
class Called:
    """A call that was recorded in part: its time, and those of the earlier calls.

    The last of these was recorded as a whole, for the latencies of the storage.
    """

    part: Path
    whole: Path
    took_s: float
    earlier_s: list[float]


def run() -> Iterator[Result]:
    """With the server's counts of the earlier calls, and without them."""
    for apart in APART:
        with workspace(None) as room:
            made = list(_all_called(room, apart, Random(SEED)))
            for how, without in (("with", ()), ("without", ("history",))):
                name = f"constants up to {apart:.0%} apart, {how} the counts of earlier calls"
                yield _result(name, made, RemainingWorkHints(without=without))


def _all_called(room: Path, apart: float, chance: Random) -> Iterator[Called]:
    backing, slow = room / "backing", room / "slow"
    for path in (backing, slow):
        path.mkdir()
    with serve(make_cluster(room), COUNTING) as server:
        server.give(backing)
        with (
            emulate(fixed_behaviour(LATENCY_S, LATENCY_S), slow, backing),
            server.connect() as connection,
        ):
            connection.execute("create extension pg_stat_statements")
            connection.execute(f"create tablespace slow location '{slow}'".encode())
            connection.execute(HASH)
            connection.execute(TABLE.format(rows=ROWS).encode())
            connection.execute("vacuum (analyze, freeze) t")
            for workload in PostgresLab.verified(1):
                another = partial(_other, workload, apart, chance)
                yield _called(server, workload, room, chance, another)


def _called(
    server: PrivateServer,
    workload: LabQuery,
    room: Path,
    chance: Random,
    another: Callable[[], str],
) -> Called:
    """The calls of a statement, each with another text; the last one is recorded in part."""
    private = {"work_mem": workload.memory, "temp_tablespaces": "slow", **workload.settings}
    part, whole = (room / f"{workload.name.replace(' ', '-')}-{n}.spill" for n in ("part", "whole"))
    with server.connect() as connection:
        _set(connection, private)
        took_s = [_took_s(connection, another()) for _ in range(EARLIER - 1)]
        took_s.append(_recorded(server, connection, another(), whole))
        begin_s = chance.uniform(0, LATEST) * min(took_s)
        duration_s = SHARE * sum(took_s) / EARLIER
        sql = another()
        last_s = _recorded(server, connection, sql, part, begin_s, duration_s)
    return Called(part, whole, last_s, took_s)


def _recorded(
    server: PrivateServer,
    connection: "psycopg.Connection[tuple[object, ...]]",
    sql: str,
    output: Path,
    begin_s: float = 0.0,
    duration_s: float | None = None,
) -> float:
    """The time of a call that is recorded from a moment on, for a time or to its end."""
    took_s = list[float]()
    thread = Thread(target=lambda: took_s.append(_took_s(connection, sql)))
    thread.start()
    time.sleep(begin_s)
    wanted = SessionSelector(backend=connection.info.backend_pid)
    record_postgres(server.dsn, output, wanted, options=RecordOptions(duration_s=duration_s))
    thread.join()
    return took_s[0]


def _set(
    connection: "psycopg.Connection[tuple[object, ...]]", private: Mapping[str, object]
) -> None:
    for name, value in private.items():
        connection.execute("select set_config(%s, %s, false)", [name, str(value)])


def _took_s(connection: "psycopg.Connection[tuple[object, ...]]", sql: str) -> float:
    started_s = time.monotonic()
    with closing(connection.execute(sql.encode())) as cursor:
        cursor.fetchall()
    return time.monotonic() - started_s


def _other(workload: LabQuery, apart: float, chance: Random) -> str:
    """The statement with other constants: more or fewer of the table's rows."""
    times = chance.uniform(1 - apart, 1 + apart)
    kept = re.compile(r"(id < )(\d+)")
    return kept.sub(lambda result: f"{result[1]}{round(int(result[2]) * times)}", workload.sql)


def _result(name: str, made: list[Called], known: RemainingWorkHints) -> Result:
    matches = [
        judge(Recording.open(item.part), observed(Recording.open(item.whole)), item.took_s, known)
        for item in made
    ]
    given, errors, half = summary(matches)
    off = median(abs(sum(item.earlier_s) / EARLIER / item.took_s - 1) for item in made)
    refused, middle = 1 - len(given) / len(made), median(errors)
    held = f"{sum(item.held for item in given)} of {len(given)} held"
    return Result(
        f"part: a tenth of a call of {len(made)}, {name}",
        f"refused {refused:.0%}, median error {middle:.1%}, {held}, half-width {half:.0%}",
        f"median error {off:.1%}, the mean of the earlier calls",
        middle / off,
        f"refused {REFUSED_AIM:.0%}, median error {MEDIAN_AIM:.0%}",
        refused <= REFUSED_AIM and middle <= MEDIAN_AIM,
    )
