"""The cost of samples for a program that only computes: the CPU time of a fixed amount of work.

It makes no calls and is hardly ever scheduled out, so recording has no other cost for it.
"""

import sys
from collections.abc import Iterator
from statistics import median

from bench.capture.sources import recorder, usable, workroom
from bench.programs import run as run_program
from bench.result import Result

PAIRS = 9
AIM = 1.01
LOOP = """
import json, time
import numpy as np
numbers = np.arange(200_000.0)
began = time.process_time()
for _ in range(12_000):
    (numbers * numbers).sum()
print(json.dumps({"kind": "computes", "cpu_s": time.process_time() - began}))
"""


def run() -> Iterator[Result]:
    """Bare and recorded runs in turns, for each source that takes samples."""
    program = [sys.executable, "-c", LOOP]
    for source in usable():
        if source.name == "preload":
            continue
        with workroom() as room:
            ratios = []
            for number in range(PAIRS):
                bare, observed = program, recorder(source, 1).command(program, room)
                order = (bare, observed) if number % 2 else (observed, bare)
                cpu_s = {id(command): run_program(command)["cpu_s"] for command in order}
                ratios.append(cpu_s[id(observed)] / cpu_s[id(bare)])
        low, high = min(ratios), max(ratios)
        yield Result(
            f"capture: {source.name}, samples of a program that computes, {PAIRS} pairs",
            f"{median(ratios):.3f} of the bare CPU time ({low:.3f} to {high:.3f})",
            "bare",
            median(ratios),
            f"at most {AIM}",
            median(ratios) <= AIM,
        )
