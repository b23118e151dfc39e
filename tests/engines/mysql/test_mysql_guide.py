"""The commands of the MySQL guide, on a server."""

import re
import shlex
import subprocess
import threading

from engines.mysql.conftest import HELD, SORT
from harness import completed, started, until
from oracle_files import ROOT

#: Sorts, waits for the session that holds it, and then sorts repeatedly for some seconds.
LONG = " union all ".join([SORT.replace("sleep(0.5)", HELD), *[SORT] * 5])
GUIDE = ROOT / "docs" / "guides" / "mysql.md"
ADDRESS = "mysql://root@localhost"


def commands():
    for block in re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^\$ (.*)$", block, re.MULTILINE)


def record(words, rig, folder):
    """Begins the statement when the recorder waits for it; returns the recorder's exit status."""
    with (
        rig.session() as cursor,
        rig.session() as gate,
        started(*words, cwd=folder, stderr=subprocess.PIPE, text=True) as recorder,
    ):
        gate.execute(f"select {HELD}")
        assert any("waiting" in line for line in iter(recorder.stderr.readline, ""))
        statement = threading.Thread(target=cursor.execute, args=[LONG])
        statement.start()
        until(
            lambda: list(folder.glob("*.partial")) or recorder.poll() is not None, "the attachment"
        )
        gate.execute("select release_lock('gate')")
        statement.join()
        recorder.communicate()
    return recorder.returncode


def test_the_commands_of_the_guide_run(rig, tmp_path):
    ran = []
    for command in commands():
        program, *words = shlex.split(command.replace(ADDRESS, rig.dsn))
        if rig.lab.engine != "mariadb" and "plan.txt" in command:
            continue
        with rig.session() as cursor:
            if program == "mariadb":
                cursor.execute(f"analyze format=json {SORT}")
                (tmp_path / "plan.txt").write_text(cursor.fetchone()[0])
                continue
            if words[0] == "record":
                assert record(words, rig, tmp_path) == 0
            else:
                cursor.execute(SORT)
                completed(*words, cwd=tmp_path)
        ran.append(words[0])
    assert list(dict.fromkeys(ran)) == ["mysql", "record", "forecast", "move"]
