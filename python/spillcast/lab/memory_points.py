"""The sizes of work memory of a sweep: which there are, and which to measure next."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import log2

from spillcast.errors import InputError
from spillcast.lab.engine import EngineName
from spillcast.units import format_bytes, parse_bytes

#: From far too little to enough for the lab's queries.
DEFAULT_RANGE: dict[EngineName, str] = {"duckdb": "32M..512M", "postgres": "256K..32M"}
#: What PostgreSQL takes as work_mem; DuckDB says itself what is too little.
POSTGRES_MIN_BYTES, POSTGRES_MAX_BYTES = 64 << 10, ((1 << 31) - 1) << 10
#: Sizes are whole KiB, as both engines take them.
UNIT_BYTES = 1 << 10
POINTS_MAX = 64


def memory_sizes(engine: EngineName, text: str | None, points: int | None = None) -> list[int]:
    """Sizes (bytes) of a range such as ``1M..256M``: powers of two of the least, or so many.

    InputError where it is no range, or one that the engine refuses.
    """
    text = text or DEFAULT_RANGE[engine]
    first, dots, last = text.partition("..")
    if not dots:
        raise InputError(f"--memory {text}: not a range", "write for example 1M..256M")
    least, most = parse_bytes(first), parse_bytes(last)
    if not 0 < least < most:
        raise InputError(f"--memory {text}: it must go from less to more", "for example 1M..256M")
    if engine == "postgres" and not POSTGRES_MIN_BYTES <= least < most <= POSTGRES_MAX_BYTES:
        message = f"--memory {text}: PostgreSQL's work_mem goes from 64K to 2047G"
        raise InputError(message, "for example --memory 64K..64M")
    if points is None:
        doublings = int(log2(most / least) + 1e-9)
        sizes = {least << number for number in range(doublings + 1)} | {most}
    else:
        step = (most / least) ** (1 / (points - 1))
        sizes = {round(least * step**number) for number in range(points)}
    whole = sorted({max(size // UNIT_BYTES, 1) * UNIT_BYTES for size in sizes})
    if not 2 <= len(whole) <= POINTS_MAX:
        message = f"--memory {text}: {len(whole)} sizes from {format_bytes(least)} on"
        raise InputError(message, f"2 to {POINTS_MAX} can be swept: name a range that has them")
    return whole


def next_size(
    sizes: Sequence[int],
    elapsed_s: dict[int, float],
    fits: Collection[int],
    enough_bytes: int | None,
) -> int | None:
    """The size to measure next: in the middle of the neighbours whose times are furthest apart.

    ``elapsed_s`` holds the measured sizes, ``fits`` those that spilled nothing. What nothing is
    spilled with needs no measuring. None where nothing is left.
    """
    measured = sorted(elapsed_s)
    enough = min([*fits, *([enough_bytes] if enough_bytes is not None else [])], default=None)
    best: tuple[float, float, int] | None = None
    for low, high in pairwise(measured):
        end = high if enough is None else min(high, max(enough, low))
        inside = [size for size in sizes if low < size < end]
        if not inside:
            continue
        middle = min(inside, key=lambda size: abs(log2(size) - (log2(low) + log2(end)) / 2))
        found = (abs(elapsed_s[low] - elapsed_s[high]), log2(end / low), middle)
        best = max(best, found) if best else found
    return None if best is None else best[2]
