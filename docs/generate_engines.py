"""Writes the registry of engines to other files: ``python docs/generate_engines.py``.

engines.md is the table of ``spillcast engines``. The recorder reads the names of temp files from
temp_names.tsv, without Python. With the files of ``verify -o FILE``, the median errors of their
engines are updated, too.
"""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from spillcast.engines import LikelyName
from spillcast.engines.registry import engines
from spillcast.lab.case import Case, read_truth
from spillcast.report.engines import MEASURED, engines_page

PAGE = Path(__file__).with_name("engines.md")
TEMP_NAMES = Path(__file__).parents[1] / "crates/spillcast-core/src/capture/temp_names.tsv"
HEAD = """# Engines

What spillcast knows of each engine. Any other program can be recorded, too: its temp files are
recognised by their use, or named by `record --temp DIR`. `spillcast engines --json` has the same.

"""


def temp_names() -> str:
    """A line for each name: the engine, what the file contains, how sure it is, the pattern."""
    rows = [
        (engine.name, kind, "likely" if isinstance(name, LikelyName) else "certain", name)
        for engine in engines()
        for kind, name in engine.temp_names.items()
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


def measured(former: Mapping[str, Any], cases: Sequence[Case]) -> dict[str, Any]:
    """Median errors of forecasts from entire recordings by engine, in place of its former ones."""
    figures = dict(former)
    for engine in engines("lab"):
        errors: dict[str, list[float]] = {}
        for case in cases:
            if case.engine.startswith(engine.label) and case.evidence.name == "recording":
                errors.setdefault(f"{case.threads}", []).extend(
                    [] if case.error is None else [abs(case.error)]
                )
        if any(errors.values()):
            medians = {n: round(median(its), 4) for n, its in sorted(errors.items()) if its}
            figures[engine.name] = {
                "cases": sum(map(len, errors.values())),
                "median_errors": medians,
            }
    return figures


def measured_text(figures: Mapping[str, Any]) -> str:
    """The figures as TOML."""
    lines = [
        "# Median errors by threads: python docs/generate_engines.py CASES.parquet writes them."
    ]
    for name, its in sorted(figures.items()):
        errors = ", ".join(
            f'"{threads}" = {error}' for threads, error in its["median_errors"].items()
        )
        lines += [f"[{name}]", f"cases = {its['cases']}", f"median_errors = {{ {errors} }}"]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The text of engines.md."""
    return f"{HEAD}{engines_page().markdown()}\n"


if __name__ == "__main__":
    TEMP_NAMES.write_text(temp_names())
    if files := sys.argv[1:]:
        known = tomllib.loads(MEASURED.read_text()) if MEASURED.exists() else {}
        cases = [case for file in files for case in read_truth(Path(file)).cases]
        MEASURED.write_text(measured_text(measured(known, cases)))
    PAGE.write_text(page())
