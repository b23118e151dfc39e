"""Runs of Spark on a volume, in a memory cgroup; each gives an event log."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast.errors import ExperimentFailed
from spillcast.evidence.spark.application import Application, read_application
from spillcast.lab.case import SUITES
from spillcast.recording.observed import meminfo_bytes
from spillcast.storage.probe import memory_group
from spillcast_lab.kernel_slowed import WATCH_S, held_in, moved
from spillcast_lab.spark.volumes import clear

#: Memory of temp files on a node, and of it what may be dirty: Linux's vm.dirty_ratio.
PAGE_CACHE_BYTES, DIRTY_BYTES = 1 << 30, (1 << 30) // 5
HEAP = "1g"
CORES = 2
#: A driver with two threads, and two workers of a core each with executors of their own.
MASTERS = {"local": f"local[{CORES}]", "cluster": f"local-cluster[{CORES},1,640]"}
PROPERTIES = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    # More bytes for the same CPU time.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.driver.memory": HEAP,
    "spark.executor.memory": "640m",
    # The heap is in memory before the page cache is, so that the group's limit bounds that.
    "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch",
    "spark.executor.extraJavaOptions": "-XX:+AlwaysPreTouch",
}
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Job:
    """A job, its rows, and which master runs it."""

    name: str
    rows: int
    master: str = "local"
    seed: int = 0

    @property
    def words(self) -> str:
        """Job and master."""
        return self.name if self.master == "local" else f"{self.name} on a cluster"

    @property
    def names(self) -> tuple[str, ...]:
        """What chooses it: its words, and its suite where it is a query of one."""
        suite = self.name.split()[0]
        return (self.words, suite) if suite in SUITES else (self.words,)


def run_job(
    job: Job,
    directory: Path,
    folder: Path,
    tables: Path,
    memory_bytes: int | None,
    on_tick: Callable[[], None] = lambda: None,
) -> tuple[Application, int]:
    """Run a job with its local directories on a volume, its event log in ``folder``.

    Returns the application and the memory that it took besides the page cache.
    ``memory_bytes`` limits both together; None sets no limit.
    """
    clear(directory)
    folder.mkdir(parents=True)
    settings = {
        "job": job.name,
        "rows": job.rows,
        "seed": job.seed,
        "master": MASTERS[job.master],
        "tables": str(tables),
        "properties": {
            **PROPERTIES,
            "spark.local.dir": str(directory),
            "spark.eventLog.dir": folder.resolve().as_uri(),
        },
    }
    limit_bytes = memory_bytes or meminfo_bytes()["MemTotal"]
    with memory_group(limit_bytes) as group, _watched(group) as peak:
        _run(job, settings, group, folder, on_tick)
    clear(directory)
    logs = [path for path in folder.iterdir() if path.name != "output.txt"]
    if len(logs) != 1:
        raise ExperimentFailed(f"{job.words}: Spark wrote {len(logs)} event logs")
    return read_application(logs[0]), max(peak)


def _run(
    job: Job,
    settings: Mapping[str, Any],
    group: Path,
    folder: Path,
    on_tick: Callable[[], None],
) -> None:
    output = folder / "output.txt"
    with output.open("wb") as file:
        with moved(group, "memory"):
            process = subprocess.Popen(
                [sys.executable, "-m", "spillcast_lab.spark.jobs", json.dumps(settings)],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            waited_s = 0.0
            while waited_s < TIMEOUT_S:
                try:
                    status = process.wait(0.1)
                    break
                except subprocess.TimeoutExpired:
                    waited_s += 0.1
                    on_tick()
            else:
                raise ExperimentFailed(f"{job.words}: it took more than {TIMEOUT_S:.0f} s")
        finally:
            _end_all(process, group)
    if status:
        lines = output.read_text(errors="replace").strip().splitlines()
        raise ExperimentFailed(f"{job.words}: {lines[-1] if lines else f'status {status}'}")


def _end_all(process: "subprocess.Popen[bytes]", group: Path) -> None:
    """End the processes of the group: the job's, its JVM's, and those of its executors."""
    for pid in (group / "cgroup.procs").read_text().split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


@contextmanager
def _watched(group: Path) -> Iterator[list[int]]:
    """The memory of a group besides the page cache, as often as it is looked at."""
    sizes_bytes, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_S):
            sizes_bytes.append(held_in(group))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield sizes_bytes
    finally:
        over.set()
        watcher.join()
