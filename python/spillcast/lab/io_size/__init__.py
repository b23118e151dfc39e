"""I/O size against storage: one spill issued with each size, on a model or on a directory."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.document import Note, key, written
from spillcast.engines.registry import engines
from spillcast.errors import InputError, OptionConflict
from spillcast.lab import IO_BLOCK, IO_SIZES_MAX, IO_SIZES_MIN, SORT_DATA, SORT_MEMORY, SWEEP_SCHEMA
from spillcast.lab.io_size.spill import (
    IoSizeSetting,
    RecordedSpill,
    Spill,
    SyntheticSpill,
    parse_block,
    parse_sizes,
    setting_text,
    settings_of,
)
from spillcast.lab.io_size.trials import Operations, Trials, measured, modelled
from spillcast.public import checked
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.free_space import Budget, parse_budget
from spillcast.storage.probe import ProbeProgress
from spillcast.storage.target import can_probe, resolve_storage
from spillcast.tabular import Column, Display, Tabular
from spillcast.units import parse_bytes

if TYPE_CHECKING:
    from spillcast.tables import Table

CONFIDENCE = 0.9
#: A wider interval, as a share of the best time, is a warning.
WIDE = 0.5


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A setting and the time of the spill with it."""

    min_bytes: int = key("minimum size of an I/O", unit="bytes", example=49152)
    max_bytes: int = key("maximum size of an I/O", unit="bytes", example=1048576)
    total_s: float = key("time of all waits, summed over threads", unit="s", example=138.4)
    interval_s: tuple[float, float] | None = key(
        "its bounds; null if unknown", unit="s", example=[131.0, 145.8]
    )

    @property
    def setting(self) -> IoSizeSetting:
        """The sizes."""
        return IoSizeSetting(self.max_bytes, self.min_bytes)


@dataclass(frozen=True, kw_only=True)
class SettingResult(Timed):
    """A setting and the I/O of the spill with it."""

    reads: Operations = key("its reads")
    writes: Operations = key("its writes")
    levels: int | None = key(
        "how often all data is written and read back; null if unknown", example=1
    )
    io: int = key("rows with the same number make the same I/O, and were tried once", example=0)

    @property
    def mean_bytes(self) -> float:
        """Mean size of an operation."""
        return (self.reads.bytes + self.writes.bytes) / (self.reads.count + self.writes.count)


@dataclass(frozen=True)
class IoSizeAdvice:
    """Notes on an engine's I/O sizes, and statements that set the best size, if any."""

    engine: str = key("its name", example="postgres")
    text: str = key("what to set")
    statements: Sequence[str] = key("statements that set it, where there is a setting")


@dataclass(frozen=True, repr=False, kw_only=True)
class IoSizeSweep(Tabular):
    """The time of a spill with each setting, by maximum and minimum size."""

    storage: str = key("directory, or the storage's name", example="/mnt/nvme")
    like: str = key("recording, or the synthetic sort in words", example="run.spill")
    measured: bool = key("whether it was measured on a directory, or computed", example=True)
    confidence: float = key("level of the intervals", example=0.9)
    rows: Sequence[SettingResult] = key("one per setting, by maximum and minimum size")
    recorded: SettingResult | None = key(
        "a row with the sizes as recorded; null for a synthetic sort"
    )
    best: Timed = key("the shortest time; of equal ones that with the smallest sizes")
    as_good: Sequence[IoSizeSetting] = key("others whose interval overlaps that of the best")
    advice: Sequence[IoSizeAdvice] = key("by engine")
    warnings: Sequence[Note] = key(
        "`code` (`fan-in`, `no-fan-in`, `slices`, `extrapolated`, `partial`, `memory`, "
        "`spill-in-memory`, `noise`) and `message`"
    )

    def row_of(self, setting: IoSizeSetting) -> SettingResult:
        """The row of a setting."""
        return next(row for row in self.rows if row.setting == setting)

    def to_arrow(self) -> "Table":
        """A row per setting: min_bytes, max_bytes, total_s and its interval, low_s and high_s."""
        from spillcast.columns import fields_of
        from spillcast.tables import Table

        names = ("min_bytes", "max_bytes", "total_s", "low_s", "high_s")
        types = dict(zip(names, ("int64", "int64", *["float64"] * 3), strict=True))
        rows = []
        for row in self.rows:
            values = row.min_bytes, row.max_bytes, row.total_s, *(row.interval_s or (None, None))
            rows.append(dict(zip(names, values, strict=True)))
        return Table.from_rows(rows, fields_of(types))

    def display(self) -> Display:
        """The best setting, and all of them."""
        best = f"best on {self.storage}: {setting_text(self.best.setting)}"
        columns = Column("max/min I/O", None), Column("time", None, "s")
        rows = [[setting_text(row.setting), row.total_s] for row in self.rows]
        return Display(best, columns, rows)

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": SWEEP_SCHEMA, "kind": "io-size", **written(self)}


def sweep_io_size(
    where: Storage | Path,
    spill: Spill,
    settings: Sequence[IoSizeSetting],
    *,
    budget: Budget | None = None,
    on_progress: ProbeProgress | None = None,
) -> IoSizeSweep:
    """Issue ``spill`` with each setting on a directory, or simulate it on a storage.

    Settings with equal I/O are tried once. InputError if no setting can be tried.
    """
    possible, warnings = _possible(spill, settings)
    warnings += spill.warnings()
    tried = possible if spill.recorded is None else [*possible, spill.recorded]
    sizes = list(dict.fromkeys(spill.sizes(setting) for setting in tried))
    first = {spill.sizes(setting): setting for setting in reversed(tried)}
    plans = [spill.steps(first[size]) for size in sizes]
    trials: Trials
    if isinstance(where, Storage):
        name, trials = where.name, modelled(where, plans)
    else:
        name = str(where)
        trials = measured(
            where, plans, spill.like, budget=budget or Budget(), on_progress=on_progress
        )

    def row(setting: IoSizeSetting) -> SettingResult:
        io = sizes.index(spill.sizes(setting))
        trial = trials.of[io].times(spill.factor(setting))
        return SettingResult(
            min_bytes=setting.min_bytes,
            max_bytes=setting.max_bytes,
            total_s=trial.total_s,
            interval_s=trial.interval_s,
            reads=trial.reads,
            writes=trial.writes,
            levels=spill.levels(setting),
            io=io,
        )

    rows = [row(setting) for setting in possible]
    best = min(rows, key=lambda row: (row.total_s, row.setting))
    is_measured = not isinstance(where, Storage)
    return IoSizeSweep(
        storage=name,
        like=spill.name,
        measured=is_measured,
        confidence=CONFIDENCE,
        rows=rows,
        recorded=None if spill.recorded is None else row(spill.recorded),
        best=Timed(**{field.name: getattr(best, field.name) for field in fields(Timed)}),
        as_good=[row.setting for row in rows if row is not best and _meet(row, best)],
        advice=[
            IoSizeAdvice(
                engine.name,
                engine.io_size,
                engine.set_io_size(best.min_bytes, best.max_bytes) if engine.set_io_size else (),
            )
            for engine in engines()
            if engine.io_size is not None
        ],
        warnings=[*warnings, *trials.warnings, *_noise(best, measured=is_measured)],
    )


def _possible(
    spill: Spill, settings: Sequence[IoSizeSetting]
) -> tuple[list[IoSizeSetting], list[Note]]:
    """The settings that allow at least two runs or partitions, and a warning."""
    possible, refused = [], []
    for setting in settings:
        try:
            spill.levels(setting)
        except InputError as error:
            refused.append((setting, error))
        else:
            possible.append(setting)
    if not possible:
        raise refused[0][1]
    if not refused:
        return possible, []
    names = ", ".join(setting_text(setting) for setting, _ in refused)
    message = f"skipped, because the memory does not hold three buffers of that size: {names}"
    return possible, [{"code": "no-fan-in", "message": message}]


def _noise(best: Timed, *, measured: bool) -> list[Note]:
    """A warning if the interval of the best setting is too wide to distinguish sizes."""
    low_s, high_s = best.interval_s or (best.total_s, best.total_s)
    if high_s - low_s <= WIDE * best.total_s:
        return []
    message = (
        "the rounds differed too much to tell the settings apart: a quieter machine or a larger "
        "--budget narrows the intervals"
        if measured
        else "the storage's figures are too uncertain at these sizes to tell the settings apart: "
        "probe it again, for longer or on a quieter machine"
    )
    return [{"code": "noise", "message": message}]


def _meet(row: SettingResult, other: SettingResult) -> bool:
    if row.interval_s is None or other.interval_s is None:
        return False
    return row.interval_s[0] <= other.interval_s[1] and other.interval_s[0] <= row.interval_s[1]


@checked
def sweep(
    storage: Storage | str | Path,
    like: Recording | None = None,
    *,
    min_sizes: str = IO_SIZES_MIN,
    max_sizes: str = IO_SIZES_MAX,
    block: str = IO_BLOCK,
    data: str | None = None,
    memory: str | None = None,
    budget: str = "60s",
    on_progress: ProbeProgress | None = None,
) -> IoSizeSweep:
    """Issue the spill ``like``, or an external sort of ``data``, with I/Os of each size.

    ``storage`` is a directory, which is measured within ``budget``, or a storage that is known.
    ``min_sizes`` and ``max_sizes`` are ``48K..1M`` (powers of two) or ``48K,240K``, multiples of
    ``block``. ``memory`` is the query's work memory. InputError for invalid sizes, and if no
    setting can be tried.
    """
    block_bytes = parse_block(block)
    settings = settings_of(
        parse_sizes("--min", min_sizes, block_bytes), parse_sizes("--max", max_sizes, block_bytes)
    )
    parsed = parse_budget(budget)
    if not isinstance(storage, Storage):
        path = Path(storage)
        storage = path if can_probe(path) else resolve_storage(str(storage))
    spill: Spill
    if like is None:
        data_bytes = parse_bytes(data or SORT_DATA, "--data")
        spill = SyntheticSpill(
            data_bytes, parse_bytes(memory or SORT_MEMORY, "--memory"), block_bytes
        )
    elif data is None:
        spill = RecordedSpill(like, None if memory is None else parse_bytes(memory, "--memory"))
    else:
        raise OptionConflict(
            "--data is for a synthetic sort: with --like the recording says what was spilled"
        )
    return sweep_io_size(storage, spill, settings, budget=parsed, on_progress=on_progress)
