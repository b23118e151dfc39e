"""Runs all benchmarks, or the named one: ``python -m bench capture``.

``python -m bench calibrate`` measures the constants of forecasts instead, ``python -m bench
performance`` makes docs/performance.md, ``python -m bench history`` watches servers for an hour.

A part of a benchmark has a dotted name: ``python -m bench capture.attach``. Each benchmark runs in
a separate process, so that the memory of one is not counted for another.
"""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

NAMES = (
    "startup",
    "capture",
    "overhead",
    "table_reads",
    "oracle",
    "oracle_pairs",
    "probe",
    "replay",
    "elsewhere",
    "page_cache",
    "plans",
    "quota",
    "part",
    "part_calls",
    "emulate",
    "cache",
    "cache_curves",
    "io_size",
    "memory",
    "server",
    "check",
    "cold_caches",
    "compression",
    "large",
    "growth",
    "samples",
    "sizing",
    "fleet",
)


def main(names: list[str]) -> int:
    """Runs one benchmark here, or several in separate processes."""
    if names[:1] in (["calibrate"], ["performance"], ["history"]):
        return int(import_module(f"bench.{names[0]}").main(names[1:]))
    if len(names) == 1 and _known(names[0]):
        for result in import_module(f"bench.{names[0]}").run():
            print(result, flush=True)
        return 0
    if not all(map(_known, names)):
        print(f"the benchmarks are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    return max(subprocess.call([sys.executable, "-m", "bench", n]) for n in names or NAMES)


def _known(name: str) -> bool:
    first, _, part = name.partition(".")
    return first in NAMES and (not part or find_spec(f"bench.{name}") is not None)


sys.exit(main(sys.argv[1:]))
