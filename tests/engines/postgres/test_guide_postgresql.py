"""The commands of the guide, run in order on a real server, do what the guide says."""

import re
import shlex
import subprocess
from pathlib import Path

import psycopg
import pytest

from harness import completed, environment
from postgres_rig import private_server
from spillcast.workspace import workspace

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "postgresql.md"
SALES = """
create table sales as
select i as id, hashint4(i + 1) % 1000000 / 100.0 as amount from generate_series(1, {rows}) as s(i)
"""


def commands():
    """Every command of the guide, continuation lines joined."""
    blocks = re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks).replace("\\\n", " ")
    return re.findall(r"^\$ (.+)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The guide's server: database dw, role etl, temp files on a tablespace of their own."""
    with workspace() as room, private_server(room, {"track_io_timing": "on"}) as server:
        host = re.search(r"host=(\S+)", server.dsn)[1]
        disk = room / "disk"
        disk.mkdir()
        server.give(disk)
        with server.connect() as connection:
            connection.execute("create database dw")
            connection.execute("create role etl login")
            connection.execute(f"create tablespace disk location '{disk}'")
        dw = f"host={host} user=postgres dbname=dw"
        with psycopg.connect(dw, autocommit=True) as connection:
            connection.execute(SALES.format(rows=300_000))
            connection.execute("alter database dw set temp_tablespaces = disk")
        fast = room / "nvme"
        fast.mkdir()
        psql = server.installation.programs / "psql"
        yield tmp_path_factory.mktemp("guide"), {"PGHOST": host, "PGUSER": "postgres"}, fast, psql


def test_the_guide_covers_all_steps():
    verbs = [command.split()[1] for command in commands() if command.startswith("spillcast")]
    assert verbs == ["forecast", "record", "record", "forecast", "move", "move", "move"]


def test_every_command_of_the_guide_works(place):
    directory, variables, fast, psql = place
    for command in commands():
        source = command.replace("/mnt/nvme", str(fast)).replace("--duration 20s", "--duration 2s")
        program, *arguments = shlex.split(source)
        if program == "spillcast":
            completed(*arguments, cwd=directory, env=environment() | variables)
            continue
        assert program == "psql"
        at = arguments.index(">")
        _, output = arguments[at : at + 2]
        del arguments[at : at + 2]
        with (directory / output).open("w") as file:
            subprocess.run(
                [psql, *arguments], env=environment() | variables, stdout=file, check=True
            )
    assert list(fast.iterdir()) == [], "the last command has put all back"
