"""Parquet files: missing, mistyped or impossible values are refused by the file's name."""

import math
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arrow_schemas import arrow_schema
from cases import cases
from spillcast import tables
from spillcast.columns import NAME, Field
from spillcast.errors import EvidenceDamaged, InputError

FIELDS = (
    Field("count", "int64", False),
    Field("name", NAME),
    Field("mean_s", "float64"),
    Field("buckets", "list of int64", False),
)
TYPES = arrow_schema(FIELDS)
ROWS = {"count": [1, 2], "name": ["a", None], "mean_s": [0.5, None], "buckets": [[], [3]]}


def refused(words):
    return pytest.raises(InputError, match=words)


def table(path, **changes):
    """A Parquet file of ROWS with some columns replaced; None leaves a column out."""
    columns = {name: column for name, column in (ROWS | changes).items() if column is not None}
    arrays = [
        pa.array(column, TYPES.field(name).type) if name not in changes else pa.array(column)
        for name, column in columns.items()
    ]
    pq.write_table(pa.table(arrays, list(columns)), path)
    return path


def columns_of(result):
    return {name: column.to_pylist() for name, column in result.columns.items()}


def test_a_valid_table_is_read(tmp_path):
    assert columns_of(tables.ParquetTable(table(tmp_path / "t.parquet"), FIELDS).read()) == ROWS


def test_nullable_columns_may_be_missing_and_unknown_ones_are_ignored(tmp_path):
    result = tables.ParquetTable(
        table(tmp_path / "t.parquet", name=None, later=[1, 2]), FIELDS
    ).read()
    assert columns_of(result) == ROWS | {"name": [None, None]}


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
def test_an_impossible_value_is_named_with_its_file_and_column(changes, words, tmp_path):
    path = table(tmp_path / "t.parquet", **changes)
    with refused(rf"t\.parquet: cut or damaged: {words}"):
        tables.ParquetTable(path, FIELDS).read()


def test_columns_declared_as_signed_may_be_negative(tmp_path):
    path = table(tmp_path / "t.parquet", count=[-1, 2])
    assert tables.ParquetTable(path, FIELDS, signed={"count"}).read()["count"].to_pylist() == [
        -1,
        2,
    ]


def test_damage_that_panics_the_reader_prints_nothing(tmp_path, capfd):
    path = table(tmp_path / "t.parquet")
    content = path.read_bytes()
    for at in range(4, len(content)):
        path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
        with suppress(InputError):
            tables.any_table_of(path)
    assert not capfd.readouterr().err


def test_a_truncated_or_missing_table_is_refused(tmp_path):
    path = table(tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    with refused(r"t\.parquet: cut or damaged: "):
        tables.ParquetTable(path, FIELDS).read()
    with refused(r"gone\.parquet: cut or damaged: there is no such file"):
        tables.ParquetTable(tmp_path / "gone.parquet", FIELDS).read()


def test_text_that_is_not_utf8_is_refused(tmp_path):
    bad = pa.array([b"\xff\xfe", b"b"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({**ROWS, "name": bad}), tmp_path / "t.parquet")
    with refused(r"t\.parquet: cut or damaged: .*UTF"):
        tables.ParquetTable(tmp_path / "t.parquet", FIELDS).read()


def test_more_rows_than_memory_can_hold_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_MEMORY_SHARE", 1e-12)
    with refused(r"t\.parquet: 2 rows, which would take"):
        tables.ParquetTable(table(tmp_path / "t.parquet"), FIELDS).read()


def test_a_file_without_an_end_is_damaged(tmp_path):
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(b"PA")
    with pytest.raises(EvidenceDamaged):
        tables.any_table_of(cut)


@cases("compression", ["none", "snappy", "gzip", "lz4", "zstd"])
def test_files_of_pyarrow_are_read_with_any_compression(compression, tmp_path):
    path = tmp_path / "t.parquet"
    rows = pa.table({name: pa.array(ROWS[name] * 500, TYPES.field(name).type) for name in ROWS})
    pq.write_table(rows, path, compression=compression, row_group_size=300)
    assert tables.ParquetTable(path, FIELDS).read().to_pylist() == rows.to_pylist()
    assert [len(part) for part in tables.ParquetTable(path, FIELDS).batches(rows=250)] == [250] * 4
    result = tables.ParquetTable(Path("elsewhere"), FIELDS, content=path.read_bytes()).read()
    assert result.to_pylist() == rows.to_pylist()


def test_pyarrow_reads_the_written_files(tmp_path):
    path = tmp_path / "t.parquet"
    rows = tables.ParquetTable(table(tmp_path / "given.parquet"), FIELDS).read()
    tables.write_parquet(path, rows, group_rows=1, key_values={"spillcast": "{}"})
    assert pq.read_table(path).to_pylist() == rows.to_pylist()
    about = pq.read_metadata(path)
    assert (about.num_row_groups, about.metadata[b"spillcast"]) == (2, b"{}")
