"""Calls of a trace: who made each, and its own time, against a slow reader."""

import re

import pytest

from cases import cases
from oracle_files import real, write_trace
from spillcast import profile
from spillcast.errors import QueryInvalid
from spillcast.profile.sql import run_sql

CALL = re.compile(r"(PARSE|EXEC|FETCH|CLOSE|UNMAP|SORT UNMAP) #(\d+):(.*)")
#: A query that calls the dictionary twice, where one call makes another; and another query.
NESTED = """\
=====================
PARSING IN CURSOR #1 len=9 dep=0 uid=1 oct=3 lid=1 tim=1000000 hv=1 ad='0' sqlid='aaaaaaaaaaaaa'
select 17
END OF STMT
PARSING IN CURSOR #2 len=27 dep=1 uid=0 oct=3 lid=0 tim=1000000 hv=2 ad='0' sqlid='bbbbbbbbbbbbb'
select 'it''s' from obj$ 12
END OF STMT
PARSING IN CURSOR #3 len=27 dep=2 uid=0 oct=3 lid=0 tim=1000000 hv=3 ad='0' sqlid='ccccccccccccc'
select  'that'  from  OBJ$
7
END OF STMT
FETCH #2:c=10,e=12,p=1,cr=2,cu=3,mis=0,r=1,dep=1,og=4,plh=0,tim=1000100
FETCH #3:c=5,e=6,p=1,cr=1,cu=1,mis=0,r=1,dep=2,og=4,plh=0,tim=1000200
FETCH #2:c=20,e=22,p=3,cr=4,cu=5,mis=0,r=2,dep=1,og=4,plh=0,tim=1000300
EXEC #1:c=100,e=200,p=10,cr=20,cu=30,mis=1,r=0,dep=0,og=1,plh=0,tim=1000400
FETCH #1:c=1,e=2,p=3,cr=4,cu=5,mis=0,r=6,dep=0,og=1,plh=0,tim=1000500
"""


@pytest.fixture
def nested(tmp_path):
    path = tmp_path / "nested.trc"
    path.write_text(NESTED)
    return path


def test_each_call_excludes_the_calls_that_it_made(nested):
    result = profile(nested, by=["call", "depth"])
    by = {(row["call"], row["depth"]): row for row in result.rows}
    figures = ("total_us", "cpu_us", "rows", "reads", "consistent_gets", "current_gets")
    assert {key: tuple(row[name] for name in figures) for key, row in by.items()} == {
        ("EXEC", 0): (200 - 34, 100 - 30, 0, 10 - 4, 20 - 6, 30 - 8),
        ("FETCH", 0): (2, 1, 6, 3, 4, 5),
        ("FETCH", 1): (28, 25, 3, 3, 5, 7),
        ("FETCH", 2): (6, 5, 1, 1, 1, 1),
    }
    assert by["EXEC", 0]["longest_at"] == f"{nested}:15"


def test_rows_with_the_same_total_are_in_the_order_of_their_keys(tmp_path):
    path = tmp_path / "ties.trc"
    lines = [f"FETCH #1:c=1,e=2,p=0,cr=0,cu=0,mis=0,r={rows},dep=0,og=1,plh=0,tim={1000000 + rows}"
             for rows in range(500, 0, -1)]  # fmt: skip
    path.write_text("=====================\n" + "\n".join(lines) + "\n")
    rows = [row["r"] for row in profile(path, by=["call", "r"]).rows]
    assert rows == sorted(rows)


def test_recursive_calls_have_their_callers(nested):
    rows = profile(nested, by=["call", "sql", "caller"], where="dep > 0").rows
    assert {(row["sql"], row["caller"], row["count"]) for row in rows} == {
        ("bbbbbbbbbbbbb", "aaaaaaaaaaaaa", 2),
        ("ccccccccccccc", "bbbbbbbbbbbbb", 1),
    }


def test_similar_statements_are_merged(nested):
    rows = profile(nested, by=["call", "statement"]).rows
    assert {row["statement"]: row["count"] for row in rows if row["call"] == "FETCH"} == {
        "select :s from obj$ :n": 3,
        "select :n": 1,
    }


def test_waits_are_grouped_by_statement_too(tmp_path):
    path = write_trace(tmp_path / "x.trc", [("db file sequential read", 5, "p1=1 p2=2 p3=1")] * 3)
    (row,) = profile(path, by=["statement"]).rows
    assert (row["statement"], row["count"]) == ("select :n from big", 3)


@cases("name", ["techwanker_dev18b_ora_813.trc", "jks_demos_js12c1_ora_21055.trc"])
def test_the_tree_of_a_real_trace(name):
    """A stack of calls that wait for their caller, simulated; one session in each file."""
    path = real(name)
    waiting, parents, calls = [], {}, {}
    for number, text in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if not (result := CALL.match(text)):
            continue
        figures = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", result[3])}
        calls[number] = figures
        while waiting and calls[waiting[-1]]["dep"] > figures["dep"]:
            parents[waiting.pop()] = number
        waiting.append(number)
    query = "select line, parent_line, p from call_tree"
    rows = run_sql(query, [str(path)])[1]
    assert {line: parent for line, parent, _ in rows if parent is not None} == parents
    assert len(rows) == len(calls)


@cases("question", [{"by": ["call"]}, {"by": ["sql"]}, {"by": ["call", "caller"]}])
def test_an_invalid_condition_is_named_before_the_trace_is_read(nested, question):
    read = []
    with pytest.raises(QueryInvalid, match="--where"):
        profile(nested, where="colour = 1", on_progress=read.append, **question)
    assert not read


def test_an_invalid_condition_is_named(nested):
    with pytest.raises(QueryInvalid, match="--where"):
        profile(nested, by=["call"], where="nothing = 1")
    with pytest.raises(QueryInvalid, match="--by colour: unknown"):
        profile(nested, by=["call", "colour"])
