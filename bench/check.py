"""``spillcast check`` on ten cases of the lab: saved forecasts against runs on the target.

Each query is recorded on one storage, forecast for another with its probe, and recorded there. The
peer expects no change.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from bench.part_cases import ENGINES, STORAGES
from bench.queries import QUERIES
from bench.result import SPILLCAST, Result
from spillcast.engines import Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import SpillDirectory, emulated
from spillcast.workspace import workspace

SEED, EACH = 811, 5
HELD_AIM, MEDIAN_AIM = 0.8, 0.15


def run() -> Iterator[Result | str]:
    """The checks, one by one, and then the summary of their log by ``verify --from``."""
    chance = Random(f"check {SEED}")
    checks: list[dict[str, Any]] = []
    with workspace(None) as room, ExitStack() as stack:
        places = [stack.enter_context(emulated(item, room, room)) for item in STORAGES]
        for engine in ENGINES:
            (room / engine).mkdir()
            lab = lab_of(engine)(room / engine)
            queries = chance.sample(QUERIES[engine], min(EACH, len(QUERIES[engine])))
            for number in range(EACH):
                query = queries[number % len(queries)]
                before, after = chance.sample(places, 2)
                folder = room / f"{engine}-{number}"
                folder.mkdir()
                checks.append(_checked(lab, query, (before, after), folder))
                yield _line(f"{engine}, {query.name}", before.name, after.name, checks[-1])
        result = _json("verify", "--from", room / "checks.parquet")
    yield from _results(checks, len(result["cases"]))


def _checked(
    lab: Lab, query: LabQuery, places: tuple[SpillDirectory, SpillDirectory], folder: Path
) -> dict[str, Any]:
    """The steps of a user: record, forecast and save, move, record again, check."""
    lab.build(query.rows)
    for place, name in zip(places, ("before", "after"), strict=True):
        run_recorded(lab, query, place, folder / f"{name}.spill")
    target = places[1].directory
    answer = _json("forecast", folder / "before.spill", "--to", target, "--budget", "20s")
    (folder / "forecast.json").write_text(json.dumps(answer))
    log = ("--log", folder.parent / "checks.parquet")
    return _json("check", folder / "forecast.json", folder / "after.spill", *log)


def _json(*arguments: object) -> dict[str, Any]:
    command = [*SPILLCAST, *map(str, arguments), "--json"]
    reply = subprocess.run(command, capture_output=True, text=True)
    # If an interval does not hold, the exit status is 1, which is a valid answer.
    if reply.returncode not in (0, 1) or not reply.stdout:
        raise RuntimeError(f"{' '.join(command)}: {reply.stderr}")
    result: dict[str, Any] = json.loads(reply.stdout)
    return result


def _line(subject: str, before: str, after: str, check: dict[str, Any]) -> str:
    low_s, high_s = check["interval_s"]
    return (
        f"    {subject:<34} {before:>9} -> {after:<9} was {check['baseline_s']:5.2f} s, "
        f"{check['forecast_s']:5.2f} s ({low_s:.2f} to {high_s:.2f}) forecast, "
        f"{check['measured_s']:5.2f} s came, {check['error']:+6.1%}, "
        f"{'holds' if check['inside'] else 'MISSED'}, work {check['work']:.2f}"
    )


def _results(checks: list[dict[str, Any]], logged: int) -> Iterator[Result]:
    held = sum(item["inside"] for item in checks) / len(checks)
    error = median(abs(item["error"]) for item in checks)
    stay = median(abs(item["baseline_s"] / item["measured_s"] - 1) for item in checks)
    yield Result(
        f"check: {len(checks)} cases, {logged} in the log",
        f"{held:.0%} held, median error {error:.1%}",
        f"median error {stay:.0%}, as long as before",
        error / stay,
        f"{HELD_AIM:.0%} held, median {MEDIAN_AIM:.0%}",
        held >= HELD_AIM and error <= MEDIAN_AIM and logged == len(checks),
    )
