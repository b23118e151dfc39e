"""``--by`` takes any SQL expression over the columns of a wait, or of a sample."""

import json
from collections import Counter

import pytest

from cases import cases
from harness import spillcast
from oracle_files import READ, WRITE, blocks, write_trace
from spillcast import profile
from spillcast.errors import QueryInvalid
from spillcast.profile.result import split_by
from spillcast.recording import Recording

WAITS = [(READ, 100 * n, blocks(n)) for n in range(1, 32)] + [(WRITE, 7, blocks(31, 203))] * 4


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "x.trc", WAITS)


@cases(
    ("expression", "of"),
    [
        ("p3 // 8", lambda _event, _us, count: count // 8),
        ("elapsed_ns >= 1e6", lambda _event, us, _count: us >= 1000),
        ("event || ', ' || p3", lambda event, _us, count: f"{event}, {count}"),
        (
            "case when op = 'read' and blocks > 15 then 'large, read' else 'other' end",
            lambda event, _us, count: "large, read" if event == READ and count > 15 else "other",
        ),
    ],
)
def test_waits_are_counted_by_an_expression(trace, expression, of):
    expected, total_us = Counter(), Counter()
    for event, us, parameters in WAITS:
        key = of(event, us, int(parameters.rpartition("=")[2]))
        expected[key] += 1
        total_us[key] += us
    rows = json.loads(spillcast("profile", trace, "--by", expression, "--json").stdout)["rows"]
    assert {row[expression]: row["count"] for row in rows} == expected
    assert {row[expression]: row["total_us"] for row in rows} == total_us


def test_expressions_and_names_can_be_combined(trace):
    rows = profile(trace, by=["event", "p3 > 15"]).rows
    assert {(row["event"], row["p3 > 15"]): row["count"] for row in rows} == {
        (READ, False): 15,
        (READ, True): 16,
        (WRITE, True): 4,
    }
    assert all(row["op"] in ("read", "write") for row in rows)


def test_a_condition_and_an_expression(trace):
    (row,) = profile(trace, by=["file || '!'"], where="temp and op = 'write'").rows
    assert (row["file || '!'"], row["count"]) == ("203!", 4)


@cases(
    ("text", "parts"),
    [
        ("event,size", ["event", "size"]),
        ("event, coalesce(p1, 0)", ["event", "coalesce(p1, 0)"]),
        ("case when event = 'a, b' then 1 end,op", ["case when event = 'a, b' then 1 end", "op"]),
    ],
)
def test_the_by_option_is_split_at_top_level_commas(text, parts):
    assert split_by(text) == parts


@cases("expression", ["p3 +", "sum(p3)", "nothing + 1", "count(*) over ()) from x"])
def test_an_invalid_expression_is_named(trace, expression):
    with pytest.raises(QueryInvalid) as refused:
        profile(trace, by=[expression])
    assert str(refused.value).startswith(f"--by {expression}:")


def test_an_invalid_value_names_only_given_options(trace):
    for where, blamed in ((None, "--by: "), ("p3 > 0", "--by or --where: ")):
        with pytest.raises(QueryInvalid) as refused:
            profile(trace, by=["event::int"], where=where)
        assert str(refused.value).startswith(blamed)


def test_an_expression_cannot_open_a_file(trace, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    with pytest.raises(QueryInvalid) as refused:
        profile(trace, by=[f"(select content from read_text('{secret}'))"])
    assert "hunter2" not in str(refused.value)


def test_a_recording_by_expression(spilled):
    rows = profile(spilled.path, by=["bytes >= 4096", "temp"]).rows
    waits = Recording.open(spilled.path).waits
    expected = Counter(
        (None if size is None else size >= 4096, temp)
        for size, temp in zip(waits["bytes"].to_pylist(), waits["temp"].to_pylist(), strict=True)
    )
    assert {(row["bytes >= 4096"], row["temp"]): row["count"] for row in rows} == expected


def test_samples_of_ash_by_expression(example):
    rows = profile(example / "ash.csv", by=["plan_line", "event is null"]).rows
    assert {row["event is null"]: row["count"] for row in rows} == {False: 435, True: 338}
