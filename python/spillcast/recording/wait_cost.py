"""What a wait costs in CPU time once it is over: fitted to runs, asked for any wait."""

from dataclasses import dataclass

from spillcast.document import key


@dataclass(frozen=True)
class Point:
    """A recorded run of a query on a storage."""

    engine: str = key("its name and version", example="DuckDB 2.0.0")
    query: str = key("the query's name", example="join of amounts")
    storage: str = key("where it spilled to", example="latency:1.5ms")
    repeat: int = key("the number of the run there, from 0", example=0)
    operations: int = key("temp reads and writes", example=612)
    latency_s: float = key("mean time of one", unit="s", example=0.00163)
    read_latency_s: float = key("of a read; 0 without any", unit="s", example=0.00161)
    write_latency_s: float = key("of a write; 0 without any", unit="s", example=0.00165)
    cpu_s: float = key("CPU time outside I/O calls", unit="s", example=0.71)
    cpu_per_operation_s: float = key("of that, by operation", unit="s", example=0.00116)
    process_cpu_s: float = key("CPU time with that within calls", unit="s", example=0.92)
    run_queue_delay_s: float = key("time it was runnable without a CPU", unit="s", example=0.004)
    elapsed_s: float = key("how long it took", unit="s", example=1.93)
