"""Forms in which Oracle's clients export rows: wait views and ASH, each with the same answer."""

from datetime import datetime, timedelta
from itertools import zip_longest
from textwrap import wrap

import pytest

from cases import cases
from spillcast.errors import FileTooLarge, InputError
from spillcast.evidence import recognise, unwrap
from spillcast.evidence.open import find_evidence
from spillcast.evidence.oracle import spooled
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.table_rows import html_tables

WAITS = [
    {"SID": 133, "EVENT": "direct path read temp", "TOTAL_WAITS": 9434, "TIME_WAITED": 27464},
    {"SID": 133, "EVENT": "direct path write temp", "TOTAL_WAITS": 1368, "TIME_WAITED": 6036},
]
_EVENTS = ["", *(row["EVENT"] for row in WAITS)]
SAMPLES = [
    {
        "SAMPLE_TIME": f"14-OCT-24 10.00.{second:02}.000 AM",
        "SESSION_ID": 133,
        "SESSION_STATE": "WAITING" if second % 3 else "ON CPU",
        "EVENT": _EVENTS[second % 3],
        "TIME_WAITED": 4000 if second % 3 else 0,
    }
    for second in range(12)
]


def printed(rows):
    """print_table of Ask Tom."""
    fields = ("".join(f"{name:30}: {cell}\n" for name, cell in row.items()) for row in rows)
    return "".join(f"{text}-----------------\n" for text in fields)


def developer_xml(rows):
    cell = '\t\t<COLUMN NAME="{}"><![CDATA[{}]]></COLUMN>\n'
    texts = ("".join(cell.format(*pair) for pair in row.items()) for row in rows)
    body = "".join(f"\t<ROW>\n{text}\t</ROW>\n" for text in texts)
    return f"<?xml version='1.0' encoding='UTF8' ?>\n<RESULTS>\n{body}</RESULTS>\n"


def developer_inserts(rows):
    def literal(cell):
        if str(cell).endswith("AM"):
            return f"to_timestamp('{cell}','DD-MON-RR HH.MI.SSXFF AM')"
        return f"'{cell}'" if isinstance(cell, str) and cell else cell if cell != "" else "null"

    lines = (
        f"Insert into EXPORT_TABLE ({','.join(row)}) values "
        f"({','.join(str(literal(cell)) for cell in row.values())});\n"
        for row in rows
    )
    return "REM INSERTING into EXPORT_TABLE\nSET DEFINE OFF;\n" + "".join(lines)


def stacked(rows):
    """SQL*Plus with lines of 80 characters: the last columns are in a line of their own."""

    def lines(row, dash=" "):
        widths = [64 if name == "EVENT" else 28 for name in row]
        sides = [">" if isinstance(cell, int) else "<" for cell in row.values()]
        cells = [
            f"{cell:{dash}{side}{width}}"
            for cell, side, width in zip(row.values(), sides, widths, strict=True)
        ]
        return f"{' '.join(cells[:2])}\n{' '.join(cells[2:])}\n"

    names = {name: name for name in rows[0]}
    heading = "".join(
        "\n".join(parts) + "\n"
        for parts in zip(
            lines(names).splitlines(),
            lines(dict.fromkeys(names, ""), "-").splitlines(),
            strict=True,
        )
    )
    pages = [rows[at : at + 5] for at in range(0, len(rows), 5)]
    return "\n".join(heading + "\n".join(map(lines, page)) for page in pages) + "\n"


def numbered(rows):
    """The grid of PL/SQL Developer, with an empty cell above the numbers of the rows."""
    cells = [["", *rows[0]], *([n, *row.values()] for n, row in enumerate(rows, 1))]
    return "".join("\t".join(map(str, row)) + "\n" for row in cells)


def boxed(rows):
    """DuckDB, which prints the types of columns below their names."""
    types = ["int64" if isinstance(cell, int) else "varchar" for cell in rows[0].values()]
    cells = [list(rows[0]), types, *(row.values() for row in rows)]
    heading, kinds, *body = (f"│ {' │ '.join(f'{cell:>22}' for cell in row)} │\n" for row in cells)
    rule = "─" * 24
    top, middle, end, bottom = (
        f"{begin}{joint.join([rule] * len(types))}{end}\n"
        for begin, joint, end in ("┌┬┐", "├┼┤", "├┴┤", "└─┘")
    )
    counts = f"│ {len(rows)} rows{len(types):>80} columns │\n"
    return f"{top}{heading}{kinds}{middle}{''.join(body)}{end}{counts}{bottom}"


def frame(rows):
    """pandas."""
    lines = [["", *rows[0]], *([at, *row.values()] for at, row in enumerate(rows))]
    return "".join(f"{at:<2}" + "".join(f"{cell:>24}" for cell in row) + "\n" for at, *row in lines)


def confluence(rows):
    body = "".join(f"|{'|'.join(map(str, row.values()))}|\n" for row in rows)
    return f"||{'||'.join(rows[0])}||\n{body}"


def loader(rows):
    """SQLcl, which ends each row with a bar."""
    rows = [list(rows[0]), *(row.values() for row in rows)]
    cells = [[f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in row] for row in rows]
    return "".join(f"{'|'.join(row)}|\n" for row in cells)


def powershell(rows):
    fields = ("".join(f"{name:13}: {cell}\n" for name, cell in row.items()) for row in rows)
    return "".join(f"{text}\n" for text in fields)


def html(rows):
    """HTML does not require the ends of rows and cells."""
    body = "".join(f"<tr>{''.join(f'<td>{cell}' for cell in row.values())}" for row in rows)
    return f"<table><tr>{''.join(f'<th>{name}' for name in rows[0])}{body}</table>"


def grid(rows, width=24):
    """A grid table of reStructuredText has a rule between rows; a cell may have several lines."""
    heading, *body = (
        "".join(
            f"|{'|'.join(f' {part:{width}} ' for part in parts)}|\n"
            for parts in zip_longest(*(wrap(str(cell), width) for cell in cells), fillvalue="")
        )
        for cells in [list(rows[0]), *(row.values() for row in rows)]
    )
    rule, double = (f"+{(stroke * (width + 2) + '+') * len(rows[0])}\n" for stroke in "-=")
    return rule + heading + double + "".join(f"{line}{rule}" for line in body)


def outline(rows):
    """The same, but each line is a row."""
    lines = grid(rows, width=30).splitlines(True)
    return "".join(line for at, line in enumerate(lines) if at < 4 or "---" not in line) + lines[0]


def narrow_grid(rows):
    return grid(rows, width=14)


def words(rows):
    """CSV of Metabase and Excel, whose headings are in words."""
    heading = ",".join(name.replace("_", " ").title() for name in rows[0])
    return f"{heading}\n" + "".join(f"{','.join(map(str, row.values()))}\n" for row in rows)


FORMS = [printed, powershell, developer_xml, developer_inserts, stacked]


@cases(
    "form",
    [
        *FORMS,
        numbered,
        boxed,
        frame,
        confluence,
        loader,
        repr,
        html,
        grid,
        outline,
        narrow_grid,
        words,
    ],
)
def test_rows_of_a_wait_view(figures, form):
    result = figures(form(WAITS), elapsed_s=600)
    assert (result.reads.count, result.writes.count) == (9434, 1368)
    assert result.total_s == pytest.approx(335)


@cases("form", FORMS)
def test_rows_that_are_cut_within_their_last_number_are_refused(figures, form):
    text = form(WAITS)
    with pytest.raises(InputError):
        figures(text[: text.rindex("6036") + 2], elapsed_s=600)


@cases(
    ("form", "line"),
    [
        (printed, "-----------------\n"),
        (developer_xml, "\t</ROW>\n\t<ROW>\n"),
        (stacked, f"{9434:>28} {27464:>28}\n"),
    ],
)
def test_rows_without_one_of_their_lines_are_refused(figures, form, line):
    text = form(WAITS)
    assert line in text
    with pytest.raises(InputError):
        figures(text.replace(line, "", 1), elapsed_s=600)


def test_rows_in_lines_of_which_some_are_blank_are_refused(tmp_path):
    """The event of a session on CPU is null; it is alone in its line."""
    names = ["SAMPLE_TIME", "EVENT", "SESSION_ID"]
    heading = "".join(f"{name:30}\n{'-' * 30}\n" for name in names)
    rows = "".join(f"{row[name]}\n" for row in SAMPLES for name in names)
    (path := tmp_path / "ash.txt").write_text(heading + rows)
    with pytest.raises(InputError):
        read_ash(path)


def test_a_quote_behind_a_number_is_no_part_of_it(figures):
    text = developer_inserts(WAITS).replace("27464", "2746'")
    with pytest.raises(InputError):
        figures(text, elapsed_s=600)


@cases("form", [printed, developer_xml])
def test_values_that_continue_in_another_line_are_refused(figures, form):
    with pytest.raises(InputError):
        figures(form(WAITS).replace("path read", "path\nread"), elapsed_s=600)


def objects(rows):
    """Rows of python-oracledb, whose times are objects."""
    times = [datetime(2024, 10, 14, 10, 0, second) for second in range(len(rows))]
    return repr([{**row, "SAMPLE_TIME": at} for row, at in zip(rows, times, strict=True)])


@cases("form", [*FORMS, words, objects])
def test_samples_of_ash(tmp_path, form):
    (path := tmp_path / "ash.txt").write_text(form(SAMPLES))
    assert find_evidence([path]).ash == [path]
    samples = read_ash(path).samples
    assert samples.num_rows == 12
    events = samples["event"].to_pylist()
    assert [events.count(row["EVENT"]) for row in WAITS] == [4, 4]


@cases("form", FORMS)
def test_exports_have_no_length_at_which_they_are_not_unwrapped(tmp_path, monkeypatch, form):
    monkeypatch.setattr(unwrap, "LENGTH_MAX", 1000)
    (path := tmp_path / "ash.txt").write_text(form(SAMPLES))
    assert path.stat().st_size > 1000
    assert read_ash(path).samples.num_rows == 12


def test_commands_that_are_too_long_to_unwrap_are_refused(tmp_path, monkeypatch):
    """The beginning by which the kind is recognised ends within a row."""
    monkeypatch.setattr(recognise, "_UNWRAPPED_LENGTH", 1000)
    monkeypatch.setattr(spooled, "_UNWRAPPED_BYTES_MAX", 1000)
    (path := tmp_path / "ash.sql").write_text(developer_inserts(SAMPLES))
    assert find_evidence([path]).ash == [path]
    with pytest.raises(FileTooLarge):
        read_ash(path)


def test_a_long_csv_may_contain_commands_in_its_statements(tmp_path, monkeypatch):
    monkeypatch.setattr(spooled, "_UNWRAPPED_BYTES_MAX", 100)
    command = '"\ninsert into t (a, b)\nvalues (1, 2)"'
    rows = [
        f"2024-10-14 10:00:{s:02},133,WAITING,direct path read temp,{command}" for s in range(9)
    ]
    text = "\n".join(["SAMPLE_TIME,SESSION_ID,SESSION_STATE,EVENT,SQL_TEXT", *rows])
    (path := tmp_path / "ash.csv").write_text(text)
    assert read_ash(path).samples.num_rows == 9


def test_a_box_without_some_of_its_rows_is_refused(figures):
    above, last, below = boxed(WAITS).rpartition("├")
    left_out = f"│ {' │ '.join([f'{chr(183):^22}'] * len(WAITS[0]))} │\n"
    with pytest.raises(InputError):
        figures(f"{above}{left_out * 3}{last}{below}", elapsed_s=600)


def test_a_cell_of_several_rows_whose_ends_are_missing():
    (table,) = html_tables("<table><tr><td>a<td rowspan=2>b<tr><td>c<tr><td>d<td>e</table>")
    assert [[text for _, text in row] for row in table] == [["a", "b"], ["c", "b"], ["d", "e"]]


@cases("unit", [1, 1000, 1_000_000, 1_000_000_000])
def test_samples_with_times_since_1970(tmp_path, unit):
    rows = "".join(
        f"{(1728900000 + s) * unit},133,WAITING,{WAITS[0]['EVENT']}\n" for s in range(12)
    )
    (path := tmp_path / "ash.csv").write_text(f"SAMPLE_TIME,SESSION_ID,SESSION_STATE,EVENT\n{rows}")
    ash = read_ash(path)
    assert ash.began == datetime(2024, 10, 14, 10)
    assert ash.samples["time_ns"].to_pylist() == [s * 10**9 for s in range(12)]


def test_samples_with_times_of_a_spreadsheet(tmp_path):
    """The day of 1970-01-01 is 25569 in Excel and LibreOffice."""
    begin = datetime(2024, 10, 14, 10)
    days = (begin - datetime(1970, 1, 1)) / timedelta(days=1) + 25569
    rows = "".join(f"{days + s / 86400:.9f},133,WAITING,{WAITS[0]['EVENT']}\n" for s in range(12))
    (path := tmp_path / "ash.csv").write_text(f"SAMPLE_TIME,SESSION_ID,SESSION_STATE,EVENT\n{rows}")
    ash = read_ash(path)
    assert abs(ash.began - begin) < timedelta(milliseconds=1)
    # A unit in the last place is 86 us.
    seconds = [ns / 1e9 for ns in ash.samples["time_ns"].to_pylist()]
    assert seconds == pytest.approx(list(range(12)), abs=1e-3)


def test_sqlcl_underlines_with_low_lines(figures):
    text = (
        "   SID EVENT                    TOTAL_WAITS    TIME_WAITED \n"
        "______ ________________________ ______________ ______________ \n"
        "   133 direct path read temp             9,434         27,464 \n"
        "   133 direct path write temp            1,368          6,036 \n\n2 rows selected. \n"
    )
    assert figures(text, elapsed_s=600).total_s == pytest.approx(335)


#: A profile of a trace, in which calls took less than their waits and CPU time.
REDUCED = """\
Total Number of Duration per
Component Duration [s] % Events Events [s]
---------------------- ------------ ------- --------- ------------
direct path read temp 20.000 50.000 10,000 0.002
CPU 16.500 41.250 n/a n/a
direct path write temp 6.000 15.000 3,000 0.002
unaccounted-for -2.500 -6.250 n/a n/a
---------------------- ------------ -------
Total 40.000 100.000
"""


def test_a_page_that_reduces_blanks(figures):
    result = figures(REDUCED)
    assert (result.elapsed_s, result.total_s) == (40, pytest.approx(26))
    assert (result.reads.count, result.writes.count) == (10_000, 3_000)
