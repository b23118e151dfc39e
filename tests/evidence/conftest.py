"""Fixtures of this folder: what the readers return for a text."""

import pytest

from spillcast.evidence.open import read_figures
from spillcast.evidence.postgres.document import read_documents
from spillcast.evidence.postgres.logs import read_logs
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.postgres.statements import read_rows, read_statements
from spillcast.evidence.selection import Selection


def reader_of_texts(read):
    """A fixture: a function that writes a text into a file, and returns what ``read`` returns."""

    @pytest.fixture
    def of_text(tmp_path):
        def of(text, **selection):
            (path := tmp_path / "pasted.txt").write_text(text)
            return read(path, Selection(**selection)) if selection else read(path)

        return of

    return of_text


documents_of = reader_of_texts(read_documents)
logs_of = reader_of_texts(read_logs)
plan_of = reader_of_texts(read_plan)
rows_of = reader_of_texts(read_rows)
statements_of = reader_of_texts(read_statements)


@pytest.fixture
def figures(tmp_path):
    """Returns a function that reads the figures of a text, or of several."""

    def of(*texts, **selection):
        paths = [tmp_path / f"{at}.txt" for at in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_figures(paths, Selection(**selection))

    return of
