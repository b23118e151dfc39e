"""The recorder's replay of a recording gives the same document as spillcast's."""

import json
import shutil
from pathlib import Path

from test_recorder import keys, recorder

from cases import cases
from harness import spillcast
from spillcast.storage import Storage
from spillcast.storage.source import PROBE

ROOT = Path(__file__).parents[2]
FORMER = ROOT / "tests" / "fixtures" / "0.1.0" / "recording"


def probed(places, run, *, by):
    output = places.root / f"by-{by.__name__}.json"
    result = by("probe", places.temp, "--like", run, "--budget", "20s", "-o", output)
    assert result.returncode == 0, result.stderr
    assert list(places.temp.iterdir()) == []
    return output


def test_the_document_equals_that_of_spillcast(places, spilled):
    paths = [probed(places, spilled.path, by=by) for by in (recorder, spillcast)]
    assert Storage.load(paths[0]).source is PROBE
    private, wanted = documents = [json.loads(path.read_text()) for path in paths]
    assert set(keys(private)) == set(keys(wanted))
    assert set(private["groups"][0]) == set(wanted["groups"][0])
    counts = [
        [
            (g["op"], g["size_class_bytes"], g["depth"], g["count"], g["bytes"])
            for g in item["groups"]
        ]
        for item in documents
    ]
    assert counts[0] == counts[1]
    assert [(item["event"], item["count"]) for item in private["changes"]] == [
        (item["event"], item["count"]) for item in wanted["changes"]
    ]
    for name in ("working_set_bytes", "threads", "like", "closed_loop", "budget_s", "direct"):
        assert private["facts"][name] == wanted["facts"][name], name


@cases(
    ("break_it", "answer"),
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
def test_an_incomplete_recording_is_refused_in_one_line(spilled, tmp_path, break_it, answer):
    run = tmp_path / "broken.spill"
    shutil.copytree(spilled.path, run)
    break_it(run)
    result = recorder("probe", tmp_path, "--like", run)
    assert result.returncode == 2, result.stderr
    first, *hints = result.stderr.splitlines()
    assert answer in first
    assert len(hints) == 1
    assert result.stdout == ""
