"""Whether a recording equals what the program did: counts, bytes, offsets, names of files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.capture.sources import recorder, usable, workroom
from bench.programs import OUTPUT, observed
from bench.programs import run as run_program
from bench.result import Result

Totals = dict[str, dict[str, int]]

#: The work, and the kind, count and options of the program that does it.
CASES: tuple[tuple[str, str, int, dict[str, int]], ...] = (
    ("1 thread", "mixed", 200, {}),
    ("4 threads", "mixed", 100, {"threads": 4}),
    ("a process and its child", "mixed", 100, {"processes": 2}),
    ("200 children, one after the other", "forked", 200, {}),
    ("threads that come and go 1,000 times a second", "threads", 3000, {"rate": 1000}),
    ("files open for some microseconds, 1,000 a second", "files", 2000, {"rate": 1000}),
)


def run() -> Iterator[Result]:
    """Each source against the program's own account, which is the peer."""
    for source in usable():
        for subject, kind, count, options in CASES:
            with workroom() as room:
                program = observed(kind, room, count, **options)
                account = run_program(recorder(source, count).command(program, room))
                output = room.with_name(OUTPUT)
                seen, names = recorded(output, room)
                capture = json.loads((output / "meta.json").read_text())["capture"]
            yield _compared(f"capture: {source.name}, {subject}", account, seen, capture)
            if "names" in account:
                yield _named(f"capture: {source.name}, {subject}: names", account, names)


def recorded(output: Path, room: Path) -> tuple[Totals, set[str]]:
    """Reads and writes by call name, with the sums of their bytes and offsets; and the files."""
    columns = ["event", "op", "bytes", "offset", "file"]
    table = pq.read_table(output / "waits.parquet", columns=columns)
    totals: Totals = {}
    names = set()
    for row in table.to_pylist():
        if not (row["file"] or "").startswith(f"{room}/"):
            continue
        names.add(Path(row["file"]).name)
        if row["op"] is None:
            continue
        item = totals.setdefault(row["event"], {"count": 0, "bytes": 0, "offsets": 0})
        item["count"] += 1
        item["bytes"] += row["bytes"] or 0
        item["offsets"] += row["offset"] or 0
    return totals, names


def _compared(name: str, account: dict[str, Any], seen: Totals, capture: dict[str, Any]) -> Result:
    done: Totals = account["calls"]
    calls, result = (sum(item["count"] for item in each.values()) for each in (done, seen))
    wrong = [
        f"{key} of {call}"
        for call, totals in done.items()
        for key, total in totals.items()
        if seen.get(call, {}).get(key) != total
    ]
    same = "bytes and offsets the same" if not wrong else f"not the same: {', '.join(wrong)}"
    return Result(
        name,
        f"{result:,} calls, {same}; {capture['lost']:,} lost, {capture['unknown_file']:,} on "
        "unknown files",
        f"{calls:,} calls, by the program's own account",
        result / calls,
        "counts, bytes and offsets of every call the same",
        seen == done,
    )


def _named(name: str, account: dict[str, Any], names: set[str]) -> Result:
    files = account["calls"]["write"]["count"]
    known = sum(account["names"] % number in names for number in range(files))
    return Result(
        name,
        f"{known:,} files known by name",
        f"{files:,} files, each open for {account['open_median_ns'] / 1e3:.1f} us",
        known / files,
        "all of them",
        known == files,
    )
