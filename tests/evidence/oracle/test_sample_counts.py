"""Samples of ASH that a query counted by event: shares of the time, with the error of sampling."""

from math import sqrt

import pytest

from cases import cases
from spillcast.errors import EvidenceDamaged, EvidenceUnsuited, InputError
from spillcast.evidence.open import find_evidence, open_evidence
from spillcast.evidence.selection import Selection

QUERY = """\
SQL> select nvl(event, 'ON CPU') event, count(*) from {view}
  2  where sql_id = '8gn3q7k6h3y5n' group by nvl(event, 'ON CPU') order by 2 desc;

"""
ROWS = """\
EVENT                            COUNT(*)
------------------------------ ----------
direct path read temp                 418
{cpu:30}        338
direct path write temp                 12
ASM file metadata operation             5

4 rows selected.
"""
VIEW = "v$active_session_history"


def counts_of(tmp_path, text, elapsed_s=None):
    (path := tmp_path / "spool.txt").write_text(text)
    return open_evidence(find_evidence([path]), Selection(elapsed_s=elapsed_s))


@cases("cpu", ["", "ON CPU"])
@cases(("view", "interval_s"), [(VIEW, 1), ("gv$active_session_history", 1),
                                ("dba_hist_active_sess_history", 10)])  # fmt: skip
def test_samples_stand_for_the_interval_of_their_view(tmp_path, cpu, view, interval_s):
    counts = counts_of(tmp_path, QUERY.format(view=view) + ROWS.format(cpu=cpu))
    assert counts.elapsed_s == pytest.approx(773 * interval_s)
    assert counts.reads.total_ns == pytest.approx(418e9 * interval_s)
    assert counts.writes.total_ns == pytest.approx(12e9 * interval_s)
    # Twice the standard deviation of the binomial distribution.
    errors = [2 * sqrt(773 * share * (1 - share)) for share in (418 / 773, 12 / 773)]
    assert counts.time_bounds.lower == pytest.approx((430 - sum(errors)) * interval_s)


def test_samples_without_those_on_a_cpu_need_the_time_of_the_run(tmp_path):
    waits = QUERY.format(view=VIEW) + ROWS.format(cpu="log file sync")
    with pytest.raises(EvidenceUnsuited):
        counts_of(tmp_path, waits)
    assert counts_of(tmp_path, waits, elapsed_s=773.0).total_s == pytest.approx(430)


@cases("query", ["", QUERY.format(view="v$session")])
def test_counts_that_may_not_be_of_samples_are_refused(tmp_path, query):
    with pytest.raises(InputError):
        counts_of(tmp_path, query + ROWS.format(cpu="ON CPU"))


@cases("last", ["", "sum"])
def test_a_row_of_the_sum_is_no_event(tmp_path, last):
    rows = ROWS.format(cpu="ON CPU").replace("\n\n", f"\n{last:30} {773:>10}\n\n")
    counts = counts_of(tmp_path, QUERY.format(view=VIEW) + rows)
    assert (counts.elapsed_s, counts.reads.total_ns) == (pytest.approx(773), pytest.approx(418e9))


BY_INSTANCE = """\
   INST_ID SQL_ID        EVENT                                      COUNT(*)
---------- ------------- ---------------------------------------- ----------
         1 8km4n2cj01qtz                                                2211
         1 8km4n2cj01qtz direct path read temp                           812
         1 8km4n2cj01qtz direct path write temp                          404
         2 8km4n2cj01qtz direct path read temp                            96
"""


@cases("group", ["inst_id, sql_id, event", "rollup (inst_id, sql_id, event)"])
def test_counts_by_instance_and_event_add_up_unless_some_are_subtotals(tmp_path, group):
    query = f"SQL> select inst_id, sql_id, event, count(*) from g{VIEW} group by {group};\n\n"
    if "rollup" in group:
        with pytest.raises(EvidenceUnsuited):
            counts_of(tmp_path, query + BY_INSTANCE)
        return
    counts = counts_of(tmp_path, query + BY_INSTANCE)
    assert counts.elapsed_s == pytest.approx(2211 + 812 + 404 + 96)
    assert counts.reads.total_ns == pytest.approx((812 + 96) * 1e9)


#: Columns that are not, or not only, counts of samples.
OTHERS = {
    "count(*)*10": "count(*)*10",
    "cnt": "count(*) * 10 cnt",
    "users": "count(distinct session_id) users",
    "samples": "count(event) samples",
}


@cases("name", OTHERS)
def test_columns_that_are_no_counts_of_samples_are_refused(tmp_path, name):
    query = QUERY.format(view=VIEW).replace("count(*)", OTHERS[name])
    rows = ROWS.format(cpu="ON CPU").replace(f"{'COUNT(*)':>11}", f"{name.upper():>11}")
    assert name.upper() in rows
    with pytest.raises(EvidenceDamaged):
        counts_of(tmp_path, query + rows)


@cases("alias", ["samples", "as cnt", '"secs"'])
def test_an_alias_of_the_count_of_samples_is_its_column(tmp_path, alias):
    query = QUERY.format(view=VIEW).replace("count(*)", f"count(*) {alias}")
    name = alias.removeprefix("as ").strip('"').upper()
    rows = ROWS.format(cpu="ON CPU").replace(f"{'COUNT(*)':>8}", f"{name:>8}")
    assert counts_of(tmp_path, query + rows).elapsed_s == pytest.approx(773)


@cases("count", ["####", "4.18", ""])
def test_an_unreadable_count_of_waits_for_temp_files_is_refused(tmp_path, count):
    rows = ROWS.format(cpu="ON CPU").replace("418", f"{count:>3}")
    with pytest.raises(EvidenceDamaged):
        counts_of(tmp_path, QUERY.format(view=VIEW) + rows)
