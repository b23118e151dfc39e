"""Archives and encodings: one file is read, several are refused with the remedy."""

import bz2
import csv
import gzip
import html
import io
import json
import lzma
import os
import re
import resource
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from cases import cases
from oracle_files import READ, blocks, write_trace
from spark_logs import text, two_stages, zstd
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceIncomplete,
    EvidenceUnknown,
    EvidenceUnsuited,
    FileTooLarge,
    InputError,
)
from spillcast.evidence.open import find_evidence
from spillcast.evidence.spark import read_application
from spillcast.evidence.text import decoded, plain_copy, remove_copies
from spillcast.fleet.facts import read_trace
from spillcast.profile import profile
from text_plan import TEXT_PLAN

#: Offsets of the flags and the compression method after a signature (APPNOTE of PKWARE, 4.3).
LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
FLAGS = {LOCAL: 6, CENTRAL: 8}
METHOD = {LOCAL: 8, CENTRAL: 10}


@cases("places, value", [(FLAGS, 0x01), (METHOD, 99)])
def test_an_archive_with_a_password_or_an_unknown_compression_is_refused(tmp_path, places, value):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("plan.txt", TEXT_PLAN)
    archived = bytearray(content.getvalue())
    for signature, offset in places.items():
        archived[archived.find(signature) + offset] = value
    path = tmp_path / "plan.zip"
    path.write_bytes(archived)
    with pytest.raises(EvidenceUnsuited) as refusal:
        find_evidence([path])
    assert str(path) in str(refusal.value)
    assert refusal.value.hint


def zipped(*contents, others=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for at, content in enumerate(contents):
            archive.writestr(f"{at}.trc", content)
        for name in others:
            archive.writestr(name, b"\0\5\x16\7")
    return out.getvalue()


def tarred(*contents):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for at, content in enumerate(contents):
            member = tarfile.TarInfo(f"traces/{at}.trc")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def utf_16(content):
    return content.decode().encode("utf-16")


#: Formats in which a trace arrives, by its file name.
WAYS = {
    "a.zip": zipped,
    "a.trc.zip": zipped,
    "gz.trc.zip": lambda content: zipped(gzip.compress(content)),
    "macos.zip": lambda content: zipped(content, others=["__MACOSX/._0.trc"]),
    "twice.trc.gz": lambda content: gzip.compress(gzip.compress(content)),
    "gz.tar": lambda content: tarred(gzip.compress(content)),
    "tgz.zip": lambda content: zipped(gzip.compress(tarred(content))),
    "a.tar": tarred,
    "a.tgz": lambda content: gzip.compress(tarred(content)),
    "a.tar.zst": lambda content: zstd(tarred(content)),
    "a.trc.bz2": bz2.compress,
    "a.trc.xz": lzma.compress,
    "a.trc": utf_16,
    "b.trc.gz": lambda content: gzip.compress(utf_16(content)),
    "utf16.zip": lambda content: zipped(utf_16(content)),
    "utf32.trc": lambda content: content.decode().encode("utf-32"),
    "utf32be.trc.gz": lambda content: gzip.compress(content.decode().encode("utf-32-be")),
    "A.TRC": bytes,
}


@cases("name", WAYS)
def test_a_trace_is_read_in_any_packing_and_encoding(tmp_path, name):
    content = write_trace(tmp_path / "plain.txt", [(READ, 3_000, blocks(31))] * 20).read_bytes()
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / name
    path.write_bytes(WAYS[name](content))
    given = folder if ".trc" in name.lower() else path
    result = profile(given)
    [row] = result.rows
    assert (row["count"], row["total_us"]) == (20, 60_000)
    assert row["longest_at"].startswith(str(path))
    # The same trace, which counts once.
    assert profile(tmp_path / "plain.txt", path).rows[0]["count"] == 20


@cases("encoding", ["utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"])
def test_text_with_few_letters_is_decoded_in_every_encoding(encoding):
    text = '1;2;3;"4"\n;;;;;-\n' * 50
    assert decoded(text.encode(encoding)) == text


@cases("pack", [zipped, tarred, lambda *contents: gzip.compress(tarred(*contents))])
def test_an_archive_of_two_traces_is_refused(tmp_path, pack):
    """The time between the two would count as part of the run."""
    contents = [
        write_trace(tmp_path / "plain.txt", [(READ, us, blocks(31))]).read_bytes()
        for us in (10, 20)
    ]
    path = tmp_path / "two.archive"
    path.write_bytes(pack(*contents))
    with pytest.raises(EvidenceAmbiguous, match="2 files"):
        profile(path)
    path.write_bytes(pack(*contents)[:-700])
    with pytest.raises(InputError):
        profile(path)


def test_packed_traces_may_outnumber_the_files_that_can_be_open(tmp_path):
    for us in range(80):
        content = write_trace(tmp_path / "plain.txt", [(READ, 1000 + us, blocks(31))]).read_bytes()
        (tmp_path / f"{us}.trc.xz").write_bytes(lzma.compress(content))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (70, limits[1]))
    try:
        [row] = profile(tmp_path).rows
    finally:
        remove_copies()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert row["count"] == 80


def test_a_copy_that_takes_more_than_half_of_the_free_space_is_refused(tmp_path, monkeypatch):
    content = write_trace(tmp_path / "plain.txt", [(READ, 3_000, blocks(31))] * 20).read_bytes()
    (path := tmp_path / "a.trc.xz").write_bytes(lzma.compress(content))
    room = os.statvfs_result((1, 1, *[len(content) - 1] * 8))
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    with pytest.raises(FileTooLarge, match=r"a\.trc\.xz"):
        profile(path)


def test_a_tar_of_many_folders_is_refused(tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for at in range(1000):
            member = tarfile.TarInfo(f"{at}")
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
    (path := tmp_path / "folders.tgz").write_bytes(gzip.compress(out.getvalue()))
    with pytest.raises(EvidenceAmbiguous, match="1000 files"):
        find_evidence([path])


def test_an_error_names_the_packed_file(tmp_path):
    path = tmp_path / "note.trc.zip"
    path.write_bytes(zipped(b"see attached"))
    with pytest.raises(InputError, match=r"extended SQL trace in \S*note\.trc\.zip"):
        profile(path)


def test_the_copy_of_a_refused_trace_is_removed(tmp_path):
    """An ingest of many such traces would keep a descriptor for each."""
    lines = write_trace(tmp_path / "plain.txt", [(READ, 1000, blocks(31))] * 9).read_text()
    (path := tmp_path / "cut.trc.xz").write_bytes(lzma.compress(f"{lines}...\n".encode()))
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(EvidenceIncomplete):
        read_trace(path)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_copies_of_many_traces_are_made_and_removed_concurrently(tmp_path):
    paths = [tmp_path / f"{number}.trc.bz2" for number in range(600)]
    for path in paths:
        path.write_bytes(bz2.compress(path.name.encode()))
        plain_copy(path, str)
    interval_s = sys.getswitchinterval()

    def read(path):
        text = plain_copy(path, str).read_bytes().decode()
        remove_copies(path)
        return text

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(read, paths)) == [path.name for path in paths]
    finally:
        sys.setswitchinterval(interval_s)


@cases(
    "prefix",
    [
        "db-1  | ",
        "[pod/db-0/main] ",
        "[pod/db-0/main] 2024-05-01T10:00:00.12{:07}Z ",
        "2024-05-01T10:00:00.123{:06}Z stdout F ",
        "Nov {:02} 09:00:00 db1 prog[123]: ",
        "Nov 12 09:00:00.1234{:02} db1 prog[123]: ",
        "<14>1 2024-11-12T09:00:00.1234{:02}+01:00 db1 prog 123 - - ",
    ],
)
def test_traces_and_event_logs_are_read_behind_the_prefixes_of_a_shipper(tmp_path, prefix):
    trace, log = tmp_path / "run.trc", tmp_path / "events"
    write_trace(trace, [("direct path read temp", 500, blocks(31))] * 9)
    # The line with the environment of an application is long.
    long = b'\n{"Padding":"' + b"x" * 100_000 + b'",'
    log.write_bytes(text(two_stages()).replace(b"\n{", long, 1))
    plain = profile(trace).rows, read_application(log).log
    for path in (trace, log):
        lines = path.read_text().splitlines()
        path.write_text("".join(f"{prefix.format(at)}{line}\n" for at, line in enumerate(lines, 1)))
    assert find_evidence([log]).spark == [log]
    assert (profile(trace).rows, read_application(log).log) == plain


def in_csv(lines, files=("a.trc",)):
    out = io.StringIO()
    rows = [(files[at % len(files)], line) for at, line in enumerate(lines)]
    csv.writer(out).writerows([["file", "message"], *rows])
    return out.getvalue()


def in_frame(lines):
    """As the pager bat prints a file."""
    rule = "─" * 7
    numbered = "".join(f"{at:4}   │ {line}\n" for at, line in enumerate(lines, 1))
    heading = f"{rule}┬{rule}\n       │ File: a.txt\n{rule}┼{rule}\n"
    return f"{heading}{numbered}{rule}┴{rule}\n"


#: What log stores, programs and pages put around the lines of a file.
RECORDS = {
    "lines of JSON": lambda lines: "\n".join(json.dumps({"at": 1, "log": f"{x}\n"}) for x in lines),
    "JSON": lambda lines: json.dumps({"events": [{"at": 1, "message": line} for line in lines]}),
    "two fields": lambda lines: "\n".join(json.dumps({"a": line, "b": line}) for line in lines),
    "CSV": in_csv,
    "bat": in_frame,
    "Java": lambda lines: "String log =\n" + " +\n".join(json.dumps(f"{x}\n") for x in lines) + ";",
    "Python": lambda lines: repr(lines),
    "page": lambda lines: "<table>" + "".join(
        f"<tr><td>{at}</td><td>{html.escape(line)}</td></tr>" for at, line in enumerate(lines)
    ) + "</table>",
}  # fmt: skip


@cases("name", RECORDS)
def test_traces_and_event_logs_are_read_within_records(tmp_path, name):
    trace, log = tmp_path / "run.trc", tmp_path / "events"
    write_trace(trace, [("direct path read temp", 500, blocks(31))] * 9)
    log.write_bytes(text(two_stages()))
    plain = profile(trace).rows, read_application(log).log
    for path in (trace, log):
        path.write_text(RECORDS[name](path.read_text().splitlines()))
    assert find_evidence([log]).spark == [log]
    assert find_evidence([trace]).traces == [trace]
    assert (profile(trace).rows, read_application(log).log) == plain


def lines_of_trace(path):
    write_trace(path, [("direct path read temp", 500, blocks(31))] * 9)
    return path.read_text().splitlines()


#: Records and strings of which some are missing, or that are of two programs.
INCOMPLETE = {
    "omitted strings": lambda lines: RECORDS["Java"](lines).replace('" +\n', '",\n[...]\n', 9),
    "strings apart": lambda lines: "\n".join(f"assert f({json.dumps(line)})" for line in lines),
    "omitted numbers": lambda lines: re.sub(r"\n +9 .*", "", RECORDS["bat"](lines)),
    "hosts": lambda lines: "\n".join(
        json.dumps({"host": at % 2, "message": line}) for at, line in enumerate(lines)
    ),
    "files": lambda lines: in_csv(lines, ("a.trc", "b.trc")),
}  # fmt: skip


@cases("name", INCOMPLETE)
def test_records_that_are_not_a_whole_file_of_one_program_are_refused(tmp_path, name):
    path = tmp_path / "run.trc"
    path.write_text(INCOMPLETE[name](lines_of_trace(path)))
    with pytest.raises(InputError):
        profile(path)


def test_an_archive_of_one_file_is_read_if_its_name_begins_as_that_of_attributes(tmp_path):
    (path := tmp_path / "a.zip").write_bytes(zipped(others=["._0.trc"]))
    with pytest.raises(EvidenceUnknown):
        find_evidence([path])


def test_a_cut_record_is_not_left_out(tmp_path):
    trace = tmp_path / "run.trc"
    write_trace(trace, [("direct path read temp", 500, blocks(31))] * 9)
    lines = trace.read_text().splitlines()
    records = [json.dumps({"message": line}) for line in lines]
    records[5] = records[5][:-9]
    trace.write_text("\n".join(records))
    with pytest.raises(InputError):
        profile(trace)


@cases("indent", [None, 2])
@cases("is_list", [True, False])
def test_an_event_log_is_read_from_a_list_and_pretty_printed(tmp_path, is_list, indent):
    log = tmp_path / "events"
    log.write_bytes(text(two_stages()))
    plain = read_application(log).log
    events = [json.loads(line) for line in log.read_text().splitlines()]
    whole = "\n".join(json.dumps(event, indent=indent) for event in events)
    log.write_text(json.dumps(events, indent=indent) if is_list else whole)
    assert find_evidence([log]).spark == [log]
    assert read_application(log).log == plain


def test_a_list_of_events_that_is_cut_is_read_as_a_log_that_is_cut(tmp_path):
    log = tmp_path / "events"
    log.write_bytes(text(two_stages())[:-30])
    plain = read_application(log).log
    events = [json.loads(line) for line in text(two_stages()).decode().splitlines()]
    log.write_text(json.dumps(events)[:-40])
    assert read_application(log).log == plain


def test_a_line_of_another_program_may_precede_a_shipped_trace(tmp_path):
    trace = tmp_path / "run.trc"
    write_trace(trace, [("direct path read temp", 500, blocks(31))] * 9)
    lines = trace.read_text().splitlines()
    trace.write_text("web-1  | GET /\n" + "".join(f"db-1  | {line}\n" for line in lines))
    assert [row["count"] for row in profile(trace).rows] == [9]


def test_lines_of_two_programs_are_not_read_as_those_of_one(tmp_path):
    trace = tmp_path / "run.trc"
    write_trace(trace, [("direct path read temp", 500, blocks(31))] * 9)
    lines = trace.read_text().splitlines()
    twice = (f"Nov 12 09:00:00 db1 prog[{pid}]: {line}\n" for line in lines for pid in (1, 2))
    trace.write_text("".join(twice))
    with pytest.raises(InputError):
        profile(trace)
