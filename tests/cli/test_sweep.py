"""``spillcast sweep io-size`` as a user runs it: its output, refusals and leftovers."""

import signal
import subprocess
from pathlib import Path

import pytest
from test_documents import NUMBER, TEXT, WHOLE, array, document, nullable, printed, valid

from cases import cases
from harness import completed, environment, only_line, spillcast, started, until
from spills import recording, written_and_read

K, M = 1 << 10, 1 << 20
OP_TIME = document({"count": WHOLE, "bytes": WHOLE, "mean_us": nullable(NUMBER), "total_s": NUMBER})
SIZES = {"min_bytes": WHOLE, "max_bytes": WHOLE}
BOUNDS = nullable({"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2})
SIZE_ROW = document(
    SIZES
    | {
        "reads": OP_TIME, "writes": OP_TIME, "levels": nullable(WHOLE), "total_s": NUMBER,
        "interval_s": BOUNDS, "io": WHOLE,
    }
)  # fmt: skip
SIZE_SWEEP = document(
    {
        "schema": {"const": "spillcast.sweep/1"}, "kind": {"const": "io-size"},
        "storage": TEXT, "like": TEXT, "measured": {"type": "boolean"}, "confidence": NUMBER,
        "rows": array(SIZE_ROW), "recorded": nullable(SIZE_ROW),
        "best": document(SIZES | {"total_s": NUMBER, "interval_s": BOUNDS}),
        "as_good": array(document(SIZES)),
        "advice": array(document({"engine": TEXT, "text": TEXT, "statements": array(TEXT)})),
        "warnings": array(document({"code": TEXT, "message": TEXT})),
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def spill(tmp_path_factory):
    """A recording of 4 MiB written and read back in units of 64 KiB."""
    path = tmp_path_factory.mktemp("sweep") / "run.spill"
    return recording(path, written_and_read(4 * M, size=64 * K)).path


def swept(*arguments):
    document = printed("sweep", "io-size", *arguments)
    assert valid(SIZE_SWEEP, document)
    return document


def by_setting(document):
    return {(r["max_bytes"] // K, r["min_bytes"] // K): r for r in document["rows"]}


def test_a_recorded_spill_is_replayed_in_each_size(spill, tmp_path):
    sizes = ("--min", "32K,128K", "--max", "32K,128K", "--budget", "2s")
    document = swept(tmp_path, "--like", spill, *sizes)
    rows = by_setting(document)
    counts = {of: row["writes"]["count"] for of, row in rows.items()}
    assert counts == {(32, 32): 128, (128, 32): 64, (128, 128): 32}
    assert all(row["reads"]["count"] == row["writes"]["count"] for row in rows.values())
    # A setting that changes nothing is the same I/O, and is measured once.
    assert document["recorded"]["total_s"] == rows[128, 32]["total_s"]
    assert document["measured"]
    assert list(tmp_path.iterdir()) == []


def test_work_memory_adds_the_merge_levels_of_a_recorded_spill(spill):
    """4 MiB in 1 MiB are 4 runs: the fan-in is 15 with units of 64 KiB, and 3 with 256 KiB."""
    requested = ("catalogue:linux-hdd", "--min", "64K,256K", "--max", "256K", "--like", spill)
    alone = swept(*requested)
    assert {row["levels"] for row in alone["rows"]} == {None}
    assert [w["code"] for w in alone["warnings"]] == ["fan-in"]
    rows, before = by_setting(swept(*requested, "--memory", "1M")), by_setting(alone)
    assert {of: row["levels"] for of, row in rows.items()} == {(256, 64): 1, (256, 256): 2}
    assert rows[256, 64] == before[256, 64] | {"levels": 1}
    assert rows[256, 256]["total_s"] == pytest.approx(2 * before[256, 256]["total_s"])


def test_output_has_a_table_bars_and_settings(spill):
    result = completed(
        "sweep", "io-size", "catalogue:linux-hdd", "--min", "48K", "--max", "240K",
        env=environment(COLUMNS="80"),
    )  # fmt: skip
    assert "an external sort of 1 GiB in 32 MiB of memory" in result.stdout
    assert "█" in result.stdout
    assert 'ALTER SYSTEM SET "_smm_auto_max_io_size"=240' in result.stdout
    assert "only on Oracle Support's advice" in " ".join(result.stdout.split())
    assert "there is no setting" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_settings_without_three_buffers_are_omitted():
    document = swept("catalogue:linux-hdd", "--data", "64M", "--memory", "2M")
    assert max(row["min_bytes"] for row in document["rows"]) <= 2 * M // 3
    assert [w["code"] for w in document["warnings"]] == ["no-fan-in"]


@cases(
    ("arguments", "words"),
    [
        (("--min", "50000"), "--min 50000: 50000 is not a multiple of the block, 8 KiB"),
        (
            ("--min", "32K", "--max", "240K", "--block", "32K"),
            "240K is not a multiple of the block, 32 KiB",
        ),
        (("--block", "24K"), "--block 24K: a block is a power of two"),
        (("--min", "1M", "--max", "240K"), "every --min is above every --max"),
        (("--min", "1M..48K"), "--min 1M..48K: the range ends before it begins"),
        (("--min", "48K..x"), "--min 48K..x: 'x' is not a size"),
        (("--max", "128M"), "--max 128M: an I/O has from one block to 64 MiB"),
        (("--data", "16M"), "16 MiB of data fit into 32 MiB of memory"),
        (("--memory", "64K"), "64 KiB of memory do not hold three buffers of 48 KiB"),
        (("--like", "nowhere.spill"), "nowhere.spill: no such recording"),
        (("--budget", "9s,1K"), "the byte budget is 1 KiB"),
        (("--data", "1T", "--memory", "64M"), "I/Os of 48 KiB make"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, arguments, words):
    message = only_line(spillcast("sweep", "io-size", tmp_path, *arguments), 2)
    assert words in message
    assert list(tmp_path.iterdir()) == []


def test_sizes_need_not_be_powers_of_two():
    rows = by_setting(swept("catalogue:linux-hdd", "--min", "48K", "--max", "240K"))
    assert list(rows) == [(240, 48)]


def test_data_does_not_apply_to_a_recording(spill, tmp_path):
    message = only_line(spillcast("sweep", "io-size", tmp_path, "--like", spill, "--data", "1G"), 2)
    assert "--data is for a synthetic sort" in message


def test_a_memory_that_does_not_explain_the_spill_is_refused(spill, tmp_path):
    message = only_line(
        spillcast("sweep", "io-size", tmp_path, "--like", spill, "--memory", "1G"), 2
    )
    assert "does not explain" in message


def test_a_directory_without_enough_space_is_refused(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        result = spillcast("sweep", "io-size", tmp_path, "--budget", "2s")
        assert result.returncode in (1, 2)
        assert str(tmp_path) in result.stderr
        assert len(result.stderr.splitlines()) <= 2
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_an_interrupted_sweep_leaves_nothing(tmp_path):
    command = ("sweep", "io-size", tmp_path, "--data", "256M", "--memory", "8M")
    with started(*command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: threads_of(process.pid) > 1 or process.poll() is not None, "the replay")
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def threads_of(pid):
    """Number of threads of a process that have the probe's name."""
    tasks = list(Path(f"/proc/{pid}/task").glob("*/comm"))
    return 1 + sum("spillcast-probe" in comm.read_text() for comm in tasks)


def test_a_recorded_spill_of_a_program_on_a_directory(spilled, tmp_path):
    """Two threads, with sizes from 1,000 bytes to 256 KiB and offsets at random."""
    document = swept(
        tmp_path, "--like", spilled.path, "--min", "8K", "--max", "48K", "--budget", "1s"
    )
    assert len(document["rows"]) == 1
    assert document["recorded"]["reads"]["bytes"] == document["rows"][0]["reads"]["bytes"]
    assert document["rows"][0]["interval_s"][0] <= document["rows"][0]["total_s"]
