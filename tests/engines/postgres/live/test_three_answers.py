"""The three answers, each of a real run: temp storage, the processor, or cold tables."""

import re

from harness import completed
from postgres_rig import SERIAL
from spillcast import forecast

#: CPU work for every row, with little spilling.
BUSY = (
    "select sum(length(md5(repeat(f, 200) || id))) "
    "from (select id, f from t where id % 4 = 0 order by f, id offset 0) s"
)
SPILLING = "select max(x.f) from t x join t y using (id)"
#: A table on the slow storage, none of whose pages are in shared buffers, as it was copied there.
COLD_TABLE = (
    "drop table if exists cold",
    "create table cold as select i as id, repeat('x', 950) as f from generate_series(1, 16000) i",
    "alter table cold set tablespace slow",
)
COLD = "select count(*) from (select id, left(f, 100) as f from cold order by f, id offset 0) s"
TARGETS = ("--to", "latency:20us", "--to", "catalogue:aws-gp3")


def verdict_on(newest, folder, query, **settings):
    """The verdict of ``forecast`` on a run of ``query``, as a single line."""
    output = folder / "run.spill"
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    completed("record", "--postgres", newest.dsn, "--explain", query, *options, "-o", output)
    result = completed("forecast", output, *TARGETS)
    print(result.stdout)
    return " ".join(result.stdout.partition("\n\n")[0].split())


def test_storage_is_the_problem_and_work_mem_the_cheapest_fix(newest, tmp_path):
    """Temp files on storage of 0.5 ms an operation take most of the time."""
    answer = verdict_on(
        newest, tmp_path, SPILLING, temp_tablespaces="slow", work_mem="128kB", **SERIAL
    )
    share, fix = re.match(
        r"Temp I/O is (\d+) % of this query: storage is the problem\. Cheapest fix: (\S+ \S+), ",
        answer,
    ).groups()
    assert int(share) >= 50
    assert fix.startswith("work_mem ")
    assert "; then " in answer


def test_no_storage_helps_a_query_that_computes(newest, tmp_path):
    """Temp files are in the page cache, and most of the time is in a function.

    On a busy machine it is in waits for a CPU.
    """
    answer = verdict_on(newest, tmp_path, BUSY, temp_tablespaces="", work_mem="1MB", **SERIAL)
    share = re.match(
        r"Temp I/O is \d+ % of this query, (\d+) % is [\w ]+\. Today temp I/O is as ",
        answer,
    ).group(1)
    assert int(share) >= 30


def test_cold_table_files_are_distinguished_from_temp_files(newest, tmp_path):
    """Temp files are in the page cache; a table is read from storage of 0.5 ms a page."""
    with newest.connect() as connection:
        for statement in COLD_TABLE:
            connection.execute(statement)
        one_by_one = {}
        if connection.info.server_version >= 170_000:
            one_by_one = {"io_combine_limit": "1", "effective_io_concurrency": "0"}
    answer = verdict_on(
        newest, tmp_path, COLD, temp_tablespaces="", work_mem="1MB", **SERIAL, **one_by_one
    )
    share = re.match(
        r"(\d+) % of this query is reading table files that were not cached, ", answer
    ).group(1)
    assert int(share) >= 30
    assert " With those files cached it would take " in answer
    estimated = forecast(tmp_path / "run.spill", TARGETS[1])
    [term] = [term for term in estimated.terms if term.name == "data reads"]
    assert term.baseline_s > 0.05 * estimated.baseline_s
    assert estimated.warm.baseline_s == estimated.baseline_s - term.baseline_s
    assert "cold-data" in {warning.code for warning in estimated.warnings}
