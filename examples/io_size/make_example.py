"""Writes array.json, a made-up disk array with a write cache, for docs/guides/io-size.md."""

import json
import sys
from pathlib import Path

READ_S, WRITE_S, BYTES_PER_S = 0.0015, 0.0004, 200e6
CACHE_BYTES, LEAVES_BYTES_PER_S = 256 << 20, 150e6


def group(op, base_s, size):
    """An operation of one size: so long for itself, and so long for its bytes."""
    ns = round(1e9 * (base_s + size / BYTES_PER_S))
    return {
        "op": op, "size_class_bytes": size, "depth": 1, "count": 1, "bytes": size, "total_ns": ns,
        "latency_ns": [ns], "latency_count": [1], "block_count": [1], "block_mean_ns": [ns],
    }  # fmt: skip


def main():
    """Write it into the directory that is named."""
    ops = (("read", READ_S), ("write", WRITE_S))
    ns_per_byte = 1e9 / LEAVES_BYTES_PER_S
    document = {
        "schema": "spillcast.storage/1",
        "name": "array",
        "source": "asked",
        "groups": [group(op, base_s, size) for op, base_s in ops for size in (8192, 4 << 20)],
        "limits": [
            {
                "name": "write cache",
                "write_ns_per_byte": ns_per_byte,
                "burst_ns": CACHE_BYTES * ns_per_byte,
            }
        ],
        "servers": None,
        "facts": {},
    }
    Path(sys.argv[1], "array.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
