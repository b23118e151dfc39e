"""What readers of figures make of texts, for the tests of this folder."""

import pytest

from spillcast.evidence.open import read_figures
from spillcast.evidence.selection import Selection


@pytest.fixture
def figures(tmp_path):
    """What is read of a text, or of several."""

    def of(*texts, **selection):
        paths = [tmp_path / f"{at}.txt" for at in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return read_figures(paths, Selection(**selection))

    return of
