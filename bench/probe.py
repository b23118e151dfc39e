"""Direct random reads of a file: the probe's io_uring loop against fio's, in turns."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from statistics import median, stdev

from bench.programs import BUILDS
from bench.result import Result

ROOT = Path(__file__).parents[1]
FILE_BYTES = 1 << 30
RUN_S = 1
TURNS = 9
#: Size in bytes and operations in flight.
CELLS = ((8 << 10, 1), (8 << 10, 32), (256 << 10, 8))
AIM_MEDIAN = 0.05
Figures = tuple[float, float]


def run() -> Iterator[Result]:
    """Operations per second and median latency, each the median of ratios of consecutive runs."""
    if shutil.which("fio") is None:
        yield Result("probe", "not run", "fio is not installed", float("nan"), "fio's rate", False)
        return
    ours = _build()
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-", dir=_disk()) as folder:
        path = Path(folder) / "file"
        _lay(path)
        for size, depth in CELLS:
            yield from _compared(ours, path, size, depth)


def _compared(ours: Path, path: Path, size: int, depth: int) -> Iterator[Result]:
    pairs = []
    for turn in range(TURNS):
        # In turns, each equally often first, so that drift affects both.
        order = (_ours, _fio) if turn % 2 else (_fio, _ours)
        result = {item: item(ours, path, size, depth) for item in order}
        pairs.append((result[_ours], result[_fio]))
    name = f"probe: direct random reads of {size >> 10} KiB, {depth} at once"
    rates = [a[0] / b[0] for a, b in pairs]
    rate, error = median(rates), 1.25 * stdev(rates) / sqrt(len(rates))
    yield Result(
        name,
        f"{median(a[0] for a, _ in pairs):,.0f} a second",
        f"{median(b[0] for _, b in pairs):,.0f} a second (fio, io_uring)",
        rate,
        f"at least 1 (standard error {error:.2f})",
        rate >= 1,
    )
    latency = median(a[1] / b[1] for a, b in pairs)
    yield Result(
        name,
        f"median {median(a[1] for a, _ in pairs) / 1e3:.1f} us",
        f"median {median(b[1] for _, b in pairs) / 1e3:.1f} us (fio, io_uring)",
        latency,
        f"within {AIM_MEDIAN:.0%}",
        abs(latency - 1) <= AIM_MEDIAN,
    )


def _ours(program: Path, path: Path, size: int, depth: int) -> Figures:
    cell = ["read", str(size), str(depth), "random", "direct", str(RUN_S)]
    answer = subprocess.run([str(program), str(path), *cell], check=True, capture_output=True)
    figures = json.loads(answer.stdout)
    if not figures["io_uring"]:
        raise SystemExit("probe: io_uring is refused here")
    return figures["iops"], figures["p50_ns"]


def _fio(_program: Path, path: Path, size: int, depth: int) -> Figures:
    command = ["fio", "--name=read", f"--filename={path}", "--rw=randread", f"--bs={size}",
               f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1", f"--runtime={RUN_S}",
               "--time_based", "--registerfiles", "--fixedbufs", "--lat_percentiles=1",
               "--output-format=json"]  # fmt: skip
    stdout = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    read = json.loads(stdout[stdout.index("{") :])["jobs"][0]["read"]
    return read["iops"], read["lat_ns"]["percentile"]["50.000000"]


def _build() -> Path:
    build = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "spillcast-core"]
    subprocess.run([*build, "--example", "probe_cell"], check=True, cwd=ROOT)
    return BUILDS / "release" / "examples" / "probe_cell"


def _disk() -> Path | None:
    """The temp directory if it is on a disk, as a file in memory has no queue."""
    kind = ["stat", "-f", "-c", "%T", tempfile.gettempdir()]
    output = subprocess.run(kind, capture_output=True, text=True).stdout.strip()
    return ROOT if output == "tmpfs" else None


def _lay(path: Path) -> None:
    lay = ["fio", "--name=lay", f"--filename={path}", f"--size={FILE_BYTES}", "--rw=write",
           "--bs=1m", "--end_fsync=1"]  # fmt: skip
    subprocess.run(lay, check=True, stdout=subprocess.DEVNULL)
