"""Shell quoting and visible characters, checked with a real shell and Unicode categories."""

import subprocess
import unicodedata
from pathlib import Path

from cases import cases
from spillcast.text import shell_word, visible

WORDS = [
    "plain", "", "two words", "it's", '"', "$(touch planted)", "`touch planted`", "\\", "new\nline",
    "x'\n'; touch planted; '", "\\'\n; touch planted", "tab\tesc\x1b[31m", "\udc80",
    "\u202eexe", "ä",
]  # fmt: skip


@cases("word", WORDS)
def test_a_shell_reads_back_the_quoted_word(tmp_path, word):
    shown = shell_word(word)
    assert "\n" not in shown
    ran = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, cwd=tmp_path)
    assert ran.stdout == word.encode(errors="surrogateescape")
    # A shell without $'...' reads another word, but a single one, and runs nothing.
    lines = subprocess.run(
        ["sh", "-c", f"for one in {shown}; do echo one; done"], capture_output=True, cwd=tmp_path
    )
    assert lines.stdout == b"one\n"
    assert list(tmp_path.iterdir()) == []


def test_a_quoted_path_is_not_an_option(tmp_path):
    (tmp_path / "-n").write_bytes(b"kept")
    command = ["bash", "-c", f"cat {shell_word(Path('-n'))}"]
    ran = subprocess.run(command, capture_output=True, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert ran.stdout == b"kept"


def test_invisible_characters_are_made_visible():
    """By Unicode categories: controls, formats that change the text direction, line separators."""
    for code in range(0x3000):
        letter = chr(code)
        kind = unicodedata.category(letter)
        turns = unicodedata.bidirectional(letter) in {
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"
        }  # fmt: skip
        if letter not in "\t\n" and (kind in ("Cc", "Zl", "Zp") or turns):
            assert visible(letter) in (f"\\x{code:02x}", f"\\u{code:04x}")
    assert visible("ä€😀 plain\ttext\n") == "ä€😀 plain\ttext\n"
