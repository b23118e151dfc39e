"""The gate: what is too long, too deep, or makes no sense is refused by the file's name."""

import csv
import json
import math
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import cases
from spillcast import gate
from spillcast.errors import EvidenceDamaged, FileUnreadable, InputError, PathMissing

SCHEMA = pa.schema(
    [
        pa.field("count", pa.int64(), False),
        pa.field("name", pa.dictionary(pa.int32(), pa.string())),
        pa.field("mean_s", pa.float64()),
        pa.field("buckets", pa.list_(pa.int64()), False),
    ]
)
ROWS = {"count": [1, 2], "name": ["a", None], "mean_s": [0.5, None], "buckets": [[], [3]]}


def refused(words):
    return pytest.raises(InputError, match=words)


def table(path, **changes):
    """A Parquet file of ROWS with other columns in place of some; None leaves one out."""
    columns = {name: column for name, column in (ROWS | changes).items() if column is not None}
    arrays = [
        pa.array(column, SCHEMA.field(name).type) if name not in changes else pa.array(column)
        for name, column in columns.items()
    ]
    pq.write_table(pa.table(arrays, list(columns)), path)
    return path


def test_a_table_that_is_as_it_should_be(tmp_path):
    assert gate.table_of(table(tmp_path / "t.parquet"), SCHEMA).to_pydict() == ROWS


def test_columns_that_may_be_null_may_lack_and_others_are_left_out(tmp_path):
    found = gate.table_of(table(tmp_path / "t.parquet", name=None, later=[1, 2]), SCHEMA)
    assert found.to_pydict() == ROWS | {"name": [None, None]}


@cases(
    ("changes", "words"),
    [
        ({"count": None}, "there is no column count"),
        ({"count": ["1", "2"]}, "column count holds string, not int64"),
        ({"count": [1, None]}, "count is empty in 1 row"),
        ({"count": [1, -2]}, "count is -2 in some row"),
        ({"count": [1, 1 << 60]}, "count is 1,152,921,504,606,846,976 in some row"),
        ({"mean_s": [math.nan, 1.0]}, "mean_s is not finite"),
        ({"mean_s": [1.0, -math.inf]}, "mean_s is not finite"),
        ({"mean_s": [1.0, -0.5]}, r"mean_s is -0\.5"),
        ({"buckets": [[1], [-3]]}, "buckets is -3"),
        ({"buckets": [[1], [None]]}, "buckets is empty in 1 row"),
    ],
)
def test_what_makes_no_sense_is_named_with_its_file_and_column(changes, words, tmp_path):
    path = table(tmp_path / "t.parquet", **changes)
    with refused(rf"t\.parquet: cut or damaged: {words}"):
        gate.table_of(path, SCHEMA)


def test_numbers_of_names_may_be_negative(tmp_path):
    path = table(tmp_path / "t.parquet", count=[-1, 2])
    assert gate.table_of(path, SCHEMA, signed={"count"})["count"].to_pylist() == [-1, 2]


def test_a_table_that_is_cut_or_none(tmp_path):
    path = table(tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    with refused(r"t\.parquet: cut or damaged: "):
        gate.table_of(path, SCHEMA)
    with refused(r"gone\.parquet: cut or damaged: there is no such file"):
        gate.table_of(tmp_path / "gone.parquet", SCHEMA)


def test_text_of_another_coding_is_found(tmp_path):
    bad = pa.array([b"\xff\xfe", b"b"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({**ROWS, "name": bad}), tmp_path / "t.parquet")
    with refused(r"t\.parquet: cut or damaged: .*UTF"):
        gate.table_of(tmp_path / "t.parquet", SCHEMA)


def test_more_rows_than_memory_can_hold_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "_MEMORY_SHARE", 1e-12)
    with refused(r"t\.parquet: 2 rows, which would take"):
        gate.table_of(table(tmp_path / "t.parquet"), SCHEMA)


@cases(
    ("text", "words"),
    [
        ('{"a": {"b": NaN}}', "not JSON"),
        ('{"a": {"b": 1e999}}', "out of range"),
        ('{"a": [1, 1' + "0" * 30 + "]}", "a number is above"),
        ('{"a": "\\ud800"}', "not JSON"),
        ("[" * 100_000, "nested deeper than"),
        ("[" * 500 + "]" * 500, "nested deeper than"),
        ('{"a": ', "not JSON"),
    ],
)
def test_json_that_no_reader_can_use(text, words):
    with refused(rf"x\.json: cut or damaged: .*{words}"):
        gate.json_of(text, "x.json")


def test_json_is_as_deep_as_a_plan_may_be():
    deep = "[" * (gate.DEPTH_MAX - 1) + "]" * (gate.DEPTH_MAX - 1)
    assert json.dumps(gate.json_of(deep, "x.json")) == deep


def test_json_that_is_too_long_is_not_parsed():
    with refused(r"^x\.json: more than 32 MiB of JSON$"):
        gate.json_of(" " * (gate.JSON_LENGTH_MAX + 1), "x.json")
    with refused(r"^x\.json: more than 1,000,000 lists and objects"):
        gate.json_of("[" + "[]," * gate.JSON_PARTS_MAX + "1]", "x.json")


def test_text_that_is_too_long_is_not_read(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"x" * 1025)
    assert len(gate.text_of(path, bytes_max=1025)) == 1025
    with refused(r"x\.txt: more than 0 MiB"):
        gate.text_of(path, bytes_max=1024)


def test_what_a_reader_did_not_expect_is_told_of_its_file_and_place():
    with refused(r"^run\.trc: cut or damaged: it lacks 'x'$"), gate.reading("run.trc"):
        {}["x"]


def test_what_is_said_already_stays_as_it_is():
    with refused("^other: is this$"), gate.reading("run.trc"):
        raise InputError("other: is this")


@cases("fault", [AttributeError, TypeError, NameError, AssertionError])
def test_a_fault_of_ours_is_no_damage(fault):
    with pytest.raises(fault), gate.reading("file"):
        raise fault


@cases("damage", [ValueError, KeyError, ZeroDivisionError, EOFError, csv.Error, zipfile.BadZipFile])
def test_what_a_parser_raises_is_damage(damage):
    with pytest.raises(EvidenceDamaged, match="file"), gate.reading("file"):
        raise damage("unexpected")


def test_a_file_that_is_missing_cut_or_closed_has_a_code_of_its_own(tmp_path):
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(b"PA")
    for path, kind in ((tmp_path / "gone", PathMissing), (tmp_path, FileUnreadable)):
        with pytest.raises(kind):
            gate.text_of(path)
    with pytest.raises(EvidenceDamaged):
        gate.any_table_of(cut)
