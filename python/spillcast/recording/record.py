"""Recording a command or a running process: the core's recorder, with what only Python knows.

That is secrets to strike out of a command's arguments, samples and documents of an engine, the
machine's calibration, and a live view of the rows.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from spillcast import _core
from spillcast.document import as_text
from spillcast.errors import NothingRecorded
from spillcast.recording.calibration import CaptureCost, cost_of, kept_calibration, kept_cost
from spillcast.recording.capture import SOURCES, RecordOptions
from spillcast.recording.meta import Meta
from spillcast.recording.observed import (
    Missed,
    Target,
    Worker,
    command_of,
    held_command,
    memory_groups,
    preload_value,
    resident_bytes,
)
from spillcast.recording.recording import Recording
from spillcast.recording.writer import Clock, RecordingOutput
from spillcast.redaction import struck_arguments
from spillcast.units import format_bytes, format_count
from spillcast.workspace import is_new

if TYPE_CHECKING:
    from spillcast.recording.live import Running
    from spillcast.tables import Table

TICK_S = 0.25
#: What a recorder takes with all that it starts, however long it records; and where it samples a
#: server or has a live view, for which it loads numpy.
RECORDER_BYTES, WITH_NUMPY_BYTES = 80 * 10**6, 100 * 10**6


@dataclass(frozen=True)
class RunSoFar:
    """A run under way, by who knows it better than its recorder: its start (CLOCK_MONOTONIC) and
    fields of ``Meta``, as of ``Recorder.finish``.
    """

    started_ns: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    #: What goes with it, by name.
    documents: Mapping[str, object] = field(default_factory=dict)

    def extrapolated(self, meta: Meta, share: float) -> Meta:
        """The recorder's account of it, whose counts cover a share of the time."""
        # What others caused is known of whole windows only.
        delay_s = share * meta.capture.run_queue_delay_s
        capture = replace(meta.capture, run_queue_delay_s=delay_s, run_queue_others_s=None)
        cpu_s = None if meta.cpu_s is None else share * meta.cpu_s
        return replace(meta, **{"capture": capture, "cpu_s": cpu_s, **self.meta})


class Sink(Protocol):
    """Receives the rows of a recording in progress besides its folder."""

    def add_waits(self, rows: Any) -> None:
        """Take raw waits, as a capture hands them over."""

    def add_seconds(self, rows: Any) -> None:
        """Take per-second rows, as a capture hands them over."""

    def add_samples(self, batch: "Table") -> None:
        """Take samples."""

    def add_document(self, name: str, document: object) -> None:
        """Take a JSON document."""

    def finish(self, meta: Meta, clock: Clock) -> Recording:
        """Complete it, with times by ``clock``; ``meta`` does not yet list the kept waits."""

    def discard(self) -> None:
        """Leave nothing."""


class Recorder:
    """One recording under way: ``prepare``, ``observe``, ``poll`` until done, ``finish``.

    ``record_command`` and ``record_pid`` begin one. Without an ``output`` nothing is written;
    ``running`` has what there is so far. With a ``sink`` rows go there alone,
    which makes recordings of them by ``account``. InputError where a directory cannot be used.
    """

    def __init__(
        self,
        output: Path | None,
        options: RecordOptions | None = None,
        running: "Running | None" = None,
        sink: Sink | None = None,
    ) -> None:
        self.output, self.options = output, options or RecordOptions()
        if output is None and sink is None and running is None:
            from spillcast.recording.live import Running

            running = Running()
        self.running = running
        self._core = _core.Recorder(output, self.options.anywhere())
        self._sinks = [sink for sink in (running, sink) if sink is not None]
        self._written: RecordingOutput | None = None
        self._calls: Sequence[str] | None = None
        self._command: list[str] | None = None
        self._samples = self._whole_s = 0
        self._has_ended = self._stopped = False
        #: What the capture costs those it observes; None while that is not known.
        self.cost: CaptureCost | None = None
        #: Where the run is not the observed process's life: what is known of it by now.
        self.run_so_far: Callable[[], RunSoFar] | None = None

    def prepare(
        self, pid: int | None = None, label: str | None = None, calls: Sequence[str] | None = None
    ) -> dict[str, str]:
        """Choose the capture; returns what the environment of a command must hold for it.

        ``pid`` is a process that runs already, so that it cannot be given an environment; ``label``
        names it in errors. ``calls`` are the system calls by which its engine does file I/O (None:
        all); each costs a little. InputError says what is refused.
        """
        self._calls = calls
        return self._core.prepare(pid, label, calls, preload_value())

    @property
    def method(self) -> str:
        """The name of the capture source; none where there is no capture."""
        return self._core.method

    @property
    def attaches(self) -> bool:
        """Whether the capture can observe further processes."""
        return self.captures and SOURCES[self.method].attaches

    @property
    def captures(self) -> bool:
        """Whether there is a capture, and not samples alone."""
        return self.method != "none"

    def observe(
        self,
        target: Target,
        command: Sequence[str] | None = None,
        *,
        temp_dirs: Sequence[Path] = (),
        only_calls: bool = False,
        watch_memory: bool = True,
    ) -> dict[str, str] | None:
        """Begin. Nothing of the target's work before this call is in the recording.

        None, or nothing has begun: a held command has to be started again with the environment
        that is returned, for the next source.

        ``temp_dirs`` is where the engine has its temp files; the user's own word goes before.
        ``only_calls`` is of an engine that may use io_uring, but never for temp files. Without
        ``watch_memory`` the memory of the processes is not read, which costs a look at each.
        InputError says what is refused.
        """
        again = self._core.observe(
            target.pid,
            temp_dirs,
            only_calls=only_calls,
            many_processes=not watch_memory,
            was_running=is_running_process(target),
        )
        if again is not None:
            return again
        try:
            self.cost = kept_cost(self.method, self._calls)
            given = command_of(target.pid) if command is None else struck_arguments(command)
            self._command = given
            self._begin(target)
        except BaseException:
            self.abandon()
            raise
        return None

    def observe_from_afar(self, target: Target, because: str) -> None:
        """Begin without a capture for the given reason: the recording holds samples alone."""
        self._core.observe_nothing(target.pid, because)
        self.cost = self._command = None
        self._begin(target)

    def _begin(self, target: Target) -> None:
        self.target = target
        if self.output is not None:
            self._written = RecordingOutput(self._core)

    def know_before(self) -> None:
        """Keep what the target, which runs already, had done until now."""
        self._core.know_before()

    def new_notices(self) -> list[str]:
        """What a user needs to know as the recording starts, a line each; of the source once."""
        if not self.captures:
            return []
        notice = self._core.notice
        new_notice = notice if notice is not None and is_new(notice) else None
        lines = new_notice, sampled_threads(self.status()["sampled"]), too_little_for_us()
        return [line for line in lines if line is not None]

    def attach(self, pid: int) -> None:
        """Observe one more running process; once is enough. OSError says why not."""
        self._core.attach(pid)

    def attach_children(self, parent: int, title: str) -> None:
        """Observe what ``parent`` starts from now on and calls by ``title``. OSError says why not.

        At once, which is before a child has done anything, where ``attach`` waits to be called.
        """
        self._core.attach_children(parent, title)

    def joined(self, started_ns: int | None = None) -> list[Worker]:
        """The processes that were attached since ``observe``; ``started_ns`` as of ``finish``."""
        zero_ns = self.origin_ns + Clock.of(self.origin_ns, started_ns).zero_ns
        return [
            Worker(
                pid,
                None if start_ns is None else (start_ns - zero_ns) / 1e9,
                (attached_ns - zero_ns) / 1e9,
                before and Missed(*before),
                temp_files,
            )
            for pid, start_ns, attached_ns, before, temp_files in self._core.joined()
        ]

    def poll(self, timeout_s: float = TICK_S) -> bool:
        """Sleep a moment, write new rows; True when the observed process has ended."""
        self._has_ended = self.target.wait(timeout_s)
        self._note_whole_seconds()
        is_over, waits, seconds = self._core.tick(self._has_ended)
        self._pass_on(waits, seconds)
        return is_over

    def collect(self) -> None:
        """Write the rows since the last call."""
        self._note_whole_seconds()
        self._pass_on(*self._core.collect())

    def _note_whole_seconds(self) -> None:
        # Seconds are handed over when they have been over for two more.
        self._whole_s = (time.monotonic_ns() - self.origin_ns) // 1_000_000_000 - 2

    def _pass_on(self, waits: "_core.Waits", seconds: "_core.Seconds") -> None:
        for sink in self._sinks:
            sink.add_waits(waits)
            sink.add_seconds(seconds)

    @property
    def _all_sinks(self) -> "list[RecordingOutput | Sink]":
        return [*([] if self._written is None else [self._written]), *self._sinks]

    def add_samples(self, batch: "Table") -> None:
        """Keep samples, whose times count from ``origin_ns``; see recording/schema.py."""
        self._samples += batch.num_rows
        for sink in self._all_sinks:
            sink.add_samples(batch)

    def add_document(self, name: str, document: object) -> None:
        """Keep a JSON document in the recording's folder."""
        for sink in self._all_sinks:
            sink.add_document(name, document)

    @property
    def origin_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording."""
        return self._core.origin_ns

    def status(self) -> dict[str, Any]:
        """Counts and costs so far."""
        return self._core.status()

    def saw_temp_io(self) -> bool:
        """End the capture; whether it saw any temp I/O, or cannot tell why it did not."""
        self._core.end_capture()
        status = self.status()
        unseen = status["io_uring"] or status["mapped"]
        return bool(status["temp_reads"] + status["temp_writes"] or unseen)

    def finish(
        self,
        *,
        elapsed_s: float | None = None,
        started_ns: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Recording:
        """End the capture, keep the recording.

        ``elapsed_s`` is the wall time of the run and ``started_ns`` its start (CLOCK_MONOTONIC),
        from which all times count, where the caller knows them better than the recorder, as when
        only a part of a process's life was the query; ``extra`` are the fields of ``Meta`` that it
        knows better. InputError when nothing at all was seen of the run.
        """
        if elapsed_s is None:
            elapsed_s = self._core.elapsed_s(self.target.exit_status is not None)
        try:
            known = dict(extra or {})
            ended_by = known.get("ended_by", "end" if self._has_ended else None)
            self.stop(over=ended_by == "end")
            self._check_seen()
            if self.captures:
                # Only now, when it disturbs no observed process.
                self.cost = cost_of(self.method, self._calls)
            meta = replace(self._meta(elapsed_s, started_ns), **known)
            clock = Clock.of(self.origin_ns, started_ns)
            first, *_ = [sink.finish(meta, clock) for sink in self._all_sinks]
            return first
        except BaseException:
            self._discard()
            raise

    def _check_seen(self) -> None:
        """InputError for a run of which nothing was seen."""
        if self._samples:
            return
        if not self.captures:
            raise NothingRecorded("nothing was recorded: no sample was taken while the query ran")
        self._core.check_connected()

    def account(self, elapsed_s: float, started_ns: int) -> Meta:
        """What is known by now of all that is observed, as of a run of a part of it.

        ``started_ns`` is as of ``finish``. What was seen and cost is of all processes and times.
        """
        return replace(self._meta(elapsed_s, started_ns), recorded_s=elapsed_s)

    def stop(self, *, over: bool = False) -> None:
        """End the capture; all that it saw has been taken then. ``over``: so is the run."""
        self._core.end_capture(over=over)
        self.collect()
        self._stopped = True

    def abandon(self) -> None:
        """End the capture and remove everything that was written."""
        self._core.end_capture()
        self._discard()

    def _discard(self) -> None:
        for sink in self._all_sinks:
            sink.discard()
        self._core.discard()

    def so_far(self) -> Recording | None:
        """What there is by now as a recording in memory, up to the last second that is whole.

        Of a recording that has ended all of it. None where there is none yet, or no capture.
        There must be a ``running``.
        """
        if self.running is None or not self.captures:
            return None
        status = self.status()
        until_s = status["elapsed_ns"] / 1e9 if self._stopped else self._whole_s
        run = RunSoFar() if self.run_so_far is None else self.run_so_far()
        clock = Clock.of(self.origin_ns, run.started_ns)
        elapsed_s = until_s - clock.zero_ns / 1e9
        if elapsed_s <= 0 or (elapsed_s < 1 and not self._stopped):
            return None
        meta = self._meta(elapsed_s, run.started_ns)
        meta = run.extrapolated(meta, until_s * 1e9 / max(status["elapsed_ns"], 1))
        before_s = None if self._stopped else self._whole_s
        recording = self.running.recording(meta, clock, before_s=before_s)
        recording.documents.update(run.documents)
        return recording

    def _meta(self, elapsed_s: float, started_ns: int | None) -> Meta:
        """The account of the core; the machine's caches are measured unless it is calibrated."""
        kept = kept_calibration() if self.captures else None
        calibration = None if kept is None else kept.for_recordings
        if self.captures and calibration is None:
            self._core.measure_caches()
        status = self.target.exit_status
        # JSON cannot hold invalid UTF-8.
        command = None if self._command is None else list(map(as_text, self._command))
        text = self._core.account(elapsed_s, started_ns, self.cost, command, status)
        meta = Meta.from_json(text, "the recorder")
        if calibration is None:
            return meta
        return replace(meta, machine=replace(meta.machine, caches=[], calibration=calibration))


def held_and_observed(
    recorder: Recorder,
    arguments: Sequence[str],
    hold: "Callable[[dict[str, str]], _core.Target]",
) -> "_core.Target":
    """A held command under observation; ``hold`` starts it in an environment, once per source."""
    environment = recorder.prepare()
    while True:
        command = hold(dict(os.environ) | environment)
        try:
            again = recorder.observe(command, arguments)
        except BaseException:
            command.abandon()
            raise
        if again is None:
            return command
        command.abandon()
        environment = again


def record_command(
    arguments: Sequence[str],
    output: Path | None,
    options: RecordOptions | None = None,
    running: "Running | None" = None,
) -> tuple[Recorder, "_core.Target"]:
    """Start a command under observation."""
    recorder = Recorder(output, options, running)
    command = held_and_observed(recorder, arguments, partial(held_command, arguments))
    try:
        command.release()
    except BaseException:
        recorder.abandon()
        raise
    return recorder, command


def record_pid(
    pid: int,
    output: Path | None,
    options: RecordOptions | None = None,
    running: "Running | None" = None,
) -> Recorder:
    """Observe a running process and all its threads."""
    recorder = Recorder(output, options, running)
    process = _core.Target.process(pid)
    recorder.prepare(pid)
    recorder.observe(process)
    return recorder


def is_running_process(target: Target) -> bool:
    """Whether a target is a process that was running before it was observed."""
    return isinstance(target, _core.Target) and not target.is_command


def too_little_for_us() -> str | None:
    """A warning if the memory cgroup of this process may end it; None if it is safe."""
    groups, resident = memory_groups(), resident_bytes(os.getpid())
    if not groups or resident is None:
        return None
    group = min(groups, key=lambda each: each.limit_bytes)
    room = group.limit_bytes - group.held_bytes + resident
    need = WITH_NUMPY_BYTES if "numpy" in sys.modules else RECORDER_BYTES
    if room >= need:
        return None
    return (
        f"the memory cgroup has {format_bytes(max(room, 0))} for a recorder, which takes up to "
        f"{format_bytes(need)}: the kernel may kill it; raise the limit, or record from "
        "outside with --pid"
    )


def sampled_threads(sampled: tuple[int, int] | None) -> str | None:
    """How many of how many threads are observed, and the remedy; None if all are."""
    if sampled is None:
        return None
    import resource

    seen, of = sampled
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = f"more need more descriptors than ulimit -n {limit:,} allows"
    return f"{seen:,} of {format_count(of, 'thread')} observed: {room}; raise it, or run as root"


def left_running(recorder: Recorder) -> str | None:
    """A notice that a command left processes behind, and how to record them; None if not."""
    running, target = recorder.status()["running"], recorder.target
    if is_running_process(target) or target.exit_status is None or not running:
        return None
    count = format_count(len(running), "process")
    return f"the command left {count} running, not recorded any more: use --pid {running[0]}"
