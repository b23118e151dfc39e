"""Verification of Spark: its volumes, other forecasting methods, and the page of its cases."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness import until
from spark_logs import text, two_stages
from spillcast.engines.queries import RunResult
from spillcast.evidence.spark import read_application
from spillcast.forecast.question import Question
from spillcast.forecast.spark import forecast_application
from spillcast.lab.case import Case, CaseEvidence, Runs, Truth, Variant, read_truth, write_truth
from spillcast_lab.accuracy import write_accuracy
from spillcast_lab.kernel_slowed import BLKIO
from spillcast_lab.spark.runs import BDI, unsupported_reason
from spillcast_lab.spark.verify import (
    LOG,
    LOG_AND_RECORDING,
    NAIVE,
    SPARKLENS,
    jobs_of,
    naive_s,
    sparklens_s,
)

HOLD = """
import sys
from pathlib import Path
from spillcast_lab.spark.runs import Volume, mounted
room = Path(sys.argv[1])
with mounted(Volume("58 MB/s", 58_000_000), room, room, 200 << 20) as directory:
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def application(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(text(two_stages()))
    return read_application(log)


def limits_of(numbers):
    lines = (BLKIO / "blkio.throttle.write_bps_device").read_text().splitlines()
    return [line for line in lines if line.split()[0] == numbers]


@pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))
def test_the_volume_of_a_killed_owner_is_removed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    directory = Path(process.stdout.readline().decode().strip())
    device = directory.stat().st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    bdi = BDI / numbers
    assert limits_of(numbers) == [f"{numbers} 58000000"]
    assert (bdi / "strict_limit").read_text().strip() == "1"
    # The kernel keeps it as a share of all memory, in millionths.
    assert int((bdi / "max_bytes").read_text()) == pytest.approx(200 << 20, rel=0.01)
    process.kill()
    process.communicate()
    until(lambda: not directory.parent.exists(), "the guard")
    assert limits_of(numbers) == []
    assert (bdi / "strict_limit").read_text().strip() == "0"
    assert list(tmp_path.iterdir()) == []


def test_other_methods_scale_the_time_off_cpu(application):
    # 2 s of the 12 s of tasks were off-CPU.
    assert naive_s(application, 3.0) == pytest.approx(11.0 * (1 + 2 * 2 / 12))
    # The longest tasks of the two stages had 1 s each.
    assert sparklens_s(application, 3.0) == pytest.approx(11.0 + 2.0 + 2.0)


def test_a_seed_draws_the_same_jobs():
    assert jobs_of(5) == jobs_of(5) != jobs_of(6)
    assert {job.title for job in jobs_of(5)} == {job.title for job in jobs_of(6)}
    assert [job.name for job in jobs_of(5, ["tpch"])] == ["tpch Q18"]


def test_the_page_is_made_from_the_file_of_cases(application, tmp_path):
    question = Question(origin="tmpfs", page_cache_bytes=1 << 30)
    disk = "limits:latency=0.1ms,throughput=100MB/s"
    [(answer, _)] = forecast_application(application, [disk], question)
    runs = [Runs([RunResult(elapsed_s, "", 0.0, 10.0)], 1) for elapsed_s in (11.0, 20.0)]
    others = {
        name: Variant(other_s, (other_s, other_s), 11.0, None)
        for name, other_s in ((NAIVE, 30), (SPARKLENS, 25))
    }
    recorded = replace(answer, forecast_s=22.0)
    cases = [
        Case(
            "Spark 4.0.1", "sort", 2, "tmpfs", "100 MB/s", "fast to slow", *runs, forecast, None,
            CaseEvidence(name, 11.0, 0.0, 0.0, None, None, 0.11), variants=others,
        )
        for name, forecast in ((LOG, answer), (LOG_AND_RECORDING, recorded))
    ]  # fmt: skip
    storages = [{"name": name, "what": name} for name in ("tmpfs", "100 MB/s")]
    about = {
        "seed": 1, "repeat": 1, "started_at": "", "machine": {"cpus": 2, "kernel": "6"},
        "page_cache_bytes": 1 << 30, "storages": storages[:1], "left_out": [],
    }  # fmt: skip
    write_truth(tmp_path / "cases.parquet", Truth(cases, about))
    write_accuracy(read_truth(tmp_path / "cases.parquet"), tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| sort | ")]
    recorded = next(row for row in rows if row[1] == "event log and recording")
    # The error and its sign, whether the interval covers, and the errors of the other methods.
    assert [recorded[at] for at in (3, 5, 7, 9, 11)] == [
        *("10.0 %", "+10.0 %", "0 %", "50.0 %", "25.0 %")
    ]
    # 0.11 s of 11 s.
    assert "1.00 %" in page
