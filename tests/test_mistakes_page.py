"""The page of mistakes shows the real messages: a line with the error and one with the remedy."""

import re
from pathlib import Path

from harness import generator, spillcast

ROOT = Path(__file__).parents[1]
generate = generator("mistakes")


def test_the_page_is_up_to_date(monkeypatch, tmp_path):
    def run(words, folder, under=()):
        return spillcast(*words, under=under, cwd=folder)

    monkeypatch.setattr(generate, "_ran", run)
    result = generate.page(generate.folder_in(tmp_path))
    assert generate.PAGE.read_text() == result, "write it with: python docs/generate_mistakes.py"


def test_each_mistake_has_one_line_and_one_remedy():
    blocks = re.findall(r"^```text\n(.*?)^```$", generate.PAGE.read_text(), re.M | re.S)
    assert len(blocks) == len(generate.MISTAKES) + len(generate.ORDINARY)
    for block in blocks:
        _, named, *mended = block.splitlines()
        assert named.startswith("spillcast: "), block
        assert len(mended) == 1, block
        assert mended[0].startswith("  "), block
