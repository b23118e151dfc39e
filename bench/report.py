"""The report of a recording of ten million waits: time, memory and size of the page."""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result

WAITS = 10_000_000
AIM_S, AIM_MB, AIM_PAGE_MB = 20, 1000, 3


def run() -> Iterator[Result]:
    """Beside counting its rows with DuckDB, which reads the same file."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from large_recording import write_large_recording

    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        recording, page = Path(folder) / "large.spill", Path(folder) / "report.html"
        # Another process, for its memory must not count as the report's.
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1] / 'tests')!r})\n"
        code += "from large_recording import write_large_recording\n"
        code += f"write_large_recording({str(recording)!r}, {WAITS})"
        subprocess.run([sys.executable, "-c", code], check=True)
        start = time.perf_counter()
        subprocess.run(
            [*SPILLCAST, "report", recording, "-o", page], check=True, stdout=subprocess.DEVNULL
        )
        ours_s = time.perf_counter() - start
        peak_mb = _peak_mb([*SPILLCAST, "report", str(recording), "-o", str(page)])
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
