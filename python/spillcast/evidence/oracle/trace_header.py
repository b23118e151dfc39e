"""The header of a trace, plain or compressed: all before its first wait."""

import re
from pathlib import Path

import pyarrow as pa

HEAD_BYTES = 64 << 10
_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
#: As a dump of parameters has it, which a trace may begin with.
_BLOCK_SIZE = re.compile(rb"\bdb_block_size\s*+(?:[=:]\s*+)?\"?(\d{4,5})\b")


def head_of(path: Path) -> bytes:
    """The beginning of a trace, decompressed as far as it can be. OSError where there is none."""
    with path.open("rb") as file:
        codec = _CODECS.get(file.read(2))
        file.seek(0)
        # By its name Arrow opens no file whose name is not UTF-8.
        try:
            with pa.input_stream(file, compression=codec) as stream:
                return bytes(stream.read(HEAD_BYTES))
        except (OSError, pa.ArrowInvalid):
            return b""


def block_bytes_of(path: Path) -> int | None:
    """The size of a database block, if the header contains the parameter."""
    if not path.is_file():
        return None
    match = _BLOCK_SIZE.search(head_of(path))
    return None if match is None else int(match[1])
