"""Event logs of Spark: one application with its stages, their tasks summed.

A log is a file, or a folder of parts that Spark (``eventlog_v2_*``) or Databricks rolled; each may
be compressed by zstd, lz4, snappy or gzip. Other addresses than paths are opened by fsspec.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from spillcast import _core
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceMissing,
    EvidenceMixed,
    EvidenceUnsuited,
    PathMissing,
    SelectionEmpty,
)
from spillcast.evidence.address import is_address, open_filesystem
from spillcast.evidence.spark_log import parts_of
from spillcast.gate import reading

#: Engines that replace Spark's own operators: by property, a part of its value, a name.
_ENGINES = (
    ("spark.databricks.clusterUsageTags.sparkVersion", "photon", "Photon"),
    ("spark.plugins", "com.nvidia.spark", "RAPIDS"),
    ("spark.plugins", "gluten", "Gluten"),
)
#: What replaces local shuffle files, by a part of the name of the shuffle manager.
_REMOTE_SHUFFLES = {
    "celeborn": "Celeborn", "rss": "Uniffle", "uniffle": "Uniffle", "cosco": "Cosco",
    "s3": "a shuffle on object storage",
}  # fmt: skip
_HINT = "give the log that Spark wrote (spark.eventLog.dir), a file or a folder eventlog_v2_..."


@dataclass(frozen=True, kw_only=True)
class Execution:
    """An SQL query, or another action on data frames.

    Times of the log are of the driver's clock, in ms since 1970.
    """

    id: int
    started_ms: int
    ended_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of an SQL execution, or of an action on RDDs."""

    id: int
    execution: int | None
    submitted_ms: int


@dataclass(frozen=True, kw_only=True)
class Stage:
    """An attempt of a stage that ran tasks, with the sums of their metrics."""

    id: int
    name: str
    parents: Sequence[int]
    job: int | None
    task_count: int
    #: Of tasks from launch to end.
    task_ms: int
    run_ms: int
    cpu_ns: int
    gc_ms: int
    spill_bytes: int
    shuffle_write_bytes: int
    shuffle_read_local_bytes: int
    shuffle_read_remote_bytes: int

    @property
    def shuffle_read_bytes(self) -> int:
        """Bytes that its tasks read from shuffles."""
        return self.shuffle_read_local_bytes + self.shuffle_read_remote_bytes


@dataclass(frozen=True, kw_only=True)
class _Log:
    """What the core read."""

    id: str
    started_ms: int | None
    ended_ms: int | None
    last_ms: int
    properties: Mapping[str, str]
    executions: Sequence[Execution]
    jobs: Sequence[Job]
    stages: Sequence[Stage]
    damaged_lines: int
    other_id: str | None


@dataclass(frozen=True)
class Application:
    """One application: its log, and the core's tasks of it."""

    path: Path
    log: _Log
    core: _core.SparkApplication

    @property
    def begin_ms(self) -> int:
        """When it began, or its first job where the log lacks that."""
        first = min((job.submitted_ms for job in self.log.jobs), default=self.log.last_ms)
        return first if self.log.started_ms is None else self.log.started_ms

    @property
    def elapsed_s(self) -> float:
        """From its begin to its end, or to the last event of a log that is cut."""
        end_ms = self.log.last_ms if self.log.ended_ms is None else self.log.ended_ms
        return (end_ms - self.begin_ms) / 1e3

    @property
    def whole(self) -> bool:
        """Whether the log goes on to the end of the application."""
        return self.log.ended_ms is not None

    @property
    def temp_bytes(self) -> int:
        """Bytes of shuffles and spills that were written."""
        return sum(stage.shuffle_write_bytes + stage.spill_bytes for stage in self.log.stages)

    def execution(self, number: int) -> int:
        """The place of an SQL execution. SelectionEmpty where there is none of this id."""
        for at, execution in enumerate(self.log.executions):
            if execution.id == number:
                return at
        ids = [execution.id for execution in self.log.executions]
        known = f"it has {ids[0]} to {ids[-1]}" if ids else "it has none"
        raise SelectionEmpty(f"{self.path}: there is no SQL execution {number}", known)

    def notes(self) -> list[str]:
        """What the log does not show, or what contradicts itself, in sentences."""
        log = self.log
        notes = []
        if not self.whole:
            notes.append("the log ends before the application does: times are those up to there")
        if log.damaged_lines:
            notes.append(f"{log.damaged_lines:,} lines of the log are no events")
        for name, value, engine in _ENGINES:
            if value in log.properties.get(name, "").lower():
                notes.append(f"{engine} ran a part of it, whose spills the log does not count")
        if (overfull := self.core.overfull_executor()) is not None:
            executor, tasks = overfull
            notes.append(f"executor {executor} ran {tasks} tasks at once, more than it has cores")
        if unread := [stage.id for stage in log.stages if self._read_more_than_written(stage)]:
            stages = ", ".join(map(str, unread[:3]))
            notes.append(f"stages ({stages}) read more of shuffles than the log says was written")
        if log.properties.get("spark.kubernetes.local.dirs.tmpfs") == "true":
            notes.append("its local directories lie in memory (spark.kubernetes.local.dirs.tmpfs)")
        return notes

    def _read_more_than_written(self, stage: Stage) -> bool:
        written = [s.shuffle_write_bytes for s in self.log.stages if s.id in stage.parents]
        return bool(written) and stage.shuffle_read_bytes > 1.01 * sum(written)

    def check_local(self) -> None:
        """EvidenceUnsuited where shuffles do not go to local storage."""
        manager = self.log.properties.get("spark.shuffle.manager", "")
        package = manager.lower().split(".")
        for mark, name in _REMOTE_SHUFFLES.items():
            if any(mark in part for part in package):
                raise EvidenceUnsuited(
                    f"{self.path}: its shuffles go to {name} (spark.shuffle.manager={manager}), "
                    "not to local storage",
                    "forecast the storage of that service from its own recording",
                )


def read_application(
    path: str | Path, on_progress: Callable[[int], None] | None = None
) -> Application:
    """The application of a log. InputError where it is damaged, or holds several or none."""
    where = Path(path)
    with reading(where, _HINT):
        parts = list(_opened(str(path)))
        core = _core.SparkApplication.read(parts, on_progress or (lambda _bytes: None))
        log = msgspec.json.decode(core.to_json(), type=_Log)
    if log.other_id is not None:
        raise EvidenceMixed(
            f"{where}: holds the applications {log.id} and {log.other_id}", "give one log at a time"
        )
    application = Application(where, log, core)
    if not log.stages:
        lines = f", and {log.damaged_lines:,} lines that are no events" if log.damaged_lines else ""
        raise EvidenceDamaged(f"{where}: holds no stage of an application{lines}", _HINT)
    if not any(stage.cpu_ns or stage.run_ms for stage in log.stages):
        raise EvidenceUnsuited(f"{where}: its tasks have no metrics", _HINT)
    return application


def _opened(address: str) -> Iterator[Any]:
    """Paths, or files of fsspec, of the parts in order."""
    if not is_address(address):
        path = Path(address)
        if not path.is_dir():
            yield path
            return
        names = parts_of([child.name for child in path.iterdir()])
        if not names:
            raise EvidenceMissing(f"{path}: the folder holds no parts of an event log", _HINT)
        yield from (path / name for name in names)
        return
    files, root = open_filesystem(address)
    try:
        if not files.isdir(root):
            yield files.open(root, "rb")
            return
        children = {PurePosixPath(name).name: name for name in files.ls(root, detail=False)}
        parts = parts_of(list(children))
        if not parts:
            raise EvidenceMissing(f"{address}: the folder holds no parts of an event log", _HINT)
        for part in parts:
            yield files.open(children[part], "rb")
    except FileNotFoundError as error:
        raise PathMissing(f"{address}: there is no such file or folder", _HINT) from error
