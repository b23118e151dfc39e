"""Runs of spillcast by a fork of a process that has imported it: most of a short run is imports.

What starts no other program runs in the process of the tests (inside.py). What starts differently,
such as with another PYTHONPATH, is left to a start of its own; so is everything where
SPILLCAST_STARTS=anew. On the pages of the reference the first command of each verb always does.
"""

import atexit
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import inside

VERBS = (
    "cache", "check", "clickhouse", "collect", "emulate", "export", "fleet", "forecast", "ingest",
    "move", "mysql", "postgres", "probe", "profile", "record", "report", "size", "storage", "sweep",
)  # fmt: skip
#: Variables that a process reads as it starts, or a library as it is loaded.
AT_START = ("ARROW", "LANG", "LC_", "LD_", "MALLOC", "OMP", "OPENBLAS", "PYTHON")
MESSAGE_BYTES = 1 << 16
#: Held between runs of the lab where they are not timed: half a GiB takes seconds to be cleared.
HELD_BYTES = 1 << 20


class Forks:
    """The process that forks, one for all tests of this process; it ends with it."""

    def __init__(self):
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._free = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, *_held], stdin=theirs, stdout=subprocess.DEVNULL
            )

    def run(self, words, *, cwd, env, timeout_s):
        """As subprocess.run captures it as text; None where only a start of its own will do."""
        request = {"words": words, "cwd": str(cwd), "env": dict(env)}
        message = json.dumps(request).encode()
        if len(message) > MESSAGE_BYTES:
            return None
        if not self._free.acquire(blocking=False):
            return None
        try:
            return self._run(words, message, timeout_s)
        finally:
            self._free.release()

    def _run(self, words, message, timeout_s):
        readers = [Reader(), Reader()]
        socket.send_fds(self._channel, [message], [item.given for item in readers])
        end = time.monotonic() + timeout_s
        for item in readers:
            item.begin()
        child = int(self._channel.recv(MESSAGE_BYTES))
        texts = [item.text(end - time.monotonic()) for item in readers]
        if None in texts:
            os.kill(child, signal.SIGKILL)
        status = int(self._channel.recv(MESSAGE_BYTES))
        if None in texts:
            raise subprocess.TimeoutExpired(words, timeout_s)
        return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), *texts)

    def close(self):
        """Let it end."""
        self._channel.close()
        self._process.wait()


class Reader:
    """A pipe that is read to its end in a thread; ``given`` is the end to write to."""

    def __init__(self):
        self._ours, self.given = os.pipe()
        self._content = b""
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self):
        with open(self._ours, "rb") as pipe:
            self._content = pipe.read()

    def begin(self):
        """Read; the other end has been given away."""
        os.close(self.given)
        self._thread.start()

    def text(self, timeout_s):
        """What was written, None where it has not ended in time."""
        self._thread.join(max(timeout_s, 0))
        return None if self._thread.is_alive() else decoded(self._content)


def decoded(content):
    """As subprocess decodes text: every end of a line is a newline."""
    return io.TextIOWrapper(io.BytesIO(content)).read()


def at_start(env):
    """The variables that matter when a process starts."""
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


#: Those of this process.
STARTED = at_start(os.environ)


_forks = []
#: For the process that forks: whether its lab holds little memory.
_held = []


def close():
    """End the process that forks, before the session looks at what is left."""
    for forks in _forks:
        forks.close()
    _forks.clear()


def run(arguments, options, timeout_s):
    """The result of a command line, or None where it has to be started anew."""
    words = [str(argument) for argument in arguments]
    is_short = words[:1] == ["--version"] or "--help" in words
    only_reads = words[:1] == ["verify"] and "--from" in words
    if not (is_short or only_reads or "".join(words[:1]) in VERBS):
        return None
    # The preload library's recorder looks at the environment with which its process was started.
    if "preload" in words:
        return None
    if options.keys() - {"cwd", "env"}:
        return None
    if os.environ.get("SPILLCAST_STARTS") == "anew":
        return None
    options = {"cwd": Path.cwd(), "env": os.environ} | options
    if at_start(options["env"]) != STARTED:
        return None
    if inside.can_run(words, options["env"]):
        return run_inside(words, timeout_s, **options)
    if not _forks:
        _forks.append(Forks())
    return _forks[0].run(words, timeout_s=timeout_s, **options)


def hold_little_memory():
    """Have the lab hold little memory between runs, also in forks that are made later."""
    from spillcast.lab import run

    run.resident_memory = run.ResidentMemory(HELD_BYTES)
    _held[:] = ["little"]


def run_inside(words, timeout_s, **options):
    """The result of a run in this process."""
    readers = [Reader(), Reader()]
    outputs = [os.dup(item.given) for item in readers]
    for item in readers:
        item.begin()
    status = inside.run(words, outputs, timeout_s=timeout_s, **options)
    return subprocess.CompletedProcess(words, status, *(item.text(timeout_s) for item in readers))


def serve(channel):
    """Fork for each request, tell who that is and how it ended; return when nobody asks."""
    from fuzz.trial import warm_up
    from measured_once import measure_once

    warm_up()
    measure_once()
    if sys.argv[1:] == ["little"]:
        hold_little_memory()
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
        if not message:
            return
        child = os.fork()
        if child == 0:
            channel.close()
            become(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(child).encode())
        channel.send(str(os.waitpid(child, 0)[1]).encode())


def become(request, stdout, stderr):
    """Be ``python -m spillcast`` from here to the end."""
    status = 1
    try:
        for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (stdout, 1), (stderr, 2)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        sys.argv = ["spillcast", *request["words"]]
        from spillcast.cli import main

        main()
    except SystemExit as exited:
        status = exited.code if isinstance(exited.code, int) else int(exited.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))
    os._exit(0)
