"""A simulated flash cache, and how much flash is worth buying, in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from spillcast.cache.curve import MOST, POINTS, Curve
from spillcast.cache.elapsed import Device, Traffic
from spillcast.cache.simulation import Simulation
from spillcast.report.histogram import bar
from spillcast.report.table import paragraph, table_text
from spillcast.units import format_bytes, format_duration

CACHE_SCHEMA = "spillcast.cache/1"
Devices = tuple[Device, Device]
#: Sizes in the chart.
_ROWS = 13
#: Columns of the chart beside the bars.
_BESIDE = 24


def cache_document(
    simulation: Simulation | None,
    curve: Curve,
    devices: Devices | None,
    notes: Sequence[str],
    cells: int,
) -> dict[str, Any]:
    """The document of docs/schema.md."""
    document: dict[str, Any] = {"schema": CACHE_SCHEMA, "line_bytes": curve.line_bytes}
    document["cache"] = None
    if simulation is not None:
        document["cache"] = _simulated(simulation, devices, cells)
    sizes = curve.sizes(POINTS)
    document["curve"] = {
        "policy": "lru",
        "sampled": curve.rate,
        "requests": curve.requests,
        "data_bytes": curve.data_bytes,
        "enough_bytes": curve.enough_bytes(),
        "size_bytes": [round(size) for size in sizes],
        "miss_ratio": curve.miss_ratios(sizes),
    }
    document["warnings"] = list(notes)
    return document


def _simulated(simulation: Simulation, devices: Devices | None, cells: int) -> dict[str, Any]:
    asked = simulation.asked
    return {
        "size_bytes": asked.size_bytes,
        "policy": asked.policy,
        "keep": list(asked.keep),
        "temp_writes": asked.temp_writes,
        "without": _traffic(simulation.without, devices),
        "runs": [
            {
                "hit_ratio": run.hit_ratio,
                **_traffic(run.traffic, devices),
                "accounts": run.accounts,
            }
            for run in simulation.runs
        ],
        "cached": [
            {"object": name, "bytes": count, "bytes_per_cell": count // cells}
            for name, count in simulation.cached_bytes.items()
            if count
        ],
    }


def _traffic(traffic: Traffic, devices: Devices | None) -> dict[str, Any]:
    elapsed_s = traffic.elapsed_s(*devices) if devices else None
    return {
        "flash_read_bytes": round(traffic.flash_read),
        "flash_write_bytes": round(traffic.flash_write),
        "disk_read_bytes": round(traffic.disk_read),
        "disk_write_bytes": round(traffic.disk_write),
        "elapsed_s": elapsed_s,
        "read_bytes_per_s": traffic.read / elapsed_s if elapsed_s else None,
    }


def cache_text(
    simulation: Simulation | None,
    curve: Curve,
    devices: Devices | None,
    notes: Sequence[str],
    *,
    cells: int = 1,
    width: int = 80,
) -> str:
    """The cache that was asked for, and the curve of all sizes."""
    parts = [] if simulation is None else _simulation_parts(simulation, curve, devices, cells)
    parts.append(_curve_text(curve, width))
    parts += [paragraph(f"  note: {note}", "  ", width) for note in notes]
    return "\n\n".join(parts)


def _simulation_parts(
    simulation: Simulation, curve: Curve, devices: Devices | None, cells: int
) -> list[str]:
    asked = simulation.asked
    kept = f", KEEP: {', '.join(asked.keep)}" if asked.keep else ""
    head = (
        f"A cache of {format_bytes(asked.size_bytes)} in lines of "
        f"{format_bytes(simulation.line_bytes)}, policy {asked.policy}{kept}"
    )
    if asked.size_bytes >= curve.data_bytes:
        head += f"\nEverything fits: the data is {format_bytes(curve.data_bytes)}"
    parts = [head, _runs_text(simulation, devices), _accounts_text(simulation)]
    cached = [(name, count) for name, count in simulation.cached_bytes.items() if count]
    if cached:
        each = f", {cells} cells with {{}} each" if cells > 1 else ""
        lines = [
            f"  {name}: {format_bytes(count)}{each.format(format_bytes(count / cells))}"
            for name, count in sorted(cached, key=lambda pair: -pair[1])[:8]
        ]
        parts.append("Cached at the end\n" + "\n".join(lines))
    return parts


def _runs_text(simulation: Simulation, devices: Devices | None) -> str:
    names = ["no cache", "populating", *(["next run"] * len(simulation.runs))]
    traffics = [simulation.without, *(run.traffic for run in simulation.runs)]
    header = ["", "from flash", "from disk", "to flash", "to disk"]
    if devices:
        header += ["I/O time", "read at"]
    rows = [
        [name, *_traffic_cells(traffic, devices)]
        for name, traffic in zip(names, traffics, strict=False)
    ]
    return table_text(header, rows)


def _traffic_cells(traffic: Traffic, devices: Devices | None) -> list[str]:
    sizes = (traffic.flash_read, traffic.disk_read, traffic.flash_write, traffic.disk_write)
    cells = [format_bytes(size) if size else "-" for size in sizes]
    if devices:
        elapsed_s = traffic.elapsed_s(*devices)
        rate = f"{format_bytes(traffic.read / elapsed_s)}/s" if elapsed_s else "-"
        cells += [format_duration(elapsed_s), rate]
    return cells


def _accounts_text(simulation: Simulation) -> str:
    """By object and class: hits in each run, and those that other objects cost in the last."""
    first, last = simulation.runs[0], simulation.runs[-1]
    before = {(a["object"], a["class"]): a for a in first.accounts}
    header = ["object", "class", "requests", "bytes", "first hits", "last hits", "lost"]
    if len(simulation.runs) == 1:
        header[4:6] = ["hits"]
    ranked = sorted(last.accounts, key=lambda account: -int(account["bytes"]))
    rows = []
    for account in ranked[:20]:
        cells = [account["object"][:24], account["class"], f"{account['requests']:,}"]
        cells.append(format_bytes(account["bytes"]))
        if len(simulation.runs) > 1:
            cells.append(_hits(before[account["object"], account["class"]]))
        cells += [_hits(account), f"{account['lost_hits']:,}" if account["lost_hits"] else "-"]
        rows.append(cells)
    text = table_text(header, rows, left=(0, 1))
    if any(account["lost_hits"] for account in last.accounts):
        text += "\n  lost: hits that an object would have if it had the cache for itself"
    return text


def _hits(account: Mapping[str, Any]) -> str:
    if account["class"].endswith("write"):
        return "-"
    return f"{100 * account['hits'] / account['requests']:.1f} %"


def _curve_text(curve: Curve, width: int) -> str:
    """Miss ratios as bars, and the size from which on more brings little."""
    sizes = curve.sizes(_ROWS)
    lines = ["How much flash is worth buying: reads that miss, by size of an LRU cache"]
    bar_width = max(width - _BESIDE, 10)
    for size, miss in zip(sizes, curve.miss_ratios(sizes), strict=True):
        lines.append(f"  {format_bytes(size):>9} {100 * miss:6.2f} % |{bar(miss, bar_width)}")
    enough = curve.enough_bytes()
    data = format_bytes(curve.data_bytes)
    if enough is None:
        lines.append(f"  No size brings a hit: nothing of the {data} is read again.")
    else:
        lines.append(
            f"  {format_bytes(enough)} bring {MOST:.0%} of the hits that all of the data, {data}, "
            "would."
        )
    if curve.rate < 1:
        lines.append(f"  From a sample of {curve.rate:.3g} of the lines (SHARDS).")
    return "\n".join(lines)
