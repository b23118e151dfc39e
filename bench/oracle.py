"""The speed of profiling a trace; the peers are grep and awk, one pass per event, and ``wc -l``."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result, best_of_s, by_turns, least, used

MEGABYTES = 500
REPEATS = 3
AIM_SHELL = 25
AIM_WC = 3
AIM_PEAK_MB = 200
#: Memory limit in MB of other questions, and their speed as a multiple of the peer's.
AIM_MB, AIM_PEER = 200, 1
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
#: The file is in memory, so that no disk is measured.
MEMORY = Path("/dev/shm")


def run() -> Iterator[Result]:
    """``spillcast profile --json`` on a generated trace, whole processes each."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-", dir=place) as folder:
        trace = str(Path(folder) / "large.trc")
        generate(trace, MEGABYTES)
        best = least([used([*SPILLCAST, "profile", trace, "--json"]) for _ in range(REPEATS)])
        ours_s, peak_mb = best.wall_s, best.mb
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
    """Other questions: one second, a condition, SQL. Each runs in turns with its peer; they are
    compared by CPU time, which other load on the machine does not change.
    """
    sql = "select event, count(*), sum(elapsed_ns) from waits group by all"
    where = ["--where", "event like 'direct path%' and elapsed_ns > 1000000"]
    awk, duckdb = ["awk", AWK, trace], [sys.executable, "-c", DUCKDB, trace]
    for name, words, peer, peer_name in (
        ("profile --by second", ["profile", trace, "--by", "second"], awk, "awk"),
        ("profile --where", ["profile", trace, *where], duckdb, "DuckDB on the text"),
        ("sql", ["profile", trace, "--sql", sql], duckdb, "DuckDB on the text"),
    ):
        command = [*SPILLCAST, *words, "--json"]
        ours, theirs = by_turns(command, peer, REPEATS)
        rate = MEGABYTES / ours.wall_s
        yield Result(
            f"oracle: {name} of a {MEGABYTES} MB trace",
            f"{ours.wall_s:.2f} s, {rate:.0f} MB/s; {ours.cpu_s:.2f} s of CPU, "
            f"{ours.mb:.0f} MB of memory",
            f"{theirs.cpu_s:.2f} s of CPU, {theirs.mb:.0f} MB ({peer_name}, by event)",
            theirs.cpu_s / ours.cpu_s,
            f"at most {AIM_MB} MB, and at least {AIM_PEER} times as fast",
            ours.mb <= AIM_MB and theirs.cpu_s / ours.cpu_s >= AIM_PEER,
        )


def generate(path: str, megabytes: int) -> None:
    """Mostly reads and writes of temporary segments, the same on every run."""
    build = ["cargo", "run", "--profile", "quick", "--locked", "--quiet", "-p", "spillcast-core"]
    example = ["--example", "oracle_generate", "--", str(megabytes), "1", path]
    subprocess.run([*build, *example], check=True, cwd=ROOT)
