"""Which files of real commands are temp files, the same for every capture source."""

import json
import shutil
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from fnmatch import fnmatch
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from cases import nightly
from harness import available, completed, environment


class Case(NamedTuple):
    """A command in a folder D for data and a folder T below TMPDIR.

    ``temp`` are its temp files, ``other`` some that are not, as patterns below both.
    """

    command: str
    temp: str | None = None
    other: str | None = None


#: Shell commands. IN is an existing file of lines.
COMMANDS = {
    # Runs of a merge sort are read back and removed; its result stays, wherever it lies.
    "sort": Case("sort -S 100k -T $T $IN -o $T/sorted", "sort??????*", "sorted"),
    "sort-elsewhere": Case("sort -S 100k -T $D $IN > $T/out", "sort??????*", "out"),
    # A result that is only written is output, even under TMPDIR.
    "seq": Case("seq 1 20000 > $T/o.txt", None, "o.txt"),
    "tar": Case("tar cf $T/a.tar $IN", None, "a.tar"),
    "dd": Case("dd if=/dev/zero of=$T/x bs=4k count=20 status=none", None, "x"),
    "cp": Case("cp --reflink=never $IN $T/copy", None),
    "install": Case("install $IN $T/installed", None),
    "tee": Case("seq 1 20000 | tee $T/log > /dev/null", None, "log"),
    "split": Case("split -b 100k $IN $T/part", None, "part*"),
    "gzip": Case("gzip -c $IN > $T/lines.gz", None, "lines.gz"),
    "xz": Case("xz -0 -c $IN > $T/lines.xz", None, "lines.xz"),
    "zstd": Case("zstd -q $IN -o $T/lines.zst", None, "lines.zst"),
    "awk": Case('awk \'{ print > ENVIRON["T"] "/" NR % 2 }\' $IN', None, "[01]"),
    # An existing file is data, even if it is removed after it was read.
    "gzip-in-place": Case("gzip $D/before", None, "before*"),
    # A file written under a temporary name and renamed is output.
    "sed": Case("sed -i s/1/2/ $T/before", None, "sed*"),
    "zip": Case("zip -q $T/a.zip $IN", None, "zi*"),
    "git-commit": Case("cd $D && git add -A && git commit -q -m two", None, "*.git/*"),
    "git-gc": Case("cd $D && git gc -q", None, "*.git/*"),
    # Object files of a compiler are read by the next program and removed.
    "cc": Case("cd $D && printf 'int main(void){return 0;}' > a.c && cc -o a a.c", "cc*", "a.c"),
    # Printed output of a program that another program reads and the script removes.
    "pipeline": Case("seq 20000 > $T/a; sort $T/a > $T/b; rm $T/a", "a", "b"),
    "reading": Case("cat $IN $IN > /dev/null", None),
}
#: Python programs, which have T and D as paths.
PROGRAMS = {
    "sqlite": Case(
        """
        base = sqlite3.connect(D / "new.db")
        base.execute("pragma temp_store=file")
        base.execute("pragma cache_size=5")
        base.execute("create table t as with recursive c(x) as (select 1 union all"
                     " select x + 1 from c where x < 90000) select x, hex(x) h from c")
        base.commit()
        base.execute("select * from t order by h").fetchall()
        """,
        "*etilqs_*", "new.db*",
    ),
    "duckdb": Case(
        """
        base = duckdb.connect(config={"temp_directory": str(D), "memory_limit": "60MB",
                                      "threads": 1})
        base.execute(f"copy (from range(1000)) to '{T}/out.csv'")
        base.execute(f"copy (from range(1000)) to '{T}/out.parquet'")
        base.execute("select sum(h) from (select row_number() over (order by b) h"
                     " from (select hash(range) b from range(2500000)))").fetchall()
        """,
        "duckdb_temp_*", "*out.*",
    ),
    "csv": Case(
        """
        with open(T / "out.csv", "w", newline="") as file:
            csv.writer(file).writerows([n, n * n] for n in range(20000))
        """,
        None, "out.csv",
    ),
    # A container's header is patched when its length is known.
    "header": Case(
        """
        with open(T / "film", "w+b", buffering=0) as file:
            for _ in range(10):
                file.write(BLOCK)
            file.seek(0)
            head = file.read(16)
            file.seek(0)
            file.write(head)
        """,
        None, "film",
    ),
    "zipfile": Case(
        "zipfile.ZipFile(T / 'a.zip', 'w').write(D / 'before')", None, "a.zip"
    ),
    # Read back: scratch below TMPDIR, a database elsewhere.
    "scratch": Case("write_and_read(T / 'scratch')", "scratch"),
    "database": Case("write_and_read(D / 'table')", None, "table"),
    "removed": Case("write_and_read(D / 'run'); os.unlink(D / 'run')", "run"),
    "lock": Case("(D / 'lock').write_bytes(BLOCK); os.unlink(D / 'lock')", None, "lock"),
    "unlinked": Case(
        """
        with open(D / "hidden", "w+b", buffering=0) as file:
            os.unlink(D / "hidden")
            file.write(BLOCK)
            file.seek(0)
            file.read()
        """,
        "hidden",
    ),
    "nameless": Case(
        """
        with tempfile.TemporaryFile(dir=D, buffering=0) as file:
            file.write(BLOCK)
            file.seek(0)
            file.read()
        """,
        "*",
    ),
    "named": Case(
        """
        with tempfile.NamedTemporaryFile(dir=T, prefix="named", buffering=0) as file:
            file.write(BLOCK)
            file.flush()
            open(file.name, "rb").read()
        """,
        "named*",
    ),
    "renamed": Case(
        """
        fd, name = tempfile.mkstemp(dir=T)
        os.write(fd, BLOCK)
        os.pread(fd, len(BLOCK), 0)
        os.close(fd)
        time.sleep(0.3)  # so that perf events, which miss renames, get to know the file
        os.rename(name, T / "final")
        """,
        None, "tmp*",
    ),
    "log": Case("open(T / 'before', 'ab', 0).write(BLOCK)", None, "before"),
    "rewritten": Case(
        """
        write_and_read(D / "before")
        """,
        None, "before",
    ),
}  # fmt: skip
PRELUDE = """
import csv, duckdb, os, sqlite3, sys, tempfile, time, zipfile
from pathlib import Path
BLOCK = bytes(200_000)
def write_and_read(path):
    with open(path, "w+b", buffering=0) as file:
        file.write(BLOCK)
        file.seek(0)
        file.read()
        time.sleep(0.3)  # so that perf events get to know the file
root = Path(sys.argv[1])
"""
CASES = COMMANDS | PROGRAMS
#: Perf events and the preload library do not see all of these.
COMPLETE = "bpf"


def script(root):
    """A shell script of all available commands, and its cases."""
    lines, cases = [], []
    for name, case in COMMANDS.items():
        program = case.command.replace("cd $D && ", "").split()[0]
        if shutil.which(program) is None or ("cc -o" in case.command and not shutil.which("cc")):
            continue
        folders = f"D={root}/data/{name} T={root}/tmp/{name} TMPDIR={root}/tmp/{name}"
        lines.append(f"( export {folders} IN={root}/lines; {case.command} ) || echo {name} failed")
        cases.append(name)
    parts = [PRELUDE]
    for name, case in PROGRAMS.items():
        parts.append(f"T, D = root / 'tmp' / {name!r}, root / 'data' / {name!r}")
        parts.append(textwrap.dedent(case.command))
        cases.append(name)
    program = root / "program.py"
    program.write_text("\n".join(parts))
    lines.append(f"SQLITE_TMPDIR={root}/tmp/sqlite {sys.executable} {program} {root}")
    return "\n".join(lines), cases


def prepare(root, cases):
    """Creates folders, lines, a file in each folder, and repositories before the script."""
    (root / "lines").write_text("".join(f"{n * 7919 % 100_003}\n" for n in range(60_000)))
    for name in cases:
        for folder in (root / "data" / name, root / "tmp" / name):
            folder.mkdir(parents=True)
            (folder / "before").write_text("1\n" * 10_000)
        if name.startswith("git"):
            git = ["git", "-C", root / "data" / name, "-c", "user.name=a", "-c", "user.email=a@b"]
            subprocess.run([*git, "init", "-q"], check=True)
            subprocess.run([*git, "add", "-A"], check=True)
            subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
            (root / "data" / name / "more").write_text("2\n" * 10_000)


@pytest.mark.parametrize("capture", ["bpf", "preload", *nightly("perf")])
def test_temp_files_are_recognised_by_use(tmp_path, capture):
    available(capture)
    pytest.importorskip("duckdb")
    text, cases = script(tmp_path)
    prepare(tmp_path, cases)
    output = tmp_path / "run.spill"
    env = environment(
        TMPDIR=tmp_path / "tmp", LC_ALL="C", GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b",
        GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b",
    )  # fmt: skip
    words = ("record", "--capture", capture, "-o", output, "--", "sh", "-c", text)
    result = completed(*words, env=env)
    assert "failed" not in result.stdout, result.stdout
    waits = pq.read_table(output / "waits.parquet", columns=["file", "op", "temp"]).to_pylist()
    actual = defaultdict(set)
    for row in waits:
        for place in ("data", "tmp"):
            prefix = f"{tmp_path}/{place}/"
            if row["op"] and (row["file"] or "").startswith(prefix):
                name, _, file = row["file"].removeprefix(prefix).partition("/")
                actual[name].add((file, row["temp"]))
    wrong, unseen = [], []
    for name in cases:
        case = CASES[name]
        for file, temp in sorted(actual[name]):
            expected = case.temp is not None and fnmatch(file, case.temp)
            # Perf events may miss calls on a short-lived file, which then is not temp.
            if temp != expected and (temp or capture != "perf"):
                wrong.append((name, file, temp))
        for pattern in filter(None, (case.temp, case.other)):
            if not any(fnmatch(file, pattern) for file, _ in actual[name]):
                unseen.append((name, pattern))
    assert wrong == []
    assert capture != COMPLETE or unseen == []
    check_sums(output, waits)


def check_sums(output, waits):
    """Seconds and meta.json count the same temp I/O as the rows."""
    by_rows, by_seconds = Counter(), Counter()
    for row in waits:
        by_rows[row["op"], row["temp"]] += 1
    for row in pq.read_table(output / "seconds.parquet").to_pylist():
        by_seconds[row["op"], row["temp"]] += row["count"]
    assert by_seconds == by_rows
    meta = json.loads((output / "meta.json").read_text())
    assert meta["temp"]["reads"] == by_rows["read", True]
    assert meta["temp"]["writes"] == by_rows["write", True]
    assert meta["other_io"]["count"] == by_rows["read", False] + by_rows["write", False]
