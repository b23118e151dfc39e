"""A recorded SELECT runs again for some time in a read-only session, with other temp storage."""

import json
from types import SimpleNamespace

import pytest

from cases import cases
from emulator import skip_without_fuse
from harness import completed, only_line, spillcast
from postgres_rig import JOIN, OPERATION_S
from spillcast.engines.postgres.live import rehearse_postgres
from spillcast.engines.sampler import Sampler
from spillcast.errors import Refusal, TargetUnsuited
from spillcast.recording import Recording
from spillcast.storage.observed import Rehearsal

SETTINGS = ["work_mem=128kB", "max_parallel_workers_per_gather=0"]


@pytest.fixture(scope="module")
def explained(newest, tmp_path_factory):
    """The join, recorded with its temp files on the server's storage."""
    output = tmp_path_factory.mktemp("recorded") / "run.spill"
    given = [word for setting in SETTINGS for word in ("--set", setting)]
    completed("record", "--postgres", newest.dsn, "--explain", JOIN, "-o", output, *given)
    return Recording.open(output)


@pytest.fixture
def slow(newest):
    """The path of the tablespace ``slow``."""
    skip_without_fuse()
    return newest.room / "slow"


def sessions(newest):
    """Active sessions of other clients, and temp files in the tablespace ``slow``."""
    with newest.connect() as connection:
        query = "select count(*) from pg_stat_activity where query like 'explain%%'"
        files = "select count(*) from pg_tablespace t, pg_ls_tmpdir(t.oid) where spcname = 'slow'"
        return connection.execute(query).fetchone()[0], connection.execute(files).fetchone()[0]


def test_a_complete_rehearsal_has_the_same_blocks(newest, explained, slow, tmp_path):
    matches = []
    done = rehearse_postgres(newest.dsn, explained, slow, 60.0, tmp_path, notify=matches.append)
    value = Rehearsal.of(done)
    assert value.ended
    # The plan and the number of batches are equal, so are the blocks, all in the slow tablespace.
    assert done.meta.temp.operations == pytest.approx(explained.meta.temp.operations, rel=0.01)
    # The server may read a block again that is in the page cache.
    groups = value.groups.values()
    waited_s = sum(group.count * group.mean_s for group in groups)
    assert waited_s >= 0.9 * OPERATION_S * sum(group.count for group in groups)
    assert done.meta.engine.settings["work_mem"] == "128kB"
    assert "read-only" in matches[0]
    assert JOIN in matches[0]


def test_a_rehearsal_of_the_first_seconds(newest, explained, slow, tmp_path, monkeypatch):
    # As on a machine without an idle CPU, the session is not sampled meanwhile.
    monkeypatch.setattr(Sampler, "_tick", lambda _sampler: None)
    done = rehearse_postgres(newest.dsn, explained, slow, 0.8, tmp_path)
    assert not Rehearsal.of(done).ended
    assert 0 < done.meta.temp.operations < explained.meta.temp.operations
    assert sessions(newest) == (0, 0)


def test_a_forecast(newest, explained, slow):
    requested = ("--rehearse", "60s", "--postgres", newest.dsn, "--json")
    result = completed("forecast", explained.path, "--to", slow, *requested)
    document = json.loads(result.stdout)
    assert document["rehearsed"]["ended"]
    assert JOIN in result.stderr


def test_a_rehearsal_without_the_server_is_refused(explained, slow):
    result = spillcast("forecast", explained.path, "--to", slow, "--rehearse", "1s", "--json")
    assert result.returncode == 3
    assert "--postgres DSN" in json.loads(result.stdout)["refused"]


def test_a_rehearsal_without_a_tablespace_is_refused(newest, explained, tmp_path):
    with pytest.raises(TargetUnsuited) as raised:
        rehearse_postgres(newest.dsn, explained, tmp_path, 1.0, tmp_path)
    assert f"location '{tmp_path}'" in raised.value.hint


@cases(
    ("statement", "why"),
    [
        ("delete from t", "begins with 'delete'"),
        ("/* select */ create table x as select 1", "begins with 'create'"),
        ("with d as (delete from t returning *) select * from d", "read-only|read only"),
        ("select * from t for update", "read-only"),
        ("select set_config('transaction_read_only', 'off', false); delete from t", "multiple"),
        ("select pg_terminate_backend(1)", "calls pg_terminate_backend"),
        ("select pg_advisory_lock(1)", "calls pg_advisory_lock"),
    ],
)
def test_statements_that_may_write_are_refused(newest, explained, slow, tmp_path, statement, why):
    with pytest.raises(Refusal, match=why):
        rehearse_postgres(newest.dsn, explained, slow, 5.0, tmp_path, statement=statement)
    with newest.connect() as connection:
        assert connection.execute("select count(*) from t").fetchone()[0] > 0


def test_a_statement_truncated_by_the_server_is_not_run(newest, tmp_path):
    """The server truncates before a character that does not fit, here 3 bytes earlier."""
    statement = f"select {1:<5} -- {chr(0x1D11E) * 400}"
    with newest.connect() as observer, newest.connect() as session:
        session.execute(statement)
        query = "select query from pg_stat_activity where pid = %s"
        (shown,) = observer.execute(query, [session.info.backend_pid]).fetchone()
        assert len(shown.encode()) == 1023 - 3
    engine = SimpleNamespace(query=shown, sql="", settings={})
    recording = SimpleNamespace(meta=SimpleNamespace(engine=engine))
    with pytest.raises(Refusal, match="only the beginning"):
        rehearse_postgres(newest.dsn, recording, tmp_path, 1.0, tmp_path)


def test_inconsistent_options_are_refused(spilled):
    result = spillcast("forecast", spilled.path, "--to", "latency:1ms", "--rehearse", "1s")
    assert "needs a directory" in only_line(result, 2)
    result = spillcast("forecast", spilled.path, "--to", "latency:1ms", "--command", "x")
    assert "--command goes with --rehearse" in only_line(result, 2)
