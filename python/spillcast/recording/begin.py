"""Begins recordings: of a new command, or of a running process."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.recording.choice import StartAgain
from spillcast.recording.options import RecordOptions
from spillcast.recording.recorder import Recorder
from spillcast.recording.target import Command, Process

if TYPE_CHECKING:
    from spillcast.recording.running import Running


def record_command(
    arguments: Sequence[str],
    output: Path | None,
    options: RecordOptions | None = None,
    running: "Running | None" = None,
) -> tuple[Recorder, Command]:
    """Start a command under observation."""
    recorder = Recorder(output, options, running)
    environment = recorder.prepare()
    while True:
        command = Command(arguments, dict(os.environ) | environment)
        try:
            recorder.observe(command, arguments)
        except StartAgain as again:
            command.abandon()
            environment = again.environment
            continue
        except BaseException:
            command.abandon()
            raise
        command.release()
        return recorder, command


def record_pid(
    pid: int,
    output: Path | None,
    options: RecordOptions | None = None,
    running: "Running | None" = None,
) -> Recorder:
    """Observe a running process and all its threads."""
    recorder = Recorder(output, options, running)
    process = Process(pid)
    recorder.prepare(pid)
    recorder.observe(process)
    return recorder
