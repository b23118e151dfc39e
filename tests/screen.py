"""Programs at a terminal: run under a pty of some size, and the resulting screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import forked
from harness import TIMEOUT_S, environment, spillcast_command

_CODE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


class Terminal:
    """spillcast with stdin, stdout and stderr at a terminal; ``stderr`` may be another file."""

    def __init__(self, *arguments, columns=80, lines=50, stderr=None, **changes):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        variables = {"TERM": "xterm-256color", **changes}
        env = {k: v for k, v in environment(**variables).items() if k not in ("COLUMNS", "LINES")}
        options = {"stdin": slave, "stdout": slave, "stderr": stderr or slave, "env": env}
        self.process = forked.start(arguments, options | {"start_new_session": True})
        if self.process is None:
            anew = ["setsid", "--ctty", *spillcast_command(*arguments)]
            self.process = subprocess.Popen(anew, **options)
        self.written = b""

    def read(self, timeout_s=0.1):
        """Reads output that was written meanwhile."""
        while select.select([self.master], [], [], timeout_s)[0]:
            try:
                read = os.read(self.master, 1 << 16)
            except OSError:
                return
            if not read:
                return
            self.written += read
            timeout_s = 0

    def until(self, text):
        """Reads until the output contains something."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in plain(self.text):
            assert time.monotonic() < deadline, f"waited for {text!r}, got {self.text[-2000:]!r}"
            ended = self.process.poll() is not None
            # Output written before its end may not be read yet.
            self.read()
            if ended and text not in plain(self.text):
                pytest.fail(f"ended before {text!r}: {self.text[-2000:]!r}")

    def press(self, keys):
        """Sends input, as a user types it."""
        os.write(self.master, keys.encode())

    def end(self, number=None):
        """Reads to the program's end, after a signal if one is given; returns the exit status."""
        if number is not None:
            self.process.send_signal(number)
        deadline = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"does not end: {self.text[-2000:]!r}"
            self.read()
        self.read()
        return self.process.returncode

    @property
    def text(self):
        """All output, with escape codes."""
        return self.written.decode(errors="replace")

    @property
    def is_as_before(self):
        """Whether the terminal's modes are as before, and the cursor is visible."""
        now = termios.tcgetattr(self._slave)
        hidden, shown = self.text.rfind("\x1b[?25l"), self.text.rfind("\x1b[?25h")
        return now == self.before and (hidden < 0 or shown > hidden)

    def close(self):
        """Ends the program and closes the terminal."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self._slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def plain(text):
    """A text without escape codes."""
    return _CODE.sub("", text)


def screen(text):
    """The lines on a terminal after this output; lines are never wrapped."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(text):
        code = _CODE.match(text, at)
        if code:
            at = code.end()
            if code[2] == "A":
                row = max(0, row - int(code[1] or 1))
            elif code[2] == "K":
                lines[row] = "" if code[1] == "2" else lines[row][:column]
            continue
        letter, at = text[at], at + 1
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + letter + line[column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]
