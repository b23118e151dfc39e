"""Writes the measured constants into calibrated.toml: all of them, or the named groups.

`python -m bench calibrate residuals` takes seconds, `spill` most of an hour, the others minutes.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import compression, memory_answers, oracle_traces, spill_spread
from spillcast.calibrated import CALIBRATED, document
from spillcast.forecast.question import CONFIDENCE
from spillcast.lab.case import read_truth
from spillcast.recording.meta import describe_machine
from spillcast.units import format_bytes
from spillcast_lab.calibrate import calibrate, judged, residuals_of

CASES = Path(__file__).parents[1] / "docs" / "accuracy" / "calibration.parquet"
#: Parts of queries, from `python -m bench.part_training`.
PARTS = CASES.with_name("parts.parquet")


def levels() -> dict[str, dict[str, Any]]:
    """CPU time of DuckDB's compression levels; takes seconds."""
    return {
        "compression_levels": {
            "value": compression.levels(),
            "unit": "CPU time over that of the lowest",
            "rests_on": "zstd at DuckDB's levels, on a block of made-up rows",
        }
    }


def memory() -> dict[str, dict[str, Any]]:
    """Latency and bandwidth of memory; takes seconds."""
    latency_s, bytes_per_s = memory_answers.line()
    rests_on = "the slowest of 100 reads and writes in /dev/shm, of 4 KiB to 1 MiB"
    return {
        "memory_s": {"value": latency_s, "unit": "s", "rests_on": rests_on},
        "memory_bytes_per_s": {"value": bytes_per_s, "unit": "bytes/s", "rests_on": rests_on},
    }


def oracle() -> dict[str, dict[str, Any]]:
    """Constants of traces; takes seconds, and is empty without the traces."""
    runs = oracle_traces.traced()
    if not runs:
        print("oracle: the traces are absent, what is known stays", file=sys.stderr)
        return {}
    of_part = "relative: of a mean of however many operations, and of a single one"
    units = {
        "oracle_latency_error": of_part,
        "oracle_rest_error": of_part,
        "oracle_rest_spread": "of the logarithm",
        "oracle_rest_moves": "of the logarithm, for each of the gain's",
        "oracle_rest_s": "s",
    }
    about = {
        "machine": "the traces' own, Oracle 19.12",
        "rests_on": f"{len(runs)} traces of one job, 0.2 to 12 ms of network latency",
    }
    result = oracle_traces.fitted(runs)
    return {name: {"value": result[name], "unit": unit, **about} for name, unit in units.items()}


def spill() -> dict[str, dict[str, Any]]:
    """The spread of spills; takes most of an hour, whatever else the machine does."""
    rows = list(spill_spread.runs())
    return {
        "spill_spread": {
            "value": spill_spread.fitted(rows),
            "unit": "of the logarithm, far from the memory limit and for each of memory over "
            "spill, of one thread and of several",
            "rests_on": f"bytes written by {len(rows)} runs of 4 queries of DuckDB, 1 to 4 threads",
        }
    }


def residuals() -> dict[str, dict[str, Any]]:
    """Takes seconds; place and date are the verification's. Prints the coverage of other cases."""
    truth = read_truth(CASES)
    parts = residuals_of(read_truth(PARTS).cases)
    matches = [*residuals_of(truth.cases), *parts]
    queries = len({item.query for item in matches})
    print(*judged(truth.cases, CONFIDENCE), sep="\n\n")
    return {
        "residuals": {
            "date": truth.about.get("started_at", "")[:10],
            "machine": _machine(truth.about.get("machine", {})),
            "rests_on": f"{len(matches)} cases of {queries} queries in docs/accuracy/{CASES.name} "
            f"and {PARTS.name}",
            **asdict(calibrate(matches)),
        }
    }


GROUPS: Mapping[str, Callable[[], dict[str, dict[str, Any]]]] = {
    "memory": memory,
    "compression": levels,
    "oracle": oracle,
    "spill": spill,
    "residuals": residuals,
}


def main(names: Sequence[str]) -> int:
    """Measures the groups; each is written as soon as it is known."""
    if not set(names) <= set(GROUPS):
        print(f"what is calibrated is {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": _machine(asdict(describe_machine())),
    }
    entries = dict(document())
    for name in names or GROUPS:
        command = {"command": f"python -m bench calibrate {name}"}
        made = {key: {**about, **command, **entry} for key, entry in GROUPS[name]().items()}
        entries |= made
        CALIBRATED.write_text(toml(entries))
        for key, entry in made.items():
            print(f"{key} = {entry['value']}" if "value" in entry else f"{key} written")
    return 0


def toml(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """One table per entry, residuals last; JSON's strings, numbers and lists are valid TOML."""
    parts = [
        "# What commands measured; written by `make constants`. spillcast.calibrated reads it."
    ]
    for name, entry in sorted(entries.items(), key=lambda item: item[0] == "residuals"):
        categories = entry.get("categories", ())
        parts.append(_table(f"[{name}]", {k: v for k, v in entry.items() if k != "categories"}))
        parts += [_table(f"[[{name}.categories]]", single) for single in categories]
    return "\n\n".join(parts) + "\n"


def _table(heading: str, entry: Mapping[str, Any]) -> str:
    return "\n".join([heading, *(f"{key} = {_value(value)}" for key, value in entry.items())])


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{float(f'{value:.3g}')!r}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def _machine(about: Mapping[str, Any]) -> str:
    memory_bytes = format_bytes(about.get("memory_bytes") or 0)
    return f"{about.get('cpus')} CPUs, {memory_bytes}, kernel {about.get('kernel')}"
