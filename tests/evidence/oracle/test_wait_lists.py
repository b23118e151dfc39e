"""Lists of waits under any heading, profiles of traces with their totals, and wait chains."""

import re

import pytest

from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceIncomplete,
    EvidenceMixed,
    EvidenceUnsuited,
    InputError,
    NoTempIo,
)
from spillcast.evidence.oracle.report_tables import tables_of

BLOCK = 8192


#: From a profiler: seconds, and means in seconds.
CALLS = """\
CALL-NAME                  DURATION       %   CALLS      MEAN       MIN       MAX
-----------------------  ----------  ------  ------  --------  --------  --------
direct path read temp     20.000000   50.0%  10,000  0.002000  0.000011  0.114201
FETCH                     12.500000   31.3%     164  0.076220  0.000000  3.101220
direct path write temp     6.000000   15.0%   3,000  0.002000  0.000041  0.081122
2 others                   1.500000    3.8%     500  0.003000  0.000120  0.040010
-----------------------  ----------  ------  ------  --------  --------  --------
TOTAL (5)                 40.000000  100.0%  13,664  0.002927  0.000000  3.101220
"""
#: From another profiler, whose total rows lack some of the columns; the headings are translated.
COMPONENTS = """\
                                总计           事件数  每个事件
组件                      已用时长        %       的持续时间
--------------------------- --------- -------- ---------- -------------
direct path read temp          20.000   50.000     10,000         0.002
CPU                            14.000   35.000        n/a           n/a
direct path write temp          6.000   15.000      3,000         0.002
--------------------------- --------- --------
Total                          40.000  100.000
"""


#: The rule above the totals is longer than their last column, or shorter at its beginning.
LONGER_RULE = COMPONENTS.replace("--------\nTotal", "---------\nTotal")
SHORTER_RULE = COMPONENTS.replace("--------\nTotal", " -------\nTotal")


@cases("text", [CALLS, COMPONENTS, LONGER_RULE, SHORTER_RULE])
def test_a_profile_of_a_trace_has_the_time_of_its_run(figures, text):
    result = figures(text)
    assert (result.elapsed_s, result.total_s) == (40, pytest.approx(26, rel=1e-3))
    assert (result.reads.count, result.writes.count) == (10_000, 3_000)
    assert result.subject is None


def test_a_profile_without_its_totals_needs_the_elapsed_time(figures):
    cut = CALLS[: CALLS.index("2 others")]
    with pytest.raises(EvidenceIncomplete):
        figures(cut)
    assert figures(cut, elapsed_s=40).total_s == pytest.approx(26, rel=1e-3)


SESSION = """\
select event, total_waits, time_waited*10 tw_ms, average_wait*10 aw_ms
from v$session_event
where sid = 37
/
                                  Total      Waited     Average
Waited for                        Waits    for (ms)   Wait (ms)
{rule}
Disk file operations I/O              8         .00         .10
db file sequential read               5      160.00       32.10
direct path read temp           463,035  513,810.00        1.10
direct path write temp            2,000   37,000.00       18.50
"""


@cases(
    "rule",
    [
        "-------------------------- ------------ ----------- -----------",
        # A page has another character for it, and fewer of them.
        "--------------------- -------------  ------------  ----------",
    ],
)
def test_a_view_with_renamed_headings_that_are_not_aligned(figures, rule):
    result = figures(SESSION.format(rule=rule), elapsed_s=600)
    assert (result.reads.count, result.writes.count) == (463_035, 2_000)
    assert result.total_s == pytest.approx(550.8, rel=0.01)


def test_a_number_split_by_a_column_boundary_is_refused(figures):
    text = SESSION.format(rule="------------ ----------- ------------ ------------")
    with pytest.raises(InputError):
        figures(text.replace("temp           463,035", "temp  beside   463,035"), elapsed_s=600)


def test_a_column_of_equal_values_is_not_a_line_number(figures):
    rows = [
        ("SID", "EVENT", "TOTAL_WAITS", "TIME_WAITED", "TIME_WAITED_MICRO"),
        ("37", "db file scattered read", "1521", "5101", "51010000"),
        ("37", "direct path read temp", "463035", "51381", "513810000"),
        ("37", "direct path write temp", "20", "37", "370000"),
        ("37", "log file sync", "20", "962", "9620000"),
    ]
    result = figures("".join("\t".join(row) + "\n" for row in rows), elapsed_s=600)
    assert (result.reads.count, result.total_s) == (463_035, pytest.approx(514.18))


REPORT = """\
Top User Events
DB/Inst: ORCL/ORCL  (Jun 18 12:00 to 12:45)

                                                          Avg Active
Event                            Event Class     % Activity   Sessions
----------------------------------- --------------- ---------- ----------
CPU + Wait for CPU                  CPU                  35.36       1.66
db file scattered read              User I/O             33.07       1.55
direct path read temp               User I/O              2.59       0.12
          -------------------------------------------------------------
"""


def test_an_ash_report_whose_heading_is_not_aligned(figures):
    result = figures(REPORT)
    assert result.elapsed_s == pytest.approx(45 * 60 * 1.66 / 0.3536)
    assert result.total_s == pytest.approx(45 * 60 * 0.12, rel=0.05)


def test_a_wait_chain_begins_with_the_session_itself(figures):
    text = """\
%This     SECONDS        AAS WAIT_CHAIN
------ ---------- ---------- -------------------------------------------------------------
  60%         210        3.5 -> ON CPU
  24%          84        1.4 -> direct path read temp
  14%          49         .8 -> direct path write temp
   2%           7         .1 -> log file sync  -> direct path write temp
"""
    result = figures(text)
    assert (result.elapsed_s, result.total_s) == (350, pytest.approx(133))


#: A trace of release 9.2: row sources have their figures in r and w.
CALLS_OF_9I = """\
call     count       cpu    elapsed       disk      query    current        rows
------- ------  -------- ---------- ---------- ---------- ----------  ----------
Parse        1      0.00       0.00          0          0          0           0
Execute      1      0.00       0.00          0          0          0           0
Fetch       35     10.20      95.10      31000      16840          7         500
------- ------  -------- ---------- ---------- ---------- ----------  ----------
total       37     10.20      95.10      31000      16840          7         500

Rows     Row Source Operation
-------  ---------------------------------------------------
    500  SORT ORDER BY (cr=16840 r=31000 w=15000 time=95000000 us)
3000000   TABLE ACCESS FULL T (cr=16840 r=16000 w=0 time=5000000 us)

  Event waited on                             Times   Max. Wait  Total Waited
  ----------------------------------------   Waited  ----------  ------------
  db file scattered read                       1000        0.05          4.10
  direct path write                             500        0.05         20.10
  direct path read                              500        0.15         60.20
"""


def test_until_release_9_temp_waits_have_no_names_of_their_own(figures):
    result = figures(CALLS_OF_9I)
    assert result.total_s == pytest.approx(80.3)
    assert (result.reads.bytes, result.writes.bytes) == (15_000 * BLOCK, 15_000 * BLOCK)
    # In later releases these waits are not for temp files, which have the remaining time.
    later = figures(CALLS_OF_9I.replace(" r=", " pr=").replace(" w=", " pw="))
    assert later.time_bounds.upper < 1


COORDINATOR = """\
call     count       cpu    elapsed       disk      query    current        rows
------- ------  -------- ---------- ---------- ---------- ----------  ----------
Parse        1      0.02       0.03          0          0          0           0
Execute      1      0.30       0.40          0          0          0           0
Fetch        2      0.10     209.10          0          0          0           1
------- ------  -------- ---------- ---------- ---------- ----------  ----------
total        4      0.42     209.53          0          0          0           1

Rows (1st) Rows (avg) Rows (max)  Row Source Operation
---------- ---------- ----------  ---------------------------------------------------
         4          4          4  PX COORDINATOR  (cr=5 pr={io} pw={io} time=209000000 us)
         0          0          0   PX SEND QC (RANDOM) :TQ10002 (cr=0 pr=0 pw=0 time=0 us)
         0          0          0    HASH JOIN  (cr=0 pr=0 pw=0 time=0 us)

  Event waited on                             Times   Max. Wait  Total Waited
  ----------------------------------------   Waited  ----------  ------------
  PX Deq: Execute Reply                         400        2.00        {waited:6.2f}
"""


def test_a_coordinator_without_its_servers_does_not_show_whether_they_spilled(figures):
    with pytest.raises(EvidenceIncomplete):
        figures(COORDINATOR.format(io=0, waited=208.9))


def test_the_time_of_a_coordinator_alone_is_a_single_session(figures):
    text = COORDINATOR.format(io=90, waited=0.1)
    text += "  direct path write temp                         90        0.05          1.60\n"
    text += "  direct path read temp                          90        0.05          0.60\n"
    assert figures(text).elapsed_s == 209.53


def test_a_report_of_release_9_does_not_distinguish_temp_waits(figures):
    text = """\
STATSPACK report for
DB Name         DB Id    Instance     Inst Num Release     Cluster Host
------------ ----------- ------------ -------- ----------- ------- ------------
PROD          2345678901 prod                1 {release}     NO      dbhost1
   Elapsed:               30.05 (mins)
Event                                               Waits    Time (s)     Time
-------------------------------------------- ------------ ----------- --------
CPU time                                                          812    41.20
direct path read                                  120,331         602    30.54
"""
    with pytest.raises(EvidenceUnsuited):
        figures(text.format(release="9.2.0.6.0"))
    with pytest.raises(NoTempIo):
        figures(text.format(release="19.3.0.0"))


PAGE = """\
<html><body><table><tr><th>Event</th><th>% Total Time</th><th>Time (Secs)</th><th>Calls</th>
<th>Avg (Secs)</th><th>Min</th><th>Max</th></tr>
<tr><td>direct path read temp</td><td>50.0%</td><td>20.0000</td><td>10,000</td><td>0.0020</td>
<td>0.0001</td><td>0.0900</td></tr>
<tr><td>FETCH calls [CPU]</td><td>35.0%</td><td>14.0000</td><td>164</td><td>0.0854</td>
<td>0.0000</td><td>3.1000</td></tr>
<tr><td>direct path write temp</td><td>15.0%</td><td>6.0000</td><td>3,000</td><td>0.0020</td>
<td>0.0001</td><td>0.0800</td></tr>
<tr><td>Total</td><td>100.0%</td><td>40.0000</td><td></td><td></td><td></td><td></td></tr>
</table></body></html>
"""
#: A time and its percentage are under the same heading.
TWO_IN_ONE = """\
Response Time Component                Duration        # Calls  Dur/Call
----------------------------- ----------------- ------------- ----------
direct path read temp             20.0s   50.0%        10,000  0.002000s
CPU service                       14.0s   35.0%           164  0.085366s
direct path write temp             6.0s   15.0%         3,000  0.002000s
----------------------------- ----------------- ------------- ----------
Total                             40.0s  100.0%
"""


@cases("text", [PAGE, TWO_IN_ONE])
def test_the_best_fitting_columns_are_chosen(figures, text):
    result = figures(text)
    assert (result.elapsed_s, result.total_s, result.subject) == (40, pytest.approx(26), None)
    assert (result.reads.count, result.writes.count) == (10_000, 3_000)


@cases(("reads", "writes"), [(9_996, 2_999), (10_004, 3_001)])
def test_of_counts_within_a_rounded_mean_the_exact_total_is_chosen(figures, reads, writes):
    blocks = PAGE.replace("<th>Calls", "<th>Blocks</th><th>Calls")
    blocks = blocks.replace("<td>10,000", f"<td>{reads:,}</td><td>10,000")
    blocks = blocks.replace("<td>3,000", f"<td>{writes:,}</td><td>3,000")
    result = figures(blocks.replace("<td>164", "<td></td><td>164"))
    assert (result.reads.count, result.writes.count) == (10_000, 3_000)


def test_an_ash_report_in_html(figures):
    heads = "<tr><th>Event</th><th>% Event</th><th>Avg Active Sessions</th></tr>"
    rows = "<tr><td>direct path read temp</td><td>30.00</td><td>0.60</td></tr>"
    rows += "<tr><td>CPU + Wait for CPU</td><td>70.00</td><td>1.40</td></tr>"
    page = "<h1>ASH Report For BORA</h1><table><tr><td>Elapsed Time:</td><td>15.0 (mins)</td></tr>"
    result = figures(f"{page}</table><table>{heads}{rows}</table>")
    assert (result.elapsed_s, result.total_s) == (1800, pytest.approx(540))


SEPARATED = """\
SNAP_ID;EVENT_NAME;WAITS;TIME_S;AVG_MS
120;direct path read temp;10000;4123,3;412,3
120;direct path write temp;3000;1237,0;412,3
120;db file sequential read;2000;20,5;10,2
"""


def test_waits_between_separators_are_a_single_run(figures):
    result = figures(SEPARATED, elapsed_s=8000)
    assert (result.reads.count, result.total_s) == (10_000, pytest.approx(5360.3, rel=1e-3))
    with pytest.raises(EvidenceMixed):
        figures(SEPARATED + "121;direct path read temp;10;0,1;10,0\n", elapsed_s=8000)


def test_waits_that_are_all_zero_do_not_spill(figures):
    text = "EVENT                     WAITS  TIME_WAITED      AVGMS\n"
    text += "----------------------- ------- ----------- ----------\n"
    text += "log file sync                10        2.33       2.33\n"
    with pytest.raises(NoTempIo):
        figures(text + "direct path read temp         0           0\n")


SEVERAL_INSTANCES = """\
SELECT inst_id, event, total_waits, time_waited FROM gv$system_event;
/* rows
    INST_ID EVENT                          TOTAL_WAITS TIME_WAITED
---------- ------------------------------ ----------- -----------
         2 direct path read temp                 3000        7500
         1 direct path read temp                   75        1132
         2 direct path write temp                 169         862
         1 direct path write temp                  12         310
*/
"""


def test_one_of_several_instances_must_be_selected(figures):
    with pytest.raises(EvidenceAmbiguous):
        figures(SEVERAL_INSTANCES, elapsed_s=600)
    for text in (SEVERAL_INSTANCES, re.sub(" +", " ", SEVERAL_INSTANCES)):
        result = figures(text, elapsed_s=600, item=1)
        assert (result.reads.count, result.total_s) == (3000, pytest.approx(83.62))


ROWS = [("direct path read temp", 9434, 274.64), ("direct path write temp", 1368, 60.36)]
TABS = "".join(f"{name}\t\t{count:8}\t{total * 100:8.0f}\n" for name, count, total in ROWS)
MARKUP = "".join(
    f"<tr>\n<td>\n{name}\n</td>\n<td>\n{count:,}\n</td>\n<td>\n{total * 100:,.0f}\n</td>\n</tr>\n"
    for name, count, total in ROWS
)


@cases(
    "text",
    [
        f"EVENT\t\t\tTOTAL_WAITS\tTIME_WAITED\n{'-' * 29} {'-' * 10} {'-' * 8}\n{TABS}",
        "<table>\n<tr>\n<th>\nEVENT\n</th>\n<th>\nTOTAL_WAITS\n</th>\n<th>\nTIME_WAITED\n</th>\n"
        f"</tr>\n{MARKUP}</table>\n",
        # A heading on each page.
        "EVENT                          TOTAL_WAITS TIME_WAITED\n"
        "------------------------------ ----------- -----------\n"
        "direct path read temp                 9434       27464\n\n"
        "EVENT                          TOTAL_WAITS TIME_WAITED\n"
        "------------------------------ ----------- -----------\n"
        "direct path write temp                1368        6036\n\n2 rows selected.\n",
        # Several blanks became a single one.
        "EVENT TOTAL_WAITS TIME_WAITED AVERAGE_WAIT\n"
        "------------------------------ ----------- ----------- ------------\n"
        "direct path read temp 9434 27464 2.91\ndirect path write temp 1368 6036 4.41\n",
        '{"results":[{"columns":[{"name":"EVENT"}],"items":[\n'
        '{"event":"direct path read temp","total_waits":9434,"time_waited":27464},\n'
        '{"event":"direct path write temp","total_waits":1368,"time_waited":6036}]}]}\n',
        "Top 5 Timed Foreground Events:\n"
        "Event                       Waits      Time(s)   Avg wait(ms)\n"
        "direct path read temp       9,434      274.64    29.11\n"
        "direct path write temp      1,368      60.36     44.12\n",
        "EVENT,TOTAL_WAITS,AVERAGE_WAIT\ndirect path read temp,9434,2.91\n"
        "direct path write temp,1368,4.41\n",
        # Text after the times ends before the rule does.
        "EVENT                  TOTAL_WAITS TIME_WAITED WAIT_CLASS\n"
        "---------------------- ----------- ----------- ---------------\n"
        "direct path read temp         9434       27464 User I/O\n"
        "direct path write temp        1368        6036 User I/O\n",
        # Names are after their figures.
        "SID,TOTAL_WAITS,TIME_WAITED,EVENT\n133,9434,27464,direct path read temp\n"
        "133,1368,6036,direct path write temp\n",
        "TOTAL_WAITS TIME_WAITED EVENT\n----------- ----------- ----------------------\n"
        "       1368        6036 direct path write temp\n"
        "       9434       27464 direct path read temp\n",
        # Bars separate cells, as commas do.
        "| EVENT                  | TOTAL_WAITS | TIME_WAITED |\n"
        "|------------------------|-------------|-------------|\n"
        "| direct path read temp  |        9434 |       27464 |\n"
        "| direct path write temp |        1368 |        6036 |\n",
        "EVENT                 |TOTAL_WAITS|TIME_WAITED\n"
        "----------------------|-----------|-----------\n"
        "direct path read temp |       9434|      27464\n"
        "direct path write temp|       1368|       6036\n",
        "EVENT \t   TOTAL_WAITS\t  TIME_WAITED\n"
        "direct path read temp\t   9434\t  27464\ndirect path write temp\t   1368\t  6036\n",
        "SID  EVENT                     TOTAL_WAITS   TIME_WAITED\n"
        "133  direct path read temp            9434         27464\n"
        "133  direct path write temp           1368          6036\n",
        '[{"event":"log file sync"},\n'
        '{"event":"direct path read temp","total_waits":9434,"time_waited":27464},\n'
        '{"event":"direct path write temp","total_waits":1368,"time_waited":6036}]\n',
    ],
)
def test_a_view_in_the_formats_of_clients(figures, text):
    result = figures(text, elapsed_s=2000)
    assert (result.reads.count, result.writes.count) == (9434, 1368)
    assert result.total_s == pytest.approx(335, rel=1e-3)


@cases("items", ["null", "7", '{"a": 1}', "[3]"])
def test_json_items_that_are_not_rows_are_refused(figures, items):
    with pytest.raises(InputError):
        figures(f'{{"results":[{{"items":{items}}}],"event":"direct path read temp","x":1}}')


def test_a_view_cut_within_a_number_is_refused(figures):
    rule = f"{'-' * 22} {'-' * 11} {'-' * 11}\n"
    whole = f"{rule}log file sync                  100          95\n"
    whole += "direct path write temp        1368        6036"
    heading = "EVENT                  TOTAL_WAITS TIME_WAITED\n"
    assert figures(heading + whole, elapsed_s=600).total_s == pytest.approx(60.36)
    with pytest.raises(InputError):
        figures(heading + whole[:-2], elapsed_s=600)
    classes = f"{heading[:-1]} WAIT_CLASS\n{rule[:-1]} {'-' * 10}\n"
    classes += "direct path read temp         9434       27464 User I/O\n"
    classes += "direct path write temp        1368        6036"
    assert figures(classes, elapsed_s=600).total_s == pytest.approx(335)
    with pytest.raises(InputError):
        figures(classes[:-2], elapsed_s=600)


def test_a_total_below_a_view_is_not_the_time_of_the_run(figures):
    view = "EVENT,TOTAL_WAITS,TIME_WAITED_MICRO\ndirect path read temp,9434,274640000\n"
    view += "direct path write temp,1368,60360000\nTOTAL,10802,335000000\n"
    with pytest.raises(EvidenceIncomplete):
        figures(view)
    assert figures(view, elapsed_s=600).total_s == pytest.approx(335)


@cases(
    "text",
    [
        "EVENT                  TOTAL_WAITS TIME_WAITED\n"
        "---------------------- ----------- -----------\n"
        "direct path read temp         9434       27464\n"
        "direct path write temp           0           0\n",
        "Event                        Waits     Time(s)  Avg wait (ms)\n"
        "---------------------------- ------- ---------- -------------\n"
        "direct path read temp          9,434     274.64         29.11\n"
        "db file sequential read        1,434      74.64         52.05\n"
        "direct path write temp             0       0.00          0.00\n",
    ],
)
def test_writes_listed_as_zero_are_not_missing(figures, text):
    result = figures(text, elapsed_s=2000)
    assert (result.reads.count, result.writes.count) == (9434, 0)
    assert result.time_bounds is None


def test_deltas_in_unknown_units_are_refused(figures):
    text = "EVENT_NAME,DELTA_WAITS,DELTA_TIME\ndirect path read temp,9434,274640\n"
    with pytest.raises(InputError):
        figures(f"{text}direct path write temp,1368,60360\n", elapsed_s=100_000)


def test_a_page_leaves_a_blank_between_columns(figures):
    words = "Event Waits Time(s) Avg wait (ms) % DB time Wait Class\n"
    text = f"{words}------- ------- ------- ------- ------- -------\n"
    text += "direct path read temp 9,434 274.64 29.11 1.2 User I/O\nDB CPU 9,210 40.2\n"
    text += "direct path write temp 1,368 60.36 44.12 0.3 User I/O\n"
    result = figures(text)
    assert (result.reads.count, result.writes.count) == (9434, 1368)
    assert result.elapsed_s == pytest.approx(274.64 / 0.012, rel=0.05)
    # ARCH wait on c/f tx acquire 2 is the name of an event.
    archive = f"ARCH wait on c/f tx acquire 2{' 5' * 4} Other\n"
    [table] = tables_of(f"{text}{archive}")
    assert table.cells[-1] == ["ARCH wait on c/f tx acquire 2", *"5555", "Other"]
    statspack = "Top 5 Timed Events\n~~~~~~~~~~~~~~~~~~ % Total\nEvent Waits Time (s) Ela Time\n"
    statspack += "----------- ------- ------- --------\nCPU time 37,297 52.27\n"
    result = figures(f"{statspack}direct path write temp 108,862 3,410 4.78\n")
    assert result.elapsed_s == pytest.approx(3410 / 0.0478, rel=0.01)


def test_a_small_percentage_with_decimals_gives_the_total_time(figures):
    text = "Event                        Waits     Time(s)  Avg wait (ms)  % DB time\n"
    text += "---------------------------- ------- ---------- ------------- ----------\n"
    text += "direct path read temp          9,434     274.64         29.11        1.2\n"
    text += "direct path write temp         1,368      60.36         44.12        0.3\n"
    assert figures(text).elapsed_s == pytest.approx(274.64 / 0.012, rel=0.05)


SNAPPER = """\
-- Session Snapper
----------------------------------------------------------------------------------------------
SID, USERNAME  , TYPE, STATISTIC               ,    DELTA, HDELTA/SEC, %TIME, GRAPH, NUM_WAITS,
----------------------------------------------------------------------------------------------
133, SCOTT     , TIME, DB time                 ,  9962040,    996.2ms, 99.6%, [###],          ,
133, SCOTT     , WAIT, direct path read temp   ,  4200000,    420.0ms, 42.0%, [WW ],      2000,
133, SCOTT     , WAIT, direct path write temp  ,  1800000,    180.0ms, 18.0%, [W  ],      1000,
--  End of Stats snap 1, end=2014-03-02 11:12:19, seconds=10
"""


def test_snapper_deltas_are_of_a_session_and_its_seconds(figures):
    result = figures(SNAPPER)
    assert (result.elapsed_s, result.subject) == (pytest.approx(10, rel=0.01), None)
    assert (result.reads.count, result.writes.count) == (2000, 1000)
    assert result.total_s == pytest.approx(6)
    with pytest.raises(EvidenceAmbiguous):
        figures(SNAPPER + SNAPPER.replace("133", "134"))


def test_a_percentage_without_decimals_bounds_the_total_time(figures):
    text = "Event                          Waits    Time(s)  % Total\n"
    text += "------------------------------ -------- -------- --------\n"
    text += "direct path read temp          1,234K      456      45%\n"
    text += "CPU time                                   434      43%\n"
    text += "direct path write temp           567K      123      12%\n"
    assert figures(text).elapsed_s == pytest.approx(456 / 0.45, rel=0.01)
