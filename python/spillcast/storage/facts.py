"""The known facts of a storage, checked because forecasts and reports read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.document import read


@dataclass(frozen=True)
class Sustained:
    """Holds the result of sustained writing."""

    bytes: int
    reached: bool
    burst_bytes_per_s: float
    dirty_limit_bytes: int | None = None
    burst_bytes: int | None = None
    sustained_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if self.reached and None in (self.burst_bytes, self.sustained_bytes_per_s):
            raise ValueError("sustained lacks burst_bytes or sustained_bytes_per_s")


@dataclass(frozen=True)
class CachePart:
    """Describes a device of a simulated cache."""

    name: str
    source: str
    facts: Mapping[str, Any]
    error: float = 0.0


@dataclass(frozen=True)
class Facts:
    """The keys that readers use, as in docs/schema.md; all are optional."""

    directory: str | None = None
    filesystem: str | None = None
    network: bool | None = None
    free_bytes: int | None = None
    quota_free_bytes: int | None = None
    quota_of: str | None = None
    elapsed_ns: int | None = None
    floor_ns: int | None = None
    like: str | None = None
    threads: int | None = None
    in_flight: float | None = None
    closed_loop: bool | None = None
    think_scale: float | None = None
    steps_replayed: int | None = None
    steps_skipped: int | None = None
    prefilled_bytes: int | None = None
    working_set_bytes: int | None = None
    byte_share: float | None = None
    page_cache_bytes: int | None = None
    memory_bound: int | None = None
    memory_bound_reason: str | None = None
    direct_refusal: str | None = None
    io_uring_refusal: str | None = None
    cells: int | None = None
    cells_without_time: int | None = None
    cells_without_room: int | None = None
    sustained: Sustained | None = None
    description: str | None = None
    advice: Sequence[str] = ()
    parts: Sequence[CachePart] = ()


def check_facts(facts: Mapping[str, Any], where: str, hint: str) -> None:
    """InputError if a fact of the storage or of a part of it has another type."""
    checked = read(Facts, dict(facts), f"{where}: facts", hint)
    for part in checked.parts:
        check_facts(part.facts, f"{where}: facts of {part.name}", hint)
