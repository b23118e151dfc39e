"""Writes ash.csv, hdd.trc and flash.trc: a query that spills, before and after temp is on flash.

    python examples/oracle/make_example.py DIRECTORY

The figures are those of a published case: 773 s, of which ASH saw 418 in reads and 12 in writes of
temp; temp reads of 31 blocks take 8,999 us on disk, and of 15 blocks 150 us on flash. Everything
else is made up, and the same on every run. The traces hold one wait in 16 and one in 32 of the
case's.
"""

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

SQL_ID = "4q7zf0d2m8kcx"
SESSION = "1187,20931"
BEGAN = datetime(2024, 9, 3, 20, 26, 2, 412_000)
READ = "direct path read temp"


@dataclass(frozen=True)
class Event:
    """An event of the case: how often, how long, and its parameters with ``{n}`` for a number."""

    name: str
    count: int
    mean_us: int
    parameters: str


def _read(blocks: int) -> str:
    return f"file number=2{{n:02d}} first dba={{dba}} block cnt={blocks}"


POLL = "count=1 where=5 timeout={n}"
SCAN = "cellhash#=2133459483 p2=0 p3=0"
PGA = "p1=65536 p2=1 p3=0"

HDD = (
    Event(READ, 12_764, 8_999, _read(31)),
    Event("direct path write temp", 3_087, 276, _read(31)),
    Event("ASM IO for non-blocking poll", 50_300, 25, POLL),
    Event("cell smart table scan", 4_196, 351, SCAN),
    Event("PGA memory operation", 9, 14, PGA),
    Event("enq: KO - fast object checkpoint", 2, 380, "name|mode=1263468550 2=65571 0=1"),
    Event("KSV master wait", 2, 73_920, "p1=0 p2=0 p3=0"),
    Event("oracle thread bootstrap", 1, 44_216, "p1=0 p2=0 p3=0"),
    Event("reliable message", 1, 3_025, "channel context=1 channel handle=2 broadcast message=3"),
    Event("ASM file metadata operation", 1, 70, "msgop=33 locn=0 p3=0"),
)
FLASH = (
    Event(READ, 23_647, 150, _read(15)),
    Event("local write wait", 11_547, 416, "file#=2{n:02d} block#={dba} p3=0"),
    Event("ASM IO for non-blocking poll", 98_201, 18, POLL),
    Event("cell smart table scan", 1_126, 1_009, SCAN),
    Event("PGA memory operation", 1, 101, PGA),
    Event("latch: cache buffers chains", 1, 2, "address=7340032 number=293 tries=0"),
)

HEADER = """\
Trace file /u01/app/oracle/diag/rdbms/demo/DEMO1/trace/DEMO1_ora_{pid}.trc
Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production
Version 19.12.0.0.0
Instance name: DEMO1
Unix process pid: {pid}, image: oracle@demo01


*** {began:%Y-%m-%dT%H:%M:%S.%f}+02:00 (SALES(3))
*** SESSION ID:({session}) {began:%Y-%m-%dT%H:%M:%S.%f}+02:00
*** SERVICE NAME:(sales) {began:%Y-%m-%dT%H:%M:%S.%f}+02:00
*** MODULE NAME:(SQL*Plus) {began:%Y-%m-%dT%H:%M:%S.%f}+02:00

=====================
PARSING IN CURSOR #{cursor} len={length} dep=0 uid=131 oct=3 lid=131 tim={tim} hv=2770612669 \
ad='9b3f20e8' sqlid='{sql_id}'
{sql}
END OF STMT
"""
SQL = "select max(o.booked_on) from orders o join orders p on p.order_id = o.order_id"


def main(directory: Path) -> None:
    """Write the three files."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(773)
    (directory / "ash.csv").write_text(ash_text(rng))
    (directory / "hdd.trc").write_text(trace_text(rng, HDD, 16, BEGAN, 41_207, 31_000_000_000_000))
    later = BEGAN + timedelta(hours=1)
    (directory / "flash.trc").write_text(
        trace_text(rng, FLASH, 32, later, 43_870, 31_003_600_000_000)
    )


def ash_text(rng: np.random.Generator) -> str:
    """773 rows as SQL*Plus writes them, a second apart; a scan and build, then the probe."""
    rows = [("ASM IO for non-blocking poll", us) for us in (4, 13, 19, 19, 20)]
    rows += [("direct path write temp", us) for us in waited(rng, 12, 446, 187, 656, 0.4)]
    rows += [("", 0)] * 338
    rows += [(READ, us) for us in waited(rng, 418, 19_305, 2_595, 415_850, 0.9)]
    build = {"": 0.2, "direct path write temp": 0.1, READ: 0.6}
    places = [build.get(event, 0.3) + rng.random() for event, _ in rows]
    lines = ["", ",".join(f'"{name}"' for name in ASH_HEADING)]
    sid, serial = SESSION.split(",")
    for second, row in enumerate(np.argsort(places)):
        event, us = rows[row]
        time = BEGAN + timedelta(seconds=second)
        state, blocks = ("WAITING", 31) if event else ("ON CPU", 0)
        stamp = f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}"
        line = f'"{stamp}",1,{sid},{serial},"{SQL_ID}",16777216,3,"{state}","{event}"'
        lines.append(f"{line},{blocks},{us},")
    return "\n".join([*lines, "", f"{len(rows)} rows selected.", ""])


ASH_HEADING = (
    *("SAMPLE_TIME", "INST_ID", "SESSION_ID", "SESSION_SERIAL#", "SQL_ID", "SQL_EXEC_ID"),
    *("SQL_PLAN_LINE_ID", "SESSION_STATE", "EVENT", "P3", "TIME_WAITED", "QC_SESSION_ID"),
)


def waited(
    rng: np.random.Generator, count: int, mean_us: int, least_us: int, most_us: int, sigma: float
) -> list[int]:
    """Lengths of sampled waits with this mean, shortest and longest: log-normal between."""
    total = mean_us * count - least_us - most_us
    drawn = rng.lognormal(0, sigma, count - 2)
    for _ in range(50):
        drawn = np.clip(drawn * total / drawn.sum(), least_us, most_us)
    return [least_us, most_us, *exactly(drawn, total)]


def exactly(drawn: np.ndarray, total: int) -> list[int]:
    """Whole numbers near ``drawn``, with this sum."""
    whole = np.floor(drawn).astype(int)
    each, rest = divmod(total - int(whole.sum()), len(whole))
    whole += each
    # The shortest take what is left over, so that no wait becomes longer than the longest.
    whole[np.argsort(whole)[:rest]] += 1
    return [int(us) for us in whole]


def trace_text(
    rng: np.random.Generator,
    events: tuple[Event, ...],
    one_in: int,
    began: datetime,
    pid: int,
    tim: int,
) -> str:
    """A 10046 trace: the events' waits in random order, with a little CPU between them."""
    cursor = 140_000_000_000_000 + pid
    header = HEADER.format(
        pid=pid, began=began, session=SESSION, cursor=cursor, tim=tim, sql_id=SQL_ID,
        sql=SQL, length=len(SQL),
    )  # fmt: skip
    waits: list[tuple[Event, int]] = []
    for event in events:
        count = max(1, event.count // one_in)
        # A rare event is kept once, as long as its share of the time asks for.
        mean_us = event.mean_us if event.count >= one_in else event.mean_us * event.count // one_in
        drawn = rng.lognormal(0, 0.8 if event.name == READ else 0.4, count)
        total = max(1, mean_us) * count
        waits += [(event, us) for us in exactly(drawn * total / drawn.sum(), total)]
    lines = []
    for at in rng.permutation(len(waits)):
        event, us = waits[at]
        tim += us + int(rng.integers(20, 200))
        parameters = event.parameters.format(
            n=int(rng.integers(1, 9)), dba=int(rng.integers(60_000, 2_900_000))
        )
        lines.append(
            f"WAIT #{cursor}: nam='{event.name}' ela= {us} {parameters} obj#=84213 tim={tim}"
        )
    return header + "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python examples/oracle/make_example.py DIRECTORY")
    main(Path(sys.argv[1]))
