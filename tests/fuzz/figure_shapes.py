"""Shapes of figures of a run: bare ones, and Oracle's reports."""

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
_DATABEND = """Sort
├── cpu time: 17.7s
├── wait time: 13.4s
├── numbers local spilled by write: 210
├── bytes local spilled by write: 1.02 GiB
├── local spilled time by write: 15.278s
├── numbers local spilled by read: 210
├── bytes local spilled by read: 1.02 GiB
└── local spilled time by read: 150ms
"""


def figures(shape):
    """Each form with what reads it: as a baseline, and as a target."""
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
        "databend.txt": _DATABEND,
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
