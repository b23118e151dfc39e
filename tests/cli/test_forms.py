"""Every verb that prints a table prints it for any terminal width, as CSV and as Markdown."""

import csv
import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import DEVNULL
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from cases import cases, nightly
from harness import environment, error_code, probed_grid, spillcast, until
from screen import Terminal, plain, screen
from spillcast import cli
from spillcast.cli import progress
from spillcast.fleet.ingest import ingest
from spillcast.lab.case import read_truth
from spillcast.lab.check import Demo
from spillcast.report.checks import demo_page

CASES = Path(__file__).parents[2] / "docs" / "accuracy" / "cases.parquet"
WIDTHS = [60, *nightly(80, 120, 200)]
#: Command lines by name; the fixture ``made`` provides words in braces.
VERBS = {
    "profile": "profile {run}",
    "profile by much": "profile {run} --by event,op,size,file,second --histogram --top 9",
    "forecast": "forecast {run} --to latency:150us",
    "forecasts": "forecast {run} --to factor:5 --to catalogue:aws-gp3 --to {grid} --cost {grid}=9",
    "storage list": "storage list",
    "storage show": "storage show {run}",
    "storage show of a grid": "storage show {grid}",
    "storage show of a catalogue": "storage show catalogue:linux-hdd --size 12K",
    "storage compare": "storage compare {run} catalogue:aws-gp3 {grid}",
    "cache": "cache {run} --size 1M --flash 9G/s --disk 1G/s --cells 3",
    "cache curve": "cache {run}",
    "sql": "profile {run} --sql {waits}",
    "sql of two columns": "profile {run} --sql {counts}",
    "verify": "verify --from {cases}",
    "fleet": "fleet {fleet} --to latency:150us",
}
WAITS = "select * from waits limit 3"
COUNTS = "select event, count(*) as n, sum(elapsed_ns) / 1e9 as total_s from waits group by 1"


@pytest.fixture(scope="module")
def made(spilled, tmp_path_factory):
    """Evidence with long names."""
    folder = tmp_path_factory.mktemp("a-folder-whose-name-is-as-long-as-those-of-real-life")
    grid = folder / "storage-of-the-third-node.json"
    result = probed_grid(folder, grid)
    assert result.stderr == "", "progress where stderr is no terminal"
    fleet = folder / "fleet"
    ingest([str(spilled.path)], str(fleet))
    words = {"cases": CASES, "waits": WAITS, "counts": COUNTS, "fleet": fleet}
    return {"run": spilled.path, "grid": grid, **words}


def printed(made, name, *more, columns=80):
    """The stdout of a command, which runs in this process to save its imports."""
    arguments = [word.format(**made) for word in VERBS[name].split()] + list(more)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), patch.dict(os.environ, COLUMNS=str(columns)):
        try:
            status = cli.run(arguments)
        except SystemExit as exit:
            status = exit.code
    assert not status, err.getvalue()
    assert err.getvalue() == ""
    return out.getvalue()


@pytest.mark.parametrize("columns", WIDTHS)
@cases("name", VERBS)
def test_no_line_is_longer_than_the_terminal(made, name, columns):
    lines = printed(made, name, columns=columns).splitlines()
    assert max(map(len, lines)) <= columns, max(lines, key=len)


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_demo_fits_the_terminal(columns):
    page = demo_page(Demo(read_truth(CASES).cases[0], "fuse", 1 << 30, busy=True))
    assert max(map(len, page.text(columns).splitlines())) <= columns


@cases("name", VERBS)
def test_markdown_tables_are_well_formed(made, name):
    text = printed(made, name, "--markdown")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert tables or name == "cache curve"
    for header, rule, *rows in tables:
        assert set(rule) <= set("|-: ")
        assert {line.replace("\\|", "").count("|") for line in (header, rule, *rows)} == {
            header.replace("\\|", "").count("|")
        }


#: By name, the rows of the JSON document that CSV contains.
RECORDS = {
    "profile": lambda answer: answer["rows"],
    "profile by much": lambda answer: answer["rows"],
    "forecast": lambda answer: [answer],
    "forecasts": lambda answer: answer["targets"],
    "storage list": lambda answer: answer["storages"],
    "storage show": lambda answer: answer["groups"],
    "storage show of a grid": lambda answer: answer["groups"],
    "storage show of a catalogue": lambda answer: answer["groups"],
    "storage compare": lambda answer: [
        {**row, **(actual or {})} for row in answer["rows"] for actual in row["storages"]
    ],
    "cache": lambda answer: [item for run in answer["cache"]["runs"] for item in run["accounts"]],
    "cache curve": lambda answer: [
        dict(zip(("size_bytes", "miss_ratio"), pair, strict=True))
        for pair in zip(*map(answer["curve"].get, ("size_bytes", "miss_ratio")), strict=True)
    ],
    "sql": lambda answer: [
        dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]
    ],
    "sql of two columns": lambda answer: [
        dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]
    ],
    "fleet": lambda answer: answer["statements"],
    "verify": lambda answer: [{**case, **case["forecast"]} for case in answer["cases"]],
}  # fmt: skip


@cases("name", VERBS)
def test_csv_holds_the_numbers_of_the_document(made, name):
    records = RECORDS[name](json.loads(printed(made, name, "--json")))
    header, *rows = csv.reader(io.StringIO(printed(made, name, "--csv")))
    assert len(set(header)) == len(header)
    assert len(rows) == len(records)
    # A grid's groups are in another order.
    written = sorted(map(tuple, rows)) if name == "storage show of a grid" else rows
    shared = [at for at, key in enumerate(header) if key in records[0]]
    assert len(shared) >= 2
    expected = [[_csv(record[header[at]]) for at in shared] for record in records]
    matches = [[_read(row[at]) for at in shared] for row in written]
    assert sorted(map(repr, matches)) == sorted(map(repr, expected))


def _csv(value):
    """A document's value in the form in which CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return _read(str(value))


def _read(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


def test_low_and_high_are_the_interval(made):
    document = json.loads(printed(made, "forecast", "--json"))
    (row,) = csv.DictReader(io.StringIO(printed(made, "forecast", "--csv")))
    assert [float(row["low_s"]), float(row["high_s"])] == document["interval_s"]


FORMS = ["--json", "--csv", "--markdown"]


@cases("forms", [FORMS[:2], FORMS[1:], FORMS[::2], FORMS])
def test_only_one_output_form_can_go_to_stdout(forms):
    for verb in (("storage", "list"), ("probe", "/nowhere", "--grid")):
        result = spillcast(*verb, *forms)
        assert result.returncode == 2
        assert all(form in result.stderr for form in forms[:2])
        if "--json" in forms:
            assert error_code(result) == "option-conflict"
        else:
            assert result.stdout == ""


def test_colours_add_no_text(spilled):
    arguments = ("profile", spilled.path, "--histogram")
    piped = spillcast(*arguments, env=environment(COLUMNS=100)).stdout
    written = {}
    for name, changes in {"colour": {}, "none": {"NO_COLOR": 1}, "dumb": {"TERM": "dumb"}}.items():
        with Terminal(*arguments, columns=100, stderr=DEVNULL, **changes) as terminal:
            assert terminal.end() == 0
            written[name] = terminal.text
    assert "\x1b" in written["colour"]
    assert "\x1b" not in written["none"] + written["dumb"]
    assert {plain(text).replace("\r\n", "\n") for text in written.values()} == {piped}


@cases("columns", [60, 160])
def test_progress_is_shown_on_a_terminal_and_erased(tmp_path, columns):
    arguments = ("probe", tmp_path, "--grid", "--budget", "2s,32M", "--csv")
    with Terminal(*arguments, columns=columns) as terminal:
        assert terminal.end() == 0
        text = terminal.text
    assert "left" in plain(text)
    assert "B/s" in plain(text)
    left = [line for line in screen(text) if line]
    assert left[0].startswith("op,size_class_bytes")
    assert all(line.startswith(("read,", "write,")) for line in left[1:])
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "a hidden cursor comes back"


def test_the_remaining_time_is_that_of_the_current_round(monkeypatch):
    """A probe replays several times; here the second replay begins after 100 s."""
    now_s, lines = [0.0], []
    monkeypatch.setattr(progress, "_is_drawn_on", lambda: True)
    monkeypatch.setattr(progress, "_columns", lambda: 80)
    monkeypatch.setattr(progress, "clear_line", lambda: None)
    monkeypatch.setattr(progress, "write_over", lambda text, _width: lines.append(text))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    with progress.progress_bar("probing") as show:
        show(90, 100)
        now_s[0] = 100.0
        show(0, 100)
        now_s[0] = 102.0
        show(2, 100)
        # The next line may have been made before; the line after it was not.
        drawn = len(lines)
        until(lambda: len(lines) > drawn + 1, "the bar")
    # Based on 2 of 100 in 2 s; based on 102 s, it would be more than an hour.
    assert "98 s left" in lines[-1]
