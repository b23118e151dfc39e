"""Words of a shell and characters of a terminal, as a shell and a terminal take them."""

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
def test_a_shell_reads_the_word_that_was_meant(tmp_path, word):
    shown = shell_word(word)
    assert "\n" not in shown
    ran = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, cwd=tmp_path)
    assert ran.stdout == word.encode(errors="surrogateescape")
    # A shell that lacks $'...' takes another word, but one word, and runs nothing.
    lines = subprocess.run(
        ["sh", "-c", f"for one in {shown}; do echo one; done"], capture_output=True, cwd=tmp_path
    )
    assert lines.stdout == b"one\n"
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_no_option_of_the_command_it_is_for(tmp_path):
    (tmp_path / "-n").write_bytes(b"kept")
    command = ["bash", "-c", f"cat {shell_word(Path('-n'))}"]
    ran = subprocess.run(command, capture_output=True, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert ran.stdout == b"kept"


def test_what_has_no_shape_of_its_own_is_shown():
    """By Unicode's own categories: controls, formats that turn directions, separators of lines."""
    for code in range(0x3000):
        letter = chr(code)
        kind = unicodedata.category(letter)
        turns = unicodedata.bidirectional(letter) in {
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"
        }  # fmt: skip
        if letter not in "\t\n" and (kind in ("Cc", "Zl", "Zp") or turns):
            assert visible(letter) in (f"\\x{code:02x}", f"\\u{code:04x}")
    assert visible("ä€😀 plain\ttext\n") == "ä€😀 plain\ttext\n"
