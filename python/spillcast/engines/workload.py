"""A query that spills, and what makes it spill."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
