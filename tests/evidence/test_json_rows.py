"""Rows of pg_stat_statements in JSON of clients, data frames and monitors, and in strings."""

import json
import re
from contextlib import suppress

import pytest
from programs import broken

from cases import cases
from spillcast.errors import EvidenceDamaged, InputError
from spillcast.evidence.postgres.statements import read_rows
from spillcast.evidence.recognise import recognise

ROWS = [
    {"queryid": "77", "query": "select a", "calls": 4, "total_exec_time": 1002.0,
     "parallel_workers_launched": None, "temp_blks_read": 600, "temp_blks_written": 800},
    {"queryid": "78", "query": "select b", "calls": 2, "total_exec_time": 3.5,
     "parallel_workers_launched": 4, "temp_blks_read": 0, "temp_blks_written": 0},
]  # fmt: skip
NAMES = list(ROWS[0])
CELLS = [list(row.values()) for row in ROWS]
COLUMNS = {name: [row[name] for row in ROWS] for name in NAMES}
#: There are equally many rows and columns, so that cells by row and by column have one shape.
SQUARE = [{**ROWS[0], "queryid": str(number)} for number in range(len(NAMES))]
FIELDS = [{"name": name, "type": "number"} for name in NAMES]


def camel(name):
    """A name as JavaScript and Java spell it."""
    first, *words = name.split("_")
    return first + "".join(map(str.title, words))


def kind_of(cell):
    """The name that the Data API of RDS gives to the type of a cell."""
    kinds = {str: "stringValue", int: "longValue", float: "doubleValue"}
    return kinds.get(type(cell), "isNull")


SHAPES = {
    "rows": ROWS,
    "rows and names": {"columns": FIELDS, "rows": ROWS},
    "split": {"columns": NAMES, "index": [0, 1], "data": CELLS},
    "cells and fields": {"command": "SELECT", "fields": FIELDS, "rows": CELLS},
    "compact": {"meta": FIELDS, "data": CELLS, "rows": 2},
    "heading": [NAMES, *CELLS],
    "camel case": {"data": [{camel(name): cell for name, cell in row.items()} for row in ROWS]},
    "by column": COLUMNS,
    "frame by column": {n: dict(zip("01", cells, strict=True)) for n, cells in COLUMNS.items()},
    "frame by row": dict(zip("01", ROWS, strict=True)),
    "redash": {"query_result": {"id": 5, "data": {"columns": FIELDS, "rows": ROWS}}},
    "grafana": {"results": {"A": {"status": 200, "frames": [
        {"schema": {"refId": "A", "fields": FIELDS}, "data": {"values": list(COLUMNS.values())}},
    ]}}},
    "datadog": {"data": [{"id": "1", "type": "row", "attributes": row} for row in ROWS]},
    "hits": {"took": 3, "hits": {"total": 2, "hits": [{"_source": row} for row in ROWS]}},
    "results": {"results": [{"columns": FIELDS, "items": ROWS}]},
    # The Data API of RDS names the type of each cell.
    "typed": {"columnMetadata": FIELDS, "records": [
        [{kind_of(cell): cell is None or cell} for cell in row] for row in CELLS
    ]},
}  # fmt: skip


@cases("shape", SHAPES)
def test_every_shape_gives_the_same_rows(tmp_path, shape):
    (plain := tmp_path / "plain.json").write_text(json.dumps(ROWS))
    (path := tmp_path / "rows.json").write_text(json.dumps(SHAPES[shape], indent=1))
    assert recognise(path).name == "statements"
    rows = read_rows(path)
    assert [row.blocks for row in rows] == [1400, 0]
    assert rows == read_rows(plain)


def test_rows_beside_a_heading_in_camel_case_keep_their_text(rows_of):
    text = json.dumps([list(map(camel, NAMES)), ["77", "select maxId from B", 4, 9.5, None, 6, 8]])
    assert [(row.query, row.blocks) for row in rows_of(text)] == [("select maxId from B", 14)]


TWICE = ["calls", "total_exec_time", "temp_blks_read", "temp_blks_read", "temp_blks_written"]


@cases("text", [
    json.dumps([TWICE, [2, 3000, 500, 600, 700]]),
    "\n".join(map(json.dumps, (TWICE, [2, 3000, 500, 600, 700]))),
    ",".join([*TWICE[:3], "temp_blks read", TWICE[4]]) + "\n2,3000,500,600,700\n",
])  # fmt: skip
def test_two_figures_of_a_column_are_refused(rows_of, text):
    with pytest.raises(EvidenceDamaged):
        rows_of(text)


@cases("key", [r'"\1"=>', r":\1=>", r"\1: "])
def test_rows_as_ruby_prints_them(rows_of, key):
    rows = [{**row, "toplevel": None} for row in ROWS]
    printed = re.sub(r'"(\w+)": ', key, json.dumps(rows)).replace("null", "nil")
    assert [row.blocks for row in rows_of(printed + "\n")] == [1400, 0]


_FIRST, _SECOND = map(json.dumps, ROWS)
_CSV = [",".join(map(str, cells)) for cells in (NAMES, *CELLS)]


@cases("text", [
    f"{_FIRST}\n{'-' * 40}\n{_SECOND}\n",
    f"{_FIRST}\n\x1b[31m{_SECOND}\x1b[0m\n",
    f"{_FIRST}  <-- the slow one\n{_SECOND}\n",
    f"{_FIRST}\nThe next one is slower: {_SECOND}\n",
    "".join(f"{at}\t{line}\n" for at, line in enumerate(_CSV, 10)),
    "\n".join(_CSV).replace("select a", "select a &lt; 5"),
    # JSONCompactEachRowWithNames of ClickHouse.
    "\n".join(map(json.dumps, (NAMES, *CELLS))),
])  # fmt: skip
def test_a_text_that_begins_with_its_table_may_be_wrapped_below(rows_of, text):
    rows = rows_of(text)
    assert [(row.queryid, row.blocks) for row in rows] == [("77", 1400), ("78", 0)]
    assert "&lt;" not in rows[0].query


@cases("by_column", [False, True])
def test_cells_are_numbers_or_text_in_a_square_table(rows_of, by_column):
    cells = [list(row.values()) for row in SQUARE]
    values = [list(column) for column in zip(*cells, strict=True)] if by_column else cells
    rows = rows_of(json.dumps({"fields": FIELDS, "values": values}))
    assert [row.written_blocks for row in rows] == [800] * len(NAMES)


def test_no_row_is_lost_where_a_terminal_wrapped_the_text(tmp_path):
    """A string or a name may be wrapped: quotes then end where others begin."""
    text = "\n".join(map(json.dumps, ROWS)).join("[]").replace("}\n", "},\n ")
    path = tmp_path / "rows.json"
    for width in range(20, 120):
        path.write_text(broken(text, width))
        with suppress(InputError):
            assert [row.blocks for row in read_rows(path)] == [1400, 0], width


@cases("text", ["{}", "Rows:\n\n```json\n{}```\n", "Rows:\n{}\nAny ideas?\n"])
def test_rows_in_text_are_read_and_a_cut_row_is_not_text(tmp_path, text):
    first, second = map(json.dumps, ROWS)
    path = tmp_path / "rows.txt"
    path.write_text(text.format(f"{first}\n{second}\n"))
    assert [row.blocks for row in read_rows(path)] == [1400, 0]
    path.write_text(text.format(f"{second}\n{first[:-12]}\n"))
    with pytest.raises(InputError):
        read_rows(path)


def test_a_fenced_row_in_several_lines_is_read_under_other_names_of_columns(tmp_path):
    row = {"calls": 8, "total_ms": 4000.5, "temp_read_bytes": 8192, "temp_written_bytes": 16384}
    (path := tmp_path / "rows.md").write_text(f"```\n{json.dumps([row], indent=1)}\n```\nHelp!\n")
    assert recognise(path) is not None
    assert [row.blocks for row in read_rows(path)] == [3]


HEADING, *LINES = (",".join(map(str, row)) for row in (NAMES, *CELLS))
CSV = "\n".join([HEADING, *LINES])
PSQL = "\n".join(
    [HEADING.replace(",", " | "), "--+--", *(row.replace(",", " | ") for row in LINES)]
)
STRINGS = {
    "go": (
        'cases := []Case{{\n\t{\n\t\tname: "two",\n\t\tcsv: `{}`,\n\t\tcount: 2,\n\t},\n}}',
        CSV,
    ),
    "python": (
        'TABLE = """\\\n{}\n"""\n\n\ndef test_rows():\n    assert len(rows(TABLE)) == 2\n',
        CSV,
    ),
    "lines": ("var rows = {};\n", " +\n    ".join(f'"{line}\\n"' for line in (HEADING, *LINES))),
    "json": ("{}", json.dumps({"rc": 0, "output": PSQL, "host": "db1"}, indent=1)),
    "beside its query": (
        'sql = "select queryid, calls, temp_blks_read from t"\nout = `{}`\n',
        PSQL,
    ),
}


@cases("name", STRINGS)
def test_a_table_in_a_string_is_read_if_it_is_the_only_one(rows_of, name):
    code, table = STRINGS[name]
    text = code.replace("{}", table) if name == "json" else code.replace("{}", table, 1)
    assert [row.blocks for row in rows_of(text)] == [1400, 0]
    with pytest.raises(InputError):
        rows_of(f"{text}\n{text}")
    for at in (text.index("800") - 2, text.index("800") + 5):
        with pytest.raises(InputError):
            rows_of(text[:at])
