"""Exports of ClickHouse's query log: every format and version, exact counts, and damage."""

import json
from dataclasses import replace
from datetime import datetime

import pytest

from cases import cases
from clickhouse_runs import FORMATS, OLD, log_in
from harness import completed, spillcast
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceIncomplete,
    EvidenceUnsuited,
    InputError,
    NoTempIo,
)
from spillcast.evidence.clickhouse import counts_of_query, read_rows, settings_that_spill
from spillcast.evidence.open import read_figures
from spillcast.evidence.recognise import recognise
from spillcast.evidence.selection import Selection


def test_every_format_has_the_same_queries(runs):
    rows = [json.loads(line) for line in (runs / "log.jsonl").read_text().splitlines()]
    wanted = [row for row in rows if row["type"] == "QueryFinish"]
    for suffix in FORMATS.values():
        path = runs / f"log.{suffix}"
        assert recognise(path).reader == "clickhouse.read", suffix
        queries = read_rows(path)
        assert [q.elapsed_s for q in queries] == [r["query_duration_ms"] / 1e3 for r in wanted]
        assert [q.events for q in queries] == [r["ProfileEvents"] for r in wanted], suffix
        assert [q.normalized_hash for q in queries] == [
            str(row["normalized_query_hash"]) for row in wanted
        ]
        assert not any("hunter2" in q.query for q in queries), suffix


def test_a_statement_with_more_commas_than_columns_is_a_single_cell(runs, tmp_path):
    commas = ", ".join(map(str, range(200)))
    text = (runs / "log.tsv").read_text().replace("select id, amount", f"select {commas}, amount")
    (path := tmp_path / "log.tsv").write_text(text)
    wanted = [query.events for query in read_rows(runs / "log.jsonl")]
    assert [query.events for query in read_rows(path)] == wanted


@cases("suffix", ["pretty.txt", "vertical.txt", "md", "names.csv"])
def test_a_pasted_table_is_read(runs, tmp_path, suffix):
    lines = (runs / f"log.{suffix}").read_text().splitlines(True)
    path = tmp_path / "mail.txt"
    path.write_text("".join(f"> {line}" for line in ["Look:\n", "```\n", *lines, "```\n"]))
    wanted = [query.events for query in read_rows(runs / "log.jsonl")]
    assert [query.events for query in read_rows(path)] == wanted
    # Below the statement that the client echoed.
    echo = "SELECT\n    query_duration_ms,\n    ProfileEvents\nFROM system.query_log\n\n"
    path.write_text(echo + "".join(lines))
    assert [query.events for query in read_rows(path)] == wanted
    # As a test or a pager prints it.
    path.write_text("".join(f"2024-09-04 20:58:58 {line}" for line in lines))
    assert [query.events for query in read_rows(path)] == wanted


def test_rows_printed_by_python_are_read(runs, tmp_path):
    """The form in which a client returns them, with dates."""
    rows = [json.loads(line) for line in (runs / "log.jsonl").read_text().splitlines()]
    printed = [{**row, "query_start_time": datetime(2026, 3, 1, 9, 30)} for row in rows]
    (path := tmp_path / "rows.txt").write_text(f"{printed}\n")
    assert recognise(path).reader == "clickhouse.read"
    wanted = read_rows(runs / "log.jsonl")
    assert [(query.query, query.events) for query in read_rows(path)] == [
        (query.query, query.events) for query in wanted
    ]
    path.write_text(f"{printed}"[:-400])
    with pytest.raises(InputError):
        read_rows(path)


def test_counts_match_the_events_of_the_server(runs):
    """Queries of one thread are known completely: each spill is read once, as none has a LIMIT."""
    spilled = [
        query
        for query in read_rows(runs / "log.jsonl")
        if query.event("DiskWriteElapsedMicroseconds")
    ]
    assert len(spilled) == 8
    for query in spilled:
        counts = counts_of_query(query, Selection())
        assert counts.unknown is None or query.settings["max_threads"] == "2"
        assert counts.writes.count == query.events["WriteBufferFromFileDescriptorWrite"]
        total = query.events["ExternalProcessingCompressedBytesTotal"]
        assert counts.writes.bytes == counts.reads.bytes == total
        assert counts.writes.total_ns == 1000 * query.events["DiskWriteElapsedMicroseconds"]
        assert 0 < counts.total_s < query.elapsed_s


def test_events_in_separate_columns(runs):
    """Events of reads are missing, so bounds contain the values of the same query's full row."""
    counts = read_figures([runs / "columns.csv"])
    [full] = [
        query
        for query in read_rows(runs / "log.jsonl")
        if query.query_id == read_rows(runs / "columns.csv")[0].query_id
    ]
    exact = counts_of_query(full, Selection())
    assert counts.writes == exact.writes
    lower, upper = counts.io_bounds.lower, counts.io_bounds.upper
    assert lower.reads.bytes <= exact.reads.bytes <= upper.reads.bytes
    assert lower.reads.count <= exact.reads.count <= upper.reads.count
    assert counts.time_bounds.lower <= exact.total_s <= counts.time_bounds.upper


def test_single_letter_columns_one_on_each_line(tmp_path):
    """Remarks stand beside values; two queries are not merged."""
    lines = """type = QueryFinish (completed cleanly)
    query_duration_ms = 458,063
    - ExternalSortCompressedBytes   = 86,072,587,094  (80.16 GiB)
    ExternalSortWritePart         = 61
    Query shape: SELECT a FROM wide
    """
    (path := tmp_path / "letter.txt").write_text(lines)
    [query] = read_rows(path)
    assert query.elapsed_s == 458.063
    assert query.events == {
        "ExternalSortCompressedBytes": 86_072_587_094,
        "ExternalSortWritePart": 61,
    }
    for value in ("80.16 GiB", "80 GiB", "86 072 587 094"):
        path.write_text(lines.replace("86,072,587,094  (80.16 GiB)", value))
        with pytest.raises(InputError):
            read_rows(path)
    path.write_text(lines + lines.replace("458,063", "9"))
    with pytest.raises(InputError):
        read_rows(path)


def test_an_export_of_version_18_is_read(tmp_path):
    counts = read_figures([log_in(tmp_path, OLD)])
    assert (counts.writes.count, counts.writes.bytes) == (10, 7906243)
    assert (counts.io_bounds.lower.reads.bytes, counts.io_bounds.upper.reads.bytes) == (
        7906243,
        15667249,
    )
    alone_s = [run.total_s for run in counts.at_bounds() if run.processes == 1]
    assert max(alone_s) == pytest.approx(2026e-6 + 987e-6)


def test_spill_limits_of_memory(tmp_path):
    """A query without a limit in bytes spills by the server's ratio, which has a default."""
    limit = "max_bytes_before_external_group_by"
    rows = [{**OLD, "Settings": {limit: value}} for value in ("6000000", "0")]
    names = [settings_that_spill(query) for query in read_rows(log_in(tmp_path, *rows))]
    assert names == [[limit], ["max_bytes_ratio_before_external_group_by"]]


def test_other_writes_of_an_insert_leave_bounds(tmp_path):
    """The query's other writes leave bounds of the temp files."""
    [query] = read_rows(log_in(tmp_path, OLD))
    more = {**query.events, "WriteBufferFromFileDescriptorWrite": 25,
            "WriteBufferFromFileDescriptorWriteBytes": 20_000_000}  # fmt: skip
    counts = counts_of_query(replace(query, events=more), Selection())
    assert counts.io_bounds.lower.writes.bytes == 7906243
    assert counts.io_bounds.lower.writes.count < 25 == counts.io_bounds.upper.writes.count


def test_a_query_is_selected_by_number_or_id(runs):
    log = runs / "log.jsonl"
    with pytest.raises(EvidenceAmbiguous):
        read_figures([log])
    query = read_rows(log)[1]
    for selection in (Selection(item=2), Selection(queryid=query.query_id)):
        assert read_figures([log], selection).statement.query == query.query
    with pytest.raises(NoTempIo):
        read_figures([log], Selection(item=4))
    with pytest.raises(InputError):
        read_figures([log], Selection(queryid="none"))


def test_cut_exports_are_refused(runs, tmp_path):
    for suffix in set(FORMATS.values()):
        content = (runs / f"log.{suffix}").read_bytes()
        for share in (0.35, 0.6, 0.9):
            path = tmp_path / f"cut.{suffix}"
            # In the middle of a map with text: a row that is complete does not reveal the cut.
            at = content.rfind(b"OSCPUVirtual", 0, round(share * len(content)))
            path.write_bytes(content[: at + 5 if at > 0 else len(content) // 2])
            with pytest.raises(InputError, match=str(path)):
                pytest.fail(f"{suffix}: {len(read_rows(path))} rows of {share:.0%} of the bytes")


def test_a_cut_row_with_enough_commas_is_not_text_below_the_table(runs, tmp_path):
    lines = (runs / "log.pretty.txt").read_text().splitlines()
    columns = lines[1].count("│") - 1
    number = next(n for n in range(6, len(lines)) if lines[n].count(",") >= columns)
    cells = lines[number].split(",")
    path = tmp_path / "cut.txt"
    path.write_text("\n".join([*lines[:number], ",".join(cells[:columns])]))
    with pytest.raises(InputError, match=str(path)):
        read_rows(path)


def test_written_parts_without_bytes_are_an_incomplete_spill(tmp_path):
    readable = "formatReadableSize(ProfileEvents['ExternalAggregationCompressedBytes'])"
    row = {"query_duration_ms": "9", "ProfileEvents['ExternalAggregationWritePart']": "12"}
    cells = {**row, readable: "2.34 GiB", "query": "select 1"}
    (path := tmp_path / "log.txt").write_text(
        "Row 1:\n──────\n" + "".join(f"{name}: {value}\n" for name, value in cells.items())
    )
    with pytest.raises(EvidenceIncomplete):
        read_figures([path])


def test_a_grace_hash_join_that_opens_files_and_writes_nothing_does_not_spill(tmp_path):
    """ClickHouse in chdb 4.4.0; by /proc/PID/io, it wrote 1 byte."""
    events = {"Query": "1", "ExternalProcessingFilesTotal": "2", "ExternalJoinWritePart": "2"}
    row = {"query_duration_ms": "220", "query": "select 1", "ProfileEvents": events}
    with pytest.raises(NoTempIo):
        read_figures([log_in(tmp_path, row)])
    some = {f"ProfileEvents['{name}']": value for name, value in list(events.items())[1:]}
    with pytest.raises(EvidenceIncomplete):
        read_figures([log_in(tmp_path, {**row, "ProfileEvents": None} | some)])


def test_exports_without_needed_values_are_refused(tmp_path):
    without = {name: value for name, value in OLD.items() if "Profile" not in name}
    with pytest.raises(EvidenceIncomplete):
        read_figures([log_in(tmp_path, without)])
    with pytest.raises(EvidenceIncomplete):
        read_figures([log_in(tmp_path, {**OLD, "query_duration_ms": None})])
    with pytest.raises(InputError):
        read_figures([log_in(tmp_path, {**OLD, "ProfileEvents.Values": ["1", "2"]})])
    with pytest.raises(InputError):
        read_figures([log_in(tmp_path, {**OLD, "type": 1})])


@cases("form", ["json", "vertical"])
def test_rows_of_a_thread_do_not_tell_whether_the_query_spilled(tmp_path, form):
    row = {"query_duration_ms": 70, "thread_name": "QueryPool", "master_thread_id": 638133,
           "query": "SELECT 1", "ProfileEvents": {"SelectQuery": 1}}  # fmt: skip
    lines = ["Row 1:", "──────", *(f"{name}: {value}" for name, value in row.items())]
    (path := tmp_path / "threads").write_text(
        json.dumps(row) if form == "json" else "\n".join(lines)
    )
    with pytest.raises(EvidenceUnsuited):
        read_figures([path])


def test_forecast_of_a_query(runs):
    result = completed(
        "forecast", runs / "log.names.tsv", "--item", "1", "--to", "latency:5ms", "--json"
    )
    assert json.loads(result.stdout)["forecast_s"] > 0
    assert spillcast("forecast", runs / "log.csv", "--to", "latency:5ms").returncode == 2
