"""Tables of numpy columns: pyarrow reads them, returns them and computes the same sums."""

import os
import subprocess
import sys
import weakref

import numpy as np
import pyarrow as pa
import pytest

from cases import cases
from spillcast import _core
from spillcast.columns import BYTES, NAME, TEXT, ColumnValues, Field, struct_of
from spillcast.tables import Table

PAIR = struct_of({"line": "int64", "text": TEXT})
FIELDS = (
    Field("count", "int64"), Field("small", "uint8"), Field("share", "float64"),
    Field("is_temp", "bool"), Field("event", NAME), Field("file", TEXT), Field("raw", BYTES),
    Field("buckets", "list of int64"), Field("damage", f"list of {PAIR}"),
)  # fmt: skip
ROWS = [
    {"count": 1 << 60, "small": 255, "share": 0.5, "is_temp": True, "event": "read",
     "file": "/t/a", "raw": b"\0\xff", "buckets": [1, 2], "damage": [{"line": 1, "text": "x"}]},
    dict.fromkeys(field.name for field in FIELDS),
    {"count": -3, "small": 0, "share": -1e300, "is_temp": False, "event": "write",
     "file": "", "raw": b"", "buckets": [], "damage": [{"line": None, "text": None}] * 2},
]  # fmt: skip


def test_pyarrow_reads_and_returns_a_table():
    rows = Table.from_rows(ROWS, FIELDS)
    arrow = pa.table(rows)
    assert rows.to_pylist() == arrow.to_pylist() == ROWS
    # The import is slow for each test worker.
    from polars import DataFrame

    assert DataFrame(rows).to_dicts() == ROWS
    chunks = pa.concat_tables([arrow, arrow.slice(1, 2), arrow.slice(0, 0)])
    again = Table.from_arrow(chunks)
    assert again.to_pylist() == chunks.to_pylist()
    assert [field.type for field in again.fields] == [field.type for field in FIELDS]


@cases(
    ("kind", "values"),
    [
        (pa.large_string(), ["a", None, "a"]),
        (pa.string_view(), ["a", None, "b"]),
        (pa.dictionary(pa.int8(), pa.large_string()), ["b", "a", None]),
        (pa.int16(), [1, None, -1]),
        (pa.large_list(pa.float32()), [[0.5], None, []]),
    ],
)
def test_columns_of_other_arrow_types_are_read(kind, values):
    assert Table.from_arrow(pa.table({"x": pa.array(values, kind)}))["x"].to_pylist() == values


def test_times_dates_and_decimals_become_numbers():
    given = pa.table(
        {
            "time": pa.array([1_500, None], pa.timestamp("ms", "UTC")),
            "day": pa.array([2, None], pa.date32()),
            "number": pa.array(["12.50", None]).cast(pa.decimal128(10, 2)),
        }
    )
    [row, nothing] = Table.from_arrow(given).to_pylist()
    assert row == {"time": 1_500_000_000, "day": 2 * 86_400 * 10**9, "number": 12.5}
    assert set(nothing.values()) == {None}


def test_filter_sort_and_sums_equal_those_of_pyarrow():
    draws = np.random.default_rng(0)
    columns = {
        "op": ColumnValues.of(
            [[None, "read", "write"][n] for n in draws.integers(0, 3, 500)], NAME
        ),
        "size": ColumnValues.of(
            [None if n == 5 else int(n) for n in draws.integers(0, 6, 500)], "int64"
        ),
        "ns": draws.integers(0, 1 << 50, 500),
    }
    rows = Table(columns)
    arrow = pa.table(rows).set_column(0, "op", pa.table(rows)["op"].cast("string"))
    wanted = draws.random(500) < 0.5
    assert rows.filter(wanted).to_pylist() == arrow.filter(pa.array(wanted)).to_pylist()
    assert rows.take(slice(100, 107)).to_pylist() == arrow.slice(100, 7).to_pylist()
    keys = [("op", "ascending"), ("ns", "ascending")]
    assert rows.sort_by("op", "ns").to_pylist() == arrow.sort_by(keys).to_pylist()
    groups = rows.group_by("op", "size")
    expected = arrow.group_by(["op", "size"], use_threads=False).aggregate(
        [("ns", "sum"), ("ns", "max"), ("ns", "count")]
    )
    result = {
        **groups.keys.columns,
        "ns_sum": groups.sum(rows["ns"].values),
        "ns_max": groups.max(rows["ns"].values),
        "ns_count": groups.count(),
    }
    in_order = [sorted(rows.to_pylist(), key=str) for rows in (Table(result), expected)]
    assert in_order[0] == in_order[1]
    first_rows = list(
        dict.fromkeys(zip(*(arrow[name].to_pylist() for name in ("op", "size")), strict=True))
    )
    assert [tuple(row.values()) for row in groups.keys.to_pylist()] == first_rows


@cases(
    ("values", "kind"),
    [([1 << 40], "uint32"), ([-1], "uint64"), ([0.5], "int64"), (["1"], "int64"), ([300], "uint8")],
)
def test_a_value_that_another_type_cannot_hold_is_refused(values, kind):
    with pytest.raises(ValueError, match=kind):
        ColumnValues.of(ColumnValues.of(values), kind)


@cases(
    "nested, kind",
    [
        (ColumnValues.lists([np.array([1, 2]), np.array([3])]), TEXT),
        (ColumnValues.lists([np.array([1, 2]), np.array([3])]), "int64"),
        (ColumnValues.of([{"a": 1}, None], struct_of({"a": "int64"})), NAME),
    ],
)
def test_nested_values_are_not_converted_to_plain_ones(nested, kind):
    with pytest.raises(ValueError, match=kind):
        nested.cast(kind)


def test_an_unsupported_type_is_refused_on_access():
    rows = Table.from_arrow(pa.table({"n": [1], "t": pa.array([3], pa.duration("s"))}))
    assert rows["n"].to_pylist() == [1]
    with pytest.raises(ValueError, match="duration"):
        rows["t"].cast("int64")


#: DuckDB reads a table and a stream while it holds no GIL, on a thread that runs our code.
READ_BY_DUCKDB = """
import duckdb, numpy as np
from spillcast import _core
from spillcast.tables import Table

table = Table({"n": np.arange(10)})
[batch] = _core.Table.taken(table)
parts = iter([batch, batch, None])
with duckdb.connect() as connection:
    for rows in (table, _core.Stream(batch, lambda: next(parts))):
        connection.register("numbers", rows)
        answer = Table.from_arrow(connection.sql("select sum(n)::bigint as total from numbers"))
        print(answer["total"].to_pylist())
        connection.unregister("numbers")
"""


def test_duckdb_reads_and_releases_rows_without_holding_the_gil():
    # With this allocator Python ends at the first object that is freed without the GIL.
    checked = os.environ | {"PYTHONMALLOC": "debug"}
    run = subprocess.run(
        [sys.executable, "-c", READ_BY_DUCKDB], env=checked, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.split()) == (0, ["[45]", "[90]"]), run.stderr


def test_a_reader_frees_the_function_of_a_stream_when_it_ends():
    class Rows:
        def __call__(self):
            return None

    [batch] = _core.Table.taken(Table({"n": np.arange(10)}))
    rows = Rows()
    held = weakref.ref(rows)
    reader = pa.RecordBatchReader.from_stream(_core.Stream(batch, rows))
    del rows
    assert held() is not None
    # pyarrow releases the stream in C++, called by no code of ours.
    del reader
    assert held() is None
