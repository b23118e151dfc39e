"""A window of a trace: from a time on, up to a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceIncomplete, InputError, OptionInvalid, SelectionEmpty
from spillcast.units import parse_duration_s

_DAY_US = 86_400_000_000
_ENDS_US = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True)
class Window:
    """Selects the waits and calls that end in it.

    Each end is a time as the trace has it, a time of its day, or how long after its first line.
    """

    since: str | None = None
    until: str | None = None


#: All of a trace.
ALWAYS = Window()


def windows_us(
    paths: Sequence[Path], files: Sequence[Mapping[str, Any]], window: Window
) -> list[tuple[int, int]]:
    """The ends for each file on the clock of its ``tim``. InputError where they are no times."""
    sessions = [session for file in files for session in file["sessions"]]
    firsts = [s["first_tim_us"] for s in sessions if s["first_tim_us"] is not None]
    first_us = min(firsts, default=0)
    windows = []
    for path, file in zip(paths, files, strict=True):
        more_us = file["local_less_tim_us"]
        pair = (("since", window.since), ("until", window.until))
        low, high = (_tim_us(option, text, path, first_us, more_us) for option, text in pair)
        windows.append((_ENDS_US[0] if low is None else low, _ENDS_US[1] if high is None else high))
    return windows


def nothing_inside(window: Window) -> InputError:
    """The error where no line lies in it."""
    ends = [f"--since {window.since}"] * (window.since is not None)
    ends += [f"--until {window.until}"] * (window.until is not None)
    return SelectionEmpty(
        f"no wait and no call of the traces ends there: {' '.join(ends)}",
        "without these, --by second shows when they are",
    )


def _tim_us(
    option: str, text: str | None, path: Path, first_us: int, more_us: int | None
) -> int | None:
    """One end; ``more_us`` is the time of the day less ``tim``."""
    # With Arrow, which a trace without a window does without.
    from spillcast.evidence.oracle.ash import values

    if text is None:
        return None
    if ":" not in text and "-" not in text.strip():
        return first_us + round(parse_duration_s(text, f"--{option}") * 1e6)
    if more_us is None:
        raise EvidenceIncomplete(
            f"{path}: no line of it has a date and time",
            f"give the time since its first line: --{option} 30s",
        )
    time_ns = values.parse_time_ns(text)
    if time_ns is not None:
        return time_ns // 1000 - more_us
    of_day_ns = values.parse_time_ns(f"1970-01-01 {text}")
    if of_day_ns is None:
        raise OptionInvalid(
            f"--{option} '{text}' is not a time",
            "write for example 20:30, 2024-09-03 20:30:05 or 30s",
        )
    day_us = (first_us + more_us) // _DAY_US * _DAY_US
    return day_us + of_day_ns // 1000 - more_us
