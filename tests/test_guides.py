"""The guides print what spillcast prints: every command of a console block is run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cases import cases
from emulator import skip_without_fuse
from evidence import storage
from harness import EXACT, completed, environment, target
from oracle_files import ROOT, make_example
from snapshot_files import three_weeks
from spillcast.cli import VERBS


def make_io(directory):
    """Writes ckbig.csv and day.csv."""
    make = ROOT / "examples" / "cache" / "make_example.py"
    subprocess.run([sys.executable, make, directory], check=True)


def make_oracle(directory):
    """Writes the published case, and a plan."""
    make_example(directory)
    shutil.copy(ROOT / "examples" / "oracle" / "plan.trc", directory)


def make_array(directory):
    """Writes array.json."""
    make = ROOT / "examples" / "io_size" / "make_example.py"
    subprocess.run([sys.executable, make, directory], check=True)


def copy_plan(directory):
    """Copies a PostgreSQL plan."""
    shutil.copy(ROOT / "examples" / "work-memory" / "plan.json", directory)


def copy_job(directory):
    """Copies a third of a DuckDB job that spills, with a third of its memory."""
    job = (ROOT / "examples" / "duckdb" / "etl.py").read_text()
    smaller = job.replace("range(3000000)", "range(1000000)").replace("100MB", "34MB")
    (directory / "etl.py").write_text(smaller)


def copy_query_log(directory):
    """Copies rows of ClickHouse's query log."""
    shutil.copy(ROOT / "examples" / "clickhouse" / "query_log.jsonl", directory)


def make_logs(directory):
    """Writes event logs of two applications."""
    make = ROOT / "examples" / "spark" / "make_example.py"
    subprocess.run([sys.executable, make, directory / "logs"], check=True)


def make_fleet(directory):
    """Writes some traces of four databases."""
    made = ("--gigabytes", "0.012", "--files", "60", "--databases", "4")
    command = [sys.executable, "-m", "bench.fleet_traces", directory / "traces", *made]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


REFERENCE = ROOT / "docs" / "reference"
#: Verbs that are documented on the page of another verb.
PAGES = {"probe": "storage"}
GUIDES = sorted([*(ROOT / "docs" / "guides").glob("*.md"), *REFERENCE.glob("*.md")])
#: Pages whose command takes too long, with the test that does the same in small.
ELSEWHERE = {
    "demo": "tests/lab/test_demo.py",
    "mysql": "tests/engines/mysql/test_mysql_rank.py",
    "postgres": "tests/engines/postgres/test_postgres_rank.py",
    "calibrate": "tests/lab/test_machine_measured.py",
    "check": "tests/lab/test_check.py",
}
#: Verbs that were run in a separate process.
STARTED = set()
#: Stands for any lines that the guide omits, or for any words within a line.
LEFT_OUT = "..."
#: The files of a guide's working directory.
PREPARE = {
    "oracle.md": make_oracle,
    "flash-cache.md": make_io,
    "io-size.md": make_array,
    "work-memory.md": copy_plan,
    "fleet.md": make_fleet,
    "duckdb.md": copy_job,
    "clickhouse.md": copy_query_log,
    "spark.md": make_logs,
    "postgres-history.md": lambda directory: three_weeks(directory / "history"),
}


def commands(guide):
    """Commands and outputs of a guide's console blocks."""
    blocks = re.findall(r"^```console\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def matches(expected, printed):
    """Whether the printed lines are the expected ones, where ``...`` matches any."""
    pattern = "".join(
        "(?:.*\n)*?" if line == LEFT_OUT else ".*".join(map(re.escape, line.split(LEFT_OUT))) + "\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


def make_everything(directory, recording):
    """The files used by the reference pages: one of each kind, and a program that spills."""
    make_example(directory)
    copy_query_log(directory)
    shutil.copytree(recording, directory / "run.spill")
    shutil.copytree(recording, directory / "part.spill")
    meta = directory / "part.spill" / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"ended_by": "duration"}))
    fast = {(op, 1 << power): 50_000 for op in ("read", "write") for power in (12, 18)}
    storage(fast, name="nvme").save(directory / "nvme.json")
    (directory / "cases.parquet").symlink_to(ROOT / "docs" / "accuracy" / "cases.parquet")
    (directory / "slow").mkdir()
    program = directory / "report.sh"
    spill = shlex.join(target("spill", "--file", "spilled", "--base", "ash.csv", "--threads", 2))
    program.write_text(f"#!/bin/sh\n{spill} > /dev/null\n")
    program.chmod(0o755)


@pytest.fixture(scope="module")
def directory(tmp_path_factory, spilled):
    def prepared(guide):
        name = guide.stem if guide.parent != REFERENCE else REFERENCE.name
        path = tmp_path_factory.getbasetemp() / "guides" / name
        if not path.exists():
            path.mkdir(parents=True)
            if guide.parent == REFERENCE:
                make_everything(path, spilled.path)
            else:
                PREPARE.get(guide.name, lambda _: None)(path)
        return path

    return prepared


@pytest.mark.parametrize(
    "guide", [guide for guide in GUIDES if any(commands(guide))], ids=lambda guide: guide.name
)
def test_the_guide_prints_what_spillcast_prints(directory, guide):
    @cases(("command", "output"), commands(guide))
    def check(command, output):
        check_command(guide, directory(guide), command, output)

    check()


def check_command(guide, folder, command, output):
    """Runs a command of a guide and compares what it prints."""
    program, *arguments = shlex.split(command)
    assert program == "spillcast"
    if arguments[0] == "emulate":
        skip_without_fuse()
    if arguments[0] == "record" and "--" in arguments:
        arguments[1:1] = ["--capture", EXACT]
    environ = environment()
    environ.pop("COLUMNS", None)
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    # Each verb is run once in a separate process, on its page of the reference.
    anew = guide.parent == REFERENCE and arguments[0] not in STARTED
    STARTED.update(arguments[:1] if anew else ())
    result = completed(*arguments, cwd=folder, env=environ, anew=anew)
    if not matches(output, result.stdout):
        assert result.stdout == output


@cases("verb", VERBS)
def test_every_verb_has_a_page_and_an_example_that_is_run(verb):
    page = REFERENCE / f"{PAGES.get(verb, verb)}.md"
    assert page.exists(), f"write {page.relative_to(ROOT)}, as its neighbours are, with an example"
    assert f"```{{verb}} {verb}\n" in page.read_text()
    examples = [command for command, _ in commands(page)]
    if verb in ELSEWHERE:
        assert (ROOT / ELSEWHERE[verb]).exists()
        assert f"spillcast {verb}" in page.read_text()
    else:
        assert any(command.startswith(f"spillcast {verb}") for command in examples)


def test_every_page_of_the_reference_belongs_to_a_verb():
    assert {page.stem for page in REFERENCE.glob("*.md")} == {
        PAGES.get(verb, verb) for verb in VERBS
    }


def test_dots_match_omitted_lines_and_words():
    assert matches("a\n...\nc\n", "a\nb\nb\nc\n")
    assert matches("a\n...\nc\n", "a\nc\n")
    assert not matches("a\n...\nc\n", "a\nb\n")
    assert not matches("a\nc\n", "a\nb\nc\n")
    assert not matches("a.c\n", "abc\n")
    assert matches("took ... s\n", "took 1.5 s\n")
    assert not matches("took ... s\n", "took 1.5 s\nmore\n")
