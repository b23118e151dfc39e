"""Reads a second that a capture follows without loss; the peer is strace."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result
from spillcast.recording.source import SOURCES

PROCESSES = 2
READS = 600_000
AIM_PER_S = 300_000
OUTPUT = "bench.spill"
TARGET = Path(__file__).with_name("reads.py")


def run() -> Iterator[Result]:
    """Cached 8 KiB preads from two processes: bare, recorded, under strace."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as room:
        rate = _rate([], room, READS)
        alone = _rate([], room, READS, processes=1)
        for method in SOURCES:
            record = _record(room, method)
            cost_us = 1e6 / _rate(record, room, READS, processes=1) - 1e6 / alone
            recorded = _rate(record, room, READS)
            meta = json.loads((Path(room) / OUTPUT / "meta.json").read_text())
            lost = meta["capture"]["lost"]
            seen = meta["temp"]["reads"]
            peer, ratio = "strace is not installed", float("nan")
            if shutil.which("strace"):
                traced = _rate(["strace", "-f", "-qq", "-o", "/dev/null"], room, READS // 30)
                peer, ratio = f"{traced:,.0f} reads/s (strace -f)", recorded / traced
            yield Result(
                f"capture: {method}, {READS * PROCESSES:,} cached reads of 8 KiB, "
                f"{rate:,.0f}/s when not observed",
                f"{recorded:,.0f} reads/s, {lost:,} lost, {seen:,} recorded; "
                f"{cost_us:.1f} us a call with one process",
                peer,
                ratio,
                f"0 lost at {AIM_PER_S:,} reads/s as root",
                lost == 0 and recorded >= AIM_PER_S and seen == READS * PROCESSES,
            )


def _record(room: str, method: str) -> list[str]:
    output = str(Path(room) / OUTPUT)
    return [*SPILLCAST, "record", "-o", output, "--temp", room, "--capture", method, "--"]


def _rate(prefix: list[str], room: str, reads: int, processes: int = PROCESSES) -> float:
    """Reads a second of all processes together, by their own clock."""
    command = [*prefix, sys.executable, str(TARGET), room, str(processes), str(reads)]
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.splitlines()[0])
