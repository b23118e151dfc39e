"""How fast a trace is profiled; the peers are grep and awk, one pass an event, and ``wc -l``."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result, best_of_s

MEGABYTES = 500
REPEATS = 3
AIM_SHELL = 25
AIM_WC = 4
AIM_PEAK_MB = 200
#: MB a second of what is asked beside events.
AIM_RATE = 600
AIM_DUCKDB = 3
AWK = r"""/^WAIT/ { split($0, quoted, "'"); match($0, /ela= */)
count[quoted[2]]++; total[quoted[2]] += substr($0, RSTART + RLENGTH) + 0 }
END { for (event in count) print event, count[event], total[event] }"""
DUCKDB = r"""import sys, duckdb
lines = "read_csv(?, columns={'line': 'varchar'}, delim='', quote='', escape='', header=false)"
wait = "regexp_extract(line, 'nam=''([^'']*)'' ela= *([0-9]+)', ['event', 'ela'])"
print(duckdb.execute(f"select w.event, count(*), sum(w.ela::bigint) from (select {wait} as w "
    f"from {lines} where line like 'WAIT #%') group by all", [sys.argv[1]]).fetchall())"""
ROOT = Path(__file__).parents[1]
SHELL = ROOT / "bench" / "seed_profiler.sh"
#: Where a file lies in memory, so that no disk is measured.
MEMORY = Path("/dev/shm")


def run() -> Iterator[Result]:
    """``spillcast profile --json`` on a generated trace, whole processes each."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-", dir=place) as folder:
        trace = str(Path(folder) / "large.trc")
        generate(trace, MEGABYTES)
        ours_s, peak_mb = _best_and_peak([*SPILLCAST, "profile", trace, "--json"])
        shell_s = best_of_s([str(SHELL), trace], REPEATS)
        wc_s = best_of_s(["wc", "-l", trace], REPEATS)
        others = list(_questions(trace))
    ours = f"{ours_s:.2f} s, {MEGABYTES / ours_s:.0f} MB/s"
    yield Result(
        f"oracle: profile of a {MEGABYTES} MB trace",
        ours,
        f"{shell_s:.1f} s (grep and awk, a pass an event)",
        shell_s / ours_s,
        f"at least {AIM_SHELL} times as fast",
        shell_s / ours_s >= AIM_SHELL,
    )
    yield Result(
        f"oracle: profile of a {MEGABYTES} MB trace",
        ours,
        f"{wc_s:.2f} s (wc -l)",
        ours_s / wc_s,
        f"at most {AIM_WC} times as long",
        ours_s / wc_s <= AIM_WC,
    )
    yield Result(
        f"oracle: peak memory while profiling {MEGABYTES} MB",
        f"{peak_mb:.0f} MB",
        f"{MEGABYTES} MB (the trace)",
        peak_mb / MEGABYTES,
        f"at most {AIM_PEAK_MB} MB",
        peak_mb <= AIM_PEAK_MB,
    )
    yield from others


def _questions(trace: str) -> Iterator[Result]:
    """What is asked beside events: of a second, under a condition, in SQL."""
    awk_s = best_of_s(["awk", AWK, trace], REPEATS)
    duckdb_s = best_of_s([sys.executable, "-c", DUCKDB, trace], REPEATS)
    sql = "select event, count(*), sum(elapsed_ns) from waits group by all"
    for name, words, peer_s, peer, aim in (
        ("profile --by second", ["profile", trace, "--by", "second", "--json"], awk_s, "awk", 1),
        ("profile --where", ["profile", trace, "--where", "temp", "--json"], awk_s, "awk", 1),
        ("sql", ["sql", sql, trace, "--json"], duckdb_s, "DuckDB on the text", AIM_DUCKDB),
    ):
        ours_s, peak_mb = _best_and_peak([*SPILLCAST, *words])
        yield Result(
            f"oracle: {name} of a {MEGABYTES} MB trace",
            f"{ours_s:.2f} s, {MEGABYTES / ours_s:.0f} MB/s, {peak_mb:.0f} MB of memory",
            f"{peer_s:.2f} s ({peer}, by event)",
            peer_s / ours_s,
            f"at least {AIM_RATE:.0f} MB/s, and {aim} times as fast",
            MEGABYTES / ours_s >= AIM_RATE and peer_s / ours_s >= aim,
        )


def generate(path: str, megabytes: int) -> None:
    """Mostly reads and writes of temporary segments, the same on every run."""
    build = ["cargo", "run", "--profile", "quick", "--locked", "--quiet", "-p", "spillcast-core"]
    example = ["--example", "oracle_generate", "--", str(megabytes), "1", path]
    subprocess.run([*build, *example], check=True, cwd=ROOT)


def _best_and_peak(command: list[str]) -> tuple[float, float]:
    """Shortest wall time (s) of a command, and its largest resident memory (MB)."""
    best_s, peak_bytes = float("inf"), 0
    for _ in range(REPEATS):
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        best_s = min(best_s, time.perf_counter() - start)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, command)
        peak_bytes = max(peak_bytes, usage.ru_maxrss * 1024)
    return best_s, peak_bytes / 1e6
