"""Oracle reports in their published formats: tkprof, views of SQL Monitor, AWR, Statspack."""

SQL_ID = "09bmj7j9q8a5z"
#: Waits and seconds: the published case of 773 s.
READS, READ_S, WRITES, WRITE_S = 46450, 418.0, 43478, 12.0


def tkprof(*, executions=1, sources=True, more=""):
    """tkprof of 19c with waits; the hash join reads and writes 31 blocks in each wait."""
    read, written = READS * 31 // executions, WRITES * 31 // executions
    plan = f"""\
Rows (1st) Rows (avg) Rows (max)  Row Source Operation
---------- ---------- ----------  ---------------------------------------------------
         1          1          1  SORT AGGREGATE (cr=7 pr={read + 900} pw={written} time=9 us)
  20000000   20000000   20000000   HASH JOIN  (cr=7 pr={read + 900} pw={written} time=9 us cost=1)
  20000000   20000000   20000000    TABLE ACCESS FULL T (cr=3 pr=500 pw=0 time=9 us cost=1)
  20000000   20000000   20000000    TABLE ACCESS FULL T (cr=4 pr=400 pw=0 time=9 us cost=1)
"""
    return f"""\

TKPROF: Release 19.0.0.0.0 - Development on Mon Oct 14 20:26:02 2024

Trace file: cdb1_ora_31337.trc
Sort options: default

********************************************************************************
count    = number of times OCI procedure was executed
{"*" * 80}

SQL ID: {SQL_ID} Plan Hash: 1234567890

select max(c.BUSINESS_DATE) from ( select a.*, b.AMOUNT01 from t a, t b where a.id = b.id ) c


call     count       cpu    elapsed       disk      query    current        rows
------- ------  -------- ---------- ---------- ---------- ----------  ----------
Parse        1      0.00       0.00          0          0          0           0
Execute {executions:6d}      0.00       0.00          0          0          0           0
Fetch        2    338.00     773.00    1440850          7          0           1
------- ------  -------- ---------- ---------- ---------- ----------  ----------
total        4    338.00     773.00    1440850          7          0           1

Misses in library cache during parse: 1
Number of plan statistics captured: {executions}

{plan if sources else ""}

Elapsed times include waiting on following events:
  Event waited on                             Times   Max. Wait  Total Waited
  ----------------------------------------   Waited  ----------  ------------
  SQL*Net message to client                       2        0.00          0.00
  ASM IO for non-blocking poll                98765        0.00          5.00
  direct path write temp                   {WRITES:8d}        0.00  {WRITE_S:12.2f}
  direct path read temp                    {READS:8d}        0.41  {READ_S:12.2f}
  SQL*Net message from client                     2        1.00          1.00
{"*" * 80}
{more}
OVERALL TOTALS FOR ALL NON-RECURSIVE STATEMENTS

call     count       cpu    elapsed       disk      query    current        rows
------- ------  -------- ---------- ---------- ---------- ----------  ----------
total        4    338.00     773.00    1440850          7          0           1

Elapsed times include waiting on following events:
  direct path read temp                    {READS:8d}        0.41  {READ_S:12.2f}
"""


def views(*, sessions=1, exec_id=16777216):
    """Rows of V$SQL_MONITOR and of V$SQL_PLAN_MONITOR as CSV, one for each session and line."""
    run = (
        "SQL_ID,SQL_EXEC_ID,SQL_EXEC_START,LAST_REFRESH_TIME,STATUS,PROCESS_NAME,ELAPSED_TIME,"
        "CPU_TIME,USER_IO_WAIT_TIME,PHYSICAL_READ_REQUESTS,PHYSICAL_WRITE_REQUESTS"
    )
    plan = (
        "SQL_ID,SQL_EXEC_ID,PLAN_LINE_ID,PLAN_OPERATION,PHYSICAL_READ_REQUESTS,"
        "PHYSICAL_READ_BYTES,PHYSICAL_WRITE_REQUESTS,PHYSICAL_WRITE_BYTES,WORKAREA_MAX_TEMPSEG"
    )
    reads, writes, size = READS // sessions, WRITES // sessions, 31 * 8192
    runs, lines = [run], [plan]
    for at in range(sessions):
        name = f"p{at:03d}" if at else "ora"
        runs.append(
            f"{SQL_ID},{exec_id},2024-10-14 20:26:02,2024-10-14 20:38:55,DONE (ALL ROWS),{name},"
            f"773000000,338000000,{435_000_000 // sessions},{reads + 28_000},{writes}"
        )
        lines += [
            f"{SQL_ID},{exec_id},0,SELECT STATEMENT,,,,,",
            f"{SQL_ID},{exec_id},2,HASH JOIN,{reads},{reads * size},{writes},{writes * size},9999",
            f"{SQL_ID},{exec_id},3,TABLE ACCESS,28000,7110656000,,,",
        ]
    return "\n".join(runs) + "\n", "\n".join(lines) + "\n"


#: DB time and CPU of the instance, all its user I/O, and of statements: executions, elapsed
#: seconds, percent of CPU and of I/O.
DB_TIME_S, DB_CPU_S, USER_IO_S = 1800.0, 700.0, 600.0
STATEMENTS = {SQL_ID: (2, 1546.0, 43.7, 32.0), "4q7zf0d2m8kcx": (900, 120.0, 60.0, 40.0)}


def awr():
    """AWR of 19c as text, for an hour; whole seconds, with means that have a unit."""
    sql = "\n".join(
        f"{elapsed:16,.1f} {runs:14,} {elapsed / runs:13.2f} {9.9:6} {cpu:6} {io:6} {name}\n"
        "Module: SQL*Plus\nselect max(c.BUSINESS_DATE) from ( select a.* , b.AMOUNT01 from t a\n"
        for name, (runs, elapsed, cpu, io) in STATEMENTS.items()
    )
    end = " " * 26 + "-" * 54 + "\n\n"
    return f"""\

WORKLOAD REPOSITORY report for

DB Name         DB Id    Unique Name DB Role          Edition Release    RAC CDB
------------ ----------- ----------- ---------------- ------- ---------- --- ---
CDB1          1234567890 cdb1        PRIMARY          EE      19.0.0.0.0 NO  YES

              Snap Id      Snap Time      Sessions Curs/Sess
            --------- ------------------- -------- ---------
Begin Snap:       100 14-Oct-24 20:00:00        60       1.9
  End Snap:       101 14-Oct-24 21:00:00        61       2.0
   Elapsed:               60.00 (mins)
   DB Time:               30.00 (mins)

Top 10 Foreground Events by Total Wait Time
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
                                           Total Wait       Avg   % DB Wait
Event                                Waits Time (sec)      Wait   time Class
------------------------------ ----------- ---------- --------- ------ --------
DB CPU                                            700               38.9
direct path read temp               46,450        418    9.00ms   23.2 User I/O

Time Model Statistics                      DB/Inst: CDB1/cdb1  Snaps: 100-101
-> Ordered by % of DB time in descending order, followed by Statistic Name

                                                                % of  % of Total
Statistic Name                                       Time (s) DB Time   CPU Time
------------------------------------------ ------------------ ------- ----------
DB CPU                                                  700.0    38.9       75.5
DB time                                               1,800.0
{end}
Foreground Wait Class                      DB/Inst: CDB1/cdb1  Snaps: 100-101

                                     %Time      Total Wait
Wait Class                     Waits -outs        Time (s)   Avg wait  %DB time
-------------------- --------------- ----- --------------- ---------- ---------
DB CPU                                                 700                 38.9
User I/O                     130,000     0             600     4.62ms      33.3
{end}
Foreground Wait Events                     DB/Inst: CDB1/cdb1  Snaps: 100-101
-> s  - second, ms - millisecond, us - microsecond, ns - nanosecond
-> ordered by wait time desc, waits desc (idle events last)

                                                Total
                                       %Time     Wait              Waits   % DB
Event                            Waits -outs Time (s)  Avg wait     /txn   time
-------------------------- ----------- ----- -------- --------- -------- ------
direct path read temp           46,450            418    9.00ms  1,234.5   23.2
db file sequential read         40,072            170    4.24ms    999.0    9.4
direct path write temp          43,478             12  276.00us  1,100.0     .7
{end}
SQL ordered by Elapsed Time                DB/Inst: CDB1/cdb1  Snaps: 100-101
-> %IO    - User I/O Time as a percentage of Elapsed Time

        Elapsed                  Elapsed Time
        Time (s)    Executions  per Exec (s)  %Total   %CPU    %IO    SQL Id
---------------- -------------- ------------- ------ ------ ------ -------------
{sql}
{end}
IOStat by Filetype summary                 DB/Inst: CDB1/cdb1  Snaps: 100-101
-> 'Data' columns suffixed with M,G,T,P are in multiples of 1024
    other columns suffixed with K,M,G,T,P are in multiples of 1000

                Reads:  Reqs    Data   Writes:  Reqs    Data      Small    Large
Filetype Name     Data per sec per sec    Data per sec per sec     Read     Read
-------------- ------- ------- ------- ------- ------- ------- -------- --------
Temp File         11.G    12.9    3.1M   10.3G    12.1    2.9M    .00ns   9.00ms
Data File           7M     0.3      0M      1M     0.0      0M   2.11ms
{end}"""


def awr_html():
    """The same figures in AWR's HTML."""

    def table(summary, names, *rows):
        def line(tag, cells):
            inner = "".join(f'<{tag} class="awrc">{cell}</{tag}>' for cell in cells)
            return f"<tr>{inner}</tr>"

        body = "\n".join(line("td", row) for row in rows)
        return f'<table border="0" summary="{summary}">{line("th", names)}\n{body}</table><p />'

    statements = [
        (f"{elapsed:,.2f}", f"{runs:,}", f"{elapsed / runs:.2f}", "9.9", cpu, io,
         f'<a class="awr" href="#{name}">{name}</a>', "SQL*Plus", "select max(c.D...")
        for name, (runs, elapsed, cpu, io) in STATEMENTS.items()
    ]  # fmt: skip
    return "\n".join(
        [
            "<html><head><title>AWR Report for DB: CDB1, Inst: cdb1</title></head><body>",
            table("This table displays snapshot information", ["", "Snap Id", "Snap Time"],
                  ["Elapsed:", "&#160;", "60.00 (mins)"], ["DB Time:", "&#160;", "30.00 (mins)"]),
            table("time model", ["Statistic Name", "Time (s)", "% of DB Time"],
                  ["DB CPU", "700.00", "38.9"], ["DB time", "1,800.00", ""]),
            table("wait classes", ["Wait Class", "Waits", "%Time -outs", "Total Wait Time (s)"],
                  ["User I/O", "130,000", "0", "600"]),
            table("Foreground Wait Events",
                  ["Event", "Waits", "%Time -outs", "Total Wait Time (s)", "Avg wait", "% DB time"],
                  ["direct path read temp", "46,450", "", "418", "9.00ms", "23.2"],
                  ["direct path write temp", "43,478", "", "12", "276.00us", ".7"]),
            table("top SQL by elapsed time",
                  ["Elapsed Time (s)", "Executions", "Elapsed Time per Exec (s)", "%Total", "%CPU",
                   "%IO", "SQL Id", "SQL Module", "SQL Text"], *statements),
            table("IOStat by Filetype",
                  ["Filetype Name", "Reads: Data", "Reqs per sec", "Data per sec", "Writes: Data",
                   "Reqs per sec", "Data per sec", "Small Read", "Large Read"],
                  ["Temp File", "11.G", "12.9", "3.1M", "10.3G", "12.1", "2.9M", "", "9.00ms"]),
            "</body></html>",
        ]
    )  # fmt: skip


def statspack():
    """Statspack of 10g: waits in whole seconds, statements by old hash value, no %IO."""
    end = "          -------------------------------------------------------------\n"
    return f"""\
STATSPACK report for

Database    DB Id    Instance     Inst Num Startup Time    Release     RAC
~~~~~~~~ ----------- ------------ -------- --------------- ----------- ---
          1234567890 orcl                1 14-Oct-24 08:00 10.2.0.5.0  NO

Snapshot       Snap Id     Snap Time      Sessions Curs/Sess Comment
~~~~~~~~    ---------- ------------------ -------- --------- -------------------
Begin Snap:        100 14-Oct-24 20:00:00       60       1.9
  End Snap:        101 14-Oct-24 21:00:00       61       2.0
   Elapsed:               60.00 (mins)

Top 5 Timed Events                                                    Avg %Total
~~~~~~~~~~~~~~~~~~                                                   wait   Call
Event                                            Waits    Time (s)   (ms)   Time
----------------------------------------- ------------ ----------- ------ ------
CPU time                                                       700          38.9
direct path read temp                           46,450         418      9   23.2
{end}
Time Model System Stats  DB/Inst: ORCL/orcl  Snaps: 100-101
-> Ordered by % of DB time desc, Statistic name

Statistic                                       Time (s) % of DB time
----------------------------------- -------------------- ------------
DB CPU                                             700.0         38.9
DB time                                          1,800.0
{end}
Wait Events  DB/Inst: ORCL/orcl  Snaps: 100-101
-> ordered by Total Wait Time desc, Waits desc (idle events last)

                                                                    Avg
                                                %Time Total Wait   wait    Waits
Event                                    Waits  -outs   Time (s)   (ms)     /txn
--------------------------------- ------------ ------ ---------- ------ --------
direct path read temp                   46,450      0        418      9  1,234.5
direct path write temp                  43,478      0         12      0  1,100.0
{end}
SQL ordered by Elapsed time for DB: ORCL  Instance: orcl  Snaps: 100 -101
-> Total DB Time (s):           1,800

  Elapsed                Elap per            CPU                        Old
  Time (s)   Executions  Exec (s)  %Total   Time (s)  Physical Reads Hash Value
---------- ------------ ---------- ------ ---------- --------------- ----------
   1546.00            2     773.00   85.9     676.00       2,881,700  987654321
Module: SQL*Plus
select max(c.BUSINESS_DATE) from ( select a.*, b.AMOUNT01 from t a
{end}"""
