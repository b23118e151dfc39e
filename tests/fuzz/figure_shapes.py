"""Shapes of figures of a run: bare ones, and Oracle's reports."""

import json

import monitor_reports
import oracle_reports
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
    }
    for name, text in forms.items():
        sql_id = "987654321" if "statspack" in name else SQL_ID
        shape(
            f"figures-{name.replace('.', '-')}",
            f"forecast {name} --to latency:150us --json",
            f"forecast {name} --sql-id {sql_id} --to factor:7",
            f"forecast @figures-run-toml/run.toml --to {name} --json",
            write=lambda place, name=name, text=text: (place / name).write_text(text),
        )

    def views(place):
        (place / "run.csv").write_text(run)
        (place / "plan.csv").write_text(plan)

    shape("figures-views", "forecast run.csv plan.csv --to latency:150us --json", write=views)
