"""DBMS_XPLAN's plans without the rules around them, and views of SQL Monitor without bytes."""

import csv
import io

import pytest

import oracle_reports
from cases import cases
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    InputError,
    NoTempIo,
    Refusal,
)
from spillcast.evidence.open import read_figures

BLOCK = 8192
PLAN = """\
| Id  | Operation           | Name | Starts | A-Rows |   A-Time   | Reads  | Writes | Used-Tmp|
|   0 | SELECT STATEMENT    |      |      1 |      1 |00:00:34.46 |   9000 |   6000 |         |
|   1 |  WINDOW SORT        |      |      1 |    34M |00:00:28.46 |   9000 |   6000 |     48M |
|   2 |   TABLE ACCESS FULL | LOG  |      1 |    34M |00:00:03.46 |   3000 |      0 |         |
"""


def test_a_plan_without_its_rules_is_read(figures):
    result = figures(f"The plan:\n\n{PLAN}\nIt is slow.\n")
    assert (result.elapsed_s, result.reads.bytes) == (34.46, 6000 * BLOCK)
    with pytest.raises(EvidenceDamaged):
        figures(PLAN[: PLAN.index("|   2 |")])


def test_a_plan_in_a_unicode_table(figures):
    heading, *rows = PLAN.replace("|", "│").splitlines()
    rule = "─" * (len(heading) - 2)
    result = figures("\n".join([f"┌{rule}┐", heading, f"├{rule}┤", *rows, f"└{rule}┘"]))
    assert (result.elapsed_s, result.reads.bytes) == (34.46, 6000 * BLOCK)


def test_a_plan_of_all_executions_is_not_a_single_call(figures):
    assert "3" in figures(PLAN.replace("|      1 |  ", "|      3 |  ")).subject


def test_only_the_column_that_a_plan_lacks_is_named(figures):
    at = PLAN.index("| Writes")
    with pytest.raises(EvidenceIncomplete) as error:
        figures("\n".join(line[:at] + line[at + 9 :] for line in PLAN.splitlines()))
    assert "Writes" in str(error.value)
    assert "Reads" not in str(error.value)


@cases(
    "damage",
    [
        lambda plan: plan.replace("  TABLE ACCESS FULL ", "HASH GROUP BY       ").replace(
            "3000 |      0", "9000 |   6000"
        ),
        lambda plan: plan.replace(" 9000", "9.000").replace(" 6000", "6.000"),
    ],
)
def test_a_damaged_plan_is_refused(figures, damage):
    """A line that lost its indentation would count twice; 6.000 blocks are 6000."""
    with pytest.raises((InputError, Refusal)):
        figures(damage(PLAN))


def test_a_plan_without_its_right_border_is_damaged(tmp_path):
    path = tmp_path / "plan.txt"
    rule = "-" * PLAN.index("\n")
    lines = [line.rstrip(" |") for line in PLAN.splitlines()]
    path.write_text("\n".join([rule, lines[0], rule, *lines[1:], rule]))
    with pytest.raises(EvidenceDamaged):
        read_figures([path])


def test_views_without_bytes_assume_a_request_size(tmp_path):
    """Older releases of V$SQL_PLAN_MONITOR count only requests."""
    paths = [tmp_path / name for name in ("run.csv", "plan.csv")]
    for path, text in zip(paths, oracle_reports.views(), strict=True):
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
        kept = [at for at, name in enumerate(rows[0]) if not name.endswith("_BYTES")]
        path.write_text("".join(",".join(row[at] for at in kept) + "\n" for row in rows))
    result = read_figures(paths)
    assert result.reads.bytes == result.reads.count * 31 * BLOCK
    assert result.reads.count == oracle_reports.READS


def test_a_line_that_lost_its_indentation_is_refused(figures):
    """For example, where a tab replaced four blanks."""
    with pytest.raises(EvidenceDamaged, match="indentation"):
        figures(PLAN.replace("|   TABLE ACCESS FULL ", "| TABLE ACCESS FULL   "))


HEADING = PLAN.split("\n", 1)[0].replace("| Used-Tmp", "")


def plan(*lines):
    """Lines of operation, name, elapsed time (s), reads and writes, with blanks for each level.

    DBMS_XPLAN shows 0.01 s for a line that did not run.
    """
    rows = [
        f"| {at} | {operation} | {name} | {int(elapsed_s > 0)} | 1 "
        f"|00:00:{max(elapsed_s, 0.01):05.2f} | {reads} | {writes} |"
        for at, (operation, name, elapsed_s, reads, writes) in enumerate(lines)
    ]
    return "\n".join([HEADING, *rows])


def test_blocks_written_by_functions_are_not_taken_for_none(figures):
    """A pipelined function runs statements of its own, whose files the plan does not show."""
    function = (
        ("SELECT STATEMENT", "", 51, 18012, 18012),
        (" VIEW", "", 51, 18012, 18012),
        ("  COLLECTION ITERATOR PICKLER FETCH", "F", 50, 18012, 18012),
    )
    with pytest.raises(EvidenceIncomplete):
        figures(plan(*function))
    with pytest.raises(EvidenceIncomplete):
        figures(plan(("SELECT STATEMENT", "", 51, 10, 10), (" FAST DUAL", "", 1, 0, 0)))
    sort = (" SORT ORDER BY", "", 55, 20012, 20012)
    below = [(f" {operation}", *rest) for operation, *rest in function[1:]]
    result = figures(plan(("SELECT STATEMENT", "", 55, 20012, 20012), sort, *below))
    assert result.writes.bytes == 2000 * BLOCK
    assert any("COLLECTION ITERATOR" in note for note in result.notes)


@cases(
    "lines",
    [
        [("CREATE TABLE STATEMENT", "", 9, 50, 60), (" LOAD AS SELECT", "T", 9, 50, 60)],
        [("SELECT STATEMENT", "", 9, 50, 50), (" TABLE ACCESS FULL", "T", 9, 50, 50)],
    ],
)
def test_blocks_written_to_tables_are_no_spill(figures, lines):
    with pytest.raises(NoTempIo):
        figures(plan(*lines, ("  TABLE ACCESS FULL", "S", 1, 0, 0)))


def test_a_temporary_table_of_a_statement_is_temp(figures):
    """Written once by 700 blocks, and read back by two lines."""
    name = "SYS_TEMP_0FD9D6613_1F69D06"
    result = figures(
        plan(
            ("SELECT STATEMENT", "", 9, 2400, 700),
            (" TEMP TABLE TRANSFORMATION", "", 9, 2400, 700),
            ("  LOAD AS SELECT (CURSOR DURATION MEMORY)", name, 5, 1000, 700),
            ("   TABLE ACCESS FULL", "T", 4, 1000, 0),
            ("  NESTED LOOPS", "", 4, 1400, 0),
            ("   TABLE ACCESS FULL", name, 2, 700, 0),
            ("   TABLE ACCESS FULL", name, 2, 700, 0),
        )
    )
    assert (result.reads.bytes, result.writes.bytes) == (1400 * BLOCK, 700 * BLOCK)


def test_a_plan_without_the_work_of_parallel_servers_is_refused(figures):
    """ALLSTATS LAST shows the last execution of the coordinator alone."""
    servers = [("  PX SEND QC", ":TQ10000", 0, 0, 0), ("   SORT GROUP BY", "", 0, 0, 0)]
    leaf = ("    TABLE ACCESS FULL", "T", 0, 0, 0)
    above = [("SELECT STATEMENT", "", 9, 5, 0), (" PX COORDINATOR", "", 9, 5, 0)]
    with pytest.raises(EvidenceIncomplete):
        figures(plan(*above, *servers, leaf))
    idle = [("SELECT STATEMENT", "", 9, 5, 0), (" PX COORDINATOR", "", 0, 0, 0)]
    with pytest.raises(NoTempIo):
        figures(plan(*idle, *servers, leaf))
    with pytest.raises(EvidenceIncomplete):
        figures(plan(*idle, *servers, leaf, above[1], *servers, leaf))
    sort = [("SELECT STATEMENT", "", 9, 5, 5), (" SORT ORDER BY", "", 9, 5, 5)]
    below = [(f" {operation}", *rest) for operation, *rest in (*servers, leaf)]
    result = figures(plan(*sort, ("  PX COORDINATOR", "", 7, 0, 0), *below))
    assert result.writes.bytes == 5 * BLOCK
    assert any("parallel servers" in note for note in result.notes)
