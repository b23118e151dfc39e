"""Run all benchmarks, or those that are named: ``python -m bench capture``."""

import sys
from importlib import import_module

NAMES = ("startup", "capture", "overhead", "oracle")

for name in sys.argv[1:] or NAMES:
    if name not in NAMES:
        sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
    for result in import_module(f"bench.{name}").run():
        print(result, flush=True)
