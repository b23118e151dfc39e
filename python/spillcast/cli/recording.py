"""Recordings of a command, a process, a server's session, all sessions, or in bursts."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from spillcast.cli.output import emit, notify, print_coloured, terminal_columns
from spillcast.cli.usage import given_of, refuse
from spillcast.engines import SessionSelector
from spillcast.errors import (
    OptionConflict,
    OptionInvalid,
    OptionMissing,
    SpillcastError,
    TerminalMissing,
)
from spillcast.interruptible import Forwarder, interrupted_once
from spillcast.redaction import masked_text
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast import _core
    from spillcast.cli.progress import View
    from spillcast.recording import Recording
    from spillcast.recording.capture import RecordOptions
    from spillcast.recording.live import Running
    from spillcast.recording.record import Recorder

#: The default folder for recordings of all sessions.
ALL_OUTPUT = Path("server.spills")
#: Polling intervals of a wait for a command's end, and of a pause between bursts.
TICK_S, _PAUSE_TICK_S = 1.0, 0.25


@dataclass(frozen=True)
class TargetOptions:
    """The target of a recording: a command, a process, or a session or statement of a server."""

    command: list[str] | None = None
    pid: int | None = None
    #: A server, and its engine.
    dsn: str | None = None
    engine: str = ""
    session: SessionSelector = field(default_factory=SessionSelector)
    #: A statement to run under EXPLAIN, and its settings as NAME=VALUE.
    explain: str | None = None
    settings: Sequence[str] = ()

    @property
    def title(self) -> str:
        """Its name in a live view."""
        if self.dsn is not None:
            return masked_text(self.dsn)
        return shlex.join(self.command) if self.command else f"process {self.pid}"

    def shown_live(self) -> "TargetOptions":
        """The target of a live view: of a server without a session, the one that spills first."""
        if self.dsn is None or self.session != SessionSelector() or self.explain is not None:
            return self
        return replace(self, session=SessionSelector(spilling=True))


#: The engine of the server that an option names, and the options that select its sessions.
ENGINES = {"--postgres": "postgres", "--mysql": "mysql"}
_SESSION_OPTIONS = {
    "--postgres": ("--backend", "--query", "--wait-for-spill", "--all", "--explain", "--set"),
    "--mysql": ("--session", "--query"),
}
#: The options of which one must select a query.
_SELECTORS = {
    "--postgres": "--backend PID, --query PATTERN, --wait-for-spill or --explain SQL",
    "--mysql": "--session ID or --query PATTERN",
}
#: Options that conflict with --all, and what to do instead.
_NOT_WITH_ALL = {
    **dict.fromkeys(
        ("--backend", "--query", "--wait-for-spill"),
        "leave it out: every query that spills gets a recording of its own",
    ),
    "--explain": "record it by itself, without --all",
    "--set": "settings are for a statement that --explain runs",
    "--live": "--live is for one session; with --all a line shows how many spill",
}


def check_target(
    targets: Mapping[str, object], of_sessions: Mapping[str, object], *, live: bool
) -> str:
    """The option that names the target. InputError unless one target supports all options."""
    options, given = given_of(of_sessions), given_of(targets)
    usable = [option for target in given for option in _SESSION_OPTIONS.get(target, ())]
    for option in options:
        if option not in usable:
            servers = [name for name, taken in _SESSION_OPTIONS.items() if option in taken]
            hint = f"{given[0]} takes {', '.join(usable)}" if usable else None
            raise OptionConflict(f"{option} needs {' or '.join(servers)}", hint)
    if len(given) != 1:
        verb = "takes only" if given else "needs"
        raise OptionMissing(
            f"record {verb} one of --pid PID or -- COMMAND or --postgres DSN or --mysql DSN",
            "see: spillcast record --help",
        )
    if "--all" in options:
        for option in [*options, *["--live"] * live]:
            if option in _NOT_WITH_ALL:
                raise OptionConflict(f"{option} does not go with --all", _NOT_WITH_ALL[option])
    elif given[0] in _SELECTORS:
        selects = not {"--backend", "--session", "--query", "--wait-for-spill"}.isdisjoint(options)
        explains = "--explain" in options
        # By default a live view of PostgreSQL shows the session that spills first.
        has_default = live and given[0] == "--postgres"
        if (selects and explains) or not (selects or explains or has_default):
            hint = "see: spillcast record --help"
            raise OptionMissing(f"{given[0]} needs {_SELECTORS[given[0]]}", hint)
        if "--set" in options and not explains:
            raise OptionConflict(
                "--set is for the session of --explain; other sessions cannot be changed"
            )
    return given[0]


def check_live(
    *,
    live: bool,
    json: bool,
    discard: bool,
    only_live: Mapping[str, object],
    kept: Mapping[str, object],
) -> None:
    """InputError for options that need --live or a recording, and for a view without a terminal."""
    if not live:
        hint = "a recording is forecast with: spillcast forecast run.spill --to TARGET"
        refuse(only_live, "needs --live", hint)
        return
    if not json and not sys.stderr.isatty():
        raise TerminalMissing(
            "--live draws on stderr, which is not a terminal here", "--json prints lines"
        )
    if discard:
        refuse(kept, "needs a recording, and --discard writes none")


def check_minute(command: Sequence[str] | None, options: "RecordOptions", *, others: bool) -> None:
    """InputError for options that conflict with --minute."""
    if command is not None or others or options.slices is not None:
        raise OptionMissing(
            "--minute needs a process or session that is already running, and no other mode",
            "leave out --all, --explain, --live, --mysql, --rehearse and --slices; give --pid or a "
            "session of PostgreSQL",
        )


@contextmanager
def until_command_ends(words: Sequence[str] | None) -> Iterator["Forwarder[_core.Target] | None"]:
    """Leave the block when its command has ended, even after an error; pass signals on to it.

    SIGTERM, SIGINT and SIGHUP end the command, and its end ends the recording. If the command
    fails, exit with its status. Without a command (``words`` is None) it has no effect.
    """
    if words is None:
        yield None
        return
    signals: Forwarder[_core.Target] = Forwarder()
    with signals.taken():
        try:
            yield signals
        except (SpillcastError, OSError) as error:
            _exit_if_failed(signals.command, str(error), "there is no recording of it")
            raise
        _exit_if_failed(signals.command, None, "what was recorded is kept")


class CommandOutput:
    """Output of a command that is started in ``starting``, kept apart from the view.

    With ``json`` its stdout goes to stderr. Output for a terminal is kept until ``print_kept``;
    output for a file or a pipe, and that of a command without a ``live`` view, is not redirected.
    """

    def __init__(self, *, live: bool, json: bool) -> None:
        self._kept: dict[int, BinaryIO] = {}
        self._redirected = {1: 2} if live and json else {}
        if live and not json and sys.stderr.isatty():
            # Unnamed files, closed by ``print_kept`` or at exit.
            self._kept = {
                number: os.fdopen(os.memfd_create("spillcast-output"), "w+b")
                for number in (1, 2)
                if os.isatty(number)
            }
            self._redirected = {number: file.fileno() for number, file in self._kept.items()}

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Redirect descriptors while the command starts, then restore them."""
        originals = {number: os.dup(number) for number in self._redirected}
        try:
            for number, destination in self._redirected.items():
                os.dup2(destination, number)
            yield
        finally:
            for number, original in originals.items():
                os.dup2(original, number)
                os.close(original)

    def print_kept(self) -> None:
        """Print the kept output."""
        for number, file in self._kept.items():
            file.seek(0)
            with os.fdopen(os.dup(number), "wb") as out:
                shutil.copyfileobj(file, out)
            file.close()


def _exit_if_failed(command: "_core.Target | None", error: str | None, consequence: str) -> None:
    """Wait for the end of a command that started; if it failed, exit with its status."""
    from spillcast.recording.observed import describe_exit

    while command is not None and not command.wait(TICK_S):
        pass
    # The status is negative for a signal.
    if command is not None and (status := command.exit_status):
        for message in (error, f"the command {describe_exit(status)}; {consequence}"):
            if message is not None:
                notify(message)
        raise typer.Exit(status if status > 0 else 128 - status)


def begin(
    target: TargetOptions,
    output: Path | None,
    options: "RecordOptions",
    running: "Running | None",
    command_output: CommandOutput,
    signals: "Forwarder[_core.Target] | None",
) -> "Recorder":
    """Start a command under observation, which gets our signals, or attach to a process."""
    from spillcast.cli.progress import progress_bar
    from spillcast.recording.record import record_command, record_pid

    if target.command is not None:
        with command_output.starting():
            recorder, started = record_command(target.command, output, options, running)
        if signals is not None:
            signals.to(started)
        notices = []
    else:
        from spillcast.engines.registry import notices_of

        assert target.pid is not None
        with progress_bar(f"attaching to process {target.pid}"):
            recorder = record_pid(target.pid, output, options, running)
        notices = notices_of(target.pid)
    for notice in [*recorder.new_notices(), *notices]:
        notify(notice)
    return recorder


def follow(recorder: "Recorder", view: "View") -> None:
    """Show a recording to its end, or to Ctrl-C."""
    try:
        # The view looks before the first poll, so that even a very short command is shown.
        view.look(recorder, recorder.status())
        while not recorder.poll():
            view.look(recorder, recorder.status())
    except KeyboardInterrupt:
        interrupted_once()
    except BaseException:
        recorder.abandon()
        raise


def record_all(server: str, output: Path | None, options: "RecordOptions", *, json: bool) -> None:
    """Record every query of a server that spills, and print what was recorded."""
    from spillcast.cli.progress import line_view
    from spillcast.engines.postgres.live.record_all import record_all_of_postgres
    from spillcast.report.recording import server_recording_text

    with line_view(show=not json) as view:
        recording = record_all_of_postgres(
            server, output or ALL_OUTPUT, options=options, notify=view.notify, on_status=view.look
        )
    if json:
        emit(recording.to_json())
    else:
        print_coloured(server_recording_text(recording, terminal_columns()))


def record_server(
    target: TargetOptions,
    output: Path | None,
    options: "RecordOptions",
    view: "View",
    running: "Running | None" = None,
) -> "Recording":
    """Record a session or statement of a server."""
    from spillcast.engines.registry import engine_of, feature_of

    explain: dict[str, Any] = {}
    if target.explain is not None:
        settings = dict(_setting(text) for text in target.settings)
        explain = {"explain": target.explain, "settings": settings}
    recording: Recording = feature_of(engine_of(target.engine), "record")(
        target.dsn,
        output,
        None if explain else target.session,
        options=options,
        notify=view.notify,
        on_status=view.look,
        running=running,
        **explain,
    )
    return recording


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionInvalid(f"--set '{text}' is not NAME=VALUE", "for example --set work_mem=4MB")
    return name.strip(), value.strip()


def record_minute(
    target: TargetOptions, output: Path, options: "RecordOptions", view: "View"
) -> "Recording":
    """Record in bursts until all are done, the target ends, or Ctrl-C; join and keep them."""
    from spillcast._core import check_output
    from spillcast.recording.minute import keep, record_bursts
    from spillcast.recording.record import record_pid
    from spillcast.workspace import workspace

    check_output(output, force=options.force)
    numbers = count()

    def burst(workdir: Path, duration_s: float) -> "Recording":
        nonlocal target
        record_options = replace(options, duration_s=duration_s, share=False, force=False)
        path = workdir / f"{next(numbers)}.spill"
        if target.dsn is None:
            assert target.pid is not None
            recorder = record_pid(target.pid, path, record_options)
            follow(recorder, view)
            return recorder.finish()
        recording = record_server(target, path, record_options, view)
        if recording.meta.server is not None:
            # Further bursts record this session, even if other sessions match by then.
            target = replace(target, session=SessionSelector(recording.meta.server.backend))
        return recording

    def pause(gap_s: float) -> None:
        try:
            if gap_s >= 1:
                view.notify(f"detached for {format_duration(gap_s)}")
            until_s = time.monotonic() + gap_s
            while (left_s := until_s - time.monotonic()) > 0:
                time.sleep(min(left_s, _PAUSE_TICK_S))
        except KeyboardInterrupt:
            interrupted_once()
            raise

    with workspace(output.absolute().parent) as workdir:
        bursts = record_bursts(partial(burst, workdir), pause, options.duration_s, view.notify)
        return keep(bursts, output, share=options.share, force=options.force)
