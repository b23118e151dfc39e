"""How tests run spillcast and the programs that it records."""

import errno
import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import forked
from spillcast import _core

TARGETS = Path(__file__).parent / "targets"
#: A run that does not end is given up; a busy machine takes minutes to start a JVM.
TIMEOUT_S = 600
BASE_BYTES = 512 * 101
#: The capture source for commands of which every call counts: on a busy machine perf events miss
#: names of files that an ordinary user's command closes.
EXACT = "auto" if os.geteuid() == 0 else "preload"
#: Runs a command without privilege to read the files of other users.
CONFINED = (
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)


def spillcast_command(*arguments):
    """The command line of spillcast with these arguments."""
    return [sys.executable, "-m", "spillcast", *map(str, arguments)]


def partial_folders(path):
    """The folders in which a recording called ``path`` is or was being written."""
    return sorted(path.parent.glob(f"{path.name}.????????.partial"))


def spillcast(*arguments, under=(), anew=False, **options):
    """Runs spillcast to its end; ``under`` is a command that runs it, such as ``refuse_perf()``.

    ``anew`` always starts a separate process.
    """
    refused = refused_calls(under)
    starts = anew or refused is None
    result = None if starts else forked.run(arguments, options, TIMEOUT_S, refused)
    return result or subprocess.run(
        [*under, *spillcast_command(*arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        **options,
    )


def completed(*arguments, **options):
    """The result of a run that must succeed."""
    result = spillcast(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result


def json_of(*arguments, **options):
    """The document that a successful run prints with ``--json``."""
    return json.loads(completed(*arguments, "--json", **options).stdout)


def started(*arguments, under=(), **options):
    """The process of spillcast, as Popen with these options; ``under`` is as in ``spillcast``."""
    process = None if under else forked.start(arguments, options)
    return process or subprocess.Popen([*under, *spillcast_command(*arguments)], **options)


def succeeded(process, sent=None):
    """The output and the messages of a started process that must succeed, read to its end."""
    stdout, stderr = process.communicate(sent)
    assert process.returncode == 0, stderr
    return stdout, stderr


def probed_grid(folder, output):
    """A run that probes a directory for a second, or longer where a busy machine measured nothing.

    Its grid is in ``output``.
    """
    for budget in ("1s,16M", "4s,16M", "16s,16M"):
        result = spillcast("probe", folder, "--grid", "--budget", budget, "-o", output)
        if "no cell was measured" not in result.stderr:
            break
    assert result.returncode == 0, result.stderr
    return result


def generator(page):
    """The module that generates a page of docs."""
    path = TARGETS.parents[1] / "docs" / f"generate_{page}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def target(name, *arguments):
    """The command line of a program of tests/targets."""
    return [sys.executable, str(TARGETS / f"{name}.py"), *map(str, arguments)]


def compiled(name, folder):
    """The program of a C file of tests/targets."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler (cc)")
    source, program = TARGETS / f"{name}.c", folder / name
    subprocess.run(["cc", "-O1", "-pthread", "-o", program, source], check=True)
    return program


def spill_in(places, *options):
    """The command line of the spill program in these places."""
    return target("spill", "--file", places.temp / "spill", "--base", places.base, *options)


@functools.cache
def ensure_usable(capture):
    """Tries a capture source. OSError if it cannot be used now; a success is remembered."""
    _core.try_source(capture)


def available(capture):
    """The name of a capture source; skips the test where it cannot be used."""
    try:
        ensure_usable(capture)
    except OSError as error:
        pytest.skip(f"{capture} is not to be had here: {error.strerror}")
    return capture


def bpf_is_built():
    """Skips the test where the core was built without the eBPF programs, by BPF=no."""
    try:
        ensure_usable("bpf")
    except OSError as error:
        if error.errno == errno.ENOSYS:
            pytest.skip("the core was built with BPF=no")


def refused_calls(under):
    """The system calls that a command refuses to others, or None for any other command."""
    names = list(under)[2::3]
    refusals = [word for name in names for word in target("refuse", name)]
    return names if refusals == list(under) else None


def refuse_perf():
    """A command that runs others with perf events refused."""
    return target("refuse", "perf_event_open")


def refuse_bpf():
    """A command that runs others with eBPF refused."""
    return target("refuse", "bpf")


def refuse_tracing():
    """A command that runs others with all capture by the kernel refused."""
    return [*refuse_bpf(), *refuse_perf()]


def refuse_io_uring():
    """A command that runs others with io_uring refused."""
    return target("refuse", "io_uring_setup")


def ordinary_user():
    """A command that runs others without privilege; empty where this process has none."""
    return target("ordinary_user") if os.geteuid() == 0 else []


def environment(**changes):
    """The environment of this process with changes."""
    return os.environ | {name: str(value) for name, value in changes.items()}


def make_places(root):
    """A directory for temp files, and another with a base table."""
    temp, data = root / "temp", root / "data"
    temp.mkdir()
    data.mkdir()
    base = data / "table.db"
    base.write_bytes(bytes(range(256)) * (BASE_BYTES // 256))
    return SimpleNamespace(root=root, temp=temp, data=data, base=base, env=environment(TMPDIR=temp))


def until(condition, subject):
    """Waits until a condition holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {subject}"
        time.sleep(0.01)


def until_attached(output, process):
    """Waits until a recorder has begun."""
    until(lambda: partial_folders(output) or process.poll() is not None, "the attachment")


def only_line(result, status):
    """The single line, apart from hints, with which a run failed; no traceback, no data."""
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    # A hint may warn that a password on the command line can be read.
    first, *hints = [line for line in result.stderr.splitlines() if "PGPASSFILE" not in line]
    assert first.startswith("spillcast: ")
    assert len(hints) <= 1
    assert all(hint.startswith("  ") for hint in hints)
    return result.stderr


def error_code(result):
    """The error code of a failed command with ``--json``."""
    error = json.loads(result.stdout)
    assert error["exit_status"] == result.returncode
    assert result.stderr.startswith(f"spillcast: {error['message']}\n")
    return error["code"]


def account_of(stdout):
    """The account of the spill program: the first line with a JSON document."""
    return json.loads(next(line for line in stdout.splitlines() if line.startswith('{"account"')))


def rows(recording, *, files):
    """Reads and writes of ``files``, each as in the spill program's account, and whether temp."""
    names = ["session", "event", "op", "bytes", "offset", "file", "temp"]
    table = pq.read_table(Path(recording) / "waits.parquet", columns=names)
    picked = zip(*(table[name].to_pylist() for name in names), strict=True)
    return Counter(row for row in picked if row[2] and row[5] in files)


def check_rows(recording, account, *, base):
    """Asserts that a recording has exactly the operations of an account of the spill program."""
    files = {operation[5] for operation in account["account"]}
    assert rows(recording, files=files) == expected_rows(account, base=base)


def expected_rows(account, *, base):
    """The rows expected from an account of the spill program: temp except those on ``base``."""
    done = account["account"]
    return Counter((*operation, operation[5] != str(base)) for operation in done)
