"""Fixtures of this folder: what the readers of figures return for a text."""

import pytest

from spillcast.evidence.open import read_figures
from spillcast.evidence.selection import Selection


@pytest.fixture
def figures(tmp_path):
    """Returns a function that reads the figures of a text, or of several."""

    def of(*texts, **selection):
        paths = [tmp_path / f"{at}.txt" for at in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return read_figures(paths, Selection(**selection))

    return of
