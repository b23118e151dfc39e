"""Records a command or a running process with the core's recorder.

Python masks secrets in a command's arguments, adds samples and documents of an engine and the
machine's calibration, and passes rows on to a live view.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast import _core
from spillcast.document import as_text
from spillcast.errors import NothingRecorded
from spillcast.recording import SECOND_NS
from spillcast.recording.calibration import CaptureCost, cost_of, kept_calibration, kept_cost
from spillcast.recording.capture import SOURCES, RecordOptions
from spillcast.recording.meta import Meta
from spillcast.recording.observed import (
    MissedIo,
    RecordingTarget,
    Worker,
    command_of,
    held_command,
    memory_groups,
    preload_value,
    resident_bytes,
)
from spillcast.recording.recording import Recording
from spillcast.recording.writer import RecordingWriter, Sink, TimeShift
from spillcast.redaction import masked_arguments
from spillcast.units import format_bytes, format_count
from spillcast.workspace import is_new

if TYPE_CHECKING:
    from spillcast.recording.live import Running
    from spillcast.tables import Table

TICK_S = 0.25
#: Memory of a recorder and its children for recordings of any length; and the same with numpy,
#: which samples of a server and live views load.
RECORDER_BYTES, WITH_NUMPY_BYTES = 80 * 10**6, 100 * 10**6


@dataclass(frozen=True)
class KnownRun:
    """A run as known to its engine: it may cover only a part of the process's lifetime."""

    #: Its start (CLOCK_MONOTONIC), the zero of all times.
    started_ns: int | None = None
    #: Fields of ``Meta``, such as its wall time ``elapsed_s``.
    fields: Mapping[str, Any] = field(default_factory=dict)
    #: JSON documents of the recording, by name.
    documents: Mapping[str, object] = field(default_factory=dict)

    def extrapolated(self, meta: Meta, share: float) -> Meta:
        """The recorder's account, scaled to this ``share`` of the time that it covers."""
        # The part due to other processes is known only for the whole time.
        delay_s = share * meta.capture.run_queue_delay_s
        capture = replace(meta.capture, run_queue_delay_s=delay_s, run_queue_others_s=None)
        cpu_s = None if meta.cpu_s is None else share * meta.cpu_s
        return replace(meta, **{"capture": capture, "cpu_s": cpu_s, **self.fields})


class Recorder:
    """A recording in progress: ``prepare``, ``observe``, ``poll`` until it is True, ``finish``.

    Rows go to the folder ``output``, to ``running``, which holds them in memory, and to ``sink``,
    which may make several recordings of them; each may be None. ``record_command`` and
    ``record_pid`` begin a recording. InputError if a directory cannot be used.
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
        self._core = _core.Recorder(self.options.with_absolute_paths())
        if output is not None:
            _core.check_output(output, force=self.options.force)
        self._sinks: list[Sink] = [sink for sink in (running, sink) if sink is not None]
        self._calls: Sequence[str] | None = None
        self._command: list[str] | None = None
        self._samples = self._whole_s = 0
        self._has_ended = self._stopped = False
        #: The cost of the capture to the observed threads; None while unknown.
        self.cost: CaptureCost | None = None
        #: Returns the run so far, for ``so_far``.
        self.known_run: Callable[[], KnownRun] = KnownRun

    def prepare(
        self, pid: int | None = None, label: str | None = None, calls: Sequence[str] | None = None
    ) -> dict[str, str]:
        """Choose a capture source; returns the environment variables that it needs in a command.

        ``pid`` is a process that is already running and gets no variables; ``label`` names it in
        errors. ``calls`` are the system calls to observe, by which the engine does file I/O (None:
        all); each adds to the cost. InputError if the requested source cannot be used.
        """
        self._calls = calls
        return self._core.prepare(pid, label, calls, preload_value())

    @property
    def method(self) -> str:
        """The name of the capture source; ``none`` without a capture."""
        return self._core.method

    @property
    def attaches(self) -> bool:
        """Whether the capture can observe further processes."""
        return self.captures and SOURCES[self.method].attaches

    @property
    def captures(self) -> bool:
        """Whether there is a capture, not only samples."""
        return self.method != "none"

    def observe(
        self,
        target: RecordingTarget,
        command: Sequence[str] | None = None,
        *,
        temp_dirs: Sequence[Path] = (),
        only_calls: bool = False,
        watch_memory: bool = True,
    ) -> dict[str, str] | None:
        """Start the capture; it does not see the target's work before this call.

        Returns None; or, if the source failed before anything started, the environment for the next
        source, with which a held command must be started again.

        ``temp_dirs`` are the engine's directories of temp files; the user's options precede them.
        ``only_calls`` is for an engine that may use io_uring, but never for temp files. Without
        ``watch_memory`` no memory is polled. InputError if the target cannot be observed.
        """
        next_environment = self._core.observe(
            target.pid,
            temp_dirs,
            only_calls=only_calls,
            many_processes=not watch_memory,
            was_running=is_running_process(target),
        )
        if next_environment is not None:
            return next_environment
        try:
            self._begin(target)
            self.cost = kept_cost(self.method, self._calls)
            shown = command_of(target.pid) if command is None else masked_arguments(command)
            self._command = shown
        except BaseException:
            self.abandon()
            raise
        return None

    def sample_only(self, target: RecordingTarget, because: str) -> None:
        """Start without a capture for the given reason: the recording holds only samples."""
        self._core.observe_nothing(target.pid, because)
        self.cost = self._command = None
        self._begin(target)

    def _begin(self, target: RecordingTarget) -> None:
        self.target = target
        if self.output is not None:
            slices, share, force = self.options.slices, self.options.share, self.options.force
            writer = RecordingWriter(
                self.output, slices, share=share, force=force, recorder=self._core
            )
            self._sinks.insert(0, writer)

    def keep_earlier_work(self) -> None:
        """Keep the counts of the work that a running target has done before this call."""
        self._core.keep_earlier_work()

    def new_notices(self) -> list[str]:
        """Notices for the user as the recording starts; a source's notice is shown only once."""
        if not self.captures:
            return []
        notice = self._core.notice
        new_notice = notice if notice is not None and is_new(notice) else None
        lines = new_notice, sampled_threads(self.status()["sampled"]), memory_warning()
        return [line for line in lines if line is not None]

    def attach(self, pid: int) -> None:
        """Observe one more running process, unless it already is. OSError if that fails."""
        self._core.attach(pid)

    def attach_children(self, parent: int, title: str) -> None:
        """Observe each process that ``parent`` starts from now on with this ``title``.

        Unlike ``attach``, this observes a child from its start. OSError if that fails.
        """
        self._core.attach_children(parent, title)

    def joined(self, started_ns: int | None = None) -> list[Worker]:
        """The processes attached since ``observe`` to a run that began at ``started_ns``."""
        zero_ns = self.origin_ns + TimeShift.of(self.origin_ns, started_ns).zero_ns
        return [
            Worker(
                pid,
                None if start_ns is None else (start_ns - zero_ns) / 1e9,
                (attached_ns - zero_ns) / 1e9,
                before and MissedIo(*before),
                temp_files,
            )
            for pid, start_ns, attached_ns, before, temp_files in self._core.joined()
        ]

    def poll(self, timeout_s: float = TICK_S) -> bool:
        """Wait up to ``timeout_s`` and pass on new rows; True if the observed process has ended."""
        self._has_ended = self.target.wait(timeout_s)
        self._note_whole_seconds()
        is_over, rows = self._core.tick(self._has_ended)
        self._pass_on(rows)
        return is_over

    def collect(self) -> None:
        """Pass on the rows since the last call."""
        self._note_whole_seconds()
        self._pass_on(self._core.collect())

    def _note_whole_seconds(self) -> None:
        # The core returns the rows of a second two seconds after its end.
        self._whole_s = (time.monotonic_ns() - self.origin_ns) // SECOND_NS - 2

    def _pass_on(self, rows: "_core.Rows") -> None:
        for sink in self._sinks:
            sink.add_rows(rows)

    def add_samples(self, batch: "Table") -> None:
        """Keep rows of SAMPLES (recording/schema.py), whose times count from ``origin_ns``."""
        self._samples += batch.num_rows
        for sink in self._sinks:
            sink.add_samples(batch)

    def add_document(self, name: str, document: object) -> None:
        """Keep a JSON document in the recording's folder."""
        for sink in self._sinks:
            sink.add_document(name, document)

    @property
    def origin_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording."""
        return self._core.origin_ns

    def status(self) -> dict[str, Any]:
        """Counts and costs so far."""
        return self._core.status()

    def saw_temp_io(self) -> bool:
        """End the capture; returns whether it saw temp I/O or could not have seen all of it."""
        self._core.end_capture()
        status = self.status()
        blind = status["io_uring"] or status["mapped"]
        return bool(status["temp_reads"] + status["temp_writes"] or blind)

    def finish(self, run: KnownRun | None = None) -> Recording:
        """End the capture and keep the recording. InputError if nothing of the run was observed."""
        run = run or KnownRun()
        elapsed_s = run.fields.get("elapsed_s")
        if elapsed_s is None:
            elapsed_s = self._core.elapsed_s(self.target.exit_status is not None)
        try:
            for name, document in run.documents.items():
                self.add_document(name, document)
            ended_by = run.fields.get("ended_by", "end" if self._has_ended else None)
            self.stop(over=ended_by == "end")
            self._check_seen()
            if self.captures:
                # An earlier measurement would have disturbed the observed processes.
                self.cost = cost_of(self.method, self._calls)
            meta = replace(self._meta(elapsed_s, run.started_ns), **run.fields)
            clock = TimeShift.of(self.origin_ns, run.started_ns)
            recordings = [sink.finish(meta, clock) for sink in self._sinks]
            return recordings[0]
        except BaseException:
            self.abandon()
            raise

    def _check_seen(self) -> None:
        """InputError if nothing of the run was observed."""
        if self._samples:
            return
        if not self.captures:
            raise NothingRecorded("nothing was recorded: no sample was taken while the query ran")
        self._core.check_connected()

    def account(self, elapsed_s: float, started_ns: int) -> Meta:
        """meta.json for one of several runs in a capture, which began at ``started_ns``.

        Its counts and costs cover all observed processes since the capture started.
        """
        return replace(self._meta(elapsed_s, started_ns), recorded_s=elapsed_s)

    def stop(self, *, over: bool = False) -> None:
        """End the capture and pass on its last rows; ``over`` if the run has ended, too."""
        self._core.end_capture(over=over)
        self.collect()
        self._stopped = True

    def abandon(self) -> None:
        """End the capture and remove everything that was written."""
        self._core.end_capture()
        for sink in self._sinks:
            sink.discard()

    def so_far(self) -> Recording | None:
        """A recording in memory up to the last whole second, or of everything after ``stop``.

        None before the first second, and without a capture or a ``running``.
        """
        if self.running is None or not self.captures:
            return None
        status = self.status()
        until_s = status["elapsed_ns"] / 1e9 if self._stopped else self._whole_s
        run = self.known_run()
        clock = TimeShift.of(self.origin_ns, run.started_ns)
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
        """meta.json by the core. The machine's caches are measured unless it is calibrated."""
        kept = kept_calibration() if self.captures else None
        calibration = None if kept is None else kept.for_recordings
        if self.captures and calibration is None:
            self._core.measure_caches()
        status = self.target.exit_status
        # JSON cannot hold invalid UTF-8.
        command = None if self._command is None else list(map(as_text, self._command))
        text = self._core.account(elapsed_s, started_ns, self.cost, command, status)
        meta = Meta.from_json(text)
        if calibration is None:
            return meta
        return replace(meta, machine=replace(meta.machine, caches=[], calibration=calibration))


def held_and_observed(
    recorder: Recorder,
    arguments: Sequence[str],
    hold: "Callable[[dict[str, str]], _core.Target]",
) -> "_core.Target":
    """A held, observed command; ``hold`` starts it in an environment, once per source tried."""
    environment = recorder.prepare()
    while True:
        command = hold(dict(os.environ) | environment)
        try:
            next_environment = recorder.observe(command, arguments)
        except BaseException:
            command.abandon()
            raise
        if next_environment is None:
            return command
        command.abandon()
        environment = next_environment


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


def is_running_process(target: RecordingTarget) -> bool:
    """Whether a target is a process that was running before it was observed."""
    return isinstance(target, _core.Target) and not target.is_command


def memory_warning() -> str | None:
    """A warning if the memory cgroup of this process is too small for a recorder; else None."""
    groups, resident_now_bytes = memory_groups(), resident_bytes(os.getpid())
    if not groups or resident_now_bytes is None:
        return None
    room_bytes = min(limit - held for limit, held in groups) + resident_now_bytes
    need_bytes = WITH_NUMPY_BYTES if "numpy" in sys.modules else RECORDER_BYTES
    if room_bytes >= need_bytes:
        return None
    return (
        f"the memory cgroup has {format_bytes(max(room_bytes, 0))} for a recorder, which takes up "
        f"to {format_bytes(need_bytes)}: the kernel may kill it; raise the limit, or record from "
        "outside with --pid"
    )


def sampled_threads(sampled: tuple[int, int] | None) -> str | None:
    """A notice that only ``(observed, all)`` threads are observed, with the remedy; None if all."""
    if sampled is None:
        return None
    import resource

    observed, threads = sampled
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = f"{observed:,} of {format_count(threads, 'thread')} observed"
    reason = f"more need more descriptors than ulimit -n {limit:,} allows"
    return f"{seen}: {reason}; raise it, or run as root"


def left_running(recorder: Recorder) -> str | None:
    """A notice that a command left processes behind, and the remedy; None if it left none."""
    running, target = recorder.status()["running"], recorder.target
    if is_running_process(target) or target.exit_status is None or not running:
        return None
    count = format_count(len(running), "process")
    return f"the command left {count} running, not recorded any more: use --pid {running[0]}"
