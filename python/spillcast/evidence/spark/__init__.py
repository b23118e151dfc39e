"""Event logs of Spark: one application with its stages, their tasks summed.

A log is a file, or a folder of parts that Spark (``eventlog_v2_*``) or Databricks rolled; each may
be compressed with zstd, lz4, snappy or gzip. A single file may be in a zip of the history server,
or in another encoding than UTF-8. fsspec opens addresses other than paths.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from spillcast import _core
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMissing,
    EvidenceMixed,
    EvidenceUnsuited,
    FileUnreadable,
    InputError,
    OptionInvalid,
    PackageMissing,
    PathMissing,
    SelectionEmpty,
    first_line,
)
from spillcast.evidence.selection import is_address
from spillcast.evidence.text import plain_copy
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import json_at, reading
from spillcast.units import format_share


def open_filesystem(address: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path within it. InputError if there is none."""
    try:
        import fsspec
    except ImportError as error:
        raise PackageMissing(
            "addresses need fsspec", "pip install 'spillcast[fleet]'", address
        ) from error
    try:
        filesystem, path = fsspec.core.url_to_fs(address)
    except (ValueError, ImportError) as error:
        raise OptionInvalid(first_line(error), where=address) from error
    return filesystem, str(path).rstrip("/")


#: An event log has one of these, however it is wrapped; to unwrap other texts takes long.
_MARK = re.compile(r"SparkListener|DBC|org\.apache\.spark|com\.databricks")
#: The start of Spark's events, and of files that Spark compressed.
_EVENT = re.compile(rf'\A\s*\{{"Event":\s*"(?:{_MARK.pattern})')
_LINE_END = re.compile(r"\n\s*")
#: The beginning of a list of events, or of an event that takes several lines.
_DOCUMENT = re.compile(r'\A\s*(?:\[\s*)?\{\s*"(?=[\s\S]{,4000}\bSparkListener)')
_CODECS = ("LZ4Block", "\u201aSNAPPY", "\x82SNAPPY", "(\xb5/\xfd")
#: Parts of rolled logs: Spark numbers them, Databricks dates them, except for the last.
_ROLLED = re.compile(r"events_(\d+)_.+")
_DATED = re.compile(r"eventlog(?:-[\d-]+(?:\.gz)?)?")


def is_event_log(text: str) -> bool:
    """Whether a text begins like an event log, or like one that Spark compressed."""
    return text.startswith(_CODECS) or _EVENT.match(text) is not None


def plain_log(text: str) -> str:
    """The text of an event log without its wrapping, with one event on a line; others unchanged."""
    if is_event_log(text) or _MARK.search(text) is None:
        return text
    plain = _relaid(text) if _DOCUMENT.match(text) else ""
    plain = plain if is_event_log(plain) else unwrapped(text, until=is_event_log)
    return plain if is_event_log(plain) else text


def _relaid(text: str) -> str:
    """The events of a list or of pretty-printed JSON, each on a line; other text has lines, too."""
    lines: list[str] = []
    at = len(text) - len(text.lstrip(" \n["))
    while (begin := text.find("{", at)) >= 0:
        lines.append(text[at:begin])
        try:
            _, at = json_at(text, begin)
        except EvidenceDamaged:
            at = begin
            break
        lines.append(_LINE_END.sub("", text[begin:at]))
    lines.append(_LINE_END.sub("", text[at:].rstrip("] \n")))
    return "".join(f"{line}\n" for line in lines if line.strip(", \t\n"))


def parts_of(names: Sequence[str]) -> list[str]:
    """The parts of one rolled log among the names of a folder, in order; may be empty."""
    numbered = [(int(match[1]), name) for name in names if (match := _ROLLED.fullmatch(name))]
    if numbered:
        return [name for _, name in sorted(numbered)]
    dated = [name for name in names if _DATED.fullmatch(name)]
    # The part without a date is the last: it is still being written.
    return sorted(dated, key=lambda name: (name == "eventlog", name))


#: Engines that replace Spark's own operators: a property, a part of its value, the engine's name.
_ENGINES = (
    ("spark.databricks.clusterUsageTags.sparkVersion", "photon", "Photon"),
    ("spark.plugins", "com.nvidia.spark", "RAPIDS"),
    ("spark.plugins", "gluten", "Gluten"),
)
#: Replacements of local shuffle files, by a part of the name of the shuffle manager or plugin.
_REMOTE_SHUFFLES = {
    "celeborn": "Celeborn", "rss": "Uniffle", "uniffle": "Uniffle", "cosco": "Cosco",
    "s3": "a shuffle on object storage", "cloud": "a shuffle on object storage",
}  # fmt: skip
#: Directories that are usually tmpfs.
_MEMORY_DIRS = ("/dev/shm", "/run/")
#: The share of tasks outside their stages above which the log's times contradict each other.
_OUTSIDE_MAX = 0.01
#: Below this share, recordings of executors lack some of the I/O that the log counts.
COVERAGE_MIN = 0.98
_HINT = "give the log that Spark wrote (spark.eventLog.dir), a file or a folder eventlog_v2_..."


@dataclass(frozen=True, kw_only=True)
class Execution:
    """An SQL query, or another action on data frames.

    Times in the log are by the driver's clock, in ms since 1970.
    """

    id: int
    #: Its SQL text, or the place in the program that called an action.
    description: str
    started_ms: int
    ended_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Executor:
    """An executor, or the driver in local mode. ``inferred``: its cores are not in the log."""

    id: str
    host: str
    cores: int
    added_ms: int
    removed_ms: int | None
    inferred: bool


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of an SQL execution, or of an action on RDDs."""

    id: int
    execution: int | None
    submitted_ms: int
    completed_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """An attempt of a stage that ran tasks, with the sums of their metrics."""

    id: int
    name: str
    parents: Sequence[int]
    job: int | None
    completed_ms: int | None
    task_count: int
    #: The least number of tasks that ended; None if the log does not state it or the stage failed.
    stated_tasks: int | None
    #: Time of its tasks, each from launch to end.
    task_ms: int
    run_ms: int
    cpu_ns: int
    gc_ms: int
    spill_bytes: int
    shuffle_write_bytes: int
    shuffle_read_local_bytes: int
    shuffle_read_remote_bytes: int
    fetch_wait_ms: int

    @property
    def shuffle_read_bytes(self) -> int:
        """Bytes that its tasks read from shuffles."""
        return self.shuffle_read_local_bytes + self.shuffle_read_remote_bytes

    @property
    def moves_temp(self) -> bool:
        """Whether its tasks read or wrote shuffles, or spilled."""
        return bool(self.spill_bytes or self.shuffle_write_bytes or self.shuffle_read_bytes)


@dataclass(frozen=True, kw_only=True)
class _Log:
    """The content of an event log, as read by the core."""

    id: str
    started_ms: int | None
    ended_ms: int | None
    last_ms: int
    properties: Mapping[str, str]
    plan_engines: Sequence[str]
    caches_on_disk: bool
    executors: Sequence[Executor]
    executions: Sequence[Execution]
    jobs: Sequence[Job]
    stages: Sequence[Stage]
    damaged_lines: int
    other_id: str | None


@dataclass(frozen=True)
class ObservedTasks:
    """What recordings of executors show about the tasks of an application."""

    #: By task, the time for which it was blocked on its temp files.
    waits_s: Sequence[float]
    #: Memory of a node that temp files may occupy; None if unknown.
    page_cache_bytes: int | None
    #: The share of the application's temp I/O that was recorded.
    coverage: float


@dataclass(frozen=True)
class Application:
    """One application: its log, the core's tasks, and what recordings show of them, if any."""

    path: Path
    log: _Log
    core: _core.SparkApplication
    observed: ObservedTasks | None = None
    #: A sentence about missing parts of a rolled log.
    parts_missing: str | None = None

    @property
    def begin_ms(self) -> int:
        """The start of the application, or of its first job if the log lacks that."""
        first = min((job.submitted_ms for job in self.log.jobs), default=self.log.last_ms)
        return first if self.log.started_ms is None else self.log.started_ms

    @property
    def elapsed_s(self) -> float:
        """From its start to its end, or to the last event of a log that is cut."""
        end_ms = self.log.last_ms if self.log.ended_ms is None else self.log.ended_ms
        return (end_ms - self.begin_ms) / 1e3

    @property
    def whole(self) -> bool:
        """Whether the log extends to the end of the application."""
        return self.log.ended_ms is not None

    @property
    def task_cpus(self) -> int:
        """Cores that each task takes."""
        cpus = self.log.properties.get("spark.task.cpus", "")
        return max(int(cpus), 1) if cpus.isdigit() else 1

    def execution(self, number: int) -> int:
        """The index of an SQL execution. SelectionEmpty if there is none with this ID."""
        return self._place("SQL execution", [each.id for each in self.log.executions], number)

    def job(self, number: int) -> int:
        """The index of a job. SelectionEmpty if there is none with this ID."""
        return self._place("job", [job.id for job in self.log.jobs], number)

    def _place(self, kind: str, ids: Sequence[int], number: int) -> int:
        if number in ids:
            return ids.index(number)
        known = f"it has {ids[0]} to {ids[-1]}" if ids else "it has none"
        raise SelectionEmpty(f"there is no {kind} {number}", known, self.path)

    @property
    def local_memory(self) -> str | None:
        """The property that puts the local directories in memory; None if none does."""
        for name, value in self.log.properties.items():
            medium = name.endswith(".options.medium") and "spark-local-dir" in name
            if (
                (name == "spark.kubernetes.local.dirs.tmpfs" and value == "true")
                or (medium and value.lower() == "memory")
                or (name == "spark.local.dir" and value.startswith(_MEMORY_DIRS))
            ):
                return f"{name}={value}"
        return None

    def warnings(self) -> list[tuple[str, str]]:
        """Codes and sentences for what the log does not show, or where it contradicts itself."""
        log = self.log
        warnings = [("event-log", note) for note in self._contradictions()]
        named = (e for name, part, e in _ENGINES if part in log.properties.get(name, "").lower())
        if engines := sorted({*named, *log.plan_engines}):
            note = (
                f"{' and '.join(engines)} ran a part of it, whose spills and shuffles the log "
                "counts in part or not at all"
            )
            warnings.append(("other-engine", note))
        if log.caches_on_disk and self.observed is None:
            note = (
                "cached blocks (persist with DISK_ONLY) lie in the local directories, and the log "
                "does not count them"
            )
            warnings.append(("incomplete", note))
        if log.properties.get("spark.shuffle.push.enabled") == "true":
            note = (
                "shuffle blocks are also pushed to shuffle services "
                "(spark.shuffle.push.enabled=true), which write and read them on their own "
                "nodes: the log does not count that"
            )
            warnings.append(("pushed-shuffle", note))
        return warnings

    def _contradictions(self) -> Iterator[str]:
        """Sentences about what the log lacks, or where it contradicts itself."""
        log = self.log
        if not self.whole:
            yield "the log ends before the application does: times are those up to there"
        if log.started_ms is None:
            yield "the log lacks when the application began: times are from its first job"
        if unowned := [stage.id for stage in log.stages if stage.job is None]:
            stages = ", ".join(map(str, unowned[:3]))
            yield f"the log lacks jobs of stages ({stages}), or its lines are out of order"
        if self.parts_missing is not None:
            yield self.parts_missing
        if lacking := [stage.id for stage in log.stages if self._lacks_events(stage)]:
            stages = ", ".join(map(str, lacking[:3]))
            yield f"the log lacks ends of stages ({stages}) or of their tasks"
        if log.damaged_lines:
            yield f"{log.damaged_lines:,} lines of the log cannot be read as events"
        if inferred := [executor.id for executor in log.executors if executor.inferred]:
            yield (
                f"the log lacks the cores of executors ({', '.join(inferred[:3])}): they are taken "
                "as the most tasks that each ran at once"
            )
        if (overfull := self.core.overfull_executor()) is not None:
            executor, tasks = overfull
            yield f"executor {executor} ran {tasks} tasks at once, more than it has slots"
        tasks = sum(stage.task_count for stage in log.stages)
        if (outside := self.core.tasks_outside_stages()) > _OUTSIDE_MAX * tasks:
            yield f"{outside:,} of {tasks:,} tasks began before their stage or ended after it"
        if unread := [stage.id for stage in log.stages if self._read_more_than_written(stage)]:
            stages = ", ".join(map(str, unread[:3]))
            yield f"stages ({stages}) read more of shuffles than the log says was written"
        if (observed := self.observed) is not None and observed.coverage < COVERAGE_MIN:
            yield (
                f"the recordings hold {format_share(observed.coverage)} of the shuffle bytes that "
                "the log counts: other tasks are assumed to wait as long for a byte"
            )

    def _lacks_events(self, stage: Stage) -> bool:
        if stage.completed_ms is not None:
            return stage.task_count < (stage.stated_tasks or 0)
        return any(j.id == stage.job and j.completed_ms is not None for j in self.log.jobs)

    def _read_more_than_written(self, stage: Stage) -> bool:
        written = [s.shuffle_write_bytes for s in self.log.stages if s.id in stage.parents]
        return bool(written) and stage.shuffle_read_bytes > 1.01 * sum(written)

    def check_local(self) -> None:
        """EvidenceUnsuited if shuffles do not go to local storage."""
        for name in ("spark.shuffle.manager", "spark.shuffle.sort.io.plugin.class"):
            value = self.log.properties.get(name, "")
            for mark, service in _REMOTE_SHUFFLES.items():
                if any(mark in part for part in value.lower().split(".")):
                    raise EvidenceUnsuited(
                        f"its shuffles go to {service} ({name}={value}), not to local storage",
                        "forecast the storage of that service from its own recording",
                        self.path,
                    )


def read_application(
    path: str | Path, on_progress: Callable[[int], None] | None = None
) -> Application:
    """The application of a log. InputError if it is damaged, or contains several or none."""
    with reading(Path(path), _HINT):
        parts = dict(_opened(str(path)))
        core = _core.SparkApplication.read(
            list(parts.values()), on_progress or (lambda _bytes: None)
        )
        log = msgspec.json.decode(core.to_json(), type=_Log)
        if log.other_id is not None:
            raise EvidenceMixed(
                f"holds the applications {log.id} and {log.other_id}", "give one log at a time"
            )
        application = Application(Path(path), log, core, parts_missing=_parts_missing(list(parts)))
        if not log.stages and not log.jobs and not log.damaged_lines and log.started_ms is not None:
            state = "ran no job" if application.whole else "has run no job yet"
            raise EvidenceUnsuited(f"the application {state}", _HINT)
        if not log.stages:
            lines = f", and {log.damaged_lines:,} damaged lines" if log.damaged_lines else ""
            raise EvidenceDamaged(f"holds no stage of an application{lines}")
        if application.elapsed_s <= 0:
            raise EvidenceIncomplete("the log lacks when the application or a job began")
        if not any(stage.cpu_ns or stage.run_ms for stage in log.stages):
            raise EvidenceUnsuited("its tasks have no metrics", _HINT)
        return application


def _opened(address: str) -> Iterator[tuple[str, Any]]:
    """The parts in order, each with its name: paths, or files of fsspec."""
    if not is_address(address):
        path = Path(address)
        children = {child.name: child for child in path.iterdir()} if path.is_dir() else None
        yield from (
            [(path.name, plain_copy(path, plain_log))] if children is None else _parts(children)
        )
        return
    try:
        files, root = open_filesystem(address)
        if not files.isdir(root):
            yield root, files.open(root, "rb")
            return
        names = {PurePosixPath(name).name: name for name in files.ls(root, detail=False)}
        for name, part in _parts(names):
            yield name, files.open(part, "rb")
    except InputError:
        raise
    except FileNotFoundError as error:
        raise PathMissing("there is no such file or folder", _HINT, address) from error
    except Exception as error:
        # Libraries of object stores have their own errors for missing credentials and permissions.
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise FileUnreadable(
            f"the store refuses it ({reason})",
            "give this account the right to list the folder and to read its objects",
            address,
        ) from error


def _parts(children: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The parts of a log among a folder's files, by name. EvidenceMissing if there are none."""
    if not (parts := parts_of(list(children))):
        raise EvidenceMissing("the folder holds no parts of an event log", _HINT)
    return [(part, children[part]) for part in parts]


def _parts_missing(names: Sequence[str]) -> str | None:
    """What a rolled log lacks: missing parts, or jobs that Spark removed by compaction.

    A compacted part replaces those up to its number, without the jobs that had ended.
    """
    numbers = {int(match[1]) for name in names if (match := _ROLLED.fullmatch(name))}
    if compacted := [name for name in names if name.endswith(".compact")]:
        return f"Spark removed jobs that had ended from {compacted[-1]} (compaction)"
    missing = sorted({*range(1, max(numbers, default=0))} - numbers)
    return f"the log lacks its parts {', '.join(map(str, missing[:3]))}" if missing else None
