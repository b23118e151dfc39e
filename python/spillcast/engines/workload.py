"""A query that spills, and what makes it spill."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: PostgreSQL has eight workers at most, and memory is divided among all.
THREADS_MAX = 8


@dataclass(frozen=True)
class Workload:
    """A query and the memory under which it spills well on a table of ``rows`` rows."""

    name: str
    sql: str
    rows: int
    #: As the engine writes it: ``memory_limit`` of DuckDB, ``work_mem`` of PostgreSQL.
    memory: str
    #: Threads or processes that work on it.
    threads: int = 1
    #: Further settings of the session.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The word for many queries at once; empty where there is none.
    suite: str = ""
    #: Whether its tables are dropped from the page cache before each run.
    cold: bool = False
    #: CPU time and temp operations of a run, roughly, for the time that a verification takes.
    cpu_s: float = 1.2
    operations: int = 2200
    #: What its tables take to make, once for all queries on them, roughly.
    load_s: float = 0.0

    @property
    def kind(self) -> str:
        """Its name, whether its tables are cold or warm."""
        return self.name.removesuffix(" cold")
