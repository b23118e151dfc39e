"""Recorded runs of Spark on a volume, in a memory cgroup; each gives an event log."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spillcast import _core
from spillcast.engines.held import TIMEOUT_S
from spillcast.errors import ExperimentFailed
from spillcast.evidence.spark import Application, read_application
from spillcast.lab.case import SUITES
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.observed import held_command, meminfo_bytes
from spillcast.recording.record import Recorder, held_and_observed
from spillcast.storage.probe import memory_group
from spillcast_lab.kernel_slowed import watched
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
#: Between two looks at the memory of a job, which is in use from its begin on.
WATCH_S = 0.1


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


@dataclass(frozen=True)
class JobRun:
    """A run of a job, as its event log and its recording show it."""

    application: Application
    recording: Recording
    #: Memory that it took besides the page cache.
    memory_bytes: int


def run_job(
    job: Job,
    directory: Path,
    folder: Path,
    tables: Path,
    memory_bytes: int | None,
    on_tick: Callable[[], None] = lambda: None,
) -> JobRun:
    """Run a job with its local directories on a volume; log and recording go to ``folder``.

    ``memory_bytes`` limits the memory of its processes and their page cache together; None sets no
    limit. The recorder is this process, whose memory does not count.
    """
    clear(directory)
    logs = folder / "logs"
    logs.mkdir(parents=True)
    output = folder / "output.txt"
    settings = {
        "job": job.name,
        "rows": job.rows,
        "seed": job.seed,
        "master": MASTERS[job.master],
        "tables": str(tables),
        "output": str(output.resolve()),
        "properties": {
            **PROPERTIES,
            "spark.local.dir": str(directory),
            "spark.eventLog.dir": logs.resolve().as_uri(),
        },
    }
    command = [sys.executable, "-m", "spillcast_lab.spark.jobs", json.dumps(settings)]
    limit_bytes = memory_bytes or meminfo_bytes()["MemTotal"]
    with memory_group(limit_bytes) as group, watched(group, WATCH_S) as sizes_bytes:
        status, recording = _recorded(command, group, folder / "run.spill", on_tick)
    clear(directory)
    if status != 0:
        lines = output.read_text(errors="replace").strip().splitlines()
        raise ExperimentFailed(f"{job.words}: {lines[-1] if lines else f'status {status}'}")
    written = list(logs.iterdir())
    if len(written) != 1:
        raise ExperimentFailed(f"{job.words}: Spark wrote {len(written)} event logs")
    return JobRun(read_application(written[0]), recording, max(sizes_bytes))


def _recorded(
    command: Sequence[str], group: Path, output: Path, on_tick: Callable[[], None]
) -> tuple[int | None, Recording]:
    """Record a command in a memory cgroup; returns its exit status too."""

    def hold(environment: dict[str, str]) -> _core.Target:
        target = held_command(command, environment)
        try:
            (group / "cgroup.procs").write_text(str(target.pid))
        except OSError:
            target.abandon()
            raise
        return target

    recorder = Recorder(output, RecordOptions())
    target = held_and_observed(recorder, command, hold)
    try:
        target.release()
        ends_s = time.monotonic() + TIMEOUT_S
        while not recorder.poll():
            on_tick()
            if time.monotonic() > ends_s:
                raise ExperimentFailed(f"the job took more than {TIMEOUT_S:.0f} s")
        return target.exit_status, recorder.finish()
    except BaseException:
        recorder.abandon()
        raise
    finally:
        _end_all(group)
        target.wait(1.0)


def _end_all(group: Path) -> None:
    """End the processes of the group: the job's, its JVM's, and those of its executors."""
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
