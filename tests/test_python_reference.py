"""The Python reference is generated from stub and docstrings, and the stub matches the code."""

import ast
import dataclasses
import inspect
import subprocess
import sys

import spillcast
from cases import cases
from harness import generator
from oracle_files import ROOT
from spillcast.cache.simulation import curve
from spillcast.forecast.question import Question
from spillcast.profile import profile

generate = generator("python")
STUB = ast.parse(generate.STUB.read_text())


def stub_function(name):
    return next(n for n in STUB.body if isinstance(n, ast.FunctionDef) and n.name == name)


def test_the_page_is_up_to_date():
    assert generate.PAGE.read_text() == generate.page(), "python docs/generate_python.py"


def test_every_call_of_the_front_door_is_on_the_page():
    rooms = set(spillcast.__all__) - {"__version__", "Recording", "Storage"}
    assert rooms == set(generate.CALLS)
    text = generate.page()
    assert all(f"### {name}\n" in text for name in (*rooms, "Recording", "Storage"))


@cases("kind", generate.RESULTS)
def test_every_public_function_has_a_docstring(kind):
    for name, value in vars(kind).items():
        value = getattr(value, "__func__", value)
        if inspect.isfunction(value) and not name.startswith("_"):
            assert inspect.getdoc(value), f"{kind.__name__}.{name}"


def test_the_stub_has_the_options_of_a_forecast():
    options = next(n for n in STUB.body if isinstance(n, ast.ClassDef) and n.name == "_Options")
    reported = {line.target.id: ast.unparse(line.annotation) for line in options.body}
    real = {item.name: generate.typed(item.type) for item in dataclasses.fields(Question)}
    assert reported == {name: kind for name, kind in real.items() if name not in generate.INTERNAL}


def test_the_stub_has_the_parameters_of_each_call():
    names = [item.arg for item in stub_function("profile").args.kwonlyargs]
    real = [name for name in inspect.signature(profile).parameters if name != "evidence"]
    # The last ones are for the command line.
    assert names == [name for name in real if name not in ("chosen", "on_progress")]
    assert inspect.signature(spillcast.profile) == inspect.signature(profile)
    names = [item.arg for item in stub_function("cache").args.kwonlyargs]
    assert set(names) == set(inspect.signature(curve).parameters) - {"requests", "on_progress"}
    word = inspect.signature(spillcast.storage).parameters
    assert [item.arg for item in stub_function("storage").args.args] == list(word)


def test_names_are_completed_before_their_first_use():
    program = "import spillcast; assert {*spillcast.__all__} <= {*dir(spillcast)}"
    subprocess.run([sys.executable, "-c", program], check=True)


CODE = """
from pathlib import Path
import spillcast
one = spillcast.forecast("run.spill", "latency:1ms", confidence=0.8)
reveal_type(one)
reveal_type(spillcast.forecast("run.spill", ["a", "b"]))
reveal_type(spillcast.forecast([Path("x.trc"), "ash.csv"], ["b", spillcast.storage("c")]))
reveal_type(spillcast.profile("x.trc", by=["event"]).elapsed_s)
with spillcast.record() as run:
    pass
reveal_type(run.sweep("disk.json").best.total_s)
spillcast.forecast("run.spill", "a", confidance=0.8)
spillcast.storage(3)
"""


def test_a_type_checker_accepts_results_and_detects_mistakes(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(CODE)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", tmp_path / "cache",
         "--follow-imports", "silent", "--no-site-packages", "--ignore-missing-imports", path],
        capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(ROOT / "python")},
    )  # fmt: skip
    output = checked.stdout.replace("builtins.", "")
    revealed = [line.split('"')[1] for line in output.splitlines() if "Revealed" in line]
    assert revealed == [
        "spillcast.forecast.result.Forecast",
        "spillcast.forecast.verdict.Forecasts",
        "spillcast.forecast.verdict.Forecasts",
        "float",
        "float",
    ]
    wrong = {line.split(":")[1] for line in output.splitlines() if " error: " in line}
    mistakes = [at for at, line in enumerate(CODE.splitlines(), 1) if "confidance" in line]
    assert wrong == {str(at) for at in (*mistakes, mistakes[0] + 1)}, output
