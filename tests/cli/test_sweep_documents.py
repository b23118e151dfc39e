"""What ``sweep memory --json`` and a forecast's ``memory`` hold."""

import pytest
from test_documents import FORECAST, documented, printed, valid

from harness import json_of

SWEEP = documented("sweep-memory")


@pytest.mark.nightly
def test_sweep_memory(tmp_path):
    query = "select max(r) from (select row_number() over (order by hash(i)) r from range({}) t(i))"
    (tmp_path / "q.sql").write_text(query.format(800_000))
    sizes = ("--memory", "16M..64M", "--measure", 2, "--check", "--within", "1ms")
    # Steps are told on stderr.
    document = json_of("sweep", "memory", "--sql", tmp_path / "q.sql", *sizes, "--on", "tmpfs")
    assert valid(SWEEP, document)
    assert document["advice"]["cell"] is None
    assert len(document["points"]) == 3
    assert len(document["errors"]) == sum(not point["measured"] for point in document["points"]) > 0


def test_forecast_tells_of_memory(spilled):
    answer = printed("forecast", spilled.path, "--to", "factor:10", "--within", "1h")
    assert valid(FORECAST, answer)
    assert answer["memory"]["advice"]["within_s"] == 3600
    # Nothing is known of its memory.
    assert [cell["memory_bytes"] for cell in answer["memory"]["cells"]] == [None, None]
