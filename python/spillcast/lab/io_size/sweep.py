"""The sweep: every setting of a spill on one storage, and the best of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.engines.registry import engines
from spillcast.errors import InputError, OptionConflict
from spillcast.lab.io_size.spill import RecordedSpill, Spill, SyntheticSpill
from spillcast.lab.io_size.synthetic_sort import (
    Setting,
    Sort,
    parse_block,
    parse_sizes,
    setting_text,
    settings_of,
)
from spillcast.lab.io_size.trials import Progress, Trial, Trials, measured, modelled
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.budget import Budget, parse_budget
from spillcast.storage.target import is_place, resolve_storage
from spillcast.tabular import Column, Display, Tabular
from spillcast.units import parse_bytes

if TYPE_CHECKING:
    from spillcast.tables import Table


SWEEP_SCHEMA = "spillcast.sweep/1"
CONFIDENCE = 0.9
#: An interval of this share of the best time tells little.
WIDE = 0.5


@dataclass(frozen=True)
class Row:
    """A setting and what the spill takes with it."""

    setting: Setting
    trial: Trial
    #: Times that all data is written and read back; None where that is not known.
    levels: int | None
    #: Rows of one number make the same I/O.
    io: int

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        bounds = self.trial.interval_s
        return {
            "min_bytes": self.setting.min_bytes,
            "max_bytes": self.setting.max_bytes,
            "reads": self.trial.reads.to_json(),
            "writes": self.trial.writes.to_json(),
            "levels": self.levels,
            "total_s": self.trial.total_s,
            "interval_s": None if bounds is None else list(bounds),
            "io": self.io,
        }


@dataclass(frozen=True)
class Advice:
    """What to know of an engine's I/Os, and statements for the best, if there are any."""

    engine: str
    text: str
    statements: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        return {"engine": self.engine, "text": self.text, "statements": list(self.statements)}


@dataclass(frozen=True, repr=False)
class Sweep(Tabular):
    """All rows, by maximum and minimum size; ``recorded`` is the spill as recorded."""

    storage: str
    like: str
    #: Whether it was measured on a directory, and not computed from a model.
    is_measured: bool
    rows: Sequence[Row]
    recorded: Row | None
    warnings: Sequence[dict[str, str]]

    @property
    def best(self) -> Row:
        """The row with the shortest time; of equal ones that with the smallest sizes."""
        return min(self.rows, key=lambda row: (row.trial.total_s, row.setting))

    def as_good(self) -> list[Row]:
        """The other rows whose interval overlaps that of the best."""
        best = self.best
        return [row for row in self.rows if row is not best and _meet(row.trial, best.trial)]

    def advice(self) -> "list[Advice]":
        """Advice on settings, by engine."""
        best = self.best.setting
        return [
            Advice(engine.name, *engine.io_size(best.min_bytes, best.max_bytes))
            for engine in engines()
            if engine.io_size is not None
        ]

    def to_arrow(self) -> "Table":
        """A row per setting: min_bytes, max_bytes, total_s and its interval, low_s and high_s."""
        from spillcast.columns import fields_of
        from spillcast.tables import Table

        names = ("min_bytes", "max_bytes", "total_s", "low_s", "high_s")
        types = dict(zip(names, ("int64", "int64", *["float64"] * 3), strict=True))
        rows = [dict(zip(names, _flat(row), strict=True)) for row in self.rows]
        return Table.from_rows(rows, fields_of(types))

    def display(self) -> Display:
        """The best setting, and all of them."""
        best = f"best on {self.storage}: {setting_text(self.best.setting)}"
        columns = Column("max/min I/O", None), Column("time", None, "s")
        rows = [[setting_text(row.setting), row.trial.total_s] for row in self.rows]
        return Display(best, columns, rows)

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        best = self.best
        return {
            "schema": SWEEP_SCHEMA,
            "kind": "io-size",
            "storage": self.storage,
            "like": self.like,
            "measured": self.is_measured,
            "confidence": CONFIDENCE,
            "rows": [row.to_json() for row in self.rows],
            "recorded": None if self.recorded is None else self.recorded.to_json(),
            "best": {
                key: value
                for key, value in best.to_json().items()
                if key in ("min_bytes", "max_bytes", "total_s", "interval_s")
            },
            "as_good": [
                {"min_bytes": row.setting.min_bytes, "max_bytes": row.setting.max_bytes}
                for row in self.as_good()
            ],
            "advice": [advice.to_json() for advice in self.advice()],
            "warnings": list(self.warnings),
        }


def sweep_io_size(
    where: Storage | Path,
    spill: Spill,
    settings: Sequence[Setting],
    *,
    budget: Budget | None = None,
    on_progress: Progress | None = None,
) -> Sweep:
    """Issue ``spill`` with each setting on a directory, or take it through a storage's model.

    Settings that make the same I/O are tried once. InputError where no setting can be tried.
    """
    possible, warnings = _possible(spill, settings)
    warnings += spill.warnings()
    tried = possible if spill.recorded is None else [*possible, spill.recorded]
    sizes = list(dict.fromkeys(spill.sizes(setting) for setting in tried))
    first = {spill.sizes(setting): setting for setting in reversed(tried)}
    plans = [spill.steps(first[of]) for of in sizes]
    trials: Trials
    if isinstance(where, Storage):
        name, trials = where.name, modelled(where, plans)
    else:
        name = str(where)
        trials = measured(
            where, plans, spill.like, budget=budget or Budget(), on_progress=on_progress
        )

    def row(setting: Setting) -> Row:
        io = sizes.index(spill.sizes(setting))
        return Row(setting, trials.of[io].times(spill.factor(setting)), spill.levels(setting), io)

    rows = [row(setting) for setting in possible]
    recorded = None if spill.recorded is None else row(spill.recorded)
    is_measured = not isinstance(where, Storage)
    sweep = Sweep(name, spill.name, is_measured, rows, recorded, [*warnings, *trials.warnings])
    return replace(sweep, warnings=[*sweep.warnings, *_noise(sweep)])


def _possible(
    spill: Spill, settings: Sequence[Setting]
) -> tuple[list[Setting], list[dict[str, str]]]:
    """The settings with which two runs or partitions can be merged or made, and a warning."""
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
    return possible, [{"code": "no_fan_in", "message": message}]


def _noise(sweep: Sweep) -> list[dict[str, str]]:
    """A warning if the interval of the best is too wide to distinguish sizes."""
    trial = sweep.best.trial
    low_s, high_s = trial.interval_s or (trial.total_s, trial.total_s)
    if high_s - low_s <= WIDE * trial.total_s:
        return []
    if sweep.is_measured:
        message = (
            "the rounds differed too much to tell the settings apart: a quieter machine or "
            "a larger --budget narrows the intervals"
        )
    else:
        message = (
            "the storage's figures are too uncertain at these sizes to tell the settings apart: "
            "probe "
            "it again, for longer or on a quieter machine"
        )
    return [{"code": "noise", "message": message}]


def _flat(row: Row) -> tuple[float | None, ...]:
    low_s, high_s = row.trial.interval_s or (None, None)
    return row.setting.min_bytes, row.setting.max_bytes, row.trial.total_s, low_s, high_s


def _meet(trial: Trial, other: Trial) -> bool:
    if trial.interval_s is None or other.interval_s is None:
        return False
    return trial.interval_s[0] <= other.interval_s[1] and other.interval_s[0] <= trial.interval_s[1]


#: Minimum and maximum sizes of I/Os, the block that they are multiples of, and the time it takes.
MIN_SIZES, MAX_SIZES, BLOCK, BUDGET = "48K..1M", "48K..4M", "8K", "60s"
#: The spill that is made up where none is given.
DATA, MEMORY = "1G", "32M"


def sweep(
    storage: Storage | str | Path,
    like: Recording | None = None,
    *,
    min_sizes: str = MIN_SIZES,
    max_sizes: str = MAX_SIZES,
    block: str = BLOCK,
    data: str | None = None,
    memory: str | None = None,
    budget: str = BUDGET,
    on_progress: Progress | None = None,
) -> Sweep:
    """Issue the spill ``like``, or an external sort of ``data``, with I/Os of each size.

    ``storage`` is a directory, which is measured within ``budget``, or a storage that is known.
    ``min_sizes`` and ``max_sizes`` are ``48K..1M`` (powers of two) or ``48K,240K``, multiples of
    ``block``. ``memory`` is the query's work memory. InputError for sizes that cannot be, and where
    no setting can be tried.
    """
    block_bytes = parse_block(block)
    settings = settings_of(
        parse_sizes("--min", min_sizes, block_bytes), parse_sizes("--max", max_sizes, block_bytes)
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
        return SyntheticSpill(sort, block)
    if data is not None:
        raise OptionConflict(
            "--data is for a synthetic sort: with --like the recording says what was spilled"
        )
    return RecordedSpill(like, None if memory is None else parse_bytes(memory, "--memory"))
