"""The commands of the guide to MySQL, on a server."""

import re
import shlex
import subprocess

from engines.mysql.conftest import SORT
from harness import spillcast, spillcast_command
from oracle_files import ROOT

#: It sorts again and again, for some seconds.
LONG = " union all ".join([SORT] * 6)
GUIDE = ROOT / "docs" / "guides" / "mysql.md"
ADDRESS = "mysql://root@localhost"


def commands():
    for block in re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^\$ (.*)$", block, re.MULTILINE)


def record(words, cursor, folder):
    """Begin the statement when the recorder waits for it; its exit status."""
    command = spillcast_command(*words)
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as recorder:
        assert any("waiting" in line for line in iter(recorder.stderr.readline, ""))
        cursor.execute(LONG)
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
                assert record(words, cursor, tmp_path) == 0
            else:
                cursor.execute(SORT)
                result = spillcast(*words, cwd=tmp_path)
                assert result.returncode == 0, result.stderr
        ran.append(words[0])
    assert list(dict.fromkeys(ran)) == ["mysql", "record", "forecast", "move"]
