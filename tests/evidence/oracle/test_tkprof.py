"""tkprof reports in the formats of its releases, against figures computed by hand."""

import pytest

from cases import cases
from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, InputError, Refusal

BLOCK = 8192


def tkprof(
    *,
    calls=(("Parse", 1, 0.0, 0.0, 0), ("Execute", 1, 0.0, 0.0, 0), ("Fetch", 2, 8.2, 31.6, 48000)),
    sources="",
    waits=(("direct path write temp", 1000, 0.05, 6.0), ("direct path read temp", 1000, 0.1, 11.0)),
    rows="Rows     Row Source Operation",
    head="SQL ID: 4p7vm0hhw6u1v Plan Hash: 1\n\nselect count(*) from t",
    captured="",
):
    """A section of a report; ``calls`` are count, CPU, elapsed and disk."""
    total = ("total", *(sum(column) for column in list(zip(*calls, strict=True))[1:]))
    body = "".join(
        f"{name:7} {n:6d} {cpu:9.2f} {s:10.2f} {disk:10d} {0:10d} {0:10d} {0:10d}\n"
        for name, n, cpu, s, disk in (*calls, total)
    )
    events = "".join(f"  {e:40} {n:8d} {m:11.2f} {s:13.2f}\n" for e, n, m, s in waits)
    return (
        f"{head}\n\n"
        "call     count       cpu    elapsed       disk      query    current        rows\n"
        "------- ------  -------- ---------- ---------- ---------- ----------  ----------\n"
        f"{body}\n"
        f"Misses in library cache during parse: 1\n{captured}\n{rows}\n-------  ------\n{sources}\n"
        "Elapsed times include waiting on following events:\n"
        "  Event waited on                             Times   Max. Wait  Total Waited\n"
        f"  ----------------------------------------   Waited  ----------  ------------\n{events}"
    )


def source(depth, operation, reads, writes, rows="      1"):
    return f"{rows} {' ' * depth} {operation} (cr=9 pr={reads} pw={writes} time=9 us)\n"


JOIN = source(0, "SORT AGGREGATE", 48000, 15000) + source(1, "HASH JOIN", 48000, 15000)


MARKDOWN = """\
| call | count | cpu | elapsed | disk | query | current | rows |
|------|------:|----:|--------:|-----:|------:|--------:|-----:|
| Parse | 1 | 0.00 | 0.00 | 0 | 0 | 0 | 0 |
| Execute | 1 | 0.00 | 0.00 | 0 | 0 | 0 | 0 |
| Fetch | 2 | 8.20 | 31.60 | 48000 | 9 | 0 | 1 |
| total | 4 | 8.20 | 31.60 | 48000 | 9 | 0 | 1 |

| Event waited on | Times Waited | Max. Wait | Total Waited |
|---|---|---|---|
| direct path write temp | 1,000 | 0.05 | 6.00 |
| direct path read temp | 1000 | 0.10 | 11.00 |
"""


def test_tables_of_markdown(figures):
    counts = figures(MARKDOWN)
    assert (counts.elapsed_s, counts.cpu_s) == (31.6, 8.2)
    assert (counts.reads.count, counts.writes.count) == (1000, 1000)
    assert counts.total_s == pytest.approx(17)


def test_tables_without_names_are_not_temp_files(figures):
    scans = source(2, "TABLE ACCESS FULL OBJ#(51148)", 17000, 0)
    scans += source(2, "TABLE ACCESS FULL OBJ#(51149)", 16000, 0)
    temp = figures(tkprof(sources=JOIN + scans))
    assert temp.bytes == (48000 - 33000 + 15000) * BLOCK


def test_subqueries_of_a_select_list_are_beside_the_first_line(figures):
    beside = source(0, "SORT AGGREGATE", 900, 0) + source(1, "TABLE ACCESS FULL S", 900, 0)
    below = source(2, "TABLE ACCESS FULL T", 33000, 0)
    assert figures(tkprof(sources=beside + JOIN + below)).bytes == (48000 - 33000 + 15000) * BLOCK
    with pytest.raises(EvidenceDamaged, match="indentation"):
        figures(tkprof(sources=beside + JOIN + below.replace("   TABLE", " TABLE"), waits=()))


def test_index_row_sources_have_an_object_id_and_pages_wrap_long_ones(figures):
    table = source(2, "TABLE ACCESS BY INDEX ROWID T", 33000, 0)
    scan = source(3, "INDEX RANGE SCAN T_PK", 9000, 0)
    index = scan.replace("us)\n", "us)(object id 73730)\n")
    # Up to release 9, with explain.
    index += scan.replace("us)\n", "us)OF T_PK (NONUNIQUE)\n")
    broken = JOIN.replace(" time=9 us)", "\n         time=9 us cost=2\n         card=5)")
    for sources in (JOIN + table + index, broken + table + index):
        assert figures(tkprof(sources=sources)).bytes == (48000 - 33000 + 15000) * BLOCK


def test_rows_of_row_sources_may_have_thousands_separators(figures):
    grouped = JOIN.replace("      1 ", "  3,000,000 ")
    assert figures(tkprof(sources=grouped)).bytes == figures(tkprof(sources=JOIN)).bytes


def test_calls_are_recognised_without_their_heading(figures):
    """An excerpt that begins with the fetches."""
    text = tkprof(sources=JOIN)
    excerpt = text[text.index("Fetch") :]
    assert figures(excerpt).elapsed_s == figures(text).elapsed_s


def test_table_writes_of_release_11_1_are_not_temp_io(figures):
    lines = source(0, "HASH GROUP BY", 2590, 2590) + source(1, "PARTITION RANGE ALL", 1649, 1649)
    lines += source(2, "TABLE ACCESS FULL S PARTITION: 1 28", 1649, 1649)
    assert figures(tkprof(sources=lines)).bytes == 2 * 941 * BLOCK


@cases(
    ("rows", "captured", "times"),
    [
        ("Rows     Row Source Operation", "", 1),
        (
            "Rows (1st) Rows (avg) Rows (max)  Row Source Operation",
            "Number of plan statistics captured: 3",
            3,
        ),
    ],
)
def test_row_sources_are_sums_or_means_according_to_the_heading(figures, rows, captured, times):
    calls = (("Execute", 3, 0.0, 0.0, 0), ("Fetch", 9, 0.6, 1.4, 2000 * times))
    lines = source(0, "SORT ORDER BY", 2000, 2050) + source(1, "TABLE ACCESS FULL T", 0, 0)
    result = figures(tkprof(calls=calls, sources=lines, rows=rows, captured=captured,
                           waits=[("direct path write temp", 70, 0.1, 0.3),
                                  ("direct path read temp", 68, 0.1, 0.2)]))  # fmt: skip
    assert result.bytes == times * 4050 * BLOCK


@cases(
    ("rows", "times"),
    [
        ("Rows     Row Source Operation", 1),
        ("Rows (1st) Rows (avg) Rows (max)  Row Source Operation", 3),
    ],
)
def test_without_reads_the_heading_distinguishes_sums_from_means(figures, rows, times):
    calls = (("Execute", 3, 0.0, 0.0, 0), ("Fetch", 9, 0.6, 1.4, 0))
    lines = source(0, "SORT ORDER BY", 0, 2050) + source(1, "TABLE ACCESS FULL T", 0, 0)
    captured = "Number of plan statistics captured: 3" if times > 1 else ""
    waits = [("direct path write temp", 70, 0.1, 0.3)]
    result = figures(tkprof(calls=calls, sources=lines, rows=rows, captured=captured, waits=waits))
    assert result.writes.bytes == times * 2050 * BLOCK


def test_a_sum_of_executions_is_not_a_single_call(figures):
    calls = (("Execute", 5, 0.0, 0.0, 0), ("Fetch", 9, 8.2, 31.6, 48000))
    several = figures(tkprof(calls=calls, sources=JOIN))
    assert (several.elapsed_s, "5" in several.subject) == (31.6, True)
    assert figures(tkprof(sources=JOIN)).subject is None


def test_parallel_servers_are_one_query_with_the_elapsed_time_of_the_coordinator(figures):
    calls = (("Parse", 5, 0.0, 0.0, 0), ("Execute", 5, 512.0, 820.0, 1_910_000),
             ("Fetch", 2, 0.1, 209.1, 0))  # fmt: skip
    tables = source(3, "TABLE ACCESS FULL T1", 40000, 0) + source(
        3, "TABLE ACCESS FULL T2", 40000, 0
    )
    lines = source(0, "PX COORDINATOR", 382_000, 302_000)
    lines += source(1, "PX SEND QC (RANDOM) :TQ10002", 382_000, 302_000)
    lines += source(2, "HASH JOIN", 382_000, 302_000) + tables
    waits = [
        ("direct path write temp", 48511, 0.05, 30.1),
        ("direct path read temp", 48711, 0.1, 246.2),
    ]
    queue = ("PX Deq: Execute Reply", 400, 1.0, 208.9)
    section = tkprof(
        calls=calls,
        sources=lines,
        waits=[*waits, queue],
        rows="Rows (1st) Rows (avg) Rows (max)  Row Source Operation",
        captured="Number of plan statistics captured: 5",
    )
    result = figures(section + "\n       5  sessions in tracefile.\n")
    assert result.elapsed_s == 209.1
    assert result.processes == pytest.approx(820 / 209.1, rel=0.01)
    assert result.bytes == 5 * 2 * 302_000 * BLOCK
    # Without its wait, nothing shows which call was the coordinator's.
    alone = tkprof(calls=calls, sources=lines, waits=waits, captured="")
    with pytest.raises(EvidenceIncomplete, match=r"no elapsed time.* sum over 5 sessions"):
        figures(alone + "\n       5  sessions in tracefile.\n")


def test_sections_are_separated_without_a_rule(figures):
    first = tkprof(sources=JOIN, head="select 1 from a")
    second = tkprof(calls=(("Fetch", 1, 0.4, 0.5, 0),), waits=(), head="select 2 from b")
    result = figures(f"{first}\n-- New query\n{second}")
    assert (result.elapsed_s, result.statement.query) == (31.6, "select 1 from a")


def test_times_that_are_rounded_to_zero_have_bounds(figures):
    waits = [("direct path write temp", 70, 0.0, 0.0), ("direct path read temp", 2, 0.0, 0.0)]
    temp = figures(tkprof(waits=waits))
    assert (temp.reads.count, temp.writes.count) == (2, 70)
    assert temp.time_bounds.upper == pytest.approx(0.01)


def test_waits_count_where_row_sources_have_lost_their_indentation(figures):
    flat = "\n".join(" ".join(line.split()) for line in tkprof(sources=JOIN).split("\n"))
    result = figures(flat)
    assert (result.reads.count, result.writes.count, result.total_s) == (1000, 1000, 17.0)
    assert any("indentation" in note for note in result.notes)
    waits = [("db file scattered read", 9, 0.1, 5.1)]
    whole = tkprof(sources=JOIN, waits=waits)
    with pytest.raises(InputError, match="indentation"):
        figures("\n".join(" ".join(line.split()) for line in whole.split("\n")))


def test_operations_with_one_child_each_need_no_indentation(figures):
    """The sort keeps 4,000 blocks of its 9,000, the aggregate 2,000 of its 5,000."""
    chain = (("SORT ORDER BY", 9000, 6000), ("HASH GROUP BY", 5000, 2000))
    lines = (*chain, ("TABLE ACCESS FULL T", 3000, 0))
    temp = figures(tkprof(sources="".join(source(0, *line) for line in lines)))
    assert (temp.reads.bytes, temp.writes.bytes) == (6000 * BLOCK, 6000 * BLOCK)


def test_the_time_of_blocks_without_waits_has_bounds(figures):
    temp = figures(tkprof(sources=JOIN, waits=[("db file scattered read", 9, 0.1, 5.1)]))
    assert temp.time_bounds.lower == 0
    assert temp.time_bounds.upper == pytest.approx(31.6 - 8.2 - 5.1, abs=0.02)


def test_blocks_read_without_waits_may_have_taken_the_remaining_time(figures):
    temp = figures(tkprof(sources=JOIN, waits=[("direct path write temp", 1000, 0.05, 6.0)]))
    assert temp.time_bounds.lower == pytest.approx(6.0, abs=0.02)
    assert temp.time_bounds.upper == pytest.approx(31.6 - 8.2, abs=0.03)


def test_a_section_without_calls_needs_the_elapsed_time(figures):
    """The excerpt begins with its row sources or its waits."""
    whole = tkprof(sources=JOIN)
    for begin in ("Rows     Row Source", JOIN.split("\n")[0], "Elapsed times include"):
        text = whole[whole.index(begin) :]
        with pytest.raises(EvidenceIncomplete, match="no elapsed time"):
            figures(text)
        result = figures(text, elapsed_s=31.6)
        assert (result.reads.count, result.total_s) == (1000, pytest.approx(17.0))
    words = figures(f"According to these, nearly all waits are reads.\n\n{text}", elapsed_s=31.6)
    assert not words.statement.query


@cases("begin", ["/*q1*/ select", "<<first>> declare", "{call"])
def test_a_statement_may_begin_with_a_comment_or_a_label(figures, begin):
    text = tkprof(head=f"SQL ID: 4p7vm0hhw6u1v Plan Hash: 1\n\n{begin} a from b")
    assert figures(text).statement.query == f"{begin} a from b"


def test_calls_under_the_headings_of_orange(figures):
    text = tkprof(sources=JOIN).replace("      cpu    elapsed", " CPU Time Elapsed Time")
    result = figures(text.replace("call ", "Call ").replace("total ", "Total "))
    assert (result.elapsed_s, result.total_s) == (31.6, 17.0)


def test_operations_of_unknown_size_read_at_most_the_disk_column(figures):
    result = figures(tkprof(calls=(("Fetch", 9, 0.6, 20.0, 3000),)))
    assert (result.reads.count, result.reads.bytes) == (1000, 3000 * BLOCK)


@cases(
    ("text", "words"),
    [
        (tkprof(sources=JOIN.replace("pr=48000", "pr=99000")), "sources-of-disk"),
        (tkprof(sources=JOIN + source(2, "TABLE ACCESS FULL T", 50000, 0)), "children-of-parent"),
        (tkprof(sources=JOIN).replace("pw=15000 time=9 us)", "pw=15000 tim"), "not understood"),
        # Ten waits of at most 50 ms cannot take 6 s.
        (tkprof(waits=[("direct path write temp", 10, 0.05, 6.0)]), "part-of-whole"),
    ],
)
def test_contradictory_or_unrecognised_text_is_refused(figures, text, words):
    with pytest.raises((InputError, Refusal), match=words):
        figures(text)
