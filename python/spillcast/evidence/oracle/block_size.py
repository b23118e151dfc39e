"""The block size of an Oracle database: given, collected, in a trace, or assumed."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceMixed, InputError, OptionInvalid
from spillcast.evidence.oracle.ash.values import parse_integer
from spillcast.evidence.oracle.spooled import read_spooled
from spillcast.evidence.text import opened
from spillcast.units import format_bytes, parse_bytes

#: Numbers of blocks have 32 bits: with more a line is damaged.
BLOCKS_MAX = (1 << 32) - 1
#: Sizes that Oracle knows.
_SIZES = tuple(1 << power for power in range(11, 16))
_PARAMETER = "db_block_size"
#: The header of a trace is all before its first wait.
_HEADER_BYTES = 64 << 10
#: As a dump of parameters has it, which a trace may begin with.
_BLOCK_SIZE = re.compile(rb"\bdb_block_size\s*+(?:[=:]\s*+)?\"?(\d{4,5})\b")


@dataclass(frozen=True)
class BlockSize:
    """Bytes of a block, and their source; None if unknown."""

    bytes: int
    known_from: str | None = None


#: Oracle's default, which few databases change.
ASSUMED_BLOCK = BlockSize(8192)


def parse_block(text: str) -> int:
    """Bytes from ``16K``. InputError for a size that no block has."""
    size = parse_bytes(text, "--block")
    if size not in _SIZES:
        known = ", ".join(f"{size >> 10}K" for size in _SIZES)
        raise OptionInvalid(f"--block {text}: not a block size", f"choose one of {known}")
    return size


def block_size(
    option: str | None = None, parameters: Sequence[Path] = (), traces: Sequence[Path] = ()
) -> BlockSize:
    """The given size, else that of spooled parameters, else that of the first header with one.

    InputError for a size that no block has, or where parameters of several databases are given.
    """
    if option is not None:
        return BlockSize(parse_block(option), "--block")
    sizes = {
        size: path
        for path in parameters
        if (size := _possible(bytes_of(read_parameters(path), _PARAMETER)))
    }
    if len(sizes) > 1:
        sizes_text = " and ".join(f"{format_bytes(size)} in {path}" for size, path in sizes.items())
        raise EvidenceMixed(f"{_PARAMETER} is {sizes_text}", "give the parameters of one database")
    for size, path in sizes.items():
        return BlockSize(size, path.name)
    for path in traces:
        match = _BLOCK_SIZE.search(header_of(path)) if path.is_file() else None
        if match is not None and (size := _possible(int(match[1]))):
            return BlockSize(size, f"the header of {path.name}")
    return ASSUMED_BLOCK


def header_of(path: Path) -> bytes:
    """The beginning of a trace, plain or packed; nothing of one that cannot be unpacked."""
    with suppress(InputError), opened(path) as file:
        return file.read(_HEADER_BYTES)
    return b""


def _possible(size: int | None) -> int:
    return size if size in _SIZES else 0


def read_parameters(path: Path) -> dict[str, str]:
    """Values as text by name; empty where the file has no such columns."""
    columns = read_spooled(path, {"name": "name", "value": "value"}).columns
    names, values = columns.get("name", []), columns.get("value", [])
    pairs = zip(names, values, strict=False)
    return {name: value for name, value in pairs if name is not None and value is not None}


def bytes_of(parameters: dict[str, str], name: str) -> int | None:
    """A valid size among them; None if there is none."""
    return parse_integer(parameters.get(name, ""))
