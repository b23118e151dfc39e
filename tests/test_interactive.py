"""``with spillcast.record()``: the temp I/O of a block of Python, and its forecast."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import spillcast.interactive
from harness import TIMEOUT_S, until
from harness import spillcast as run_spillcast
from kills import processes_of
from spillcast.errors import (
    InputError,
    NoTempIo,
    NothingRecorded,
    NotSpilled,
    OutputExists,
    PathMissing,
)
from spillcast.interactive import load_ipython_extension
from spills import recording, written_and_read

WRITES, BLOCK = 40, 65536


def spill(folder):
    """Writes a temp file and reads it back, in this process."""
    descriptor = os.open(folder / "spilled", os.O_RDWR | os.O_CREAT)
    try:
        for at in range(WRITES):
            os.pwrite(descriptor, bytes(BLOCK), at * BLOCK)
        for at in range(WRITES):
            os.pread(descriptor, BLOCK, at * BLOCK)
    finally:
        os.close(descriptor)


def recorded(**options):
    try:
        run = spillcast.record(**options)
        run.__enter__()
    except InputError as error:
        pytest.skip(f"nothing can be observed here: {error}")
    return run


def test_the_temp_io_of_a_block_is_recorded_and_forecast(tmp_path):
    run = recorded(temp=[tmp_path])
    spill(tmp_path)
    run.__exit__(None, None, None)
    meta = run.recording.meta
    assert (meta.temp.reads, meta.temp.writes) == (WRITES, WRITES)
    assert repr(run).endswith(f", {2 * WRITES} temp operations>")
    answer = run.forecast("latency:5ms")
    assert answer.part is None
    assert answer.to_come is None
    assert answer.baseline_s == pytest.approx(run.recording.elapsed_s)


def test_the_forecast_of_a_run_is_a_sentence_and_has_a_page(tmp_path):
    written = written_and_read(WRITES * BLOCK, size=BLOCK)
    run = spillcast.interactive.Run(recording(tmp_path / "run.spill", written).path)
    answer = run.forecast("latency:5ms")
    assert answer.forecast_s > 2 * WRITES * 0.005
    assert str(answer) == answer.sentence()
    page = run.report(tmp_path / "report.html", ["latency:5ms"])
    assert "latency:5ms" in page.read_text()


def test_a_block_that_does_not_spill_raises_nothing(tmp_path):
    run = recorded(output=tmp_path / "run.spill")
    run.__exit__(None, None, None)
    assert not run.recording.meta.temp.operations
    with pytest.raises(NotSpilled):
        run.forecast("latency:1ms")
    with pytest.raises(OutputExists) as raised:
        spillcast.record(tmp_path / "run.spill").__enter__()
    assert "force=True" in raised.value.hint
    assert "--" not in raised.value.hint
    with pytest.raises(PathMissing):
        spillcast.record(tmp_path / "none" / "run.spill").__enter__()


def test_an_interrupt_before_the_block_ends_the_recorder(tmp_path, monkeypatch):
    check = spillcast.interactive._check

    def interrupted(text):
        try:
            check(text)
        except InputError as error:
            pytest.skip(f"nothing can be observed here: {error}")
        raise KeyboardInterrupt

    monkeypatch.setattr(spillcast.interactive, "_check", interrupted)
    run = spillcast.record(tmp_path / "run.spill")
    with pytest.raises(KeyboardInterrupt):
        run.__enter__()
    until(run.output.exists, "the end of the recorder")


def test_a_run_has_no_forecast_before_its_block_ends(tmp_path):
    with pytest.raises(NothingRecorded) as raised:
        spillcast.record(tmp_path / "run.spill").forecast("latency:1ms")
    assert raised.value.hint


def test_a_block_may_change_its_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    run = recorded(output="run.spill", temp=str(tmp_path))
    os.chdir(elsewhere)
    spill(tmp_path)
    run.__exit__(None, None, None)
    assert run.output == tmp_path / "run.spill"
    assert run.recording.meta.temp.writes == WRITES


def test_a_block_ends_although_a_forked_process_lives_on(tmp_path):
    program = f"""
import os, time, spillcast
with spillcast.record("run.spill", temp="."):
    with open("spilled", "wb", buffering=0) as file:
        file.write(bytes({BLOCK}))
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
os.kill(child, 9)
"""
    run = recorded(temp=[tmp_path])
    spill(tmp_path)
    run.__exit__(None, None, None)
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=TIMEOUT_S)
    assert (tmp_path / "run.spill" / "meta.json").exists()


def test_a_single_string_is_one_directory(tmp_path):
    run = recorded(temp=str(tmp_path), output=tmp_path / "run.spill")
    spill(tmp_path)
    run.__exit__(None, None, None)
    for temp in (str(tmp_path), tmp_path):
        with pytest.raises(NoTempIo, match="none of the recorded I/O was under"):
            spillcast.profile(run.output, temp_dirs=str(Path(temp) / "other"))
        answers = [run.forecast("latency:1ms", temp_dirs=item) for item in (temp, [temp])]
        assert answers[0].forecast_s == answers[1].forecast_s
    assert spillcast.profile(run.output, by="op").by == ["op"]


def test_a_sweep_equals_that_of_the_command_line(tmp_path):
    made = recording(tmp_path / "run.spill", written_and_read(4 << 20, size=64 << 10))
    sizes = ("--min", "32K,64K", "--max", "64K,256K", "--memory", "1M")
    requested = ("sweep", "io-size", "catalogue:linux-hdd", "--like", made.path, *sizes, "--json")
    result = spillcast.interactive.Run(made.path).sweep(
        "catalogue:linux-hdd", min_sizes="32K,64K", max_sizes="64K,256K", memory="1M"
    )
    assert json.dumps(result.to_json()) == json.dumps(json.loads(run_spillcast(*requested).stdout))
    rows = result.to_arrow().to_pylist()
    assert [(r["min_bytes"], r["max_bytes"], r["total_s"]) for r in rows] == [
        (r["min_bytes"], r["max_bytes"], r["total_s"]) for r in result.to_json()["rows"]
    ]
    assert "64K/32K" in result._repr_html_()


def test_the_magic_records_a_cell(tmp_path, monkeypatch):
    magics = {}
    shell = SimpleNamespace(
        run_cell=lambda _cell: SimpleNamespace(success=spill(tmp_path) is None),
        register_magic_function=lambda function, kind, name: magics.update(
            {(kind, name): function}
        ),
    )
    load_ipython_extension(shell)
    kept = {}

    class Run:
        def __enter__(self):
            return self

        def __exit__(self, *raised):
            kept["ended"] = True

        def forecast(self, targets):
            assert kept["ended"]
            return targets

    monkeypatch.setattr("spillcast.interactive.record", Run)
    for line in ("/mnt/nvme latency:1ms", "--to /mnt/nvme --to latency:1ms"):
        assert magics["cell", "spillcast"](line, "") == ["/mnt/nvme", "latency:1ms"]
    assert (tmp_path / "spilled").stat().st_size == WRITES * BLOCK


NOTEBOOK = [
    "%load_ext spillcast",
    "import os, sys; sys.path.insert(0, {tests!r})\n"
    "from pathlib import Path; from test_interactive import spill",
    "%%spillcast --to latency:1ms latency:5ms\nos.chdir({folder!r}); spill(Path('temp'))",
    "%%spillcast --too latency:1ms\nprint('ran')",
    "%%spillcast latency:1ms\n1 + 1",
]


def test_notebook_cells_show_the_table_or_a_refusal(tmp_path):
    """In a Jupyter kernel, with the input of a new user."""
    nbformat, nbclient = (pytest.importorskip(name) for name in ("nbformat", "nbclient"))
    pytest.importorskip("ipykernel")
    recorded().__exit__(ValueError, None, None)
    # A folder of this name holds temp files.
    (tmp_path / "temp").mkdir()
    words = {"tests": str(Path(__file__).parent), "folder": str(tmp_path)}
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell.format(**words)) for cell in NOTEBOOK]
    )
    nbclient.NotebookClient(
        book, allow_errors=True, timeout=TIMEOUT_S, kernel_name="python3"
    ).execute()
    *_, forecast, misspelt, idle = [cell.outputs for cell in book.cells]
    [shown] = [item for item in forecast if "text/html" in item.get("data", {})]
    assert "latency:5ms" in shown["data"]["text/html"]
    for outputs, words in ((misspelt, "takes storages, not --too"), (idle, "spill")):
        answer = "".join(item.get("text", "") + item.get("evalue", "") for item in outputs)
        assert words in answer
        assert "Traceback" not in answer
        assert "ran" not in answer.splitlines()


def test_a_refused_recording_raises_and_does_not_hang(tmp_path, monkeypatch):
    """The recorder cannot start: its folder is a file."""
    (tmp_path / "run.spill").write_text("")
    with pytest.raises(OutputExists, match=r"run\.spill"):
        spillcast.record(tmp_path / "run.spill").__enter__()


KILLED = """
import os, signal, spillcast
with spillcast.record():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_block_leaves_no_temporary_recording(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", KILLED], env=environment).returncode == -9
    until(lambda: not list(tmp_path.iterdir()), "the recording to go")
    until(lambda: not processes_of(tmp_path), "the recorder to end")
    assert not list(tmp_path.iterdir())
