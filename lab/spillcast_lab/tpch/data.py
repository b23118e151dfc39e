"""TPC-H: its data, its queries, and cold or warm tables."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from spillcast.engines.engine import Workload
from spillcast.errors import (
    ExperimentFailed,
    ProgramMissing,
    SpaceInsufficient,
)
from spillcast.units import format_bytes
from spillcast.workspace import free_bytes

TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
#: Rows of lineitem at scale factor 1, roughly; a size in rows is one of lineitem.
ROWS_OF_SCALE_1 = 6_000_000
#: Files to load from, and the data of three engines, at scale factor 1.
NEED_BYTES_OF_SCALE_1 = 5 << 30
INSTALL = "pip install 'spillcast[lab]'"


@cache
def generator() -> Path | None:
    """The command of the package ``tpchgen-cli``; None where it is not installed."""
    beside = Path(sys.executable).parent
    executable = shutil.which(
        "tpchgen-cli", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    return None if executable is None else Path(executable)


def made(room: Path, rows: int) -> Path:
    """The folder in ``room`` with a CSV file of each table, made if it is not there.

    Others may read it, for an engine may run as another user. InputError where the generator is
    missing, or space; SpillcastError in its own words where it fails.
    """
    command, scale = generator(), rows / ROWS_OF_SCALE_1
    if command is None:
        raise ProgramMissing(
            "TPC-H's tables are made by tpchgen-cli, which is not installed", INSTALL
        )
    folder = room / f"tpch-{rows}"
    if folder.is_dir():
        return folder
    need_bytes = round(scale * NEED_BYTES_OF_SCALE_1)
    if free_bytes(room) < need_bytes:
        message = f"{room.parent}: TPC-H needs {format_bytes(need_bytes)} of free space"
        raise SpaceInsufficient(message, "name another directory with --work DIR")
    partial = room / f"tpch-{rows}.partial"
    words = [str(command), "csv", "-s", f"{scale:g}", "-o", str(partial), "--quiet"]
    ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode:
        raise ExperimentFailed(
            f"tpchgen-cli: {(ran.stderr.strip().splitlines() or ['failed'])[-1]}"
        )
    for file in partial.iterdir():
        file.chmod(0o644)
    partial.chmod(0o755)
    return partial.rename(folder)


def definitions() -> list[str]:
    """A ``create table`` for each table, as the specification has them, without keys."""
    text = Path(__file__).with_name("schema.sql").read_text()
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def copies(folder: Path, options: str) -> Iterator[tuple[str, str]]:
    """Each table with the statement that loads it; ``options`` of COPY besides CSV's."""
    for table in TABLES:
        file = str(folder / f"{table}.csv").replace("'", "''")
        yield table, f"copy {table} from '{file}' (format csv, header{options})"


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


CHUNK_BYTES = 1 << 20


def chill(files: Iterable[Path]) -> None:
    """Drop what the page cache holds of files; one in memory, such as of tmpfs, stays there."""
    for file in files:
        with file.open("rb", buffering=0) as opened:
            # What is dirty is not dropped.
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(files: Iterable[Path]) -> None:
    """Read files to their ends, so that the page cache holds them."""
    buffer = bytearray(CHUNK_BYTES)
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass
