"""Times of a plan's nodes bound its temp I/O where nothing times that."""

import pytest

from cases import cases
from spillcast.evidence.postgres.plan import read_plan

SCANNED = """\
{top}  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..1000.0 rows=9 loops=1)
{workers}  Buffers: shared hit=900, temp read=500 written=500
  ->  Nested Loop  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops={processes})
        Buffers: shared hit=900, temp read=500 written=500
        ->  Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..700.0 rows=9 loops={processes})
              Sort Key: a
              {sorted}
              Buffers: shared hit=500, temp read=500 written=500
              ->  Hash Join (actual time=1.0..{join_ms} loops={loops})
                    {buffers}
        ->  Index Scan on i (actual time=0.001..0.002 rows=1 loops=50000)
              Buffers: shared hit=400
Execution Time: 1000.0 ms
"""
SERIAL = {
    "top": "Aggregate",
    "workers": "",
    "processes": 1,
    "sorted": "Sort Method: external merge  Disk: 4000kB",
    "join_ms": "400.0 rows=9",
    "loops": 1,
    "buffers": "Buffers: shared hit=500",
}
TWO = {
    **SERIAL,
    "top": "Gather",
    "workers": "  Workers Planned: 1\n  Workers Launched: 1\n",
    "processes": 2,
    "loops": 2,
}
#: Most that temp I/O may have taken of 1 s, in its processes together. The index scan took at least
#: 50,000 times 1.5 us, the join 0.4 s in each process.
OUTSIDE = {
    "the join and the index scan do none": (SERIAL, 1 - 0.4 - 0.075),
    "an author left out what the join did": ({**SERIAL, "buffers": ""}, 1 - 0.075),
    "in two processes": (TWO, 2 - 0.8 - 0.075),
    # The index scan's process may be the one that did no temp I/O: it had 1 s for such nodes.
    "of two, one did it": (
        {**TWO, "sorted": "Sort Method: external merge  Disk: 4000kB\n"
         "              Worker 0:  Sort Method: quicksort  Memory: 25kB"}, 1.0),
    "times that do not fit into the run": ({**SERIAL, "join_ms": "1400.0 rows=9"}, 1.0),
}  # fmt: skip


@cases("name", OUTSIDE)
def test_temp_io_took_none_of_the_time_of_nodes_that_did_none(tmp_path, name):
    values, upper_s = OUTSIDE[name]
    path = tmp_path / "plan.txt"
    path.write_text(SCANNED.format(**values))
    assert read_plan(path).time_bounds.upper == pytest.approx(upper_s, abs=1e-4)
