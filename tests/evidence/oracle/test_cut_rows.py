"""Rows of waits: cut within a number, or complete but shorter than their columns."""

import pytest

from cases import cases
from spillcast.errors import EvidenceDamaged
from spillcast.evidence.oracle.report_tables import tables_of

CUT_WITHIN = """\
EVENT                            TOTAL_WAITS TIME_WAITED_MICRO
-------------------------------- ----------- -----------------
db file sequential read                 1042           5042121
direct path read temp                 463035           51381
direct path write temp                 20112            370000
log file sync                            100            370000
"""


CUT_ALONE = "".join(CUT_WITHIN.splitlines(True)[:2]) + f"direct path write temp{20112:22}{370:15}"


@cases("text", [CUT_WITHIN, CUT_ALONE])
def test_a_row_that_ends_within_a_number_is_refused(figures, text):
    with pytest.raises(EvidenceDamaged):
        figures(text, elapsed_s=1)


def test_numbers_at_the_left_of_their_columns_are_complete(figures):
    rows = [line.rsplit(None, 1) for line in CUT_WITHIN.splitlines()]
    text = "\n".join(f"{rest.ljust(44)} {number}" for rest, number in rows)
    assert figures(text, elapsed_s=1).total_s == pytest.approx(0.421381)


TOTAL_CUT = f"""\
{CUT_WITHIN.replace("   51381", "51381990")}\
-------------------------------- ----------- -----------------
sum                                   484289            57164
"""


def test_a_total_cut_by_the_end_of_the_file_is_dropped():
    (table,) = tables_of(TOTAL_CUT)
    assert table.cells[-1] == ["sum", "484289", ""]
    assert [row[-1] for row in table.cells[:-1]] == ["5042121", "51381990", "370000", "370000"]


BESIDE_ITS_COLUMN = """\
                                           Total Wait       Avg   % DB Wait
Event                                Waits Time (sec)      Wait   time Class
------------------------------ ----------- ---------- --------- ------ --------
DB CPU                                          28.9K            72.8
direct path read temp              284,729       2893   10.16ms    7.3 User I/O
direct path write temp             182,490       1854   10.16ms    4.7 User I/O
log file sync                          847          8    9.44ms     .0 Commit
"""


def test_a_number_with_all_its_decimals_may_end_before_its_column(figures):
    """As DB CPU does in AWR reports; its percentage has the most digits."""
    assert figures(BESIDE_ITS_COLUMN).elapsed_s == pytest.approx(28_900 / 0.728)
