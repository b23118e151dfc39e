"""Runs of spillcast in the process of the tests, for verbs that start no other program.

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
#: Options that run a command on other storage, which may end it.
REHEARSALS = ("--rehearse", "--command")
#: Variables whose passwords make a process hide its memory from others.
PASSWORDS = {"CLICKHOUSE_PASSWORD", "MYSQL_PWD", "PGPASSWORD"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def can_run(words, env):
    """Whether a command line starts no programs and does not hide its arguments from others."""
    prints_help = "--help" in words and "--" not in words
    if not (prints_help or "".join(words[:1]) in VERBS) or not PASSWORDS.isdisjoint(env):
        return False
    # Other threads would share folder, environment and streams; only the main one sets handlers.
    if own_threads() != {threading.main_thread()}:
        return False
    secret = any("password" in word.lower() or ("://" in word and "@" in word) for word in words)
    return not secret and not any(word.startswith(REHEARSALS) for word in words)


def run(words, outputs, *, cwd, env, timeout_s):
    """Runs a command line as ``python -m spillcast`` to pipes ``outputs``; returns its status."""
    from spillcast.cli import main

    with limited(timeout_s), surroundings(words, cwd, env), streams(outputs), unchanged():
        try:
            main()
        except SystemExit as exited:
            status = exited.code if isinstance(exited.code, int) else int(exited.code is not None)
        else:
            raise AssertionError("main() returned")
    if status == 128 + signal.SIGINT:
        # Ctrl-C is meant for the tests.
        raise KeyboardInterrupt
    return status


@contextmanager
def limited(timeout_s):
    """Ends this process where a run does not end: pytest-xdist names the test."""
    signal.alarm(int(timeout_s))
    try:
        yield
    finally:
        signal.alarm(0)


@contextmanager
def streams(outputs):
    """The standard streams of a program without input; closes ``outputs``."""
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
    """Puts them at descriptors 0 to 2."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)


@contextmanager
def surroundings(words, cwd, env):
    """A program's arguments, folder and environment, and the settings of its start."""
    arguments, folder, variables, env = sys.argv, Path.cwd(), dict(os.environ), dict(env)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    hook, threshold = sys.unraisablehook, gc.get_threshold()
    # Pytest's handlers would take log messages; the directory depends on the run's TMPDIR.
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
    """The state that a run must not change in this process."""
    files, masked, depth = open_files(), blocked_signals(), sys.getrecursionlimit()
    yield
    for thread in own_threads() - {threading.main_thread()}:
        thread.join()
    if open_files() - files:
        # An error may hold a frame, and its files, in a cycle.
        gc.collect()
    assert open_files() - files == Counter(), "a run left files open"
    assert blocked_signals() == masked
    assert sys.getrecursionlimit() == depth


def blocked_signals():
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


def own_threads():
    """The threads that a process waits for when it ends."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


def open_files():
    """Number of open descriptors for each file, except the standard ones, which are restored."""
    files = Counter()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            files[os.readlink(path)] += int(path.name) > 2
    return files
