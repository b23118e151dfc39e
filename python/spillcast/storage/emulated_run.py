"""How long a mount stays: until a command ends, or until somebody ends it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from spillcast.errors import InputError
from spillcast.storage.emulation import Mount

#: How often it is looked whether the mount is still there, and how it does.
TICK_S = 0.25


def check_program(command: Sequence[str]) -> None:
    """InputError where there is no such program to run."""
    if shutil.which(command[0]) is None:
        raise InputError(f"{command[0]}: there is no such program", "name one after --")


def run_command(command: Sequence[str], on_tick: Callable[[], None]) -> int:
    """Run a command to its end; its exit status, 128 and the signal where one ended it.

    Signals that would end this process are the command's to obey: its end is the end.
    """
    process = subprocess.Popen(command)
    with _signals_to(process):
        while process.poll() is None:
            try:
                process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                on_tick()
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def stay(mount: Mount, on_tick: Callable[[], None]) -> None:
    """Stay until Ctrl-C or SIGTERM, or until somebody unmounts it."""
    try:
        while mount.is_there():
            on_tick()
            time.sleep(TICK_S)
    except KeyboardInterrupt:
        return


@contextmanager
def _signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def forward(number: int, _frame: FrameType | None) -> None:
        # Ctrl-C at a terminal reaches the command by itself.
        if number != signal.SIGINT or not _in_foreground():
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether this process is one of those to which the terminal sends Ctrl-C."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:
        return False
