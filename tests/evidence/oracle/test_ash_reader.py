"""ASH exports in the formats that clients write, against the rows they were written from."""

import bz2
import gzip
import json
import lzma
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import cases
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    InputError,
    PathMissing,
    SelectionEmpty,
)
from spillcast.evidence.open import find_evidence
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.selection import Filter
from spillcast.recording.schema import SAMPLES

READ = "direct path read temp"
START = datetime(2024, 10, 14, 12, 34, 56, 789_000)
#: second, session, state, event, time waited in us, p3
ROWS = [
    (0, 815, "WAITING", READ, 19_305, 31),
    (1, 815, "ON CPU", "", 0, 31),
    (2, 815, "WAITING", "cell smart table scan", 1_234, 0),
]
HEADING = ["SAMPLE_TIME", "SESSION_ID", "SESSION_STATE", "EVENT", "TIME_WAITED", "P3"]


def written(text, tmp_path, name="ash.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def texts(rows=ROWS, stamp="%Y-%m-%d %H:%M:%S.%f"):
    """The rows as text, time first."""
    return [
        [(START + timedelta(seconds=row[0])).strftime(stamp), *map(str, row[1:])] for row in rows
    ]


def assert_rows(ash, rows=ROWS):
    assert [row["time_ns"] for row in ash.samples.to_pylist()] == [row[0] * 10**9 for row in rows]
    assert ash.samples["session"].to_pylist() == [row[1] for row in rows]
    assert ash.samples["event"].to_pylist() == [row[3] or None for row in rows]
    assert ash.samples["time_waited_us"].to_pylist() == [row[4] for row in rows]
    assert ash.samples["p3"].to_pylist() == [row[5] for row in rows]
    assert ash.damaged == []


def joined(separator, lines):
    return "\n".join(separator.join(line) for line in lines) + "\n"


def quoted(lines):
    return [[f'"{cell}"' for cell in line] for line in lines]


def fixed(colsep, lines, heading=HEADING):
    """As SQL*Plus prints: padded columns, the heading underlined and repeated on each page."""
    widths = [max(len(line[i]) for line in [heading, *lines]) for i in range(len(heading))]

    def line(cells):
        return colsep.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))

    page = [line(heading), colsep.join("-" * width for width in widths)]
    pages = ["\n".join(["", *page, line(row)]) for row in lines]
    return "\n".join(pages) + "\n\n3 rows selected.\n\n"


def markdown():
    rows = "".join(f"| {' | '.join(row)} |\n" for row in texts())
    return f"| {' | '.join(HEADING)} |\n|{'---|' * len(HEADING)}\n{rows}"


def boxed(corner="+", bar="|"):
    """As MySQL's client and SQLcl print, or psql without the outer borders."""
    lines = fixed(" | ", texts()).splitlines()
    rule = lines[2].replace(" | ", "-+-")
    rows = [f"{bar} {line} {bar}" for line in (lines[1], *lines[3:12:4])]
    rule = f"{corner}-{rule}-{corner}"
    return "\n".join([*[rule] * bool(corner), rows[0], rule, *rows[1:], *[rule] * bool(corner)])


def csv_without_quotes():
    return joined(",", [HEADING, *texts()])


def csv_markup():
    """SQL*Plus `set markup csv on`, with page breaks and feedback."""
    heading, *lines = quoted([HEADING, *texts()])
    pages = ["\n" + joined(",", [heading, line]) for line in lines]
    return "".join(pages) + "\n3 rows selected.\n\nElapsed: 00:00:00.02\n"


def sqlcl():
    return joined(",", quoted([HEADING, *texts()])) + "\n3 rows selected. \n\n"


def sqlcl_json():
    """SQLcl `set sqlformat json`: null values are left out, and numbers are not quoted."""
    items = [dict(zip(map(str.lower, HEADING), row, strict=True)) for row in texts()]
    items = [item | {"time_waited": int(item["time_waited"])} for item in items]
    items = [{name: cell for name, cell in item.items() if cell != ""} for item in items]
    return json.dumps({"results": [{"columns": [{"name": "P3"}], "items": items}]})


def echoed():
    statement = f"select\n{joined(',', [HEADING])}from t;\n"
    return f"SQL> set colsep ','\nSQL> {statement}\n{csv_without_quotes()}SQL> spool off\n"


def spreadsheet():
    """Semicolons, decimal commas, a byte order mark, CRLF."""
    lines = [[cell.replace(".", ",") for cell in line] for line in texts()]
    text = joined(";", [HEADING, *([*line[:4], line[4] + ",00", line[5]] for line in lines)])
    return "\ufeffsep=;\n" + text.replace("\n", "\r\n")


def thousands(mark=","):
    lines = [[*line[:4], f"{int(line[4]):,}".replace(",", mark), line[5]] for line in texts()]
    return joined(",", quoted([HEADING, *lines]))


def other_order_and_case():
    return joined("|", [[name.lower() for name in HEADING[::-1]], *(t[::-1] for t in texts())])


#: A number of rows and an elapsed time.
TIMED = "\n{}.\n\n{}: 00:00:00.01\n"
SHAPES = {
    "csv": csv_without_quotes,
    "markup": csv_markup,
    "sqlcl": sqlcl,
    "echoed": echoed,
    "spreadsheet": spreadsheet,
    "thousands": thousands,
    "thousands, French": lambda: thousands("\u202f"),
    "thousands, Swiss": lambda: thousands("\u2019"),
    "order": other_order_and_case,
    "json": lambda: json.dumps([dict(zip(HEADING, row, strict=True)) for row in texts()]),
    "json of sqlcl": sqlcl_json,
    "tabs": lambda: joined("\t", [HEADING, *texts()]),
    "fixed": lambda: fixed(" ", texts()),
    "fixed, bars": lambda: fixed(" | ", texts()),
    "fixed, commas": lambda: fixed(",", texts()),
    "fixed, tabs": lambda: fixed("\t", texts()),
    "fixed, semicolons": lambda: fixed(";", texts()),
    "Markdown": markdown,
    "box": boxed,
    "psql": lambda: boxed("", "") + "\n(3 rows)\n",
    "psql, German": lambda: boxed("", "") + "\n(3 Zeilen)\n",
    "SQL*Plus, German": lambda: fixed(" ", texts()) + TIMED.format("3 Zeilen ausgewählt", "Dauer"),
    "SQL*Plus, Italian": lambda: fixed(" ", texts()) + TIMED.format("Selezionate 3 righe", "Tempo"),
    "SQL*Plus, French": lambda: (
        csv_without_quotes() + "\n3 lignes sélectionnées.\n\nEcoulé : 00 :00 :00.01\n"
    ),
    "SQL*Plus, Chinese": lambda: (
        fixed(" ", texts()) + "\n已选择3行。\n\n已用时间:  00: 00: 00.01\n"
    ),
}


@cases("shape", SHAPES)
def test_every_client_format_is_read(shape, tmp_path):
    ash = read_ash(written(SHAPES[shape](), tmp_path))
    assert_rows(ash)
    assert ash.source == "V$"
    assert ash.began == START
    assert not ash.damaged
    assert set(ash.samples["weight_us"].to_pylist()) == {1_000_000}


@cases("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16(tmp_path, encoding):
    assert_rows(read_ash(written(csv_without_quotes(), tmp_path, encoding=encoding)))


@cases("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_export(tmp_path, pack):
    (path := tmp_path / "ash.csv.packed").write_bytes(pack(csv_without_quotes().encode()))
    assert find_evidence([path]).ash == [path]
    assert_rows(read_ash(path))


def test_a_heading_that_sqlplus_truncated_to_its_column(tmp_path):
    heading = [name.replace("SESSION_STATE", "SESSION") for name in HEADING]
    assert_rows(read_ash(written(fixed(" ", texts(), heading), tmp_path)))


def test_waiting_sessions_without_their_events_are_not_on_cpu(tmp_path):
    heading = [name.replace("EVENT", "WAIT_EVENT") for name in HEADING]
    assert_rows(read_ash(written(joined(",", [heading, *texts()]), tmp_path)))
    heading = [name.replace("EVENT", "ACTIVITY") for name in HEADING]
    with pytest.raises(EvidenceIncomplete):
        read_ash(written(joined(",", [heading, *texts()]), tmp_path))


def test_an_aligned_export_without_its_column_of_times_is_recognised(tmp_path):
    heading = [name.replace("SAMPLE_TIME", "SAMPLE_T") for name in HEADING]
    path = written(fixed(" ", texts(), heading), tmp_path)
    assert find_evidence([path]).ash == [path]
    with pytest.raises(EvidenceIncomplete):
        read_ash(path)


def test_columns_are_the_required_ones_and_optional_ones_of_the_file(tmp_path):
    ash = read_ash(written(csv_without_quotes(), tmp_path))
    assert ash.samples.column_names == [*(field.name for field in SAMPLES), "p3"]
    assert [f.type for f in ash.samples.fields][: len(SAMPLES)] == [f.type for f in SAMPLES]


@cases("as_text", [False, True])
def test_parquet(as_text, tmp_path):
    columns = dict(zip(HEADING, map(list, zip(*ROWS, strict=True)), strict=True))
    times = [START + timedelta(seconds=second) for second in columns["SAMPLE_TIME"]]
    columns["SAMPLE_TIME"] = [f"{time}" for time in times] if as_text else times
    numbers = pa.array(columns["TIME_WAITED"]).cast(pa.decimal128(38, 10))
    columns["TIME_WAITED"] = columns["TIME_WAITED"] if as_text else numbers
    pq.write_table(pa.table(columns), tmp_path / "ash.parquet")
    assert_rows(read_ash(tmp_path / "ash.parquet"))


def test_a_cut_or_empty_parquet_file_is_refused(tmp_path):
    path, table = tmp_path / "ash.parquet", pa.table({"SAMPLE_TIME": [START], "EVENT": [READ]})
    pq.write_table(table, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(EvidenceDamaged):
        read_ash(path)
    pq.write_table(table.slice(1), path)
    with pytest.raises(EvidenceIncomplete):
        read_ash(path)


def test_month_first_where_a_date_of_the_file_proves_it(tmp_path):
    lines = [["10/03/2024 23:59:59", "1", "ON CPU"], ["10/14/2024 00:00:00", "1", "ON CPU"]]
    ash = read_ash(written(joined(",", [HEADING[:3], *lines]), tmp_path))
    assert ash.began == datetime(2024, 10, 3, 23, 59, 59)
    assert ash.samples["time_ns"].to_pylist() == [0, (10 * 86_400 + 1) * 10**9]


def test_year_first_where_the_days_would_be_years(tmp_path):
    """RR-MM-DD, the format of East Asian territories; a damaged time does not hide it."""
    lines = [[f"24-11-{rest}", "1", "ON CPU"] for rest in ("12 23:59:59", "13 00:00:00", "")]
    ash = read_ash(written(joined(",", [HEADING[:3], *lines]), tmp_path))
    assert ash.began == datetime(2024, 11, 12, 23, 59, 59)
    assert ash.samples["time_ns"].to_pylist() == [0, 10**9]


@cases("first, last, days", [("01-FEB-24", "01-MAR-24", 29), ("02-01-24", "01-12-24", 334)])
def test_dates_of_one_year_have_the_day_first(tmp_path, first, last, days):
    lines = [[f"{date} 12:00:00", "1", "ON CPU"] for date in (first, last)]
    ash = read_ash(written(joined(",", [HEADING[:3], *lines]), tmp_path))
    assert ash.began.year == 2024
    assert ash.samples["time_ns"].to_pylist() == [0, days * 86_400 * 10**9]


def test_month_first_where_a_date_of_another_file_proves_it(tmp_path):
    lines = [["10/12/2024 23:59:59", "1", "ON CPU"], ["10/13/2024 00:00:00", "1", "ON CPU"]]
    paths = [
        written(joined(",", [HEADING[:3], line]), tmp_path, f"{number}.csv")
        for number, line in enumerate(lines)
    ]
    for files in (paths, paths[::-1]):
        ash = read_ash(files)
        assert ash.began == datetime(2024, 10, 12, 23, 59, 59)
        assert ash.samples["time_ns"].to_pylist() == [0, 10**9]


def test_since_and_until_use_the_date_order_of_the_file(tmp_path):
    lines = [["10/04/2024 20:00:00", "1", "ON CPU"], ["10/14/2024 20:00:00", "1", "ON CPU"]]
    path = written(joined(",", [HEADING[:3], *lines]), tmp_path)
    for chosen in (Filter(since="10/05/2024"), Filter(since="10/14/2024 20:00")):
        assert read_ash(path, chosen).began == datetime(2024, 10, 14, 20)
    assert read_ash(path, Filter(until="10/05/2024")).began == datetime(2024, 10, 4, 20)


@cases("meta", [3, [3], [{"title": "event"}], [{"name": []}]])
def test_damaged_column_names_in_json_are_refused(tmp_path, meta):
    table = {"meta": meta, "data": [[1]], "sample_time": 1, "event": 2}
    with pytest.raises(InputError):
        read_ash(written(json.dumps(table), tmp_path))


def test_damaged_lines_are_named_and_the_rest_is_read(tmp_path):
    good = texts()
    lines = [HEADING, good[0], good[1][:3], ["never", *good[1][1:]], good[1], good[2]]
    lines[-1] = [*good[2][:4], "####", good[2][5]]
    path = written(joined(",", lines)[:-1], tmp_path)
    ash = read_ash(path)
    assert ash.samples["event"].to_pylist() == [READ, None, "cell smart table scan"]
    assert ash.samples["time_waited_us"].to_pylist() == [19_305, 0, None]
    assert [(damage.file, damage.line) for damage in ash.damaged] == [
        (str(path), 3),
        (str(path), 4),
        (str(path), 6),
    ]
    assert "3 values where the heading has 6" in ash.damaged[0].problem
    assert "'never'" in ash.damaged[1].problem
    assert "'####'" in ash.damaged[2].problem


def test_a_lost_quote_affects_only_its_own_line(tmp_path):
    heading, *lines = quoted([HEADING, *texts()])
    lines[1][3] = '"lost'
    ash = read_ash(written(joined(",", [heading, *lines]), tmp_path))
    assert ash.samples.num_rows == 2
    assert [damage.line for damage in ash.damaged] == [3]


@cases(
    ("heading", "result"),
    [
        (["SAMPLE_TIME", "SESSION_ID"], "SAMPLE_TIME, SESSION_ID"),
        (["EVENT", "TIME_WAITED"], "EVENT, TIME_WAITED"),
        (["a", "b"], "a, b"),
    ],
)
def test_missing_columns_are_named_with_those_present(heading, result, tmp_path):
    path = written(joined(",", [heading, ["1", "2"]]), tmp_path)
    with pytest.raises(EvidenceIncomplete) as caught:
        read_ash(path)
    message = (
        f"{path}: an ASH export needs SAMPLE_TIME, and EVENT or SESSION_STATE; found: {result}"
    )
    assert caught.value.message == message


def test_an_empty_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(EvidenceIncomplete):
        read_ash(written("", tmp_path))
    with pytest.raises(EvidenceIncomplete):
        read_ash(written(",".join(HEADING) + "\n\nno rows selected\n", tmp_path))
    with pytest.raises(PathMissing):
        read_ash(tmp_path / "none.csv")


def export(rows, heading):
    return joined(",", [heading, *([str(cell) for cell in row] for row in rows)])


def test_history_is_recognised_by_its_columns(tmp_path):
    heading = ["SNAP_ID", "DBID", "SAMPLE_TIME", "EVENT"]
    ash = read_ash(written(export([(1, 2, "2024-10-14 12:00:00", READ)], heading), tmp_path))
    assert (ash.source, ash.interval_us) == ("DBA_HIST", 10_000_000)
    assert ash.samples["weight_us"].to_pylist() == [10_000_000]


@cases(("step_s", "source"), [(1, "V$"), (10, "DBA_HIST"), (60, "V$")])
def test_history_is_recognised_by_the_sample_interval(step_s, source, tmp_path):
    """A session that is idle at times: gaps are multiples of the interval."""
    seconds = [step_s * i for i in (0, 1, 2, 9, 10, 11, 12, 30, 31, 32, 33, 34)]
    rows = [(START + timedelta(seconds=s), 7, READ) for s in seconds]
    ash = read_ash(written(export(rows, ["SAMPLE_TIME", "SESSION_ID", "EVENT"]), tmp_path))
    assert ash.source == source
    assert bool(ash.notes) == (source == "DBA_HIST")


def test_rows_with_a_weight_column(tmp_path):
    rows = [(START, READ, 500_000), (START, READ, ""), (START, READ, 0)]
    ash = read_ash(written(export(rows, ["SAMPLE_TIME", "EVENT", "USECS_PER_ROW"]), tmp_path))
    assert ash.samples["weight_us"].to_pylist() == [500_000, 1_000_000, 1_000_000]


def test_memory_and_history_together_are_refused(tmp_path):
    memory = written(export([(START, READ)], ["SAMPLE_TIME", "EVENT"]), tmp_path, "a.csv")
    heading = ["SAMPLE_TIME", "EVENT", "SNAP_ID"]
    history = written(export([(START, READ, 1)], heading), tmp_path, "b.csv")
    with pytest.raises(EvidenceMixed, match="mixed"):
        read_ash([memory, history])


def test_several_files_are_one_sequence(tmp_path):
    later = export([(START + timedelta(seconds=5), READ)], ["sample_time", "event"])
    earlier = export([(START, 3, "ON CPU")], ["SAMPLE_TIME", "INST_ID", "SESSION_STATE"])
    ash = read_ash([written(later, tmp_path, "a.csv"), written(earlier, tmp_path, "b.csv")])
    assert ash.samples["time_ns"].to_pylist() == [0, 5 * 10**9]
    assert ash.samples["event"].to_pylist() == [None, READ]
    assert ash.samples["instance"].to_pylist() == [3, None]


def test_one_statement_and_one_execution(tmp_path):
    heading = ["SAMPLE_TIME", "EVENT", "SQL_ID", "SQL_EXEC_ID", "QC_SESSION_ID"]
    rows = [
        (START, READ, "aaaaaaaaaaaaa", 16777216, 0),
        (START + timedelta(seconds=1), READ, "bbbbbbbbbbbbb", 16777216, 10),
        (START + timedelta(seconds=2), READ, "bbbbbbbbbbbbb", 16777217, 10),
        (START + timedelta(seconds=3), READ, "", "", ""),
    ]
    path = written(export(rows, heading), tmp_path)
    assert read_ash(path).samples["coordinator"].to_pylist() == [None, 10, 10, None]
    assert read_ash(path, Filter(sql_id="bbbbbbbbbbbbb")).samples["time_ns"].to_pylist() == [
        0,
        10**9,
    ]
    item = read_ash(path, Filter(sql_id="bbbbbbbbbbbbb", exec_id=16777217))
    assert item.samples.num_rows == 1
    with pytest.raises(SelectionEmpty) as caught:
        read_ash(path, Filter(sql_id="ccc"))
    assert caught.value.hint == "there are: bbbbbbbbbbbbb, aaaaaaaaaaaaa"


@cases(("time", "notes"), [("14-OCT-24", 1), ("14.10.2024 12:34", 1), ("14.10.2024 12:34:56", 0)])
def test_times_without_seconds_are_noted(tmp_path, time, notes):
    ash = read_ash(written(export([(time, READ)] * 3, ["SAMPLE_TIME", "EVENT"]), tmp_path))
    assert ash.samples.num_rows == 3
    assert (len(ash.notes), ash.has_seconds) == (notes, not notes)


@cases("wrapped", ["SQL> @ash\n\n{}\nSQL> spool off\n", "Hi,\n\n```\n{}```\n", ">"])
def test_an_export_in_a_mail_or_a_spool_is_recognised_and_read(tmp_path, wrapped):
    text = "SAMPLE_TIME,SESSION_ID,EVENT\n" + "".join(
        f"2024-09-03 20:26:0{second},7,direct path read temp\n" for second in range(4)
    )
    path = tmp_path / "ash.csv"
    quoted = "".join(f"> {line}\n" for line in text.splitlines())
    path.write_text(wrapped.format(text) if "{}" in wrapped else quoted)
    assert find_evidence([path]).ash == [path]
    samples = read_ash(path).samples
    assert samples["event"].to_pylist() == ["direct path read temp"] * 4
