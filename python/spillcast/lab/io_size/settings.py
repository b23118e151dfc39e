"""Settings of an I/O size: the least and the most bytes of one operation, as people write them."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillcast.errors import InputError, OptionInvalid
from spillcast.units import format_bytes, parse_bytes

#: More settings than these are no table that anyone reads.
SETTINGS_MAX = 200
#: The replay's largest operation.
SIZE_MAX_BYTES = 64 << 20
BLOCK_MIN_BYTES, BLOCK_MAX_BYTES = 512, 1 << 20


@dataclass(frozen=True, order=True)
class Setting:
    """An engine's I/Os have at least ``min_bytes`` where it can, and never more than the other."""

    max_bytes: int
    min_bytes: int

    def clamp(self, size_bytes: int) -> int:
        """The size that an engine takes which would take ``size_bytes``."""
        return max(self.min_bytes, min(size_bytes, self.max_bytes))


def parse_block(text: str) -> int:
    """The block that sizes are multiples of: a power of two. InputError where it is none."""
    size = parse_bytes(text)
    if not BLOCK_MIN_BYTES <= size <= BLOCK_MAX_BYTES or size & (size - 1):
        raise OptionInvalid(
            f"--block {text}: a block is a power of two from 512 bytes to 1 MiB",
            "Oracle's are 8K or 16K, PostgreSQL's 8K",
        )
    return size


def parse_sizes(flag: str, text: str, block_bytes: int) -> list[int]:
    """Sizes from ``48K..1M`` (doubled up to the end, which counts too) or ``48K,240K``, ascending.

    InputError for one that is no multiple of the block.
    """
    first, dots, last = text.partition("..")
    sizes = [
        _size(flag, text, part, block_bytes)
        for part in ([first, last] if dots else text.split(","))
    ]
    if dots:
        at, end = sizes
        if at > end:
            raise OptionInvalid(f"{flag} {text}: the range ends before it begins")
        sizes = [end]
        while at < end:
            sizes.append(at)
            at *= 2
    return sorted(set(sizes))


def _size(flag: str, text: str, part: str, block_bytes: int) -> int:
    try:
        size = parse_bytes(part)
    except InputError as error:
        hint = "write for example 48K..1M, or 48K,240K,1M"
        raise OptionInvalid(f"{flag} {text}: '{part}' is not a size", hint) from error
    if not 0 < size <= SIZE_MAX_BYTES:
        raise OptionInvalid(f"{flag} {text}: an I/O has from one block to 64 MiB")
    if size % block_bytes:
        nearest = max(round(size / block_bytes), 1) * block_bytes
        raise OptionInvalid(
            f"{flag} {text}: {part} is not a multiple of the block, {format_bytes(block_bytes)}",
            f"write {size_text(nearest)}, or give another --block",
        )
    return size


def settings_of(mins: Sequence[int], maxs: Sequence[int]) -> list[Setting]:
    """Every pair whose least size is not above its most. InputError where there is none."""
    settings = sorted(Setting(most, least) for least in mins for most in maxs if least <= most)
    if not settings:
        raise OptionInvalid("every --min is above every --max", "for example --min 48K --max 240K")
    if len(settings) > SETTINGS_MAX:
        message = f"--min and --max make {len(settings)} settings, and {SETTINGS_MAX} are the most"
        raise OptionInvalid(message, "give a range, which doubles: 48K..1M")
    return settings


def size_text(size_bytes: int) -> str:
    """A size as it is written on the command line: ``240K``, ``1M``."""
    for unit, scale in (("M", 1 << 20), ("K", 1 << 10)):
        if size_bytes % scale == 0:
            return f"{size_bytes // scale}{unit}"
    return str(size_bytes)


def setting_text(setting: Setting) -> str:
    """Most and least: ``240K/48K``."""
    return f"{size_text(setting.max_bytes)}/{size_text(setting.min_bytes)}"
