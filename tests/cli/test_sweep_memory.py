"""``spillcast sweep memory`` as a user runs it: refusals, and a query of the user."""

import pytest

from cases import cases
from harness import completed, environment, spillcast

#: A sort of 12 MB that generates its own data.
QUERY = "select max(r) from (select row_number() over (order by hash(i)) r from range(400000) t(i))"

BAD_INPUT = {
    "no range": (("--memory", "64M"), "--memory 64M: not a range"),
    "a range backwards": (("--memory", "64M..1M"), "from less to more"),
    "work_mem below 64 kB": (
        ("--engine", "postgres", "--memory", "16K..1M"), "work_mem goes from 64K",
    ),
    "no such query": (("--workload", "merge"), "--workload merge: no such query"),
    "a query without a name": (("--workload", ""), "no such query"),
    "an engine whose queries have other names": (
        ("--engine", "sort", "--on", "nowhere"), "--on nowhere: there is no such file",
    ),
    "two queries": (("--sql", "q.sql", "--workload", "sort"), "name two queries"),
    "no such storage": (("--on", "nowhere"), "--on nowhere: there is no such file or directory"),
    "a latency in words": (("--on", "latency:slow"), "'slow' is not a duration"),
    "a storage twice": (("--on", ".", "--on", "."), "a storage is named twice"),
    "another's server": (("--engine", "postgres", "--sql", "q.sql"), "--sql is for --engine"),
    "no such file": (("--sql", "none.sql"), "--sql none.sql: No such file"),
    "an empty file": (("--sql", "empty.sql"), "it contains no query"),
    "no such database": (("--sql", "q.sql", "--database", "x.db"), "--database x.db: there is no"),
    "a database for our query": (("--database", "x.db"), "--database is for --sql"),
    "a price of no storage": (("--cost", "disk=3"), "there is no --on disk"),
    "a price without a limit": (("--on", "tmpfs", "--cost", "tmpfs=3"), "--cost is for --within"),
    "a time in words": (("--within", "soon"), "'soon' is not a duration"),
    "too little memory": (
        ("--sql", "q.sql", "--on", "tmpfs", "--memory", "1M..2M"), ": too little for q.sql",
    ),
    "a query that is none": (("--sql", "wrong.sql", "--on", "tmpfs"), "Parser Error"),
}  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep")
    (path / "q.sql").write_text(QUERY)
    (path / "empty.sql").touch()
    (path / "wrong.sql").write_text("selekt 1")
    return path


@cases("case", BAD_INPUT)
def test_bad_input(directory, case):
    arguments, words = BAD_INPUT[case]
    before = sorted(directory.iterdir())
    result = spillcast("sweep", "memory", *arguments, cwd=directory, env=environment())
    status = 1 if case == "a query that is none" else 2
    matches = [line for line in result.stderr.splitlines() if line.startswith("spillcast: ")]
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    assert len(matches) == 1
    assert words in matches[0]
    assert "Traceback" not in result.stderr
    assert sorted(directory.iterdir()) == before


def test_a_query_of_the_user(directory):
    arguments = ("--sql", "q.sql", "--on", "tmpfs", "--memory", "12M..48M", "--within", "1h")
    result = completed("sweep", "memory", *arguments, cwd=directory, env=environment())
    assert "Cheapest within 1 h 00 min: 12 MiB on tmpfs" in result.stdout
    assert "nothing is spilled." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
