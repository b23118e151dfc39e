"""A running ``spillcast emulate`` for tests, and checks of what it leaves."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import TIMEOUT_S, started, until

#: The effective capability needed to mount.
CAP_SYS_ADMIN = 21


def skip_without_fuse():
    """Skips the test where this machine cannot mount."""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    may_mount = int(effective.split()[1], 16) >> CAP_SYS_ADMIN & 1
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no /dev/fuse")
    if not may_mount and shutil.which("fusermount3") is None:
        pytest.skip("fusermount3 (Debian package fuse3) is missing")


def is_mounted(path, pid="self"):
    """Whether a path is a mount point in a process's mount namespace."""
    mounts = Path(f"/proc/{pid}/mounts").read_text().splitlines()
    return str(path) in [line.split(" ")[1] for line in mounts]


class Emulator:
    """``spillcast emulate`` in a separate process, with its workspace in ``folder``."""

    def __init__(self, folder, *arguments, under=()):
        self.mountpoint = folder / "mountpoint"
        self.work = folder / "work"
        for directory in (self.mountpoint, self.work):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o777)
        self.stderr = (folder / "stderr").open("w+")
        self.process = started(
            "emulate",
            self.mountpoint,
            *arguments,
            under=under,
            env=os.environ | {"TMPDIR": str(self.work)},
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
        )

    def printed_errors(self):
        """Its stderr so far."""
        self.stderr.seek(0)
        return self.stderr.read()

    def ready(self):
        """Waits until it reports its mount."""
        until(
            lambda: "mounted at" in self.printed_errors() or self.process.poll() is not None,
            "the mount",
        )
        assert self.process.poll() is None, self.printed_errors()
        # An ordinary user's mount may be visible to that user alone.
        assert is_mounted(self.mountpoint, self.process.pid)
        return self

    def end(self, number):
        """Sends a signal and waits for the end; returns the exit status and the output."""
        self.process.send_signal(number)
        printed, _ = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, printed

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate(timeout=TIMEOUT_S)
        self.process.stdout.close()
        self.stderr.close()

    def left_nothing(self):
        """Waits until mount and workspace are gone; returns whether they are."""
        until(lambda: not is_mounted(self.mountpoint), "the mount to go")
        until(lambda: not list(self.work.glob("spillcast-*")), "the workspace to go")
        assert os.listdir(self.mountpoint) == []
        return True
