"""I/O that makes no read or write call is detected, said, and refused a forecast."""

import json

import pytest

from harness import spillcast, target


def record(tmp_path, how):
    output = tmp_path / "blind.spill"
    result = spillcast("record", "-o", output, "--", *target("blind", how, tmp_path))
    if "io_uring: " in result.stderr:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr
    return output, result.stdout, json.loads((output / "meta.json").read_text())["capture"]


def check_refused(output, word):
    result = spillcast("forecast", output, "--to", "factor:2", "--json")
    assert result.returncode == 3
    assert word in json.loads(result.stdout)["refused"]


def test_mapped_temp_files(tmp_path):
    output, said, capture = record(tmp_path, "mmap")
    assert capture["mapped_temp_files"] == [str(tmp_path / "duckdb_temp_blind")]
    assert not capture["io_uring"]
    assert "mapped into memory" in said
    check_refused(output, "mapped")


def test_io_uring(tmp_path):
    output, said, capture = record(tmp_path, "io_uring")
    assert capture["io_uring"]
    assert capture["mapped_temp_files"] == []
    assert "io_uring" in said
    check_refused(output, "io_uring")
