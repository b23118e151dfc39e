"""What an experiment needs of an engine: its data, and queries held at a gate somewhere."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from spillcast.engines.held import HeldQuery
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload

EngineName = Literal["duckdb", "postgres"]


class Engine(Protocol):
    """An engine with a table ``t`` of its own."""

    @property
    def label(self) -> str:
        """Name and version, for people."""

    def build(self, rows: int) -> None:
        """Make the table of so many rows, if it is not there; seconds of work."""

    def hold(
        self, workload: Workload, place: Place, environment: Mapping[str, str]
    ) -> AbstractContextManager[HeldQuery]:
        """A query made ready with its temp files at ``place``; all of it ends with the context.

        ``environment`` is for the processes that do the query's work.
        """

    def describe(self, workload: Workload) -> dict[str, Any]:
        """Engine, version, query and settings, as a recording's meta.json keeps them."""


def open_engine(name: EngineName, room: Path) -> Engine:
    """An engine with its data in ``room``. InputError where a package is missing."""
    if name == "duckdb":
        from spillcast.lab.duckdb import DuckDbEngine

        return DuckDbEngine(room)
    from spillcast.lab.postgres import PostgresEngine

    return PostgresEngine(room)
