"""The page of a simulated flash cache: its runs by object, and the curve of all sizes."""

from functools import partial

from spillcast.cache.simulation import HITS_SHARE, Cache, CacheResult, Curve
from spillcast.document import written
from spillcast.report import Drawing, Notes, Page, PagePart, Prose, bar
from spillcast.tabular import Column, PrintedTable, paragraph
from spillcast.units import format_bytes

#: Sizes in the chart, and maximum numbers of accounts and of cached objects.
_CURVE_ROWS, _ACCOUNTS_MAX, _CACHED_MAX = 13, 20, 8
#: Width of the chart without the bars, in columns.
_MARGIN_COLUMNS = 24
#: Columns of CSV: a row for each run, object and class; runs count from 1.
_ACCOUNT_KEYS = (
    *("run", "object", "class", "requests", "bytes", "hits", "hit_bytes", "lost_hits"),
    *("flash_write_bytes", "disk_write_bytes"),
)


def cache_page(result: CacheResult, curve: Curve, *, cells: int = 1) -> Page:
    """The simulated cache, divided among ``cells`` servers, and the curve of all sizes.

    The data are the accounts of the simulated runs; without a simulation, the points of the curve.
    """
    drawn = Drawing(partial(_curve_chart, curve))
    parts = [*cache_parts(result, cells), drawn, Prose(curve_sentences(result))]
    parts.append(Notes([f"  note: {note}" for note in result.warnings]))
    if result.cache is not None:
        records = [
            {"run": number, **written(account)}
            for number, run in enumerate(result.cache.runs, 1)
            for account in run.accounts
        ]
        return Page(parts, PrintedTable.of_records(records, _ACCOUNT_KEYS))
    points = zip(result.curve.size_bytes, result.curve.miss_ratio, strict=True)
    columns = Column(None, "size_bytes", "bytes"), Column(None, "miss_ratio", "share")
    return Page(parts, PrintedTable(columns, list(points)))


def cache_parts(result: CacheResult, cells: int = 1) -> list[PagePart]:
    """The simulated cache, by run and object; empty without a simulation."""
    if (cache := result.cache) is None:
        return []
    kept = f", KEEP: {', '.join(cache.keep)}" if cache.keep else ""
    lines = [
        f"A cache of {format_bytes(cache.size_bytes)} in lines of "
        f"{format_bytes(result.line_bytes)}, policy {cache.policy}{kept}"
    ]
    if cache.size_bytes >= result.curve.data_bytes:
        lines.append(f"Everything fits: the data is {format_bytes(result.curve.data_bytes)}")
    parts: list[PagePart] = [Prose(lines), _runs_table(cache), _accounts_table(cache)]
    if any(account.lost_hits for account in cache.runs[-1].accounts):
        parts.append(Prose(["  lost: hits that an object would have if it had the cache alone"]))
    if cache.cached:
        columns = [Column("cached at the end", "object"), Column("bytes", "bytes", "bytes")]
        if cells > 1:
            columns.append(Column(f"each of {cells} cells", "bytes_per_cell", "bytes"))
        ranked = sorted(cache.cached, key=lambda cached: -cached.bytes)[:_CACHED_MAX]
        parts.append(PrintedTable.of(columns, list(map(vars, ranked))))
    return parts


_TRAFFIC = (
    Column("", None),
    *(Column(name, None, "bytes") for name in ("from flash", "from disk")),
    *(Column(name, None, "bytes", spare=2) for name in ("to flash", "to disk")),
    Column("I/O time", None, "s"),
    Column("read at", None, "bytes_per_s", spare=1),
)


def _runs_table(cache: Cache) -> PrintedTable:
    """Bytes and time without the cache, and of each run."""
    names = ["no cache", "populating", *(["next run"] * len(cache.runs))]
    rows = []
    for name, run in zip(names, [cache.without, *cache.runs], strict=False):
        read = run.flash_read_bytes, run.disk_read_bytes
        sizes = [size or None for size in (*read, run.flash_write_bytes, run.disk_write_bytes)]
        rows.append([name, *sizes, run.elapsed_s, run.read_bytes_per_s])
    return PrintedTable(_TRAFFIC, rows)


def _accounts_table(cache: Cache) -> PrintedTable:
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
    return PrintedTable(columns, rows)


def _curve_chart(curve: Curve, width: int) -> str:
    sizes = curve.sizes(_CURVE_ROWS)
    title = "How much flash is worth buying: reads that miss, by size of an LRU cache"
    lines = [paragraph(title, "  ", width)]
    bar_width = max(width - _MARGIN_COLUMNS, 10)
    for size, miss in zip(sizes, curve.miss_ratios(sizes), strict=True):
        lines.append(f"  {format_bytes(size):>9} {100 * miss:6.2f} % |{bar(miss, bar_width)}")
    return "\n".join(lines)


def curve_sentences(result: CacheResult) -> list[str]:
    """The smallest size that brings most hits, and the error of the curve."""
    curve = result.curve
    enough, data = curve.enough_bytes, format_bytes(curve.data_bytes)
    text = f"  No cache size gives any hits: nothing of the {data} is read again."
    if enough is not None:
        text = (
            f"  A cache of {format_bytes(enough)} brings {100 * HITS_SHARE:.0f} % of the hits that "
            f"caching all of the data ({data}) would."
        )
    error = f"off by at most {100 * curve.error_max:.2g} points in the mean of all sizes"
    if curve.sampled < 1:
        source = f"From a sample of {curve.sampled:.3g} of the lines (SHARDS)"
        return [text, f"  {source}: {error} (95 % interval)."]
    return [text, *([f"  Distances are rounded: {error}."] if curve.error_max > 0 else [])]
