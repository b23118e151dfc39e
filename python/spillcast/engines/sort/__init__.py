"""GNU sort: it spills sorted runs beyond its buffer (-S), and merges them."""

from spillcast.engines.engine import Coverage, Engine, LikelyName, WorkMemory

ENGINE = Engine(
    name="sort",
    label="GNU sort",
    temp_names={"sorted runs": LikelyName("sort??????")},
    memory=WorkMemory("-S", "256K..8M", "K"),
    lab="spillcast.engines.sort.lab:SortLab",
    coverage=Coverage(parallel="a thread merges and does all I/O", cure="-S (sweep memory)"),
)
