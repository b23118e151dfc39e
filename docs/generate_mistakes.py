"""The page of mistakes, of what the program says to them: ``python docs/generate_mistakes.py``."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).with_name("mistakes.md")
HEAD = """# Mistakes

What spillcast answers to common mistakes: one line that names the mistake and one that fixes it, on
stderr, with exit status 2. Here `run.spill` and `other.spill` are recordings, `flash.json` is a
storage, `nvme` a directory and `notes.txt` some text. The last two are by an ordinary user.
"""
#: What somebody got wrong, and what they typed.
MISTAKES = (
    ("a misspelt verb", "forcast run.spill --to flash.json"),
    ("a misspelt option", "forecast run.spill --too flash.json"),
    ("no verb", "run.spill --to flash.json"),
    ("the arguments in the wrong order", "forecast flash.json --to run.spill"),
    ("arguments of check in the wrong order", "check run.spill forecast.json"),
    ("a file that is not a recording", "forecast notes.txt --to flash.json"),
    ("a directory instead of a file", "forecast nvme --to flash.json"),
    ("an empty file", "forecast empty.json --to flash.json"),
    ("a forecast of a forecast", "forecast forecast.json --to flash.json"),
    ("two recordings", "forecast run.spill other.spill --to flash.json"),
    ("a target that is not a directory", "probe notes.txt --like run.spill"),
    ("a directory that does not exist", "probe nvme2 --like run.spill"),
    ("a value without its unit", "forecast run.spill --to latency:150"),
    ("a value with an unknown unit", "forecast run.spill --to flash.json --elapsed 5furlongs"),
    ("a fraction given in percent", "forecast run.spill --to flash.json --confidence 90"),
    ("a server that is not running", "postgres host=/nowhere"),
    ("a process that has ended", "record -o new.spill --pid 4194305"),
)
#: The same by an ordinary user, and the system calls that are refused meanwhile.
ORDINARY = (
    ("a process of another user, and not root", "record -o new.spill --pid 1", ()),
    (
        "perf events that are refused, as in a container",
        "record --capture perf -o new.spill -- true",
        ("perf_event_open",),
    ),
)
TARGETS = PAGE.parents[1] / "tests" / "targets"


def folder_in(room: Path) -> Path:
    """The files that the mistakes are made with."""
    sys.path.insert(0, str(PAGE.parents[1] / "tests"))
    from evidence import recording, storage

    loads = [("write", 262_144, 40, 4_000_000), ("read", 262_144, 40, 6_000_000)]
    for name in ("run.spill", "other.spill"):
        recording(room / name, loads, elapsed_s=25.0, cpu_s=5.0)
    storage({(op, 262_144): 400_000 for op in ("write", "read")}).save(room / "flash.json")
    (room / "nvme").mkdir()
    (room / "notes.txt").write_text("ask for more memory\n")
    (room / "empty.json").touch()
    forecast = ["forecast", "run.spill", "--to", "flash.json", "--json"]
    (room / "forecast.json").write_text(_ran(forecast, room).stdout)
    return room


def answer(typed: str, folder: Path, under: Sequence[str] = ()) -> list[str]:
    """What is printed; the exit status must be 2, and nothing goes to stdout."""
    ran = _ran(typed.split(), folder, under)
    if ran.returncode != 2 or ran.stdout:
        raise AssertionError(f"{typed}: exit status {ran.returncode}, {ran.stdout or ran.stderr}")
    # How many files a program looks at is its own business.
    return re.sub(r"\(\d+ calls", "(3 calls", ran.stderr).splitlines()


def said_to_others(typed: str, refused: Sequence[str]) -> list[str]:
    """What an ordinary user reads, who cannot do these system calls."""
    under = [] if os.geteuid() else [sys.executable, str(TARGETS / "ordinary_user.py")]
    if refused:
        under += [sys.executable, str(TARGETS / "refuse.py"), *refused]
    with tempfile.TemporaryDirectory() as room:
        os.chmod(room, 0o777)
        return answer(typed, Path(room), under)


def page(folder: Path) -> str:
    """All of them, each with what was said."""
    matches = [(title, typed, answer(typed, folder)) for title, typed in MISTAKES]
    matches += [
        (title, typed, said_to_others(typed, refused)) for title, typed, refused in ORDINARY
    ]
    parts = [HEAD]
    for title, typed, lines in matches:
        text = "\n".join([f"$ spillcast {typed}", *lines])
        parts.append(f"{title[0].upper()}{title[1:]}:\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _ran(
    words: list[str], folder: Path, under: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    command = [*under, sys.executable, "-m", "spillcast", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as room:
        PAGE.write_text(page(folder_in(Path(room))))
