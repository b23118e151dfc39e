"""Executions in ASH exports: which samples form an execution, and how one is selected."""

import pytest

from ash_files import EXEC_ID, SQL_ID, execution, without, write_ash
from cases import cases
from spillcast.errors import EvidenceAmbiguous, InputError
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.ash_profile import check_single_execution, executions, hints
from spillcast.evidence.selection import Filter

HOUR_S = 3600
NEXT = EXEC_ID + 1


def reported(path, chosen=None):
    """Statement, number, instance, session, samples and elapsed seconds of each execution."""
    ash = read_ash(path) if chosen is None else read_ash(path, chosen)
    return [
        (item.sql_id, item.exec_id, item.instance, item.session, item.samples, item.elapsed_s)
        for item in executions(ash)
    ]


FIRST = (SQL_ID, EXEC_ID, 1, 35, 773, 773)


@cases(
    ("other", "expected"),
    [
        ({"sql_exec_id": NEXT}, (SQL_ID, NEXT, 1, 35)),
        ({"sql_id": "other"}, ("other", EXEC_ID, 1, 35)),
        ({"inst_id": 2}, (SQL_ID, EXEC_ID, 2, 35)),
        ({"session_id": 99}, (SQL_ID, EXEC_ID, 1, 99)),
        ({}, (SQL_ID, EXEC_ID, 1, 35)),
    ],
)
def test_two_executions_are_separated(other, expected, tmp_path):
    """Executions an hour apart are not a run of 1 h 03 min; simultaneous ones are separate, too."""
    second = execution(163, after_s=HOUR_S, **other)
    path = write_ash(tmp_path / "ash.csv", execution(773), second)
    assert reported(path) == [FIRST, (*expected, 163, 163)]
    if other:
        beside = execution(163, after_s=300, **other)
        path = write_ash(tmp_path / "beside.csv", execution(773), beside)
        assert reported(path) == [FIRST, (*expected, 163, 163)]


def test_several_executions_are_listed_and_not_forecast(tmp_path):
    second = execution(163, after_s=HOUR_S, sql_exec_id=NEXT)
    ash = read_ash(write_ash(tmp_path / "ash.csv", execution(773), second))
    with pytest.raises(EvidenceAmbiguous, match="the samples are of 2 executions") as caught:
        check_single_execution(ash)
    assert caught.value.hint.startswith("choose one with --exec-id, --since and --until")
    _, heading, *rows = caught.value.message.splitlines()
    assert [row.split() for row in rows] == [
        ["2024-09-03", "20:26:02", "12", "min", "53", "s", "773", SQL_ID, str(EXEC_ID), "1", "35"],
        ["2024-09-03", "21:26:02", "2", "min", "43", "s", "163", SQL_ID, str(NEXT), "1", "35"],
    ]
    assert heading.split() == [
        *("began", "lasted", "samples", "sql", "exec", "id", "instance", "session")
    ]


def test_the_longest_of_many_executions_are_listed(tmp_path):
    many = [execution(n, after_s=100 * n, sql_exec_id=EXEC_ID + n) for n in range(1, 15)]
    with pytest.raises(EvidenceAmbiguous) as caught:
        check_single_execution(read_ash(write_ash(tmp_path / "ash.csv", *many)))
    _, _, *rows, more = caught.value.message.splitlines()
    assert [int(row.split()[-3]) - EXEC_ID for row in rows] == [*range(14, 6, -1)]
    assert more.strip() == "and 6 more"


@cases(
    ("chosen", "elapsed_s"),
    [
        (Filter(exec_id=EXEC_ID), 773),
        (Filter(exec_id=NEXT), 163),
        (Filter(since="21:00"), 163),
        (Filter(since="2024-09-03 21:26:02"), 163),
        (Filter(until="21:00:00"), 773),
        (Filter(since="20:30:02", until="20:31:01"), 60),
    ],
)
def test_options_select_an_execution(chosen, elapsed_s, tmp_path):
    second = execution(163, after_s=HOUR_S, sql_exec_id=NEXT)
    path = write_ash(tmp_path / "ash.csv", execution(773), second)
    [item] = reported(path, chosen)
    assert item[-1] == elapsed_s
    check_single_execution(read_ash(path, chosen))


@cases(
    ("chosen", "message", "hint"),
    [
        (Filter(since="noon"), "--since 'noon' is not a time", "2024-09-03 20:26:02"),
        (
            Filter(until="2024-09-03 20:00"),
            "no sample lies between",
            "20:26:02 to 2024-09-05 02:00:22",
        ),
        (
            Filter(since="20:30"),
            "--since 20:30: the evidence is of several days",
            "the day too",
        ),
        (Filter(exec_id=7), "no sample has SQL_EXEC_ID 7", str(EXEC_ID)),
    ],
)
def test_selections_without_a_unique_match_are_refused(chosen, message, hint, tmp_path):
    night = execution(11, after_s=20_050 + 24 * HOUR_S)
    path = write_ash(tmp_path / "ash.csv", execution(3), night)
    with pytest.raises(InputError, match=message) as caught:
        read_ash(path, chosen)
    assert hint in caught.value.hint


@cases(("since", "seconds"), [("20:26:03", 13), ("20:30", 11), ("02:00:15", 8)])
def test_a_time_without_a_date_takes_the_day_that_has_it(since, seconds, tmp_path):
    path = write_ash(tmp_path / "ash.csv", execution(3), execution(11, after_s=20_050))
    assert read_ash(path, Filter(since=since)).samples.num_rows == seconds


@cases("known", [True, False])
def test_a_session_and_its_workers_are_one_execution(known, tmp_path):
    """Workers on two instances; the coordinator is session 35 of the second instance."""
    served = {"qc_session_id": 35, "sql_exec_start": "2024-09-03 20:26:02"}
    served |= {"qc_instance_id": 2} if known else {}
    workers = [
        execution(60, after_s=n, session_id=50 + n, inst_id=1 + n % 2, **served) for n in range(4)
    ]
    alone = execution(70, inst_id=2)
    path = write_ash(tmp_path / "ash.csv", alone, *workers)
    [item] = executions(read_ash(path))
    assert (item.instance, item.session, item.sessions, item.samples) == (2, 35, 5, 310)
    # Workers of another coordinator are another execution.
    others = [execution(60, session_id=70 + n, qc_session_id=36, sql_exec_id=NEXT) for n in (1, 2)]
    both = write_ash(tmp_path / "both.csv", alone, *workers, *others)
    assert [item.sessions for item in executions(read_ash(both))] == [5, 2]


def test_samples_without_a_number_belong_to_the_only_execution(tmp_path):
    """A statement has no number while it is parsed."""
    parsed = execution(2, sql_exec_id="", sql_exec_start="")
    path = write_ash(tmp_path / "ash.csv", parsed, execution(70, after_s=2))
    assert reported(path) == [(SQL_ID, EXEC_ID, 1, 35, 72, 72)]


def test_samples_without_a_statement_belong_to_the_surrounding_execution(tmp_path):
    nothing = {"sql_id": "", "sql_exec_id": "", "sql_exec_start": ""}
    inside = execution(1, after_s=100, **nothing)
    run = [row for row in execution(200) if row["SAMPLE_TIME"] != inside[0]["SAMPLE_TIME"]]
    path = write_ash(tmp_path / "ash.csv", run, inside)
    assert reported(path) == [(SQL_ID, EXEC_ID, 1, 35, 200, 200)]
    outside = execution(1, after_s=500, **nothing)
    path = write_ash(tmp_path / "more.csv", run, outside)
    assert [item[0] for item in reported(path)] == [SQL_ID, None]


FEW = without("SQL_EXEC_ID", "SQL_EXEC_START", "QC_SESSION_ID", "QC_INSTANCE_ID")


def test_exports_without_execution_columns_are_one_execution_and_name_gaps(tmp_path):
    second = execution(163, after_s=HOUR_S, session_id=99)
    ash = read_ash(write_ash(tmp_path / "ash.csv", execution(773), second, columns=FEW))
    check_single_execution(ash)
    assert [item.elapsed_s for item in executions(ash)] == [HOUR_S + 163]
    [hint] = hints(ash)
    assert hint.startswith("no sample between 2024-09-03 20:38:54 and 2024-09-03 21:26:02 (47 min")
    assert "--until and --since" in hint


@cases(("gap_s", "answer"), [(59, False), (61, True)])
def test_a_gap_of_a_minute_is_reported(gap_s, answer, tmp_path):
    later = execution(200, after_s=199 + gap_s)
    ash = read_ash(write_ash(tmp_path / "ash.csv", execution(200), later, columns=FEW))
    assert bool(hints(ash)) == answer


def test_gaps_are_reported_and_steady_samples_are_not(tmp_path):
    steady = write_ash(tmp_path / "steady.csv", execution(200), columns=FEW)
    assert hints(read_ash(steady)) == []
    waits = [row for row in execution(200) if row["EVENT"]]
    # Half of the time is missing: the samples on CPU.
    assert len(hints(read_ash(write_ash(tmp_path / "waits.csv", waits)))) == 1
    # The start time shows a single execution; in the hour a client may have fetched slowly.
    later = execution(20, after_s=HOUR_S, sql_exec_start="2024-09-03 20:26:02")
    known = write_ash(tmp_path / "known.csv", execution(200), later)
    assert len(hints(read_ash(known))) == 1
    assert len(executions(read_ash(known))) == 1


def test_statements_without_execution_numbers_are_separated(tmp_path):
    other = execution(163, sql_id="other")
    path = write_ash(tmp_path / "ash.csv", execution(773), other, columns=FEW)
    assert [item[0] for item in reported(path)] == [SQL_ID, "other"]
    assert [item[0] for item in reported(path, Filter(sql_id="other"))] == ["other"]


def test_until_a_second_includes_its_samples(tmp_path):
    rows = [row | {"SAMPLE_TIME": row["SAMPLE_TIME"] + ".412"} for row in execution(10)]
    chosen = read_ash(write_ash(tmp_path / "ash.csv", rows), Filter(until="20:26:05"))
    # The samples of 20:26:02 to 20:26:05.
    assert chosen.samples.num_rows == 4
