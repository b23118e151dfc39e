"""A run of a verb in a forked process with limits, and its outcome."""

import gc
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections import namedtuple
from pathlib import Path

import spillcast

CPU_S, WALL_S = 10, 60
MEMORY_BYTES = 1 << 30
_TRACEBACK = 70
_PACKAGE = re.escape(str(Path(spillcast.__file__).parent))
_FRAME = re.compile(rf'File "{_PACKAGE}/(.+?)", line (\d+), in (\S+)')

#: ``kind`` is answered, refused, failed, traceback, no JSON, hang, memory or killed; ``site`` is
#: the place, for kinds that are faults.
Outcome = namedtuple("Outcome", "kind site words")
FINE = ("answered", "refused")


def warm_up():
    """Imports all modules of verbs, so that a fork has them."""
    import pkgutil
    from importlib import import_module

    import spillcast
    import spillcast_lab

    for package in (spillcast, spillcast_lab):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                try:
                    import_module(module.name)
                except ImportError:
                    continue
    # Objects that the collector ignores are not copied by a fork.
    gc.collect()
    gc.freeze()


def attempt(arguments, folder):
    """Runs a command line with these arguments in ``folder``, which receives its output."""
    answer, printed = folder / "stderr", folder / "stdout"
    # The files exist even if the child is killed before it has done anything.
    answer.touch()
    # The child would print what it inherits in a buffer.
    sys.stdout.flush()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _run([str(argument) for argument in arguments], folder, answer, printed)
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            break
        # The kernel limits addresses, of which drawing charts reserves many.
        if time.monotonic() - began > WALL_S or _resident_bytes(child) > MEMORY_BYTES:
            os.kill(child, signal.SIGKILL)
            _, status, used = os.wait4(child, 0)
            break
        time.sleep(0.005)
    words = answer.read_text(errors="replace")
    if used.ru_maxrss << 10 > MEMORY_BYTES or "MemoryError" in words:
        return Outcome("memory", _site(words) or arguments[0], words)
    if used.ru_utime + used.ru_stime > CPU_S or time.monotonic() - began > WALL_S:
        return Outcome("hang", arguments[0], words)
    if os.WIFSIGNALED(status):
        return Outcome("killed", f"{arguments[0]}: signal {os.WTERMSIG(status)}", words)
    return _outcome(os.waitstatus_to_exitcode(status), arguments, printed, words)


def _outcome(code, arguments, printed, words):
    if code == _TRACEBACK or "Traceback" in words or "panicked at" in words:
        return Outcome("traceback", _site(words), words)
    if code == 2:
        return Outcome("refused", "", words)
    if code not in (0, 3):
        return Outcome("failed", words.strip().splitlines()[0][:80] if words else "", words)
    if "--json" in arguments and code == 0 and not _is_json(printed):
        return Outcome("no JSON", arguments[0], words)
    return Outcome("answered", "", words)


def _run(arguments, folder, answer, printed):
    status = _TRACEBACK
    try:
        os.chdir(folder)
        for path, number in ((os.devnull, 0), (printed, 1), (answer, 2)):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(descriptor, number)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S + 2, CPU_S + 2))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        status = _status(arguments)
    finally:
        os._exit(status)


def _status(arguments):
    """The exit status of a command line, ``_TRACEBACK`` after an uncaught error."""
    status = _TRACEBACK
    try:
        from spillcast.cli import run

        try:
            status = run(arguments)
        except SystemExit as exited:
            status = exited.code if isinstance(exited.code, int) else int(exited.code is not None)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    return status


def _resident_bytes(child):
    try:
        return int(Path(f"/proc/{child}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _site(words):
    """The place in the package where a traceback ends, and the error."""
    frames = _FRAME.findall(words)
    lines = [line for line in words.strip().splitlines() if line and not line.startswith(" ")]
    kind = lines[-1].split(":")[0][:60] if lines else ""
    return f"{frames[-1][0]}:{frames[-1][1]} {frames[-1][2]}: {kind}" if frames else kind


def _is_json(printed: Path):
    def refuse(word):
        raise ValueError(word)

    try:
        json.loads(printed.read_text(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True
