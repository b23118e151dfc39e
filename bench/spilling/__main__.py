"""The sort and the join as a program: ``python -m bench.spilling sort DIR``."""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from bench.spilling.join import hash_join
from bench.spilling.sort import external_sort
from spillcast.errors import SpillcastError
from spillcast.units import parse_bytes


def main() -> None:
    """Runs one; prints its reads, writes and elapsed time as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("sort", "join"))
    parser.add_argument("directory", type=Path, help="where it spills to")
    parser.add_argument("--data", type=parse_bytes, default="64M", help="of a join: the build side")
    parser.add_argument("--probe", type=parse_bytes, help="of a join (default: as the build side)")
    parser.add_argument("--memory", type=parse_bytes, default="1M")
    parser.add_argument("--unit", type=parse_bytes, default="48K", help="bytes of one I/O")
    requested = parser.parse_args()
    began = time.monotonic()
    sizes = {"memory_bytes": requested.memory, "unit_bytes": requested.unit}
    try:
        if requested.kind == "sort":
            counts = external_sort(requested.directory, data_bytes=requested.data, **sizes)
        else:
            probe = requested.probe or requested.data
            counts, _ = hash_join(
                requested.directory, build_bytes=requested.data, probe_bytes=probe, **sizes
            )
    except (SpillcastError, OSError) as error:
        print(f"spilling: {error}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps({**asdict(counts), "elapsed_s": time.monotonic() - began}))


if __name__ == "__main__":
    main()
