"""TPC-H's queries, in the words and with the validation parameters of its specification."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from spillcast.engines.workload import Workload
from spillcast_lab.tpch.data import ROWS_OF_SCALE_1

SUITE = "tpch"
QUERIES = Path(__file__).with_name("queries")


@dataclass(frozen=True)
class Spilling:
    """What makes a query spill on an engine, and what it takes there by one thread, roughly."""

    number: int
    memory_kb: int
    cpu_s: float
    operations: int
    #: Settings besides those that all have.
    settings: Mapping[str, str] = field(default_factory=dict)


def text(number: int) -> str:
    """A query's text."""
    return (QUERIES / f"q{number:02}.sql").read_text()


def workloads(
    spilling: Iterable[Spilling],
    threads: int,
    memory: str,
    settings: Mapping[str, str],
    load_s: float,
) -> list[Workload]:
    """Each query with its tables warm, then each with them cold.

    ``memory`` is the engine's way to write so many kB; ``load_s`` is what loading takes, once.
    """
    warm = [
        Workload(
            f"{SUITE} Q{query.number}",
            text(query.number),
            ROWS_OF_SCALE_1,
            memory.format(query.memory_kb),
            threads,
            {**settings, **query.settings},
            suite=SUITE,
            cpu_s=query.cpu_s,
            operations=query.operations,
            load_s=load_s,
        )
        for query in spilling
    ]
    return [*warm, *map(cold, warm)]


def cold(workload: Workload) -> Workload:
    """The query on tables that are dropped from the page cache before each run."""
    return replace(workload, name=f"{workload.name} cold", cold=True)
