"""The life of a mount: until a command ends, or until it is ended by a signal or an unmount."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from spillcast.errors import ProgramMissing
from spillcast.storage.emulation import Mount

#: The interval of checks whether the mount still exists, and of its progress.
TICK_S = 0.25


def check_program(command: Sequence[str]) -> None:
    """InputError if the program does not exist."""
    if shutil.which(command[0]) is None:
        raise ProgramMissing(f"{command[0]}: there is no such program", "name one after --")


def run_command(command: Sequence[str], on_tick: Callable[[], None]) -> int:
    """Run a command to its end; returns its exit status, or 128 plus the signal that ended it.

    Signals that would end this process are the command's to obey: its end is the end.
    """
    with _Signals() as signals:
        process = signals.start(command)
        while process.poll() is None:
            try:
                process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                on_tick()
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def stay(mount: Mount, on_tick: Callable[[], None]) -> None:
    """Stay until Ctrl-C or SIGTERM, or until somebody unmounts it."""
    try:
        while mount.is_mounted():
            on_tick()
            time.sleep(TICK_S)
    except KeyboardInterrupt:
        return


class _Signals:
    """Passes SIGINT and SIGTERM on to a command, from before it starts to its end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(command)
        for number in self._early:
            self._process.send_signal(number)
        return self._process

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        # Ctrl-C at a terminal reaches the command by itself.
        elif number != signal.SIGINT or not _in_foreground():
            self._process.send_signal(number)

    def __enter__(self) -> "_Signals":
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, self._forward) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether this process is one of those to which the terminal sends Ctrl-C."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:
        return False
