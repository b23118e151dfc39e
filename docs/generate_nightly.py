"""The page of the last nightly run, from build/nightly: ``python docs/generate_nightly.py``."""

import subprocess
from pathlib import Path
from xml.etree import ElementTree

PAGE = Path(__file__).with_name("nightly.md")
RESULTS = PAGE.parents[1] / "build" / "nightly"
HEAD = """# The last nightly run

`make nightly` runs what takes too long for `make test`, and writes this page. A test that fails in
the first run and passes in a second, alone, counts as failed.

Commit {commit}, begun {began} UTC.

| part | tests | passed | failed | skipped | minutes |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


def page(results: Path, commit: str) -> str:
    """A row for each part that ran, and the counts of the fuzzer's outcomes."""
    suites = {
        path.stem: ElementTree.parse(path).getroot()[0].attrib
        for path in sorted(results.glob("*.xml"))
    }
    began = min(suite["timestamp"] for suite in suites.values())[:16].replace("T", " ")
    lines = [HEAD.format(commit=commit, began=began)]
    for name, suite in suites.items():
        tests, skipped = int(suite["tests"]), int(suite["skipped"])
        failed = int(suite["failures"]) + int(suite["errors"])
        minutes = float(suite["time"]) / 60
        passed = tests - failed - skipped
        lines.append(f"| {name} | {tests} | {passed} | {failed} | {skipped} | {minutes:.1f} |\n")
    fuzzed = results / "fuzz.txt"
    if fuzzed.exists():
        counts = [line for line in fuzzed.read_text().splitlines() if " inputs, seed " in line]
        if counts:
            lines += ["\nDamaged evidence:\n\n", *(f"- {line}\n" for line in counts)]
    return "".join(lines)


if __name__ == "__main__":
    requested = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(requested, check=True, capture_output=True, text=True).stdout.strip()
    PAGE.write_text(page(RESULTS, commit))
