"""``spillcast postgres`` against the truth: 30 statements ranked, then run on the candidate.

Debian's server runs them with temp files on a mount of 0.6 ms a read and 0.3 ms a write, is ranked
by its own counts, once while they run (``--since``) and once afterwards, and runs them again with
temp files in memory. The saving of each is the difference of the pg_stat_statements times. The peer
ranks by temp blocks, as one does without a forecast.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.result import SPILLCAST, Result
from bench.server_statements import TPCH_ROWS, Statement, make_shop, statements
from spillcast.engines.postgres.server import (
    PrivateServer,
    make_cluster,
    newest_debian,
    serve,
)
from spillcast.errors import InputError
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
from spillcast.units import format_duration
from spillcast.workspace import workspace
from spillcast_lab.tpc.labs import load
from spillcast_lab.tpc.suite import TPCH

if TYPE_CHECKING:
    import psycopg

READ_S, WRITE_S = 0.0006, 0.0003
FIRST, ANSWER_AIM_S, HELD_AIM = 3, 5.0, 0.8
#: The command watches for this multiple of the statements' expected time.
WATCHED = 1.5
#: The longest time from the start of the command to its first poll.
FIRST_LOOK_S = 4.0
MEMORY = Path("/dev/shm")
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "top",
    "track_io_timing": "on",
    "shared_buffers": "1GB",
    "jit": "off",
}
COUNTS = (
    "select queryid::text, calls, total_exec_time / 1e3, temp_blks_read + temp_blks_written "
    "from pg_stat_statements"
)
#: The statement's identifier, as none has a name.
IDENTIFY = (
    "select queryid::text from pg_stat_statements where query not like '%pg_stat_statements%'"
)


@dataclass(frozen=True)
class Judged:
    """The time of all calls of a statement on both storages, and its forecast."""

    name: str
    calls: int
    blocks: int
    slow_s: float
    fast_s: float
    ranked: dict[str, Any] | None

    @property
    def saved_s(self) -> float:
        """The time that the candidate saved."""
        return self.slow_s - self.fast_s

    @property
    def gain(self) -> tuple[float, float, float] | None:
        """The forecast saving of all calls, and its interval; None without a forecast."""
        gains = (self.ranked or {}).get("gains") or {}
        if self.ranked is None or not gains:
            return None
        # Calls that ended after the second poll are not in it.
        times = self.calls / self.ranked["calls"]
        result = next(iter(gains.values()))
        low_s, high_s = result["interval_s"]
        return times * result["saved_s"], times * low_s, times * high_s

    @property
    def held(self) -> bool | None:
        """Whether the interval contains the truth."""
        if self.gain is None:
            return None
        _, low_s, high_s = self.gain
        return bool(low_s <= self.saved_s <= high_s)

    def __str__(self) -> str:
        reported = "not ranked" if self.ranked is None else "no number"
        if self.gain is not None:
            saved, low, high = (format_duration(max(s, 0.0)) for s in self.gain)
            sure = "holds" if self.held else "MISSED"
            reported = f"{saved:>8}  {low} to {high}, {sure}"
        times = (format_duration(s) for s in (self.slow_s, self.fast_s, max(self.saved_s, 0.0)))
        return (
            f"    {self.name:<20} {self.calls:>4} {'{:>9} {:>9} {:>9}'.format(*times)}  {reported}"
        )


def run() -> Iterator[Result | str]:
    """Both runs, the ranking between them, and the table of both."""
    installation = newest_debian()
    if installation is None:
        raise InputError("no PostgreSQL of Debian's packages", "apt-get install postgresql")
    with workspace(None) as room, workspace(MEMORY) as memory:
        candidate = _probed(memory, room)
        folder = TPCH.generate(room, TPCH_ROWS)
        cluster = make_cluster(room, installation)
        backing, slow, fast = room / "backing", room / "slow", memory / "fast"
        for path in (backing, slow, fast):
            path.mkdir()
        memory.chmod(0o711)
        with serve(cluster, SETTINGS) as server:
            server.give(backing)
            server.give(fast)
            with (
                emulate(fixed_behaviour(READ_S, WRITE_S), slow, backing),
                server.connect() as private,
            ):
                _prepare(private, folder, {"slow": slow, "fast": fast})
                names, expected_s = _run_once(server, private, "slow")
                watching = _started(server, candidate, WATCHED * expected_s)
                _run_all(server, private, names, "slow")
                before = _counts(private)
                watched = json.loads(watching.communicate()[0])
                result, took_s = _ranked(server, candidate)
                _run_once(server, private, "fast")
                _run_all(server, private, names, "fast")
                after = _counts(private)
    for how, answer in (("--since", watched), ("afterwards", result)):
        yield from _results(how, _judged(names, before, after, answer), answer)
    yield Result(
        "server: time of the command",
        f"{took_s:.2f} s, {result['looked_s'] * 1e3:.0f} ms of them the server was asked for; with "
        f"--since {watched['looked_s'] * 1e3:.0f} ms of {watched['window_s']:.0f} s",
        f"{ANSWER_AIM_S:g} s",
        took_s / ANSWER_AIM_S,
        f"under {ANSWER_AIM_S:g} s",
        took_s < ANSWER_AIM_S,
    )


def _probed(memory: Path, room: Path) -> Path:
    """The candidate's storage.json, measured before the server is busy."""
    file = room / "candidate.json"
    command = [*SPILLCAST, "probe", str(memory), "--grid", "--budget", "60s", "-o", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return file


def _prepare(
    private: "psycopg.Connection[tuple[Any, ...]]", folder: Path, spaces: dict[str, Path]
) -> None:
    private.execute("create extension pg_stat_statements")
    for name, place in spaces.items():
        private.execute(f"create tablespace {name} location '{place}'".encode())
    load(private, TPCH, folder)
    make_shop(private)


def _run_once(
    server: PrivateServer, private: "psycopg.Connection[tuple[Any, ...]]", space: str
) -> tuple[dict[str, Statement], float]:
    """Runs each once, which reads the tables into the server's memory.

    Returns them by identifier, and the expected time of all calls of all of them in seconds.
    """
    names: dict[str, Statement] = {}
    expected_s = 0.0
    for statement in statements():
        with server.connect() as session:
            for name, value in {**statement.settings, "temp_tablespaces": space}.items():
                session.execute("select set_config(%s, %s, false)", [name, value])
            private.execute("select pg_stat_statements_reset()")
            began = time.monotonic()
            session.execute(statement.sql.encode())
            expected_s += statement.calls * (time.monotonic() - began)
            for (queryid,) in private.execute(IDENTIFY.encode()).fetchall():
                names[queryid] = statement
    private.execute("select pg_stat_statements_reset()")
    return names, expected_s


def _run_all(
    server: PrivateServer,
    private: "psycopg.Connection[tuple[Any, ...]]",
    names: dict[str, Statement],
    space: str,
) -> None:
    """All calls of each, in a separate session, counted from 0."""
    private.execute("select pg_stat_statements_reset()")
    for statement in names.values():
        with server.connect() as session:
            for name, value in {**statement.settings, "temp_tablespaces": space}.items():
                session.execute("select set_config(%s, %s, false)", [name, value])
            for _ in range(statement.calls):
                session.execute(statement.sql.encode())


def _started(server: PrivateServer, candidate: Path, seconds: float) -> "subprocess.Popen[str]":
    """The running verb, once it has polled for the first time."""
    since = ("--since", f"{seconds:.0f}s")
    command = [*SPILLCAST, "postgres", server.dsn, "--to", str(candidate), "--json", *since]
    began = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(FIRST_LOOK_S)
    return began


def _ranked(server: PrivateServer, candidate: Path) -> tuple[dict[str, Any], float]:
    """The verb's document, and the time until it existed."""
    command = [*SPILLCAST, "postgres", server.dsn, "--to", str(candidate), "--json"]
    began = time.monotonic()
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout), time.monotonic() - began


def _counts(private: "psycopg.Connection[tuple[Any, ...]]") -> dict[str, tuple[int, float, int]]:
    rows = private.execute(COUNTS.encode()).fetchall()
    return {queryid: (calls, float(s), int(blocks)) for queryid, calls, s, blocks in rows}


def _judged(
    names: dict[str, Statement],
    before: dict[str, tuple[int, float, int]],
    after: dict[str, tuple[int, float, int]],
    result: dict[str, Any],
) -> list[Judged]:
    """The largest savings come first."""
    answer = {item["queryid"]: item for item in result["statements"]}
    judged = [
        Judged(
            item.name,
            before[key][0],
            before[key][2],
            before[key][1],
            after[key][1],
            answer.get(key),
        )
        for key, item in names.items()
    ]
    return sorted(judged, key=lambda item: item.saved_s, reverse=True)


def _results(how: str, judged: list[Judged], result: dict[str, Any]) -> Iterator[Result | str]:
    yield f"    {how:<20} calls  slow      fast     saved     forecast (90 % interval)"
    yield from (str(item) for item in judged if item.blocks or item.ranked)
    quiet = sum(not (item.blocks or item.ranked) for item in judged)
    yield f"    and {quiet} that do not spill and are not ranked"
    truth = [item.name for item in judged][:FIRST]
    by_id = {item.ranked["queryid"]: item.name for item in judged if item.ranked is not None}
    ours = [by_id.get(item["queryid"], "?") for item in result["statements"]][:FIRST]
    blocks = [item.name for item in sorted(judged, key=lambda item: -item.blocks)][:FIRST]
    right, theirs = (
        sum(a == b for a, b in zip(order, truth, strict=True)) for order in (ours, blocks)
    )
    yield Result(
        f"server, {how}: ranking of {len(judged)} statements",
        f"{right} of the first {FIRST} right: {'; '.join(ours)}",
        f"{theirs}, by temp blocks: {'; '.join(blocks)}",
        right / FIRST,
        "all",
        right == FIRST,
    )
    given = [item for item in judged if item.held is not None]
    held = sum(bool(item.held) for item in given)
    yield Result(
        f"server, {how}: what the candidate saves of {len(given)} statements",
        f"{held} intervals hold",
        f"{result['confidence']:.0%} is said",
        held / len(given),
        f"at least {HELD_AIM:.0%}",
        held >= HELD_AIM * len(given),
    )
