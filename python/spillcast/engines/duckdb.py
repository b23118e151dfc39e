"""DuckDB in a process of its own, held at a gate."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from spillcast.engines.held import HeldQuery


@dataclass(frozen=True)
class Query:
    """A query and the settings under which it spills."""

    sql: str
    database: Path
    temp_directory: Path
    memory_limit: str
    threads: int = 1
    #: Further settings of the session.
    settings: Mapping[str, str] = field(default_factory=dict)


class DuckDb(HeldQuery):
    """A query in a DuckDB process."""

    def __init__(self, query: Query, environment: Mapping[str, str] | None = None) -> None:
        super().__init__("DuckDB", "spillcast.engines.duckdb_process", asdict(query), environment)


def version() -> str:
    """DuckDB's version."""
    import duckdb

    return duckdb.__version__
