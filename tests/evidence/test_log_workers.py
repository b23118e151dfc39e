"""Temp files of parallel workers in a server's log belong to the call of their leader."""

import json

from cases import cases
from spillcast.evidence.postgres.logs import read_logs


def test_files_of_workers_belong_to_the_call_of_their_leader(plan_of):
    """jsonlog names the leader; the elapsed time is that of its call."""
    records = [
        {"timestamp": f"2026-11-26 19:23:5{second}.151 UTC", "pid": pid, "error_severity": "LOG",
         "message": message, "statement": "select 1", **leader}
        for second, pid, message, leader in (
            (4, 526, 'temporary file: path "b/pgsql_tmp526.0", size 4128768', {"leader_pid": 9}),
            (4, 527, 'temporary file: path "b/pgsql_tmp527.0", size 4128768', {"leader_pid": 9}),
            (4, 9, 'temporary file: path "b/pgsql_tmp9.73", size 4128768', {}),
            (5, 9, "duration: 3000.5 ms", {}),
        )
    ]  # fmt: skip
    counts = plan_of("\n".join(map(json.dumps, records)) + "\n")
    assert (counts.writes.bytes, counts.elapsed_s) == (3 * 4128768, 3.0005)
    assert counts.processes_bounds.upper == 3


#: A statement whose leader and worker wrote a file each, with 2.5 s of the leader.
WORKERS = """\
2026-11-30 10:00:04 UTC [526]: {worker} LOG:  temporary file: path "b/pgsql_tmp526.0", size 819200
2026-11-30 10:00:04 UTC [526]: {worker} STATEMENT:  select 1 from a
2026-11-30 10:00:05 UTC [9]: {leader} LOG:  temporary file: path "b/pgsql_tmp9.73", size 819200
2026-11-30 10:00:05 UTC [9]: {leader} STATEMENT:  select 1 from a
2026-11-30 10:00:05 UTC [9]: {leader} LOG:  duration: 2500.5 ms  statement: select 1 from a
"""
SAME_CALL = (
    "2026-11-30 10:00:05 UTC [10]: {leader} LOG:  duration: 2400.0 ms  statement: select 1 from a\n"
)


@cases(
    ("worker", "leader", "more", "calls"),
    [
        ("user=,db=", "user=u,db=d", "", 1),
        ("parallel worker", "client backend", "", 1),
        # Another client may have run the same statement.
        ("user=u,db=d", "user=u,db=d", "", 2),
        ("", "", "", 2),
        # Only the ID of the session differs, which may have no letter.
        ("69671011.4190", "69671011.4e90", "", 2),
        # The worker may be of either call.
        ("user=,db=", "user=u,db=d", SAME_CALL, 2),
        # The call began after the file was removed.
        ("user=,db=", "user=u,db=d", "late", 2),
    ],
)
def test_prefixes_show_whose_workers_wrote_files(tmp_path, worker, leader, more, calls):
    text = WORKERS.format(worker=worker, leader=leader)
    if more == "late":
        text = text.replace("2500.5", "20.5").replace("10:00:04", "10:00:02")
    else:
        text += more.format(leader=leader)
    (path := tmp_path / "a.log").write_text(text)
    files = read_logs(path).temp
    assert len({file.call for file in files}) == calls
    assert {file.elapsed_s for file in files} >= {0.0205 if more == "late" else 2.5005}
