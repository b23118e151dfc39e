"""Recording a live process: capture, write, and say what it cost."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from spillcast import _core
from spillcast.errors import CaptureUnavailable, PathMissing
from spillcast.recording import machine
from spillcast.recording.absent import AbsentCapture
from spillcast.recording.calibration import kept_calibration
from spillcast.recording.capture_cost import CaptureCost, cost_of, kept_cost
from spillcast.recording.captured import (
    Joined,
    ToolCost,
    captured,
    joined,
    nothing_seen,
    sampled_threads,
    uncaptured,
)
from spillcast.recording.choice import Choice
from spillcast.recording.clock import FROM_ITS_START, Clock
from spillcast.recording.folder import check_output
from spillcast.recording.memory import (
    cgroup_limit_bytes,
    high_water_bytes,
    too_little_for_us,
)
from spillcast.recording.meta import CpuCache, EndedBy, Machine, Memory, Meta, ObservedEngine
from spillcast.recording.observed import CpuLimits, DoneBefore, SizedFile, done_before, open_files
from spillcast.recording.options import RecordOptions
from spillcast.recording.recording import Recording
from spillcast.recording.source import Capture, Source
from spillcast.recording.target import Process, Target
from spillcast.recording.writer import RecordingWriter
from spillcast.redaction import struck_arguments

if TYPE_CHECKING:
    import pyarrow as pa

    from spillcast.recording.running import Running


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
        """What a recorder says of it, whose counts are told of a share of the time."""
        # What others were the cause of is told of whole windows only.
        delay_s = share * meta.capture.run_queue_delay_s
        capture = replace(meta.capture, run_queue_delay_s=delay_s, run_queue_others_s=None)
        cpu_s = None if meta.cpu_s is None else share * meta.cpu_s
        return replace(meta, **{"capture": capture, "cpu_s": cpu_s, **self.meta})


#: Of a process that is the run itself.
ITSELF = RunSoFar()


class Sink(Protocol):
    """Receives the rows of a recording in progress: a folder, or memory."""

    def add_waits(self, rows: Any) -> None:
        """Take raw waits, as a capture hands them over."""

    def add_seconds(self, rows: Any) -> None:
        """Take per-second rows, as a capture hands them over."""

    def add_samples(self, batch: "pa.RecordBatch") -> None:
        """Take samples."""

    def add_document(self, name: str, document: object) -> None:
        """Take a JSON document."""

    def finish(self, meta: Meta, clock: Clock) -> Recording:
        """Complete it, with times by ``clock``; ``meta`` does not yet list the kept waits."""

    def discard(self) -> None:
        """Leave nothing."""


TICK_S = 0.25


class Recorder:
    """One recording under way: ``prepare``, ``observe``, ``poll`` until done, ``finish``.

    ``spillcast.recording.begin`` has the usual ways to begin one. Without an ``output``
    nothing is written; ``running`` can be asked meanwhile what there is so far. With a ``sink``
    rows go there alone, who makes recordings of them by what ``account`` says.
    """

    def __init__(
        self,
        output: Path | None,
        options: RecordOptions | None = None,
        running: "Running | None" = None,
        sink: Sink | None = None,
    ) -> None:
        self.output = output
        if output is None and sink is None and running is None:
            from spillcast.recording.running import Running

            running = Running()
        self.running = running
        self.options = options or RecordOptions()
        self._absent_because: str | None = None
        self._source: Source | None = None
        self._capture: Capture = AbsentCapture()
        self._given, self._sinks = sink, list[Sink]()
        self._samples = self._whole_s = 0
        self._only_calls = False
        self._stopped = False
        self._ended_by: EndedBy = "interrupt"
        self._before: DoneBefore | None = None
        self._temp_before = list[SizedFile]()
        self._cpu_before_s = time.process_time()
        #: What the capture costs those it observes; None while that is not known.
        self.cost: CaptureCost | None = None
        #: Where the run is not the observed process's life: what is known of it by now.
        self.run_so_far: Callable[[], RunSoFar] | None = None

    def check(self) -> None:
        """InputError where a directory that is asked for cannot be used, or nothing is observed."""
        if not Path("/proc/self").exists():
            hint = "mount it: mount -t proc proc /proc"
            raise CaptureUnavailable("there is no /proc, so no process can be observed", hint)
        for path in self.options.temp_dirs:
            if not path.is_dir():
                raise PathMissing(f"--temp {path}: there is no such directory")
        if self.output is not None:
            check_output(self.output, force=self.options.force)

    def prepare(
        self, pid: int | None = None, label: str | None = None, calls: Sequence[str] | None = None
    ) -> dict[str, str]:
        """Choose the capture; returns what the environment of a command must hold for it.

        ``pid`` is a process that runs already, so that it cannot be given an environment; ``label``
        names it in errors. ``calls`` are the system calls by which its engine does file I/O (None:
        all); each costs a little. InputError says what is refused.
        """
        self.check()
        self._choice = Choice(self.options.capture, pid, label, calls)
        self._source = self._choice.source
        return self._source.environment()

    @property
    def method(self) -> str:
        """The name of the capture source; none where there is no capture."""
        return "none" if self._source is None else self._source.name

    @property
    def attaches(self) -> bool:
        """Whether the capture can observe further processes."""
        return self._source is not None and self._source.attaches

    def observe(
        self,
        target: Target,
        command: Sequence[str] | None = None,
        *,
        temp_dirs: Sequence[Path] = (),
        only_calls: bool = False,
        watch_memory: bool = True,
    ) -> None:
        """Begin. Nothing of the target's work before this call is in the recording.

        ``temp_dirs`` is where the engine has its temp files; the user's own word goes before.
        ``only_calls`` is of an engine that may use io_uring, but never for temp files. Without
        ``watch_memory`` nobody looks what the processes hold, a look at each. InputError
        says what is refused; StartAgain that the command has to be started again.
        """
        self._only_calls = only_calls
        dirs = [str(path.resolve()) for path in self.options.temp_dirs or temp_dirs]
        self._capture = self._choice.begin(target.pid, dirs)
        try:
            self._source = self._choice.source
            self.cost = kept_cost(self._source)
            given = machine.command_of(target.pid) if command is None else struck_arguments(command)
            self._command = given
            self._machine = machine.describe_machine()
            if isinstance(target, Process):
                self._before = done_before(target.pid)
            # Of a command, held before it does anything, there is no temp file.
            self._temp_before = open_files(target.pid)
            self._memory = _core.PeakMemory(target.pid) if watch_memory else None
            self._memory_limit_bytes = cgroup_limit_bytes(target.pid)
            self._cpu: _core.CpuWatch | None = _core.CpuWatch(target.pid)
            self._sockets = _core.SocketWatch(target.pid) if watch_memory else None
            self._begin(target)
        except BaseException:
            self.abandon()
            raise

    def know_before(self) -> None:
        """Keep what the target, which runs already, had done until now."""
        self._before = done_before(self.target.pid)

    def new_notices(self) -> list[str]:
        """What a user needs to know as the recording starts, a line each; of the source once."""
        if self._source is None:
            return []
        sampled = sampled_threads(self.status()["sampled"])
        lines = self._choice.new_notice(), sampled, too_little_for_us()
        return [line for line in lines if line is not None]

    def observe_from_afar(self, target: Target, because: str) -> None:
        """Begin without a capture for the given reason: the recording holds samples alone."""
        self._source, self._absent_because, self.cost = None, because, None
        self._capture = AbsentCapture()
        self._command, self._machine = None, Machine()
        self._memory = self._memory_limit_bytes = self._cpu = self._sockets = None
        self._begin(target)

    def attach(self, pid: int) -> None:
        """Observe one more running process; once is enough. OSError says why not."""
        self._capture.attach(pid)

    def attach_children(self, parent: int, title: str) -> None:
        """Observe what ``parent`` starts from now on and calls by ``title``. OSError says why not.

        At once, which is before a child has done anything, where ``attach`` waits to be called.
        """
        self._capture.attach_children(parent, title)

    def joined(self, started_ns: int | None = None) -> list[Joined]:
        """The processes that were attached since ``observe``; ``started_ns`` as of ``finish``."""
        clock = Clock.of(self.origin_ns, started_ns)
        return joined(self._capture, self.origin_ns + clock.zero_ns)

    def _begin(self, target: Target) -> None:
        self.target = target
        if self.output is not None:
            options = self.options
            self._sinks.append(
                RecordingWriter(
                    self.output, options.slices, share=options.share, force=options.force
                )
            )
        self._sinks += [sink for sink in (self.running, self._given) if sink is not None]
        self._started_at = datetime.now(UTC)
        self._started = time.monotonic()

    def poll(self, timeout_s: float = TICK_S) -> bool:
        """Sleep a moment, write new rows; True when the observed process has ended."""
        ended = self.target.wait(timeout_s)
        self._elapsed_s = time.monotonic() - self._started
        self.collect()
        limit_s = self.options.duration_s
        over = limit_s is not None and self._elapsed_s >= limit_s
        if ended or over:
            self._ended_by = "end" if ended else "duration"
        return ended or over

    def collect(self) -> None:
        """Write the rows since the last call."""
        # Seconds are handed over when they have been over for two more.
        self._whole_s = (time.monotonic_ns() - self.origin_ns) // 1_000_000_000 - 2
        if self._memory is not None:
            self._memory.add(*(process.pid for process in self.joined()))
            self._memory.look()
        for watch in (self._cpu, self._sockets):
            if watch is not None:
                watch.look()
        waits, seconds = self._capture.take()
        for sink in self._sinks:
            sink.add_waits(waits)
            sink.add_seconds(seconds)

    def add_samples(self, batch: "pa.RecordBatch") -> None:
        """Keep samples, whose times count from ``origin_ns``; see recording/schema.py."""
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
        return self._capture.origin_ns

    def status(self) -> dict[str, Any]:
        """Counts and costs so far."""
        return self._capture.status()

    def saw_temp_io(self) -> bool:
        """End the capture; whether it saw any temp I/O, or cannot tell why it did not."""
        self._capture.stop()
        status = self._capture.status()
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
        wall_s = time.monotonic() - self._started
        if self.target.exit_status is not None:
            wall_s = self._elapsed_s
        try:
            known = {"ended_by": self._ended_by, **(extra or {})}
            self.stop(over=known["ended_by"] == "end")
            status = self._capture.status()
            problem = nothing_seen(status, self.method, samples=self._samples)
            if problem is not None:
                raise problem
            tool = self._tool_cost()
            if self._source is not None:
                # Only now, when nobody that was observed is disturbed by it.
                self.cost = cost_of(self._source)
                tool = replace(tool, cost=self.cost)
            clock = Clock.of(self.origin_ns, started_ns)
            meta = self._meta(status, wall_s if elapsed_s is None else elapsed_s, tool, clock)
            meta = replace(meta, **known)
            first, *_ = [sink.finish(meta, clock) for sink in self._sinks]
            return first
        except BaseException:
            self._discard()
            raise

    def account(self, elapsed_s: float, started_ns: int) -> Meta:
        """What is known by now of all that is observed, as of a run of a part of it.

        ``started_ns`` is as of ``finish``. What was seen and cost is of all processes and times.
        """
        clock = Clock.of(self.origin_ns, started_ns)
        return replace(
            self._meta(self.status(), elapsed_s, self._tool_cost(), clock), recorded_s=elapsed_s
        )

    def stop(self, *, over: bool = False) -> None:
        """End the capture; all that it saw has been taken then. ``over``: so is the run."""
        self._capture.stop(over=over)
        self.collect()
        self._stopped = True

    def abandon(self) -> None:
        """End the capture and remove everything that was written."""
        self._capture.stop()
        self._discard()

    def _discard(self) -> None:
        for sink in self._sinks:
            sink.discard()

    def so_far(self) -> Recording | None:
        """What there is by now as a recording in memory, up to the last second that is whole.

        Of a recording that has ended all of it. None where there is none yet, or no capture.
        ``running`` must have been asked for.
        """
        if self.running is None or self._absent_because is not None:
            return None
        status = self.status()
        until_s = status["elapsed_ns"] / 1e9 if self._stopped else self._whole_s
        run = ITSELF if self.run_so_far is None else self.run_so_far()
        clock = Clock.of(self.origin_ns, run.started_ns)
        elapsed_s = until_s - clock.zero_ns / 1e9
        if elapsed_s <= 0 or (elapsed_s < 1 and not self._stopped):
            return None
        meta = replace(
            self._meta(status, elapsed_s, self._tool_cost(), clock), ended_by=self._ended_by
        )
        meta = run.extrapolated(meta, until_s * 1e9 / max(status["elapsed_ns"], 1))
        before_s = None if self._stopped else self._whole_s
        recording = self.running.recording(meta, clock, before_s=before_s)
        recording.documents.update(run.documents)
        return recording

    @cached_property
    def _about(self) -> Machine:
        """The machine; its caches measured once, which takes 0.5 s, unless real work told more."""
        kept = kept_calibration()
        known = None if kept is None else kept.for_recordings
        caches = [CpuCache(*cache) for cache in _core.cold_caches()] if known is None else []
        return replace(self._machine, caches=caches, calibration=known)

    def _tool_cost(self) -> ToolCost:
        cpu_s = time.process_time() - self._cpu_before_s
        return ToolCost(cpu_s, high_water_bytes(os.getpid()), self.cost)

    def _meta(
        self,
        status: Mapping[str, Any],
        elapsed_s: float,
        tool: ToolCost,
        clock: Clock = FROM_ITS_START,
    ) -> Meta:
        if self._absent_because is None:
            seen = captured(status, self.method, tool, only_calls=self._only_calls)
            about = self._about
        else:
            seen, about = uncaptured(self._absent_because), self._machine
        status_of = {"exit_status": self.target.exit_status}
        memory = self._memory
        peak_bytes = None if memory is None else memory.peak_bytes
        held_bytes = None if memory is None else memory.group_held_bytes
        zero_at = self._started_at + timedelta(microseconds=clock.zero_ns // 1000)
        return Meta(
            spillcast=_core.__version__,
            started_at=zero_at.isoformat(timespec="milliseconds"),
            elapsed_s=elapsed_s,
            recorded_s=(status["elapsed_ns"] - clock.zero_ns) / 1e9,
            clock="CLOCK_MONOTONIC",
            before=self._before,
            temp_before=self._temp_before,
            engine=ObservedEngine(
                "process", None, None, self.target.pid, self._command, settings=status_of
            ),
            machine=about,
            memory=Memory(self._memory_limit_bytes, peak_bytes, held_bytes),
            server_connection=None if self._sockets is None else self._sockets.connected,
            cpu_limits=CpuLimits(*(() if self._cpu is None else self._cpu.limits)),
            **seen,
            asked=self.options.anywhere(),
        )
