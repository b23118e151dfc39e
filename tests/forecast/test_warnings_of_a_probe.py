"""Warnings: what a probe did not cover, the next step for each engine, and too wide intervals."""

import json
import re

from cases import cases
from fuzz.figure_shapes import figures
from harness import spillcast
from spillcast.forecast.interval import too_wide
from spillcast.forecast.warnings import probe_warnings, size_warnings
from spillcast.forecast.workload.load import Load
from statement_files import export, row

#: 1,000 reads, 1 MB in total.
LOADS = [Load("read", 1024, 1000, 1_000_000, 1.0)]


def codes(facts):
    return [warning.code for warning in probe_warnings(facts, LOADS)]


@cases(
    ("facts", "expected"),
    [
        ({}, []),
        ({"steps_from": "counts", "steps_replayed": 500}, ["synthetic-io"]),
        ({"steps_replayed": 10, "steps_skipped": 30}, ["budget"]),
        # Without a replay nothing was disturbed.
        ({"steps_replayed": 10, "others_cpu_share": 0.9}, ["disturbed"]),
        ({"others_cpu_share": 0.9}, []),
        ({"prefilled_bytes": 99_000}, []),
        ({"prefilled_bytes": 101_000}, ["prefilled"]),
        ({"byte_share": 0.5, "working_set_bytes": 3 << 30}, ["byte-budget"]),
        ({"memory_bound_reason": "no rights", "page_cache_bytes": None}, ["page-cache"]),
        ({"network": True, "filesystem": "nfs"}, ["network"]),
        ({"network": True, "filesystem": None}, ["network"]),
        # A document may hold null for an unknown fact.
        (dict.fromkeys(("steps_replayed", "steps_skipped", "prefilled_bytes", "byte_share")), []),
    ],
)
def test_each_fact_has_its_warning(facts, expected):
    assert codes(facts) == expected


def test_counts_of_a_trace_are_not_compared_with_synthetic_steps():
    [made_up] = probe_warnings({"steps_from": "counts", "steps_replayed": 500})
    assert made_up.code == "synthetic-io"


def test_a_share_of_the_steps_and_the_budget_for_all_are_named():
    [skipped] = probe_warnings({"steps_replayed": 10, "steps_skipped": 30})
    assert "25 %" in skipped.message
    facts = {"byte_share": 0.5, "working_set_bytes": (3 << 30) - 1, "memory_bound": True}
    [budget] = probe_warnings(facts)
    assert "--budget 3G" in budget.message
    assert "not tested" not in budget.message


def test_sizes_outside_and_between_the_measured_ones_are_warned_of():
    assert [warned.code for warned in size_warnings("its", 0.0, 0.0, 0.1)] == []
    [beyond] = size_warnings("its", 0.5, 0.0, 0.1)
    assert beyond.code == "extrapolated"
    assert "50 %" in beyond.message
    assert [warned.code for warned in size_warnings("its", 0.0, 0.5, 0.1)] == ["sizes"]


@cases(
    ("low_s", "high_s", "now_s", "refused"),
    [(10, 60, 0, False), (10, 200, 0, True), (10, 200, 150, True), (10, 200, 1200, False)],
)
def test_a_wide_interval_is_an_answer_if_all_of_it_is_faster(low_s, high_s, now_s, refused):
    assert (too_wide(low_s, high_s, now_s) is not None) == refused


#: Actions that are possible only on one engine.
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


def test_reports_and_profiles_name_steps_of_their_engine(tmp_path):
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


def test_statements_of_postgresql_have_its_steps(tmp_path):
    # Version 14 does not time temp I/O.
    export(tmp_path / "statements.csv", 14, row())
    steps = steps_of(tmp_path, "forecast statements.csv --to latency:150us --json")
    text = " ".join(steps.values())
    assert OF_POSTGRESQL.search(steps["time-unknown"])
    assert not OF_ORACLE.search(text)
