"""What ``spillcast cache`` finds: the requested cache, run by run, and the curve of all sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.cache.simulation import POINTS, Cache, Curve
from spillcast.document import key, written

CACHE_SCHEMA = "spillcast.cache/1"


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
