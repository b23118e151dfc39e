"""The demo's join on four emulated storages, forecast from one recording on a fifth."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.result import Result
from spillcast.engines.duckdb import DEMO
from spillcast.engines.registry import lab_of
from spillcast.errors import ExperimentFailed
from spillcast.forecast import forecast
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import Emulated, SpillDirectory, emulated
from spillcast.storage.free_space import ALL_FREE
from spillcast.storage.probe import probe
from spillcast.workspace import workspace

OLD_STORAGE = Emulated("1 ms", 0.001, 0.001)
ELSEWHERE = (
    Emulated("0.3 ms", 0.0003, 0.0003),
    Emulated("2 ms", 0.002, 0.002),
    Emulated("reads 1.5 ms, writes 0.2 ms", 0.0015, 0.0002),
    Emulated("reads 0.2 ms, writes 2 ms", 0.0002, 0.002),
)
AIM = 0.10


def run() -> Iterator[Result]:
    """Records once, forecasts four times, then runs the query on each: no run was known before."""
    with workspace(Path("/dev/shm")) as memory, workspace() as room, ExitStack() as stack:
        engine = lab_of("duckdb")(memory)
        engine.build(DEMO.rows)

        def place(storage: Emulated) -> SpillDirectory:
            return stack.enter_context(emulated(storage, room, memory))

        source = place(OLD_STORAGE)
        run_bare(engine, DEMO, source)
        ran, recording = run_recorded(engine, DEMO, source, room / "here.spill")
        target = [place(storage) for storage in ELSEWHERE]
        matches = [
            forecast(recording, probe(item.directory, recording, budget=ALL_FREE))
            for item in target
        ]
        for item, about in zip(target, matches, strict=True):
            measured_s = run_bare(engine, DEMO, item).elapsed_s
            if about.forecast_s is None or about.interval_s is None:
                raise ExperimentFailed(f"no forecast for {item.name}: {about.refused}")
            ratio = about.forecast_s / measured_s
            low, high = about.interval_s
            yield Result(
                f"the demo's join on {item.name}, from {ran.elapsed_s:.2f} s on {OLD_STORAGE.name}",
                f"{about.forecast_s:.2f} s forecast, {low:.2f} to {high:.2f} s",
                f"{measured_s:.2f} s measured",
                ratio,
                f"within {AIM:.0%}",
                abs(ratio - 1) <= AIM,
            )
