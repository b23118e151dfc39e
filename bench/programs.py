"""The two programs of the capture benchmarks: the observed one, and one that attaches.

They are examples of the core: ``crates/spillcast-core/examples/observed`` and ``attach.rs``.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench.result import SPILLCAST

ROOT = Path(__file__).parents[1]
#: Where cargo puts what it builds.
BUILDS = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
BUILD = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "spillcast-core"]
EXAMPLES = ["--example", "observed", "--example", "attach"]
#: The path of a recording in the directory of a benchmark.
OUTPUT = "bench.spill"


@cache
def built() -> Path:
    """The directory of the two programs."""
    subprocess.run([*BUILD, *EXAMPLES], check=True, cwd=ROOT)
    return BUILDS / "release" / "examples"


def observed(kind: str, room: Path, count: int, *gate: str, **options: int) -> list[str]:
    """The command line of the observed program, with its files in ``room``."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    program = str(built() / "observed")
    return [program, kind, "--dir", str(room), "--count", str(count), *words, *gate]


def recording(room: Path, method: str) -> list[str]:
    """The start of a command line that records, with all files of ``room`` as temp files."""
    output = str(room.with_name(OUTPUT))
    return [
        *SPILLCAST,
        "record",
        "--force",
        "-o",
        output,
        "--temp",
        str(room),
        "--capture",
        method,
        "--",
    ]


def summary_of(stdout: str) -> dict[str, Any]:
    """The account of the observed program, without other output."""
    line = next(line for line in stdout.splitlines() if line.startswith('{"kind"'))
    document: dict[str, Any] = json.loads(line)
    return document


def run(command: Sequence[str]) -> dict[str, Any]:
    """The account of the observed program after a run, bare or under an observer."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return summary_of(done.stdout)


def attached(source: str, room: Path, pid: int) -> dict[str, Any]:
    """The cost of attaching to a process; ``refused`` says why that is impossible."""
    command = [str(built() / "attach"), source, str(room), "--pid", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"refused": done.stderr.strip().removeprefix("attach: ")}
    document: dict[str, Any] = json.loads(done.stdout)
    return document
