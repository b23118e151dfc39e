"""fio replays what was exported, and counts the same."""

import json
import shutil
import subprocess
import time

import pytest

from harness import completed, json_of, spillcast
from spills import MIB, recording, written_and_read

FIO = shutil.which("fio")


def replayed(log, where):
    """What fio says that it did: (operations, bytes) by op, and for how long (s)."""
    where.mkdir()
    command = [FIO, "--name=spill", "--ioengine=psync", f"--read_iolog={log}",
               "--output-format=json"]  # fmt: skip
    start_s = time.monotonic()
    result = subprocess.run(command, cwd=where, capture_output=True, text=True)
    # Its own clock is calibrated as it starts, which a busy machine disturbs.
    elapsed_s = time.monotonic() - start_s
    assert result.returncode == 0, result.stderr
    job = json.loads(result.stdout[result.stdout.index("{") :])["jobs"][0]
    assert job["error"] == 0
    done = {op: (job[op]["total_ios"], job[op]["io_bytes"]) for op in ("read", "write")}
    return done, elapsed_s


@pytest.mark.skipif(FIO is None, reason="fio is not installed")
def test_fio_does_what_was_recorded(tmp_path):
    operations = written_and_read(4 * MIB, size=64 << 10, times=2, files=3)
    recording(tmp_path / "run.spill", operations, gap_ns=2_000_000)
    log = tmp_path / "spill.log"
    document = json_of("probe", "--like", tmp_path / "run.spill", "--iolog", log)
    assert document["files"] == {f"spill-{number}": 4 * MIB for number in range(3)}
    assert document["laid_before"] == []
    done, elapsed_s = replayed(log, tmp_path / "fio")
    assert done["read"] == (document["reads"], document["read_bytes"]) == (384, 24 * MIB)
    assert done["write"] == (document["writes"], document["write_bytes"]) == (192, 12 * MIB)
    # 576 operations begin 2.05 ms apart.
    assert elapsed_s > 0.95 * 576 * 0.00205


@pytest.mark.skipif(FIO is None, reason="fio is not installed")
def test_fio_replays_a_recording_of_threads(spilled, tmp_path):
    log = tmp_path / "spill.log"
    result = spillcast("probe", "--like", spilled.path, "--iolog", log, "--json")
    document = json.loads(result.stdout)
    assert document["laid_before"] == []
    done, _ = replayed(log, tmp_path / "fio")
    assert done["read"] == (document["reads"], document["read_bytes"])
    assert done["write"] == (document["writes"], document["write_bytes"])


def test_the_log_is_in_order_and_says_what_must_be_there_before(tmp_path):
    operations = [("write", 0, 0, 8192), ("read", 0, 4096, 8192), ("read", 1, 0, 4096)]
    recording(tmp_path / "run.spill", operations, gap_ns=1_950_000, latency_ns=50_000)
    log = tmp_path / "spill.log"
    result = completed("probe", "--like", tmp_path / "run.spill", "--iolog", log)
    assert "truncate -s 12288 spill-0" in result.stdout
    assert "truncate -s 4096 spill-1" in result.stdout
    assert log.read_text().splitlines() == [
        "fio version 3 iolog",
        "0 spill-0 add",
        "0 spill-1 add",
        "0 spill-0 open",
        "0 spill-1 open",
        "0 spill-0 write 0 8192",
        "2000 spill-0 read 4096 8192",
        "4000 spill-1 read 0 4096",
        "4000 spill-0 close",
        "4000 spill-1 close",
    ]


def test_a_directory_is_probed_as_well_where_one_is_named(spilled, tmp_path):
    log, where = tmp_path / "spill.log", tmp_path / "where"
    where.mkdir()
    result = spillcast("probe", where, "--like", spilled.path, "--iolog", log, "--json")
    assert json.loads(result.stdout)["schema"] == "spillcast.storage/1"
    assert log.read_text().startswith("fio version 3 iolog\n")
