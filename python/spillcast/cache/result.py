"""What ``spillcast cache`` finds: the requested cache, run by run, and the curve of all sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.cache.simulation import POINTS, Account, Curve, Device, Simulation, Traffic
from spillcast.document import key, written

CACHE_SCHEMA = "spillcast.cache/1"


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Bytes that flash and disk read and write, and the time that takes."""

    flash_read_bytes: int = key("read from flash", unit="bytes")
    flash_write_bytes: int = key("written to flash", unit="bytes")
    disk_read_bytes: int = key("read from the disk", unit="bytes")
    disk_write_bytes: int = key("written to the disk", unit="bytes")
    elapsed_s: float | None = key("null without `--flash` and `--disk`", unit="s")
    read_bytes_per_s: float | None = key("bytes read over that time", unit="bytes/s")


@dataclass(frozen=True, kw_only=True)
class CacheRun(Moved):
    """One run of the same I/O."""

    hit_ratio: float = key("share of its reads that the cache serves", example=0.75)
    accounts: Sequence[Account] = key("by object and class")


@dataclass(frozen=True)
class CachedObject:
    """What the cache holds of an object at the end."""

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
    without: Moved = key("the same I/O without it")
    runs: Sequence[CacheRun] = key("the first fills the cache")
    cached: Sequence[CachedObject] = key("by object")


@dataclass(frozen=True, kw_only=True)
class MissCurve:
    """Reads of the last run that miss, by the size of an LRU cache."""

    policy: str = key("`lru`", example="lru")
    sampled: float = key("share of the lines it is made from", example=1.0)
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
class CacheResult:
    """The document of ``spillcast cache --json``."""

    line_bytes: int = key("size of a cache line", unit="bytes", example=65536)
    cache: Cache | None = key("the requested cache; null without `--size`")
    curve: MissCurve = key("of LRU caches of all sizes")
    warnings: Sequence[str] = key("warnings for the reader, in words", example=[])

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": CACHE_SCHEMA, **written(self)}


def cache_result(
    simulation: Simulation | None,
    curve: Curve,
    devices: tuple[Device, Device] | None,
    notes: Sequence[str],
    cells: int,
) -> CacheResult:
    """The result of a simulation on flash and disk whose contents ``cells`` servers share."""
    sizes = curve.sizes(POINTS)
    return CacheResult(
        line_bytes=curve.line_bytes,
        cache=None if simulation is None else _cache(simulation, devices, cells),
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


def _cache(simulation: Simulation, devices: tuple[Device, Device] | None, cells: int) -> Cache:
    options = simulation.options
    return Cache(
        size_bytes=options.size_bytes,
        policy=options.policy,
        keep=options.keep,
        temp_writes=options.temp_writes,
        without=Moved(**_moved(simulation.without, devices)),
        runs=[
            CacheRun(hit_ratio=run.hit_ratio, accounts=run.accounts, **_moved(run.traffic, devices))
            for run in simulation.runs
        ],
        cached=[
            CachedObject(name, count, count // cells)
            for name, count in simulation.cached_bytes.items()
            if count
        ],
    )


def _moved(traffic: Traffic, devices: tuple[Device, Device] | None) -> dict[str, Any]:
    elapsed_s = traffic.elapsed_s(*devices) if devices else None
    return {
        "flash_read_bytes": round(traffic.flash_read),
        "flash_write_bytes": round(traffic.flash_write),
        "disk_read_bytes": round(traffic.disk_read),
        "disk_write_bytes": round(traffic.disk_write),
        "elapsed_s": elapsed_s,
        "read_bytes_per_s": traffic.read / elapsed_s if elapsed_s else None,
    }
