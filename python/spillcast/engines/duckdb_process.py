"""The DuckDB process: settings as its argument, a line in to start, JSON lines out."""

import ctypes
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import duckdb

PR_SET_PDEATHSIG = 1


def main(settings: dict[str, str]) -> None:
    """Open the database, say so, wait for the word, run, answer."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    connection = duckdb.connect(settings["database"], read_only=True)
    for name in ("temp_directory", "memory_limit", "threads"):
        connection.execute(f"set {name} = '{settings[name]}'")
    connection.execute("set preserve_insertion_order = false")
    _say({"ready": True})
    if not sys.stdin.readline():
        return
    start, delay_s = time.monotonic(), _run_queue_delay_s()
    rows = connection.execute(settings["sql"]).fetchall()
    _say(
        {
            "elapsed_s": time.monotonic() - start,
            "rows": repr(rows[:100]),
            "run_queue_delay_s": _run_queue_delay_s() - delay_s,
        }
    )


def _run_queue_delay_s() -> float:
    tasks = Path("/proc/self/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except duckdb.Error as error:
        _say({"error": str(error).splitlines()[0]})
