"""docs/performance.md: benchmarks of speed and memory, and how cost grows, as a page.

``python -m bench performance --markdown docs/performance.md`` measures all parts, each in a
separate process and within a time limit. With names of parts only those are measured, and the page
also shows the earlier results of the others in this folder; ``--quick`` runs those that take less
than five minutes together.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.result import Result

ROOT = Path(__file__).parents[1]
#: The results of each part.
KEPT = ROOT / "build" / "performance"


@dataclass(frozen=True)
class Part:
    """Some rows of the page: the function that measures them and its time limit."""

    title: str
    about: str
    function: str
    most_s: int
    quick: bool = False


PARTS = {
    "start": Part(
        "Starting",
        "CPU time of whole processes, the least of seven; what `record` adds is elapsed time. The "
        "machine is calibrated: on another, `record` also measures its caches, in half a second.",
        "startup.run",
        240,
        quick=True,
    ),
    "traces": Part(
        "Traces of Oracle",
        "Elapsed time of whole processes on 500 MB in memory, the least of three.",
        "oracle.run",
        400,
        quick=True,
    ),
    "recordings": Part(
        "Large recordings",
        "CPU time of whole processes and their largest memory, the less of two.",
        "large.run",
        900,
    ),
    "curves": Part(
        "Curves of a cache",
        "CPU time; the error is the mean of all sizes. `--error 0.2` follows all lines and rounds.",
        "cache_curves.run",
        900,
    ),
    "waits": Part("Growth with waits", "Forecasts, two threads.", "growth.waits", 900),
    "threads": Part("Growth with threads", "Forecasts of 2 million waits.", "growth.threads", 300),
    "megabytes": Part(
        "Growth with the size of a trace",
        "Profiles by event; the ratio is of elapsed time.",
        "growth.traces",
        400,
    ),
}
#: Why a target is missed, by the start of the row; shown if it is.
REASONS = {
    "start: forecast": "A small forecast: starting Python and importing numpy and its own modules "
    "is most of it.",
    "start: record": "A recording: the machine was not calibrated, so it measures the caches for "
    "0.5 s once the command has ended.",
    "oracle: profile of": "A profile of a trace: starting takes 0.2 s of it.",
    "large: report": "A report: it also searches the catalogue for the cheapest storage.",
    "large: forecast of 10,000,000 waits of 1 thread through": "Through a page cache all waits are "
    "read with their files and offsets: most of the time is reading Parquet.",
    "large: profile": "A profile of a recording: most of the time is decoding and checking rows.",
    "oracle: profile --where, left": "A regular expression is left to DuckDB: the start of its "
    "engine and a pass of rows through it are most of the time.",
    "50 MB of trace": "A small trace: starting takes longer than reading it.",
}
HEAD = """# Performance

How much time and memory spillcast's own work takes, beside a peer that was measured in turns in the
same run. Each row has both figures, their ratio, and the aim for spillcast. CPU time is user and
system time of all threads. `python -m bench performance --markdown docs/performance.md` makes this
page. `--quick` measures only the first two parts; names select parts: {names}.
"""


def main(words: Sequence[str]) -> int:
    """Measures, and writes the page if requested; 1 if a part did not end."""
    parser = argparse.ArgumentParser(prog="python -m bench performance", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="only what takes few minutes")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page")
    requested = parser.parse_args(words)
    if unknown := [name for name in requested.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    names = requested.parts or [
        name for name, part in PARTS.items() if part.quick or not requested.quick
    ]
    ended = [_measure(name) for name in names]
    if requested.markdown:
        requested.markdown.write_text(page())
    return 0 if all(ended) else 1


def _measure(name: str) -> bool:
    """Saves the result of a part; returns whether it ended in time."""
    part, load, begin = PARTS[name], os.getloadavg()[0], time.monotonic()
    command = [sys.executable, "-m", "bench.performance", name]
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        timer = threading.Timer(part.most_s, process.terminate)
        timer.start()
        assert process.stdout is not None
        for line in filter(str.strip, process.stdout):
            rows.append(json.loads(line))
            print(Result(**rows[-1]), flush=True)
        ended = process.wait() == 0
        timer.cancel()
    if not ended:
        print(f"{name}: it failed, or did not end within {part.most_s} s", file=sys.stderr)
    KEPT.mkdir(parents=True, exist_ok=True)
    result = {
        "rows": rows,
        "ended": ended,
        "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "load": [load, os.getloadavg()[0]],
        "took_s": time.monotonic() - begin,
        "machine": machine(),
    }
    (KEPT / f"{name}.json").write_text(json.dumps(result))
    return ended


def page() -> str:
    """All measured parts, in Markdown."""
    text = [HEAD.format(names=", ".join(f"`{name}`" for name in PARTS))]
    machines = dict[str, None]()
    sections = []
    for name, part in PARTS.items():
        if (path := KEPT / f"{name}.json").exists():
            document = json.loads(path.read_text())
            machines[document["machine"]] = None
            sections.append(_section(part, document))
    text += [f"Machine: {item}.\n" for item in machines]
    return "\n".join([*text, *sections])


def _section(part: Part, result: dict[str, Any]) -> str:
    before, after = result["load"]
    rows = [Result(**row) for row in result["rows"]]
    lines = [
        f"## {part.title}\n",
        f"{part.about}\n\nMeasured on {result['at']} in {result['took_s']:.0f} s; load "
        f"{before:.1f} before and {after:.1f} after, the measurement's own included.\n",
        "| | spillcast | peer | ratio | aim |",
        "| --- | --- | --- | --- | --- |",
        *map(_line, rows),
    ]
    if not result["ended"]:
        lines.append(f"\nNot all of it: it failed, or did not end within {part.most_s} s.")
    missed = [row.name for row in rows if not row.met]
    why = [text for begin, text in REASONS.items() if any(n.startswith(begin) for n in missed)]
    lines += [f"\n{text}" for text in why]
    return "\n".join(lines) + "\n"


def _line(row: Result) -> str:
    name = row.name.partition(": ")[2] or row.name
    verdict = "held" if row.met else "**missed**"
    cells = (name, row.ours, row.peer, f"{row.ratio:.3g}", f"{row.aim}: {verdict}")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def machine() -> str:
    """Processor, cores, memory and kernel."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((s.partition(":")[2].strip() for s in cpus if s.startswith("model name")), "")
    gigabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return (
        f"{model or platform.machine()}, {len(os.sched_getaffinity(0))} cores, "
        f"{gigabytes:.0f} GB of memory, Linux {platform.release()}, Python "
        f"{platform.python_version()}"
    )


def _rows_of(name: str) -> None:
    """Prints the rows of a part as JSON, a line each."""
    module, _, function = PARTS[name].function.partition(".")
    for row in getattr(import_module(f"bench.{module}"), function)():
        print(json.dumps(asdict(row), default=float), flush=True)


if __name__ == "__main__":
    _rows_of(sys.argv[1])
