"""What a sweep of work memory found."""
from typing import Any
def sweep_text(sweep: Any, advice: Any, width: int) -> str:
    for p in sweep.points: print(p.storage, p.memory_bytes>>20, p.run and round(p.run.elapsed_s,3), p.between and (round(p.between.elapsed_s,3), [round(x,2) for x in p.interval_s]), p.error and round(p.error,3), p.told)
    print(sweep.turns, sweep.median_error, sweep.warnings, advice)
    return ""
