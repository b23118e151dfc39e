"""How fast the command starts; the peer is Python itself."""

import sys
from collections.abc import Iterator

from bench.result import SPILLCAST, Result, best_of_s

AIM_S = 0.15


def run() -> Iterator[Result]:
    """``spillcast --version`` against ``python -c pass``."""
    ours = best_of_s([*SPILLCAST, "--version"], 10)
    peer = best_of_s([sys.executable, "-c", "pass"], 10)
    yield Result(
        "start: spillcast --version",
        f"{ours * 1e3:.0f} ms",
        f"{peer * 1e3:.0f} ms (python -c pass)",
        ours / peer,
        f"at most {AIM_S * 1e3:.0f} ms",
        ours <= AIM_S,
    )
