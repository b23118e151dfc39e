"""The recorder's replay of a recording: the steps, and the document, that spillcast makes of it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_recorder import keys, recorder

from harness import spillcast
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.plan import plan, plan_of_trace, waits_known
from spillcast.storage.source import PROBE

ROOT = Path(__file__).parents[2]
FORMER = ROOT / "tests" / "fixtures" / "0.1.0" / "recording"


def steps_of_the_recorder(path, *how):
    """Its plan, as rows of text, by the example of the crate that reads recordings."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    # Of the whole workspace, as `cargo test` compiles it, so that nothing is compiled twice.
    build = "cargo build --quiet --profile quick --locked --workspace --example replay_plan"
    built = subprocess.run(build.split(), capture_output=True, text=True, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    program = Path(
        os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "quick/examples/replay_plan"
    )
    done = subprocess.run([program, path, *how], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [tuple(line.split()) for line in done.stdout.splitlines()]


def numbered(values):
    """By first appearance, for the numbers of threads and files mean nothing else."""
    seen = {}
    return [seen.setdefault(value, len(seen)) for value in values]


def alike(rows):
    """Rows with threads, and files of what acts, numbered alike."""
    threads = numbered(row[0] for row in rows)
    acting = [row for row in rows if row[1] != "-" or row[2] != "-"]
    files = iter(numbered(row[3] for row in acting))
    return [
        (
            thread,
            *row[1:3],
            next(files) if (row[1], row[2]) != ("-", "-") else 0,
            *map(int, row[4:]),
        )
        for thread, row in zip(threads, rows, strict=True)
    ]


def steps_of_spillcast(recording):
    steps = (
        plan_of_trace(recording) if waits_known(recording) else plan(recording, with_changes=True)
    )
    none = [0] * steps.num_rows
    rows = []
    names = ("cpu_ns", "after", "after_cpu_ns")
    has = {name: steps[name].to_pylist() if name in steps.column_names else none for name in names}
    if "after" not in steps.column_names:
        has["after"] = [None] * steps.num_rows
    for at, row in enumerate(steps.to_pylist()):
        op = {True: "write", False: "read", None: "-"}[row["write"]]
        after = has["after"][at]
        rows.append(
            (row["thread"], op, row["change"] or "-", row["file"], row["offset"], row["bytes"],
             has["cpu_ns"][at], -1 if after is None else after, has["after_cpu_ns"][at],
             row["delay_ns"])
        )  # fmt: skip
    return rows


def check_steps(path):
    recording = Recording.open(path)
    how = [] if recording.meta.raw.whole else ["slices"]
    ours = alike(steps_of_spillcast(recording))
    assert len(ours) > 10
    assert alike(steps_of_the_recorder(path, *how)) == ours


def test_the_steps_of_a_spill_are_those_of_spillcast(spilled):
    check_steps(spilled.path)


def test_the_steps_of_the_former_version_are_those_of_spillcast():
    check_steps(FORMER)


def probed(places, run, *, by):
    output = places.root / f"by-{by.__name__}.json"
    result = by("probe", places.temp, "--like", run, "--budget", "20s", "-o", output)
    assert result.returncode == 0, result.stderr
    assert list(places.temp.iterdir()) == []
    return output


def test_the_document_is_that_of_spillcast(places, spilled):
    paths = [probed(places, spilled.path, by=by) for by in (recorder, spillcast)]
    assert Storage.load(paths[0]).source is PROBE
    own, wanted = documents = [json.loads(path.read_text()) for path in paths]
    assert set(keys(own)) == set(keys(wanted))
    assert set(own["groups"][0]) == set(wanted["groups"][0])
    counts = [
        [
            (g["op"], g["size_class_bytes"], g["depth"], g["count"], g["bytes"])
            for g in one["groups"]
        ]
        for one in documents
    ]
    assert counts[0] == counts[1]
    assert [(one["event"], one["count"]) for one in own["changes"]] == [
        (one["event"], one["count"]) for one in wanted["changes"]
    ]
    for name in ("working_set_bytes", "threads", "like", "closed_loop", "budget_s", "direct"):
        assert own["facts"][name] == wanted["facts"][name], name


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda path: (path / "meta.json").unlink(), "it has no meta.json"),
        (lambda path: (path / "meta.json").write_text("{"), "meta.json is not JSON"),
        (lambda path: (path / "meta.json").write_text('{"schema": "paper/2"}'), "paper/2"),
        (lambda path: (path / "waits.parquet").unlink(), "No such file"),
        (lambda path: (path / "waits.parquet").write_bytes(b"PAR1"), "waits.parquet: "),
        (lambda path: shutil.copy(FORMER / "waits.parquet", path), "meta.json counts"),
        (shutil.rmtree, "no such recording"),
    ],
)
def test_a_recording_that_is_not_whole_is_refused_in_a_line(places, spilled, break_it, said):
    run = places.root / "broken.spill"
    shutil.copytree(spilled.path, run)
    break_it(run)
    result = recorder("probe", places.temp, "--like", run)
    assert result.returncode == 2, result.stderr
    first, *hints = result.stderr.splitlines()
    assert said in first
    assert len(hints) == 1
    assert result.stdout == ""
