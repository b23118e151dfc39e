"""Names from untrusted evidence are printable on a terminal, and text in a spreadsheet."""

import csv
import io
import json
import os
import re
import subprocess
from types import SimpleNamespace

import pytest

from ash_files import execution, write_ash
from cases import cases
from harness import TIMEOUT_S, completed, probed_grid, spillcast, spillcast_command, target
from oracle_files import HEADER, READ, blocks, write_trace
from screen import Terminal

#: Sets a title, erases, colours, reverses text direction, rings the bell; C1 in UTF-8; DEL.
EVIL = "\x1b]0;PWN\x07\x1b[2J\x9b31m\u202e\x7f\u2066"
FORMULA = "=cmd|'calc'!A1"
#: Characters that a line of output may have beside letters.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """Evidence of every kind, with a path and names that control a terminal."""
    folder = tmp_path_factory.mktemp("evil") / EVIL
    temp = folder / "temp"
    temp.mkdir(parents=True)
    base = folder / "table.db"
    base.write_bytes(bytes(512 * 101))
    run = folder / "run.spill"
    spill = target("spill", "--file", temp / f"spill{EVIL}", "--base", base)
    recorded = completed("record", "-o", run, "--", *spill)
    grid = folder / f"storage{EVIL}.json"
    probed = probed_grid(folder, grid)
    header = HEADER.replace("select 1 from big", f"select '{EVIL}' from big")
    event = f"{READ}{EVIL}"
    trace = write_trace(
        folder / "t.trc", [(READ, 9000, blocks(31)), (event, 9000, blocks(31))] * 200, header=header
    )
    ash = folder / "ash.csv"
    write_ash(ash, execution(20), execution(20, session_id=36, event=EVIL))
    fleet = folder / "fleet"
    ingested = completed("ingest", trace, "-o", fleet)
    return SimpleNamespace(
        folder=folder, run=run, grid=grid, trace=trace, ash=ash, fleet=fleet, none=folder / EVIL,
        recorded=recorded, probed=probed, ingested=ingested, page=folder / "page.html",
        evil=EVIL, spill=spill,
    )  # fmt: skip


LINES = {
    "profile": "profile {run} --by file,op",
    "profile of a trace": "profile {trace} --by event",
    "profile of ASH": "profile {ash}",
    "forecast": "forecast {run} --to {grid} --details",
    "forecast of a trace": "forecast {trace} --to latency:150us",
    "forecast refused": "forecast {ash} --to {none}",
    "report": "report {run} {trace} -o {page}",
    "storage show": "storage show {grid}",
    "storage compare": "storage compare {grid} {run}",
    "cache": "cache {run}",
    "fleet": "fleet {fleet} --to latency:150us",
    "ingest again": "ingest {trace} {none} -o {fleet}",
    "move duckdb": "move duckdb --to {none}",
    "move tmpfs": "move tmpfs --to {none} --size 1G --owner {evil}",
    "move oracle": "move oracle --to {none} --user {evil}",
    "move postgres": "move postgres --to /mnt/x --for role:{evil}",
    "no such file": "profile {none}",
    "no such verb": "{evil}",
    "no such option": "profile --{evil}",
    "no such value": "profile {run} --by {evil}",
    "no such number": "profile {run} --top {evil}",
    "no such command": "record -o {none}.spill -- {evil}",
    "no such DSN": "record --postgres host={evil} --query x -o {none}.dsn",
    "probe": "probe {none} --grid",
    "emulate": "emulate {none} --storage {none}",
    "sweep": "sweep io-size {none}",
    "verify": "verify --from {none}",
    "export": "export {none} --format perfetto",
    "sql of the wrong": "sql {evil} {run}",
}

#: Commands whose output has no untrusted names, or only their ends.
QUIET = {
    *("profile", "profile of a trace", "forecast of a trace", "forecast refused", "report"),
    *("cache", "fleet", "sql of the wrong", "no such DSN"),
}


def words(line, evil):
    return [word.format(**vars(evil)) for word in line.split()]


def is_harmless(text):
    return OBEYED.search(text.replace("\r\n", "\n")) is None


@cases("subject", LINES)
def test_no_verb_prints_control_characters_of_evidence(evil, subject):
    done = spillcast(*words(LINES[subject], evil))
    message = done.stdout + done.stderr
    assert "PWN" in message or subject in QUIET
    assert is_harmless(message), repr(message)
    assert "Traceback" not in message


def test_output_while_evidence_is_made_is_harmless(evil):
    for done in (evil.probed, evil.ingested):
        assert is_harmless(done.stdout + done.stderr)
    assert "PWN" in evil.ingested.stdout + evil.probed.stdout
    assert is_harmless(evil.recorded.stderr)


@cases("form", ["--csv", "--markdown"])
def test_csv_and_markdown_are_harmless(evil, form):
    done = spillcast("profile", evil.run, "--by", "file", form)
    assert "PWN" in done.stdout
    assert is_harmless(done.stdout)


def test_json_is_unredacted_and_printable(evil):
    done = spillcast("profile", evil.run, "--by", "file", "--json")
    assert is_harmless(done.stdout)
    files = {row["file"] for row in json.loads(done.stdout)["rows"]}
    assert str(evil.folder / "temp" / f"spill{EVIL}") in files


@cases(
    "line",
    [
        "profile {run} --by file",
        "profile {run} --sql select(file)from(waits)",
        "record -o {none}.again -- {spill}",
        "export {run} --format openmetrics --by file",
        "record --live --discard -- {spill}",
    ],
)
def test_only_escape_codes_of_spillcast_reach_a_terminal(evil, line):
    """Colours, the progress line and the live view are spillcast's; names are only letters."""
    command = []
    for word in line.split():
        command += evil.spill if word == "{spill}" else words(word, evil)
    with Terminal(*command, TMPDIR=str(evil.folder / "temp")) as terminal:
        terminal.end()
        # A long path is truncated at its end or in its middle.
        assert "PWN\\x07" in terminal.text or "\\x7f\\u2066" in terminal.text
        for code in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e", "\x7f", "\u2066"):
            assert code not in terminal.text


def test_a_name_is_not_markup(tmp_path):
    fifo = tmp_path / "[bold][link=http:x]t.trc"
    os.mkfifo(fifo)
    with Terminal("profile", fifo) as terminal:
        terminal.until("p:x]t.trc")
        assert "\x1b]8" not in terminal.text


@cases("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_text_cell_is_not_a_formula(evil, first):
    """By https://owasp.org/www-community/attacks/CSV_Injection; numbers remain numbers."""
    escaped = {"\t": "chr(9)", "\r": "chr(13)", "\n": "chr(10)"}.get(first, f"'{first}'")
    query = f"select {escaped} || 'cmd|calc' as text, -1.5 as number, -2 as \"{first}name\""
    done = spillcast("profile", evil.run, "--sql", query, "--csv")
    header, row = csv.reader(io.StringIO(done.stdout))
    assert row[0].startswith("'")
    assert row[1:] == ["-1.5", "-2"]
    assert header[2].startswith("'")
    raw = json.loads(spillcast("profile", evil.run, "--sql", query, "--json").stdout)
    assert raw["rows"][0][0] == f"{first}cmd|calc"


def test_a_file_name_in_csv_is_not_a_formula(evil):
    query = f"select '{FORMULA.replace(chr(39), chr(39) * 2)}' as file, count(*) as n from waits"
    assert f"'{FORMULA}," in spillcast("profile", evil.run, "--sql", query, "--csv").stdout


def test_characters_that_a_locale_lacks_are_replaced(tmp_path):
    log = tmp_path / "pg.log"
    log.write_text(
        'LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192\n'
        'STATEMENT:  select count(*) as "\u00e9t\u00e9 \u2588" from t\n'
    )
    shown = {"ascii": "?t? ?", "latin-1": "\u00e9t\u00e9 ?"}
    for encoding, text in shown.items():
        env = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "200"}
        result = subprocess.run(
            spillcast_command("postgres", log), capture_output=True, timeout=TIMEOUT_S, env=env
        )
        assert result.stderr == b""
        assert text in result.stdout.decode(encoding)
