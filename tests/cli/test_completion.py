"""Completion, tested in the shells themselves."""

import functools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cases import cases
from harness import TIMEOUT_S, completed, spillcast
from spillcast.cli import VERBS

BASH = """
source /dev/stdin <<<"$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_spillcast_completion spillcast
printf '%s\\n' "${COMPREPLY[@]}"
complete -p spillcast
"""
FISH = "echo $argv[1] | source; complete -C $argv[2]"
#: A terminal in which Tab is pressed after the words; ends when the line is as expected.
ZSH = """
zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PROMPT=; autoload -Uz compinit; compinit -u -D; source {script}'
zpty -w z 'zstyle ":completion:*" list-prompt ""; LISTMAX=10000; echo re""ady'
zpty -r -m z line '*ready*'
for words expected in {pairs}; do
zpty -w -n z "$words"$'\\t'
zpty -r -m z line "*$expected*"
print -r -- $line
zpty -w -n z $'\\x15'
done
"""
COMPLETIONS = [
    ("", set(VERBS)),
    ("fore", {"forecast"}),
    ("forecast run.spill --meth", {"--method"}),
    ("forecast run.spill --method ", {"counts", "seed"}),
    ("storage ", {"list", "show", "compare", "managed"}),
]


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@functools.cache
def script(shell):
    done = completed(under=("env", f"_SPILLCAST_COMPLETE=source_{shell}"))
    return done.stdout


def run(shell, *arguments, **options):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, *arguments], capture_output=True, text=True, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@cases(("words", "expected"), COMPLETIONS)
def test_bash(words, expected):
    *completed, how = run(
        "bash", "-c", BASH, "bash", script("bash"), "spillcast", *words.split(" ")
    ).splitlines()
    assert {word.strip() for word in completed} == expected
    assert "-o default" in how, "files are completed by bash"


@pytest.mark.nightly
@cases(("words", "expected"), [*COMPLETIONS[2:4], ("profile hd", {"hdd.trc"})])
def test_fish(words, expected, tmp_path):
    (tmp_path / "hdd.trc").touch()
    completed = run(
        "fish", "--no-config", "-c", FISH, script("fish"), f"spillcast {words}", cwd=tmp_path
    )
    assert {line.split("\t")[0] for line in completed.splitlines()} == expected


def test_zsh(tmp_path):
    (tmp_path / "script").write_text(script("zsh"))
    pairs = {"fore": "forecast", "forecast --meth": "forecast --method"}
    lines = [f"spillcast {words}" for pair in pairs.items() for words in pair]
    code = ZSH.format(script=tmp_path / "script", pairs=shlex.join(lines))
    printed = run("zsh", "-f", "-c", code, timeout=TIMEOUT_S)
    assert all(f"spillcast {expected}" in printed for expected in pairs.values())


def test_the_former_verb_names_the_new_option():
    done = spillcast("completion", "bash")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--install-completion" in done.stderr
