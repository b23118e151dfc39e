"""Limits of a probe: time, and bytes that its files hold at once."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from spillcast.errors import InputError, OptionInvalid
from spillcast.units import parse_bytes, parse_duration_s

_HINT = "write for example 60s, 4G or 60s,4G"


class Limits(TypedDict):
    """A budget as the core takes it. No bytes: all that is free but a reserve."""

    budget_s: float
    budget_bytes: int | None


@dataclass(frozen=True)
class Budget:
    """``bytes`` None is ``free_share`` of what is free on the storage."""

    time_s: float = 60.0
    bytes: int | None = None
    free_share: float = 0.1

    def limits(self, directory: Path) -> Limits:
        """The same for one directory."""
        return {"budget_s": self.time_s, "budget_bytes": self._bytes_in(directory)}

    def _bytes_in(self, directory: Path) -> int | None:
        if self.bytes is not None or self.free_share >= 1:
            return self.bytes
        stats = os.statvfs(directory)
        # A file system without limits says that it has no blocks.
        return int(stats.f_bavail * stats.f_frsize * self.free_share) if stats.f_blocks else None


def all_that_is_free(budget: Budget | None) -> Budget:
    """The same budget without a limit of bytes, unless one was given."""
    return replace(budget or Budget(), free_share=1.0)


#: For a directory that is there for the experiment alone.
OWNED = all_that_is_free(None)


def parse_budget(text: str) -> Budget:
    """A budget from ``60s``, ``4G`` or ``60s,4G``; m are minutes, M and MB are bytes."""
    time_s: float | None = None
    count: int | None = None
    parts = text.split(",")
    if len(parts) > 1 and any(re.fullmatch(r"\s*[\d.]+\s*", part) for part in parts):
        pointed = text.replace(",", ".")
        raise OptionInvalid(f"--budget {text}: a number without a unit", f"{_HINT}; or {pointed}")
    for part in parts:
        if re.fullmatch(r"\s*[\d.]+\s*(?:[KMGTkgt]|[KMGTkmgt]?i?[bB])\s*", part):
            if count is not None:
                raise OptionInvalid(f"--budget {text}: bytes are given twice", _HINT)
            count = parse_bytes(part)
        else:
            if time_s is not None:
                raise OptionInvalid(f"--budget {text}: the time is given twice", _HINT)
            time_s = _time_s(text, part)
    return Budget(bytes=count) if time_s is None else Budget(time_s, count)


def _time_s(text: str, part: str) -> float:
    try:
        return parse_duration_s(part)
    except InputError as error:
        raise OptionInvalid(
            f"--budget {text}: '{part}' is neither time nor bytes", _HINT
        ) from error
