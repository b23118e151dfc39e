"""Errors have stable codes: in a document with --json, as classes in Python."""

import ast
import json
from pathlib import Path

from cases import cases
from evidence import recording
from harness import error_code, spillcast
from spillcast import cli
from spillcast.errors import ERROR_SCHEMA, InputError, Refusal, SpillcastError, kinds


def test_codes_are_unique_and_kebab_case():
    codes = [kind.code for kind in kinds()]
    assert len(set(codes)) == len(codes)
    assert all(code.replace("-", "").islower() for code in codes)
    assert all(kind.__doc__ for kind in kinds())
    assert {kind.exit_status for kind in kinds(InputError)} == {2}
    assert {kind.exit_status for kind in kinds(Refusal)} == {3}
    assert {kind.exit_status for kind in kinds(SpillcastError)} == {1, 2, 3}


@cases(
    ("words", "code", "where"),
    [
        (("forcast", "--json"), "usage-invalid", None),
        (("profile", "nothing.spill", "--json"), "path-missing", "nothing.spill"),
        (("profile", "notes.txt", "--json"), "evidence-unknown", "notes.txt"),
        (("profile", "damaged.spill", "--json"), "evidence-damaged", "damaged.spill/meta.json"),
        (("forecast", "plan.json", "--to", "factor:2", "--json"), "evidence-damaged", "plan.json"),
        (("forecast", "run.spill", "--to", "nowhere.json", "--json"), "target-unknown", None),
    ],
)
def test_json_of_an_error_has_its_code_and_place(tmp_path, words, code, where):
    (tmp_path / "notes.txt").write_text("notes")
    recording(tmp_path / "damaged.spill", [("read", 8192, 1, 1000)], elapsed_s=1.0, cpu_s=0.5)
    (tmp_path / "damaged.spill" / "meta.json").write_text("{")
    plan = (Path(__file__).parents[2] / "examples" / "work-memory" / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(plan.replace('"512kB"', '"4 heaps"'))
    recording(tmp_path / "run.spill", [("read", 8192, 1, 1000)], elapsed_s=1.0, cpu_s=0.5)
    result = spillcast(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert error_code(result) == code
    document = json.loads(result.stdout)
    assert (document["schema"], document["where"]) == (ERROR_SCHEMA, where)


def test_a_refused_forecast_is_a_forecast_document_with_the_code(tmp_path):
    recording(tmp_path / "run.spill", [], elapsed_s=1.0, cpu_s=0.5)
    result = spillcast("forecast", "run.spill", "--to", "factor:2", "--json", cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    document = json.loads(result.stdout)
    assert document["targets"] == []
    assert document["refused_code"] == "not-spilled"


def test_json_after_the_dashes_belongs_to_the_command(tmp_path):
    result = spillcast("record", "-o", "no/such.spill", "--", "true", "--json", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")


BASES = {base.__name__ for base in (SpillcastError, InputError, Refusal)}


def unclassified(code):
    """Places where an error of a base class is raised, which has no code of its own."""
    if not any(f"{base}(" in code for base in BASES):
        return []
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    return [f"line {call.lineno}" for call in calls if ast.unparse(call.func) in BASES]


def test_every_raised_error_has_a_code():
    root = Path(__file__).parents[2]
    for folder in ("python", "lab"):
        for path in (root / folder).rglob("*.py"):
            assert not unclassified(path.read_text()), f"{path}: raise a kind of errors.py"
    assert unclassified("raise InputError('x')") == ["line 1"]


def test_a_lack_of_memory_is_an_error(monkeypatch):
    def lacking(_arguments):
        raise MemoryError

    monkeypatch.setattr(cli, "application", lacking)
    assert cli.run(["doctor"]) == SpillcastError.exit_status
