"""Columns of pg_stat_statements under the names and in the units that queries give them."""

import pytest

from cases import cases
from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.postgres.statements import read_statements

#: Users' selections: only the mean, by its own name or an alias; a comment ends below the table.
MEANS = """\
   id | calls | temp_blks_read | temp_blks_written |  {mean}  | query
------+-------+----------------+-------------------+----------+------------
   77 |     4 |            600 |               800 |   250.5  | select a +
      |       |                |                   |          | from t
(1 row)

END_OF_SAMPLE
"""


@cases("mean", ["mean_exec_time", "mean_time", "avg_ms", "mean_exec_ms", "AVG_TIME"])
def test_the_mean_of_the_calls_replaces_their_total(statements_of, mean):
    counts = statements_of(MEANS.format(mean=mean))
    assert (counts.elapsed_s, counts.reads.count, counts.writes.count) == (0.2505, 150, 200)


#: 20 calls of 1.6 s, each with 3,200 blocks (25 MiB) read and 6,400 (50 MiB) written: in the units
#: and with the names that queries give them.
UNITS = {
    "calls,total_seconds,temp_mb_read,temp_mb_written": "20,32,500,1000",
    "ncalls,total_min,temp_read_bytes,temp_written_bytes": "20,0.53333,524288000,1048576000",
    "calls,avg_s,temp_blocks_read_per_call,temp_blocks_written_per_call": "20,1.600,3200,6400",
    "num_calls,mean_exec_time,avg_temp_mb_read,avg_temp_mb_written": "20,1600,25.0,50.0",
    "executions,total_exec_time,temp_read,temp_written": "20,00:00:32,500 MB,1000 MB",
    "calls,total_time,temp_blks_read,temp_written": "20,0 days 00:00:32,64000,1024000 kB",
}


@cases("heading", UNITS)
def test_names_of_columns_give_their_units(statements_of, heading):
    counts = statements_of(f"query,{heading}\nselect a,{UNITS[heading]}\n")
    assert counts.elapsed_s == pytest.approx(1.6, rel=1e-4)
    assert (counts.reads.count, counts.writes.count) == (3200, 6400)


PSQL = """\
 ncalls | total_s | temp_mb_read | temp_mb_written |  query
--------+---------+--------------+-----------------+----------
     20 |    32.0 |          500 |            1000 | select a
(1 row)
"""


def test_other_names_of_columns_are_read_below_the_bars_of_psql(statements_of):
    counts = statements_of(PSQL)
    assert (counts.elapsed_s, counts.reads.count, counts.writes.count) == (1.6, 3200, 6400)


@cases("columns", ["temp_read,temp_written", "temp_gb_read,temp_gb_written"])
def test_figures_without_a_unit_or_rounded_by_half_are_refused(tmp_path, columns):
    path = tmp_path / "rows.csv"
    path.write_text(f"query,calls,total_exec_time,{columns}\nselect a,20,32000,1,2\n")
    with pytest.raises(EvidenceIncomplete):
        read_statements(path)
