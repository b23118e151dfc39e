"""The recorder without Python: it writes what spillcast writes, and spillcast reads it."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cases import cases, nightly
from harness import (
    EXACT,
    account_of,
    available,
    check_rows,
    json_of,
    ordinary_user,
    refuse_tracing,
    spill_in,
    spillcast,
    until,
)
from oracle_files import blocks, write_trace
from spillcast.recording import Recording
from spillcast.storage import Storage

BUILT = Path(sys.executable).parent / "spillcast-recorder"


def program():
    path = shutil.which("spillcast-recorder") or BUILT
    if not Path(path).exists():
        pytest.skip("there is no spillcast-recorder: run make build")
    return str(path)


def recorder(*arguments, under=(), **options):
    command = [*under, program(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def record(places, *options, under=()):
    output = places.root / "run.spill"
    command = spill_in(places, "--threads", 2)
    result = recorder("record", *options, "-o", output, "--", *command, under=under, env=places.env)
    assert result.returncode == 0, result.stderr
    return output, account_of(result.stdout)


def keys(document, before=""):
    for name, value in document.items():
        yield before + name
        if isinstance(value, dict):
            yield from keys(value, f"{before}{name}.")


@pytest.mark.parametrize("capture", ["bpf", "preload", *nightly("perf")])
def test_every_operation_is_recorded_exactly(places, capture):
    available(capture)
    output, account = record(places, "--capture", capture)
    check_rows(output, account, base=places.base)
    meta = Recording.open(output).meta
    assert meta.capture.method == capture
    assert meta.capture.lost == 0
    temp = [item for item in account["account"] if item[5] != str(places.base)]
    assert meta.temp.operations == len(temp)


#: Writes 200,000 times.
WRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for at in range(200_000):
    os.pwrite(fd, b"x", at % 4096)
"""


def test_a_limit_of_file_sizes_ends_no_recording(places):
    output = places.root / "run.spill"
    limited = ["sh", "-c", 'ulimit -f "$0"; exec "$@"']
    result = recorder("record", "-o", output, "--", "true", under=[*limited, "60"])
    assert (result.returncode, output.exists()) == (2, False)
    assert result.stderr
    command = [sys.executable, "-c", WRITES, places.temp / "spill"]
    words = ("record", "--temp", places.temp, "-o", output, "--", *command)
    result = recorder(*words, under=[*limited, "2200"])
    assert result.returncode == 0, result.stderr
    meta = Recording.open(output).meta
    assert meta.temp.writes + meta.capture.lost >= 200_000
    assert meta.raw.rows < meta.raw.rows_seen
    assert os.strerror(errno.EFBIG) in result.stderr
    shutil.rmtree(output)
    # The command itself has the default.
    words = ("record", "-o", output, "--", "grep", "SigIgn", "/proc/self/status")
    ignored = int(recorder(*words).stdout.split()[1], 16)
    assert not ignored >> (signal.SIGXFSZ - 1) & 1


def test_meta_has_the_keys_of_a_recording_by_spillcast(places, spilled):
    output, _ = record(places)
    ours = json.loads((output / "meta.json").read_text())
    theirs = json.loads((spilled.path / "meta.json").read_text())
    assert list(keys(ours)) == list(keys(theirs))


def test_no_argument_of_a_command_is_kept(places):
    output, _ = record(places)
    kept = json.loads((output / "meta.json").read_text())["engine"]["command"]
    assert len(kept) == 1


def test_its_recording_can_be_forecast(places):
    output, _ = record(places, "--capture", EXACT)
    assert json_of("forecast", output, "--to", "latency:1ms")["forecast_s"] > 0


def test_a_command_that_failed_before_a_spill_gives_no_conclusion(tmp_path):
    """Each is recorded under a new name, and its status is passed on."""
    for ending, status in (("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 128 + 9)):
        result = recorder("record", "--", "sh", "-c", ending, cwd=tmp_path)
        assert result.returncode == status
        assert "did not spill" in result.stderr
        assert ("does not matter" in result.stderr) == (status == 0)
    made = {path.name: Recording.open(path).meta for path in tmp_path.iterdir()}
    assert made.keys() == {"run.spill", "run-2.spill", "run-3.spill"}
    for name, meta in made.items():
        document = json.loads((tmp_path / name / "meta.json").read_text())
        assert document["spilled"] is meta.spilled
        # An ordinary user's perf events may miss the names of files, which may be temp files.
        assert meta.spilled is False or (meta.spilled is None and os.geteuid() != 0)


def test_preload_is_used_where_the_kernel_refuses_tracing(places):
    output, account = record(places, under=refuse_tracing())
    assert Recording.open(output).meta.capture.method == "preload"
    check_rows(output, account, base=places.base)


def test_in_a_container_the_reason_for_ebpf_is_named(places):
    available("bpf")
    under = ["unshare", "--pid", "--fork", "--mount-proc"]
    words = ["record", "--capture", "bpf", "-o", places.root / "x.spill", "--", "true"]
    result = recorder(*words, under=under)
    assert result.returncode == 2
    assert "process ids are those of a container" in result.stderr
    assert "--pid=host" in result.stderr


def test_an_ordinary_user_can_record(open_places):
    output, _ = record(open_places, under=ordinary_user())
    assert json.loads((output / "meta.json").read_text())["temp"]["writes"] > 0


def test_an_old_recording_is_replaced_and_nothing_else(places):
    output, _ = record(places)
    (places.temp / "spill").unlink(missing_ok=True)
    again, _ = record(places, "--force")
    assert again == output
    before = (output / "meta.json").read_bytes()
    assert recorder("record", "-o", output, "--", "true").returncode == 2
    assert (output / "meta.json").read_bytes() == before
    foreign = places.root / "mine"
    foreign.mkdir()
    (foreign / "letter").write_text("dear")
    result = recorder("record", "-o", foreign, "--", "true")
    assert result.returncode == 2
    assert "is not a recording" in result.stderr
    assert [path.name for path in foreign.iterdir()] == ["letter"]
    assert not list(places.root.glob(".*.partial-*"))


@cases(
    ("words", "answer"),
    [
        (["record"], "--pid PID or -- COMMAND"),
        (["record", "--", "no-such-program"], "no such command"),
        (["record", "--capture", "paper", "--", "true"], "give one of auto"),
        (["record", "--pid", "999999999"], "no such process"),
        (["record", "--duration", "5", "--", "true"], "5m"),
        (["record", "--temp", "/no/such", "--", "true"], "no such directory"),
        (["emulate", "/tmp"], "--read"),
        (["profile", "/no/such.trc"], "No such file"),
        (["probe", "/no/such"], "/no/such"),
        (["paper"], "no such verb"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(words, answer, tmp_path):
    result = recorder(*words, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert answer in result.stderr
    first, *hints = result.stderr.splitlines()
    assert first.startswith("spillcast-recorder: ")
    assert len(hints) <= 1
    assert result.stdout == ""


def test_the_status_of_a_command_is_passed_on(places):
    command = ["sh", "-c", f"echo x > {places.temp}/f; exit 7"]
    output = places.root / "x.spill"
    result = recorder("record", "-o", output, "--", *command, env=places.env)
    assert result.returncode == 7
    assert Recording.open(output).meta.engine.settings["exit_status"] == 7


def test_a_trace_is_profiled_like_spillcast_does(tmp_path):
    waits = [("direct path read temp", us, blocks(31)) for us in (900, 1100, 4000)]
    trace = write_trace(tmp_path / "small.trc", waits)
    document = json.loads(recorder("profile", trace, "--by", "event,file").stdout)["rows"]
    temp = next(row for row in document if row["event"] == "direct path read temp")
    assert (temp["count"], temp["total_us"], temp["max_us"]) == (3, 6000, 4000)


def test_a_probe_is_a_target_of_a_forecast(places, spilled):
    output = places.root / "here.json"
    result = recorder("probe", places.temp, "--budget", "2s", "-o", output)
    assert result.returncode == 0, result.stderr
    assert Storage.load(output).of("read")
    result = spillcast("forecast", spilled.path, "--to", output, "--json")
    # Such a short probe may be too little for a number.
    assert result.returncode in (0, 3), result.stderr


def test_processes_left_running_by_a_command_are_reported(tmp_path):
    options = ["--capture", available("bpf"), "--temp", tmp_path, "-o", tmp_path / "run.spill"]
    result = recorder("record", *options, "--", "sh", "-c", "sleep 2 >/dev/null 2>&1 &")
    assert result.returncode == 0
    assert "--pid" in result.stderr


def test_a_recording_is_kept_with_closed_output_streams(tmp_path):
    nobody, closed = os.pipe()
    os.close(nobody)
    for number, streams in enumerate([{"stderr": closed}, {"stdout": closed}]):
        output = tmp_path / f"{number}.spill"
        words = [program(), "record", "-o", output, "--", "true"]
        assert subprocess.run(words, **streams).returncode == 0
        assert Recording.open(output)
    assert subprocess.run([program(), "--help"], stdout=closed).returncode == 0
    os.close(closed)


def test_a_signal_ends_the_command_of_an_emulation(tmp_path):
    mountpoint = tmp_path / "slow"
    mountpoint.mkdir()
    words = [program(), "emulate", mountpoint, "--read", "1ms", "--", "sleep", "60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        if b"mounted" not in running.stderr.readline():
            pytest.skip("FUSE does not work here")
        running.send_signal(signal.SIGTERM)
        document = json.loads(running.communicate(timeout=30)[0])
    assert (running.returncode, document["exit_status"]) == (128 + 15, 128 + 15)
    assert not mountpoint.is_mount()


def test_a_killed_emulation_leaves_no_files(tmp_path):
    (mountpoint := tmp_path / "slow").mkdir()
    (files := tmp_path / "files").mkdir()
    words = [program(), "emulate", mountpoint, "--read", "1ms"]
    environment = {**os.environ, "TMPDIR": str(files)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environment) as running:
        if b"mounted" not in running.stderr.readline():
            pytest.skip("FUSE does not work here")
        (mountpoint / "file").write_text("text")
        assert len(list(files.rglob("file"))) == 1
        running.kill()
    until(lambda: not list(files.iterdir()), "the files to go")
    until(lambda: str(mountpoint) not in Path("/proc/self/mounts").read_text(), "the mount to go")


def test_two_emulations_run_at_the_same_time(tmp_path):
    def words(name):
        (tmp_path / name).mkdir()
        return [program(), "emulate", tmp_path / name, "--read", "1ms"]

    files = tmp_path / "files"
    files.mkdir()
    environment = {**os.environ, "TMPDIR": str(files)}
    with subprocess.Popen(words("first"), stderr=subprocess.PIPE, env=environment) as running:
        if b"mounted" not in running.stderr.readline():
            pytest.skip("FUSE does not work here")
        second = [*words("second"), "--", "touch", tmp_path / "second" / "file"]
        assert subprocess.run(second, capture_output=True, env=environment).returncode == 0
        running.terminate()
    assert list(files.iterdir()) == []
