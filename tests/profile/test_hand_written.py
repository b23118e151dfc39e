"""A trace small enough to add up by hand, in all its forms."""

import gzip
import json
import subprocess

import pytest

from cases import cases
from harness import TIMEOUT_S, completed, spillcast, started
from oracle_files import READ, WRITE, blocks, write_trace
from spillcast.profile import profile
from spillcast.profile.sql import run_sql

WAITS = [
    (READ, 1_000, blocks(31)),
    (READ, 3_000, blocks(31, file=202)),
    (READ, 200, blocks(15)),
    (WRITE, 500, blocks(31)),
    ("SQL*Net message from client", 7_000, "driver id=1413697536 #bytes=1 p3=0"),
    ("PGA memory operation", 0, "p1=65536 p2=1 p3=0"),
]
COLUMNS = ("count", "total_us", "min_us", "mean_us", "max_us")


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "hand.trc", WAITS)


def rows(path, *by, **options):
    """Count, total, minimum, mean and maximum (us) by key."""
    return columns_of(profile(path, by=by, **options), by)


def columns_of(result, by, columns=COLUMNS):
    """The values of some columns by key."""
    return {tuple(row[name] for name in by): tuple(row[c] for c in columns) for row in result.rows}


def without_places(result):
    return [{k: v for k, v in row.items() if k != "longest_at"} for row in result.rows]


def test_by_event(trace):
    result = profile(trace)
    assert rows(trace, "event") == {
        (READ,): (3, 4_200, 200, 1_400, 3_000),
        (WRITE,): (1, 500, 500, 500, 500),
        ("SQL*Net message from client",): (1, 7_000, 7_000, 7_000, 7_000),
        ("PGA memory operation",): (1, 0, 0, 0, 0),
    }
    assert result.elapsed_s == pytest.approx(0.0117)
    shares = {row["event"]: row["share"] for row in result.rows}
    assert shares[READ] == pytest.approx(4_200 / 11_700)
    assert [row["event"] for row in result.rows if row["idle"]] == ["SQL*Net message from client"]


def test_by_op_size_file_session_and_object(trace):
    assert rows(trace, "op", "size")[("read", 31)] == (2, 4_000, 1_000, 2_000, 3_000)
    assert rows(trace, "op", "size")[("write", 31)] == (1, 500, 500, 500, 500)
    assert rows(trace, "event", "file")[(READ, "202")] == (1, 3_000, 3_000, 3_000, 3_000)
    assert rows(trace, "sql", "session") == {("4q7zf0d2m8kcx", 35): (6, 11_700, 0, 1_950, 7_000)}
    assert set(rows(trace, "object")) == {(5,)}


def test_quantiles_lie_between_the_shortest_and_the_longest(trace):
    for row in profile(trace).rows:
        quantiles = [row[name] for name in ("min_us", "p50_us", "p95_us", "p99_us", "max_us")]
        assert quantiles == sorted(quantiles)


def test_the_longest_wait_is_shown_with_its_line(trace):
    lines = trace.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "ela= 3000 " in text)
    places = {row["event"]: row["longest_at"] for row in profile(trace).rows}
    assert places[READ] == f"{trace}:{line}"


def test_time_without_waits_or_calls_is_unaccounted_for(tmp_path):
    path = write_trace(tmp_path / "gap.trc", WAITS)
    first, last = path.read_text().rstrip("\n").rsplit("\n", 1)
    path.write_text(f"{first}\n{last.replace('tim=1011700', 'tim=1015000')}\n")
    for by in (["event"], ["event", "file"]):
        matches = [row for row in profile(path, by=by).rows if row["event"] == "unaccounted-for"]
        assert [row["total_us"] for row in matches] == [3_300]
    assert sum(row["share"] for row in profile(path).rows) == pytest.approx(1)


def test_one_event_and_the_first_rows(trace):
    assert {row["event"] for row in profile(trace, event="DIRECT path * temp").rows} == {
        READ,
        WRITE,
    }
    # No storage shortens an idle event, which took longer.
    printed = spillcast("profile", trace, "--top", 1, "--json").stdout
    assert [row["event"] for row in json.loads(printed)["rows"]] == [READ]


def test_a_condition_that_is_always_true_changes_nothing(trace):
    for by in (["event"], ["op", "size"], ["event", "second"], ["file"], ["object"], ["sql"]):
        every, plain = profile(trace, by=by, where="true"), profile(trace, by=by)
        compared = [columns_of(of, by, (*COLUMNS, "longest_at")) for of in (every, plain)]
        assert compared[0] == compared[1], by


def test_a_condition_equals_that_in_sql(trace):
    condition = "blocks > 15 and elapsed_ns >= 1000000"
    requested = "select event, count(*), sum(elapsed_ns) // 1000 from waits"
    columns, result = run_sql(f"{requested} where {condition} group by event", [str(trace)])
    assert len(columns) == 3
    assert result == [[READ, 2, 4_000]]
    assert rows(trace, "event", where=condition) == {(READ,): (2, 4_000, 1_000, 2_000, 3_000)}


def test_tables_of_a_trace(trace):
    for table, count in (("waits", 6), ("calls", 0), ("statements", 1)):
        assert run_sql(f"select count(*) from {table}", [str(trace)])[1] == [[count]]
    text = run_sql("select sql_id, text from statements", [str(trace)])[1]
    assert [[sql_id, sql.strip()] for sql_id, sql in text] == [
        ["4q7zf0d2m8kcx", "select 1 from big"]
    ]
    document = json.loads(spillcast("profile", trace, "--sql", "select 1 as one", "--json").stdout)
    assert document == {"schema": "spillcast.sql/1", "columns": ["one"], "rows": [[1]]}


@cases("where", [(), ("--where", "true")])
def test_histogram(trace, where):
    printed = spillcast("profile", trace, "--event", READ, "--histogram", *where).stdout
    bars = [line.split() for line in printed.splitlines() if "|" in line]
    assert [" ".join(line[:2]) for line in bars] == ["200 us", "1 ms", "2.50 ms"]
    assert [line[-3:] for line in bars] == [["1", "33.3", "%"]] * 3
    assert len({line[2] for line in bars}) == 1
    assert bars[0][2].startswith("|█")


def test_document(trace):
    document = json.loads(spillcast("profile", trace, "--json").stdout)
    assert document["schema"] == "spillcast.profile/1"
    assert {"by", "elapsed_s", "rows", "damaged", "warnings"} <= set(document)
    keys = {"event", "op", "idle", "count", "total_us", "share", "min_us", "mean_us", "p50_us"}
    keys |= {"p95_us", "p99_us", "max_us", "longest_at", "count_share"}
    assert all(set(row) == keys for row in document["rows"])
    assert all(isinstance(row["total_us"], int) for row in document["rows"])


def test_arrow(trace):
    table = profile(trace).to_arrow()
    assert table.num_rows == 4
    assert {"event", "total_us", "share"} <= set(table.column_names)


def test_damaged_lines_are_listed_with_their_position(trace):
    whole = without_places(profile(trace))
    lines = trace.read_text().splitlines()
    lines.append("WAIT #7: nam='direct path read temp' ela= 12")
    trace.write_text("\n".join(lines))
    result = profile(trace)
    assert [(d["file"], d["line"]) for d in result.damaged] == [(str(trace), len(lines))]
    assert result.damaged[0]["what"]
    assert result.warnings == ["not in the profile: 1 damaged line"]
    assert without_places(result) == whole
    printed = completed("profile", trace)
    # A path longer than a line is wrapped.
    assert f"damaged:{trace}:{len(lines)}:" in "".join(printed.stdout.split())


def test_compressed_files_folders_and_patterns_give_the_same_profile(trace, tmp_path):
    whole = without_places(profile(trace))
    folder = tmp_path / "folder" / "below"
    folder.mkdir(parents=True)
    packed = folder / "hand.trc.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    for evidence in (packed, tmp_path / "folder", tmp_path / "folder" / "*" / "*.gz"):
        assert without_places(profile(evidence)) == whole


def test_zstandard_gives_the_same_profile(trace, tmp_path):
    pa = pytest.importorskip("pyarrow")
    packed = tmp_path / "hand.trc.zst"
    with pa.CompressedOutputStream(packed, "zstd") as out:
        out.write(trace.read_bytes())
    assert without_places(profile(packed)) == without_places(profile(trace))


def test_standard_input_gives_the_same_profile(trace):
    with trace.open() as stdin:
        process = started("profile", "-", "--json", stdin=stdin, stdout=subprocess.PIPE)
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    document = json.loads(printed)["rows"]
    assert [{k: v for k, v in row.items() if k != "longest_at"} for row in document] == (
        without_places(profile(trace))
    )


def test_several_files_add_up(trace, tmp_path):
    other = write_trace(tmp_path / "other.trc", WAITS[:1])
    both = {row["event"]: row for row in profile(trace, other).rows}
    assert (both[READ]["count"], both[READ]["total_us"]) == (4, 5_200)
    assert profile(trace, other).elapsed_s == pytest.approx(0.0127)
