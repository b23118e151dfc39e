"""Measures every source in a guest of 64 CPUs: ``python -m bench.wide``; ``--cpus 8`` for fewer.

Absolute times mean little on emulated CPUs; growth with their number is visible.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from bench.wide.image import BUILT, initramfs, kernel, missing
from bench.wide.table import table
from spillcast.recording.capture import SOURCES

THREADS = (1, 16, 64)
#: Threads that are started, one at a time.
STARTS, STARTS_PER_S = 40, 20
#: Time limits of a measurement, and of all of them with the boot.
LIMIT_S, DEADLINE_S = 45, 560
MEMORY = "6G"


def main() -> int:
    """Builds, boots, prints; 2 if a package is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.wide")
    parser.add_argument("--cpus", type=int, default=64)
    parser.add_argument("--source", help="measure this one alone")
    options = parser.parse_args()
    cpus = options.cpus
    if packages := missing():
        print(f"bench-wide wants: apt-get install {' '.join(packages)}", file=sys.stderr)
        return 2
    attaching = [name for name, source in SOURCES.items() if source.attaches]
    sources = attaching if options.source is None else [options.source]
    begin = time.monotonic()
    console = boot(kernel(), initramfs(), cpus, sources)
    print(table(console, sources, THREADS))
    print(f"{time.monotonic() - begin:.0f} s; all that the guest said: {BUILT / 'console.log'}")
    return 0


def boot(vmlinuz: Path, initrd: Path, cpus: int, sources: list[str]) -> str:
    """Runs the guest to its end or its deadline; returns its output."""
    # The kernel passes parameters it does not know to the first process, as its environment.
    reported = f"SOURCES={','.join(sources)} THREADS={','.join(map(str, THREADS))} "
    reported += f"STARTS={STARTS} STARTS_PER_S={STARTS_PER_S} LIMIT_S={LIMIT_S}"
    quiet = "rdinit=/init console=ttyS0 quiet panic=-1 mitigations=off nowatchdog"
    command = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max",
        "-smp", str(cpus), "-m", MEMORY, "-kernel", str(vmlinuz), "-initrd", str(initrd),
        "-append", f"{quiet} {reported}", "-nographic", "-no-reboot",
    ]  # fmt: skip
    log = BUILT / "console.log"
    with log.open("w") as out:
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=DEADLINE_S
            )
        except subprocess.TimeoutExpired:
            print(f"the guest was ended after {DEADLINE_S} s", file=sys.stderr)
    return log.read_text(errors="replace")


sys.exit(main())
