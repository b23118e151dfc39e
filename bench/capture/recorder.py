"""The resources of the recorder: CPU time while a program makes calls, and memory."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.capture.sources import PEERS, Observer, recorder, usable, workroom
from bench.programs import OUTPUT, observed, summary_of
from bench.result import Result

CALLS_PER_S = 20_000
SECONDS = 10
AIM_SHARE = 0.05
AIM_PEAK_MB = 60


@dataclass(frozen=True)
class Taken:
    """CPU time as a share of a core during the calls; the peak resident memory."""

    share: float
    peak_mb: float

    def __str__(self) -> str:
        return f"{self.share:.1%} of a core, {self.peak_mb:.0f} MB at most"


def run() -> Iterator[Result]:
    """Each source at the same rate; the peer is bpftrace's histogram of the same calls."""
    with workroom() as room:
        bpftrace = PEERS["reads"][0]
        peer = taken(bpftrace, room) if shutil.which(bpftrace.name) else None
        for source in usable():
            ours = taken(recorder(source, CALLS_PER_S), room)
            meta = json.loads((room.with_name(OUTPUT) / "meta.json").read_text())
            says = meta["capture"]["tracer_cpu_s"] / SECONDS
            yield Result(
                f"capture: the recorder's own, {source.name}, {CALLS_PER_S:,} calls/s, {SECONDS} s",
                f"{ours}; meta.json says {says:.1%}",
                f"{peer}, bpftrace" if peer else "bpftrace is not installed",
                ours.share / peer.share if peer and peer.share else float("nan"),
                f"under {AIM_SHARE:.0%} of a core and {AIM_PEAK_MB} MB",
                ours.share < AIM_SHARE and ours.peak_mb < AIM_PEAK_MB,
            )


def taken(observer: Observer, room: Path) -> Taken:
    """CPU time between the program's first and last call; memory until the recorder's end."""
    program = observed("reads", room, CALLS_PER_S * SECONDS, "--gate", rate=CALLS_PER_S)
    process = subprocess.Popen(
        observer.command(program, room),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    while "ready" not in process.stdout.readline():
        if process.poll() is not None:
            raise SystemExit(f"{observer.name} failed")
    before_s = _cpu_s(process.pid)
    process.stdin.write("go\n")
    process.stdin.flush()
    seconds = summary_of(process.stdout.readline())["seconds"]
    share = (_cpu_s(process.pid) - before_s) / seconds
    peak_mb = 0.0
    while process.poll() is None:
        peak_mb = max(peak_mb, _peak_mb(process.pid))
        time.sleep(0.005)
    return Taken(share, peak_mb)


def _cpu_s(pid: int) -> float:
    """CPU time of the process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float:
    """The peak resident memory so far; 0 for a process that is about to exit."""
    status = Path(f"/proc/{pid}/status").read_text()
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM"))
    return max((int(kib) * 1024 / 1e6 for _, kib, _ in lines), default=0.0)
