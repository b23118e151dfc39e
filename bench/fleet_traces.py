"""A fleet of synthetic traces, reproducible by seed: many databases, days and statements.

``python -m bench.fleet_traces DIR --gigabytes 1 --files 250 --databases 40 --seed 1``
"""

import argparse
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

#: Bodies are generated once and reused under other headers, so that the disk is the limit.
BODIES = 12
DAYS = 14
FIRST_DAY = datetime(2026, 3, 2)
#: Placeholders in a body, where each file has its own statements.
MARKS = (b"aaaaaaaaaaaaa", b"bbbbbbbbbbbbb", b"ccccccccccccc")
CURSORS = (140_691_456_823_824, 140_691_456_823_976, 140_691_456_824_128)
_ALPHABET = "0123456789cdefghjkmnpqrstuvwxyz"

_HEADER = """\
Trace file /u01/app/oracle/diag/rdbms/{name}/{name}/trace/{name}_ora_{pid}.trc
Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production
Version 19.3.0.0.0
System name:\tLinux
Node name:\tdb{host:02}.example.com
Instance name: {name}
Unix process pid: {pid}, image: oracle@db{host:02}

*** {at}+00:00
*** SESSION ID:({sid}.{pid}) {at}+00:00

"""


def make_fleet(
    folder: Path, files: int, total_bytes: int, databases: int = 40, seed: int = 1
) -> Iterator[Path]:
    """Writes the traces one after another, ``folder/DATABASE/*.trc``."""
    each = total_bytes // files
    bodies = [_body(random.Random(seed * 1_000 + n), each) for n in range(BODIES)]
    draw = random.Random(seed)
    for number in range(files):
        database = number % databases
        name = f"erp{database:02}"
        at = FIRST_DAY + timedelta(days=draw.randrange(DAYS), seconds=draw.randrange(80_000))
        header = _HEADER.format(
            name=name, pid=10_000 + number, host=database, sid=draw.randrange(2_000), at=_iso(at)
        )
        body = bodies[draw.randrange(BODIES)]
        for mark, statement in zip(MARKS, _statements(draw, database), strict=True):
            body = body.replace(mark, statement)
        path = folder / name / f"{name}_ora_{10_000 + number}.trc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(header.encode() + body)
        yield path


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")


def _statements(draw: random.Random, database: int) -> list[bytes]:
    """Three of the twenty statements of a database; the first ones are more frequent."""
    picked = [min(int(draw.expovariate(0.25)), 19) for _ in MARKS]
    ids = [random.Random(database * 100 + number) for number in picked]
    return ["".join(item.choice(_ALPHABET) for _ in range(13)).encode() for item in ids]


def _body(draw: random.Random, size: int) -> bytes:
    """Three statements that sort or join in temp, with some CPU and other waits."""
    tim = 25_786_537_823_120
    lines, written, turn = [], 0, 0
    while written < size:
        which = turn // 400 % len(CURSORS)
        cursor = CURSORS[which]
        if turn // 400 < len(CURSORS) and turn % 400 == 0:
            mark = MARKS[which].decode()
            line = (
                "=====================\n"
                f"PARSING IN CURSOR #{cursor} len=20 dep=0 uid=90 oct=3 lid=90 tim={tim} "
                f"hv=1 ad='0' sqlid='{mark}'\nselect * from orders\nEND OF STMT"
            )
        else:
            us = 50 + draw.randrange(200) * draw.randrange(100)
            tim += us + draw.randrange(500)
            line = _line(draw, cursor, us, tim)
        lines.append(line)
        written += len(line) + 1
        turn += 1
    return ("\n".join(lines) + "\n").encode()


def _line(draw: random.Random, cursor: int, us: int, tim: int) -> str:
    kind = draw.randrange(100)
    if kind >= 98:
        return (
            f"FETCH #{cursor}:c={us // 3},e={us},p=31,cr=4,cu=0,mis=0,r=10,dep=0,og=1,"
            f"plh=1636480816,tim={tim}"
        )
    if kind < 60:
        event, more = "direct path read temp", "block cnt=31"
    elif kind < 75:
        event, more = "direct path write temp", "block cnt=31"
    elif kind < 90:
        event, more = "db file scattered read", "blocks=64"
    else:
        event, more = "SQL*Net message from client", "p3=0"
    place = f"file number={201 + draw.randrange(12)} first dba={draw.randrange(4_000_000)} {more}"
    if kind >= 90:
        place = f"driver id=1413697536 #bytes=1 {more}"
    elif kind >= 75:
        place = f"file#={draw.randrange(200)} block#={draw.randrange(4_000_000)} {more}"
    return f"WAIT #{cursor}: nam='{event}' ela= {us} {place} obj#=99574 tim={tim}"


def main() -> None:
    """Writes a fleet and prints its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--files", type=int, default=250)
    parser.add_argument("--databases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    requested = parser.parse_args()
    made = make_fleet(
        requested.folder,
        requested.files,
        int(requested.gigabytes * 1e9),
        requested.databases,
        requested.seed,
    )
    total = sum(path.stat().st_size for path in made)
    print(f"{requested.files} traces, {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
