"""Completion scripts, asked by the shells that they are for."""

import json
import shutil
import subprocess

import pytest

from harness import spillcast
from spillcast.cli import VERBS

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_spillcast
printf '%s\\n' "${COMPREPLY[@]}"
"""
#: A terminal in which Tab is pressed after the words; it ends when the line is as expected.
ZSH = """
zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PROMPT=; autoload -Uz compinit; compinit -u -D; source {script}'
zpty -w z 'zstyle ":completion:*" list-prompt ""; LISTMAX=10000; echo re""ady'
zpty -r -m z line '*ready*'
zpty -w -n z $'{words}\\t'
zpty -r -m z line '*{expected}*'
print -r -- $line
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        result = spillcast("completion", shell)
        assert result.returncode == 0, result.stderr
        (folder / shell).write_text(result.stdout)
    return folder


def in_bash(scripts, words):
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", scripts / "bash", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return set(done.stdout.split())


def in_fish(scripts, words):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    quoted = " ".join(words)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {scripts / 'fish'}; complete -C '{quoted}'"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


ASKED = [
    (("spillcast", ""), set(VERBS)),
    (("spillcast", "fore"), {"forecast"}),
    (("spillcast", "forecast", "run.spill", "--meth"), {"--method"}),
    (("spillcast", "forecast", "run.spill", "--method", ""), {"counts", "seed"}),
    (("spillcast", "storage", ""), {"list", "show", "compare"}),
    (("spillcast", "storage", "compare", "--js"), {"--json"}),
    (("spillcast", "completion", "z"), {"zsh"}),
]


@pytest.mark.parametrize("ask", [in_bash, in_fish], ids=["bash", "fish"])
@pytest.mark.parametrize(("words", "expected"), ASKED, ids=[" ".join(w) for w, _ in ASKED])
def test_words(scripts, ask, words, expected):
    assert ask(scripts, words) == expected


def test_bash_leaves_files_to_itself(scripts):
    assert in_bash(scripts, ("spillcast", "profile", "ha")) == set()
    assert in_bash(scripts, ("spillcast", "forecast", "--to", "nv")) == set()
    assert in_bash(scripts, ("spillcast", "record", "--", "duckdb", "-")) == set()
    assert "-o bashdefault -o default" in (scripts / "bash").read_text()


def test_fish_completes_files(scripts, tmp_path, monkeypatch):
    (tmp_path / "hdd.trc").touch()
    monkeypatch.chdir(tmp_path)
    assert in_fish(scripts, ("spillcast", "profile", "hd")) == {"hdd.trc"}
    assert in_fish(scripts, ("spillcast", "probe", "--like", "hd")) == {"hdd.trc"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("spillcast fore", "spillcast forecast"),
        ("spillcast forecast --meth", "spillcast forecast --method"),
    ],
)
def test_zsh(scripts, words, expected):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    code = ZSH.format(script=scripts / "zsh", words=words, expected=expected)
    done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, timeout=60)
    assert expected in done.stdout, done.stderr


def test_a_key_press_starts_no_program(scripts):
    """What a shell runs is in the script; spillcast is named only as what is completed."""
    for line in (scripts / "bash").read_text().splitlines():
        assert "$(spillcast" not in line
        assert "`spillcast" not in line


def test_the_document(scripts):
    said = json.loads(spillcast("completion", "bash", "--json").stdout)
    script = (scripts / "bash").read_text()
    assert said == {"schema": "spillcast.completion/1", "shell": "bash", "script": script}


def test_no_such_shell():
    result = spillcast("completion", "tcsh")
    assert result.returncode == 2
    assert "bash" in result.stderr
