"""How many calls per second of two processes a capture follows without loss."""

import json
from collections.abc import Iterator
from pathlib import Path

from bench.capture.sources import Observer, peers, recorder, usable, workroom
from bench.programs import OUTPUT, observed
from bench.programs import run as run_program
from bench.result import Result

PROCESSES = 2
#: The calls of each process.
CALLS = 1_500_000
AIM_PER_S = 600_000
#: A paced program comes this close to its rate.
REACHED = 0.98


def run() -> Iterator[Result]:
    """Cached 8 KiB preads, at the target rate and at the maximum rate of the processes."""
    with workroom() as room:
        bare = _per_s(None, room, CALLS)
        theirs = {
            peer.name: _per_s(peer, room, peer.count * 2 // PROCESSES) for peer in peers("reads")
        }
        words = ", ".join(f"{rate:,.0f}/s {name}" for name, rate in theirs.items())
        for source in usable():
            observer = recorder(source, CALLS)
            for limit, options in (("paced", {"rate": AIM_PER_S}), ("at full speed", {})):
                rate = _per_s(observer, room, CALLS, **options)
                meta = json.loads((room.with_name(OUTPUT) / "meta.json").read_text())
                lost, seen = meta["capture"]["lost"], meta["temp"]["reads"]
                yield Result(
                    f"capture: {source.name}, {CALLS * PROCESSES:,} cached preads of "
                    f"{PROCESSES} processes, {limit}",
                    f"{rate:,.0f} calls/s, {lost:,} lost, {seen:,} recorded",
                    f"{bare:,.0f}/s not observed, {words or 'no other observer is installed'}",
                    rate / max(theirs.values(), default=bare),
                    f"0 lost at {AIM_PER_S:,} calls/s",
                    lost == 0 and seen == CALLS * PROCESSES and rate >= REACHED * AIM_PER_S,
                )


def _per_s(observer: Observer | None, room: Path, calls: int, **options: int) -> float:
    """Calls per second of all processes together, by the program's own clock."""
    program = observed("reads", room, calls, processes=PROCESSES, **options)
    reported = run_program(observer.command(program, room) if observer else program)
    return float(reported["calls"]["pread64"]["count"] / reported["loop_s"])
