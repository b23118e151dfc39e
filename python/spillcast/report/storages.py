"""Pages of several storages: comparison, catalogue, managed databases, flash before a disk."""

from collections.abc import Sequence
from functools import partial
from string import ascii_uppercase
from typing import Any

from spillcast.cache.simulation import MOST, Cache, CacheResult, Curve
from spillcast.document import written
from spillcast.report.page import Drawn, Notes, Page, Part, Words, bar
from spillcast.report.storage import origin_text
from spillcast.storage.catalogue import MOVABLE, Managed, figures
from spillcast.storage.catalogue import Row as CatalogueRow
from spillcast.storage.description import Comparison, Verdict
from spillcast.storage.description import Row as ComparedRow
from spillcast.tabular import Column, Table, paragraph
from spillcast.units import format_bytes, format_count, format_speedup

#: Speed-ups below the first are no difference; those by size are a range if they differ more.
ALIKE, APART = 1.05, 1.3
#: Rows with a larger error are left out.
ERROR_MAX = 0.5
_SHOWN = (Column("", None), Column("p50", None, "s", spare=1), Column("mean", None, "s"),
          Column("p99", None, "s", spare=2), Column("speed-up", None, "ratio"))  # fmt: skip
#: Columns of CSV, which has a row for every size and storage, however little is known of it.
_DATA = (
    *("op", "size_class_bytes", "pattern", "storage", "p50_s", "mean_s", "p99_s", "speedup"),
    *("measured", "extrapolated", "error"),
)


def comparison_page(comparison: Comparison) -> Page:
    """A legend, a line for each storage by op and size, and a sentence for each storage."""
    storages = zip(ascii_uppercase, comparison.names, comparison.storages, strict=False)
    legend = [f"{letter}  {name}: {origin_text(storage)}" for letter, name, storage in storages]
    rows = [
        row
        for row in comparison.rows
        if all(latency is None or latency.error <= ERROR_MAX for latency in row.storages)
    ]
    patterns = len({row.pattern for row in rows}) > 1
    keys = [Column("op", None), Column("size", None, "bytes")]
    keys += [Column("pattern", None)] if patterns else []
    lines = [_line(row, at, patterns) for row in rows for at in range(len(comparison.names))]
    parts: list[Part] = [
        Words(legend, "   "),
        Table([*keys, *_SHOWN], lines, grouped=len(keys)),
        Words(_notes(rows, len(comparison.rows) - len(rows))),
        Words([_sentence(comparison, at) for at in range(1, len(comparison.names))], "  "),
    ]
    document = comparison.to_json()
    records = [
        {**row, "storage": storage["name"], **(latency or {})}
        for row in document["rows"]
        for storage, latency in zip(document["storages"], row["storages"], strict=True)
    ]
    return Page(parts, Table.of_records(records, _DATA))


def _line(row: ComparedRow, at: int, patterns: bool) -> list[Any]:
    key = [row.op, row.size_class_bytes, *([row.pattern] if patterns else [])]
    if (latency := row.storages[at]) is None:
        return [*key, ascii_uppercase[at], None, None, None, None]
    mark = "" if latency.measured else " ?" if latency.extrapolated else " ~"
    times_s = latency.p50_s, latency.mean_s, latency.p99_s
    return [*key, ascii_uppercase[at] + mark, *times_s, latency.speedup if at else None]


def _notes(rows: Sequence[ComparedRow], left_out: int) -> list[str]:
    """The meaning of marks with their largest error, and the number of rows left out."""
    latencies = [latency for row in rows for latency in row.storages if latency is not None]
    unmeasured = [latency for latency in latencies if not latency.measured]
    notes = []
    for mark, extrapolated in (("~ interpolated", False), ("? extrapolated", True)):
        if errors := [e.error for e in unmeasured if e.extrapolated == extrapolated]:
            notes.append(f"  {mark}, +/- {_percent(max(errors))}")
    if left_out:
        count = format_count(left_out, "row")
        notes.append(f"  {count} left out, too far from measured sizes or depths: see --json")
    return notes


def _sentence(comparison: Comparison, at: int) -> str:
    """``B reads 12.3 times faster and writes 1.5 times slower than A.``"""
    first, name = comparison.names[0], comparison.names[at]
    verdicts = comparison.verdicts[at - 1]
    if not verdicts:
        return f"{name} has no figures for the operations of {first}."
    certain = [verdict for verdict in verdicts if verdict.error <= ERROR_MAX]
    if not certain:
        return f"{name} and {first} were measured at sizes or depths too different to compare."
    *clauses, last = map(_clause, certain)
    text = f"{', '.join(clauses)} and {last}" if clauses else last
    return f"{name} {text} {'as' if text.endswith(' as fast') else 'than'} {first}."


def _clause(verdict: Verdict) -> str:
    """``reads at random 12.3 times faster (8 to 20 by size, +/- 10 %)``."""
    order = {"random": " at random", "sequential": " in sequence"}.get(verdict.pattern, "")
    verb, speedup = f"{verdict.op}s{order}", verdict.speedup
    if 1 / ALIKE < speedup < ALIKE:
        return f"{verb} as fast"
    slowest, fastest = verdict.speedup_min, verdict.speedup_max
    low, high = sorted(max(ratio, 1 / ratio) for ratio in (slowest, fastest))
    remarks = []
    if slowest < 1 < fastest:
        remarks.append(f"{format_speedup(slowest)} to {format_speedup(fastest)} by size")
    elif high > APART * low:
        remarks.append(f"{_times(low)} to {_times(high)} by size")
    if verdict.error > ALIKE - 1:
        remarks.append(f"+/- {_percent(verdict.error)}")
    slower = f"{_times(1 / speedup)} times slower"
    text = slower if speedup < 1 else f"{_times(speedup)} times faster"
    return f"{verb} {text}" + (f" ({', '.join(remarks)})" if remarks else "")


def _times(ratio: float) -> str:
    return format_speedup(ratio).removesuffix("x")


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"


CATALOGUE_SCHEMA = "spillcast.catalogue/1"
_COLUMNS = (
    Column("catalogue:", "name"),
    Column("what it is", "what", spare=1),
    Column("8K read", "read_8k_s", "s"),
    Column("256K write", "write_256k_s", "s"),
    Column("MB/s", "write_bytes_per_s", "MB/s"),
    Column("IOPS", "reads_per_s", "integer"),
    Column(None, "spread", "number"),
)


def catalogue_page(rows: Sequence[CatalogueRow]) -> Page:
    """A row for each storage: a random read, a sequential write, and the maximum rates."""
    table = Table.of(_COLUMNS, list(map(_entry, rows)))
    notes = [
        "  Latency of a single random read and a single sequential write; then the maximum rates "
        "of sequential writes of 256 KiB and random reads of 8 KiB. Published figures, not "
        "measured; with bursts, while they last."
    ]
    for row in rows:
        if row.parameters:
            choice = ", ".join(f"{p.key} {p.allowed}" for p in row.parameters)
            notes.append(f"  {row.name}?... {choice}")
    return Page([table, Words(notes, "  ")], table)


MANAGED_SCHEMA = "spillcast.managed/1"


def managed_page(services: Sequence[Managed]) -> Page:
    """A paragraph for each managed database: its storage, and whether temp files can move."""
    parts = []
    for service in services:
        lines = [
            f"{service.service}: {service.storage}.",
            f"  limits: {service.limits}",
            f"  temp files: {service.temp_files or MOVABLE['unknown']}",
            f"  can they move: {MOVABLE[service.movable]}; {service.how}",
        ]
        if service.rows:
            rows = ", ".join(f"catalogue:{name}" for name in service.rows.split())
            lines.append(f"  like: {rows}")
        lines.append(f"  source, read {service.read}: {service.source}")
        parts.append(Words(lines))
    return Page(parts, Table.of_records(list(map(vars, services))))


def managed_document(services: Sequence[Managed]) -> dict[str, Any]:
    """Form ``spillcast.managed/1``."""
    return {"schema": MANAGED_SCHEMA, "services": list(map(vars, services))}


def catalogue_document(rows: Sequence[CatalogueRow]) -> dict[str, Any]:
    """Form ``spillcast.catalogue/1``."""
    return {"schema": CATALOGUE_SCHEMA, "storages": [_entry(row) for row in rows]}


def _entry(row: CatalogueRow) -> dict[str, Any]:
    storage = row.storage()
    return {
        "name": row.name,
        "what": row.title,
        "description": row.description,
        **figures(storage),
        "spread": storage.facts["spread"],
        "assumed": storage.facts["assumed"],
        "source": row.source,
        "parameters": [
            {"key": p.key, "unit": p.unit, "default": p.default, "min": p.low, "max": p.high}
            for p in row.parameters
        ],
    }


#: Sizes in the chart, and maximum numbers of accounts and of cached objects.
_CURVE_ROWS, _ACCOUNTS_MAX, _CACHED_MAX = 13, 20, 8
#: Columns of the chart beside the bars.
_BESIDE = 24
#: Columns of CSV: a row for each run, object and class; runs count from 1.
_ACCOUNT_KEYS = (
    *("run", "object", "class", "requests", "bytes", "hits", "hit_bytes", "lost_hits"),
    *("flash_write_bytes", "disk_write_bytes"),
)


def cache_page(result: CacheResult, curve: Curve, *, cells: int = 1) -> Page:
    """The simulated cache, which ``cells`` servers share, and the curve of all sizes.

    The data are the accounts of the simulation's runs; without one, the points of the curve.
    """
    drawn = Drawn(partial(_curve_text, curve))
    parts = [*cache_parts(result, cells), drawn, Words(curve_text(result))]
    parts.append(Notes([f"  note: {note}" for note in result.warnings]))
    if result.cache is not None:
        records = [
            {"run": number, **written(account)}
            for number, run in enumerate(result.cache.runs, 1)
            for account in run.accounts
        ]
        return Page(parts, Table.of_records(records, _ACCOUNT_KEYS))
    points = zip(result.curve.size_bytes, result.curve.miss_ratio, strict=True)
    columns = Column(None, "size_bytes", "bytes"), Column(None, "miss_ratio", "share")
    return Page(parts, Table(columns, list(points)))


def cache_parts(result: CacheResult, cells: int = 1) -> list[Part]:
    """The simulated cache, run by run and object by object; empty without one."""
    if (cache := result.cache) is None:
        return []
    kept = f", KEEP: {', '.join(cache.keep)}" if cache.keep else ""
    lines = [
        f"A cache of {format_bytes(cache.size_bytes)} in lines of "
        f"{format_bytes(result.line_bytes)}, policy {cache.policy}{kept}"
    ]
    if cache.size_bytes >= result.curve.data_bytes:
        lines.append(f"Everything fits: the data is {format_bytes(result.curve.data_bytes)}")
    parts: list[Part] = [Words(lines), _runs_table(cache), _accounts_table(cache)]
    if any(account.lost_hits for account in cache.runs[-1].accounts):
        parts.append(Words(["  lost: hits that an object would have if it had the cache alone"]))
    if cache.cached:
        columns = [Column("cached at the end", "object"), Column("bytes", "bytes", "bytes")]
        if cells > 1:
            columns.append(Column(f"each of {cells} cells", "bytes_per_cell", "bytes"))
        ranked = sorted(cache.cached, key=lambda cached: -cached.bytes)[:_CACHED_MAX]
        parts.append(Table.of(columns, list(map(vars, ranked))))
    return parts


_TRAFFIC = (
    Column("", None),
    *(Column(name, None, "bytes") for name in ("from flash", "from disk")),
    *(Column(name, None, "bytes", spare=2) for name in ("to flash", "to disk")),
    Column("I/O time", None, "s"),
    Column("read at", None, "bytes_per_s", spare=1),
)


def _runs_table(cache: Cache) -> Table:
    """Bytes and time without the cache, and of each run."""
    names = ["no cache", "populating", *(["next run"] * len(cache.runs))]
    rows = []
    for name, run in zip(names, [cache.without, *cache.runs], strict=False):
        read = run.flash_read_bytes, run.disk_read_bytes
        sizes = [size or None for size in (*read, run.flash_write_bytes, run.disk_write_bytes)]
        rows.append([name, *sizes, run.elapsed_s, run.read_bytes_per_s])
    return Table(_TRAFFIC, rows)


def _accounts_table(cache: Cache) -> Table:
    """By object and class: hit ratios of the first and the last run, and hits lost to others."""
    first, last = cache.runs[0], cache.runs[-1]
    is_repeated = len(cache.runs) > 1
    first_hits = {(a.object, a.class_): a.hit_ratio for a in first.accounts}
    columns = [
        Column("object", None),
        Column("class", None),
        Column("requests", None, "count"),
        Column("bytes", None, "bytes", spare=1),
        Column("first hits", None, "percent1"),
        Column("last hits" if is_repeated else "hits", None, "percent1"),
        Column("lost", None, "count", spare=2),
    ]
    rows = []
    for account in sorted(last.accounts, key=lambda account: -account.bytes)[:_ACCOUNTS_MAX]:
        key = account.object, account.class_
        hits = first_hits.get(key) if is_repeated else None, account.hit_ratio
        rows.append([*key, account.requests, account.bytes, *hits, account.lost_hits or None])
    return Table(columns, rows)


def _curve_text(curve: Curve, width: int) -> str:
    sizes = curve.sizes(_CURVE_ROWS)
    title = "How much flash is worth buying: reads that miss, by size of an LRU cache"
    lines = [paragraph(title, "  ", width)]
    bar_width = max(width - _BESIDE, 10)
    for size, miss in zip(sizes, curve.miss_ratios(sizes), strict=True):
        lines.append(f"  {format_bytes(size):>9} {100 * miss:6.2f} % |{bar(miss, bar_width)}")
    return "\n".join(lines)


def curve_text(result: CacheResult) -> list[str]:
    """The smallest size that brings most hits, and the error of the curve."""
    curve = result.curve
    enough, data = curve.enough_bytes, format_bytes(curve.data_bytes)
    text = f"  No cache size gives any hits: nothing of the {data} is read again."
    if enough is not None:
        text = (
            f"  A cache of {format_bytes(enough)} brings {100 * MOST:.0f} % of the hits that "
            f"caching all of the data ({data}) would."
        )
    error = f"off by at most {100 * curve.error_max:.2g} points in the mean of all sizes"
    if curve.sampled < 1:
        source = f"From a sample of {curve.sampled:.3g} of the lines (SHARDS)"
        return [text, f"  {source}: {error} (95 % interval)."]
    return [text, *([f"  Distances are rounded: {error}."] if curve.error_max > 0 else [])]
