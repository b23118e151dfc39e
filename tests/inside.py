"""Runs of spillcast in the process of the tests, of verbs that start no other program.

A fork of a process that has many packages takes longer than most of these runs. A run must leave
the process of the tests as it was, which is asserted.
"""

import gc
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

VERBS = (
    "cache", "clickhouse", "collect", "export", "fleet", "forecast", "ingest", "move", "mysql",
    "postgres", "profile", "report", "size", "storage",
)  # fmt: skip
#: What runs a command on other storage, which may end it.
REHEARSALS = ("--rehearse", "--command")
#: Variables with which a process lets no other look at its memory, as with a password it is given.
PASSWORDS = {"CLICKHOUSE_PASSWORD", "MYSQL_PWD", "PGPASSWORD"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def can_run(words, env):
    """Whether a command line neither starts programs nor hides its arguments from others."""
    prints_help = "--help" in words and "--" not in words
    if not (prints_help or "".join(words[:1]) in VERBS) or not PASSWORDS.isdisjoint(env):
        return False
    # Others would see its folder, environment and streams; handlers of signals are the main one's.
    if own_threads() != {threading.main_thread()}:
        return False
    secret = any("password" in word.lower() or ("://" in word and "@" in word) for word in words)
    return not secret and not any(word.startswith(REHEARSALS) for word in words)


def run(words, outputs, *, cwd, env, timeout_s):
    """Be ``python -m spillcast`` for one command line; ``outputs`` are two pipes; its status."""
    from spillcast.cli import main

    with limited(timeout_s), surroundings(words, cwd, env), streams(outputs), unchanged():
        try:
            main()
        except SystemExit as exited:
            status = exited.code if isinstance(exited.code, int) else int(exited.code is not None)
        else:
            raise AssertionError("main() returned")
    if status == 128 + signal.SIGINT:
        # Who presses Ctrl-C means the tests.
        raise KeyboardInterrupt
    return status


@contextmanager
def limited(timeout_s):
    """What never ends ends this process: pytest-xdist names the test."""
    signal.alarm(int(timeout_s))
    try:
        yield
    finally:
        signal.alarm(0)


@contextmanager
def streams(outputs):
    """The standard streams of a program without input; ``outputs`` are closed."""
    kept = [os.dup(number) for number in range(3)]
    before = sys.stdin, sys.stdout, sys.stderr
    try:
        put([os.open(os.devnull, os.O_RDONLY), *outputs])
        with (
            open(0, closefd=False) as sys.stdin,
            open(1, "w", closefd=False) as sys.stdout,
            open(2, "w", closefd=False, errors="backslashreplace") as sys.stderr,
        ):
            yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        put(kept)


def put(descriptors):
    """Give them the numbers 0 to 2."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)


@contextmanager
def surroundings(words, cwd, env):
    """Arguments, folder and environment of a program, and what starting it sets."""
    arguments, folder, variables, env = sys.argv, Path.cwd(), dict(os.environ), dict(env)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    hook, threshold = sys.unraisablehook, gc.get_threshold()
    # Those of pytest would take what libraries log, and the directory is that of its own TMPDIR.
    loggers, directory = logging.root.handlers, tempfile.tempdir
    logging.root.handlers, tempfile.tempdir = [], None
    sys.argv = ["spillcast", *words]
    os.chdir(cwd)
    replace_environment(env)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        gone = [name for name, value in env.items() if os.environ.get(name) != value]
        moved = Path.cwd() != Path(cwd)
        sys.argv = arguments
        os.chdir(folder)
        replace_environment(variables)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
        logging.root.handlers, tempfile.tempdir = loggers, directory
        gc.set_threshold(*threshold)
    assert not gone, f"variables of the environment changed: {gone}"
    assert not moved, "the working directory changed"


def replace_environment(variables):
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()


@contextmanager
def unchanged():
    """What a run may not leave behind in this process."""
    files, masked, depth = open_files(), blocked_signals(), sys.getrecursionlimit()
    yield
    for thread in own_threads() - {threading.main_thread()}:
        thread.join()
    assert open_files() - files == Counter(), "a run left files open"
    assert blocked_signals() == masked
    assert sys.getrecursionlimit() == depth


def blocked_signals():
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


def own_threads():
    """Those that a process waits for as it ends."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


def open_files():
    """How many descriptors but the standard ones, which are put back, lead to each file."""
    files = Counter()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            files[os.readlink(path)] += int(path.name) > 2
    return files
