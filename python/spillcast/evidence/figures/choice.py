"""Which run of a report is meant, and how large its blocks are."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from spillcast.errors import InputError
from spillcast.tabular import aligned
from spillcast.units import format_duration, parse_bytes

BLOCK_BYTES = 8192
LISTED = 8
Run = TypeVar("Run")


@dataclass(frozen=True)
class Choice:
    """A statement and an execution, and the size of a block, where they are said."""

    sql_id: str | None = None
    exec_id: int | None = None
    block: str | None = None

    @property
    def block_bytes(self) -> int:
        """The size of a block, by default 8 KiB."""
        return BLOCK_BYTES if self.block is None else parse_bytes(self.block, "--block")


def chosen(
    path: Path, runs: Mapping[str, Run], wanted: object, option: str, elapsed_s: Mapping[str, float]
) -> Run:
    """The run that is ``wanted``, or the only one. InputError lists them by time otherwise."""
    if wanted is not None:
        if str(wanted) not in runs:
            names = ", ".join(list(runs)[:LISTED]) or "none"
            raise InputError(f"{path}: no run has {option[2:]} {wanted}", f"there are: {names}")
        return runs[str(wanted)]
    if len(runs) == 1:
        return next(iter(runs.values()))
    longest = sorted(runs, key=lambda run: elapsed_s[run], reverse=True)
    rows = [(name, format_duration(elapsed_s[name])) for name in longest[:LISTED]]
    lines = aligned([(option[2:], "elapsed"), *rows])
    lines += [f"and {len(runs) - LISTED:,} more"] * (len(runs) > LISTED)
    summary = f"{path}: {len(runs):,} runs, the longest first:"
    raise InputError("\n    ".join([summary, *lines]), f"name one with {option}")
