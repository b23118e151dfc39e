"""Kinds of Oracle's reports, by figures computed by hand, and contradictory reports."""

import re

import pytest
import report_disguises

import monitor_reports
import oracle_reports
from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    InputError,
    Refusal,
    SelectionEmpty,
)
from spillcast.forecast import forecast
from spillcast.forecast.verdict import verdict
from spillcast.storage.target import resolve


@cases("sign", ["\ufffd", "\u2500", "\u00c4"])
def test_a_rule_in_another_encoding_is_a_rule(figures, sign):
    heading = "Event                        Waits   Time (s)  Avg wait (ms)  % DB time\n"
    rule = "------------------------ --------- ---------- -------------- ----------\n"
    rows = (
        "direct path read temp        1,000      11.00           11.0       55.0\n"
        "direct path write temp       1,000       6.00            6.0       30.0\n"
        "DB CPU                                   3.00                      15.0\n"
    )
    plain = figures(heading + rule + rows)
    assert plain.total_s == pytest.approx(17)
    assert figures(heading + rule.replace("-", sign) + rows).total_s == plain.total_s


def test_column_names_beside_the_title(figures):
    """Up to 11.1, a list of top events has its percentage heading there."""
    result = figures(
        "Top 5 Timed Events                                         Avg %Total\n"
        "~~~~~~~~~~~~~~~~~~                                        wait   Call\n"
        "Event                                 Waits    Time (s)   (ms)   Time Wait Class\n"
        "------------------------------ ------------ ----------- ------ ------ ----------\n"
        "direct path read temp             2,847,293      28,942     10   41.2   User I/O\n"
        "CPU time                                         20,203         28.8\n"
        "direct path write temp            1,824,906      18,514     10   26.4   User I/O\n"
        "          -------------------------------------------------------------\n"
    )
    assert result.elapsed_s == pytest.approx(70_250, rel=1e-3)


@cases("operation", ["SQL MODEL ORDERED", "MATCH RECOGNIZE SORT"])
def test_all_operations_with_work_areas_spill(figures, operation):
    text = report_disguises.xplan().replace("HASH JOIN         ", f"{operation:18.18}")
    assert figures(text).writes.count == -(-33668 // 31)


def test_a_serial_plan_has_one_process_whatever_its_line_times(figures):
    text = report_disguises.xplan().replace("00:00:28.91", "01:28:30.86")
    result = figures(text)
    assert (result.processes, result.time_bounds.upper) == (1, 29.2)


@cases(
    "above",
    [
        "",
        "# Slow report\n\nWith the new index it takes half a minute:\n\n```sql\n",
        "## Plan\nThe customer sent this plan.\n~~~\n",
    ],
)
def test_text_above_a_plan_is_not_its_statement(figures, above):
    text = report_disguises.xplan()
    sql = "select count(*) from t1, t2 where t1.id = t2.id"
    assert figures(above + text).statement.query == sql
    head, tail = text.index("select"), text.index("Plan hash")
    bare = f"{above}SQL> {text[head:tail]}```\n```\n{text[tail:]}"
    assert figures(bare).statement.query.endswith(sql)
    assert figures(above + text[tail:]).statement.query is None


@cases(
    "begin",
    ["create table t as\n", "with t(n) as (\nselect 1 from dual)\n", "/* report 12 */ "],
)
def test_a_statement_above_a_plan_is_complete(figures, begin):
    text = report_disguises.xplan()
    head, tail = text.index("select"), text.index("Plan hash")
    sql = f"{begin}{text[head:tail].strip()}"
    assert figures(f"{sql}\n\n{text[tail:]}").statement.query == sql


@cases("before", ["", "[10:31] Anna: ", "[1"])
def test_code_fences_are_not_part_of_a_report(figures, before):
    text = report_disguises.top_events()
    plain = figures(text)
    assert figures(f"{before}```\n{text.rstrip()}```\n").by_op == plain.by_op


def test_an_unknown_operation_with_temp_space_is_refused(figures):
    text = report_disguises.xplan().replace("HASH JOIN         ", "NEW OPERATION     ")
    with pytest.raises(EvidenceContradictory, match="NEW OPERATION"):
        figures(text)


def test_monitor_without_counts_is_bounded_by_its_samples(figures):
    lines = [(name, 0, 0, temp, samples) for name, _, _, temp, samples in monitor_reports.LINES]
    result = figures(monitor_reports.text(lines))
    assert (result.io_bounds.lower.reads.count, result.io_bounds.lower.writes.count) == (418, 12)
    assert result.total_s == pytest.approx(430)


def test_monitor_without_global_stats_counts_each_sample_as_a_second(figures):
    text = monitor_reports.text()
    start, end = text.index("Global Stats"), text.index("SQL Plan Monitoring")
    result = figures(text[:start] + text[end:])
    assert (result.elapsed_s, result.reads.count) == (773, monitor_reports.READS)
    assert result.total_s == pytest.approx(430, rel=0.05)


def test_monitor_with_temp_io_alone_has_its_time(figures):
    lines = [line for line in monitor_reports.LINES if not line[0].startswith("TABLE")]
    result = figures(monitor_reports.xml(lines))
    assert result.total_s == pytest.approx(monitor_reports.IO_S)
    assert result.time_bounds is None


def test_the_share_of_temp_io_follows_from_its_bounds(figures):
    """The hash join took 28.91 of 29.20 s, including the scans of 1.10 s and 1.21 s."""
    counts = figures(report_disguises.xplan())
    upper = round(100 * (28.91 - 1.10 - 1.21) / 29.20)
    assert f"0 % to {upper} %" in verdict([forecast(counts, resolve("latency:1ms", counts))]).text


def test_a_report_of_an_instance_is_not_called_a_query(figures):
    for text, selection, is_query in (
        (oracle_reports.awr(), {}, False),
        (oracle_reports.awr(), {"sql_id": oracle_reports.SQL_ID}, True),
    ):
        counts = figures(text, **selection)
        words = verdict([forecast(counts, resolve("latency:1ms", counts))]).text
        assert ("this query" in words, "all sessions" in words) == (is_query, not is_query)


def test_monitor_does_not_use_db_time_as_elapsed_time(figures):
    text = monitor_reports.text(database_s=3092)
    text = "\n".join(line for line in text.splitlines() if "Duration" not in line)
    servers = "Parallel Execution Details (DOP=4 , Servers Allocated=8)\nSQL Plan Monitoring"
    with pytest.raises(EvidenceIncomplete, match=r"no elapsed time.* parallel servers"):
        figures(text.replace("SQL Plan Monitoring", servers))
    result = figures(text.replace("SQL Plan Monitoring", servers), elapsed_s=773)
    assert result.processes == pytest.approx(4)


@cases("heading", ["**Global Information**", "GLOBAL INFORMATION:", ""])
def test_monitor_reads_its_duration_under_any_heading(figures, heading):
    _, _, below = monitor_reports.text(database_s=3092).partition("Global Information")
    assert figures(heading + below).elapsed_s == 773


def test_monitor_reads_its_duration_below_other_text(figures):
    text = f"Duration : 60s\n\n{monitor_reports.text(database_s=3092)}"
    assert figures(text).elapsed_s == 773


def test_a_wrapped_rule_of_a_monitor_is_a_rule(figures):
    text = monitor_reports.text()
    broken = text.replace("=" * 40, "=" * 20 + " " + "=" * 19)
    assert broken != text
    assert figures(broken).total_s == figures(text).total_s


def test_monitor_is_selected_by_its_options(figures):
    item = monitor_reports.text()
    other = monitor_reports.text(elapsed_s=900, database_s=900).replace(
        monitor_reports.SQL_ID, "8xk2m0q7hznc4"
    )
    for both in (f"{item}\n{other}", f"{other}\n{item}"):
        with pytest.raises(EvidenceAmbiguous, match="2 runs"):
            figures(both)
        assert figures(both, sql_id="8xk2m0q7hznc4").elapsed_s == 900
        with pytest.raises(SelectionEmpty):
            figures(both, sql_id="nosuch")


def test_a_histogram_bounds_the_time(figures):
    rows = "EVENT,WAIT_TIME_MILLI,WAIT_COUNT\n"
    rows += "".join(
        f"direct path {op} temp,{ms},100\n" for op in ("read", "write") for ms in (1, 8)
    )
    temp = figures(rows, elapsed_s=60)
    assert (temp.reads.count, temp.writes.count) == (200, 200)
    assert temp.time_bounds.lower == pytest.approx(2 * 0.1 * 4)
    assert temp.time_bounds.upper == pytest.approx(2 * 0.1 * 9)
    with pytest.raises(EvidenceMixed):
        figures(rows + "DIRECT PATH READ TEMP,8,100\n", elapsed_s=60)


TITLED = """\
[Top Wait Events]
Event                         Waits    Time(s)   Avg Wait(ms)   % DB time
----------------------------  -------  --------  ------------   ---------
direct path read temp          88,912    6,120          68.83       67.4%
direct path write temp         79,122    2,450          30.96       27.0%
db file sequential read        14,101      124           8.79        1.4%
"""


def test_a_title_above_the_heading_and_percent_signs_are_read(figures):
    result = figures(TITLED)
    assert (result.reads.count, result.writes.count) == (88912, 79122)
    assert result.elapsed_s == pytest.approx(6120 / 0.674, rel=1e-3)


def published(form):
    """The list of top events as pages show it: in Markdown, or in HTML without th.

    A converter from AWR's HTML to Markdown omits outer bars, and the heading of a histogram.
    """
    rows = [re.split(r"\s{2,}", line.strip()) for line in TITLED.splitlines()[1:]]
    if form == "html2text":
        lines = "\n".join("| ".join(row).replace("----------", "---") for row in rows)
        return f"{lines}\n  \n| | % of Waits\n---|---\ndirect path read temp| 88.9K| 99.9| .1\n"
    if form == "markdown":
        return "\n".join("| " + " | ".join(row).replace("----------", "---") + " |" for row in rows)
    cells = ["".join(f"<td>{cell}</td>" for cell in row) for row in (rows[0], *rows[2:])]
    if form == "spans":
        # The class of waits is given once, beside all of its events.
        spans = f"<td rowspan='{len(cells) - 1}'>User I/O</td>"
        cells[:2] = f"<td>Wait Class</td>{cells[0]}", spans + cells[1]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table> Top 5 Timed Events"


@cases("form", ["markdown", "html2text", "page", "spans"])
def test_top_events_of_published_tables(figures, form):
    result = figures(published(form))
    assert (result.reads.count, result.writes.count) == (88912, 79122)
    assert result.elapsed_s == pytest.approx(6120 / 0.674, rel=1e-3)


TRANSLATED = """\
| Evento | Esperas | Tempo | Medio |
| --- | ---: | ---: | ---: |
| direct path write temp | 22.910 | 1.722,8 | 75,2 |
| direct path read temp | 15.894 | 195,5 | 12,3 |
| db file sequential read | 1.405.906 | 11.950,2 | 8,5 |
"""
GAPS = """\
Top 5 Timed Events:
────────────────────
Event                    Waits    Time(s)  Avg Wait
────────────────────
direct path read temp    15,894  195.5    12.3ms  <- temp
direct path write temp   22,910  1,722.8   75.2ms  <- spills
CPU time                           1,203
"""
UNCOUNTED = """\
| Evento | Total (s) | Avg ms | Status |
| --- | ---: | ---: | --- |
| direct path write temp | 1.722,8s | 75,2 ms | **novo** |
| direct path read temp | 195,5s | 12,3 ms | **novo** |
"""


@cases("text", [TRANSLATED, GAPS, UNCOUNTED])
def test_waits_under_unknown_headings(figures, text):
    """Columns are identified by their product, counts follow from a time and its mean."""
    with pytest.raises(EvidenceIncomplete, match="no elapsed time"):
        figures(text)
    result = figures(text, elapsed_s=20_000)
    assert (result.reads.count, result.writes.count) == pytest.approx((15_894, 22_910), rel=1e-3)
    assert result.total_s == pytest.approx(1722.8 + 195.5, rel=1e-3)


def test_an_instance_number_is_not_the_mean_of_a_wait(figures):
    """The instance number 1 may be a rounded mean of 0.5 to 1.5, which some counts fit."""
    text = "SNAP,INST,EVENT_NAME,TOTAL_WAITS_DELTA,TIME_WAITED_MS_DELTA\n"
    text += "41206,1,direct path read temp,2104338,3321700\n"
    text += "41206,1,direct path write temp,911204,1420100\n"
    result = figures(text, elapsed_s=7200)
    assert (result.reads.count, result.total_s) == (2_104_338, pytest.approx(4741.8))
    with pytest.raises(EvidenceIncomplete, match="no table"):
        figures(text.replace("TOTAL_WAITS_DELTA,TIME_WAITED_MS_DELTA", "NB,DUREE"), elapsed_s=7200)
    rounded = "event;A;B;C\ndirect path read temp;335342;20.6;0.00\n"
    with pytest.raises(EvidenceIncomplete, match="no table"):
        figures(rounded + "direct path write temp;2886441;15.9;0.00\n", elapsed_s=7200)


@cases("suffix", ["", "_DELTA", "_FG"])
@cases("decimals", ["", ".00", ".000"])
def test_a_view_has_centiseconds_and_counts_that_a_client_may_print_with_decimals(
    figures, suffix, decimals
):
    text = f"EVENT,TOTAL_WAITS{suffix},TIME_WAITED{suffix}\n"
    text += f"direct path read temp,2104338{decimals},332170\n"
    result = figures(text + f"direct path write temp,911204{decimals},142010\n", elapsed_s=7200)
    assert (result.reads.count, result.total_s) == (2_104_338, pytest.approx(4741.8))


def test_an_echoed_statement_is_not_a_heading(figures):
    text = "select event, total_waits,\n  time_waited*10 ms\nfrom v$session_event;\n\n"
    text += "Waited for                     Waits          ms\n"
    text += "------------------------ ----------- -----------\n"
    text += "direct path read temp        463,035  513,810.00\n"
    with pytest.raises(InputError):
        figures(text, elapsed_s=600)


def test_shares_of_samples_have_no_counts(figures):
    text = """\
    Total
  Seconds     AAS %This   EVENT                     FIRST_SEEN
--------- ------- ------- ------------------------- -------------------
      418      .5     54% direct path read temp     2024-10-14 20:26:02
      338      .4     44% ON CPU                    2024-10-14 20:26:02
       12      .0      2% direct path write temp    2024-10-14 20:26:30
"""
    for damaged in (
        text.replace(" 2% direct path write", " -% direct path write"),
        # A row that is shifted by a column, and a row with a percentage of another time.
        text.replace("54% direct", "54.0% direct"),
        text.replace("  418 ", "  148 "),
    ):
        with pytest.raises((EvidenceDamaged, EvidenceContradictory)):
            figures(damaged)
    # 1.51, 3.49 and 1.51 % of 10,000 s.
    low = text.replace(" 54%", "  2%").replace(" 44%", "  3%").replace("   12 ", "  151 ")
    assert figures(low.replace("  418 ", "  151 ").replace("  338 ", "  349 ")).total_s > 0
    result = figures(text)
    assert result.elapsed_s == pytest.approx(774, abs=1)
    assert result.total_s == pytest.approx(0.56 * 774, rel=1e-2)
    assert result.io_bounds.upper.reads.count > 100 * result.io_bounds.lower.reads.count
    # Without seconds, active sessions divided by the report's time are those of the database.
    report = """\
ASH Report For DW/dw1

Elapsed Time:          2.00 (mins)
Average Active Sessions:   6.45

Event                     Event Class        % Event
------------------------- --------------- ----------
direct path read temp     User I/O             54.00
CPU + Wait for CPU        CPU                  44.00
direct path write temp    User I/O              2.00
"""
    result = figures(report)
    assert result.elapsed_s == pytest.approx(2 * 60 * 6.45)
    assert result.total_s == pytest.approx(0.56 * 774, rel=1e-2)


ASH_REPORT = """\
            Elapsed Time:       60.0 (mins)

Top User Events                DB/Inst: ORCL/orcl  (Oct 14 20:00 to 21:00)

                                                               Avg Active
Event                               Event Class        % Event   Sessions
----------------------------------- --------------- ---------- ----------
CPU + Wait for CPU                  CPU                  45.30       2.10
direct path read temp               User I/O             30.10       1.39
          -------------------------------------------------------------
"""


def test_active_sessions_of_an_event_give_those_of_all(figures):
    result = figures(ASH_REPORT)
    assert result.elapsed_s == pytest.approx(3600 * 2.10 / 0.453)
    assert result.total_s == pytest.approx(3600 * 1.39, rel=0.01)


DB_TIME = "DB Time: 1,210.67 (mins)\nTop 10"
CUT_SAMPLES = "direct path read temp (418)", "direct path read temp (41 "
ESTIMATED = """\
Plan hash value: 1

| Id  | Operation | Rows |
--------------------------
|   0 | SELECT    |    1 |
--------------------------
"""


@cases(
    ("text", "words"),
    [
        (oracle_reports.awr().replace(" 9.00ms", "19.00ms"), "count-mean-total"),
        (
            report_disguises.top_events().replace("39.8", " 3.9").replace("Top 10", DB_TIME),
            "share-of-db-time",
        ),
        (monitor_reports.text(database_s=300), "part-of-whole"),
        (monitor_reports.text().replace(*CUT_SAMPLES), "not understood"),
        ("<html><body>SQL Monitoring Report<table></table></body></html>", "type HTML"),
        ("WORKLOAD REPOSITORY COMPARE PERIOD REPORT\n", "compares two periods"),
        (ESTIMATED, "estimated"),
        (ESTIMATED.replace("SELECT   ", "HASH JOIN"), "estimated"),
        (ESTIMATED.replace("Rows", "Used-Tmp"), "lacks Reads and Writes"),
        (
            ESTIMATED.replace("Rows", "Used-Tmp").replace("   1 |", "9GB(2)|"),
            "lacks Reads and Writes",
        ),
        (
            ESTIMATED.replace("Rows", "Used-Mem").replace("   1 |", "9K (1)|"),
            "lacks Reads and Writes",
        ),
        (
            "Top User Events\n\nEvent   % Load\ndirect path read temp  2.59\n",
            "not understood|no table",
        ),
    ],
)
def test_contradictory_or_unrecognised_reports_are_refused(figures, text, words):
    with pytest.raises((InputError, Refusal), match=words):
        figures(text)


def test_a_row_shifted_by_a_column_is_refused(figures):
    lines = map(str.strip, report_disguises.rac().splitlines())
    with pytest.raises(EvidenceDamaged, match="direct path write temp"):
        figures("\n".join(lines))
