"""The sizes of work memory of a sweep: which there are, and which to measure next."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import log2

from spillcast.engines.registry import engine_of, work_memory_of
from spillcast.errors import OptionInvalid
from spillcast.units import format_bytes, parse_bytes

#: Sizes are whole KiB, as engines take them.
UNIT_BYTES = 1 << 10
POINTS_MAX = 64


def memory_sizes(engine: str, text: str | None, points: int | None = None) -> list[int]:
    """Sizes (bytes) of a range such as ``1M..256M``: powers of two of the least, or so many.

    InputError where it is no range, or one that the engine refuses.
    """
    setting = work_memory_of(engine)
    text = text or setting.default_range
    first, dots, last = text.partition("..")
    if not dots:
        raise OptionInvalid(f"--memory {text}: not a range", "write for example 1M..256M")
    least, most = (parse_bytes(end, f"--memory {text}") for end in (first, last))
    if not 0 < least < most:
        raise OptionInvalid(
            f"--memory {text}: it must go from less to more", "for example 1M..256M"
        )
    low, high = setting.bounds_bytes or (least, most)
    if not low <= least < most <= high:
        whose = f"{engine_of(engine).label}'s {setting.name}"
        message = f"--memory {text}: {whose} goes from {low >> 10}K to {high >> 30}G"
        raise OptionInvalid(message, f"for example --memory {setting.default_range}")
    if points is None:
        doublings = int(log2(most / least) + 1e-9)
        sizes = {least << number for number in range(doublings + 1)} | {most}
    else:
        step = (most / least) ** (1 / (points - 1))
        sizes = {round(least * step**number) for number in range(points)}
    whole = sorted({max(size // UNIT_BYTES, 1) * UNIT_BYTES for size in sizes})
    if not 2 <= len(whole) <= POINTS_MAX:
        message = f"--memory {text}: {len(whole)} sizes from {format_bytes(least)} on"
        raise OptionInvalid(message, f"2 to {POINTS_MAX} can be swept: name a range that has them")
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
        candidate = (abs(elapsed_s[low] - elapsed_s[high]), log2(end / low), middle)
        best = max(best, candidate) if best else candidate
    return None if best is None else best[2]
