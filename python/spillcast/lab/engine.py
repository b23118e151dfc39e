"""What an experiment needs of an engine: its data, and queries held at a gate somewhere."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from spillcast.engines.held import HeldQuery, Ran
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload
from spillcast.recording import Recording
from spillcast.recording.meta import ObservedEngine

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

    def describe(self, workload: Workload) -> ObservedEngine:
        """Engine, version, query and settings, as a recording's meta.json keeps them."""


@runtime_checkable
class Explains(Protocol):
    """An engine whose own plans count temp I/O."""

    def plan(self, workload: Workload, place: Place) -> tuple[Ran, Recording]:
        """A run, and what its plan counts."""


def open_engine(name: EngineName, room: Path) -> Engine:
    """An engine with its data in ``room``. InputError where a package is missing."""
    if name == "duckdb":
        from spillcast.lab.duckdb import DuckDbEngine

        return DuckDbEngine(room)
    from spillcast.lab.postgres import PostgresEngine

    return PostgresEngine(room)
