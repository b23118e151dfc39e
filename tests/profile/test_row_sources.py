"""``--by row-source``: the time, reads and temp writes of each plan line, without its children."""

import json

import pytest

from cases import cases
from harness import spillcast
from oracle_files import HEADER, READ, blocks, real, write_trace
from spillcast import profile
from spillcast.errors import EvidenceUnsuited, OptionConflict
from spillcast.evidence.oracle.row_sources import RowSource, spilling
from spillcast.profile.sql import run_sql

STAT = "STAT #7 id={id} cnt={cnt} pid={pid} pos=1 obj={obj} op='{op} ({figures})'\n"
FIGURES = "cr=9 pr={pr} pw={pw} str=1 time={time} us cost=5 size=31 card=1"
#: Line, parent line, operation, object, rows, blocks read and written, us; including children.
PLAN = [
    (1, 0, "SORT AGGREGATE", 0, 1, 10_200, 9_600, 9_000_000),
    (2, 1, "WINDOW SORT", 0, 50, 10_200, 9_600, 8_999_000),
    (3, 2, "HASH JOIN ", 0, 50, 9_800, 9_200, 8_000_000),
    (4, 3, "TABLE ACCESS FULL BIG", 71_001, 400, 500, 0, 700_000),
    (5, 3, "TABLE ACCESS FULL BIG", 71_001, 400, 100, 0, 300_000),
]


def stat_lines(plan, figures=FIGURES):
    text = ""
    for line, above, op, obj, rows, pr, pw, us in plan:
        reported = figures.format(pr=pr, pw=pw, time=us)
        text += STAT.format(id=line, pid=above, op=op, obj=obj, cnt=rows, figures=reported)
    return text


@pytest.fixture
def trace(tmp_path):
    path = write_trace(tmp_path / "x.trc", [(READ, 1_000_000, blocks(31))] * 9)
    with path.open("a") as file:
        file.write(stat_lines(PLAN))
    return path


def of(path, **more):
    return profile(path, by=["row-source"], **more)


def test_each_line_excludes_its_children(trace):
    rows = of(trace, block_bytes=8192).rows
    figures = ("row-source", "operation", "depth", "rows", "total_us")
    assert [tuple(row[name] for name in figures) for row in rows] == [
        (1, "SORT AGGREGATE", 0, 1, 1_000),
        (2, "WINDOW SORT", 1, 50, 999_000),
        (3, "HASH JOIN", 2, 50, 7_000_000),
        (4, "TABLE ACCESS FULL BIG", 3, 400, 700_000),
        (5, "TABLE ACCESS FULL BIG", 3, 400, 300_000),
    ]
    # Reads of tables are not temp; the join read and wrote 9,200 blocks, the sort 400.
    temp = [(row["temp_read_bytes"], row["temp_written_bytes"]) for row in rows]
    join, sort = 9_200 * 8192, 400 * 8192
    assert temp == [(0, 0), (sort, sort), (join, join), (0, 0), (0, 0)]
    assert [row["temp_share"] for row in rows] == pytest.approx([0, 400 / 9600, 9200 / 9600, 0, 0])
    assert [row["passes"] for row in rows] == [None, 1, 1, None, None]
    assert rows[2]["share"] == pytest.approx(7 / 9)


def test_the_sentence_names_the_operations_that_spill(trace):
    output = spillcast("profile", trace, "--by", "row-source", "--block", "8K").stdout
    words = "The hash join of line 3 spills 96% of it: 71.9 MiB written, 71.9 MiB read."
    assert words in " ".join(output.split())
    document = json.loads(spillcast("profile", trace, "--by", "row-source", "--json").stdout)
    assert document["words"][0].startswith("The hash join of line 3 spills 96% of it")
    assert any("blocks are assumed" in text for text in document["warnings"])


def test_lines_of_samples_share_the_spill_by_their_time():
    """Samples show only some of the bytes."""
    line = {"sql_id": None, "operation": "HASH JOIN", "count": 4, "elapsed_us": 4_000_000}
    sources = [
        RowSource(plan_line=at, temp_us=us, temp_read_bytes=size, temp_written_bytes=0, **line)
        for at, us, size in ((1, 1_000_000, 9 << 20), (2, 3_000_000, 1 << 20))
    ]
    assert [(source.plan_line, share) for source, share in spilling(sources)] == [
        (2, 0.75),
        (1, 0.25),
    ]


def test_executions_add_up_and_statements_remain_separate(tmp_path):
    path = tmp_path / "x.trc"
    other = HEADER.replace("4q7zf0d2m8kcx", "aaaaaaaaaaaaa")
    end = "WAIT #7: nam='x' ela= 5 p1=1 p2=2 p3=3 obj#=1 tim=1000009\n"
    path.write_text(HEADER + end + stat_lines(PLAN) * 2 + other + stat_lines(PLAN[:1]))
    rows = of(path).rows
    mine = [row for row in rows if row["sql"] == "4q7zf0d2m8kcx"]
    assert [(row["row-source"], row["count"], row["total_us"]) for row in mine] == [
        (1, 2, 2_000),
        (2, 2, 2 * 999_000),
        (3, 2, 14_000_000),
        (4, 2, 1_400_000),
        (5, 2, 600_000),
    ]
    assert [(row["sql"], row["count"]) for row in rows if row not in mine] == [("aaaaaaaaaaaaa", 1)]


def test_a_sort_with_several_passes(tmp_path):
    """A sort that reads five times as much as it writes."""
    path = write_trace(tmp_path / "x.trc", [(READ, 5, blocks(1))])
    with path.open("a") as file:
        file.write(stat_lines([(1, 0, "SORT ORDER BY", 0, 9, 5_000, 1_000, 70)]))
    assert [row["passes"] for row in of(path).rows] == [5]


@cases("figures", ["cr=9 r={pr} w={pw} time={time} us", "cr=9 pr={pr} pw={pw} time={time} us"])
def test_figures_of_older_releases(tmp_path, figures):
    path = write_trace(tmp_path / "x.trc", [(READ, 5, blocks(1))])
    with path.open("a") as file:
        file.write(stat_lines(PLAN, figures))
    query = "select id, rows, blocks_read, blocks_written, elapsed_us, starts from row_sources"
    assert run_sql(query, [str(path)])[1] == [
        [line, rows, pr, pw, us, None] for line, _, _, _, rows, pr, pw, us in PLAN
    ]


def test_a_plan_without_figures(tmp_path):
    """Oracle 8i and 9.0 write only rows."""
    path = write_trace(tmp_path / "x.trc", [(READ, 5, blocks(1))])
    with path.open("a") as file:
        file.write("STAT #7 id=1 cnt=3 pid=0 pos=0 obj=0 op='HASH JOIN '\n")
    (row,) = of(path).rows
    assert (row["operation"], row["rows"], row["temp_written_bytes"]) == ("HASH JOIN", 3, None)


def test_lines_of_a_real_trace():
    path = real("jks_orabinds_js122a1_ora_9039.trc")
    rows = of(path).rows
    whole = next(row for row in rows if row["operation"] == "VIEW DBA_OBJECTS")
    assert (whole["sql"], whole["row-source"], whole["depth"]) == ("34u88ytbxbyu3", 1, 0)
    # The plan took the time of its first line, which includes all children.
    query = "select sum(elapsed_us) from row_sources where parent = 0"
    ((top_us,),) = run_sql(query, [str(path)])[1]
    assert sum(row["total_us"] for row in rows) >= top_us


def test_bind_values_are_shown_with_their_statement(tmp_path):
    path = tmp_path / "x.trc"
    path.write_text(
        HEADER
        + "BINDS #7:\n\n Bind#0\n  oacdty=02 mxl=22(22) mxlc=00\n"
        + "  kxsbbbfp=7f  bln=22  avl=02  flg=05\n  value=42\n"
        + " Bind#1\n  oacdty=01 mxl=32(28) mxlc=00\n  kxsbbbfp=7f  bln=32  avl=14  flg=05\n"
        + '  value="two\nlines = 1"\n'
        + " Bind#2\n  oacdty=01 mxl=32(00) mxlc=00\n  kxsbbbfp=7f  bln=32  avl=00  flg=01\n"
        + "EXEC #7:c=1,e=2,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=1000009\n"
    )
    query = "select sql_id, position, type, value from binds"
    assert run_sql(query, [str(path)])[1] == [
        ["4q7zf0d2m8kcx", 0, 2, "42"],
        ["4q7zf0d2m8kcx", 1, 1, "two\nlines = 1"],
        ["4q7zf0d2m8kcx", 2, 1, None],
    ]


def test_bind_values_of_a_real_trace():
    path = real("jks_orabinds_js122a1_ora_9039.trc")
    lines = path.read_text(errors="replace").splitlines()
    expected = [line.partition("value=")[2].strip('"') for line in lines if "  value=" in line]
    query = "select value from binds where value is not null order by line"
    assert [row[0] for row in run_sql(query, [str(path)])[1]] == expected


def test_evidence_without_plan_lines_is_refused(tmp_path):
    path = write_trace(tmp_path / "x.trc", [(READ, 5, blocks(1))])
    with pytest.raises(EvidenceUnsuited):
        of(path)
    with pytest.raises(OptionConflict):
        profile(path, by=["row-source", "event"])
