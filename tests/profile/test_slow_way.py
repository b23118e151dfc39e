"""What the core counts while it reads is what DuckDB counts of the rows."""

import random

import pytest

from oracle_files import READ, WRITE, blocks, real, write_trace
from spillcast import _core
from spillcast.profile.result import QUANTILES
from spillcast.profile.rows import of_trace_rows
from spillcast.profile.traces import of_traces, understands

REAL = [
    "jks_ot_combine_main.trc",
    "jks_demos_js12c1_ora_21055.trc",
    "jks_orabinds_js122a1_ora_9039.trc",
    "pairs/0.2ms_array500.trc",
]
CLIENT = "SQL*Net message from client"
#: Together every column, every comparison and what null does to each.
ASKED = [
    (["event"], "true"),
    (["event"], "temp"),
    (["event", "op"], "not idle and elapsed_ns >= 1e5"),
    (["op"], "event like '%path%temp' or event like '_QL*Net%'"),
    (["size"], "blocks is not null and blocks <> 31"),
    (["file"], "file in ('201', '0203', 'x') or file = 203 or file is null"),
    (["object"], "not (object = 5 and blocks > 3.5)"),
    (["sql"], "sql_id <> 'aaaa' or sql_id is null"),
    (["session", "second"], "elapsed_ns between 20e3 and 3000000"),
    (["event"], "op not in ('read', 'none') and p1 > 0"),
    (["event"], "op is null or op = 'write' and not temp = true"),
    (["p3", "temp"], "event > 'd' and event <= 'direct path read temp'"),
    (["event", "cursor"], "cursor <> -1 and p2 >= -5 and line > 100"),
    (["idle"], "EVENT NOT LIKE 'SQL%' AND bytes IS NULL"),
    (["bytes", "p1"], "source = 0 and start_ns > 0 and p3 not between 2 and 20"),
    (["blocks", "sql_id"], None),
    (["p1", "event"], None),
    (["minute", "temp"], "true"),
    (["event"], "event ilike 'd%PATH%' or op not ilike 'R_ad' and 10_000 < elapsed_ns"),
    (
        ["event", "op"],
        "lower(event) like '%net%' or upper(op) = 'READ' and not upper(op) like 'r%'",
    ),
    (["event"], "starts_with(event, 'direct') or (contains(lower(event), 'file'))"),
    (["event"], "ends_with(event, 'temp') and event !~~* '%WRITE%' or suffix(event, 'sync')"),
    (["op"], "elapsed_ns / 1e6 > 10 or elapsed_ns / 1000 between 5 and 2 * 3.0e1"),
    (["p1"], "p1 - 5 > 3 and blocks * 8192 >= 1024 * 8 and (elapsed_ns + 500) // 1000 % 2 = 1"),
    (["p1"], "-3 > p1 + -2 or p1 % 4 = -3 or p1 // 2 = -3 or 8192 * blocks in (24576, 1.5)"),
    (["object"], "((object) * 2) is null or object * 1e0 + 0.5 <> 5.5 or (not (temp))"),
    (["size"], "(blocks + 1) / 4 > 0.99 and blocks > 1.5 and 10 * 1_000 * 10 < elapsed_ns"),
]
#: What the core leaves to a database, and must not read otherwise.
LEFT = [
    "elapsed_ns > blocks * 100000",
    "elapsed_ns * 1.5 > 3",
    "elapsed_ns > 100000 * 100000",
    "elapsed_ns / 0 > 5",
    "1000 / elapsed_ns > 5",
    "event ~ '^direct'",
    "length(event) > 10",
    "coalesce(object, 0) = 0",
    "p1 > 5 --3",
    "p1 /* 1 */ > 5",
    "blocks > 1__000",
    "blocks > 1_",
    "file + 1 > 3",
    "'a' like 'a'",
    "5 > 3",
    "lower(event, 'x') = 'a'",
    "lower(blocks) = 'a'",
    "starts_with(event) and temp",
    "contains(event, op)",
    "((((((((((((temp))))))))))) and ((((((((((((((((((((",
    "temp = op",
    "file > 200",
    "blocks = null",
    "(blocks > 3) is null",
    "temp) or (true",
    "temp and",
    "'a' = 'a'",
    "event like 'a' escape 'b'",
    "p1 > 5 -- more",
    "object = '5'",
    "p1 in (select 1)",
    "line > 12345678901234567890",
    "statement like 'select%'",
    "temp = true = false",
    "not",
    "offset is null",
    "file in (201, '203')",
    "",
]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Waits of every kind, without and with an object, in no order."""
    draw = random.Random(26)
    events = [
        (READ, blocks(3)),
        (READ, blocks(31, 203)),
        (WRITE, blocks(31)),
        (CLIENT, "driver id=1413697536 #bytes=1 p3=0"),
        ("db file sequential read", "file#=4 block#=77 blocks=1"),
        ("log file sync", "p1=-7 p2=0 p3=0"),
    ]
    waits = [
        (event, round(10 ** draw.uniform(0, 6.5)), parameters)
        for event, parameters in draw.choices(events, k=3_000)
    ]
    return write_trace(tmp_path_factory.mktemp("slow") / "generated.trc", waits)


def same(path, by, where):
    """Both ways: exactly the same, but for quantiles, which a histogram knows to within 1 %."""
    assert understands(by, where), where
    slow = of_trace_rows([path], by, where, False, None)
    core = of_traces([path], by, where)
    keys = [name for name in (*by, "idle", "op") if name in core.rows[0]]
    order = lambda row: str([row[name] for name in keys])  # noqa: E731
    found, expected = sorted(core.rows, key=order), sorted(slow.rows, key=order)
    assert core.warnings == slow.warnings
    assert (core.elapsed_s, core.damaged) == (slow.elapsed_s, slow.damaged)
    for row, twin in zip(found, expected, strict=True):
        assert set(row) == set(twin)
        near = {"mean_us", "share", *QUANTILES}
        assert {k: v for k, v in row.items() if k not in near} == {
            k: v for k, v in twin.items() if k not in near
        }
        for name in near:
            assert row[name] == pytest.approx(twin[name], rel=0.011 if name in QUANTILES else 1e-9)
    return found


@pytest.mark.parametrize(("by", "where"), ASKED)
def test_generated_waits(generated, by, where):
    assert same(generated, by, where)


@pytest.mark.parametrize("name", REAL)
def test_real_traces(name):
    path = real(name)
    for by, where in (ASKED[0], ASKED[14], ASKED[15], ASKED[16]):
        same(path, by, where)


@pytest.mark.parametrize("where", LEFT)
def test_what_the_core_does_not_understand_is_left_to_a_database(where):
    assert not _core.TraceReader.understands(where)
