"""The live view of processes that spill: its screen, and the restored terminal."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from cases import cases
from harness import (
    EXACT,
    account_of,
    check_rows,
    completed,
    error_code,
    only_line,
    spill_in,
    spillcast,
)
from screen import Terminal, plain, screen

SCHEMA_PAGE = Path(__file__).parents[2] / "docs" / "schema.md"
#: A live view that writes nothing.
WATCH = ("record", "--live", "--discard")
FOREVER = ("--threads", 2, "--writes", 400, "--reads", 10**6, "--pause", 0.004)


@pytest.fixture
def spilling(places):
    """A process that spills continuously."""
    process = subprocess.Popen(spill_in(places, *FOREVER), env=places.env, stdout=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def view(terminal):
    """The lines on the screen."""
    return [line for line in screen(terminal.text) if line]


def test_the_view_and_the_forecast_of_a_process(places, spilling, monkeypatch):
    monkeypatch.chdir(places.data)
    requested = ("--temp", places.temp, "--to", "latency:2ms")
    with Terminal(*WATCH, "--pid", spilling.pid, *requested) as terminal:
        # The verdict on the operations so far; "temp read" and the like are elsewhere.
        terminal.until("emp I/O")
        terminal.until("pread64 (temp)")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_as_before
        lines = view(terminal)
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"process {spilling.pid}")
    text = "\n".join(lines)
    # An ordinary user's perf events have small buffers, which a busy machine fills.
    lost = "0 lost" if os.geteuid() == 0 else " lost;"
    for words in ("event", "share", "CPU", "mean, by second", "last second:", lost, "of a CPU"):
        assert words in text
    assert any(line.split()[0] == "read" and "MiB" in line for line in lines)
    assert spilling.poll() is None
    assert list(places.data.iterdir()) == [places.base]


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM"])
def test_the_live_view_ends_and_restores_the_terminal(places, spilling, how):
    with Terminal(
        "record", "--live", "--discard", "--pid", spilling.pid, "--temp", places.temp, columns=60
    ) as terminal:
        terminal.until("(temp)")
        if how == "Ctrl-C":
            terminal.press("\x03")
            assert terminal.end() == 0
        else:
            assert terminal.end(signal.SIGTERM) == 128 + signal.SIGTERM
        assert terminal.is_as_before
        assert max(map(len, view(terminal))) <= 60
    assert spilling.poll() is None


def test_lines_of_json_count_every_operation(places):
    output = places.root / "kept.spill"
    result = completed(
        "record", "--live", "--json", "--capture", EXACT, "--to", "factor:2", "-o", output,
        "--", *spill_in(places, "--threads", 2), env=places.env,
    )  # fmt: skip
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert {line["schema"] for line in lines} == {"spillcast.watch/1"}
    assert [line["ended"] for line in lines] == [False] * (len(lines) - 1) + [True]
    # A run that has ended has a forecast, however short it was.
    assert lines[-1]["forecast"]["forecast_s"] > 0, lines[-1]["because"]
    section = SCHEMA_PAGE.read_text().partition("\n## Watch")[2].partition("\n## ")[0]
    assert [key for key in lines[-1] if f"`{key}" not in section and key != "schema"] == []
    account = account_of(result.stderr)
    done = [row for row in account["account"] if row[5] != str(places.base)]
    for of in lines[-1]["temp"]:
        assert of["count"] == sum(row[2] == of["op"] for row in done)
        assert of["bytes"] == sum(row[3] for row in done if row[2] == of["op"])
        assert of["p50_us"] <= of["p99_us"]
        assert of["mean_us"] == pytest.approx(of["total_us"] / of["count"], abs=1)
    check_rows(output, account, base=places.base)


def test_record_live_keeps_the_output_of_the_command_and_the_recording(places):
    command = (*spill_in(places, "--threads", 2, "--pause", 0.02),)
    output = places.root / "run.spill"
    words = ("record", "--live", "-o", output, "--", *command)
    with Terminal(*words, columns=200, TMPDIR=places.temp) as terminal:
        assert terminal.end() == 0
        assert terminal.is_as_before
        lines = view(terminal)
        assert "recording" in plain(terminal.text)
    account = account_of("\n".join(lines))
    check_rows(output, account, base=places.base)
    # The command's output was kept in memory, and is not temp I/O.
    meta = json.loads((output / "meta.json").read_text())
    done = [row[2] for row in account["account"] if row[5] != str(places.base)]
    assert meta["temp"]["reads"] == done.count("read")
    assert meta["temp"]["writes"] == done.count("write")
    # The view is gone; the message about the recording remains.
    assert not any("last second" in line for line in lines)
    assert any(line.startswith("  temp I/O") for line in lines)


@cases(
    ("words", "code"),
    [
        ((), "option-missing"),
        (("--pid", "1", "--backend", "2"), "option-conflict"),
        (("--pid", str(2**22 + 1)), "process-missing"),
        (("--to", "/tmp", "--", "true"), "target-unsuited"),
        (("--to", "nowhere", "--", "true"), "target-unknown"),
        (("--to", "latency:fast", "--", "true"), "option-invalid"),
        (("-o", "x.spill", "--", "true"), "option-conflict"),
    ],
)
def test_invalid_options_are_refused(words, code, tmp_path):
    assert error_code(spillcast(*WATCH, "--json", *words, cwd=tmp_path)) == code
    assert list(tmp_path.iterdir()) == []


@cases("words", [("--discard", "--pid", "1"), ("--", "true")])
def test_a_live_view_needs_a_terminal(words, tmp_path):
    assert "terminal" in only_line(spillcast("record", "--live", *words, cwd=tmp_path), 2)
    assert list(tmp_path.iterdir()) == []
