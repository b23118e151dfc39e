"""Writes a recording's temp I/O as the extended SQL trace (10046) of the same I/O in Oracle."""

from oracle_files import READ, WRITE

BEGIN_US = 1_000_000


def write_as_trace(recording, folder, *, block_bytes):
    """One trace per session with temp I/O: file, block, count, gap and order of each wait.

    All else is the gap between lines, as CPU time is in a trace. A wait is written when it ends, in
    whole microseconds, and the end of a file counts as a whole block, as every block does.
    """
    folder.mkdir()
    waits = recording.temp_waits
    columns = [waits[name].to_pylist() for name in
               ("start_ns", "elapsed_ns", "session", "op", "file", "offset", "bytes")]  # fmt: skip
    files = {name: 201 + at for at, name in enumerate(dict.fromkeys(columns[4]))}
    lines = {session: _head(session) for session in dict.fromkeys(columns[2])}
    for start_ns, elapsed_ns, session, op, file, offset, size in zip(*columns, strict=True):
        if not size:
            continue
        assert offset % block_bytes == 0
        event = READ if op == "read" else WRITE
        lines[session].append(
            f"WAIT #7: nam='{event}' ela= {round(elapsed_ns / 1e3)} file number={files[file]} "
            f"first dba={offset // block_bytes} block cnt={-(-size // block_bytes)} obj#=5 "
            f"tim={_tim(start_ns + elapsed_ns)}"
        )
    end = (
        f"EXEC #7:c=0,e=0,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,tim={_tim(recording.elapsed_s * 1e9)}"
    )
    for session, written in lines.items():
        (folder / f"erp_ora_{session}.trc").write_text("\n".join([*written, end]) + "\n")
    return folder


def _head(session):
    return [
        "*** 2024-09-03T20:26:02.412000+02:00",
        f"*** SESSION ID:({session}.1) 2024-09-03T20:26:02.412000+02:00",
        "=====================",
        f"PARSING IN CURSOR #7 len=17 dep=0 uid=1 oct=3 lid=1 tim={BEGIN_US} hv=1 ad='0' "
        "sqlid='4q7zf0d2m8kcx'",
        "select 1 from big",
        "END OF STMT",
        f"EXEC #7:c=0,e=0,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,tim={BEGIN_US}",
    ]


def _tim(ns):
    return BEGIN_US + round(ns / 1e3)
