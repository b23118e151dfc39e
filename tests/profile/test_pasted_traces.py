"""Traces quoted, indented or wrapped by mails and forums give the figures of the originals."""

import textwrap

import pytest

from cases import cases
from oracle_files import HEADER, READ, WRITE, blocks, write_trace
from spillcast.evidence.open import find_evidence
from spillcast.profile import profile
from spillcast.profile.sql import run_sql

WAITS = [
    *((WRITE, 8_000, blocks(31)) for _ in range(20)),
    *((READ, 5_000 + at, blocks(31)) for at in range(20)),
    ("SQL*Net message from client", 7_000, "driver id=1413697536 #bytes=1 p3=0"),
]


def at_words(width):
    return lambda line: textwrap.wrap(line, width, break_on_hyphens=False) or [""]


def at_columns(width):
    return lambda line: [line[at : at + width] for at in range(0, len(line) or 1, width)]


def figures_of(path):
    """The figures of a trace by several columns, without the places of its longest waits."""
    for by in (("event",), ("event", "blocks"), ("sql_id",)):
        result = profile(path, by=by)
        rows = [{k: v for k, v in row.items() if k != "longest_at"} for row in result.rows]
        yield round(result.elapsed_s, 9), rows


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Traces of so many times the waits, and the figures of each."""
    folder = tmp_path_factory.mktemp("originals")
    paths = {times: write_trace(folder / f"{times}.trc", WAITS * times) for times in (1, 80)}
    return {times: (path, list(figures_of(path))) for times, path in paths.items()}


@cases(
    "broken",
    [
        lambda line: [f"    {line}"],
        lambda line: [f"> {line}"],
        at_words(60),
        at_words(80),
        at_words(110),
        at_columns(80),
        lambda line: [f"    {part}" for part in at_words(80)(line)],
        lambda line: line.replace(" tim=", "\ntim=").split("\n"),
        lambda line: [line.replace("'", "\u2019")],
        lambda line: [line.replace("'", "\u00b4").replace("= ", "=\t")],
        lambda line: [line.replace(" nam", "\u00a0nam").replace("= ", "=\u00a0")],
        lambda line: [line.replace("= ", "=\t")],
        lambda line: [line.replace("'", "&#39;") + "<br>"],
        lambda line: [f"&gt; {line}".replace("'", "&apos;").replace("= ", "=&nbsp;")],
        lambda line: [line.replace("'", "&#x27;").replace("= ", "=&#160;") + "<BR>"],
        lambda line: [f"> {line}".replace("'", "\u2018", 1).replace("'", "\u2019")],
    ],
)
@cases("times", [1, 80])
def test_a_pasted_trace_equals_the_original(originals, tmp_path, broken, times):
    """Also a trace of some 500 kB, in which the first 256 KiB end within a line."""
    whole, figures = originals[times]
    lines = [part for line in whole.read_text().splitlines() for part in broken(line)]
    (pasted := tmp_path / "pasted.trc").write_text("\n".join(lines) + "\n")
    assert list(figures_of(pasted)) == figures
    longest = next(row for row in profile(pasted).rows if row["event"] == READ)["longest_at"]
    line = lines[int(longest.rpartition(":")[2]) - 1]
    assert "WAIT #" in line


@cases("text", ["select * from big where id=5", "delete\n  from t\n where name='x'\n   and a=1"])
@cases("ends", ["\n", "\r\n"])
def test_a_text_that_resembles_figures_remains_part_of_its_statement(tmp_path, text, ends):
    header = HEADER.replace("len=17", f"len={len(text)}").replace("select 1 from big", text)
    whole = write_trace(tmp_path / "whole.trc", WAITS, header=header)
    lines = [part for line in whole.read_text().splitlines() for part in at_columns(80)(line)]
    (pasted := tmp_path / "pasted.trc").write_bytes((ends.join(lines) + ends).encode())
    _, ((sql_id, read),) = run_sql("select sql_id, text from statements", [str(pasted)])
    assert (sql_id, read.replace("\r", "")) == ("4q7zf0d2m8kcx", text)


def test_rows_of_a_view_of_trace_files_are_a_trace_behind_other_text(tmp_path):
    """V$DIAG_TRACE_FILE_CONTENTS, as a client exports it."""
    lines = write_trace(tmp_path / "whole.trc", WAITS).read_text().splitlines()
    rows = (f'orcl_ora_7.trc,{number},"{line}"\n' for number, line in enumerate(lines))
    (path := tmp_path / "rows.csv").write_text(
        "TRACE_FILENAME,LINE_NUMBER,PAYLOAD\n" + "".join(rows)
    )
    assert find_evidence([path]).traces == [path]
    counts = {row["event"]: row["count"] for row in profile(path, lenient=True).rows}
    assert (counts[READ], counts[WRITE]) == (20, 20)
