"""The report of a recording of ten million waits: time, memory and size of the page."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result, best_of_s

WAITS = 10_000_000
AIM_S, AIM_MB, AIM_PAGE_MB = 20, 1000, 3


def run() -> Iterator[Result]:
    """Waits of two sessions over twenty minutes, made by DuckDB."""
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        recording, page = Path(folder) / "large.spill", Path(folder) / "report.html"
        tests = str(Path(__file__).parents[1] / "tests")
        # Another process, for its memory must not count as the report's.
        code = f"import sys; sys.path.insert(0, {tests!r}); import large_recording as large\n"
        code += f"large.write_large_recording({str(recording)!r}, {WAITS})"
        subprocess.run([sys.executable, "-c", code], check=True)
        command = [*SPILLCAST, "report", str(recording), "-o", str(page)]
        ours_s = best_of_s(command, 2)
        peak_mb = _peak_mb(command)
        page_mb = page.stat().st_size / 1e6
    yield Result(
        f"report: a recording of {WAITS // 10**6} million waits",
        f"{ours_s:.1f} s",
        f"{AIM_S} s (the aim)",
        ours_s / AIM_S,
        "at most 1",
        ours_s <= AIM_S,
    )
    for what, found, aim in (("peak memory", peak_mb, AIM_MB), ("page", page_mb, AIM_PAGE_MB)):
        yield Result(
            f"report: {what}", f"{found:.3g} MB", f"{aim} MB (the aim)", found / aim, "at most 1",
            found <= aim,
        )  # fmt: skip


def _peak_mb(command: list[str]) -> float:
    """The most memory that a command held resident."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_maxrss / 1e3
