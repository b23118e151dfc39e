"""The binding limit in 200 random cases, and the cheapest storage against all settings in 30."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

from bench.result import Result

BINDINGS, SEARCHES, RECORDINGS, LARGE_WAITS = 200, 30, 10, 1_000_000
#: The steps of all tried settings, so that this takes minutes.
STEPS = {"iops": 4000.0, "throughput": 125.0, "size": 250.0 * (1 << 30)}
OFF_MAX, CPU_MAX_S = 0.01, 3.0


def run() -> Iterator[Result]:
    """Correct bindings, the largest difference of a price, and the time of a search."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import sizing_cases as drawn

    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        room = Path(folder)
        forecasters = [drawn.projector(room, seed) for seed in range(RECORDINGS)]
        wrong = [
            f"{seed}: {why}"
            for seed in range(BINDINGS)
            if (
                why := drawn.wrong_binding(
                    forecasters[seed % RECORDINGS], drawn.drawn_storage(seed)
                )
            )
        ]
        yield Result(
            "which limit binds, against that limit doubled",
            f"{BINDINGS - len(wrong)} of {BINDINGS} right {'; '.join(wrong[:3])}",
            "the simulator",
            1 - len(wrong) / BINDINGS,
            "all",
            not wrong,
        )
        yield _searches(drawn, forecasters)
        yield _large(drawn, room)


def _searches(drawn: ModuleType, forecasters: Sequence[Any]) -> Result:
    off, calls, search_s, trying_s = 0.0, 0, 0.0, 0.0
    for seed in range(SEARCHES):
        forecaster = forecasters[seed % RECORDINGS]
        within_s = drawn.drawn_limit_s(forecaster, seed)
        begin = process_time()
        cheapest_cost, forecasts = drawn.cheapest_by_search(forecaster, within_s, STEPS)
        search_s, calls = search_s + process_time() - begin, calls + forecasts
        begin = process_time()
        tried = drawn.cheapest_by_trying(forecaster, within_s, STEPS)
        trying_s += process_time() - begin
        if (cheapest_cost is None) != (tried is None):
            off = float("inf")
        elif cheapest_cost is not None:
            off = max(off, abs(cheapest_cost / tried - 1))
    return Result(
        f"cheapest storage within a limit, {SEARCHES} recordings and limits",
        f"{search_s / SEARCHES:.2f} s of CPU, {calls / SEARCHES:.0f} forecasts each",
        f"all settings: {trying_s / SEARCHES:.1f} s of CPU",
        1 + off,
        f"a price within {OFF_MAX:.0%}",
        off <= OFF_MAX,
    )


def _large(drawn: ModuleType, room: Path) -> Result:
    from bench.result import SPILLCAST, used

    path = drawn.write_varied_recording(room / "large.spill", LARGE_WAITS, 3, 3000)
    took = used([*SPILLCAST, "size", str(path), "--within", "30min"])
    return Result(
        f"size of a recording of {LARGE_WAITS:,} waits",
        f"{took.cpu_s:.2f} s of CPU, {took.wall_s:.2f} s, {took.mb:.0f} MB",
        "none",
        took.wall_s / CPU_MAX_S,
        f"below {CPU_MAX_S:g} s",
        took.wall_s < CPU_MAX_S,
    )
