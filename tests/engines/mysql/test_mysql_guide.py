"""The commands of the guide to MySQL, on a server."""

import re
import shlex
import threading

from engines.mysql.conftest import SORT
from harness import spillcast
from oracle_files import ROOT

#: It sorts again and again, for about a second.
LONG = " union all ".join([SORT] * 12)
GUIDE = ROOT / "docs" / "guides" / "mysql.md"
ADDRESS = "mysql://root@localhost"


def commands():
    for block in re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^\$ (.*)$", block, re.MULTILINE)


def test_the_commands_of_the_guide_run(rig, tmp_path):
    ran = []
    for command in commands():
        program, *words = shlex.split(command.replace(ADDRESS, rig.dsn))
        with rig.session() as cursor:
            if program == "mariadb":
                cursor.execute(f"analyze format=json {SORT}")
                (tmp_path / "plan.txt").write_text(cursor.fetchone()[0])
                continue
            timer = threading.Timer(3.0, cursor.execute, [LONG])
            if words[0] == "record":
                timer.start()
            elif words[0] == "mysql":
                cursor.execute(SORT)
            result = spillcast(*words, cwd=tmp_path)
            if words[0] == "record":
                timer.join()
        assert result.returncode == 0, result.stderr
        ran.append(words[0])
    assert ran == ["mysql", "record", "forecast", "forecast", "move"]
