"""Records running Python code: ``with spillcast.record() as run:``, and ``%%spillcast``."""

import json
import os
import select
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spillcast.errors import (
    CaptureUnavailable,
    NothingRecorded,
    PermissionDenied,
    SpillcastError,
    kinds,
)
from spillcast.public import checked
from spillcast.text import several
from spillcast.units import format_count, format_duration
from spillcast.workspace import workspace

if TYPE_CHECKING:
    from spillcast.forecast import Forecast
    from spillcast.forecast.verdict import Forecasts
    from spillcast.lab.io_size import IoSizeSweep
    from spillcast.recording import Recording
    from spillcast.storage import Storage

_MAGIC = "write for example %%spillcast /mnt/nvme latency:150us"
_REFUSED = "or record a script: spillcast record -o run.spill -- python script.py"
#: Starts the recorder and ends, because a child of this process would be observed, too.
_STARTER = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
_OBSERVER = "import sys; from spillcast.interactive import observe; observe(*sys.argv[1:])"


class Run:
    """The recording of a ``with`` block, available once the block has ended."""

    def __init__(
        self,
        output: str | Path | None = None,
        *,
        temp: str | Path | Sequence[str | Path] = (),
        force: bool = False,
    ) -> None:
        #: The working directory of the recorder: a workspace is kept until it has ended.
        self._workspace: Path | None = None
        if output is None:
            stack = ExitStack()
            self._workspace = stack.enter_context(workspace(private=True))
            output = self._workspace / "run.spill"
            weakref.finalize(self, stack.close)
        # The block may change the working directory.
        self.output = Path(output).absolute()
        self._temp = [os.path.abspath(place) for place in several(temp)]
        self._force = force
        self._observer: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start the recording. InputError with a remedy if no source can observe the process."""
        force = "force" if self._force else ""
        python = [sys.executable, "-P", "-c"]
        observer = [*python, _OBSERVER, str(os.getpid()), str(self.output), force]
        self._observer = subprocess.Popen(
            [*python, _STARTER, *observer, *self._temp],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._workspace,
        )
        assert self._observer.stdout is not None
        try:
            self._observer.wait()
            _check(self._observer.stdout.readline())
        except BaseException:
            with self._observer:
                self._observer = None
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the recording, and wait until it is written."""
        observer, self._observer = self._observer, None
        assert observer is not None
        with observer:
            assert observer.stdin is not None
            assert observer.stdout is not None
            # A line ends the recording: a child forked in the block may keep the pipe open.
            with suppress(BrokenPipeError):
                os.write(observer.stdin.fileno(), b"\n")
            text = observer.stdout.readline()
        if kind is None:
            _check(text)

    def __repr__(self) -> str:
        """The elapsed time of the block, and its temp I/O."""
        if not self.output.exists():
            return f"<spillcast run, {self.output}: not recorded yet>"
        meta = self.recording.meta
        did = format_count(meta.temp.operations, "temp operation")
        return f"<spillcast run, {self.output}: {format_duration(meta.elapsed_s)}, {did}>"

    @property
    def recording(self) -> "Recording":
        """The recording of the block."""
        from spillcast.recording import Recording

        if not self.output.exists():
            raise NothingRecorded("nothing is recorded yet", "use the result after its with block")
        return Recording.open(self.output)

    def forecast(self, target: Any, **options: Any) -> "Forecast | Forecasts":
        """Forecast the recording of the entire block, like ``spillcast.forecast``.

        ``target`` and ``options`` are those of ``spillcast.forecast``; a list of targets gives
        ``Forecasts``. Refusal if nothing spilled.
        """
        from importlib import import_module

        options.setdefault("elapsed_s", self.recording.elapsed_s)
        ask: Any = import_module("spillcast.forecast")
        forecast: Forecast | Forecasts = ask(str(self.output), target, **options)
        return forecast

    @checked
    def probe(self, directory: str | Path) -> "Storage":
        """Measure the storage of a directory with the recorded I/O.

        InputError for a directory that is not writable or has too little space.
        """
        from spillcast.storage.probe import probe

        return probe(Path(directory), self.recording)

    def sweep(self, storage: "Storage | str | Path", **options: Any) -> "IoSizeSweep":
        """Issue the recorded I/O in each size, like ``spillcast sweep io-size STORAGE --like``.

        ``options`` are ``min_sizes`` and ``max_sizes`` for ``--min`` and ``--max`` (such as
        ``48K..1M`` or ``48K,240K``), ``block``, ``memory`` and ``budget``. InputError for
        impossible sizes.
        """
        from spillcast.lab.io_size import sweep

        result: IoSizeSweep = sweep(storage, self.recording, **options)
        return result

    @checked
    def report(
        self, output: str | Path, targets: str | Path | Sequence[Any] = (), *, redact: bool = False
    ) -> Path:
        """Write the page of ``spillcast report`` for the recording, with forecasts for targets.

        Returns its path. With ``redact``, names, paths and statements are removed. InputError if
        the recording cannot be read; needs the extra ``spillcast[report]``.
        """
        from spillcast.evidence.open import find_evidence
        from spillcast.report.html.evidence import add_runs
        from spillcast.report.html.inputs import Inputs
        from spillcast.report.html.write import write_report

        page = Inputs()
        add_runs(page, find_evidence([self.output]), lenient=False)
        for target in several(targets):
            forecast: Any = self.forecast(target)
            page.add_document(forecast.target, forecast.to_json())
        write_report(page, Path(output), redact=redact)
        return Path(output)


def observe(pid: str, output: str, force: str, *temp: str) -> None:
    """Record a process until stdin has a line or ends; print a line of JSON at start and end."""
    from spillcast.recording.capture import RecordOptions
    from spillcast.recording.record import KnownRun, record_pid

    try:
        options = RecordOptions(tuple(map(Path, temp)), force=bool(force))
        recorder = record_pid(int(pid), Path(output), options)
        _write_line({})
        while not recorder.poll() and not select.select([sys.stdin], [], [], 0)[0]:
            pass
        # The block is a separate run, without the earlier work of the process.
        recorder.finish(KnownRun(fields={"ended_by": "end", "before": None}))
        _write_line({})
    except SpillcastError as error:
        _write_line(error.to_json())


def _write_line(document: Mapping[str, Any]) -> None:
    """Print a line of JSON; an interrupt at the start of the block may have ended its reader."""
    with suppress(BrokenPipeError):
        os.write(1, f"{json.dumps(document)}\n".encode())


def _check(text: str) -> None:
    """Raise the error that a recorder reports; CaptureUnavailable if it ended without one."""
    if not text:
        raise CaptureUnavailable("the recorder ended by itself", _REFUSED)
    if answer := json.loads(text):
        kind = {kind.code: kind for kind in kinds()}[answer["code"]]
        hint = (answer["hint"] or "").replace("--force", "force=True").replace(" with -o", "")
        if kind in (CaptureUnavailable, PermissionDenied):
            hint = f"{hint} {_REFUSED}".strip()
        raise kind(answer["message"], hint or None, answer["where"])


@checked
def record(
    output: str | Path | None = None,
    *,
    temp: str | Path | Sequence[str | Path] = (),
    force: bool = False,
) -> Run:
    """Record the temp I/O of this process in a ``with`` block; ``temp`` as ``--temp``.

    Without ``output`` the recording is deleted with the result; with it, ``force`` replaces an
    older recording. The process is observed from outside, by eBPF or perf events; if both are
    refused, InputError explains how to record a script.
    """
    return Run(output, temp=temp, force=force)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext spillcast``: then ``%%spillcast TARGET...`` records a cell and forecasts it."""
    from IPython.core.error import UsageError

    def magic(line: str, cell: str) -> Any:
        # ``--to`` is allowed before a target, as for the command.
        targets = [word for word in line.split() if word != "--to"]
        if unknown := [word for word in targets if word.startswith("-")]:
            raise UsageError(f"%%spillcast takes storages, not {unknown[0]}: {_MAGIC}")
        try:
            with record() as run:
                ran = shell.run_cell(cell)
            # IPython has already shown an error of the cell.
            return run.forecast(targets or ["latency:100us"]) if ran.success else None
        except SpillcastError as error:
            # IPython shows it without a traceback.
            raise UsageError(f"{error.message}\n  {error.hint or ''}".rstrip()) from None

    shell.register_magic_function(magic, "cell", "spillcast")
