"""Oracle's files for tests: real traces, the generated example, and hand-written traces."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REAL = ROOT.parent / "shared" / "traces"
READ, WRITE = "direct path read temp", "direct path write temp"
HEADER = """\
*** 2024-09-03T20:26:02.412000+02:00
*** SESSION ID:(35.65385) 2024-09-03T20:26:02.412000+02:00

=====================
PARSING IN CURSOR #7 len=17 dep=0 uid=1 oct=3 lid=1 tim=1000000 hv=1 ad='0' sqlid='4q7zf0d2m8kcx'
select 1 from big
END OF STMT
"""


def real(name):
    """The path of a real trace; skips the test where it is absent."""
    if (REAL / name).exists():
        return REAL / name
    pytest.skip(f"{name}: no such trace in {REAL}")


def make_example(directory):
    """Writes ash.csv, hdd.trc and flash.trc of the published case."""
    make = ROOT / "examples" / "oracle" / "make_example.py"
    subprocess.run([sys.executable, make, directory], check=True)
    return directory


def blocks(count, file=201):
    """The parameters of a wait for this number of blocks."""
    return f"file number={file} first dba=128 block cnt={count}"


def write_trace(path, waits, *, header=HEADER):
    """Writes a trace of waits (event, us, parameters), in sequence without gaps."""
    tim, lines = 1_000_000, []
    for event, us, parameters in waits:
        tim += us
        lines.append(f"WAIT #7: nam='{event}' ela= {us} {parameters} obj#=5 tim={tim}")
    path.write_text(header + "\n".join(lines) + "\n")
    return path
