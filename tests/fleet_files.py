"""Traces of several databases for tests, small and the same in every run."""

import random

READ, WRITE = "direct path read temp", "direct path write temp"
SCATTERED, IDLE = "db file scattered read", "SQL*Net message from client"
HEADER = """\
Trace file /u01/app/oracle/diag/rdbms/{database}/{instance}/trace/{instance}_ora_{pid}.trc
Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production
System name:\tLinux
Node name:\t{host}
Instance name: {instance}
Unix process pid: {pid}, image: oracle@{host}

*** {day}T10:00:00.000000+00:00
*** SESSION ID:(35.{pid}) {day}T10:00:00.000000+00:00

"""


def waits(seed, count=40):
    """Made-up waits: statement, event, us, blocks."""
    draw = random.Random(seed)
    events = [(READ, 31), (READ, 15), (WRITE, 31), (SCATTERED, 64), (IDLE, None)]
    return [
        (f"sql{draw.randrange(4)}", *draw.choice(events), draw.randrange(50, 20_000))
        for _ in range(count)
    ]


def write_trace(
    path, made, *, database="erp", instance=None, host="db1", day="2026-03-02", pid=4711
):
    """Writes a trace of these waits; each statement has a cursor and a fetch of 7 us of CPU."""
    instance = instance or database
    tim = 1_000_000
    lines = []
    cursors = {sql: at for at, sql in enumerate(sorted({sql for sql, *_ in made}), 1)}
    for sql, cursor in cursors.items():
        lines.append(
            f"PARSING IN CURSOR #{cursor} len=9 dep=0 uid=1 oct=3 lid=1 tim={tim} hv=1 ad='0' "
            f"sqlid='{sql}'\nselect {cursor}\nEND OF STMT"
        )
    for sql, event, blocks, us in made:
        tim += us + 10
        cursor = cursors[sql]
        more = f"file number=201 first dba=128 block cnt={blocks}"
        if event == SCATTERED:
            more = f"file#=4 block#=9 blocks={blocks}"
        if blocks is None:
            more = "driver id=1413697536 #bytes=1 p3=0"
        lines.append(f"WAIT #{cursor}: nam='{event}' ela= {us} {more} obj#=5 tim={tim}")
    for cursor in cursors.values():
        tim += 20
        lines.append(f"FETCH #{cursor}:c=7,e=9,p=0,cr=0,cu=0,mis=0,r=1,dep=0,og=1,plh=1,tim={tim}")
    head = HEADER.format(database=database, instance=instance, host=host, day=day, pid=pid)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "\n".join(lines) + "\n")
    return path


def write_fleet(folder, files=24, databases=3, count=40):
    """Writes traces of some databases on four days."""
    for number in range(files):
        database = f"erp{number % databases}"
        write_trace(
            folder / database / f"{database}_ora_{number}.trc",
            waits(number, count),
            database=database,
            host=f"db{number % databases}",
            day=f"2026-03-0{2 + number % 4}",
            pid=number,
        )
    return folder


def contents(dataset):
    """The bytes of every relevant file of a dataset."""
    return {
        str(path.relative_to(dataset)): path.read_bytes()
        for path in sorted(dataset.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
