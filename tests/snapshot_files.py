"""A made-up PostgreSQL server for snapshots, with counters as in pg_stat_statements."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from spillcast.fleet.snapshots import store_snapshot

BEGAN_S = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
TEXTS = {
    "1": "select region, sum(amount) from sales group by region order by 2",
    "2": "select customer, count(*) from orders join lines using (id) group by customer",
    "3": "select distinct sku from lines order by sku",
}


@dataclass
class Server:
    """Counters of a server, and the clocks of the server and its client."""

    name: str = "db1:5432"
    system: str = "7001"
    version: str = "15.14"
    address: str | None = "10.0.0.1"
    clock_s: float = BEGAN_S
    #: Real time since the client's machine was started.
    boot_s: float = 1000.0
    started_s: float = BEGAN_S - 50.0
    reset_s: float = BEGAN_S - 40.0
    evictions: int = 0
    settings: dict = field(default_factory=lambda: {"work_mem": "4096", "track_io_timing": "on"})
    rows: dict = field(default_factory=dict)
    databases: dict = field(default_factory=dict)

    def wait(self, seconds):
        self.clock_s += seconds
        self.boot_s += seconds

    def call(self, queryid, mib=8, *, ms=1000.0, rows=10, blocks=1000, times=1):
        """Runs a statement that spills ``mib``, written and read, for ``ms``."""
        fresh = {
            "userid": 10, "dbid": 5, "toplevel": True, "queryid": queryid, "calls": 0, "rows": 0,
            "total_exec_time": 0.0, "min_exec_time": ms, "max_exec_time": ms,
            "shared_blks_hit": 0, "shared_blks_read": 0, "temp_blks_read": 0,
            "temp_blks_written": 0, "temp_blk_read_time": 0.0, "temp_blk_write_time": 0.0,
            "stats_since": f"{datetime.fromtimestamp(self.clock_s, UTC)}",
            "parallel_workers_to_launch": 0, "parallel_workers_launched": 0,
            "query": TEXTS.get(queryid, f"select {queryid}"),
        }  # fmt: skip
        if self.version < "18":
            for name in ("stats_since", "parallel_workers_to_launch", "parallel_workers_launched"):
                del fresh[name]
        row = self.rows.setdefault(queryid, fresh)
        grown = {
            "calls": 1, "rows": rows, "total_exec_time": ms, "shared_blks_hit": blocks,
            "temp_blks_read": 64 * mib, "temp_blks_written": 64 * mib,
            "temp_blk_read_time": ms / 4, "temp_blk_write_time": ms / 4,
        }  # fmt: skip
        for name, value in grown.items():
            row[name] += times * value
        row["min_exec_time"] = min(row["min_exec_time"], ms)
        row["max_exec_time"] = max(row["max_exec_time"], ms)
        files, size = self.databases.get("dw", (0, 0))
        self.databases["dw"] = files + times, size + times * mib * (1 << 19)

    def look(self, folder, *, redact=False, **more):
        """Saves a snapshot."""
        document = {
            "schema": "spillcast.look/1", "taken_s": self.clock_s, "since_s": self.reset_s,
            "rows": [row for row in self.rows.values() if row["temp_blks_read"]],
            "databases": [
                {"name": name, "temp_files": files, "temp_bytes": size, "since_s": None,
                 "active_s": None, "spill_s": {}}
                for name, (files, size) in self.databases.items()
            ],
            "settings": self.settings, "statements_seen": len(self.rows), "server": self.system,
            "name": self.name, "address": self.address, "version": self.version,
            "started_s": self.started_s, "reset_s": self.reset_s, "evictions": self.evictions,
            "boot_id": "a-boot", "boot_s": self.boot_s, **more,
        }  # fmt: skip
        return store_snapshot(str(folder), document, redact=redact)


def three_weeks(folder, mib=200):
    """A snapshot each six hours until now: an old statement, a new one, and a changed plan.

    A call of the first spills ``mib``; sizing simulates each block of a call.
    """
    looks = 4 * 21
    server = Server(version="18.1", clock_s=time.time() - looks * 21_600.0 - 60)
    server.started_s, server.reset_s = server.clock_s - 50, server.clock_s - 40
    for at in range(looks):
        is_late = at >= 4 * 16
        server.call("1", mib, ms=20_000.0, times=3)
        server.call("2", mib * 19 // 10 if is_late else mib, ms=40_000.0,
                    blocks=900 if is_late else 90_000)  # fmt: skip
        if at >= 4 * 12:
            server.call("3", mib * 3 // 2, ms=45_000.0)
        server.wait(21_600.0)
        server.look(folder)
