"""Checks which features work on this machine for this user, with a command for each fix."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast import _core
from spillcast.document import key
from spillcast.installation import commit, extras, install, lacking
from spillcast.recording.calibration import kept_calibration
from spillcast.recording.capture import PRELOAD, SOURCES, CaptureSource
from spillcast.recording.observed import PRELOAD_LIBRARY, proc_text, status_of
from spillcast.text import shell_word

DOCTOR_SCHEMA = "spillcast.doctor/1"
#: Largest perf_event_paranoid that lets unprivileged users observe their own processes.
PARANOID_MAX = 2
CAP_SYS_ADMIN = 21
MOUNTS = Path("/proc/self/mounts")
#: Timeout for an answer of an emulated storage, whose latencies are much shorter.
ANSWER_S = 5.0
#: The needs of a container for being observed from inside, or for observing.
CONTAINER = (
    "docker run --cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE "
    "--security-opt seccomp=unconfined"
)


@dataclass(frozen=True)
class Finding:
    """A feature of this machine, and whether it works."""

    name: str = key("what was looked at", example="perf")
    works: bool = key("whether it works for this user", example=False)
    detail: str = key(
        "what it is for; if it does not work, what is wrong",
        example="kernel.perf_event_paranoid is 3",
    )
    fix: str | None = key(
        "the command that fixes it; null if it works or nothing fixes it",
        example="sudo sysctl kernel.perf_event_paranoid=2",
        default=None,
    )


@dataclass(frozen=True)
class Diagnosis:
    """The findings of all checks."""

    schema: str = key("the format", example=DOCTOR_SCHEMA)
    spillcast: str = key("version", example="0.1.0")
    commit: str | None = key("commit that it was built from; null if unknown", example=None)
    python: str = key("version of Python", example="3.11.7")
    kernel: str = key("release of the kernel", example="6.12.0-amd64")
    user: int = key("id of the user", example=1000)
    findings: Sequence[Finding] = key("what was checked")


def diagnose() -> Diagnosis:
    """Run all checks, which have no side effects and observe no process."""
    parts = (_proc, _sources, _fuse, _dead_mounts, _kept, _extras)
    findings = [finding for part in parts for finding in part()]
    return Diagnosis(
        DOCTOR_SCHEMA,
        _core.__version__,
        commit(),
        platform.python_version(),
        platform.release(),
        os.geteuid(),
        findings,
    )


def _finding(name: str, works: bool, detail: str, problem: str, fix: str) -> Finding:
    return Finding(name, True, detail) if works else Finding(name, False, problem, fix)


def _proc() -> Iterator[Finding]:
    problem, fix = "does not show this process: nothing can be recorded", "mount -t proc proc /proc"
    # In a PID namespace without a /proc of its own, its ids mean other processes.
    works = Path("/proc/self").resolve().name == str(os.getpid())
    yield _finding("/proc", works, "shows processes and their files", problem, fix)


def _sources() -> Iterator[Finding]:
    for source in SOURCES.values():
        if source.name == PRELOAD and not PRELOAD_LIBRARY.exists():
            detail = f"{PRELOAD_LIBRARY}: the preload library is missing"
            yield Finding(source.name, False, detail, "run: make build")
            continue
        try:
            _core.try_source(source.name)
        except OSError as error:
            message, _ = _core.source_refusal(source.name, error.errno or 0)
            detail = message.partition(": ")[2] or message
            yield Finding(source.name, False, detail, _fix(source, error))
        else:
            whom = "processes that run, and commands" if source.attaches else "commands alone"
            yield Finding(source.name, True, f"records {whom} by {source.title}")


def _fix(source: CaptureSource, error: OSError) -> str | None:
    """The command that makes a source work, if one is known."""
    if not isinstance(error, PermissionError):
        return _core.source_refusal(source.name, error.errno or 0)[1]
    if source.needs_privilege and os.geteuid() != 0:
        # sudo does not search the PATH of this user.
        return f"sudo {shell_word(sys.executable)} -m spillcast record"
    paranoid = int(proc_text("sys/kernel/perf_event_paranoid") or 0)
    if not source.needs_privilege and os.geteuid() != 0 and paranoid > PARANOID_MAX:
        return f"sudo sysctl kernel.perf_event_paranoid={PARANOID_MAX}"
    return CONTAINER


def _fuse() -> Iterator[Finding]:
    device, helper = Path("/dev/fuse"), shutil.which("fusermount3")
    if not os.access(device, os.R_OK | os.W_OK):
        fix = "sudo modprobe fuse" if not device.exists() else "sudo chmod 666 /dev/fuse"
        if Path("/.dockerenv").exists():
            fix = "docker run --device /dev/fuse --cap-add SYS_ADMIN"
        yield Finding("FUSE", False, f"emulate cannot use {device}", fix)
    elif os.geteuid() == 0 and not _may_mount():
        detail = "emulate needs CAP_SYS_ADMIN, which root does not have here"
        yield Finding("FUSE", False, detail, "docker run --device /dev/fuse --cap-add SYS_ADMIN")
    elif os.geteuid() != 0 and helper is None:
        detail = "emulate needs root or the program fusermount3"
        yield Finding("FUSE", False, detail, "sudo apt-get install fuse3")
    elif os.geteuid() != 0 and "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        detail = "emulate needs root: no_new_privs keeps fusermount3 from mounting"
        yield Finding("FUSE", False, detail, "docker run --security-opt no-new-privileges=false")
    else:
        yield Finding("FUSE", True, "emulate can mount a storage")


def _dead_mounts() -> Iterator[Finding]:
    """Mounts of emulations whose process has ended: all accesses to them fail."""
    for mount in _emulations(os.fsdecode(MOUNTS.read_bytes()) if MOUNTS.exists() else ""):
        # In a separate process, because a file system may never answer, in an uninterruptible call.
        looked = subprocess.Popen(
            ["stat", "--", mount], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            if looked.wait(ANSWER_S) == 0:
                continue
            problem = "has lost its process"
        except subprocess.TimeoutExpired:
            looked.kill()
            problem = "does not answer"
        unmount = "umount --lazy" if os.geteuid() == 0 else "fusermount3 -u -z"
        detail = f"the emulated storage at {mount} {problem}"
        yield Finding("FUSE mount", False, detail, f"{unmount} {shell_word(mount)}")


def _emulations(mounts: str) -> list[str]:
    """Mount points of emulated storages in the text of /proc/self/mounts."""
    rows = (line.split(" ") for line in mounts.splitlines())
    points = [row[1] for row in rows if row[0] == "spillcast" and row[2].startswith("fuse")]
    # Blanks, tabs and backslashes are octal escapes in it.
    return [re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path) for path in points]


def _may_mount() -> bool:
    """Whether this process has CAP_SYS_ADMIN; True if unknown."""
    return bool(int(status_of("self").get("CapEff", "-1"), 16) >> CAP_SYS_ADMIN & 1)


def _kept() -> Iterator[Finding]:
    limits = "memory and CPU limits"
    works = any(folder.is_dir() for folder in _core.group_folders("memory"))
    fix = "sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup"
    yield _finding("cgroups", works, f"recordings hold {limits}", f"recordings lack {limits}", fix)
    yield _finding(
        "calibration",
        kept_calibration() is not None,
        "calibrated; recordings hold it",
        "not calibrated: intervals are wider",
        "spillcast calibrate",
    )


def _extras() -> Iterator[Finding]:
    for extra in extras():
        missing = lacking(extra)
        problem = f"not installed: {', '.join(missing)}"
        yield _finding(f"extra {extra}", not missing, "installed", problem, install(extra))
