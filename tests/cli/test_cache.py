"""``spillcast cache`` at a terminal: its output, and its errors for bad input."""

import json

import pytest

from cases import cases
from harness import completed, json_of, only_line, spillcast
from io_made_up import oracle_general

TRACE = """Oracle Database 19c
*** SESSION ID:(11.22) 2026-11-21
=====================
PARSING IN CURSOR #1 len=10 dep=0 uid=0 oct=3 lid=0 tim=1000 hv=1 ad='0' sqlid='abc'
select 1 from t
END OF STMT
"""


@pytest.fixture
def rows(tmp_path):
    """Two objects: a table read twice, and an index block read between the two reads."""
    path = tmp_path / "io.csv"
    lines = [f"T,{at << 16},65536,scan" for at in range(16)]
    path.write_text("\n".join(["object,offset,bytes,class", *lines, "I,0,8192,read", *lines, ""]))
    return path


def trace(path, *waits):
    path.write_text(
        TRACE + "".join(f"WAIT #1: {wait} tim={2000 + i}\n" for i, wait in enumerate(waits))
    )
    return path


def test_hits_by_object_and_class(rows):
    document = json_of("cache", rows, "--size", "2M", "--runs", 1)
    accounts = {a["object"]: a for a in document["cache"]["runs"][0]["accounts"]}
    assert (accounts["T"]["requests"], accounts["T"]["hits"]) == (32, 16)
    assert (accounts["I"]["requests"], accounts["I"]["hits"]) == (1, 0)
    assert document["curve"]["data_bytes"] == 17 << 16


def test_a_trace_of_scans_and_spills(tmp_path):
    scan = "nam='direct path read' ela= 100 file number=7 first dba=128 block cnt=8 obj#=42"
    spill = "nam='direct path write temp' ela= 100 file number=201 first dba=64 block cnt=8 obj#=42"
    back = spill.replace("write", "read")
    path = trace(tmp_path / "t.trc", scan, spill, back, scan)
    result = completed("cache", path, "--size", "1M", "--temp-writes", "--runs", 1, "--json")
    accounts = json.loads(result.stdout)["cache"]["runs"][0]["accounts"]
    actual = {(a["object"], a["class"]): (a["bytes"], a["hits"]) for a in accounts}
    assert actual == {
        ("42", "scan"): (2 * 65536, 1),
        ("temp", "temp write"): (65536, 0),
        ("temp", "temp read"): (65536, 1),
    }


def test_a_recording(spilled):
    result = completed("cache", spilled.path, "--size", "1G", "--temp-writes")
    assert "temp" in result.stdout
    assert "Everything fits" in result.stdout


def test_a_size_above_the_data_fits_everything(rows):
    assert (
        "Everything fits: the data is 1.06 MiB" in spillcast("cache", rows, "--size", "1T").stdout
    )
    assert "Everything fits" not in spillcast("cache", rows, "--size", "1M").stdout


def test_output_fits_a_terminal(rows):
    result = spillcast("cache", rows, "--size", "1M", "--flash", "9G/s", "--disk", "4G/s")
    assert max(map(len, result.stdout.splitlines())) <= 80


@cases(
    ("arguments", "words"),
    [
        (["--size", "10G", "--policy", "mru"], "the policies are keep, bypass, lru"),
        (["--size", "0"], "a cache of no size"),
        (["--size", "4K"], "less than a line"),
        (["--size", "ten"], "is not a size"),
        (["--size", "1G", "--keep", "T"], "--policy keep"),
        (["--size", "1G", "--policy", "keep", "--keep", "X"], "it has I/O on: I, T"),
        (["--size", "1G", "--flash", "9G/s"], "both --flash and --disk"),
        (["--size", "1G", "--flash", "9G/s", "--disk", "0/s"], "not a rate"),
        (["--size", "1G", "--flash", "9G/s", "--disk", "nope.json"], "no such file"),
        (["--flash", "9G/s"], "give --size"),
        (["--line", "0"], "--line 0"),
        (["--sample", "0"], "above 0"),
        (["--sample", "0.000001"], "a larger share"),
        (["--error", "0"], "points are above 0"),
        (["--error", "1", "--sample", "0.1"], "give one of the two"),
    ],
)
def test_invalid_options_are_refused(rows, arguments, words):
    assert words in only_line(spillcast("cache", rows, *arguments), 2)


@cases(
    ("name", "text", "words"),
    [
        ("no.csv", "object,bytes\nT,8192\n", "no column offset"),
        ("class.csv", "object,offset,bytes,class\nT,0,8192,sort\n", "the classes are scan"),
        ("text.csv", "object,offset,bytes\nT,zero,8192\n", "zero"),
        ("negative.csv", "object,offset,bytes\nT,-1,8192\n", "offset is -1"),
        ("empty.csv", "object,offset,bytes\n", "holds no rows"),
        ("none.csv", "", "no column object"),
        (
            "huge.csv",
            "object,offset,bytes\nT,9223372036854775807,8192\n",
            "offset is 9,223,372,036,854,775,807 in some row",
        ),
        ("cut.oracleGeneral", "x" * 30, "record 2 is cut"),
        ("short.oracleGeneral", "x", "not an oracleGeneral trace"),
        ("bad.oracleGeneral.zst", "x" * 48, "cut or damaged"),
    ],
)
def test_invalid_files_are_refused(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    assert f"{name}: " in (message := only_line(spillcast("cache", path), 2))
    assert words in message


def test_a_trace_without_offsets_names_what_is_missing(tmp_path):
    smart = "nam='cell smart table scan' ela= 100 cellhash#=1 p2=0 p3=0 obj#=42"
    words = only_line(spillcast("cache", trace(tmp_path / "t.trc", smart)), 2)
    assert "1 operation, none with an offset" in words
    assert "file# and block#" in words


def test_an_oracle_general_file(tmp_path):
    path = oracle_general(tmp_path / "t.oracleGeneral", [1, 2, 1, 2, 3, 1])
    document = json.loads(spillcast("cache", path, "--size", "12K", "--runs", 1, "--json").stdout)
    [account] = document["cache"]["runs"][0]["accounts"]
    assert (account["requests"], account["hits"]) == (6, 3)
    assert document["line_bytes"] == 4096


def test_a_curve_shows_its_error_bound(tmp_path):
    path = oracle_general(tmp_path / "t.oracleGeneral", [*range(1, 50_000)] * 2)
    result = spillcast("cache", path, "--runs", 1, "--sample", 0.3)
    assert "points in the mean of all sizes (95 % interval)" in " ".join(result.stdout.split())
    rounded = ("cache", path, "--runs", 1, "--error", 5)
    assert "Distances are rounded: off by at most" in spillcast(*rounded).stdout
    curve = json.loads(spillcast(*rounded, "--json").stdout)["curve"]
    assert 0 < curve["error_max"] <= 0.05
    assert curve["sampled"] == 1
