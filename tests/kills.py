"""How tests end recorders, and checks of what a recorder leaves."""

import json
import os
import random
import re
import signal
import time
from itertools import cycle, islice
from pathlib import Path

from harness import until

#: Ends in each test; `make nightly` has 10 of them.
KILLS = int(os.environ.get("SPILLCAST_KILLS", "2"))
#: SIGSTOP, followed by SIGCONT after a while.
REST = (signal.SIGSTOP, signal.SIGCONT)
DEATHS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
    # Under nohup the signal is ignored.
    DEATHS += (signal.SIGHUP,)
#: From before a recorder has begun until after it has ended.
WITHIN_S = 1.2


def moments(seed, within_s=WITHIN_S):
    """Ways to end a recorder, a stop and then each signal in turn, each with the time before it."""
    rng = random.Random(seed)
    ways = cycle((REST, *rng.sample(DEATHS, len(DEATHS))))
    for way in islice(ways, KILLS):
        yield way, rng.uniform(0, within_s)


def end(recorder, death, after_s):
    """Ends a recorder in this way; returns whether it was still running."""
    time.sleep(after_s)
    alive = recorder.poll() is None
    if death is REST:
        recorder.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        recorder.send_signal(signal.SIGCONT)
    else:
        recorder.send_signal(death)
    return alive


def check_no_crash(stderr):
    """Asserts no traceback, except of an interrupt before the command line was reached."""
    if "Traceback" in stderr:
        assert not re.search(r'/spillcast/cli/[^"]+", line \d+, in main\n', stderr), stderr
        assert stderr.rstrip().endswith("KeyboardInterrupt"), stderr


def check_nothing_left(root):
    """Waits until no partial folder, no process that names the directory and no mount is left."""
    until(lambda: not list(root.rglob("*.partial")), "partial folders to go")
    until(lambda: not processes_of(root), "processes to go")
    assert str(root) not in Path("/proc/self/mounts").read_text()


def processes_of(root):
    """Command lines of processes that name a directory, of which none should remain."""
    matches = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(root) in words and int(process.name) != os.getpid():
            matches.append(words)
    return matches


def check_recording(output):
    """Asserts that a recording that was kept is complete."""
    if output.exists():
        assert {"meta.json", "waits.parquet", "seconds.parquet", "samples.parquet"} <= {
            path.name for path in output.iterdir()
        }
        assert json.loads((output / "meta.json").read_text())["capture"]["lost"] >= 0
