"""Writes event logs of Spark to try ``spillcast forecast`` and ``spillcast fleet`` on.

    python examples/spark/make_example.py FOLDER

They are made up, in the form in which Spark 4 writes them. ``nightly_etl`` joins two tables and
sorts the result on two executors of four cores: 48 GB of shuffles, and a sort that spills 20 GB.
``hourly_report`` shuffles 2 GB.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
BEGIN_MS = 1_795_680_000_000
GB = 1_000_000_000
EXECUTORS, CORES = 2, 4
SQL = "insert into sales select * from orders join items using (order_id) order by day"


class Log:
    """Events of one application whose jobs follow each other; times in s since its begin."""

    def __init__(self, app: str, sql: str) -> None:
        self.events: list[Event] = []
        self.now_s = 5.0
        self.stages = 0
        properties = {
            "spark.app.name": app, "spark.executor.memory": "4g",
            "spark.sql.shuffle.partitions": "400",
        }  # fmt: skip
        self.add("LogStart", **{"Spark Version": "4.0.1"})
        self.add("EnvironmentUpdate", **{"Spark Properties": properties})
        self.add("ApplicationStart", **{"App Name": app, "App ID": app, "Timestamp": BEGIN_MS})
        for executor in range(EXECUTORS):
            info = {"Host": f"worker-{executor}", "Total Cores": CORES, "Log Urls": {}}
            names = {"Timestamp": BEGIN_MS + 2000, "Executor ID": str(executor)}
            self.add("ExecutorAdded", **names, **{"Executor Info": info})
        self.sql = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
        started = {"executionId": 0, "description": sql, "time": BEGIN_MS + 4000}
        self.events.append({"Event": f"{self.sql}Start", **started})

    def add(self, name: str, **fields: Any) -> None:
        """Append an event of Spark's listener."""
        self.events.append({"Event": f"SparkListener{name}", **fields})

    def job(self, stages: int) -> None:
        """Begin a job of the next so many stages."""
        ids = list(range(self.stages, self.stages + stages))
        self.add(
            "JobStart", **{"Job ID": 0, "Submission Time": self.ms(), "Stage IDs": ids},
            Properties={"spark.sql.execution.id": "0"},
        )  # fmt: skip

    def stage(
        self,
        name: str,
        task_s: list[float],
        *,
        parents: list[int],
        read: float = 0,
        written: float = 0,
        spilled: float = 0,
        cpu: float = 0.7,
    ) -> None:
        """A stage of tasks of these times; ``read``, ``written``, ``spilled`` are bytes of all."""
        info = {
            "Stage ID": self.stages, "Stage Attempt ID": 0, "Stage Name": name,
            "Number of Tasks": len(task_s), "Parent IDs": parents, "Submission Time": self.ms(),
        }  # fmt: skip
        self.add("StageSubmitted", **{"Stage Info": dict(info)})
        free_s = [self.now_s] * (EXECUTORS * CORES)
        for number, seconds in enumerate(task_s):
            slot = min(range(len(free_s)), key=free_s.__getitem__)
            begin_s, free_s[slot] = free_s[slot], free_s[slot] + seconds
            of_task = [round(total / len(task_s)) for total in (read, written, spilled)]
            self.add("TaskEnd", **_task(self.stages, number, slot, begin_s, seconds, cpu, *of_task))
        self.now_s = max(free_s)
        info["Completion Time"] = self.ms()
        self.add("StageCompleted", **{"Stage Info": info})
        self.stages += 1

    def ms(self) -> int:
        """The time, as the driver writes it."""
        return BEGIN_MS + round(1000 * self.now_s)

    def lines(self) -> Iterator[str]:
        """The log, once its job and the application have ended."""
        result = {"Job ID": 0, "Completion Time": self.ms()}
        self.add("JobEnd", **result, **{"Job Result": {"Result": "JobSucceeded"}})
        ended = {"executionId": 0, "time": self.ms() + 200}
        self.events.append({"Event": f"{self.sql}End", **ended})
        self.add("ApplicationEnd", Timestamp=self.ms() + 1000)
        return (json.dumps(event, separators=(",", ":")) + "\n" for event in self.events)


def _task(
    stage: int, number: int, slot: int, begin_s: float, seconds: float, cpu: float,
    read: int, written: int, spilled: int,
) -> Event:  # fmt: skip
    local = read // EXECUTORS
    metrics = {
        "Executor Run Time": round(1000 * seconds), "Executor CPU Time": round(1e9 * cpu * seconds),
        "JVM GC Time": round(50 * seconds), "Peak Execution Memory": 512 << 20,
        "Memory Bytes Spilled": 3 * spilled, "Disk Bytes Spilled": spilled,
        "Shuffle Read Metrics": {
            "Local Bytes Read": local, "Remote Bytes Read": read - local,
            "Fetch Wait Time": round(20 * seconds),
        },
        "Shuffle Write Metrics": {"Shuffle Bytes Written": written, "Shuffle Write Time": 0},
    }  # fmt: skip
    executor = slot // CORES
    info = {
        "Task ID": 1000 * stage + number, "Index": number, "Attempt": 0,
        "Launch Time": BEGIN_MS + round(1000 * begin_s),
        "Finish Time": BEGIN_MS + round(1000 * (begin_s + seconds)),
        "Executor ID": str(executor), "Host": f"worker-{executor}", "Accumulables": [],
    }  # fmt: skip
    return {
        "Stage ID": stage, "Stage Attempt ID": 0, "Task Type": "ShuffleMapTask",
        "Task End Reason": {"Reason": "Success"}, "Task Info": info, "Task Metrics": metrics,
    }  # fmt: skip


def nightly_etl() -> Log:
    """Two scans, a join whose first tasks are stragglers, and a sort."""
    log = Log("nightly_etl", SQL)
    log.job(4)
    log.stage("scan orders", [14.0] * 32, parents=[], written=14 * GB)
    log.stage("scan items", [16.0] * 24, parents=[], written=14 * GB)
    log.stage("join", [42.0] * 31 + [150.0], parents=[0, 1], read=28 * GB, written=20 * GB, cpu=0.3)
    log.stage("sort", [75.0] * 32, parents=[2], read=20 * GB, spilled=20 * GB, cpu=0.4)
    return log


def hourly_report() -> Log:
    """A scan and an aggregate."""
    log = Log("hourly_report", "select day, sum(price) from sales group by day")
    log.job(2)
    log.stage("scan sales", [5.0] * 16, parents=[], written=2 * GB, cpu=0.9)
    log.stage("aggregate", [6.0] * 8, parents=[0], read=2 * GB, cpu=0.9)
    return log


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    for name, log in (
        ("application_1_0001", nightly_etl()),
        ("application_1_0002", hourly_report()),
    ):
        with (folder / name).open("w") as file:
            file.writelines(log.lines())
