"""Kinds of Oracle's reports by figures worked out by hand, and what contradicts itself."""

import re

import pytest
import report_disguises

import monitor_reports
import oracle_reports
from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceContradictory,
    EvidenceIncomplete,
    InputError,
    Refusal,
    SelectionEmpty,
)
from spillcast.evidence.choice import Selection
from spillcast.evidence.open import read_figures
from spillcast.forecast import forecast
from spillcast.forecast.verdict import verdict
from spillcast.storage.target import resolve

BLOCK = 8192


@pytest.fixture
def figures(tmp_path):
    """What is read of a text, or of several."""

    def of(*texts, **selection):
        paths = [tmp_path / f"{at}.txt" for at in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return read_figures(paths, Selection(**selection))

    return of


def tkprof(
    *,
    calls=(("Parse", 1, 0.0, 0.0, 0), ("Execute", 1, 0.0, 0.0, 0), ("Fetch", 2, 8.2, 31.6, 48000)),
    sources="",
    waits=(("direct path write temp", 1000, 0.05, 6.0), ("direct path read temp", 1000, 0.1, 11.0)),
    rows="Rows     Row Source Operation",
    head="SQL ID: 4p7vm0hhw6u1v Plan Hash: 1\n\nselect count(*) from t",
    captured="",
):
    """A section; ``calls`` are count, CPU, elapsed and disk."""
    total = ("total", *(sum(column) for column in list(zip(*calls, strict=True))[1:]))
    body = "".join(
        f"{name:7} {n:6d} {cpu:9.2f} {s:10.2f} {disk:10d} {0:10d} {0:10d} {0:10d}\n"
        for name, n, cpu, s, disk in (*calls, total)
    )
    events = "".join(f"  {e:40} {n:8d} {m:11.2f} {s:13.2f}\n" for e, n, m, s in waits)
    return (
        f"{head}\n\n"
        "call     count       cpu    elapsed       disk      query    current        rows\n"
        "------- ------  -------- ---------- ---------- ---------- ----------  ----------\n"
        f"{body}\n"
        f"Misses in library cache during parse: 1\n{captured}\n{rows}\n-------  ------\n{sources}\n"
        "Elapsed times include waiting on following events:\n"
        "  Event waited on                             Times   Max. Wait  Total Waited\n"
        f"  ----------------------------------------   Waited  ----------  ------------\n{events}"
    )


def source(depth, operation, reads, writes, rows="      1"):
    return f"{rows} {' ' * depth} {operation} (cr=9 pr={reads} pw={writes} time=9 us)\n"


JOIN = source(0, "SORT AGGREGATE", 48000, 15000) + source(1, "HASH JOIN", 48000, 15000)


def test_tables_without_names_are_no_temp_files(figures):
    scans = source(2, "TABLE ACCESS FULL OBJ#(51148)", 17000, 0)
    scans += source(2, "TABLE ACCESS FULL OBJ#(51149)", 16000, 0)
    temp = figures(tkprof(sources=JOIN + scans))
    assert temp.bytes == (48000 - 33000 + 15000) * BLOCK


def test_row_sources_of_indexes_have_an_object_id_and_pages_break_long_ones(figures):
    table = source(2, "TABLE ACCESS BY INDEX ROWID T", 33000, 0)
    index = source(3, "INDEX RANGE SCAN T_PK", 9000, 0).replace("us)\n", "us)(object id 73730)\n")
    broken = JOIN.replace(" time=9 us)", "\n         time=9 us cost=2\n         card=5)")
    for sources in (JOIN + table + index, broken + table + index):
        assert figures(tkprof(sources=sources)).bytes == (48000 - 33000 + 15000) * BLOCK


def test_rows_of_row_sources_may_have_thousands_separators(figures):
    grouped = JOIN.replace("      1 ", "  3,000,000 ")
    assert figures(tkprof(sources=grouped)).bytes == figures(tkprof(sources=JOIN)).bytes


def test_calls_are_known_without_their_heading(figures):
    """An excerpt that begins with the fetches."""
    text = tkprof(sources=JOIN)
    excerpt = text[text.index("Fetch") :]
    assert figures(excerpt).elapsed_s == figures(text).elapsed_s


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


def test_release_11_1_writes_of_tables_are_none(figures):
    lines = source(0, "HASH GROUP BY", 2590, 2590) + source(1, "PARTITION RANGE ALL", 1649, 1649)
    lines += source(2, "TABLE ACCESS FULL S PARTITION: 1 28", 1649, 1649)
    assert figures(tkprof(sources=lines)).bytes == 2 * 941 * BLOCK


@pytest.mark.parametrize(
    ("rows", "captured", "times"),
    [
        ("Rows     Row Source Operation", "", 1),
        (
            "Rows (1st) Rows (avg) Rows (max)  Row Source Operation",
            "Number of plan statistics captured: 3",
            3,
        ),
    ],
    ids=["sums", "means"],
)
def test_row_sources_are_sums_before_they_are_means(figures, rows, captured, times):
    calls = (("Execute", 3, 0.0, 0.0, 0), ("Fetch", 9, 0.6, 1.4, 2000 * times))
    lines = source(0, "SORT ORDER BY", 2000, 2050) + source(1, "TABLE ACCESS FULL T", 0, 0)
    result = figures(tkprof(calls=calls, sources=lines, rows=rows, captured=captured,
                           waits=[("direct path write temp", 70, 0.1, 0.3),
                                  ("direct path read temp", 68, 0.1, 0.2)]))  # fmt: skip
    assert result.bytes == times * 4050 * BLOCK


def test_parallel_servers_are_one_query_of_the_coordinators_time(figures):
    calls = (("Parse", 5, 0.0, 0.0, 0), ("Execute", 5, 512.0, 820.0, 1_910_000),
             ("Fetch", 2, 0.1, 209.1, 0))  # fmt: skip
    tables = source(3, "TABLE ACCESS FULL T1", 40000, 0) + source(
        3, "TABLE ACCESS FULL T2", 40000, 0
    )
    lines = source(0, "PX COORDINATOR", 382_000, 302_000)
    lines += source(1, "PX SEND QC (RANDOM) :TQ10002", 382_000, 302_000)
    lines += source(2, "HASH JOIN", 382_000, 302_000) + tables
    waits = [
        ("direct path write temp", 48511, 0.05, 30.1),
        ("direct path read temp", 48711, 0.1, 246.2),
    ]
    queue = ("PX Deq: Execute Reply", 400, 1.0, 208.9)
    section = tkprof(
        calls=calls,
        sources=lines,
        waits=[*waits, queue],
        rows="Rows (1st) Rows (avg) Rows (max)  Row Source Operation",
        captured="Number of plan statistics captured: 5",
    )
    result = figures(section + "\n       5  sessions in tracefile.\n")
    assert result.elapsed_s == 209.1
    assert result.processes == pytest.approx(820 / 209.1, rel=0.01)
    assert result.bytes == 5 * 2 * 302_000 * BLOCK
    # Without its wait nothing tells which call was the coordinator's.
    alone = tkprof(calls=calls, sources=lines, waits=waits, captured="")
    with pytest.raises(EvidenceIncomplete, match=r"no elapsed time.* sum over 5 sessions"):
        figures(alone + "\n       5  sessions in tracefile.\n")


def test_sections_follow_each_other_without_a_rule(figures):
    first = tkprof(sources=JOIN, head="select 1 from a")
    second = tkprof(calls=(("Fetch", 1, 0.4, 0.5, 0),), waits=(), head="select 2 from b")
    result = figures(f"{first}\n-- New query\n{second}")
    assert (result.elapsed_s, result.statement.query) == (31.6, "select 1 from a")


def test_times_that_are_rounded_to_nothing_have_bounds(figures):
    waits = [("direct path write temp", 70, 0.0, 0.0), ("direct path read temp", 2, 0.0, 0.0)]
    temp = figures(tkprof(waits=waits))
    assert (temp.reads.count, temp.writes.count) == (2, 70)
    assert temp.time_bounds.upper == pytest.approx(0.01)


def test_blocks_without_waits_have_bounds(figures):
    temp = figures(tkprof(sources=JOIN, waits=[("db file scattered read", 9, 0.1, 5.1)]))
    assert temp.time_bounds.lower == 0
    assert temp.time_bounds.upper == pytest.approx(31.6 - 8.2 - 5.1, abs=0.02)


def test_a_section_without_its_calls_takes_the_elapsed_time(figures):
    """An excerpt begins with its row sources or its waits."""
    whole = tkprof(sources=JOIN)
    for heading in ("Rows     Row Source", "Elapsed times include"):
        text = whole[whole.index(heading) :]
        with pytest.raises(EvidenceIncomplete, match="no elapsed time"):
            figures(text)
        result = figures(text, elapsed_s=31.6)
        assert (result.reads.count, result.total_s) == (1000, pytest.approx(17.0))


def test_names_of_columns_beside_the_title(figures):
    """Up to 11.1 a list of top events has its percentage there."""
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


@pytest.mark.parametrize("operation", ["SQL MODEL ORDERED", "MATCH RECOGNIZE SORT"])
def test_all_operations_with_work_areas_spill(figures, operation):
    text = report_disguises.xplan().replace("HASH JOIN         ", f"{operation:18.18}")
    assert figures(text).writes.count == -(-33668 // 31)


def test_a_serial_plan_has_one_process_whatever_a_line_took(figures):
    text = report_disguises.xplan().replace("00:00:28.91", "01:28:30.86")
    result = figures(text)
    assert (result.processes, result.time_bounds.upper) == (1, 29.2)


def test_temp_space_of_an_operation_that_is_not_known_is_no_run_without_spill(figures):
    text = report_disguises.xplan().replace("HASH JOIN         ", "NEW OPERATION     ")
    with pytest.raises(EvidenceContradictory, match="NEW OPERATION"):
        figures(text)


def test_monitor_without_counts_is_bounded_by_its_samples(figures):
    lines = [(name, 0, 0, temp, samples) for name, _, _, temp, samples in monitor_reports.LINES]
    result = figures(monitor_reports.text(lines))
    assert (result.io_bounds.lower.reads.count, result.io_bounds.lower.writes.count) == (418, 12)
    assert result.total_s == pytest.approx(430)


def test_monitor_without_global_stats_counts_samples_of_a_second(figures):
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


def test_the_share_of_temp_io_is_that_of_its_bounds(figures):
    """The hash join took 28.91 s with the scans of 1.10 s and 1.21 s, of 29.20 s."""
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


def test_monitor_does_not_take_db_time_for_elapsed_time(figures):
    text = monitor_reports.text(database_s=3092)
    text = "\n".join(line for line in text.splitlines() if "Duration" not in line)
    servers = "Parallel Execution Details (DOP=4 , Servers Allocated=8)\nSQL Plan Monitoring"
    with pytest.raises(EvidenceIncomplete, match=r"no elapsed time.* parallel servers"):
        figures(text.replace("SQL Plan Monitoring", servers))
    result = figures(text.replace("SQL Plan Monitoring", servers), elapsed_s=773)
    assert result.processes == pytest.approx(4)


def test_monitor_chooses_by_its_options(figures):
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


TITLED = """\
[Top Wait Events]
Event                         Waits    Time(s)   Avg Wait(ms)   % DB time
----------------------------  -------  --------  ------------   ---------
direct path read temp          88,912    6,120          68.83       67.4%
direct path write temp         79,122    2,450          30.96       27.0%
db file sequential read        14,101      124           8.79        1.4%
"""


def test_a_title_above_the_heading_and_signs_of_percent_are_read(figures):
    result = figures(TITLED)
    assert (result.reads.count, result.writes.count) == (88912, 79122)
    assert result.elapsed_s == pytest.approx(6120 / 0.674, rel=1e-3)


def published(form):
    """The list of top events as pages print it: of Markdown, or of HTML without th.

    What makes Markdown of an AWR page sets no bars around rows, and no heading for a histogram.
    """
    rows = [re.split(r"\s{2,}", line.strip()) for line in TITLED.splitlines()[1:]]
    if form == "html2text":
        lines = "\n".join("| ".join(row).replace("----------", "---") for row in rows)
        return f"{lines}\n  \n| | % of Waits\n---|---\ndirect path read temp| 88.9K| 99.9| .1\n"
    if form == "markdown":
        return "\n".join("| " + " | ".join(row).replace("----------", "---") + " |" for row in rows)
    cells = ["".join(f"<td>{cell}</td>" for cell in row) for row in (rows[0], *rows[2:])]
    if form == "spans":
        # The class of waits stands once, beside all of its events.
        spans = f"<td rowspan='{len(cells) - 1}'>User I/O</td>"
        cells[:2] = f"<td>Wait Class</td>{cells[0]}", spans + cells[1]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table> Top 5 Timed Events"


@pytest.mark.parametrize("form", ["markdown", "html2text", "page", "spans"])
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


@pytest.mark.parametrize("text", [TRANSLATED, GAPS, UNCOUNTED], ids=["names", "rule", "counts"])
def test_waits_under_headings_that_are_not_known(figures, text):
    """Columns follow from their product, counts from a time and its mean."""
    with pytest.raises(EvidenceIncomplete, match="no elapsed time"):
        figures(text)
    result = figures(text, elapsed_s=20_000)
    assert (result.reads.count, result.writes.count) == pytest.approx((15_894, 22_910), rel=1e-3)
    assert result.total_s == pytest.approx(1722.8 + 195.5, rel=1e-3)


def test_calls_under_the_headings_of_orange(figures):
    text = tkprof(sources=JOIN).replace("      cpu    elapsed", " CPU Time Elapsed Time")
    result = figures(text.replace("call ", "Call ").replace("total ", "Total "))
    assert (result.elapsed_s, result.total_s) == (31.6, 17.0)


def test_an_echoed_statement_is_no_heading(figures):
    text = "select event, total_waits,\n  time_waited*10 ms\nfrom v$session_event;\n\n"
    text += "Waited for                     Waits          ms\n"
    text += "------------------------ ----------- -----------\n"
    text += "direct path read temp        463,035  513,810.00\n"
    with pytest.raises(InputError):
        figures(text, elapsed_s=600)


def test_operations_of_unknown_size_read_no_more_than_the_column_disk(figures):
    result = figures(tkprof(calls=(("Fetch", 9, 0.6, 20.0, 3000),)))
    assert (result.reads.count, result.reads.bytes) == (1000, 3000 * BLOCK)


def test_shares_of_samples_have_no_counts(figures):
    text = """\
    Total
  Seconds     AAS %This   EVENT                     FIRST_SEEN
--------- ------- ------- ------------------------- -------------------
      418      .5     54% direct path read temp     2024-10-14 20:26:02
      338      .4     44% ON CPU                    2024-10-14 20:26:02
       12      .0      2% direct path write temp    2024-10-14 20:26:30
"""
    result = figures(text)
    assert result.elapsed_s == pytest.approx(774, abs=1)
    assert result.total_s == pytest.approx(0.56 * 774, rel=1e-2)
    assert result.io_bounds.upper.reads.count > 100 * result.io_bounds.lower.reads.count
    # Without seconds, active sessions over the time of the report are those of the database.
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


def test_active_sessions_of_an_event_tell_those_of_all(figures):
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
        (tkprof(sources=JOIN.replace("pr=48000", "pr=99000")), "sources-of-disk"),
        (tkprof(sources=JOIN + source(2, "TABLE ACCESS FULL T", 50000, 0)), "children-of-parent"),
        (monitor_reports.text(database_s=300), "part-of-whole"),
        (monitor_reports.text().replace(*CUT_SAMPLES), "not understood"),
        (tkprof(sources=JOIN).replace("pw=15000 time=9 us)", "pw=15000 tim"), "not understood"),
        ("<html><body>SQL Monitoring Report<table></table></body></html>", "type HTML"),
        ("WORKLOAD REPOSITORY COMPARE PERIOD REPORT\n", "compares two periods"),
        (ESTIMATED, "estimated"),
        (ESTIMATED.replace("Rows", "Used-Tmp"), "Reads and Writes are missing"),
        (
            ESTIMATED.replace("Rows", "Used-Mem").replace("   1 |", "9K (1)|"),
            "Reads and Writes are missing",
        ),
        (
            "Top User Events\n\nEvent   % Load\ndirect path read temp  2.59\n",
            "not understood|no table",
        ),
    ],
)
def test_what_contradicts_itself_or_was_not_understood_is_refused(figures, text, words):
    with pytest.raises((InputError, Refusal), match=words):
        figures(text)
