"""Simulates a flash cache in front of a disk: its hits, elapsed time, and miss ratios by size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spillcast import _core
from spillcast.cache.evidence import Requests
from spillcast.document import PrintedDocument, key
from spillcast.errors import (
    ChoiceUnknown,
    EvidenceIncomplete,
    OptionConflict,
    OptionInvalid,
    SelectionEmpty,
)
from spillcast.public import checked
from spillcast.tables import Table
from spillcast.tabular import Column, Display, Tabular
from spillcast.units import format_bytes


@dataclass(frozen=True)
class Device:
    """Read and write throughput of a device, in bytes per second."""

    name: str
    read_bytes_per_s: float
    write_bytes_per_s: float


#: Flash and disk, which are read and written in parallel.
Devices = tuple[Device, Device]


@dataclass(frozen=True, kw_only=True)
class MovedBytes:
    """Bytes that flash and disk read and write, and the time it takes."""

    flash_read_bytes: int = key("read from flash", unit="bytes")
    flash_write_bytes: int = key("written to flash", unit="bytes")
    disk_read_bytes: int = key("read from the disk", unit="bytes")
    disk_write_bytes: int = key("written to the disk", unit="bytes")
    elapsed_s: float | None = key("null without `--flash` and `--disk`", unit="s")
    read_bytes_per_s: float | None = key("bytes read over that time", unit="bytes/s")


#: The largest share of the cache for temp data with the policy ``keep``.
TEMP_SHARE = 0.5
_LINES_MAX = 1 << 30


@dataclass(frozen=True)
class CacheOptions:
    """The cache to simulate."""

    size_bytes: int
    policy: str = "lru"
    keep: Sequence[str] = ()
    temp_writes: bool = False
    temp_share: float = TEMP_SHARE
    #: Share of the hits that flash serves; the disk reads the rest in parallel.
    from_flash: float = 1.0
    #: Number of runs of the same I/O: the first run fills the cache, the next starts warm.
    runs: int = 2

    def check(self) -> None:
        """InputError for parameters that are impossible for a cache."""
        policies = _core.CacheRequests.policies()
        if self.policy not in policies:
            raise ChoiceUnknown(
                f"there is no policy {self.policy}", f"the policies are {', '.join(policies)}"
            )
        if self.size_bytes == 0:
            raise OptionInvalid("a cache of no size holds nothing", "for example 10G")
        if self.keep and self.policy != "keep":
            raise OptionConflict("--keep is a rule of --policy keep")


@dataclass(frozen=True, kw_only=True)
class Account:
    """The requests of one object and class in a run."""

    object: str = key("its name, or number", example="115825")
    class_: str = key("`scan`, `read`, `write`, `temp read` or `temp write`", name="class")
    requests: int = key("for lines", example=40)
    bytes: int = key("moved", unit="bytes")
    hits: int = key("requests that the cache serves", example=30)
    hit_bytes: int = key("bytes of those", unit="bytes")
    flash_write_bytes: int = key("written to flash", unit="bytes")
    disk_write_bytes: int = key("written to the disk", unit="bytes")
    lost_hits: int = key(
        "hits that it would have with the cache to itself, less `hits`", unit="lines", example=10
    )

    @property
    def is_write(self) -> bool:
        """Whether its requests are writes."""
        return self.class_.endswith("write")

    @property
    def hit_ratio(self) -> float | None:
        """Share of the requests that the cache serves; None for writes."""
        return None if self.is_write or not self.requests else self.hits / self.requests


@dataclass(frozen=True, kw_only=True)
class CacheRun(MovedBytes):
    """One run of the same I/O."""

    hit_ratio: float = key("share of its reads that the cache serves", example=0.75)
    accounts: Sequence[Account] = key("by object and class")


@dataclass(frozen=True)
class CachedObject:
    """The cached part of an object at the end."""

    object: str = key("its name, or number", example="115825")
    bytes: int = key("cached at the end", unit="bytes")
    bytes_per_cell: int = key("of it on each storage server", unit="bytes")


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The requested cache."""

    size_bytes: int = key("its size", unit="bytes")
    policy: str = key("as asked", example="keep")
    keep: Sequence[str] = key("objects marked KEEP", example=["115825"])
    temp_writes: bool = key("whether temp data is cached", example=False)
    without: MovedBytes = key("the same I/O without it")
    runs: Sequence[CacheRun] = key("the first fills the cache")
    cached: Sequence[CachedObject] = key("by object")


def simulate(
    requests: Requests,
    options: CacheOptions,
    devices: Devices | None = None,
    *,
    cells: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> Cache:
    """Run the requests, starting with an empty cache. InputError for an impossible cache.

    The cache is divided among ``cells`` servers. ``on_progress`` gets the number of requests
    done; their total is unknown.
    """
    options.check()
    lines = min(options.size_bytes // requests.line_bytes, _LINES_MAX)
    if lines == 0:
        raise OptionInvalid(
            f"a cache of {format_bytes(options.size_bytes)} is less than a line of "
            f"{format_bytes(requests.line_bytes)}",
            "give more, or smaller lines",
        )
    kept = requests.numbers_of(options.keep)
    core = requests.core
    outcome = requests.run(
        lambda: core.simulate(
            options.policy,
            lines,
            kept=kept,
            temp_share=options.temp_share,
            temp_writes=options.temp_writes,
            runs=options.runs,
            alone=len(requests.objects) > 1,
        ),
        on_progress,
    )
    runs = [_run(run, requests, options, devices) for run in outcome["runs"]]
    accounts = runs[0].accounts
    reads, writes = (
        sum(a.bytes for a in accounts if a.is_write == write) for write in (False, True)
    )
    cached = zip(requests.objects, outcome["cached_lines"], strict=False)
    return Cache(
        size_bytes=options.size_bytes,
        policy=options.policy,
        keep=options.keep,
        temp_writes=options.temp_writes,
        without=MovedBytes(**_moved((0, 0), (reads, writes), devices)),
        runs=runs,
        cached=[
            CachedObject(name, size, size // cells)
            for name, count in cached
            if (size := count * requests.line_bytes)
        ],
    )


def _run(
    run: dict[str, Any], requests: Requests, options: CacheOptions, devices: Devices | None
) -> CacheRun:
    accounts = []
    for account in run["accounts"]:
        alone = account.pop("alone_hits")
        if len(requests.objects) == 1:
            # A single object has the whole cache.
            alone = account["hits"]
        named = {"object": requests.objects[account.pop("object")], "class_": account.pop("class")}
        accounts.append(Account(**named, **account, lost_hits=alone - account["hits"]))
    reads = [account for account in accounts if not account.is_write]
    count = sum(account.requests for account in reads)
    from_flash = options.from_flash * sum(account.hit_bytes for account in reads)
    from_disk = sum(account.bytes for account in reads) - from_flash
    to_flash = sum(account.flash_write_bytes for account in accounts)
    written_back = run["lines_written_back"] * requests.line_bytes
    to_disk = sum(account.disk_write_bytes for account in accounts) + written_back
    return CacheRun(
        hit_ratio=sum(account.hits for account in reads) / count if count else 0.0,
        accounts=accounts,
        **_moved((from_flash, to_flash), (from_disk, to_disk), devices),
    )


def _moved(
    flash: tuple[float, float], disk: tuple[float, float], devices: Devices | None
) -> dict[str, Any]:
    """Fields of MovedBytes, of bytes read and written: T = max(flash, disk), reads then writes."""
    elapsed_s = None
    if devices is not None:
        elapsed_s = max(
            read / device.read_bytes_per_s + write / device.write_bytes_per_s
            for (read, write), device in zip((flash, disk), devices, strict=True)
        )
    return {
        "flash_read_bytes": round(flash[0]),
        "flash_write_bytes": round(flash[1]),
        "disk_read_bytes": round(disk[0]),
        "disk_write_bytes": round(disk[1]),
        "elapsed_s": elapsed_s,
        "read_bytes_per_s": (flash[0] + disk[0]) / elapsed_s if elapsed_s else None,
    }


#: A cache is large enough if it has this share of the hits of the largest cache.
HITS_SHARE = 0.9
#: Number of sizes from the smallest to all data, in equal ratios of a few percent.
_FINE = 400
#: Number of sizes of a curve in a table, and as shown.
POINTS, _SHOWN = 64, 13


@dataclass(frozen=True, repr=False)
class Curve(Tabular):
    """Miss ratios of LRU caches of every size, for the last run."""

    core: _core.CacheCurve
    line_bytes: int
    #: Share of the lines that were sampled; 1 for all.
    rate: float

    @property
    def data_bytes(self) -> int:
        """Bytes of all distinct lines: the size of a cache that holds all data."""
        return round(self.core.lines) * self.line_bytes

    @property
    def error_max(self) -> float:
        """Upper bound of the mean error of the miss ratios; if sampled, for 19 of 20 traces."""
        return self.core.error_max

    @property
    def requests(self) -> int:
        """Number of reads that the ratios refer to."""
        return self.core.references

    @checked
    def miss_ratios(self, sizes_bytes: Sequence[float]) -> list[float]:
        """Share of the reads that miss in caches of these sizes."""
        return self.core.miss_ratios([size / self.line_bytes for size in sizes_bytes])

    @checked
    def sizes(self, count: int) -> list[float]:
        """Sizes (bytes) in equal ratios, from one line or the smallest of the curve to all data."""
        least = min(self.core.lines_min, max(self.core.lines, 1.0))
        return [float(s) * self.line_bytes for s in np.geomspace(least, self.core.lines, count)]

    def enough_bytes(self) -> float | None:
        """The smallest size with ``HITS_SHARE`` of the most hits; None if no size has hits."""
        sizes = self.sizes(_FINE)
        ratios = self.miss_ratios(sizes)
        hits = 1 - ratios[-1]
        if hits <= 0:
            return None
        return next(
            s for s, miss in zip(sizes, ratios, strict=True) if 1 - miss >= HITS_SHARE * hits
        )

    def to_arrow(self) -> Table:
        """``POINTS`` sizes in equal ratios: size_bytes and miss_ratio."""
        sizes = self.sizes(POINTS)
        miss_ratio = np.array(self.miss_ratios(sizes), dtype=float)
        return Table({"size_bytes": np.round(sizes).astype(np.int64), "miss_ratio": miss_ratio})

    def display(self) -> Display:
        """A table of some sizes, and the size that is enough."""
        columns = Column("size", None, "bytes"), Column("reads that miss", None, "percent1")
        sizes = self.sizes(_SHOWN)
        enough = self.enough_bytes()
        verdict = "No cache size gives any hits."
        if enough is not None:
            size = format_bytes(enough)
            verdict = f"A cache of {size} has {HITS_SHARE:.0%} of the hits of the largest."
        rows = list(zip(sizes, self.miss_ratios(sizes), strict=True))
        return Display(verdict, columns, rows)


def curve(
    requests: Requests,
    *,
    rate: float | None = None,
    error_points: float | None = None,
    temp_writes: bool = False,
    runs: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> Curve:
    """The miss-ratio curve of requests. InputError without reads, or for an invalid rate or error.

    All lines are followed, or the share ``rate`` of them. With ``error_points`` all are followed,
    with rounded distances: the mean error is at most this many percentage points
    (``Curve.error_max``). ``on_progress`` gets the number of requests done, as in ``simulate``.
    """
    if runs < 1:
        raise OptionInvalid(f"--runs {runs}: too few", "give 1 or more")
    if rate is not None and not 0 < rate <= 1:
        raise OptionInvalid(f"--sample {rate:g}: a share is above 0 and at most 1")
    if error_points is not None and not 0 < error_points <= 100:
        raise OptionInvalid(
            f"--error {error_points:g}: points are above 0 and at most 100",
            "for example --error 0.2",
        )
    if rate is not None and error_points is not None:
        raise OptionConflict(
            "--error follows all lines and --sample a share of them", "give one of the two"
        )
    core, share, error = requests.core, rate or 1.0, (error_points or 0.0) / 100
    core_curve = requests.run(
        lambda: core.curve(rate=share, error=error, temp_writes=temp_writes, runs=runs), on_progress
    )
    if not core_curve.references:
        raise EvidenceIncomplete("there are no reads that a cache could serve")
    if not core_curve.lines:
        raise SelectionEmpty(f"--sample {rate:g} picked none of the lines", "give a larger share")
    return Curve(core_curve, requests.line_bytes, share)


@dataclass(frozen=True, kw_only=True)
class MissCurve:
    """Missed reads of the last run, by the size of an LRU cache."""

    policy: str = key("`lru`", example="lru")
    sampled: float = key("share of the lines that were sampled", example=1.0)
    error_max: float = key(
        "mean error of the miss ratios over all sizes, not exceeded (if sampled, in 19 of 20 "
        "traces); 0 if exact",
        default=0.0,
        later=True,
        example=0.0,
    )
    requests: int = key("reads of the last run", example=78126)
    data_bytes: int = key("all distinct lines", unit="bytes", example=81921048576)
    enough_bytes: float | None = key(
        "the smallest size with 90 % of the hits of any; null if none has hits", unit="bytes"
    )
    size_bytes: Sequence[int] = key("sizes in equal ratios", unit="bytes", example=[65536])
    miss_ratio: Sequence[float] = key("share of the reads that miss with each", example=[1.0])


@dataclass(frozen=True, kw_only=True)
class CacheResult(PrintedDocument):
    """The document of ``spillcast cache --json``."""

    SCHEMA = "spillcast.cache/1"

    line_bytes: int = key("size of a cache line", unit="bytes", example=65536)
    cache: Cache | None = key("the requested cache; null without `--size`")
    curve: MissCurve = key("of LRU caches of all sizes")
    warnings: Sequence[str] = key("texts of the warnings", example=[])


def cache_result(cache: Cache | None, curve: Curve, notes: Sequence[str]) -> CacheResult:
    """The document of a simulated cache, if there is one, and of the curve of all sizes."""
    sizes = curve.sizes(POINTS)
    return CacheResult(
        line_bytes=curve.line_bytes,
        cache=cache,
        curve=MissCurve(
            policy="lru",
            sampled=curve.rate,
            error_max=curve.error_max,
            requests=curve.requests,
            data_bytes=curve.data_bytes,
            enough_bytes=curve.enough_bytes(),
            size_bytes=[round(size) for size in sizes],
            miss_ratio=curve.miss_ratios(sizes),
        ),
        warnings=notes,
    )
