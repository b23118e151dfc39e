"""tkprof, rows of V$SQL_MONITOR, AWR and Statspack: figures, their bounds, and refusals."""

import json

import pytest

import oracle_reports
from cases import cases
from evidence import storage
from harness import spillcast
from oracle_reports import DB_TIME_S, READ_S, READS, SQL_ID, STATEMENTS, USER_IO_S, WRITE_S, WRITES
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceIncomplete,
    EvidenceMixed,
    NoTempIo,
    SelectionEmpty,
)
from spillcast.evidence.open import read_figures
from spillcast.evidence.selection import Selection
from spillcast.forecast import forecast

IO_BYTES = 31 * 8192
TARGET = {("read", IO_BYTES): 310_000, ("write", IO_BYTES): 310_000}


def write(path, text):
    path.write_text(text)
    return path


def test_tkprof_has_waits_and_row_sources(tmp_path):
    result = read_figures([write(tmp_path / "run.txt", oracle_reports.tkprof())])
    temp = result
    assert (temp.reads.count, temp.writes.count, temp.total_s) == (READS, WRITES, READ_S + WRITE_S)
    assert temp.bytes == (READS + WRITES) * IO_BYTES
    answer = forecast(result, storage(TARGET))
    assert answer.forecast_s == pytest.approx(773 - 430 + (READS + WRITES) * 310e-6)
    assert answer.interval_s[0] <= 348.83 <= answer.interval_s[1]
    assert {term.name: term.baseline_s for term in answer.terms}["CPU"] == pytest.approx(338)
    assert answer.statement.queryid == SQL_ID
    assert not any("executions" in item for item in result.notes)


def test_tkprof_without_row_sources_and_of_several_executions(tmp_path):
    path = write(tmp_path / "run.txt", oracle_reports.tkprof(sources=False))
    temp = read_figures([path], Selection(block="16K"))
    assert temp.bytes == (READS + WRITES) * 31 * 16384
    path = write(tmp_path / "more.txt", oracle_reports.tkprof(executions=2))
    temp = read_figures([path])
    assert temp.bytes == pytest.approx((READS + WRITES) * IO_BYTES, rel=1e-4)
    assert temp.subject == "all 2 executions"


def test_tkprof_without_row_sources_and_with_several_executions(tmp_path):
    once = oracle_reports.tkprof()
    section = once[once.index("SQL ID:") : once.index("OVERALL")]
    both = oracle_reports.tkprof(more=section.replace(SQL_ID, "4q7zf0d2m8kcx"))
    path = write(tmp_path / "run.txt", both)
    result = spillcast("forecast", path, "--to", "factor:2")
    assert result.returncode == 2
    assert "2 runs, the longest first" in result.stderr
    assert "--sql-id" in result.stderr
    result = spillcast("forecast", path, "--to", "factor:2", "--sql-id", SQL_ID, "--json")
    assert json.loads(result.stdout)["forecast_s"] == pytest.approx(343 + 215)


@cases("sessions", [1, 4])
def test_both_monitor_views_are_combined(tmp_path, sessions):
    run, plan = oracle_reports.views(sessions=sessions)
    paths = write(tmp_path / "run.csv", run), write(tmp_path / "plan.csv", plan)
    temp = read_figures(paths)
    assert temp.reads.count + temp.writes.count == pytest.approx(READS + WRITES, abs=sessions)
    assert temp.bytes == pytest.approx((READS + WRITES) * IO_BYTES, rel=1e-4)
    assert temp.processes == sessions
    # The 435 s of waits for I/O are divided by requests.
    others = 28_000 * sessions
    assert temp.total_s == pytest.approx(435 * temp.operations / (temp.operations + others))
    assert temp.time_bounds.lower < temp.total_s < temp.time_bounds.upper
    with pytest.raises(EvidenceIncomplete, match=r"V\$SQL_PLAN_MONITOR are missing"):
        read_figures(paths[:1])


def test_one_of_several_executions_must_be_selected(tmp_path):
    first, second = oracle_reports.views(), oracle_reports.views(exec_id=16777217)
    paths = [
        write(tmp_path / f"{at}-{name}.csv", text)
        for at, both in enumerate((first, second))
        for name, text in zip(("run", "plan"), both, strict=True)
    ]
    with pytest.raises(EvidenceAmbiguous, match="2 runs") as refused:
        read_figures(paths)
    assert "16777217" in str(refused.value)
    assert "--exec-id" in refused.value.hint
    temp = read_figures(paths, Selection(exec_id=16777217))
    assert temp.reads.count == READS


FORMS = {
    "awr.txt": oracle_reports.awr,
    "awr.html": oracle_reports.awr_html,
    "statspack.txt": oracle_reports.statspack,
}


@pytest.fixture(params=FORMS)
def report(request, tmp_path):
    return write(tmp_path / request.param, FORMS[request.param]())


def test_an_instance_counts_all_its_temp_waits(report):
    result = read_figures([report])
    temp = result
    assert (result.elapsed_s, temp.reads.count, temp.writes.count) == (DB_TIME_S, READS, WRITES)
    assert temp.total_s == pytest.approx(READ_S + WRITE_S, rel=1e-3)
    assert temp.time_bounds is None
    # 11 GiB in 12.9 requests a second over an hour; Statspack lacks this, so 31 blocks are assumed.
    assert temp.bytes / temp.operations == pytest.approx(IO_BYTES, rel=0.02)
    answer = forecast(result, storage(TARGET))
    expected_s = DB_TIME_S - 430 + (READS + WRITES) * 310e-6
    assert answer.forecast_s == pytest.approx(expected_s, rel=5e-3)


def test_a_report_of_rac_has_its_times_in_a_table(tmp_path):
    html = oracle_reports.awr_html()
    begin = html.index("<table")
    cells = {"Name": "CDB1", "RAC": "YES", "DB time (minutes)": "30.00",
             "Elapsed time (minutes)": "60.00"}  # fmt: skip
    rows = ("".join(f"<{tag}>{cell}</{tag}>" for cell in row)
            for tag, row in (("th", cells), ("td", cells.values())))  # fmt: skip
    table = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
    rac = html[:begin] + table + html[html.index("<p />", begin) :]
    single, all_instances = (
        read_figures([write(tmp_path / f"{at}.html", text)]) for at, text in enumerate((html, rac))
    )
    assert (all_instances.reads, all_instances.writes) == (single.reads, single.writes)


def test_the_temp_time_of_a_statement_has_bounds(report):
    hashed = report.name == "statspack.txt"
    result = read_figures([report], Selection(sql_id="987654321" if hashed else SQL_ID))
    runs, elapsed_s, _, io = STATEMENTS[SQL_ID]
    temp, within = result, result.time_bounds
    assert result.elapsed_s == elapsed_s / runs
    assert any(f"{runs} executions" in item for item in result.notes)
    waited_s = elapsed_s - 676 if hashed else elapsed_s * io / 100
    assert within.upper == pytest.approx(min(430, waited_s) / runs, rel=1e-3)
    # Other statements waited 105 s for I/O, so at most 105 of the 430 s are theirs.
    least_s = 0 if hashed else 430 - (USER_IO_S - waited_s)
    assert within.lower == pytest.approx(least_s / runs, rel=1e-3, abs=1e-9)
    assert within.lower < temp.total_s < within.upper
    # The mean latency is the instance's.
    assert temp.total_s / temp.operations == pytest.approx(430 / (READS + WRITES), rel=1e-2)
    answer = forecast(result, storage({("read", IO_BYTES): 0, ("write", IO_BYTES): 0}))
    low_s, high_s = answer.interval_s or (0, result.elapsed_s)
    assert low_s < result.elapsed_s - within.upper
    assert high_s > result.elapsed_s - within.lower


def test_absent_statements_and_temp_waits_are_refused(tmp_path, report):
    with pytest.raises(SelectionEmpty):
        read_figures([report], Selection(sql_id="abcdefghijklm"))
    text = report.read_text().replace("direct path", "db file")
    with pytest.raises(NoTempIo):
        read_figures([write(tmp_path / report.name.replace(".", "2."), text)])


def test_several_reports_are_refused(tmp_path):
    both = [write(tmp_path / name, form()) for name, form in FORMS.items()]
    with pytest.raises(EvidenceMixed, match="2 files of figures"):
        read_figures(both[:2])
