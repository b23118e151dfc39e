"""A sweep of I/O sizes in the words of the command line: sizes, a spill and a storage by name."""

from pathlib import Path

from spillcast.errors import OptionConflict
from spillcast.lab.io_size.made_up import Sort
from spillcast.lab.io_size.measured import Progress
from spillcast.lab.io_size.settings import parse_block, parse_sizes, settings_of
from spillcast.lab.io_size.spill import MadeUp, Recorded, Spill
from spillcast.lab.io_size.sweep import Sweep, sweep_io_size
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.budget import parse_budget
from spillcast.storage.target import is_place, resolve_storage
from spillcast.units import parse_bytes

#: Minimum and maximum sizes of I/Os, the block that they are multiples of, and the time it takes.
LEAST, MOST, BLOCK, BUDGET = "48K..1M", "48K..4M", "8K", "60s"
#: The spill that is made up where none is given.
DATA, MEMORY = "1G", "32M"


def sweep(
    storage: Storage | str | Path,
    like: Recording | None = None,
    *,
    least: str = LEAST,
    most: str = MOST,
    block: str = BLOCK,
    data: str | None = None,
    memory: str | None = None,
    budget: str = BUDGET,
    on_progress: Progress | None = None,
) -> Sweep:
    """Issue the spill ``like``, or an external sort of ``data``, with I/Os of each size.

    ``storage`` is a directory, which is measured within ``budget``, or a storage that is known.
    ``least`` and ``most`` are sizes as ``48K..1M`` (powers of two) or ``48K,240K``, multiples of
    ``block``. ``memory`` is the query's work memory. InputError for sizes that cannot be, and where
    no setting can be tried.
    """
    block_bytes = parse_block(block)
    settings = settings_of(
        parse_sizes("--min", least, block_bytes), parse_sizes("--max", most, block_bytes)
    )
    parsed, where = parse_budget(budget), _where(storage)
    spill = _spill(like, data, memory, block_bytes)
    return sweep_io_size(where, spill, settings, budget=parsed, on_progress=on_progress)


def _where(storage: Storage | str | Path) -> Storage | Path:
    """The directory that is measured, or the storage that is known."""
    if isinstance(storage, Storage):
        return storage
    path = Path(storage)
    return path if is_place(path) else resolve_storage(str(storage))


def _spill(like: Recording | None, data: str | None, memory: str | None, block: int) -> Spill:
    if like is None:
        sort = Sort(parse_bytes(data or DATA, "--data"), parse_bytes(memory or MEMORY, "--memory"))
        return MadeUp(sort, block)
    if data is not None:
        raise OptionConflict(
            "--data is for a synthetic sort: with --like the recording says what was spilled"
        )
    return Recorded(like, None if memory is None else parse_bytes(memory, "--memory"))
