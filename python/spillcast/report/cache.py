"""A simulated flash cache, and how much flash is worth buying, in words."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.cache.simulation import MOST, POINTS, Curve, Device, Simulation, Traffic
from spillcast.report.page import Drawn, Page, Part, Words, bar
from spillcast.tabular import Column, Table, paragraph
from spillcast.units import format_bytes

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
        "error_max": curve.error_max,
        "requests": curve.requests,
        "data_bytes": curve.data_bytes,
        "enough_bytes": curve.enough_bytes(),
        "size_bytes": [round(size) for size in sizes],
        "miss_ratio": curve.miss_ratios(sizes),
    }
    document["warnings"] = list(notes)
    return document


def _simulated(simulation: Simulation, devices: Devices | None, cells: int) -> dict[str, Any]:
    options = simulation.options
    return {
        "size_bytes": options.size_bytes,
        "policy": options.policy,
        "keep": list(options.keep),
        "temp_writes": options.temp_writes,
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


def cache_page(
    simulation: Simulation | None,
    curve: Curve,
    devices: Devices | None,
    notes: Sequence[str],
    *,
    cells: int = 1,
) -> Page:
    """The simulated cache, and the curve of all sizes.

    The data are the accounts of the simulation's runs; without one, the points of the curve.
    """
    parts = [] if simulation is None else _simulation_parts(simulation, curve, devices, cells)
    parts += [Drawn(partial(_curve_text, curve)), Words(_curve_words(curve))]
    parts.append(Words([f"  note: {note}" for note in notes]))
    if simulation is not None:
        return Page(parts, _accounts_data(simulation))
    sizes = curve.sizes(POINTS)
    points = zip(map(round, sizes), curve.miss_ratios(sizes), strict=True)
    columns = Column(None, "size_bytes", "bytes"), Column(None, "miss_ratio", "share")
    return Page(parts, Table(columns, list(points)))


def _accounts_data(simulation: Simulation) -> Table:
    """A row for each run, object and class; runs count from 1."""
    keys = ("run", "object", "class", "requests", "bytes", "hits", "hit_bytes", "lost_hits",
            "flash_write_bytes", "disk_write_bytes")  # fmt: skip
    records = [
        {"run": number, **account}
        for number, run in enumerate(simulation.runs, 1)
        for account in run.accounts
    ]
    return Table.of_records(records, keys)


def _simulation_parts(
    simulation: Simulation, curve: Curve, devices: Devices | None, cells: int
) -> list[Part]:
    options = simulation.options
    kept = f", KEEP: {', '.join(options.keep)}" if options.keep else ""
    lines = [
        f"A cache of {format_bytes(options.size_bytes)} in lines of "
        f"{format_bytes(simulation.line_bytes)}, policy {options.policy}{kept}"
    ]
    if options.size_bytes >= curve.data_bytes:
        lines.append(f"Everything fits: the data is {format_bytes(curve.data_bytes)}")
    parts: list[Part] = [Words(lines), _runs(simulation, devices), _accounts(simulation)]
    if any(account["lost_hits"] for account in simulation.runs[-1].accounts):
        parts.append(Words(["  lost: hits that an object would have if it had the cache alone"]))
    cached = [(name, count) for name, count in simulation.cached_bytes.items() if count]
    if cached:
        ranked = sorted(cached, key=lambda pair: -pair[1])[:8]
        columns = [
            Column("cached at the end", None),
            Column("bytes", None, "bytes"),
            Column(f"each of {cells} cells", None, "bytes"),
        ]
        rows = [[name, size, size / cells if cells > 1 else None] for name, size in ranked]
        parts.append(Table(columns, rows))
    return parts


_TRAFFIC = (
    Column("", None),
    *(Column(name, None, "bytes") for name in ("from flash", "from disk")),
    *(Column(name, None, "bytes", spare=2) for name in ("to flash", "to disk")),
    Column("I/O time", None, "s"),
    Column("read at", None, "bytes_per_s", spare=1),
)


def _runs(simulation: Simulation, devices: Devices | None) -> Table:
    names = ["no cache", "populating", *(["next run"] * len(simulation.runs))]
    traffics = [simulation.without, *(run.traffic for run in simulation.runs)]
    rows = []
    for name, traffic in zip(names, traffics, strict=False):
        sizes = (traffic.flash_read, traffic.disk_read, traffic.flash_write, traffic.disk_write)
        elapsed_s = traffic.elapsed_s(*devices) if devices else None
        rate = traffic.read / elapsed_s if elapsed_s else None
        rows.append([name, *(size or None for size in sizes), elapsed_s, rate])
    return Table(_TRAFFIC, rows)


def _accounts(simulation: Simulation) -> Table:
    """By object and class: hits in each run, and those that other objects cost in the last."""
    first, last = simulation.runs[0], simulation.runs[-1]
    several = len(simulation.runs) > 1
    before = {(a["object"], a["class"]): a for a in first.accounts}
    columns = [
        Column("object", None),
        Column("class", None),
        Column("requests", None, "count"),
        Column("bytes", None, "bytes", spare=1),
        Column("first hits", None, "percent1"),
        Column("last hits" if several else "hits", None, "percent1"),
        Column("lost", None, "count", spare=2),
    ]
    rows = []
    for account in sorted(last.accounts, key=lambda account: -int(account["bytes"]))[:20]:
        first_hits = _hits(before[account["object"], account["class"]]) if several else None
        row = [account[key] for key in ("object", "class", "requests", "bytes")]
        rows.append([*row, first_hits, _hits(account), account["lost_hits"] or None])
    return Table(columns, rows)


def _hits(account: Mapping[str, Any]) -> float | None:
    if account["class"].endswith("write"):
        return None
    return float(account["hits"] / account["requests"])


def _curve_text(curve: Curve, width: int) -> str:
    sizes = curve.sizes(_ROWS)
    title = "How much flash is worth buying: reads that miss, by size of an LRU cache"
    lines = [paragraph(title, "  ", width)]
    bar_width = max(width - _BESIDE, 10)
    for size, miss in zip(sizes, curve.miss_ratios(sizes), strict=True):
        lines.append(f"  {format_bytes(size):>9} {100 * miss:6.2f} % |{bar(miss, bar_width)}")
    return "\n".join(lines)


def _curve_words(curve: Curve) -> list[str]:
    """The size from which on more brings little."""
    enough, data = curve.enough_bytes(), format_bytes(curve.data_bytes)
    if enough is None:
        lines = [f"  No cache size gives any hits: nothing of the {data} is read again."]
    else:
        lines = [
            f"  {format_bytes(enough)} bring {MOST:.0%} of the hits that caching all of the data "
            f"({data}) would."
        ]
    if curve.rate < 1:
        lines.append(
            f"  From a sample of {curve.rate:.3g} of the lines (SHARDS): off by at most "
            f"{100 * curve.error_max:.2g} points in the mean of all sizes (95 % interval)."
        )
    elif curve.error_max > 0:
        lines.append(
            f"  Distances are rounded: off by at most {100 * curve.error_max:.2g} points in the "
            "mean of all sizes."
        )
    return lines
