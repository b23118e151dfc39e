"""Writes I/O to try ``spillcast cache`` on: one large scan, and a day of scans among index reads.

    python examples/cache/make_example.py FOLDER

``ckbig.csv`` is the scan of a table of 76.3 GiB in reads of 1 MiB, as a quarter rack of Exadata did
it (Marc Fielding, 2010). ``day.csv`` is made up: an index of 1 GiB whose blocks are wanted more and
less often, a table of 4 GiB scanned four times, and two queries that spill 1 GiB each.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

SCANNED_BYTES = 81_920_516_096
MIB = 1 << 20
GIB = 1 << 30
BLOCK = 8192
INDEX_BLOCKS = GIB // BLOCK
READS = 20_000


def ckbig() -> Iterator[str]:
    """The scan."""
    yield "object,offset,bytes,class"
    for at in range(0, SCANNED_BYTES, MIB):
        yield f"CKBIG,{at},{min(MIB, SCANNED_BYTES - at)},scan"


def day() -> Iterator[str]:
    """Index reads all day; at some hours a scan or a query that spills."""
    draw = random.Random(1)
    yield "time_s,object,offset,bytes,class,query"
    for hour in range(8):
        for _ in range(READS):
            block = int(INDEX_BLOCKS ** draw.random()) - 1
            yield f"{hour * 3600},ORDERS_PK,{block * BLOCK},{BLOCK},read,"
        now_s = hour * 3600 + 1800
        if hour % 2 == 0:
            for at in range(0, 4 * GIB, MIB):
                yield f"{now_s},ORDERS,{at},{MIB},scan,"
        elif hour % 4 == 1:
            for what in ("write", "read"):
                for at in range(0, GIB, MIB):
                    yield f"{now_s},temp,{at},{MIB},temp {what},q{hour}"


def main(folder: str) -> None:
    """Write both files."""
    for name, rows in (("ckbig.csv", ckbig()), ("day.csv", day())):
        Path(folder, name).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
