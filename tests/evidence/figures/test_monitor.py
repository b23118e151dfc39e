"""SQL Monitor's reports: the same figures in each form, their bounds, and damage."""

import json
from html import escape

import pytest

import monitor_reports
from cases import cases
from evidence import storage
from harness import spillcast
from monitor_reports import IO_BYTES, IO_S, LINES, READS, WRITES
from spillcast.errors import (
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    InputError,
    NoTempIo,
    Refusal,
)
from spillcast.evidence.open import read_figures
from spillcast.forecast import forecast


def broken(report):
    """As SQL*Plus prints it in lines of 80 characters."""
    lines = report.splitlines()
    return "\n".join(line[at : at + 80] for line in lines for at in range(0, len(line) or 1, 80))


FORMS = {
    "run.txt": monitor_reports.text,
    "run.xml": monitor_reports.xml,
    "escaped.html": lambda **how: f"<pre>{escape(monitor_reports.xml(**how))}</pre>",
    "active.html": lambda **how: monitor_reports.active(monitor_reports.xml(**how)),
    "broken.xml": lambda **how: broken(monitor_reports.xml(**how)),
    "plain.html": lambda **how: monitor_reports.active(monitor_reports.xml(**how), packed=False),
}


@pytest.fixture(params=FORMS)
def written(request, tmp_path):
    """Writes a report in each of its forms."""

    def write(**how):
        path = tmp_path / request.param
        path.write_text(FORMS[request.param](**how))
        return path

    return write


def test_the_published_case_in_each_form(written):
    result = read_figures([written()])
    temp = result
    assert (temp.reads.count, temp.writes.count) == (READS, WRITES)
    # The text form has whole gigabytes.
    assert temp.bytes == pytest.approx((READS + WRITES) * IO_BYTES, rel=0.05)
    # 430 of 773 samples in 773 s are in waits for temp files.
    assert temp.total_s == pytest.approx(430)
    share, samples = 430 / 773, 773
    error = 1.645 * (share * (1 - share) / samples) ** 0.5
    assert temp.time_bounds.lower == pytest.approx((share - error) * 773, rel=1e-3)
    # The upper bound is all waits for I/O, which the report has as 435 s, rounded to a second.
    assert temp.time_bounds.upper == pytest.approx(min((share + error) * 773, 435.5), rel=1e-3)
    target = storage({("read", IO_BYTES): 310_000, ("write", IO_BYTES): 310_000})
    answer = forecast(result, target)
    # The seed's sum with matched sizes, as both reads and writes take 310 us there.
    assert answer.forecast_s == pytest.approx(773 - 430 + (READS + WRITES) * 310e-6, rel=1e-3)
    # The time measured in the published case.
    assert answer.interval_s[0] <= 348.83 <= answer.interval_s[1]
    assert {"incomplete", "counts-only"} <= {item.code for item in answer.warnings}


def test_parallel_servers_share_temp_io(written):
    result = read_figures([written(elapsed_s=200, database_s=773)])
    assert result.processes == pytest.approx(773 / 200)
    answer = forecast(result, storage({("read", IO_BYTES): 0, ("write", IO_BYTES): 0}))
    assert answer.ceiling_s == pytest.approx(200 * (1 - 430 / 773), rel=1e-3)


SERVERS = "Parallel Execution Details (DOP=2 , Servers Allocated=4)\n\n"


def test_servers_work_no_longer_than_the_report_lasts(figures):
    """The coordinator and four servers have 1,000 s in 200 s."""
    text, plan = monitor_reports.text, "SQL Plan Monitoring Details"
    result = figures(text(elapsed_s=200, database_s=990).replace(plan, SERVERS + plan))
    assert result.processes == pytest.approx(990 / 200)
    with pytest.raises(EvidenceContradictory):
        figures(text(elapsed_s=200, database_s=1200).replace(plan, SERVERS + plan))


def test_only_a_serial_query_without_a_duration_takes_its_time_in_the_database(figures):
    text, plan = monitor_reports.text().replace(" Duration            :  773s\n", ""), "SQL Plan"
    assert figures(text).elapsed_s == 773
    with pytest.raises(EvidenceIncomplete):
        figures(text.replace(plan, SERVERS + plan))


def test_without_samples_waits_are_divided_by_requests(written):
    lines = [(*line[:4], {}) for line in LINES]
    result = read_figures([written(lines=lines)])
    temp, others = READS + WRITES, 28_000
    assert result.total_s == pytest.approx(IO_S * temp / (temp + others), rel=1e-3)
    within = result.time_bounds
    assert within.lower == pytest.approx(IO_S * (temp / 3) / (temp / 3 + others), rel=1e-3)
    assert within.upper == pytest.approx(IO_S * (temp * 3) / (temp * 3 + others), rel=1e-3)


def test_without_samples_and_requests_all_io_waits_are_the_upper_bound(figures):
    text = monitor_reports.text(lines=[(*line[:4], {}) for line in LINES])
    begin, end = text.index("Global Stats"), text.index("SQL Plan Monitoring Details")
    totals = (
        "| Elapsed |   Cpu   |    IO    |\n| Time(s) | Time(s) | Waits(s) |\n"
        "==================================\n|     773 |     338 |      435 |\n"
    )
    rule = "==================================\n"
    shown = f"Global Stats\n{rule}{totals}{rule}\n"
    within = figures(text[:begin] + shown + text[end:]).time_bounds
    assert (within.lower, within.upper) == (0, 435.5)


def test_queries_without_spill_are_refused_and_unfinished_ones_noted(written):
    lines = [(*line[:3], 0, {"Cpu": 9}) for line in LINES if line[0] != "HASH JOIN"]
    with pytest.raises(NoTempIo):
        read_figures([written(lines=lines)])
    for status in ("EXECUTING", "DONE (ERROR)", "DONE (FIRST N ROWS)"):
        assert status in read_figures([written(status=status)]).subject
    assert read_figures([written(status="DONE (ALL ROW")]).subject is None


def test_a_text_report_without_totals_is_counted_by_its_samples(figures):
    text = monitor_reports.text()
    begin = text.index("Global Stats")
    end = text.index("SQL Plan Monitoring Details")
    result = figures(text[:begin] + text[end:])
    # 430 of 773 samples of 773 s.
    assert result.total_s == pytest.approx(430)
    assert (result.reads.count, result.writes.count) == (READS, WRITES)
    lines = [(*line[:4], {}) for line in LINES]
    unsampled = monitor_reports.text(lines=lines)
    begin, end = unsampled.index("Global Stats"), unsampled.index("SQL Plan Monitoring Details")
    with pytest.raises(EvidenceIncomplete):
        figures(unsampled[:begin] + unsampled[end:])
    with pytest.raises((EvidenceIncomplete, Refusal)):
        figures(text[: text.index("SQL Plan Monitoring Details")])


def test_a_blank_line_in_a_heading_is_skipped(tmp_path):
    """A pager leaves a blank line where it broke a page."""
    text = monitor_reports.text()
    (plain := tmp_path / "plain.txt").write_text(text)
    first, _, second = text.partition("| Elapsed |")[2].partition("\n")
    (path := tmp_path / "run.txt").write_text(text.replace(f"{first}\n", f"{first}\n\n", 1))
    assert second.startswith("| Time(s)")
    assert read_figures([path]).reads == read_figures([plain]).reads


def test_a_remark_after_the_last_bar_of_a_row_is_no_cell(figures):
    text = monitor_reports.text()
    row = next(line for line in text.splitlines() if "HASH JOIN" in line)
    assert figures(text.replace(row, f"{row}  most of the 26G")) == figures(text)


def test_options_and_a_target(tmp_path):
    path = tmp_path / "run.xml"
    path.write_text(monitor_reports.xml())
    result = spillcast("forecast", path, "--to", "latency:150us", "--elapsed", "800s", "--json")
    document = json.loads(result.stdout)
    assert (document["baseline_s"], document["statement"]["queryid"]) == (
        800,
        monitor_reports.SQL_ID,
    )
    fast = tmp_path / "fast.xml"
    fast.write_text(monitor_reports.xml(elapsed_s=400, database_s=400))
    result = spillcast("forecast", path, "--to", fast, "--json")
    # 430 of 773 samples of 400 s, for the same number of operations.
    assert json.loads(result.stdout)["forecast_s"] == pytest.approx(343 + 430 * 400 / 773)


@cases("form", ["run.xml", "active.html"])
def test_cut_and_damaged_reports_are_refused(tmp_path, form):
    path, whole = tmp_path / form, FORMS[form]()
    for text in (whole[: len(whole) // 2], whole.replace("eJ", "!!"), whole.replace("</stat>", "")):
        if text == whole:
            continue
        path.write_text(text)
        with pytest.raises((InputError, Refusal)):
            read_figures([path])


def test_xml_entities_are_refused(tmp_path):
    path = tmp_path / "run.xml"
    inner = monitor_reports.xml().replace(
        "<report_parameters>", '<!DOCTYPE a [<!ENTITY b "c">]><report_parameters>'
    )
    path.write_text(inner)
    with pytest.raises(EvidenceDamaged, match="entities"):
        read_figures([path])


@cases("shown", ["46'450", "46.450", "46_450", "46 450", "4645O"])
def test_a_count_is_read_completely_or_refused(tmp_path, shown):
    (path := tmp_path / "run.txt").write_text(monitor_reports.text().replace(str(READS), shown))
    if shown[2] in "' ":
        assert read_figures([path]).reads.count == READS
        return
    with pytest.raises(InputError, match=shown):
        read_figures([path])


def test_an_unreadable_duration_is_refused_and_not_replaced(figures):
    with pytest.raises(EvidenceDamaged, match="about 773"):
        figures(monitor_reports.text().replace("773s", "about 773"))
