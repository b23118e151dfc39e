"""The cost of starting: small answers, and a recording of a short command."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result, Used, by_turns, least, made_up_recording, used

VERSION_AIM_S, FORECAST_AIM_S, REPORT_AIM_S = 0.15, 0.35, 1.5
#: The allowed extra time of `record`, as a multiple of its first measurement.
RECORD_AIM_S = 0.7
SMALL_WAITS, WAITS = 2000, 10_000
#: Writes 2 MB to a file and reads them back, with 1 ms between reads, five times: 1.5 s.
COMMAND = """
import tempfile, time
with tempfile.TemporaryFile(buffering=0) as file:
    for _ in range(5):
        file.seek(0)
        for _ in range(256):
            file.write(bytes(8192))
        file.seek(0)
        while file.read(8192):
            time.sleep(0.001)
"""


def run() -> Iterator[Result]:
    """Each against its theoretical minimum, or against strace."""
    nothing = [sys.executable, "-c", "pass"]
    yield _row(
        "start: spillcast --version", ["--version"], nothing, "python -c pass", VERSION_AIM_S
    )
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        for waits in (SMALL_WAITS, WAITS):
            made_up_recording(Path(folder) / f"{waits}.spill", waits, 2)
        # The imports of any answer that reads Parquet and draws intervals.
        reads = "import numpy, pyarrow.parquet as pq; "
        reads += f"pq.read_table('{folder}/{{}}.spill/waits.parquet')"
        forecast = ["forecast", f"{folder}/{SMALL_WAITS}.spill", "--to", "latency:150us"]
        peer = [sys.executable, "-c", reads.format(SMALL_WAITS)]
        name = f"start: forecast of {SMALL_WAITS:,} waits"
        yield _row(name, forecast, peer, "pyarrow reads them", FORECAST_AIM_S)
        report = ["report", f"{folder}/{WAITS}.spill", "-o", f"{folder}/report.html"]
        peer = [sys.executable, "-c", reads.format(WAITS)]
        name = f"start: report of {WAITS:,} waits"
        yield _row(name, report, peer, "pyarrow reads them", REPORT_AIM_S)
        yield _record(Path(folder) / "run.spill")


def _row(name: str, words: list[str], peer: list[str], peer_is: str, aim_s: float) -> Result:
    """By CPU time, which other work on the machine does not increase."""
    ours, other = by_turns([*SPILLCAST, *words], peer, 7)
    return Result(
        name,
        str(ours),
        f"{other}, {peer_is}",
        ours.cpu_s / other.cpu_s,
        f"at most {aim_s:g} s",
        ours.cpu_s <= aim_s,
    )


def _record(output: Path) -> Result:
    """The extra elapsed time for a command of 1.5 s: the minimum of five."""
    command = [sys.executable, "-c", COMMAND]
    ways = {
        "bare": command,
        "record": [*SPILLCAST, "record", "-o", str(output), "--", *command],
    }
    if shutil.which("strace"):
        ways["strace"] = ["strace", "-f", "-T", "-o", str(output.with_suffix(".strace")), *command]
    took: dict[str, list[Used]] = {name: [] for name in ways}
    for _ in range(5):
        for name, way in ways.items():
            took[name].append(used(way))
        shutil.rmtree(output)
    result = {name: least(runs) for name, runs in took.items()}
    added_s = {name: item.wall_s - result["bare"].wall_s for name, item in result.items()}
    peer_s = added_s.get("strace", float("nan"))
    return Result(
        f"start: record around a command of {result['bare'].wall_s:.1f} s",
        f"{added_s['record']:.2f} s added, {result['record']}",
        f"{peer_s:.2f} s added, strace -f -T",
        added_s["record"] / peer_s,
        f"at most {RECORD_AIM_S:g} s",
        added_s["record"] <= RECORD_AIM_S,
    )
