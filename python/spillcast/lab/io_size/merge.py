"""How an external sort merges: fan-in, levels, and the I/O unit that suits them."""

from spillcast.errors import OptionInvalid
from spillcast.lab.io_size.settings import Setting
from spillcast.units import format_bytes


def fan_in(memory_bytes: int, unit_bytes: int) -> int:
    """Runs that are merged at once: a buffer of one unit for each of them and one for the output.

    InputError where that is less than two: such a sort would never end.
    """
    runs = memory_bytes // unit_bytes - 1
    if runs < 2:
        memory, unit = format_bytes(memory_bytes), format_bytes(unit_bytes)
        raise OptionInvalid(
            f"{memory} of memory do not hold three buffers of {unit}, which a merge needs",
            "give more --memory or smaller sizes",
        )
    return runs


def levels(data_bytes: int, memory_bytes: int, unit_bytes: int) -> int:
    """Times that all of the data is written and read back: ceil(log_F(S/M)); 0 where it fits."""
    at_once, runs, count = fan_in(memory_bytes, unit_bytes), -(-data_bytes // memory_bytes), 0
    while runs > 1:
        runs, count = -(-runs // at_once), count + 1
    return count


def unit_within(setting: Setting, data_bytes: int, memory_bytes: int, block_bytes: int) -> int:
    """The largest unit of a setting that costs no level more than its least does.

    That is what the room between least and most is for: an engine gives each run as large a buffer
    as its memory allows.
    """
    fewest = levels(data_bytes, memory_bytes, setting.min_bytes)
    runs, needed = -(-data_bytes // memory_bytes), 2
    while needed**fewest < runs:
        needed += 1
    largest = memory_bytes // (needed + 1) // block_bytes * block_bytes
    return setting.clamp(largest)
