"""Every capture source against its peers: attach, exactness, rate, cost, the recorder, kills."""

from collections.abc import Iterator
from importlib import import_module

from bench.result import Result

NAMES = ("attach", "exactness", "rate", "cost", "samples", "recorder", "kills", "after_kill")


def run() -> Iterator[Result]:
    """Runs all of them; ``python -m bench capture.rate`` runs one."""
    for name in NAMES:
        yield from import_module(f"bench.capture.{name}").run()
