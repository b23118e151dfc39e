"""The output of the guest as a table: a column per source, with the targets."""

import json
from collections.abc import Sequence
from statistics import median
from typing import Any

AIM_ATTACH_S = 1.0
AIM_DESCRIPTORS = 4
AIM_START = 2.0
NOTHING = "-"

#: Results by source and name: documents, and messages of refusals.
Rows = dict[tuple[str, str], list[Any]]


def rows_of(console: str) -> Rows:
    """The guest's output lines that are results."""
    rows: Rows = {}
    for line in console.replace("\r", "").splitlines():
        if not line.startswith("row "):
            continue
        _, source, subject, reported = line.split(" ", 3)
        value = (
            json.loads(reported) if reported.startswith("{") else reported.removeprefix("attach: ")
        )
        rows.setdefault((source, subject), []).append(value)
    return rows


def table(console: str, sources: Sequence[str], threads: Sequence[int]) -> str:
    """The lines of a table, below those about the guest."""
    rows = rows_of(console)
    if ("guest", "about") not in rows:
        return f"the guest did not come up: {console[-400:].strip()}"
    [about] = rows["guest", "about"]
    starts = rows.get(("bare", "start"), [])
    # Before and after each source, as the guest's speed varies.
    bare_ns = median([item["start_median_ns"] for item in starts if isinstance(item, dict)] or [0])
    lines = [["", *sources, "aim"]]
    for count in threads:
        each = [_attached(rows, source, count) for source in sources]
        lines.append([f"attach to {count} threads", *each, f"under {AIM_ATTACH_S:g} s"])
        each = [_descriptors(rows, source, count, about["cpus"]) for source in sources]
        lines.append(["  descriptors a CPU", *each, f"under {AIM_DESCRIPTORS}"])
    each = [_exact(rows, source) for source in sources]
    lines.append(["counts, bytes, offsets", *each, "exact"])
    each = [_start(rows, source, bare_ns) for source in sources]
    lines.append(["thread start, times unobserved", *each, f"at most {AIM_START:g}"])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid_out = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    reported = f"{bare_ns / 1e3:,.0f} us" if bare_ns else NOTHING
    head = (
        f"Linux {about['kernel']}, {about['cpus']} emulated CPUs, BTF {about['btf']}, "
        f"a thread starts in {reported} unobserved"
    )
    return "\n".join([head, *laid_out])


def _attached(rows: Rows, source: str, threads: int) -> str:
    [reported, *_] = rows.get((source, f"attach-{threads}"), [NOTHING])
    if isinstance(reported, str):
        return reported
    took_s = reported["open_s"] + reported["attach_s"]
    return _judged(f"{took_s:.2f} s ({reported['open_s']:.2f} to open)", took_s < AIM_ATTACH_S)


def _descriptors(rows: Rows, source: str, threads: int, cpus: int) -> str:
    number = _of(rows, (source, f"attach-{threads}"), "descriptors")
    if number is None:
        return NOTHING
    return _judged(f"{number / cpus:,.1f}", number / cpus < AIM_DESCRIPTORS)


def _exact(rows: Rows, source: str) -> str:
    """The program's own account against what the source recorded."""
    reported = rows.get((source, "counts"), [])
    accounts = [item for item in reported if isinstance(item, dict)]
    if len(accounts) < 2:
        return " ".join(item for item in reported if isinstance(item, str)) or NOTHING
    done, seen = sorted(accounts, key=lambda item: "kind" not in item)
    exact = done["calls"] == seen["calls"]
    return _judged("exact" if exact else f"not the same, {seen['lost']:,} lost", exact)


def _start(rows: Rows, source: str, bare_ns: float) -> str:
    observed_ns = _of(rows, (source, "start"), "start_median_ns")
    if observed_ns is None or not bare_ns:
        return NOTHING
    times = observed_ns / bare_ns
    return _judged(f"{times:.1f} ({observed_ns / 1e3:,.0f} us)", times <= AIM_START)


def _of(rows: Rows, key: tuple[str, str], name: str) -> float | None:
    """A number of the first document that contains it."""
    matches = [item[name] for item in rows.get(key, []) if isinstance(item, dict) and name in item]
    return matches[0] if matches else None


def _judged(figure: str, met: bool) -> str:
    return figure if met else f"{figure} MISSED"
