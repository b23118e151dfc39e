"""Bad usage and bad input: one clear line on stderr, exit 2, nothing on stdout, no traceback."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import spillcast as spillcast_package
from cases import cases
from harness import completed, environment, only_line, spill_in, spillcast
from oracle_files import blocks, write_trace
from spillcast.cli import VERBS, application
from spillcast.cli.options import ORACLE, POSTGRES

#: A command in a message ends where the next word of the sentence or its next part begins.
COMMAND = re.compile(r"\bspillcast ([a-z]+)\b((?:[^,;:`)\n]|,(?! ))*)")
OPTION = re.compile(r"(?<= )--[a-z][a-z-]+")


@cases("verb", VERBS)
def test_every_verb_has_help(verb):
    result = completed(verb, "--help")
    assert result.stderr == ""
    assert f"spillcast {verb}" in result.stdout


def commands_in_messages():
    """Each verb with the options behind it, in the strings of the source code."""
    for path in sorted(Path(spillcast_package.__file__).parent.rglob("*.py")):
        code = path.read_text()
        for node in ast.walk(ast.parse(code)) if "spillcast " in code else ():
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [getattr(part, "value", "") for part in parts]
            text = "".join(text if isinstance(text, str) else "_" for text in texts)
            for verb, rest in COMMAND.findall(text):
                if verb in VERBS and (options := OPTION.findall(rest.split(" -- ")[0])):
                    yield path.name, verb, options


def test_commands_in_messages_have_only_options_that_exist():
    root = get_command(application([]))
    known = {verb: options_of(root.commands[verb]) for verb in VERBS}
    commands = list(commands_in_messages())
    unknown = [
        (name, verb, option)
        for name, verb, options in commands
        for option in options
        if option not in known[verb]
    ]
    assert unknown == []
    assert len(commands) > 50


def options_of(command):
    """The options of a command and of those below it."""
    options = {name for parameter in command.params for name in parameter.opts}
    below = getattr(command, "commands", {}).values()
    return {"--help", *options}.union(*map(options_of, below))


def test_former_verbs_work_and_name_the_present_ones(tmp_path):
    trace = write_trace(tmp_path / "t.trc", [("direct path read temp", 900, blocks(31))])
    query = "select count(*) as n from waits"
    former = spillcast("sql", "--json", query, trace)
    present = spillcast("profile", trace, "--sql", query, "--json")
    assert (former.returncode, former.stdout) == (0, present.stdout)
    assert json.loads(present.stdout)["rows"] == [[1]]
    assert "profile --sql" in former.stderr
    former = completed("watch", "--json", "--", "sleep", "0.5", cwd=tmp_path, env=environment())
    assert [json.loads(line)["ended"] for line in former.stdout.splitlines()][-1]
    assert "record --live --discard" in former.stderr
    assert list(tmp_path.iterdir()) == [trace]


@cases(
    ("words", "option"),
    [
        (("record", "--to", "factor:2", "--", "true"), "--to"),
        (("record", "--discard", "--", "true"), "--discard"),
        (("profile", "x.trc", "--sql", "select 1", "--by", "op"), "--by"),
    ],
)
def test_options_of_another_mode_are_refused(tmp_path, words, option):
    assert option in only_line(spillcast(*words, cwd=tmp_path), 2)
    assert list(tmp_path.iterdir()) == []


@cases(
    "words",
    [
        ("record", "-o", "", "--", "true"),
        ("emulate", "", "--read", "1ms"),
        ("forecast", ""),
        ("sweep", "io-size", ""),
        ("clickhouse", ""),
        ("probe", "", "--grid"),
        ("forecast", "x.spill", "--history", "y.spill", "--temp", ""),
        ("move", "duckdb", "--to", ""),
    ],
)
def test_an_empty_path_is_not_the_current_folder(tmp_path, words):
    assert "shell variable" in only_line(spillcast(*words, cwd=tmp_path), 2)
    assert list(tmp_path.iterdir()) == []


@cases("words", [("postgres", ""), ("move", "postgres", "", "--to", "/tmp")])
def test_an_empty_dsn_uses_the_environment(tmp_path, monkeypatch, words):
    monkeypatch.setenv("PGHOST", str(tmp_path / "of the environment"))
    assert "of the environment" in only_line(spillcast(*words, cwd=tmp_path), 2)


def test_arguments_of_the_recorded_command_may_be_empty(tmp_path):
    assert spillcast("record", "-o", "run.spill", "--", "true", "", cwd=tmp_path).returncode == 0


def options_by_heading(verb):
    """The long options below each heading of a verb's help."""
    headings = {}
    for line in spillcast(verb, "--help").stdout.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            listed = headings.setdefault(line.removesuffix(":"), [])
        elif headings and (option := re.match(r"  (?:-\w, )?(--[\w-]+)", line)):
            listed.append(option[1])
    return headings


@cases(
    ("verb", "heading", "expected"),
    [
        ("forecast", ORACLE, {"--sql-id", "--since", "--until", "--block", "--method"}),
        ("forecast", POSTGRES, {"--queryid"}),
        ("forecast", "Options", {"--to", "--from"}),
        ("record", POSTGRES, {"--postgres", "--query", "--explain", "--all"}),
    ],
)
def test_help_groups_options_by_their_evidence(verb, heading, expected):
    headings = options_by_heading(verb)
    assert expected <= set(headings[heading])
    listed = [option for options in headings.values() for option in options]
    assert len(listed) == len(set(listed)) > 15
    assert "--json" in headings["Options"]


def test_help_lists_every_verb():
    result = completed("--help")
    listed = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert set(VERBS) <= listed


def test_version():
    result = completed("--version")
    assert result.stdout.startswith("spillcast ")
    assert result.stderr == ""


HEAVY = {"pyarrow", "duckdb", "numpy", "rich", "typer", "spillcast._core"}


def imported_by(module):
    code = f"import sys, {module}; print(*sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(printed.stdout.split())


def test_the_command_line_imports_nothing_heavy():
    assert HEAVY & imported_by("spillcast.cli") == set()


def test_verbs_that_compute_nothing_do_not_import_numpy():
    """Help of verbs, tables of engines, steps of moves, and document classes of a fleet."""
    modules = {*VERBS.values(), "spillcast.report.engines", "spillcast.fleet"}
    imported = imported_by(", ".join(sorted(modules)))
    assert {"pyarrow", "duckdb", "numpy", "psycopg", "rich"} & imported == set()


def test_a_recorder_of_sessions_does_not_import_the_forecast():
    modules = "spillcast.engines.mysql.record, spillcast.engines.postgres.live"
    assert {"spillcast.engines.ranking", "spillcast.forecast"} & imported_by(modules) == set()


#: Runs command lines in a single process in which no package of an extra can be imported.
WITHOUT_EXTRAS = """
import json, sys
from spillcast.cli import run
from spillcast.installation import extras
for packages in extras().values():
    sys.modules.update((package.replace("-", "_"), None) for package in packages)
for words in json.loads(sys.argv[1]):
    try:
        status = run(words)
    except SystemExit as end:
        status = end.code
    assert not status, words
"""


def test_traces_need_no_extra(tmp_path):
    trace = write_trace(tmp_path / "t.trc", [("direct path read temp", 900, blocks(31))])
    lines = [
        ["profile", str(trace), "--by", "event,size,second", "--histogram"],
        ["export", str(trace), "--format", "openmetrics"],
        ["forecast", str(trace), "--to", "factor:10"],
    ]
    command = [sys.executable, "-c", WITHOUT_EXTRAS, json.dumps(lines)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@cases(
    "arguments",
    [
        ("recrod",),
        ("record", "--no-such-option"),
        ("record", "--slices", "0", "--", "true"),
        ("record", "--slices", "many", "--", "true"),
        ("record", "--capture", "strace", "--", "true"),
        ("record", "--pid", "me"),
        ("probe", "/tmp", "--grid", "--depth", "1"),
        ("forecast",),
        ("forecast", "run.spill", "--to", "factor:2", "--confidence", "1.5"),
        ("demo", "extra"),
    ],
)
def test_invalid_command_lines_are_refused(arguments):
    result = spillcast(*arguments)
    assert "see: spillcast" in only_line(result, 2)


#: Command line, in a directory with an empty file called ``file``, and words of the error.
BAD_INPUT = {
    "neither a process nor a command": (("record",), "--pid PID or -- COMMAND"),
    "both": (("record", "--pid", str(os.getpid()), "--", "true"), "--pid PID or -- COMMAND"),
    "no such command": (("record", "--", "no-such-command-here"), "no such command"),
    "a file that is not a program": (("record", "--", "./file"), "./file"),
    "no such pid": (("record", "--pid", str(2**22 + 1)), "there is no such process"),
    "pid 0": (("record", "--pid", "0"), "there is no such process"),
    "a negative pid": (("record", "--pid", "-5"), "there is no such process"),
    "a huge pid": (("record", "--pid", str(2**40)), "there is no such process"),
    "no such temp directory": (("record", "--temp", "none", "--", "true"), "none: there is no"),
    "output into a missing directory": (
        ("record", "-o", "none/run.spill", "--", "true"), "none/run.spill: there is no directory",
    ),
    "output over something else": (("record", "-o", "file", "--", "true"), "is not a recording"),
    "neither a recording nor a grid": (("probe", "."), "--like RECORDING or --grid"),
    "a recording and a grid": (
        ("probe", ".", "--grid", "--like", "run.spill"), "--like RECORDING or --grid",
    ),
    "nothing to probe": (("probe", "--grid"), "give the directory to measure"),
    "a grid as a log": (("probe", ".", "--grid", "--iolog", "x"), "give --like RECORDING"),
    "a log in a missing directory": (
        ("probe", "--like", "run.spill", "--iolog", "none/x"), "none/x: there is no directory",
    ),
    "a replay of other calls": (("probe", ".", "--like", "run.spill", "--psync"), "for --grid"),
    "a budget in words": (("probe", ".", "--grid", "--budget", "little"), "neither time nor bytes"),
    "no directory to probe": (("probe", "none", "--grid"), "none: there is no"),
    "a file to probe": (("probe", "file", "--grid"), "file is not a directory"),
    "no recording to probe like": (("probe", ".", "--like", "none.spill"), "no such recording"),
    "no recording to forecast": (("forecast", "none.spill", "--to", "factor:2"), "no such rec"),
}  # fmt: skip


@cases("case", BAD_INPUT)
def test_bad_input(tmp_path, case):
    arguments, words = BAD_INPUT[case]
    (tmp_path / "file").touch()
    result = spillcast(*arguments, cwd=tmp_path, env=environment())
    assert words in only_line(result, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@cases("target_text", ["nowhere", "latency:fast", "factor:0", "factor:x"])
def test_an_unknown_target_is_refused(spilled, target_text):
    result = spillcast("forecast", spilled.path, "--to", target_text)
    assert target_text.split(":")[-1] in only_line(result, 2)


@cases("elapsed", ["soon", "-1", "", "0"])
def test_elapsed_is_a_positive_duration(spilled, elapsed):
    result = spillcast("forecast", spilled.path, "--to", "factor:2", "--elapsed", elapsed)
    only_line(result, 2)


def test_a_failed_command_is_reported_and_its_recording_kept(places):
    spill = " ".join(spill_in(places))
    output = places.root / "run.spill"
    result = spillcast("record", "-o", output, "--", "sh", "-c", f"{spill}; exit 7", env=places.env)
    assert result.returncode == 7
    assert "exited with status 7; what was recorded is kept" in result.stderr
    assert (output / "meta.json").exists()


def test_an_old_recording_is_replaced_only_by_a_complete_one(spilled, tmp_path):
    output = tmp_path / "run.spill"
    output.symlink_to(spilled.path)
    kept = (spilled.path / "meta.json").read_bytes()
    assert spillcast("record", "-o", output, "--", "true").returncode == 2
    assert (spilled.path / "meta.json").read_bytes() == kept


def test_a_word_too_long_for_a_file_name_is_not_a_verb():
    result = spillcast("x" * 300)
    assert result.returncode == 2
    assert "no such command" in result.stderr


def test_a_missing_argument_is_explained_with_an_example():
    hint = spillcast("forecast").stderr.splitlines()[1]
    assert "figures:elapsed=773s,...; " in hint
    assert "spillcast forecast run.spill --to " in hint


def test_an_invalid_time_is_reported_before_connecting():
    result = spillcast("postgres", "host=/nowhere", "--since", "yesterday")
    assert (result.returncode, result.stderr.splitlines()[0]) == (
        2,
        "spillcast: --since: 'yesterday' is not a duration",
    )


def test_a_forecast_without_a_target_is_the_ceiling(spilled, tmp_path):
    document = json.loads(spillcast("forecast", spilled.path, "--json").stdout)
    other = json.loads(spillcast("forecast", spilled.path, "--to", "factor:2", "--json").stdout)
    assert document["ceiling_s"] == pytest.approx(other["ceiling_s"])
    # Waits for a busy CPU are in the forecast, but not in the ceiling.
    assert document["forecast_s"] >= document["ceiling_s"]
    assert {term["forecast_s"] for term in document["terms"] if term["op"]} == {0}
    lines = spillcast("forecast", spilled.path).stdout.splitlines()
    assert [line.startswith(f"  {document['target']}") for line in lines].count(True) == 1


UNTIMED = """\
Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops=1)
  Sort Method: external merge  Disk: 32000kB
  Buffers: temp read=4000 written=4000
Execution Time: 1000.0 ms
"""


@cases("verb", ["forecast", "report", "probe"])
def test_a_verb_has_the_options_that_its_hints_name(tmp_path, verb):
    (tmp_path / "plans.txt").write_text(f"{UNTIMED}\n{UNTIMED}")
    words = {"forecast": ["--to", "tmpfs"], "report": ["--to", "tmpfs", "-o", "x.html"]}
    result = spillcast(verb, *words.get(verb, [".", "--like"]), "plans.txt", cwd=tmp_path)
    named = set(re.findall(r"(?<!\S)--[a-z-]+", result.stderr))
    assert named
    assert named <= {name for names in options_by_heading(verb).values() for name in names}


def test_a_report_uses_the_present_storage_of_an_untimed_plan_as_a_forecast_does(tmp_path):
    (tmp_path / "plan.txt").write_text(UNTIMED)
    words = ("plan.txt", "--to", "latency:1ms", "--from", "latency:20us")
    forecast = spillcast("forecast", *words, cwd=tmp_path).stdout.split("\n\n")[0]
    report = spillcast("report", *words, "-o", "x.html", cwd=tmp_path).stdout
    assert " ".join(forecast.split()) in " ".join(report.split())
