"""A table fits any terminal without truncated numbers, and is equal in CSV and Markdown."""

import csv
import io
import re

from hypothesis import given
from hypothesis import strategies as st

from cases import cases
from spillcast.report import Drawing, Page, Prose
from spillcast.tabular import Column, Display, PrintedTable, cell_width, paragraph, shortened

NUMBERS = {
    "count": st.integers(0, 10**12),
    "s": st.floats(1e-9, 1e6),
    "bytes": st.integers(0, 1 << 50),
}
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=90)


@st.composite
def tables(draw):
    """Tables as in reports: up to three texts, and numbers, some of which may be dropped."""
    units = draw(st.lists(st.sampled_from(["text", "words", *NUMBERS]), min_size=1, max_size=8))
    columns = [
        Column(f"column {at}", f"key_{at}", unit, spare=draw(st.integers(0, 2)))
        for at, unit in enumerate(units)
    ]
    cell = [st.none() | NUMBERS.get(unit, TEXTS) for unit in units]
    return PrintedTable(
        columns, draw(st.lists(st.tuples(*cell), max_size=5)), draw(st.integers(0, 2))
    )


@given(tables(), st.integers(60, 200))
def test_no_line_is_longer_than_the_terminal(table, width):
    assert max(map(cell_width, table.text(width).splitlines()), default=0) <= width


@given(tables(), st.integers(60, 200))
def test_shown_numbers_are_not_truncated(table, width):
    text = " ".join(table.text(width).split())
    for at, column in enumerate(table.columns):
        if column.is_text or column.name not in text or column.spare:
            continue
        assert all(column.written(row[at]) in text for row in table.rows)


@given(tables())
def test_csv_has_exact_numbers(table):
    header, *rows = csv.reader(io.StringIO(table.csv()))
    assert header == [column.key for column in table.columns]
    assert len(rows) == len(table.rows)
    for row, read in zip(table.rows, rows, strict=True):
        for column, value, cell in zip(table.columns, row, read, strict=True):
            if value is None:
                assert cell == ""
            elif column.is_text:
                # A text that a spreadsheet would evaluate as a formula gets an apostrophe in front.
                formula = value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
                assert cell == f"'{value}" if formula else cell == value
            else:
                assert type(value)(cell) == value


@given(tables())
def test_markdown_has_equally_many_cells_in_each_line(table):
    lines = table.markdown().splitlines()
    assert len(lines) == 2 + len(table.rows)
    # An empty column is left out.
    full = [any(row[at] is not None for row in table.rows) for at in range(len(table.columns))]
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == (sum(full) or len(full)) + 1
        assert line.startswith("| ")
        assert line.endswith(" |")


NAMES = (
    Column("file", "file"),
    Column("time", "time_s", "s"),
    Column("most", "most_s", "s", spare=1),
)


def test_a_name_keeps_both_ends():
    table = PrintedTable(
        NAMES, [["/mnt/a/very/long/path/to/the/" + "temp/" * 9 + "file-0.tmp", 1.5, 2.5]]
    )
    (line,) = table.text(60).splitlines()[2:]
    name, *rest = line.split()
    assert rest == ["1.50", "s", "2.50", "s"]
    assert name.startswith("/mnt/a/")
    assert name.endswith("file-0.tmp")
    assert ".." in name
    assert len(line) == 60


def test_repeated_values_are_shown_once_but_always_in_csv():
    columns = [Column("op", "op"), Column("size", "bytes", "bytes")]
    table = PrintedTable(columns, [["read", 1024], ["read", 2048], ["write", 1024]], grouped=1)
    assert [line.split()[0] for line in table.text(60).splitlines()[2:]] == ["read", "2", "write"]
    assert table.csv() == "op,bytes\nread,1024\nread,2048\nwrite,1024\n"


def test_spare_columns_are_dropped_before_a_name_becomes_unreadable():
    columns = [Column("name", None), *(Column(f"number {n}", None, spare=n) for n in range(9))]
    columns = [columns[0], *(Column(c.name, None, "count", c.spare) for c in columns[1:])]
    table = PrintedTable(columns, [["n" * 40, *([1234567] * 9)]])
    header, _, line = table.text(60).splitlines()
    assert "number 0" in header
    assert "number 8" not in header
    assert len(line.split()[0]) >= 12


def test_a_row_too_wide_for_a_line_takes_several():
    columns = [Column(f"c{n}", None, "raw") for n in range(20)]
    text = PrintedTable(columns, [list(range(1_000_000, 1_000_020))]).text(60)
    assert [line.split() for line in text.splitlines()] == [
        [f"c{n}", str(1_000_000 + n)] for n in range(20)
    ]


@cases("width", range(4, 30))
def test_a_shortened_text_has_the_given_width(width):
    for text in ("x" * 30, "表" * 30, "a表" * 15):
        assert width - 2 <= cell_width(shortened(text, width)) <= width


def test_markdown_of_a_page_has_all_its_parts():
    table = PrintedTable([Column("a|b", "a"), Column("n", "n", "count")], [["x|y\n<script>", 1234]])
    page = Page(
        [Prose(["One."]), table, Drawing(lambda width: "#" * width), Prose(["  b", "  c"])], table
    )
    item, lines, drawn, answer = page.markdown().split("\n\n")
    assert item == "One."
    assert lines.splitlines()[0] == "| a\\|b | n |"
    assert lines.splitlines()[2] == "| x\\|y &lt;script> | 1,234 |"
    assert drawn == "```text\n" + "#" * 80 + "\n```"
    assert answer == "- b\n- c"


def test_a_sentence_is_not_broken_between_a_number_and_its_unit():
    text = paragraph("it takes " + "5 ms and " * 20, "  ", 60)
    assert max(map(len, text.splitlines())) <= 60
    assert not re.search(r"\d$", text, re.MULTILINE)


def test_names_contain_no_terminal_controls():
    display = Display("\x1b[2J of a storage", remarks=["\x9b31m"])
    assert not re.search("[\x1b\x9b]", display.text())
