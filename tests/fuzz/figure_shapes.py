"""Shapes of a run's figures: bare ones, and Oracle's reports."""

import json

import monitor_reports
import oracle_reports
import sqlserver_files
from oracle_reports import SQL_ID

_BARE = """elapsed_s = 773
threads = 1.5
[reads]
count = 46450
bytes = 1.1e10
time_s = 418.0
[writes]
count = 43478
bytes = 10100000000
"""
DATABEND = """Sort
├── cpu time: 17.7s
├── wait time: 13.4s
├── numbers local spilled by write: 210
├── bytes local spilled by write: 1.02 GiB
├── local spilled time by write: 15.278s
├── numbers local spilled by read: 210
├── bytes local spilled by read: 1.02 GiB
└── local spilled time by read: 150ms
9 rows explain in 16.224 sec.
"""
#: Kinds that need an option, or cannot be targets: the option, and the text.
OTHERS = {
    "xplan": ("--from latency:300us", """SQL_ID  0kxkzz5bzz2dd, child number 0
-------------------------------------------------------------------------------------------------
| Id  | Operation           | Name | Starts | A-Rows |   A-Time   | Reads  | Writes | Used-Tmp|
-------------------------------------------------------------------------------------------------
|   0 | SELECT STATEMENT    |      |      1 |      1 |00:00:29.20 |  64812 |  33668 |         |
|*  1 |  HASH JOIN          |      |      1 |   4000K|00:00:28.91 |  64812 |  33668 |     268M|
|   2 |   TABLE ACCESS FULL | T1   |      1 |   2000K|00:00:01.10 |  31144 |      0 |         |
-------------------------------------------------------------------------------------------------
"""),
    "events": ("--elapsed 773s", """SID,EVENT,TOTAL_WAITS,TIME_WAITED_MICRO
123,direct path read temp,46450,418000000
123,direct path write temp,43478,12000000
"""),
    "shares": ("--from latency:300us", """    Total
  Seconds     AAS %This   EVENT                     FIRST_SEEN
--------- ------- ------- ------------------------- -------------------
      418      .5     54% direct path read temp     2024-10-14 20:26:02
      338      .4     44% ON CPU                    2024-10-14 20:26:02
       12      .0      2% direct path write temp    2024-10-14 20:26:30
"""),
    "mariadb": ("--from latency:300us", """{"query_block": {"r_total_time_ms": 1000.0, "filesort": {
"r_total_time_ms": 800.0, "r_sort_passes": 12, "r_buffer_size": "255KiB",
"table": {"table_name": "t", "r_table_time_ms": 60.0}}}}
"""),
    "query_log": ("--from latency:300us", json.dumps({
        "type": "QueryFinish", "query_id": "a", "normalized_query_hash": "7", "query": "select 1",
        "query_duration_ms": "9000", "memory_usage": "9000000", "event_time": "2026-01-01 00:00:00",
        "ProfileEvents": {"ExternalSortWritePart": 9, "ExternalSortCompressedBytes": 90000000,
                          "ExternalSortUncompressedBytes": 180000000,
                          "ExternalProcessingCompressedBytesTotal": 90000000,
                          "ExternalProcessingUncompressedBytesTotal": 180000000},
    })),
}  # fmt: skip


def figures(shape):
    """Each kind with its commands: as a baseline, and as a target."""
    run, plan = oracle_reports.views(sessions=2)
    moved = {"count": 9, "bytes": 73728}
    forms = {
        "run.toml": _BARE,
        "run.json": json.dumps({"elapsed_s": 9.0, "io_s": 3.0, "reads": moved, "writes": moved}),
        "monitor.txt": monitor_reports.text(),
        "monitor.xml": monitor_reports.xml(),
        "active.html": monitor_reports.active(monitor_reports.xml()),
        "tkprof.txt": oracle_reports.tkprof(),
        "awr.txt": oracle_reports.awr(),
        "awr.html": oracle_reports.awr_html(),
        "statspack.txt": oracle_reports.statspack(),
        "sort.sqlplan": sqlserver_files.plan(sqlserver_files.SORT.format(pages=7841)),
        "query_stats.csv": sqlserver_files.QUERIES,
        "databend.txt": DATABEND,
    }
    for name, text in forms.items():
        sql_id = "987654321" if "statspack" in name else SQL_ID
        of_oracle = name.startswith(("monitor", "active", "tkprof", "awr", "statspack"))
        option = f"--sql-id {sql_id}" if of_oracle else "--elapsed 900s"
        shape(
            f"figures-{name.replace('.', '-')}",
            f"forecast {name} --to latency:150us --json",
            f"forecast {name} {option} --to factor:7",
            f"forecast @figures-run-toml/run.toml --to {name} --json",
            write=lambda place, name=name, text=text: (place / name).write_text(text),
        )

    row = "2\t1\t9000\t90\t737280\t50\t90\t737280\t70\n"
    shape(
        "figures-file_stats-txt",
        "forecast file_stats.txt --elapsed 9s --to latency:150us --json",
        write=lambda place: (place / "file_stats.txt").write_text(sqlserver_files.FILES + row),
    )
    for name, (option, text) in OTHERS.items():
        shape(
            f"figures-{name}",
            f"forecast run.txt {option} --to latency:150us --json",
            write=lambda place, text=text: (place / "run.txt").write_text(text),
        )
    profiles = {
        "old": {"latency": 9.0, "query_name": "select 1", "system_peak_temp_dir_size": 1 << 24,
                "cumulative_cardinality": 9, "children": []},
        "new": {"query": {"total_time": 9.0, "sql": "select 1"}, "operator": [],
                "system": {"peak_temp_dir_size": 1 << 24}},
    }  # fmt: skip
    for name, profile in profiles.items():
        shape(
            f"figures-profile-{name}",
            "forecast profile.json --from latency:1ms --to latency:150us --json",
            write=lambda place, profile=profile: (place / "profile.json").write_text(
                json.dumps(profile)
            ),
        )

    def views(place):
        (place / "run.csv").write_text(run)
        (place / "plan.csv").write_text(plan)

    shape("figures-views", "forecast run.csv plan.csv --to latency:150us --json", write=views)
