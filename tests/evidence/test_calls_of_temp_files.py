"""Temp files of a server's log: the call that wrote each, and the bounds that follow."""

from collections import Counter
from gettext import GNUTranslations
from pathlib import Path

import pytest

from cases import cases
from spillcast.engines.postgres.rank import of_logs, rank_postgres
from spillcast.engines.ranking import RankRequest
from spillcast.errors import EvidenceIncomplete, EvidenceMixed
from spillcast.evidence.postgres.logs import counts_of_logs, read_logs
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.selection import Selection

#: Order in which PostgreSQL 15 removed the files of a hash join of 8 batches; then the next call.
JOIN = (6, 13, 5, 12, 0, 7, 2, 9, 3, 10, 1, 8, 4, 11)


AGAIN = tuple(number + 14 for number in JOIN)


def files_of_calls(tmp_path, moments, names, *, size):
    """Number of temp files that a log has for each call of a statement, ascending."""
    path = tmp_path / "a.log"
    path.write_text(
        "".join(
            f'{moment}LOG:  temporary file: path "b/pgsql_tmp42.{name}", size {size}\n'
            f"{moment}STATEMENT:  select count(*) from a join b using (id)\n"
            for moment, name in zip(moments, names, strict=True)
        )
    )
    calls = Counter(file.call or -at for at, file in enumerate(read_logs(path).temp))
    return sorted(calls.values())


@cases(
    "names, files_by_call",
    [
        (JOIN + AGAIN, [14, 14]),
        # A sort above the join removes its file last.
        ((*JOIN, 14, *(number + 1 for number in AGAIN), 29), [15, 15]),
        (tuple(f"{at}.fileset/i{p}of8.p{p}.0" for at in (0, 1) for p in (2, 0, 1)), [3, 3]),
        ((0, 1, 2), [1, 1, 1]),
    ],
)
def test_files_that_existed_together_belong_to_one_call(tmp_path, names, files_by_call):
    moments = [f"2026-11-26 19:23:{at:02}.530 UTC [42] " for at in range(len(names))]
    assert files_of_calls(tmp_path, moments, names, size=901440) == sorted(files_by_call)


def test_all_messages_in_one_string_of_a_program_are_counted(tmp_path):
    path = tmp_path / "a.js"
    path.write_text(
        r"""code: 'LOG:  temporary file: path "b/pgsql_tmp2.0", size 8192\nLOG:  temporary file: """
        """path "b/pgsql_tmp1.0", size 16384',\n"""
    )
    assert [file.bytes for file in read_logs(path).temp] == [8192, 16384]


@cases("newest_first, seconds", [(False, (1, 2, 3)), (True, (1, 2, 3)), (True, (1, 1, 1))])
def test_statements_are_named_and_timed_in_either_order(logs_of, newest_first, seconds):
    """A cloud's console shows the newest message first; an empty file is not a call."""
    messages = [
        'LOG:  temporary file: path "b/pgsql_tmp42.0", size 0',
        "STATEMENT:  select 1",
        'LOG:  temporary file: path "b/pgsql_tmp42.1", size 8192',
        "STATEMENT:  select 1\n\tfrom a",
        "LOG:  duration: 2000.5 ms",
    ]
    times = (seconds[0], seconds[0], seconds[1], seconds[1], seconds[2])
    pairs = zip(times, messages, strict=True)
    lines = [f"2026-11-23 10:00:0{at} UTC [42] {message}\n" for at, message in pairs]
    # Where all times are equal, only the order of a message and its statement decides.
    is_timed = len(set(seconds)) > 1
    lines = lines if is_timed else lines[:-1]
    [file] = logs_of("".join(reversed(lines) if newest_first else lines)).temp
    assert (file.query, file.bytes) == ("select 1\nfrom a", 8192)
    assert file.elapsed_s == (2.0005 if is_timed else None)


def test_files_of_a_call_that_was_not_logged_have_no_duration(tmp_path):
    at = "2026-11-23 10:00:{:02} UTC [42] LOG:  "
    (path := tmp_path / "a.log").write_text(
        f"{at.format(1)}duration: 900.5 ms\n"
        f'{at.format(20)}temporary file: path "b/pgsql_tmp42.0", size 819200\n'
        f"{at.format(40)}duration: 700.5 ms\n"
    )
    assert [file.elapsed_s for file in read_logs(path).temp] == [None]


@cases(("seconds", "calls"), [((1, 1), 1), ((1, 2), 2)])
def test_files_removed_at_the_same_time_belong_to_one_call(tmp_path, seconds, calls):
    """A temp file is split at 1 GiB, and continues in the next file."""
    moments = [f"2026-11-23 10:00:0{second} UTC:10.0.0.1(5342):u@d:[42]:" for second in seconds]
    assert len(files_of_calls(tmp_path, moments, range(len(seconds)), size=1 << 30)) == calls


def test_a_named_process_identifies_the_session(tmp_path):
    """Heroku puts the byte count of each message before it."""
    path = tmp_path / "a.log"
    path.write_text(
        "".join(
            f'{length} <134>1 2026-11-23T10:00:00+00:00 host app postgres.109 - [11-1]  pid="2387" '
            f'line="4" connection_source="10.0.0.1(53548)" LOG:  {message}\n'
            for length, message in (
                (494, "duration: 12374.865 ms  execute <unnamed>: select 1"),
                (496, 'temporary file: path "b/pgsql_tmp2387.0", size 38810127'),
            )
        )
    )
    assert [file.elapsed_s for file in read_logs(path).temp] == [12.374865]


@cases("fraction", ["", ".100"])
def test_temp_files_removed_with_a_portal_belong_to_the_previous_call(tmp_path, fraction):
    """Their messages follow that of the duration; the next call began after them."""
    at = f"2026-11-23 10:00:04{fraction} UTC [42] LOG:  "
    later = f"2026-11-23 10:00:08{fraction} UTC [42] LOG:  "
    (tmp_path / "a.log").write_text(
        f"{at}duration: 9000.5 ms  execute <unnamed>: select 1\n"
        f'{at}temporary file: path "b/pgsql_tmp42.0", size 819200\n'
        f'{at}temporary file: path "b/pgsql_tmp42.1", size 819200\n'
        f"{later}duration: 0.1 ms  parse <unnamed>: select 2\n"
        f"{later}duration: 700.5 ms  execute <unnamed>: select 2\n"
        f'{later}temporary file: path "b/pgsql_tmp42.2", size 819200\n'
    )
    result = read_logs(tmp_path / "a.log").temp
    assert [(item.query, item.elapsed_s) for item in result] == [
        ("select 1", 9.0005), ("select 1", 9.0005), ("select 2", 0.7005)
    ]  # fmt: skip
    assert result[0].call == result[1].call != result[2].call


def test_a_spill_faster_than_memory_is_not_of_the_call(tmp_path):
    at = "2026-11-23 10:00:04 UTC [42] LOG:  "
    (tmp_path / "a.log").write_text(
        f'{at}temporary file: path "b/pgsql_tmp42.0", size 8192000000\n{at}duration: 20.5 ms\n'
    )
    assert read_logs(tmp_path / "a.log").temp[0].elapsed_s is None


@cases("fraction, elapsed_s", [("", 4.5), (".100", None)])
def test_a_file_removed_before_a_call_began_is_not_of_the_call(tmp_path, fraction, elapsed_s):
    """The call ended 5 s later and took 4.5 s; times in whole seconds may be wrong by up to 1 s."""
    (path := tmp_path / "a.log").write_text(
        f'2026-11-23 10:00:00{fraction} UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.0", '
        f"size 8192\n2026-11-23 10:00:05{fraction} UTC [42] LOG:  duration: 4500.000 ms\n"
    )
    [file] = read_logs(path).temp
    assert file.elapsed_s == elapsed_s


def test_the_sizes_of_temp_files_bound_work_mem(logs_of):
    """A file of 30 MiB holds a sort, or a part of a hash; calls of 10 MiB need less.

    Its last page is not full; the setting is named in whole MiB.
    """
    line = "2026-11-23 10:0{0}:01.100 UTC [42] LOG:  "
    file = 'temporary file: path "b/pgsql_tmp42.{0}", size {1}\n'
    took = "duration: 900.0 ms  statement: select 1 order by 1\n"
    calls = [(line + file).format(at, (size << 20) + 5) + line.format(at) + took
             for at, size in enumerate((10, 30, 10))]  # fmt: skip
    [ranked] = of_logs(logs_of("".join(calls)), RankRequest([]))
    least, most = ranked.work_mem_between
    assert least == 30 << 20
    assert 5 * least < most < 14 * least
    # Without durations, it is unknown which files are of the same call.
    [ranked] = of_logs(logs_of("".join(calls).replace("duration", "x")), RankRequest([]))
    assert ranked.work_mem_between == (30 << 20, None)


LIMITS = """\
2026-11-23 10:00:01.100 UTC [42] ERROR:  temporary file size exceeds "temp_file_limit" (1024kB)
2026-11-23 10:00:01.100 UTC [42] STATEMENT:  select 1
\torder by 1
2026-11-23 10:10:01.100 UTC [43] ERROR:  could not write to file "b/pgsql_tmp43.7": {no_space}
2026-11-23 10:10:01.100 UTC [43] STATEMENT:  select 2
2026-11-23 10:20:01.100 UTC [44] ERROR:  could not extend file "base/16384/1": {no_space}
2026-11-23 10:20:01.100 UTC [44] STATEMENT:  insert into c select 3
2026-11-23 10:21:01.100 UTC [45] ERROR:  failed to offload data block of size 8.0 KiB (9/10 used).
\tThis limit was set by the 'max_temp_directory_size' setting.
2026-11-23 10:21:01.100 UTC [45] STATEMENT:  select 4
""".format(no_space="No space left on device")


LOCALES = Path("/usr/share/locale")
SERVERS = [path.name for path in LOCALES.glob("*") if [*path.glob("LC_MESSAGES/postgres-*.mo")]]


@pytest.mark.skipif(not SERVERS, reason="no catalogue of a server's messages")
def test_a_full_device_is_recognised_in_any_language_of_a_server(tmp_path):
    """The error texts are those of the message catalogues of PostgreSQL and the C library."""
    path, read = tmp_path / "a.log", []
    for language in SERVERS:
        folder = LOCALES / language / "LC_MESSAGES"
        if not (folder / "libc.mo").exists():
            continue
        with (folder / "libc.mo").open("rb") as file:
            no_space = GNUTranslations(file).gettext("No space left on device")
        with next(folder.glob("postgres-*.mo")).open("rb") as file:
            server = GNUTranslations(file).gettext
        message = server('could not write to file "%s": %m').replace("%s", "b/pgsql_tmp43.7")
        lines = [f"{server('ERROR')}:  {message.replace('%m', no_space)}"]
        lines += [f"{server('STATEMENT:  ')}select 2"]
        path.write_text("".join(f"2026-11-23 10:10:01.100 UTC [43] {line}\n" for line in lines))
        read += [(language, failure.query) for failure in read_logs(path).exceeded]
    assert read == [(language, "select 2") for language, _ in read]
    assert {"de", "fr", "ja", "ru"} & set(SERVERS) <= {language for language, _ in read}


def test_limits_that_spills_exceeded_are_shown(tmp_path):
    """Three calls failed for their temp files, and one for a table."""
    path = tmp_path / "a.log"
    path.write_text(LIMITS)
    each = read_logs(path).exceeded
    # Versions up to 16 have no quotes.
    path.write_text(LIMITS.replace('"temp_file_limit"', "temp_file_limit"))
    assert read_logs(path).exceeded == each
    assert [failure.query for failure in each] == ["select 1\norder by 1", "select 2", "select 4"]
    assert "temp_file_limit (1024kB)" in each[0].limit
    assert "max_temp_directory_size" in each[2].limit
    # Times are unknown, and it is not reported as a query without spill.
    with pytest.raises(EvidenceIncomplete, match="temp_file_limit"):
        read_plan(path)
    page = rank_postgres(str(path), RankRequest([]))
    assert [failure.calls for failure in page.exceeded] == [1, 1, 1]


SORT = """\
Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops=1)
  Buffers: shared hit=9, temp read=500 written=500
"""
CALL = """\
2026-11-23 10:00:09.000 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.0", size 81920000
2026-11-23 10:00:09.000 UTC [42] LOG:  duration: 9000.000 ms  statement: select 1
"""


def test_a_logged_plan_of_another_run_is_refused(plan_of):
    """A session that receives the server's log messages has the plan of the same run in both."""
    for time in ("8990.000 ms", "8,990.000 ms", "...", "not known"):
        assert plan_of(f"{CALL}\n{SORT}Execution Time: {time}\n").elapsed_s == 9.0
    with pytest.raises(EvidenceMixed):
        plan_of(f"{CALL}\n{SORT}Execution Time: 990.000 ms\n")


@cases("length", [1, 5])
def test_a_size_at_the_end_of_a_log_may_be_cut(logs_of, length):
    assert not logs_of(CALL).last_sizes
    line = CALL.splitlines()[0]
    logs = logs_of(CALL + line[: line.rindex(" ") + 1 + length])
    assert logs.last_sizes == [int("81920000"[:length])]


def test_a_message_in_the_output_of_psql_belongs_to_the_statement_at_its_prompt(tmp_path):
    path = tmp_path / "session.txt"
    path.write_text(
        """\
db=# set client_min_messages = log;
SET
db=# reindex table u;
LOG:  temporary file: path "b/pgsql_tmp41.0", size 81920
REINDEX
Time: 21.530 ms
db=# create index on t (a,
db(# b);
LOG:  temporary file: path "b/pgsql_tmp41.1", size 40960
CREATE INDEX
Time: 9.530 ms
db=# select v from t where v = 'a;b'; -- by name
LOG:  temporary file: path "b/pgsql_tmp41.3", size 8192
db=# \\i more.sql
LOG:  temporary file: path "b/pgsql_tmp41.2", size 8192
"""
    )
    files = read_logs(path).temp
    statements = ["reindex table u", "create index on t (a,\nb)", "select v from t where v = 'a;b'"]
    assert [file.query for file in files] == [*statements, None]
    assert [file.elapsed_s for file in files] == [0.02153, pytest.approx(0.00953), None, None]


def test_named_arguments_in_lines_without_tabs_are_not_a_prompt(tmp_path):
    line = "2024-01-01 10:00:0{}.000 UTC [12] {}\n"
    (path := tmp_path / "postgresql.log").write_text(
        line.format(0, 'LOG:  temporary file: path "b/pgsql_tmp12.0", size 81920')
        + line.format(0, "STATEMENT:  select f(\np_id=> x,\nq=> y)")
        + line.format(1, "LOG:  duration: 1000.000 ms")
    )
    assert [file.query for file in read_logs(path).temp] == ["select f(\np_id=> x,\nq=> y)"]


def test_plans_without_their_statement_are_separate_statements(logs_of):
    plan = """\
Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..80.0 rows=9 loops=1)
  Sort Method: external merge  Disk: {kib}kB
  Buffers: shared hit=7, temp read={blocks} written={blocks}
Execution Time: 81.0 ms
"""
    plans = [plan.format(kib=8 * blocks, blocks=blocks) for blocks in (1000, 10)]
    statements = of_logs(logs_of("\n".join(plans)), RankRequest([]))
    assert sorted(statement.temp_bytes for statement in statements) == [20 * 8192, 2000 * 8192]
    assert sorted(statement.item for statement in statements) == [1, 2]
    assert len({statement.name for statement in statements}) == 2


#: Two concurrent sessions: time, process and message.
TWO_SESSIONS = [
    ("10:00:01.000", 2701, 'LOG:  temporary file: path "b/pgsql_tmp2701.0", size 40000000'),
    ("10:00:01.000", 2701, "STATEMENT:  select * from a order by x"),
    ("10:00:01.200", 2702, 'LOG:  temporary file: path "b/pgsql_tmp2702.0", size 70000000'),
    ("10:00:01.200", 2702, "STATEMENT:  select * from b order by x"),
    ("10:00:01.300", 2701, "LOG:  duration: 8000.0 ms  statement: select * from a order by x"),
    ("10:00:01.500", 2702, "LOG:  duration: 3000.0 ms  statement: select * from b order by x"),
    ("10:00:05.000", 2701, 'LOG:  temporary file: path "b/pgsql_tmp2701.1", size 40000000'),
    ("10:00:05.000", 2701, "STATEMENT:  select * from a order by x"),
    ("10:00:05.200", 2703, "LOG:  duration: 900.0 ms  statement: select 1"),
    ("10:00:05.300", 2701, "LOG:  duration: 4000.0 ms  statement: select * from a order by x"),
]


def logged(prefix, messages=TWO_SESSIONS):
    """Lines with a prefix of ``time``, ``pid``, its ``hex`` and the number of the ``line``."""
    numbered = enumerate(messages, start=30)
    lines = (
        prefix.format(time=f"2026-11-29 {time}", pid=pid, hex=f"{pid:x}", line=line) + text + "\n"
        for line, (time, pid, text) in numbered
    )
    return "".join(lines)


def times_by_size(path):
    """Size of each call's temp files, 40 or 70 MB, and its elapsed time."""
    return sorted((file.bytes // 10**6, file.elapsed_s) for file in read_logs(path).temp)


@cases(
    "prefix",
    [
        "",
        "{time} UTC ",
        "{time} UTC [{pid}] ",
        "{time} UTC [{line}] [{pid}] ",
        "{time} UTC-6929a1c3.{hex}-",
        "{time} UTC 6929a1c3.{hex} {line} ",
        "{time} UTC 10.0.0.7(51000) app@dw {line} ",
        "Nov 29 10:00:00 db1 patroni[999]: {time} UTC [{pid}] ",
        "Nov 29 10:00:00 db1 postgresql[999]: ",
    ],
)
def test_durations_are_matched_to_their_session_in_any_prefix(tmp_path, prefix):
    (path := tmp_path / "a.log").write_text(logged(prefix))
    assert times_by_size(path) == [(40, 4.0), (40, 8.0), (70, 3.0)]


FILE = 'LOG:  temporary file: path "b/pgsql_tmp11.0", size 209715200\n'
SORT = "select * from big order by 1\n"


@cases(
    "messages, seconds",
    [
        # Another session's duration is between a file and its own.
        ([FILE, "LOG:  duration: 300.0 ms\n", "LOG:  duration: 9000.0 ms\n"], None),
        ([FILE, f"STATEMENT:  {SORT}", *["LOG:  duration: 9000.0 ms\n"] * 2], None),
        ([FILE, *(f"LOG:  duration: 9000.0 ms  statement: {of}" for of in ("a\n", SORT))], None),
        # No other duration is in the log, or the statement identifies its own.
        ([FILE, "LOG:  duration: 9000.0 ms\n"], 9.0),
        ([FILE, f"STATEMENT:  {SORT}", "LOG:  duration: 9000.0 ms\n"], 9.0),
        (
            [
                *(FILE, f"STATEMENT:  {SORT}"),
                *("LOG:  duration: 300.0 ms\n", f"LOG:  duration: 9000.0 ms  statement: {SORT}"),
            ],
            9.0,
        ),
    ],
)
def test_without_processes_the_only_duration_or_the_statement_identifies_a_call(
    tmp_path, messages, seconds
):
    path = tmp_path / "a.log"
    path.write_text("".join(f"2026-11-26 19:23:41 UTC {message}" for message in messages))
    [file] = read_logs(path).temp
    assert file.elapsed_s == seconds


def test_the_line_number_of_another_session_is_not_a_process(tmp_path):
    """In a container, the number of a line may equal the ID of a process: here 32."""
    messages = [
        ("10:00:01.000", 32, TWO_SESSIONS[0][2].replace("2701", "32")),
        ("10:00:01.000", 32, TWO_SESSIONS[1][2]),
        ("10:00:02.000", 130, "LOG:  duration: 9000.0 ms  statement: select 2"),
        ("10:00:03.000", 32, "LOG:  duration: 8000.0 ms  statement: select * from a order by x"),
    ]
    (path := tmp_path / "a.log").write_text(logged("{time} UTC [{pid}]: [{line}-1] ", messages))
    assert times_by_size(path) == [(40, 8.0)]


@cases("parts", [(0, 10, 0, 10), (6, 10, 0, 6), (0, 6, 2, 10)])
@cases("formats", [("log", "log"), ("log", "csv")])
def test_messages_that_two_logs_repeat_count_once(tmp_path, parts, formats):
    """Complete logs, pieces of which the newest is first, and pieces that overlap."""
    texts = []
    for (begin, end), form in zip((parts[:2], parts[2:]), formats, strict=True):
        messages = TWO_SESSIONS[begin:end]
        text = logged("{time} UTC [{pid}] ", messages)
        if form == "csv":
            rows = [["2026-11-29 " + time + " UTC", pid, text] for time, pid, text in messages]
            text = "".join(
                f"{time},,,{pid},,,,,,,,LOG,,{text[6:].replace(chr(34), chr(34) * 2)!r},"
                .replace("'", '"') + "," * 9 + "\n"
                for time, pid, text in rows if text.startswith("LOG")
            )  # fmt: skip
        texts.append(text)
    (path := tmp_path / "a.log").write_text("".join(texts))
    assert sorted(size for size, _ in times_by_size(path)) == [40, 40, 70]
    assert read_logs(path).window_s == pytest.approx(4.3)
    path.unlink()
    for name, text in zip("bc", texts, strict=True):
        (tmp_path / f"{name}.log").write_text(text)
    assert sorted(size for size, _ in times_by_size(tmp_path)) == [40, 40, 70]


@cases("more", [[], ["LOG:  duration: 0.2 ms  execute S_3: COMMIT"]])
@cases(
    ("begun", "fetched", "times", "elapsed_s"),
    [
        # A driver that fetches a portal in parts; a cursor, which may be of any statement.
        ("execute S_1/C_2: {}", "execute fetch from S_1/C_2: {}", 4, 5.4),
        ("execute S_1/C_2: {}", "execute fetch from S_1/C_2: {}", 300, None),
        ("statement: declare c cursor for {}", "statement: fetch 10 from c", 4, None),
    ],
)
def test_a_call_fetched_in_parts_takes_the_time_of_all_parts(
    logs_of, begun, fetched, times, elapsed_s, more
):
    query = "select * from a order by x"
    ends = [("5000.0", begun), *[("100.0" if elapsed_s else "0.5", fetched)] * times]
    messages = [f"LOG:  duration: {ms} ms  {words.format(query)}" for ms, words in ends]
    messages += [TWO_SESSIONS[0][2].replace("2701", "42"), f"STATEMENT:  {query}", *more]
    lines = (f"2026-11-29 10:00:05.100 UTC [42] {message}\n" for message in messages)
    [file] = logs_of("".join(lines)).temp
    assert file.elapsed_s == (None if elapsed_s is None else pytest.approx(elapsed_s))


def test_a_repeated_plan_counts_once(logs_of):
    message = (
        "2026-11-29 10:00:0{}.000 UTC [42] LOG:  duration: 900.5 ms  plan:\n\tSort  (cost=1.0..2.0 "
        "rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)\n\t  Sort Key: a\n"
        "\t  Buffers: temp read=100 written=101\n"
    )
    assert len(logs_of("".join(map(message.format, (1, 4, 1, 4, 8)))).plans) == 3


def test_calls_of_two_logs_are_separate(tmp_path):
    for day in (28, 29):
        text = logged("{time} UTC [{pid}] ", TWO_SESSIONS[:6]).replace("11-29", f"11-{day}")
        (tmp_path / f"{day}.log").write_text(text)
    assert len({file.call for file in read_logs(tmp_path).temp}) == 4


def test_smaller_files_that_the_log_may_omit_are_noted(tmp_path):
    """With log_temp_files = 10MB, for example, a hash join of 100 batches of 8 MB is not logged."""
    (path := tmp_path / "a.log").write_text(logged("{time} UTC [{pid}] "))
    assert any("log_temp_files" in note for note in read_logs(path).notes)
    path.write_text(path.read_text().replace("size 70000000", "size 8192"))
    assert not read_logs(path).notes


def test_a_file_without_a_statement_may_be_of_a_worker_of_another_call(logs_of):
    at = "2026-11-23 10:00:01.100 UTC"
    line = f'{at} [{{0}}] LOG:  temporary file: path "b/pgsql_tmp{{0}}.0", size 819200\n'
    call = f"{line.format(42)}{at} [42] LOG:  duration: 2331.5 ms  statement: select 1\n"
    logs = logs_of(call), logs_of(call + line.format(43))
    alone, beside = (counts_of_logs(each, Selection(item=1)) for each in logs)
    assert alone.operations == beside.operations == 200
    assert len(beside.notes) == len(alone.notes) + 1
