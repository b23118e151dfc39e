"""Counts spilled files and ranges of each operator in EXPLAIN ANALYZE of Databend."""

import re
from collections.abc import Mapping
from math import ceil
from pathlib import Path

from spillcast.errors import EvidenceAmbiguous, EvidenceContradictory, EvidenceIncomplete, NoTempIo
from spillcast.evidence.counts import (
    PROFILE,
    Bounds,
    Counts,
    TempCounts,
    TempTimes,
    counts_of_figures,
)
from spillcast.evidence.numbers import number_of, quantity_of
from spillcast.evidence.selection import Selection
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import LEFT_OUT, unwrapped
from spillcast.gate import damaged, reading
from spillcast.recording import OPS
from spillcast.recording.meta import ObservedEngine
from spillcast.units import format_bytes, format_count, parse_bytes, parse_duration_s

HINT = (
    "make it with: EXPLAIN ANALYZE SELECT ..., in bendsql, which prints the elapsed time below it"
)
_RECORD = "a recording of databend-query shows it: spillcast record --pid PID"
#: The maximum size of a call on a local disk, that of tokio's files: larger spilled files or ranges
#: take several calls. Recordings of sorts and aggregations show exactly these calls.
CALL_BYTES_MAX = 2 << 20
_SPILLED = re.compile(
    r"[├└]── (?:(?P<unit>numbers|bytes) )?(?P<place>local |remote )?spilled (?P<time>time )?"
    r"by (?P<op>read|write): (?P<value>[\d.,]+ ?[a-zA-Zµ]*)"
)
_BUSY = re.compile(r"[├└]── (?:cpu|wait) time: ([\d.]+ ?[a-zµ]+)")
#: Printed below the plan by bendsql or a MySQL client.
_ELAPSED = re.compile(r"\d rows? (?:\w+ in |in set \()([\d.]+) sec")
#: Signs that a client left out lines, or that the last branch of the tree is missing.
_CUT = re.compile(r"\(\d+ shown\)|├── (?![^├└]*+[├└])")
#: The first operator's name, which has no branch before it, but the line below has.
_ROOT = re.compile(r"^(?=[^\n]*\w)[^\n├└]*+\n[^\n├└\w]*+[├└]── ", re.MULTILINE)


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of a plan: at least one call per spilled file or range, at most calls of 2 MiB.

    The plan's time of a spill includes encoding and queueing, so it is an upper bound for temp I/O.
    InputError if the plan is damaged, was not executed, or did not spill.
    """
    text = unwrapped(text_of(path))
    plans = _ROOT.findall(text)
    if not plans or any(cut.search(text) is not None for cut in (_CUT, LEFT_OUT)):
        raise EvidenceIncomplete(
            "lines of the plan are missing",
            "let the client show all of them; in bendsql: !set max_display_rows 1000",
        )
    if len(plans) > 1:
        raise EvidenceAmbiguous(f"{len(plans)} plans", "give one, in a file of its own")
    busy_s = sum(
        quantity_of(parse_duration_s, match[1], "a time") for match in _BUSY.finditer(text)
    )
    if not busy_s:
        raise EvidenceIncomplete("the plan was not run, so it counts no temp I/O")
    spilled, remote_bytes = _spilled(text)
    if not any(spilled["bytes"].values()):
        raise NoTempIo("this query of Databend does not spill")
    note = f"{format_bytes(remote_bytes)} of it were written to and read from object storage"
    elapsed = _ELAPSED.search(text)
    return counts_of_figures(
        selection,
        _temp_counts(spilled),
        elapsed_s=float(elapsed[1]) if elapsed else 0.0,
        elapsed_unknown="it is not in the plan, but below it in bendsql",
        source=PROFILE,
        engine=ObservedEngine("databend"),
        busy_s=busy_s,
        notes=[note] if remote_bytes else [],
    )


def _spilled(text: str) -> tuple[Mapping[str, Mapping[str, float]], float]:
    """Sums over all operators by unit (files or ranges, bytes, seconds) and op; remote bytes."""
    sums = {unit: dict.fromkeys(OPS, 0.0) for unit in ("numbers", "bytes", "seconds")}
    remote_bytes = 0.0
    for match in _SPILLED.finditer(text):
        name = f"spilled by {match['op']}"
        unit = "seconds" if match["time"] else match["unit"] or "numbers"
        if unit == "seconds":
            value = quantity_of(parse_duration_s, match["value"], name)
        elif unit == "bytes":
            value = quantity_of(parse_bytes, match["value"], name)
        else:
            number = number_of(match["value"])
            if number is None:
                raise damaged(f"{match['value']!r} is not a number of spills")
            value = number.value
        sums[unit][match["op"]] += value
        remote_bytes += value * (unit == "bytes" and match["place"] == "remote ")
    return sums, remote_bytes


def _temp_counts(spilled: Mapping[str, Mapping[str, float]]) -> TempCounts:
    """Reads and writes by calls on a local disk, and bounds of their number and time."""
    files, sizes, times_s = (spilled[unit] for unit in ("numbers", "bytes", "seconds"))
    for op in OPS:
        if bool(files[op]) != bool(sizes[op]):
            raise damaged(f"spills by {op} have no number or no bytes")
    if not sizes["write"]:
        raise EvidenceContradictory(
            "operators read what they spilled, and none wrote it",
            "the plan lacks operators: give all of it",
        )
    calls = {
        op: count and count * ceil(sizes[op] / count / CALL_BYTES_MAX)
        for op, count in files.items()
    }
    within = Bounds(0.0, sum(times_s.values()), "a plan times a spill with its encoding", _RECORD)
    times = TempTimes(times_s["read"] / 2, times_s["write"] / 2, within)
    fewest, temp = (
        times.moved({op: (counts[op], sizes[op]) for op in OPS}) for counts in (files, calls)
    )
    if calls == files:
        return temp
    few, many = (format_count(round(sum(parts.values())), "call") for parts in (files, calls))
    words = f"a plan counts spilled files and ranges, and no calls: they took {few} to {many}"
    return temp.between(fewest, temp, words, _RECORD)
