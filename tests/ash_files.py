"""ASH exports for tests: samples of executions, by the second, as a client writes them."""

from datetime import datetime, timedelta

SQL_ID = "4q7zf0d2m8kcx"
EXEC_ID = 16_777_216
BEGAN = datetime(2024, 9, 3, 20, 26, 2)
READ = "direct path read temp"
#: All columns that distinguish executions.
COLUMNS = (
    *("SAMPLE_TIME", "INST_ID", "SESSION_ID", "SQL_ID", "SQL_EXEC_ID", "SQL_EXEC_START"),
    *("QC_SESSION_ID", "QC_INSTANCE_ID", "SESSION_STATE", "EVENT", "TIME_WAITED"),
)
_USUAL = {"INST_ID": 1, "SESSION_ID": 35, "SQL_ID": SQL_ID, "SQL_EXEC_ID": EXEC_ID}


def execution(seconds, *, after_s=0, every_s=1, **columns):
    """Samples of a session that reads temp in every second one; other columns are given by name."""
    began = BEGAN + timedelta(seconds=after_s)
    named = {name.upper(): value for name, value in columns.items()}
    rows = []
    for second in range(seconds):
        waits = second % 2 == 0
        rows.append(
            _USUAL
            | {
                "SAMPLE_TIME": f"{began + timedelta(seconds=second * every_s):%Y-%m-%d %H:%M:%S}",
                "SQL_EXEC_START": f"{began:%Y-%m-%d %H:%M:%S}",
                "SESSION_STATE": "WAITING" if waits else "ON CPU",
                "EVENT": READ if waits else "",
                "TIME_WAITED": 9_000 if waits else 0,
            }
            | named
        )
    return rows


def write_ash(path, *executions, columns=COLUMNS):
    """Writes an export of all executions in order of time, with only the named columns."""
    rows = sorted((row for item in executions for row in item), key=lambda row: row["SAMPLE_TIME"])
    lines = [",".join(str(row.get(name, "")) for name in columns) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def without(*names):
    """The columns without these."""
    return tuple(name for name in COLUMNS if name not in names)
