"""Reports of a known run, and how clients, mails, pages and people change their text."""

import re
from dataclasses import dataclass

import monitor_reports
import oracle_reports
from oracle_reports import DB_TIME_S, READ_S, READS, WRITE_S, WRITES

#: DBMS_XPLAN and views of waits, whose form differs.
XPLAN_S, XPLAN_OWN_S, XPLAN_READS, XPLAN_WRITES = 29.2, 26.6, 33668, 33668


@dataclass(frozen=True)
class Truth:
    """A report and its true figures; ``bounded`` where it only has an upper bound of the time."""

    text: str
    elapsed_s: float
    reads: int
    writes: int
    temp_s: float
    bounded: bool = False
    #: Whether the elapsed time of the run has to be given.
    asks_elapsed: bool = False


def top_events():
    """The list of an AWR report on its own, with the suffixes of 12.2."""
    return """\
Top 10 Foreground Events by Total Wait Time
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
                                           Total Wait       Avg   % DB Wait
Event                                Waits Time (sec)      Wait   time Class
------------------------------ ----------- ---------- --------- ------ --------
direct path read temp            2,847,293      28.9K   10.16ms   39.8 User I/O
direct path write temp           1,824,906      18.5K   10.15ms   25.5 User I/O
DB CPU                                           1203             1.7
"""


def xplan():
    """DBMS_XPLAN with ALLSTATS LAST: a hash join in two tables of 15,570 and 15,574 blocks."""
    return """\
SQL_ID  0kxkzz5bzz2dd, child number 0
-------------------------------------
select count(*) from t1, t2 where t1.id = t2.id

Plan hash value: 2959412835

-------------------------------------------------------------------------------------------------
| Id  | Operation           | Name | Starts | A-Rows |   A-Time   | Reads  | Writes | Used-Tmp|
-------------------------------------------------------------------------------------------------
|   0 | SELECT STATEMENT    |      |      1 |      1 |00:00:29.20 |  64812 |  33668 |         |
|   1 |  SORT AGGREGATE     |      |      1 |      1 |00:00:29.20 |  64812 |  33668 |         |
|*  2 |   HASH JOIN         |      |      1 |   4000K|00:00:28.91 |  64812 |  33668 |     268M|
|   3 |    TABLE ACCESS FULL| T1   |      1 |   2000K|00:00:01.10 |  15570 |      0 |         |
|   4 |    TABLE ACCESS FULL| T2   |      1 |   2000K|00:00:01.21 |  15574 |      0 |         |
-------------------------------------------------------------------------------------------------
"""


def session_event():
    """Rows of V$SESSION_EVENT as CSV."""
    return f"""\
SID,EVENT,TOTAL_WAITS,TIME_WAITED_MICRO
123,direct path read temp,{READS},{round(READ_S * 1e6)}
123,direct path write temp,{WRITES},{round(WRITE_S * 1e6)}
123,SQL*Net message from client,20,100
"""


def session_event_aligned():
    """The same rows as SQL*Plus prints them, with hundredths of a second."""
    return f"""\
EVENT                                                            TOTAL_WAITS TIME_WAITED
---------------------------------------------------------------- ----------- -----------
direct path read temp                                            {READS:11d} {READ_S * 100:11.0f}
direct path write temp                                           {WRITES:11d} {WRITE_S * 100:11.0f}
"""


def rac():
    """The summary of an AWR report of two instances."""
    return """\
WORKLOAD REPOSITORY REPORT (RAC)

Top Timed Events                         DB/Inst: DWH/dwh1  Snaps: 100-101
-> Instance '*' - cluster wide summary
                       Wait                              Event              Wait Time
----- ---------- ------------------------------ ----------------------- ---------------------
I#     Class     Event                                Waits   %Timeouts      Total(s) Avg(ms) %DB time
----- ---------- ------------------------------ ----------- ----------- ------------- ------- --------
   *  User I/O   direct path read temp           31,946,450         0.0    287,518.05     9.0    53.19
                 DB CPU                                                    201,200.00             37.22
      User I/O   direct path write temp          43,478,200         0.0     12,000.00      .3     2.22
   1  User I/O   direct path read temp           15,946,450         0.0    143,518.05     9.0    53.19
   2  User I/O   direct path read temp           16,000,000         0.0    144,000.00     9.0    53.19
          -------------------------------------------------------------
"""  # noqa: E501


_TEMP_S = READ_S + WRITE_S
PLAIN = {
    "tkprof": Truth(oracle_reports.tkprof(), 773, READS, WRITES, _TEMP_S),
    "monitor": Truth(monitor_reports.text(), 773, READS, WRITES, _TEMP_S),
    "awr": Truth(oracle_reports.awr(), DB_TIME_S, READS, WRITES, _TEMP_S),
    "awr-html": Truth(oracle_reports.awr_html(), DB_TIME_S, READS, WRITES, _TEMP_S),
    "statspack": Truth(oracle_reports.statspack(), DB_TIME_S, READS, WRITES, _TEMP_S),
    "top-events": Truth(top_events(), 72_640, 2_847_293, 1_824_906, 28_928 + 18_523),
    "rac": Truth(rac(), 540_549, 31_946_450, 43_478_200, 299_518),
    "xplan": Truth(
        xplan(), XPLAN_S, -(-XPLAN_READS // 31), -(-XPLAN_WRITES // 31), XPLAN_OWN_S, bounded=True
    ),
    "session-event": Truth(session_event(), 773, READS, WRITES, _TEMP_S, asks_elapsed=True),
    "aligned-event": Truth(session_event_aligned(), 773, READS, WRITES, _TEMP_S, asks_elapsed=True),
}
#: Reports whose tables depend on the column of each figure.
ALIGNED = {"awr", "statspack", "top-events", "rac", "aligned-event"}


def with_fixed_blanks(text, rng):
    """Encodes repeated blanks as a web page does."""
    return text.replace("  ", "\u00a0 ") if rng.random() < 0.5 else text.replace("  ", " \u00a0")


def decimal_commas(text, rng):
    """Numbers as a session with NLS_NUMERIC_CHARACTERS = ',.' prints them."""

    def swapped(match):
        return match[0].translate(str.maketrans(".,", ",."))

    return re.sub(r"(?<![\w.,/:])\d[\d.,]*\d(?=(?:[KMG]?B?|[um]?s)?(?![\w.,/:]))", swapped, text)


def numbered(text, rng):
    """The lines of a comment, numbered by a client."""
    return "".join(f"-- {at} {line}\n" for at, line in enumerate(text.splitlines(), 1))


def barred(text, rng):
    """Numbers and bars before all lines, as of a tool that prints source code."""
    return "".join(f"{at:5} | {line}\n" for at, line in enumerate(text.splitlines(), 1))


def logged(text, rng):
    """The lines as a logger prints them."""
    begin = "2024-03-12 09:11:{:02},123 [main] INFO  c.a.b.Dump - "
    return "".join(f"{begin.format(n % 60)}{line}\n" for n, line in enumerate(text.splitlines()))


def trimmed(text, rng):
    """Strips the blanks at both ends of lines."""
    return "\n".join(line.strip() for line in text.splitlines()) + "\n"


def in_prose(text, rng):
    """Puts text before and after."""
    return f"The job takes ages since we moved to 19c.\n\n{text}\n\nMemory is 64 GB, PGA 4 GB.\n"


def broken(text, rng):
    """Breaks table rows at SQL*Plus's line width."""
    width = rng.choice([80, 120])
    lines = text.splitlines()
    rows = [line for line in lines if line.lstrip().startswith("|")]
    parts = [
        [line[at : at + width] for at in range(0, len(line), width)]
        if line in rows or set(line.strip()) == {"="}
        else [line]
        for line in lines
    ]
    return "\n".join(part for each in parts for part in each or [""]) + "\n"


def flowed(text, rng):
    """Breaks table rows at any blank, as a web page does."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        blanks = [place for place, char in enumerate(line) if char == " "]
        if line.startswith("|"):
            for place in rng.sample(blanks, 1 if "Operation" in line else 3):
                lines[at] = lines[at][:place] + "\n" + lines[at][place + 1 :]
    return "\n".join(lines) + "\n"


#: Changes that keep all figures of a report, beside the layers of test_layers.py.
KEEPING = (
    *(broken, with_fixed_blanks, decimal_commas, barred, numbered, logged, trimmed, in_prose),
)


def cut(text, rng):
    """The beginning of a text, up to any character."""
    return text[: rng.randrange(len(text))]


def narrow(text, rng):
    """Cuts lines at the width of a terminal."""
    width = rng.choice([60, 72, 80])
    return "\n".join(line[:width] for line in text.splitlines()) + "\n"


def encoded(text, rng):
    """The encoded bytes of a file."""
    encoding = rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
    return text.encode(encoding)
