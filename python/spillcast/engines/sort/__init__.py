"""GNU sort: it spills sorted runs beyond its buffer (-S), and merges them."""

from typing import TYPE_CHECKING

from spillcast.engines.engine import Coverage, Engine, LikelyName, WorkMemory

if TYPE_CHECKING:
    from spillcast.engines.sort.lab import SortLab


def _lab() -> "type[SortLab]":
    from spillcast.engines.sort.lab import SortLab

    return SortLab


ENGINE = Engine(
    name="sort",
    label="GNU sort",
    temp_names={"sorted runs": LikelyName("sort??????")},
    memory=WorkMemory("-S", "256K..8M", "K"),
    lab=_lab,
    coverage=Coverage(parallel="a thread merges and does all I/O", cure="-S (sweep memory)"),
)
