"""The next step of a warning is one for the engine that the evidence is of."""

import json
import re

from fuzz.figure_shapes import figures
from harness import spillcast
from statement_files import export, row

#: What only users of one engine can do.
OF_ORACLE = re.compile(r"Oracle|10046|\bASH\b")
OF_POSTGRESQL = re.compile(r"PostgreSQL|track_io_timing|EXPLAIN|pg_stat|max_parallel_workers")
ORACLE = ("monitor", "active", "tkprof", "awr", "statspack", "xplan", "events", "shares", "views")


def steps_of(folder, command):
    """The next steps of all warnings of a forecast."""
    _, *words = command.split()
    files = [folder / word if (folder / word).is_file() else word for word in words]
    done = spillcast("forecast", *files)
    assert done.returncode in (0, 3), done.stderr
    return {w["code"]: w["next_step"] or "" for w in json.loads(done.stdout)["warnings"]}


def test_reports_and_profiles_of_each_engine(tmp_path):
    steps = {}

    def shape(name, command, *_, write):
        (folder := tmp_path / name).mkdir()
        write(folder)
        steps[name.removeprefix("figures-")] = steps_of(folder, command)

    figures(shape)
    assert len(steps) > 20
    for name, by_code in steps.items():
        text = " ".join(by_code.values())
        if not by_code:
            continue
        assert not OF_POSTGRESQL.search(text), name
        assert bool(OF_ORACLE.search(text)) == name.startswith(ORACLE), name


def test_statements_of_postgresql(tmp_path):
    # Version 14 does not time temp I/O.
    export(tmp_path / "statements.csv", 14, row())
    steps = steps_of(tmp_path, "forecast statements.csv --to latency:150us --json")
    text = " ".join(steps.values())
    assert OF_POSTGRESQL.search(steps["time-unknown"])
    assert not OF_ORACLE.search(text)
