"""Runs of spillcast in forks of a process that has imported it: most of a short run is imports.

Verbs that start no other program run in the process of the tests (inside.py). Commands that start
differently, such as with another PYTHONPATH, get a new process, as all do where
SPILLCAST_STARTS=anew, and always the first command of each verb on the pages of the reference.
"""

import atexit
import ctypes
import fcntl
import io
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import traceback
from pathlib import Path

import inside
from targets.refuse import refuse

VERBS = (
    "cache", "check", "clickhouse", "collect", "emulate", "export", "fleet", "forecast", "ingest",
    "move", "mysql", "postgres", "probe", "profile", "record", "report", "size", "storage", "sweep",
)  # fmt: skip
#: Variables that are read when a process starts or a library is loaded.
AT_START = ("ARROW", "LANG", "LC_", "LD_", "MALLOC", "OMP", "OPENBLAS", "PYTHON")
#: Options of Popen that a fork supports.
OPTIONS = {"cwd", "env", "stdin", "stdout", "stderr", "text", "start_new_session"}
MESSAGE_BYTES = 1 << 16
#: Sent once a fork is a child of the requesting process.
ADOPTED = b"adopted"
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None)
#: Held between untimed runs of the lab: half a GiB takes seconds to be cleared.
HELD_BYTES = 1 << 20


class Forks:
    """The process that forks, one for all tests of this process; it ends with this process."""

    def __init__(self):
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._free = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, *_held], stdin=theirs, stdout=subprocess.DEVNULL
            )

    def fork(self, message, streams):
        """The pid of a fork with these standard streams, as a child of this process."""
        with self._free:
            # Other orphans are reparented to this process meanwhile.
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
            socket.send_fds(self._channel, [message], streams)
            pid = int(self._channel.recv(MESSAGE_BYTES))
            assert self._channel.recv(MESSAGE_BYTES) == ADOPTED
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0)
        return pid

    def close(self):
        """Ends the process."""
        self._channel.close()
        self._process.wait()


class Forked(subprocess.Popen):
    """A fork with the interface of Popen.

    Its arguments are those of spillcast, and the system calls that are refused to it.
    """

    def _execute_child(self, args, *options):
        cwd, env, pipes, leads = *options[4:6], options[9:15], options[20]
        given = (pipes[0], pipes[3], pipes[5])
        streams = [number if pipe == -1 else pipe for number, pipe in enumerate(given)]
        words, refused = args
        self.pid = _forks[0].fork(message(words, cwd, env, leads, refused), streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)


def message(words, cwd, env, leads=False, refused=()):
    """The request for a fork, which ``leads`` a session with the terminal of its stdin."""
    ignored = [number for number in inside.SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
    request = {"words": words, "cwd": str(cwd), "env": dict(env), "ignored": ignored}
    request |= {"leads": leads, "refused": refused}
    return json.dumps(request).encode()


class Reader:
    """A pipe that a thread reads to its end; ``given`` is the end to write to."""

    def __init__(self):
        self._ours, self.given = os.pipe()
        self._content = b""
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self):
        with open(self._ours, "rb") as pipe:
            self._content = pipe.read()

    def begin(self):
        """Starts reading, after the other end was passed on."""
        os.close(self.given)
        self._thread.start()

    def text(self, timeout_s):
        """The data that was written, None where the writer has not ended in time."""
        self._thread.join(max(timeout_s, 0))
        if self._thread.is_alive():
            return None
        # As subprocess decodes text: every line end becomes a newline.
        return io.TextIOWrapper(io.BytesIO(self._content)).read()


def at_start(env):
    """The variables that matter when a process starts."""
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


# Without bytecode each worker, and each process of the tests, would compile all modules itself.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
#: Their values in this process.
STARTED = at_start(os.environ)


_forks = []
#: Held memory of the lab in the forking process: whether it is small.
_held = []


def close():
    """Ends the process that forks, before the session looks for leftovers."""
    for forks in _forks:
        forks.close()
    _forks.clear()


def run(arguments, options, timeout_s, refused=()):
    """The result of a command line, or None where it needs a new process.

    ``refused`` are names of system calls in tests/targets/refuse.py, which fail in it.
    """
    words = [str(argument) for argument in arguments]
    if options.keys() - {"cwd", "env"} or not can_fork(words, **options):
        return None
    options = {"cwd": Path.cwd(), "env": os.environ} | options
    if not refused and inside.can_run(words, options["env"]):
        return run_inside(words, timeout_s, **options)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with forked(words, refused, text=True, **pipes, **options) as process:
        try:
            texts = process.communicate(timeout=timeout_s)
        finally:
            process.kill()
    return subprocess.CompletedProcess(words, process.returncode, *texts)


def start(arguments, options):
    """The process of a command line as Popen, or None where it needs a new process."""
    words = [str(argument) for argument in arguments]
    chosen = {name: options[name] for name in ("cwd", "env") if name in options}
    usual = options.keys() <= OPTIONS
    return forked(words, **options) if usual and can_fork(words, **chosen) else None


def forked(words, refused=(), *, cwd=None, env=None, **options):
    """As ``start``, for a command line that can fork."""
    if not _forks:
        _forks.append(Forks())
    cwd, env = cwd or Path.cwd(), os.environ if env is None else env
    return Forked((words, refused), cwd=cwd, env=env, **options)


def can_fork(words, cwd=None, env=os.environ):
    """Whether a fork behaves as a new process."""
    if os.environ.get("SPILLCAST_STARTS") == "anew" or at_start(env) != STARTED:
        return False
    is_short = words[:1] == ["--version"] or "--help" in words
    only_reads = words[:1] == ["verify"] and "--from" in words
    if not (is_short or only_reads or "".join(words[:1]) in VERBS):
        return False
    # The preload library's recorder reads it from the environment of its process's start.
    if "preload" in words and env.get("TMPDIR") != os.environ.get("TMPDIR"):
        return False
    return len(message(words, cwd, env)) <= MESSAGE_BYTES


def hold_little_memory():
    """Makes the lab hold little memory between runs, also in later forks."""
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
    """Forks for each request and sends the pid; returns when the requester is gone."""
    from fuzz.trial import warm_up
    from measured_once import measure_once

    warm_up()
    measure_once()
    if sys.argv[1:] == ["little"]:
        hold_little_memory()
    while True:
        request, streams, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 3)
        if not request:
            return
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                channel.close()
                become(json.loads(request), streams)
            channel.send(str(child).encode())
            os._exit(0)
        for stream in streams:
            os.close(stream)
        os.waitpid(between, 0)
        channel.send(ADOPTED)


def become(request, streams):
    """Runs as ``python -m spillcast`` to its end."""
    status = 1
    try:
        for number in inside.SIGNALS:
            usual = signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler
            signal.signal(number, signal.SIG_IGN if number in request["ignored"] else usual)
        inside.put(streams)
        if request["leads"]:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        sys.argv = ["spillcast", *request["words"]]
        for name in request["refused"]:
            refuse(name)
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
