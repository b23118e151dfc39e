"""A recorded command is run again for a while with its temp files elsewhere; nothing is left."""

import json
import os
import random
import shlex
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from cases import cases, nightly
from emulator import skip_without_fuse
from harness import (
    EXACT,
    completed,
    make_places,
    only_line,
    ordinary_user,
    spill_in,
    spillcast,
    started,
    until,
)
from spillcast.errors import RehearsalFailed, RehearsalRefused, SpillTooLarge
from spillcast.recording import Recording
from spillcast.recording.recording import WrittenBytes
from spillcast.storage.emulation import emulate
from spillcast.storage.free_space import check_free_space
from spillcast.storage.model import fixed_behaviour
from spillcast.storage.observed import Rehearsal
from spillcast.storage.rehearse import (
    LONGER_HINT,
    RUN_HINT,
    command_to_run,
    reads_only,
    rehearse_command,
    writing_word,
)

#: The latency of an operation on the slow storage.
OPERATION_S = 0.004
#: The number of operations of the spill program with these arguments.
WRITES, READS = 150, 150
#: For forecasts of which the rehearsal is examined: the storage is probed, too.
BRIEF_PROBE = ("--budget", "1s")


def spilling(places, *more):
    counts = ("--writes", WRITES, "--reads", READS)
    return spill_in(places, *counts, *more)


def recorded(places, *command, under=(), options=("--capture", EXACT)):
    output = places.root / "run.spill"
    words = ("record", "--force", *options, "-o", output, "--", *command)
    completed(*words, env=places.env, under=under)
    return Recording.open(output)


@contextmanager
def slow_directory(places):
    skip_without_fuse()
    mountpoint, backing = places.root / "slow", places.root / "backing"
    mountpoint.mkdir()
    backing.mkdir()
    with emulate(fixed_behaviour(OPERATION_S, OPERATION_S), mountpoint, backing):
        yield mountpoint


@pytest.fixture
def slow(open_places):
    """A slow directory beside those of one test."""
    with slow_directory(open_places) as mountpoint:
        yield mountpoint


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A recorded run, its places, and a slow directory in which nothing may remain."""
    places = make_places(tmp_path_factory.mktemp("ran"))
    with slow_directory(places) as mountpoint:
        yield SimpleNamespace(
            places=places, slow=mountpoint, recording=recorded(places, *spilling(places))
        )


def left_over(places):
    """Names in the directories that a rehearsal uses, except for those of the recorded run."""
    names = [*places.temp.iterdir(), *(places.root / "backing").iterdir()]
    return {path.name for path in names} - {"spill"}


def running(word):
    """Processes with a word among their arguments."""
    matches = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            matches += [int(entry.name)] if str(word).encode() in arguments else []
    return matches


def rehearse(recording, slow, tmp_path, duration_s, **options):
    folder = tmp_path / "rehearsals"
    folder.mkdir(exist_ok=True)
    return rehearse_command(recording, slow, duration_s, folder, confirmed=True, **options)


def rehearsed_start(ran, tmp_path, command):
    """Rehearses the first seconds: more of them where a busy machine had no temp I/O in two."""
    for duration_s in (2.0, 8.0, 32.0):
        with suppress(RehearsalFailed):
            return duration_s, rehearse(
                ran.recording, ran.slow, tmp_path, duration_s, command=command
            )
    raise AssertionError("no temp I/O in 32 s")


def test_a_rehearsal_of_the_whole_command(ran, tmp_path):
    recording = ran.recording
    before = (ran.places.temp / "spill").read_bytes()
    matches = []
    done = rehearse(recording, ran.slow, tmp_path, 60.0, notify=matches.append)
    value = Rehearsal.of(done)
    assert value.ended
    assert done.meta.temp.operations == WRITES + READS == recording.meta.temp.operations
    assert done.elapsed_s > (WRITES + READS) * OPERATION_S
    assert all(group.mean_s >= OPERATION_S for group in value.groups.values())
    # The message before the start: the command, where its temp files go, and the time limit.
    assert len(matches) == 1
    assert all(text in matches[0] for text in ("--writes 150", str(ran.slow), "60"))
    assert (ran.places.temp / "spill").read_bytes() == before
    assert left_over(ran.places) == set()


def test_record_keeps_a_rehearsal_that_forecast_uses(open_places, slow):
    """It is saved with the recording, and removed when the same is recorded again."""
    output = open_places.root / "run.spill"
    words = ("--rehearse", slow, "--json", "-o", output, "--", *spilling(open_places))
    done = completed("record", *words, env=open_places.env)
    assert str(slow) in done.stderr
    assert len(list((output / "rehearsals").iterdir())) == 1
    result = spillcast("forecast", output, "--to", slow, *BRIEF_PROBE, "--json")
    assert json.loads(result.stdout)["rehearsed"]["operations"] == WRITES + READS
    elsewhere = spillcast("forecast", output, "--to", "latency:1ms", "--json")
    assert json.loads(elsewhere.stdout)["rehearsed"] is None
    assert left_over(open_places) == set()
    recorded(open_places, *spilling(open_places))
    assert not (output / "rehearsals").exists()


def test_only_commands_started_by_record_are_rehearsed(tmp_path):
    refused = spillcast("record", "--pid", "1", "--rehearse", tmp_path)
    assert refused.returncode == 2
    assert "--rehearse" in refused.stderr
    assert "forecast --rehearse" in refused.stderr
    nowhere = spillcast("record", "--rehearse", tmp_path / "none", "--", "true")
    assert "there is no such directory" in nowhere.stderr


def test_a_rehearsal_of_the_first_seconds(ran, tmp_path):
    """The whole run would take minutes; the rehearsal covers its start."""
    again = spilling(ran.places, "--pause", 0.5)
    duration_s, done = rehearsed_start(ran, tmp_path, again)
    value = Rehearsal.of(done)
    assert not value.ended
    assert 1 <= done.meta.temp.operations <= 1 + duration_s / 0.5
    assert {op for op, _ in value.groups} == {"write"}
    source = ran.recording.temp_waits["bytes"].to_pylist()
    done_bytes = done.temp_waits["bytes"].to_pylist()
    assert done_bytes == source[: done.meta.temp.operations]
    assert left_over(ran.places) == set()
    assert running("0.5") == []


def test_a_child_in_another_session_is_ended_too(ran, tmp_path):
    seconds = f"{random.Random(os.getpid()).uniform(1e5, 2e5):.3f}"
    program = " ".join(spilling(ran.places))
    again = ["sh", "-c", f"trap '' TERM; setsid sleep {seconds} & {program}; wait; sleep 9"]
    _, done = rehearsed_start(ran, tmp_path, again)
    assert done.meta.temp.operations > 0
    assert running(seconds) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, *nightly(signal.SIGINT, signal.SIGTERM)])
def test_a_killed_rehearsal_leaves_nothing(ran, how):
    pause = f"0.5{random.Random(os.getpid() + how).randrange(1 << 30)}"
    again = " ".join(spilling(ran.places, "--pause", pause))
    requested = ("--to", ran.slow, "--rehearse", "100s", "--command", again)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    forecaster = started("forecast", ran.recording.path, *requested, env=ran.places.env, **pipes)
    until(lambda: list((ran.places.root / "backing").glob("*/0/spill")), "the rehearsal")
    time.sleep(random.Random(how).uniform(0, 0.5))
    forecaster.send_signal(how)
    forecaster.communicate()
    until(lambda: not running(pause), "the end of the command")
    until(lambda: not left_over(ran.places), "the end of its directory")


def test_a_forecast_with_a_rehearsal_names_its_command(ran):
    again = ("--command", shlex.join(map(str, spilling(ran.places))))
    requested = ("--to", ran.slow, "--rehearse", "60s", *BRIEF_PROBE, "--json")
    result = completed("forecast", ran.recording.path, *requested, *again)
    document = json.loads(result.stdout)
    assert document["rehearsed"]["ended"]
    assert document["rehearsed"]["operations"] == WRITES + READS
    assert document["forecast_s"] == pytest.approx(document["rehearsed"]["elapsed_s"], rel=0.02)
    assert sum(term["forecast_s"] for term in document["terms"]) == pytest.approx(
        document["forecast_s"]
    )
    assert "--writes 150" in result.stderr


@pytest.mark.nightly
def test_an_ordinary_user_can_rehearse(open_places, slow, tmp_path):
    """Needs a user namespace; if the system refuses it, the refusal says so.

    Perf events of an ordinary user miss calls on files that are closed before their names are read,
    which happens on a busy machine; the preload library misses none.
    """
    open_places.root.chmod(0o777)
    preload = ("--capture", "preload")
    recording = recorded(
        open_places, *spilling(open_places), under=ordinary_user(), options=preload
    )
    fast = open_places.root / "fast"
    fast.mkdir()
    fast.chmod(0o777)
    again = shlex.join(map(str, spilling(open_places)))
    requested = ("--to", fast, "--rehearse", "60s", "--json", "--command", again)
    result = spillcast(
        "forecast", recording.path, *requested, under=ordinary_user(), env=open_places.env
    )
    document = json.loads(result.stdout)
    if document["refused"]:
        assert "user namespaces" in document["refused"]
    else:
        assert 0 < document["rehearsed"]["operations"] <= WRITES + READS
    assert list(fast.iterdir()) == []


@cases(
    ("arguments", "word"),
    [
        (["duckdb", "dw.db", "-c", "select 1 from t"], None),
        (["duckdb", "-readonly", "/data/create/dw.db", "-c", "select updated from t"], None),
        (["duckdb", "dw.db", "-c", "insert into t select 1"], "insert"),
        (["psql", "-c", "with x as (DELETE from t returning *) select * from x"], "DELETE"),
        (["duckdb", "dw.db", "-c", "copy (select 1) to 'x.csv'"], "copy"),
        (["sh", "-c", "duckdb dw.db 'create table x as from t'"], "create"),
        (["sh", "-c", "duckdb /merge/update/pre-create/copy.db 'from t'"], None),
        (["sh", "-c", "duckdb dw.db 'select 1;/**/update t set x = 1'"], "update"),
        (["sh", "-c", "duckdb dw.db 'create/**/table x as from t'"], "create"),
        (["duckdb", "dw.db", "-c", "select main.nextval('s')"], "nextval"),
        (["sqlite3", "dw.db", "select 1-writefile('x', 'y')"], "writefile"),
        (["psql", "-cUPDATE t set x = 1"], "UPDATE"),
    ],
)
def test_the_word_by_which_a_command_writes_is_found(arguments, word):
    assert writing_word(arguments) == word


@cases(
    ("command", "reads"),
    [
        ("duckdb -readonly dw.db -c 'select 1 from t'", True),
        ("/bin/duckdb dw.db -c 'set threads = 1' -c 'with x as (values (1)) from x'", True),
        ("duckdb dw.db -f reads.sql", True),
        ("duckdb dw.db -f writes.sql", False),
        ("duckdb dw.db -f none.sql", False),
        ("duckdb dw.db -c 'select 1; .output rows.txt'", False),
        ("duckdb dw.db", False),
        ("duckdb dw.db \"select '--' as x; attach 'new.db'\"", False),
        ("duckdb dw.db 'select 1 as \"--\"; attach new'", False),
        ("duckdb dw.db \"select e'\\\\'--' as x; attach 'new.db'\"", False),
        ("duckdb dw.db 'select $$--$$ as x; attach new'", False),
        ("duckdb dw.db \"select nextval('ids')\"", False),
        ("duckdb dw.db \"pragma create_fts_index('t', 'id', 'text')\"", False),
        ("sqlite3 dw.db 'select * from t order by x'", True),
        ("sqlite3 dw.db 'pragma user_version = 4; select 1'", False),
        ("sqlite3 dw.db \"select writefile('rows.txt', x) from t\"", False),
        # A function of the server may write, and the server spills.
        ("psql -c 'select refresh()'", False),
        ("duckdb dw.db 'select * into x from t'", False),
        ("duckdb dw.db -c 'replace into t values (1)'", False),
        ("duckdb dw.db -c 'select 1; call load()'", False),
        ("./etl.sh", False),
        ("python job.py", False),
        ("sh -c 'duckdb -c \"select 1\"'", False),
    ],
)
def test_commands_known_to_only_read_are_recognised(tmp_path, monkeypatch, command, reads):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reads.sql").write_text("-- delete nothing\nselect 1;\n")
    (tmp_path / "writes.sql").write_text("select 1;\ninsert into t values (1);\n")
    assert reads_only(shlex.split(command)) is reads


def test_a_recorded_command_that_may_write_is_not_run_again(spilled, tmp_path):
    requested = ("--to", tmp_path, "--rehearse", "1s", "--json")
    refused = spillcast("forecast", spilled.path, *requested)
    assert refused.returncode == 3
    assert "--command" in json.loads(refused.stdout)["refused"]
    assert not list(tmp_path.glob("spillcast-*"))


def test_a_writing_statement_in_a_script_is_found(tmp_path):
    script = tmp_path / "q.sql"
    script.write_text("select 1;\nvacuum;")
    assert writing_word(["psql", "-f", str(script)]) == "vacuum"


def test_a_writing_or_failing_command_is_refused(spilled, tmp_path):
    recording = Recording.open(spilled.path)
    command = [*recording.meta.engine.command]
    with pytest.raises(RehearsalRefused, match="contains 'drop'"):
        rehearse(recording, tmp_path, tmp_path, 1.0, command=["psql", "-c", "drop table t"])
    among = spilled.places.temp / "table.db"
    among.touch()
    with pytest.raises(RehearsalRefused):
        rehearse(recording, tmp_path, tmp_path, 1.0, command=[*command, str(among)])
    with pytest.raises(RehearsalFailed, match="exited with status 3"):
        rehearse(recording, tmp_path, tmp_path, 9.0, command=["sh", "-c", "exit 3"])
    # More time helps only a command that is still running.
    for words, hint in ((["sleep", "9"], LONGER_HINT), (["true"], RUN_HINT)):
        with pytest.raises(RehearsalFailed, match="no temp I/O was done") as failure:
            rehearse(recording, tmp_path, tmp_path, 0.3, command=words)
        assert failure.value.hint == hint
    assert not list(tmp_path.glob("spillcast-*"))


def test_a_command_with_unknown_words_or_end_is_not_run_again(open_places):
    recording = recorded(open_places, *spilling(open_places), "--seed", "2")
    path = recording.path / "meta.json"
    meta = json.loads(path.read_text())
    for change, words in (
        ({"command": ["psql", "password=***"]}, "secrets"),
        ({"exit_status": None}, "from start to end"),
        ({"command": None}, "not of a command"),
    ):
        path.write_text(json.dumps(meta | {"engine": meta["engine"] | change}))
        with pytest.raises(RehearsalRefused, match=words):
            command_to_run(Recording.open(recording.path), None)


def test_a_spill_too_large_for_the_target_is_not_rehearsed(spilled, tmp_path):
    recording = Recording.open(spilled.path)
    recording.written_bytes = WrittenBytes(1 << 60, 0)
    with pytest.raises(SpillTooLarge):
        check_free_space(recording, tmp_path)


def test_a_command_with_an_open_quote_is_refused(spilled, tmp_path):
    options = ["--rehearse", "1s", "--command", "sh -c 'true"]
    message = only_line(spillcast("forecast", spilled.path, "--to", tmp_path, *options), 2)
    assert "no closing quotation" in message
