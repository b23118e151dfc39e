"""The added time of an observed call and context switch, in loops of compiled code."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.capture.sources import Observer, peers, recorder, usable, workroom
from bench.programs import observed
from bench.programs import run as run_program
from bench.result import Result

PAIRS = 9
#: By kind of work: the number of operations in a burst, the target, and its name.
CALLS, SWITCHES = 200_000, 50_000
AIM_NS = {"reads": 1300, "switches": 1000}
TITLES = {"reads": "a cached 8 KiB pread", "switches": "a context switch"}


def run() -> Iterator[Result]:
    """Bare and observed bursts in turns, for each source and each peer."""
    for kind, count in (("reads", CALLS), ("switches", SWITCHES)):
        with workroom() as room:
            theirs = {peer.name: added_ns(peer, kind, room) for peer in peers(kind)}
            words = ", ".join(f"{name} {_spread_text(ns)}" for name, ns in theirs.items())
            for source in usable():
                ours = added_ns(recorder(source, count), kind, room)
                best = min((median(ns) for ns in theirs.values()), default=float("nan"))
                yield Result(
                    f"capture: {source.name}, added to {TITLES[kind]}, {PAIRS} pairs",
                    _spread_text(ours),
                    words or "none is installed",
                    median(ours) / best if best > 0 else float("nan"),
                    f"at most {AIM_NS[kind]:,} ns",
                    median(ours) <= AIM_NS[kind],
                )


def added_ns(observer: Observer, kind: str, room: Path) -> list[float]:
    """The difference of each pair, per call or switch; every other pair starts observed."""
    program = observed(kind, room, observer.count)
    commands = {False: program, True: observer.command(program, room)}
    differences = []
    for number in range(PAIRS):
        order = (True, False) if number % 2 else (False, True)
        each = {is_observed: _each_ns(run_program(commands[is_observed])) for is_observed in order}
        differences.append(each[True] - each[False])
    return differences


def _each_ns(reported: dict[str, Any]) -> float:
    """The time per hand-over or call, as counted by the program itself."""
    number = reported.get("handed_over") or reported["calls"]["pread64"]["count"]
    return float(reported["loop_s"] * 1e9 / number)


def _spread_text(differences_ns: list[float]) -> str:
    low, high = min(differences_ns), max(differences_ns)
    return f"{median(differences_ns):,.0f} ns ({low:,.0f} to {high:,.0f})"
