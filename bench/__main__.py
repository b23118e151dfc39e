"""Run all benchmarks, or the one that is named: ``python -m bench capture``.

``python -m bench calibrate`` measures the constants of forecasts instead.

Each has a process of its own, for memory that one has used would show as another's.
"""

import subprocess
import sys
from importlib import import_module

NAMES = (
    "startup",
    "capture",
    "overhead",
    "postgres",
    "oracle",
    "probe",
    "elsewhere",
    "emulate",
    "cache",
    "io_size",
    "memory",
    "cold_caches",
    "compression",
    "report",
    "fleet",
)


def main(names: list[str]) -> int:
    """Run one benchmark here, several in processes of their own."""
    if names[:1] == ["calibrate"]:
        return int(import_module("bench.calibrate").main(names[1:]))
    if len(names) == 1 and names[0] in NAMES:
        for result in import_module(f"bench.{names[0]}").run():
            print(result, flush=True)
        return 0
    if not set(names) <= set(NAMES):
        print(f"the benchmarks are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    return max(subprocess.call([sys.executable, "-m", "bench", n]) for n in names or NAMES)


sys.exit(main(sys.argv[1:]))
